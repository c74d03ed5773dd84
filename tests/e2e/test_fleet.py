#!/usr/bin/python3
"""A fleet in ClickHouse: tsctl makes the tables and asks them, on one node of 18.16, on a cluster of 2 × 2 nodes with
ZooKeeper, and on 26.7. The hosts are made up."""
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

import clickhouse
import fleet_hosts
import grafana
from tracesmith import BUILD, SOURCE, Result, wait_for

sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
import trace_processor  # noqa: E402

DATABASE, TRACED = "fleet", "traced"
GPUS, MINUTES = 4, 8
# Quotes, a backslash, a tab and a letter of four bytes.
ODD_HOST, ODD_JOB = "gpü'\"\\1\t𝛌", "j'o\\b 𝛌"
SLOW, LATE = 9, 14
STEPS, UNITS = 40, {"ns": 1, "µs": 1000, "ms": 10**6, "s": 10**9}
ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
COLLECTIVES = ("select p.name as who, s.ts + s.dur as left_at from slice s join process_track t on s.track_id = t.id"
               " join process p using (upid) where s.name like 'nccl%' order by s.ts")
ARROWS = "select count(*) as n from flow f join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in where a.name like 'nccl%' and b.name like 'nccl%'"
# What each panel of Grafana's dashboards gives. Those of a window that is over have no rows, but for STANDING.
BY_RANK, LOST = "t lowest median highest", "t reason lost"
PANELS = {
    "clickhouse-fleet": {
        "Hosts": "heard silent", "Busy": "busy", "Jobs": "jobs processes", "Lost": "lost", "GPUs by state": "t state gpus", "Memory": "t kind bytes",
        "Jobs by GPU time": "job hosts processes ranks world_size start busy gpu_hours user command",
        "Hosts, the longest silent first": "host seen_at lag devices boots machines version",
        "Versions": "version linux cuda_driver hosts gpus example", "Lost by reason": LOST, "Out of memory": "time host pid job rank device bytes text"},
    "clickhouse-job": {
        "The job": "hosts ranks world_size running",
        "Stragglers": "job rank host pid verdict z_own z_late minutes slow own_ns median_ns late_ns",
        "Time in collectives, by rank": BY_RANK, "Busy, by rank": BY_RANK, "GPUs by state": "t state gpus", "Memory, by rank": BY_RANK,
        "Collectives": "job name ranks times mean_ns median_ns shortest_ns longest_ns last last_host waited_ns",
        "Ranks": "rank host pid device running copying pending waiting syncing idle held",
        "Kernels": "name hosts times total_ns mean_ns min_ns max_ns slowest slowest_ns",
        "Leaks": "rank host pid verdict kind fn device kept_bytes kept bytes_per_hour certainty site",
        "Price": "rank host pid part cost low high budget watched how", "Lost by reason": LOST, "Out of memory": "time host pid job rank device bytes text"}}
STANDING = {"Hosts", "Jobs", "Lost", "The job", "Hosts, the longest silent first", "Versions"}
OPS = "select category, count(*) as n from slice where category != 'loss' group by category order by category"


def ctl(server, *arguments, database=DATABASE, password=clickhouse.PASSWORD):
    path = os.path.join(server.directory, "password")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(password + "\n")
    environment = dict(os.environ, TRACESMITH_FLEET_URL=f"{server.url}/{database}", TRACESMITH_FLEET_PASSWORD_FILE=path)
    return Result(subprocess.run([os.path.join(BUILD, "tsctl"), "fleet", *map(str, arguments)], env=environment,
                                 capture_output=True, text=True, timeout=300))


