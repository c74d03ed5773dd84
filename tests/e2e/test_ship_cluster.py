"""tracesmith-ship and a real ClickHouse: 18.16 as 2 shards of 2 replicas. Whatever happens to hosts, tables and nodes, every row of
every host's store is there once in the end."""
import concurrent.futures
import contextlib
import itertools
import os
import shutil
import subprocess
import time
import unittest

import clickhouse
import fleet_stores
import tracesmith
from fleet_stores import Host, assert_there_once
from tracesmith import wait_for


LAST = b"INTO%20shipped.host%20"  # the last table of a minute


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = clickhouse.cluster()
        cls.server = cls.nodes.node[0][0]
        made = fleet_stores.init(cls.server, "--cluster", "fleet")
        assert made.code == 0, made.err
        cls.template = fleet_stores.make_template()
        cls.numbers = itertools.count()

    def host(self, name, minutes=3, urls=None, **more):
        host = Host(name, next(self.numbers), minutes, **more).make(self.template)
        self.addCleanup(host.close)
        host.daemon.start()
        return host.configure(*(urls or [node.url for node in self.nodes.nodes()]))

    def held(self, name, minute, keep=False, **more):
        """A host whose shipper cannot send the last table of that minute: it is killed, or kept."""
        proxy = clickhouse.Proxy(self.server.port)
        self.addCleanup(proxy.close)
        host = self.host(name, urls=[proxy.url], **more)
        proxy.hold_from(LAST, minute)
        shipper = self.started(host)
        self.assertTrue(proxy.held.wait(tracesmith.DEADLINE))
        if not keep:
            shipper.kill()
            shipper.wait()
        return host, proxy

    def started(self, host):
        shipper = host.start()
        for cleanup in (shipper.wait, shipper.kill):
            self.addCleanup(cleanup)
        return shipper

    def ended(self, *shippers):
        """All is sent. On a busy machine servers lose ZooKeeper for a moment; then a shipper tries again."""
        for shipper in shippers:
            if shipper.wait(120):
                wait_for("what failed once to go well", lambda: subprocess.run(shipper.args, check=False).returncode == 0)

    def ship(self, host):
        self.ended(host.start("--once"))
        self.nodes.settled()

    def test_hosts(self):
        """Each beside the others, as most of it is waiting for clocks."""
        stories = (self.names, self.two_shippers, self.a_name_used_twice, self.away_for_longer_than_the_store_keeps,
                   self.away_until_its_boot_is_gone, self.a_wall_clock_is_set)
        with concurrent.futures.ThreadPoolExecutor(len(stories)) as pool:
            for story, told in [(story, pool.submit(story)) for story in stories]:
                with self.subTest(story.__name__):
                    told.result()

    def names(self):
        """Of a host, its programs, jobs and kernels."""
        name = fleet_stores.ODD.replace("\n", "") + "end"
        host = self.host(name)
        self.ship(host)
        assert_there_once(self, self.server, [host])
        kernels = {row["name"] for row in fleet_stores.query(self.server, "kernels", "--host", name, "--since", "1h")}
        self.assertEqual(kernels, {row["text"] for row in host.daemon.sql("SELECT text FROM name")})
        [job] = fleet_stores.query(self.server, "jobs", "--since", "1h", "--job", host.job)
        self.assertEqual((job["hosts"], job["ranks"]), (1, 2))

    def two_shippers(self):
        """One state folder has one; those of copies of it do not get in each other's way."""
        one, other = self.host("twin", minutes=2), self.host("other", minutes=2)
        self.started(one)
        wait_for("the first minutes", lambda: int(one.said().get("minutes", 0)) >= 2)
        refused = one.ship()
        self.assertEqual((refused.returncode, refused.stderr), (1, f"Another tracesmith-ship uses {one.state}\n"))
        # Of the same host, and of another one, whose boots are not those of the cursor.
        copy = one.state + ".copy"
        shutil.copytree(one.state, copy)
        shutil.copytree(one.state, other.state)
        self.ended(one.start("--once", state=copy), other.start("--once"))
        self.nodes.settled()
        assert_there_once(self, self.server, [one, other], again=True)

    def a_name_used_twice(self):
        """By hosts with boots of their own: `query hosts` says so, and their rows stay apart."""
        first, second = self.host("name", minutes=1), self.host("name", minutes=2)
        with open(second.state + ".id", "w") as file:
            file.write("0123456789abcdef0123456789abcdef\n")
        elsewhere = ["unshare", "-m", "sh", "-c", f'mount --bind {second.state}.id /etc/machine-id && exec "$@"', "sh"]
        self.ended(first.start("--once"), second.start("--once", prefix=elsewhere))
        self.nodes.settled()
        [row] = fleet_stores.query(self.server, "hosts", "--host", "name")
        self.assertEqual(row["machines"], 2)
        for table in ("rollup", "work", "busy"):
            self.assertEqual(fleet_stores.told(self.server, table, "name"), sorted(first.stored(table) + second.stored(table)))

    def make_calls(self, kind):
        for table in ("rollup_local ON CLUSTER fleet", "rollup"):
            self.server.ask(f"ALTER TABLE shipped.{table} MODIFY COLUMN calls {kind}")

    def test_a_table_is_changed_meanwhile(self):
        """Rows have no types: what was checked once is checked again before the next minute."""
        host, proxy = self.held("changed", 1, keep=True)
        self.make_calls("Float64")  # as long as ours, so that its bytes would do
        proxy.go_on()
        wait_for("what is wrong", lambda: "shipped.rollup.calls" in host.said()["trouble"])
        self.assertIn("is not UInt64: somebody changed the table by hand", host.said()["trouble"])
        self.make_calls("UInt64")
        wait_for("the rest", lambda: not host.said()["trouble"] and int(host.said()["minutes"]) >= 3)
        self.nodes.settled()
        assert_there_once(self, self.server, [host])

    def test_a_column_is_dropped_and_one_added(self):
        """As by hand, or by a tsctl before ours and one after it."""
        host = self.host("dropped", urls=[self.server.url])
        for table in ("work_local ON CLUSTER fleet", "work"):
            self.server.ask(f"ALTER TABLE shipped.{table} ADD COLUMN later UInt8")
        self.server.ask("ALTER TABLE shipped.work DROP COLUMN delay_ns")
        result = host.ship()
        self.assertEqual((result.returncode, result.stderr.count("shipped.work.delay_ns: run 'tsctl fleet init'")), (1, 1), result.stderr)
        self.server.ask("ALTER TABLE shipped.work ADD COLUMN delay_ns UInt64")
        self.ship(host)
        assert_there_once(self, self.server, [host])

    def loss(self, host):
        return [row["count"] for row in fleet_stores.query(self.server, "loss", "--host", host.name, "--since", "1d") if row["reason"] == "retention"]

    def away_for_longer_than_the_store_keeps(self):
        """What is there arrives, and what is gone is told."""
        host, _ = self.held("away", 2, minutes=4, every=30)  # from 2:10 h ago on
        stored = {table: host.stored(table) for table in ("rollup", "work", "busy")}
        host.daemon.stop()
        with open(host.daemon.config, "a") as file:
            file.write(f"[store]\nkeep_age = {int(time.monotonic()) + 55 * fleet_stores.MINUTE}s\n")
        host.daemon.start()
        last = host.first + 3 * 30 * fleet_stores.MINUTE
        wait_for("it to be deleted", lambda: host.daemon.sql("SELECT min(second) AS s FROM (SELECT second FROM rollup UNION ALL SELECT second FROM work"
                                                             " UNION ALL SELECT second FROM busy)") == [{"s": last}])
        self.ship(host.configure(self.server.url))
        for table, rows in stored.items():
            self.assertEqual(fleet_stores.told(self.server, table, "away"), [row for row in rows if row[2] != last - 30 * fleet_stores.MINUTE])
        self.assertEqual(self.loss(host), [59 * fleet_stores.MINUTE])

    def away_until_its_boot_is_gone(self):
        host, _ = self.held("gone", 2, minutes=2, ago=7200)
        before = host.stored("rollup")
        host.daemon.stop()
        # As if the rows were of another boot, an hour later, and nothing were left of the first one.
        with tracesmith.edited(host.daemon.database) as db:
            db.execute("UPDATE boot SET boot_id = ?, wall_offset_ns = wall_offset_ns + 3600000000000 WHERE boot_id = ?", (host.boot[::-1], host.boot))
        host.daemon.start()
        self.ship(host.configure(self.server.url))
        self.assertEqual(fleet_stores.told(self.server, "rollup", "gone"), sorted(before + host.stored("rollup")))
        # From the end of the minutes that were sent.
        self.assertEqual(self.loss(host), [3600 - 2 * fleet_stores.MINUTE])

    def a_wall_clock_is_set(self):
        """Rows have the times that they had, `clocks` says how wrong these are."""
        host = Host("clock", 999, 1, current=True).make(self.template)
        self.addCleanup(host.close)
        host.configure(self.server.url)
        shift = f"LD_PRELOAD={tracesmith.preloadable(os.path.join(tracesmith.BUILD, 'tests', 'e2e', 'libe2e_shifted.so'))}"
        for ahead in (-3600, 2 * 86400):
            host.daemon.start(prefix=["env", shift, f"TS_SHIFTED_S={ahead}"])
            self.ship(host)
            assert_there_once(self, self.server, [host], again=True)
            shutil.rmtree(host.state)  # nor does it know what it told before
            [row] = fleet_stores.query(self.server, "clocks", "--host", "clock")
            self.assertAlmostEqual(row["add_ns"] / 1e9, 3600, delta=max(1.5, row["bound_ns"] / 1e9))
            self.assertEqual((round(row["wall_ns"] / 1e9), row["jumped"]), (0, None))
            [[times]] = self.server.rows("SELECT uniqExact(time) FROM shipped.rollup WHERE host = 'clock'")
            self.assertEqual(int(times), 1)
            if ahead > 0:
                self.ended(host.start("--once", prefix=["env", shift, "TS_SHIFTED_S=90"]))
                [row] = fleet_stores.query(self.server, "clocks", "--host", "clock")
                self.assertEqual((round(row["wall_ns"] / 1e9), round(row["jump_ns"] / 1e9)), (90, 90))
            host.daemon.stop()

    # ClickHouse keeps 30 MiB free for merges.
    def test_zz_a_disk_is_full(self):
        """Of a replica: its partner gets the rows, and it has them, too, when it has room."""
        host = self.host("full", minutes=1)
        self.ship(host)
        [row] = [row for row in self.nodes.node if row[0].rows("SELECT count() FROM shipped.process_local WHERE host = 'full'") != [["0"]]]
        node = row[0]
        node.kill()
        # Only the server sees this mount, which goes with it.
        node.start(["unshare", "-m", "sh", "-c", f"cd {node.directory} && cp -a data data.copy && mount -t tmpfs -o size=96m none data &&"
                    ' mv data.copy/* data && exec "$@"', "sh"]).wait()
        wait_for("its tables", lambda: node.rows("SELECT sum(is_readonly) FROM system.replicas") == [["0"]])
        filler = f"/proc/{node.process.pid}/root/{node.directory}/data/filler"
        with open(filler, "wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass
        later = self.host("full", minutes=2, urls=[node.url])
        wait_for("it to be told", lambda: f"The disk of {node.url} is full: " in later.ship().stderr)
        self.ended(later.configure(node.url, row[1].url).start("--once"))
        os.unlink(filler)
        self.nodes.settled()
        for table in ("rollup", "work", "busy"):
            self.assertEqual(fleet_stores.told(node, table, "full", on="_local"), sorted(host.stored(table) + later.stored(table)))


if __name__ == "__main__":
    if os.geteuid() != 0:
        tracesmith.skip("needs root for BPF")
    clickhouse.finish()