class Fleet:
    """What must hold on every server. `start` is the minute in which the made-up hosts begin."""
    cluster, settings = (), {}
    STEPS = ["001-tables.sql", "002-clocks-and-ops.sql", "003-requests.sql", "004-communicators.sql", "005-wall-clocks.sql"]

    @classmethod
    def said(cls):
        return cls.server.said()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.bring_up()
        first = ctl(cls.server, "init", *cls.cluster)
        assert first.code == 0, first.err + cls.said()
        assert [line.split()[1] for line in first.out.splitlines() if line.startswith("applied")] == cls.STEPS, first.out
        cls.settle()
        cls.start = int(time.time()) // 60 * 60 - 60 * (MINUTES + 1)
        hosts = [fleet_hosts.Host(n, 6, cls.start, GPUS, slow={SLOW: 1.15}, late={LATE: 3}) for n in range(6)]
        hosts += [fleet_hosts.Host(n, 2, cls.start, GPUS, name=f"{ODD_HOST}{n}", job=ODD_JOB) for n in range(2)]
        cls.hosts = hosts
        cls.fill(hosts)
        host = hosts[0]
        at = f"{host.key}\t1002"
        now = int(time.time())
        for table, row in (
                ("stack", f"{at}\t77\t{now - 300}\tcache.py:12 insert\t['cuMemAlloc_v2','insert','main']\t5\n"),
                ("growth", f"{at}\t77\tcuMemAlloc_v2\tdevice\t2\t{now - 300}\t{now}\tleak\t97\t123456789\t42\t5000000\t5\n"
                           f"{at}\t78\tcuMemAlloc_v2\tdevice\t2\t{now - 300}\t{now}\thealthy\t97\t1\t1\t0\t5\n"),
                ("loss", f"{at}\t{now - 120}\t99\tring-full\t24\t1\t2\t5\n"),
                ("incident", f"{host.key}\toom\t1\t{now - 50}\t1002\t2\t77\t{(host.first - host.start + now - 50) * 10**9}\t2\t4096"
                             "\tcuMemAlloc_v2 found no memory\t5\n"),
                ("clock", f"{host.key}\tch1\t{host.first * 10**9}\t{host.start}\t{(host.start - host.first) * 10**9}\t0\t300000\t15000\t300000\t0\t5\n")):
            fleet_hosts.insert(cls.server, DATABASE, table, row, **cls.settings)
        cls.communicators(hosts[6:])
        cls.settle()

    @classmethod
    def communicators(cls, hosts):
        """Ranks of one communicator, of which the third comes last, and one that nobody saw made and of which no times are known."""
        rows = []
        for host in hosts:
            for gpu in range(GPUS):
                rank = host.number * GPUS + gpu
                took = 1000000 if rank == 2 else 1500000
                at = f"{host.key}\t{1000 + gpu}\t{cls.start}\t{host.first}"
                for operation, kind in (("all-reduce", "sum"), ("all-gather", "")):
                    rows.append(f"{at}\t1\tc0ffee\t{rank}\t8\t{operation}\tfloat32\t{kind}\t-1\t24\t10\t{10 << 23}\t10\t0\t10\t{10 << 23}"
                                f"\t{10 * took}\t{took}\t{took}\t5\n")
                rows.append(f"{at}\t2\t\t-1\t0\tsend\tfloat32\t\t3\t11\t7\t7168\t7\t0\t0\t0\t0\t0\t0\t5\n")
        fleet_hosts.insert(cls.server, DATABASE, "collective", "".join(rows), **cls.settings)

    @classmethod
    def fill(cls, hosts, **settings):
        fleet_hosts.fill(cls.server, DATABASE, hosts, MINUTES, **cls.settings, **settings)

    @classmethod
    def settle(cls):
        """Waits until every node knows what one was told."""

    def query(self, name, *arguments):
        result = ctl(self.server, "query", name, "--json", "--since", "1h", *arguments)
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)["rows"]

    def refused(self, result, *parts, code=1):
        self.assertEqual(result.code, code, result.out + result.err)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        for part in parts:
            self.assertIn(part, result.err)

    def test_init_again(self):
        self.assertEqual(ctl(self.server, "init", *self.cluster).out.count("applied"), 0)

    def test_hosts(self):
        rows = {row["host"]: row for row in self.query("hosts")}
        self.assertEqual(set(rows), {f"gpu-{n:05}" for n in range(6)} | {f"{ODD_HOST}{n}" for n in range(2)})
        self.assertEqual({(row["gpus"], row["machines"], row["boots"]) for row in rows.values()}, {(GPUS, 1, 1)})
        [row] = self.query("versions")
        self.assertEqual((row["hosts"], row["gpus"], row["driver"]), (8, 8 * GPUS, "580.159"))

    def test_jobs(self):
        rows = {row["job"]: row for row in self.query("jobs")}
        self.assertEqual({job: (row["hosts"], row["ranks"], row["running"], row["busy"]) for job, row in rows.items()},
                         {"4711": (6, 24, 24, 900000), ODD_JOB: (2, 8, 8, 900000)})
        self.assertEqual([row["job"] for row in self.query("jobs", "--job", ODD_JOB)], [ODD_JOB])
        self.assertEqual(self.query("jobs", "--job", "' OR 1 OR '"), [])

    def test_gpus(self):
        rows = self.query("gpus")
        self.assertEqual(len(rows), 8 * GPUS)
        self.assertEqual({(row["busy"], row["waiting"], row["idle"], row["total_bytes"]) for row in rows},
                         {(900000, 30000, 30000, 141 << 30)})
        self.assertTrue(all(90 << 30 <= row["memory_bytes"] < 98 << 30 for row in rows))
        odd = f"{ODD_HOST}1"
        self.assertEqual([(row["host"], row["rank"]) for row in self.query("gpus", "--host", odd, "--rank", "5")], [(odd, 5)])
        self.assertEqual(len(self.query("gpus", "--rank", "5")), 2)

    def test_kernels(self):
        rows = {row["name"]: row for row in self.query("kernels", "--job", "4711")}
        self.assertEqual(set(rows), set(fleet_hosts.KERNELS + fleet_hosts.COLLECTIVES))
        for number, name in enumerate(fleet_hosts.KERNELS):
            self.assertEqual((rows[name]["count"], rows[name]["hosts"]), (24 * MINUTES * (200 + 37 * number), 6))
            self.assertEqual(rows[name]["slowest"], f"gpu-{SLOW // GPUS:05}")
        self.assertEqual(len(self.query("kernels", "--host", "nobody")), 0)

    def test_stragglers(self):
        rows = self.query("stragglers")
        self.assertEqual([(row["rank"], row["host"], row["verdict"]) for row in rows],
                         [(SLOW, f"gpu-{SLOW // GPUS:05}", "straggler"), (LATE, f"gpu-{LATE // GPUS:05}", "late")])
        self.assertEqual((rows[0]["minutes"], rows[0]["slow"], rows[1]["slow"]), (MINUTES, MINUTES, 0))
        self.assertAlmostEqual(rows[0]["own_ns"] / rows[0]["median_ns"], 1.15, delta=0.01)
        self.assertEqual(len(self.query("stragglers", "--all")), 8 * GPUS)
        self.assertEqual(self.query("stragglers", "--job", ODD_JOB), [])
        self.assertEqual([row["rank"] for row in self.query("stragglers", "--rank", LATE)], [LATE])

    def test_collectives(self):
        rows = {row["name"]: row for row in self.query("collectives", "--job", "4711")}
        self.assertEqual(set(rows), set(fleet_hosts.COLLECTIVES))
        for row in rows.values():
            self.assertEqual((row["ranks"], row["count"], row["last"]), (24, 24 * MINUTES * 300, SLOW))
            self.assertEqual((row["communicator"], row["size"], row["bytes"], row["algbw"]), ("", None, None, None))
        rows = {row["name"]: row for row in self.query("collectives", "--job", ODD_JOB)}
        self.assertEqual(set(rows), {"all-reduce", "all-gather", "send"}, "the names of kernels say no more")
        for name, size, factor in (("all-reduce", 8 << 20, 14 / 8), ("all-gather", 64 << 20, 7 / 8)):
            row = rows[name]
            self.assertEqual((row["communicator"], row["size"], row["ranks"], row["count"], row["bytes"]), ("c0ffee", 8, 8, 80, size))
            self.assertEqual((row["shortest_ns"], row["median_ns"], row["longest_ns"], row["waited_ns"]), (1000000, 1500000, 1500000, 35000000))
            self.assertEqual((row["last"], row["last_host"]), (2, f"{ODD_HOST}0"))
            self.assertEqual((row["algbw"], row["busbw"]), (size * 1000, int(size * 1000 * factor)))
        row = rows["send"]
        self.assertEqual((row["communicator"], row["size"], row["ranks"], row["count"], row["bytes"]), ("unknown", None, 8, 56, 1024))
        self.assertEqual((row["mean_ns"], row["last"], row["waited_ns"], row["algbw"]), (None, None, None, None))

    def test_the_rest(self):
        [leak] = self.query("leaks")
        self.assertEqual((leak["rank"], leak["verdict"], leak["bytes"], leak["where"]), (2, "leak", 123456789, "cache.py:12 insert"))
        [loss] = self.query("loss")
        self.assertEqual((loss["host"], loss["reason"], loss["count"]), ("gpu-00000", "ring-full", 24))
        [oom] = self.query("incidents")
        self.assertEqual((oom["pid"], oom["kind"], oom["bytes"]), (5002, "oom", 4096))
        price = self.query("price", "--job", "4711")
        self.assertEqual((len(price), {row["cost"] for row in price}), (24, {21000}))

    def test_sent_again(self):
        """The same once more, and once more when read later: nothing is counted twice."""
        before, shown = self.query("kernels"), self.look_at("clickhouse-job")
        self.fill(self.hosts[:3])
        told = [line.split("\t") for line in self.hosts[0].minute(0)["work"].splitlines()]
        for row in told:
            row[-1] = str(int(row[-1]) + 1)
        # The generator has gone on: these are other times for the same rows.
        fleet_hosts.insert(self.server, DATABASE, "work", "".join("\t".join(row) + "\n" for row in told), **self.settings)
        self.settle()
        after = self.query("kernels")
        self.assertNotEqual(before, after)
        self.assertEqual([(row["name"], row["count"]) for row in before], [(row["name"], row["count"]) for row in after])
        again = self.look_at("clickhouse-job")
        self.assertEqual(shown["GPUs by state"], again["GPUs by state"])
        self.assertEqual([[(row["name"], row["times"]) for row in rows] for rows in (shown["Kernels"], shown["Collectives"])],
                         [[(row["name"], row["times"]) for row in rows] for rows in (again["Kernels"], again["Collectives"])])

    def look_at(self, dashboard, until=None, **variables):
        """The rows of each panel, of an hour."""
        until = until or int(time.time())
        known = {"job": ["4711"], "host": [grafana.ALL], "rank": [grafana.ALL], **variables}
        rows = {}
        for panel in grafana.load(dashboard)["panels"]:
            [target] = panel["targets"]
            text = grafana.statement(target["rawSql"], known, until - 3600, until)
            answer = json.loads(self.server.ask(text + " FORMAT JSONCompact", database=DATABASE, output_format_json_quote_64bit_integers=0))
            names = [column["name"] for column in answer["meta"]]
            self.assertEqual(" ".join(names), PANELS[dashboard][panel["title"]], panel["title"])
            rows[panel["title"]] = [dict(zip(names, row)) for row in answer["data"]]
        return rows

    def test_dashboard_of_the_fleet(self):
        seen = self.look_at("clickhouse-fleet")
        self.assertEqual([title for title, rows in seen.items() if not rows], [])
        self.assertEqual((seen["Lost"], round(seen["Busy"][0]["busy"], 6)), ([{"lost": 24}], 0.9))
        self.assertGreaterEqual(seen["Hosts"][0]["heard"], 8)
        jobs = {row["job"]: row for row in seen["Jobs by GPU time"]}
        self.assertEqual([(jobs[job]["hosts"], jobs[job]["ranks"], round(jobs[job]["gpu_hours"] * 60)) for job in ("4711", ODD_JOB)],
                         [(6, 24, 24 * MINUTES), (2, 8, 8 * MINUTES)])
        self.assertEqual([(row["host"], row["bytes"]) for row in seen["Out of memory"]], [("gpu-00000", 4096)])
        one = self.look_at("clickhouse-fleet", host=["gpu-00001", "gpu-00004"])
        self.assertAlmostEqual(sum(row["gpus"] for row in one["GPUs by state"]), 2 * GPUS * MINUTES)
        self.assertEqual((one["Lost by reason"], [row["host"] for row in one["Hosts, the longest silent first"]]), ([], ["gpu-00001", "gpu-00004"]))
        before = self.look_at("clickhouse-fleet", until=self.start - 7200)
        self.assertEqual({title for title, rows in before.items() if rows} - STANDING, set())

    def test_dashboard_of_a_job(self):
        """Its panels say what tsctl says."""
        seen = self.look_at("clickhouse-job")
        self.assertEqual([title for title, rows in seen.items() if not rows], [])
        self.assertEqual(seen["The job"], [{"hosts": 6, "ranks": 24, "world_size": 24, "running": 24}])
        self.assertAlmostEqual(sum(row["gpus"] for row in seen["GPUs by state"]), 24 * MINUTES)
        for row in seen["Memory, by rank"] + seen["Time in collectives, by rank"] + seen["Busy, by rank"]:
            self.assertTrue(0 < row["lowest"] <= row["median"] <= row["highest"], row)
        self.assertTrue(all(90 << 30 <= row["lowest"] and row["highest"] < 98 << 30 for row in seen["Memory, by rank"]))
        for title, name, columns in (("Stragglers", "stragglers", "rank host pid verdict own_ns"), ("Collectives", "collectives", "name ranks last last_host"),
                                     ("Kernels", "kernels", "name hosts total_ns slowest"), ("Ranks", "gpus", "rank host pid device"),
                                     ("Leaks", "leaks", "rank host pid fn verdict"), ("Price", "price", "rank host pid part"),
                                     ("Out of memory", "incidents", "host pid rank bytes text")):
            told = [[row[column] for column in columns.split()] for row in self.query(name, "--job", "4711")]
            self.assertEqual(sorted([row[column] for column in columns.split()] for row in seen[title]), sorted(told), title)
        one = self.look_at("clickhouse-job", host=[f"gpu-{SLOW // GPUS:05}", "gpu-00000"], rank=[str(SLOW), "0", "1"])
        self.assertEqual([row["rank"] for row in one["Ranks"]], [0, 1, SLOW])
        self.assertEqual([row["rank"] for row in one["Stragglers"]], [SLOW])
        before = self.look_at("clickhouse-job", until=self.start - 7200)
        self.assertEqual({title for title, rows in before.items() if rows} - STANDING, set())

    def test_variables_of_dashboards(self):
        """A name that would end a string early cannot be chosen."""
        now, found = int(time.time()), {}
        for dashboard in PANELS:
            for variable in grafana.load(dashboard)["templating"]["list"][1:]:
                text = grafana.statement(variable["query"], {"job": ["4711"]}, now - 3600, now)
                found[dashboard, variable["name"]] = [one for [one] in json.loads(self.server.ask(text + " FORMAT JSONCompact", database=DATABASE))["data"]]
        hosts = {f"gpu-{n:05}" for n in range(6)}
        self.assertLessEqual(hosts, set(found["clickhouse-fleet", "host"]))
        self.assertEqual(set(found["clickhouse-job", "host"]), hosts)
        self.assertEqual(found["clickhouse-job", "rank"], list(range(24)))
        self.assertIn("4711", found["clickhouse-job", "job"])
        for names in found.values():
            self.assertFalse(any("\\" in str(name) for name in names), names)

    def stored(self, block, nodes, **settings):
        """How often a block is stored that is sent by way of each of the nodes."""
        for node in nodes:
            fleet_hosts.insert(node, DATABASE, "busy", block, **settings)
        self.settle()
        host = block.split("\t")[0]
        [[count]] = self.server.rows(f"SELECT count() FROM {DATABASE}.busy WHERE host = '{host}'")
        return int(count) / block.count("\n")

    def known(self, host, begin_ns):
        """When its clock was looked at: around the training, and in each other hour of its rows."""
        times = [begin_ns + ns for ns in (-30 * 10**9, 10**9, 31 * 10**9)]
        for minute in range(MINUTES + 1):
            ns = (self.start + 60 * minute) * 10**9
            if host.told(ns) // 3600 not in {host.told(time) // 3600 for time in times}:
                times.append(ns)
        return times

    def train(self, job, hosts, begin_ns, clocks=True, **more):
        """Inserts what hosts that train have sent; gives when each rank left each collective."""
        made = ctl(self.server, "init", *self.cluster, database=TRACED)
        self.assertEqual(made.code, 0, made.err)
        rows, ends = fleet_hosts.train(hosts, begin_ns, STEPS, **more)
        text = {"op": rows, "clock": "".join(host.clock(ns) for host in hosts for ns in self.known(host, begin_ns))}
        for host in hosts:
            for table, row in host.identity(host.start + 60 * MINUTES):
                text[table] = text.get(table, "") + row
        if not clocks:
            del text["clock"]
        for table, row in text.items():
            fleet_hosts.insert(self.server, TRACED, table, row, **self.settings)
        self.settle()
        return ends

    def skewed(self, job):
        return [fleet_hosts.Skewed(number, 3, self.start, 2, name=f"{job}-{number}", job=job, **more)
                for number, more in enumerate(({"error_ns": -150000}, {"wrong": 700, "rate": 40e-6, "error_ns": 280000},
                                               {"wrong": -5, "rate": -60e-6, "error_ns": -290000}))]

    def export(self, job, *arguments):
        """The trace, and what is said of it."""
        path = os.path.join(self.server.directory, "trace")
        result = ctl(self.server, "export", "--perfetto", "--job", job, "--since", "20m", "-o", path, *arguments, database=TRACED)
        self.assertEqual(result.code, 0, result.err)
        return path, result.err

    def within(self, said, tied):
        """The bound of the clocks' errors in nanoseconds."""
        number, unit, by = re.search(r"clocks of the other hosts are within ([\d.]+) (\w+) of that of \S+ \((\d+) by collectives", said).groups()
        self.assertEqual(int(by), tied, said)
        return float(number) * UNITS[unit]

    def test_one_timeline(self):
        """Clocks are elsewhere and run at other speeds; what the hosts know of them is wrong by more than the collectives leave."""
        ends = self.train("aligned", self.skewed("aligned"), (self.start + 60) * 10**9)
        path, said = self.export("aligned")
        self.assertIn(f"{STEPS * 12} operations of 6 processes on 3 hosts", said)
        self.assertLess(self.within(said, 2), 100000)
        self.look(path, ends)
        path, said = self.export("aligned", "--rank", 3)
        self.assertIn(f"{STEPS * 2} operations of 1 processes on 1 hosts", said)
        self.refused(ctl(self.server, "export", "--perfetto", "--job", "aligned", "--since", "20s", "-o", path, database=TRACED),
                     "There are no operations in this window", "tsctl ship window")

    def look(self, path, ends):
        """Into the trace, which one of the servers is enough for."""

    def test_times_of_queries(self):
        """What hosts tell whose wall clocks are wrong is put where it belongs."""
        begin = (self.start + 240) * 10**9
        hosts = [fleet_hosts.Skewed(number, 3, self.start, 2, name=f"told-{number}", job="told", slow={2: 1.15}, wrong=wrong, rate=rate)
                 for number, (wrong, rate) in enumerate(((0, 0), (-700, 40e-6)))]
        hosts.append(fleet_hosts.Skewed(2, 3, self.start, 2, name="told-2", job="told", slow={2: 1.15}, rate=-60e-6, set_at=begin, set_by=-5))
        self.train("told", hosts, begin, together=False)
        fleet_hosts.fill(self.server, TRACED, hosts, MINUTES, **self.settings)
        host, at = hosts[1], begin + 2 * 10**9 + 123
        fleet_hosts.insert(self.server, TRACED, "incident", f"{host.key}\toom\t1\t{host.told(at)}\t1001\t1\t77\t{host.monotonic(at)}\t2\t4096\tno memory\t5\n",
                           **self.settings)
        self.settle()

        def query(name, *arguments):
            result = ctl(self.server, "query", name, "--json", "--since", "1h", *arguments, database=TRACED)
            self.assertEqual(result.code, 0, result.err)
            return json.loads(result.out)["rows"]

        # By its own clock it ran with nobody. Its drift may put a minute beside that of the others.
        [slow] = query("stragglers", "--job", "told")
        self.assertEqual((slow["rank"], slow["verdict"]), (2, "straggler"))
        self.assertGreaterEqual(slow["minutes"], MINUTES - 1)
        [oom] = query("incidents", "--job", "told")
        self.assertEqual((oom["host"], oom["pid"]), ("told-1", 5001))
        self.assertLessEqual(abs(oom["time"] - at), oom["bound"])
        self.assertLess(oom["bound"], 10**6)
        rows = {row["host"]: row for row in query("clocks") if row["host"].startswith("told")}
        self.assertEqual({name: round(row["add_ns"] / 1e9) for name, row in rows.items()}, {"told-0": 0, "told-1": 700, "told-2": 0})
        self.assertEqual((rows["told-1"]["drift_ppm"], rows["told-1"]["bound_ns"], rows["told-1"]["server"]), (-40, host.BOUND_NS, "ch1"))
        # Rows keep their times when a wall clock is set, so that is told beside them.
        self.assertEqual({name: round(row["wall_ns"] / 1e9) for name, row in rows.items()}, {"told-0": 0, "told-1": -700, "told-2": -5})
        self.assertEqual([row["jumped"] for name, row in rows.items() if name != "told-2"], [None, None])
        self.assertAlmostEqual(rows["told-2"]["jump_ns"] / 1e9, -5, delta=0.01)
        self.assertAlmostEqual(rows["told-2"]["jumped"] / 1e9, begin / 1e9 + 1, delta=0.01)
        # Of a shipper that does not tell its wall clock, nothing is said.
        [row] = [row for row in self.query("clocks") if row["host"] == self.hosts[0].name]
        self.assertEqual((row["wall_ns"], row["jump_ns"], row["jumped"]), (None, None, None))

    def test_export_refusals(self):
        path = os.path.join(self.server.directory, "nothing")
        self.refused(ctl(self.server, "export", "--job", "4711", "-o", path), "Give --perfetto and -o FILE", code=2)
        self.refused(ctl(self.server, "export", "--perfetto", "--job", "4711"), "Give --perfetto and -o FILE", code=2)
        self.refused(ctl(self.server, "export", "--perfetto", "--job", "no such", "-o", path), "No such process is known there")
        self.refused(ctl(self.server, "export", "--perfetto", "--job", "4711", "-o", path), "There are no operations in this window")
        self.assertFalse(os.path.exists(path))

    def test_upgrade(self):
        """A fleet of version 1 gets what is new, and keeps what it has."""
        on = f" ON CLUSTER {self.cluster[1]}" if self.cluster else ""
        self.assertEqual(ctl(self.server, "init", *self.cluster, database="upgraded").code, 0)
        text = dict(fleet_hosts.Host(1, 1, self.start).identity(self.start))["host"]
        fleet_hosts.insert(self.server, "upgraded", "host", text, **self.settings)
        for table in ("op", "clock", "request", "collective"):
            for name in (table, f"{table}_local")[:2 if on else 1]:
                self.server.ask(f"DROP TABLE upgraded.{name}{on}")
        self.server.ask(f"ALTER TABLE upgraded.version{'_local' if on else ''}{on} DELETE WHERE version > 1")
        wait_for("version 1", lambda: self.server.rows("SELECT max(version) FROM upgraded.version") == [["1"]])
        self.refused(ctl(self.server, "query", "hosts", database="upgraded"), "has version 1, and this tsctl asks version 5: run 'tsctl fleet init'")
        again = ctl(self.server, "init", *self.cluster, database="upgraded")
        self.assertEqual((again.code, re.findall("applied (.*)", again.out)), (0, self.STEPS[1:]), again.err)
        self.assertEqual(self.server.rows("SELECT host FROM upgraded.host"), [["gpu-00001"]])
        for table in ("op", "clock", "request", "collective"):
            self.assertEqual(self.server.rows(f"SELECT count() FROM upgraded.{table}"), [["0"]])
        self.add_a_column_again(on)

    def add_a_column_again(self, on):
        """To a table that has rows; and where a step was interrupted, not twice."""
        host = fleet_hosts.Skewed(1, 1, self.start)
        fleet_hosts.insert(self.server, "upgraded", "clock", host.clock(self.start * 10**9), **self.settings)
        for tables in ((f"clock_local{on}", "clock"), ("clock",), ()) if on else (("clock",), ()):
            for table in tables:
                self.server.ask(f"ALTER TABLE upgraded.{table} DROP COLUMN wall_offset_ns")
            self.server.ask(f"ALTER TABLE upgraded.version{'_local' if on else ''}{on} DELETE WHERE version > 4")
            wait_for("version 4", lambda: self.server.rows("SELECT max(version) FROM upgraded.version") == [["4"]])
            again = ctl(self.server, "init", *self.cluster, database="upgraded")
            self.assertEqual((again.code, re.findall("applied (.*)", again.out)), (0, self.STEPS[4:]), again.err)
            self.settle()
            self.assertEqual(self.server.rows("SELECT host, wall_offset_ns FROM upgraded.clock"), [["gpu-00001", "0"]])

    def test_window(self):
        """Hosts that have such processes are asked, and no others."""
        def asked():
            self.settle()
            told = self.server.ask("SELECT host, seconds, asked_by FROM request FINAL FORMAT JSONCompact", database=DATABASE)
            return [tuple(row) for row in json.loads(told)["data"]]
        self.refused(ctl(self.server, "window", "--job", "4711"), "Give --since", code=2)
        self.refused(ctl(self.server, "window", "--since", "30s"), "Give --job or --host", code=2)
        self.refused(ctl(self.server, "window", "--job", "4711", "--since", "11m"), "at most 10 minutes ago", code=2)
        self.refused(ctl(self.server, "window", "--job", "no such", "--since", "30s"), "No host that ships now has such a process")
        self.assertEqual(asked(), [])
        for arguments, count in ((("--job", "4711"), 6), (("--host", f"{ODD_HOST}1"), 1), (("--job", "4711", "--rank", SLOW), 1)):
            result = ctl(self.server, "window", "--since", "30s", *arguments)
            self.assertEqual((result.code, f"Asked {count} host{'s' if count > 1 else ''}: " in result.out), (0, True), result.out + result.err)
        told = asked()
        self.assertEqual(set(told), {(host, 30, "default") for host in (*(f"gpu-{n:05}" for n in range(6)), f"{ODD_HOST}1")})
        self.assertIn(len(told), (7, 8))  # in one second, two are one

    def test_sql(self):
        result = ctl(self.server, "sql", "--json", "SELECT uniqExact(host) AS hosts, 'a\\tb' AS text, NULL AS none FROM process")
        self.assertEqual(json.loads(result.out)["rows"], [{"hosts": 8, "text": "a\tb", "none": None}])
        self.refused(ctl(self.server, "sql", "DROP TABLE host"), "readonly")
        self.refused(ctl(self.server, "sql", "SELECT x"), "x")
        self.assertIn("gpus", ctl(self.server, "query", "list").out)

    def test_another_database(self):
        self.refused(ctl(self.server, "query", "hosts", database="nothing"), "Database 'nothing' of ")
        self.refused(ctl(self.server, "query", "hosts", database="a'b"), "is not a name for the database", code=2)

    def test_refusals(self):
        self.refused(ctl(self.server, "query", "hosts", password="wrong"), "does not let 'default' in")
        self.refused(ctl(self.server, "query", "hots"), "did you mean 'hosts'?", code=2)
        self.refused(ctl(self.server, "query", "hosts", "--rank", "3"), "takes no --rank; it takes host since", code=2)
        self.refused(ctl(self.server, "query", "hosts", "--url", "http://127.0.0.1:1"), "No ClickHouse server answers at http://127.0.0.1:1")
        for url in ("nonsense", "ftp://127.0.0.1/", "http://"):
            self.refused(ctl(self.server, "query", "hosts", "--url", url), "is not the URL of a server", code=2)
        self.refused(ctl(self.server, "query", "hosts", "--url", "http://a:b@127.0.0.1"), "put it in a file", code=2)
        path = os.path.join(self.server.directory, "open")
        with open(path, "w") as file:
            file.write("x")
        os.chmod(path, 0o640)
        self.refused(ctl(self.server, "query", "hosts", "--password-file", path), "chmod 600")

    def test_name_used_twice(self):
        other = fleet_hosts.Host(77, 1, self.start, 1, name="gpu-00005", job="", seed=1)
        text = dict(other.identity(self.start + 60))["host"]
        fleet_hosts.insert(self.server, DATABASE, "host", text, **self.settings)
        self.settle()
        self.assertEqual([row["machines"] for row in self.query("hosts", "--host", "gpu-00005")], [2])


# Asks all that it is given, and says what came.
PYTHON = """
import datetime, json, sys
sys.path.insert(0, sys.argv[1])
import tracesmith
fleet = tracesmith.fleet(tsctl=sys.argv[2])
for name, arguments, options in json.loads(sys.stdin.read()):
    if "ago" in options:
        options["since"] = datetime.timedelta(seconds=options.pop("ago"))
    try:
        answer = getattr(fleet, name)(*arguments, **options)
        said = {"rows": list(answer), "columns": answer.columns, "truncated": answer.truncated, "text": repr(answer)}
    except tracesmith.Error as error:
        said = {"error": str(error), "kind": type(error).__name__}
    print(json.dumps(said))
"""


class Node(Fleet, unittest.TestCase):
    """Where no time is lost on a cluster, what happens to tables."""

    @classmethod
    def bring_up(cls):
        return clickhouse.node()

    def init(self, database):
        return ctl(self.server, "init", database=database)

    def ask_python(self, *asked, **more):
        package = os.path.join(BUILD, "python")
        if not os.path.exists(os.path.join(package, "tracesmith")):
            self.skipTest(f"no Python package in {package}: it needs protoc")
        environment = dict(os.environ, TRACESMITH_FLEET_URL=f"{self.server.url}/{DATABASE}", **more)
        done = subprocess.run(["/usr/bin/python3", "-B", "-c", PYTHON, package, os.path.join(BUILD, "tsctl")], input=json.dumps(asked), env=environment,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_python(self):
        """The package answers as tsctl does, and says what it says."""
        listed = json.loads(ctl(self.server, "query", "list", "--json").out)["rows"]
        password = {"TRACESMITH_FLEET_PASSWORD_FILE": os.path.join(self.server.directory, "password")}
        names = [row["query"] for row in listed]
        told = self.ask_python(*(["query", [name], {"since": "1h"}] for name in names), ["queries", [], {}], **password)
        self.assertEqual(told.pop()["rows"], listed)
        for name, row, answer in zip(names, listed, told):
            self.assertEqual(answer["rows"], self.query(name), name)
            self.assertEqual([[column, "id" if kind == "integer" and f"{column} id" in row["columns"] else kind] for column, kind in answer["columns"]],
                             [column.split(" ") for column in row["columns"].split(", ")])
        ranks, until, first, none, sql, empty = self.ask_python(
            ["query", ["gpus"], {"ago": 3600, "job": "4711", "host": "gpu-00002", "rank": SLOW}],
            ["query", ["gpus"], {"ago": 7200, "until": "1h"}],
            ["query", ["stragglers"], {"since": 3600, "all": True, "limit": 2}], ["query", ["gpus"], {"host": ODD_HOST, "since": "1h"}],
            ["sql", ["SELECT uniqExact(host) AS hosts, 0.5 AS half, NULL AS none, 'a\tb' AS text FROM process WHERE host LIKE 'gpu-%'"], {}],
            ["sql", ["SELECT 1 WHERE 0"], {}], **password)
        self.assertEqual([(row["host"], row["rank"]) for row in ranks["rows"]], [("gpu-00002", SLOW)])
        self.assertEqual((len(first["rows"]), first["truncated"], ranks["truncated"]), (2, True, False))
        self.assertEqual((until["rows"], none["rows"], len(none["columns"]), empty["columns"]), ([], [], 14, []))
        self.assertIn("90 %", ranks["text"])
        self.assertEqual((sql["rows"], sql["columns"]), ([{"hosts": 6, "half": 0.5, "none": None, "text": "a\tb"}],
                                                         [["hosts", "integer"], ["half", "real"], ["none", "text"], ["text", "text"]]))
        for answer, kind, part in zip(self.ask_python(
                ["query", ["hots"], {}], ["query", ["hosts"], {"rank": 3}], ["query", ["gpus"], {"rank": -1}], ["query", ["gpus"], {"job": "a\0b"}],
                ["sql", [" ;"], {}], ["sql", ["SELECT x"], {}], ["sql", ["SELECT sleep(3)"], {"timeout": 0.1}], ["query", ["--json"], {}], **password),
                ("BadRequest", "BadRequest", "BadRequest", "BadRequest", "BadRequest", "Error", "Error", "BadRequest"),
                ("did you mean 'hosts'?", "takes no --rank; it takes host since", "rank= needs a number", "NUL", "Missing statement", "x", "timed out",
                 "Unknown query '--json'")):
            self.assertEqual((answer.get("kind"), part in answer.get("error", "")), (kind, True), answer)
        [denied] = self.ask_python(["query", ["hosts"], {}], TRACESMITH_FLEET_PASSWORD_FILE="")
        self.assertEqual((denied["kind"], "it wants a password" in denied["error"]), ("Error", True), denied)

    def test_clocks_by_the_server_alone(self):
        """Without collectives the server's clock says how far times can be trusted."""
        self.train("alone", self.skewed("alone"), (self.start + 120) * 10**9, together=False)
        _, said = self.export("alone")
        self.assertGreater(self.within(said, 0), 2 * fleet_hosts.Skewed.BOUND_NS)

    def test_clocks_that_nobody_knows(self):
        """They are known by collectives alone, or not at all, which is said."""
        for job, together in (("none", True), ("nothing", False)):
            hosts = [fleet_hosts.Skewed(number, 3, self.start, 2, name=f"{job}-{number}", job=job, wrong=3 * number) for number in range(3)]
            self.train(job, hosts, (self.start + 180) * 10**9, clocks=False, together=together)
            _, said = self.export(job)
            if together:
                self.assertLess(self.within(said, 2), 100000)
            else:
                self.assertIn("2 of 3 clocks cannot be compared with that of nothing-0", said)

    def test_interrupted(self):
        """A step that was not completed is applied again."""
        self.assertEqual(self.init("half").code, 0)
        for table in ("version", "work"):
            self.server.ask(f"DROP TABLE half.{table}")
        self.assertIn("applied 001", self.init("half").out)
        self.assertEqual(self.server.ask("EXISTS half.work"), "1\n")

    def test_a_server_that_is_late(self):
        """What was not done in time may be done later, also while it is asked for again."""
        left, late = [3], {2, 0}

        class Late(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kept = {name: self.headers[name] for name in ("X-ClickHouse-User", "X-ClickHouse-Key")}
                left[0] -= body.startswith(b"CREATE TABLE")
                try:
                    with urllib.request.urlopen(urllib.request.Request(target + self.path, body, kept)) as answer:
                        status, text = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    status, text = error.code, error.read()
                if left[0] in late:
                    late.remove(left[0])
                    status, text = 500, b"Code: 159, e.displayText() = DB::Exception: Watching task /clickhouse/ddl is executing longer, e.what() = \n"
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *arguments):
                pass
        target = self.server.url
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Late)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/slow"
        result = ctl(self.server, "init", "--url", url)
        self.assertEqual((result.code, late), (0, set()), result.err)
        self.assertEqual(result.err.count("Trying again"), 2, result.err)
        self.assertIn("is executing longer", result.err)
        self.assertEqual(self.init("slow").code, 0)
        left[0] = 1
        late.update((0, -1, -2))
        self.server.ask("DROP TABLE slow.version")
        self.server.ask("DROP TABLE slow.work")
        result = ctl(self.server, "init", "--url", url)
        self.assertEqual(result.code, 1, result.err)

    def test_changed_by_hand(self):
        self.assertEqual(self.init("changed").code, 0)
        for change, undo, part in (
                ("ALTER TABLE changed.work ADD COLUMN mine UInt8", "ALTER TABLE changed.work DROP COLUMN mine", "column 'mine' was added"),
                ("ALTER TABLE changed.work MODIFY COLUMN bytes String", "ALTER TABLE changed.work MODIFY COLUMN bytes UInt64", "column 'bytes' is a String"),
                ("ALTER TABLE changed.work DROP COLUMN bytes", "ALTER TABLE changed.work ADD COLUMN bytes UInt64", "column 'bytes' is missing"),
                ("DROP TABLE changed.loss", None, "Table 'changed.loss' was changed by hand")):
            self.server.ask(change)
            self.refused(self.init("changed"), part)
            if undo:
                self.server.ask(undo)
                self.assertEqual(self.init("changed").code, 0)

    def test_newer(self):
        self.assertEqual(self.init("newer").code, 0)
        self.server.ask("INSERT INTO newer.version VALUES (99, now(), 'tsctl 9')")
        self.refused(self.init("newer"), "has version 99, and this tsctl knows 5")

    def test_no_clickhouse(self):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_error(404)

            def log_message(self, *arguments):
                pass
        server = http.server.HTTPServer(("127.0.0.1", 0), Other)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.refused(ctl(self.server, "query", "hosts", "--url", f"http://127.0.0.1:{server.server_port}"), "is not ClickHouse")
        server.shutdown()
        server.server_close()


class Modern(Fleet, unittest.TestCase):
    @classmethod
    def bring_up(cls):
        return clickhouse.modern()

    def test_modern_tables(self):
        types = dict(self.server.rows(f"SELECT name, type FROM system.columns WHERE database = '{DATABASE}' AND table = 'work'"))
        self.assertEqual(types["name"], "LowCardinality(String)")
        [[made]] = self.server.rows(f"SELECT create_table_query FROM system.tables WHERE database = '{DATABASE}' AND name = 'work'")
        for part in ("TTL time + toIntervalDay(30)", "CODEC(T64, LZ4)", "non_replicated_deduplication_window = 10000"):
            self.assertIn(part, made)

    def test_same_block(self):
        """A block that is sent again is not even stored again."""
        block = fleet_hosts.Host(60, 1, self.start).minute(0)["busy"]
        self.assertEqual(self.stored(block, [self.server] * 3, async_insert=0), 1)


class Cluster(Fleet, unittest.TestCase):
    cluster, settings = ("--cluster", "fleet"), {"insert_distributed_sync": 1}

    @classmethod
    def bring_up(cls):
        cls.nodes = clickhouse.cluster()
        return cls.nodes.node[0][0]

    @classmethod
    def said(cls):
        return "\n".join(f"{node.directory}: {node.said()}" for node in cls.nodes.nodes())

    @classmethod
    def settle(cls):
        cls.nodes.settled()

    def look(self, path, ends):
        try:
            errors, rows, [arrows], ops = trace_processor.query(path, ERRORS, COLLECTIVES, ARROWS, OPS)
        except trace_processor.Unavailable as error:
            self.skipTest(str(error))
        self.assertEqual(errors, [])
        self.assertEqual(arrows["n"], STEPS * 5)
        self.assertEqual({row["category"]: row["n"] for row in ops}, {"kernel": STEPS * 12, "launch": STEPS * 12})
        times, bounds = {}, {}
        for row in rows:
            rank, number, unit = re.fullmatch(r"rank (\d+) on .*, pid \d+, clock ±([\d.]+) (\w+)", row["who"]).groups()
            times.setdefault(int(rank), []).append(row["left_at"])
            bounds[int(rank)] = float(number) * 1.01 * UNITS[unit]  # it is rounded
        self.assertEqual({rank: len(left) for rank, left in times.items()}, dict.fromkeys(range(6), STEPS))
        # Ranks of one host have one clock.
        self.assertEqual((bounds[0], bounds[1]), (0, 0))
        for step, truth in enumerate(ends):
            for rank, left in times.items():
                self.assertLessEqual(abs(left[step] - times[0][step] - (truth[rank] - truth[0])), bounds[rank] + 1)

    def test_is_a_cluster(self):
        self.refused(ctl(self.server, "init"), "give its name, --cluster")
        self.refused(ctl(self.server, "init", "--cluster", "no'such"), "a name of letters", code=2)
        counts = [[int(node.rows(f"SELECT uniqExact(host) FROM {DATABASE}.process_local")[0][0]) for node in row] for row in self.nodes.node]
        self.assertEqual(sum(row[0] for row in counts), 8)
        self.assertTrue(all(0 < row[0] == row[1] for row in counts), counts)

    def test_same_block(self):
        """A block that is sent again, by way of another node, is not even stored again."""
        block = fleet_hosts.Host(60, 1, self.start).minute(0)["busy"]
        self.assertEqual(self.stored(block, self.nodes.nodes(), **self.settings), 1)

    def test_zz_replica_dies(self):
        """Insertions and queries go on without a replica, which has all of it when it is back."""
        dead = self.nodes.node[1][1]
        dead.kill()
        host = fleet_hosts.Host(50, 1, self.start, GPUS, job="dead")
        hosts = [host] + [fleet_hosts.Host(n, 1, self.start, GPUS, job="dead") for n in range(51, 56)]
        self.fill(hosts)
        # Of the other shard any replica may be asked, which gets it a moment later.
        wait_for("all of it", lambda: [(row["hosts"], row["processes"]) for row in self.query("jobs", "--job", "dead")] == [(6, 6 * GPUS)])
        dead.start().wait()
        self.settle()
        sums = f"SELECT count(), sum(count), sum(total_ns) FROM {DATABASE}.work_local FINAL"
        self.assertEqual(dead.rows(sums), self.nodes.node[1][0].rows(sums))


if __name__ == "__main__":
    clickhouse.finish()
