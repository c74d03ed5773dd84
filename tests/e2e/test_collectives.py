"""What is called on NCCL's communicators: by rank, with the kernels that it became, and across a restart of the daemon."""
import json
import os

import test_exact
import test_ship
import tracesmith
from tracesmith import wait_for

MIB = 1 << 20
TURNS = 5


class Collectives(tracesmith.Case):
    environment, start = test_exact.Exact.environment, test_exact.Exact.start
    tier, wait_exact = test_exact.Exact.tier, test_exact.Exact.wait_exact
    write, configure, arguments = test_ship.Ship.write, test_ship.Ship.configure, test_ship.Ship.arguments
    ship, ship_all = test_ship.Ship.ship, test_ship.Ship.ship_all

    def rank(self, rank, job=7, size=3, us=100, options=(), run=True):
        process = self.start("collectives", "--job", job, "--rank", rank, "--size", size, "--us", us, "--turns", TURNS,
                             *options, run=run)
        pid = json.loads(process.stdout.readline())["pid"]
        if run:
            self.wait_exact(pid)
        return process, pid

    def turn(self, *processes):
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            self.assertIn("done", process.stdout.readline())

    def wait_probed(self, daemons=1):
        path = os.path.realpath(os.path.join(tracesmith.FAKE, "libnccl", "libnccl.so.2"))
        wait_for("the probes of NCCL", lambda: self.daemon.log().count(path) >= daemons)

    def rows(self, *arguments):
        rows = self.daemon.query("collectives", *arguments)
        return {(row["communicator"], row["operation"]): row for row in rows}

    def wait_rows(self, what, condition):
        return wait_for(what, lambda: (lambda rows: rows if condition(rows.values()) else None)(self.rows()))

    def communicators(self):
        """The ids of each process, by their numbers in it: the first one, and the part of it."""
        rows = self.daemon.sql("SELECT p.pid, printf('%016x', c.id) AS id, c.rank, c.size FROM communicator c"
                               " JOIN process p ON p.id = c.process ORDER BY p.pid, c.number")
        return {pid: [(row["id"], row["rank"], row["size"]) for row in rows if row["pid"] == pid]
                for pid in {row["pid"] for row in rows}}

    def test_ranks_of_a_communicator(self):
        """Three ranks with exact times, of which the third never waits; and another job, of which no times are known."""
        ranks = [self.rank(rank, us=us) for rank, us in enumerate((300, 200, 100))]
        scalable = self.rank(1, job=8, size=2, options=("--scalable",), run=False)
        plain = self.rank(0, job=8, size=2, run=False)
        self.wait_probed()
        self.turn(*(process for process, _ in (*ranks, scalable, plain)))
        rows = self.wait_rows("all kernels", lambda rows: sum(row["timed"] for row in rows) == 3 * 7 * TURNS)
        known = self.communicators()
        for rank, (_, pid) in enumerate(ranks):
            self.assertEqual([(r, size) for _, r, size in known[pid]], [(rank, 3)] * 2)
            self.assertEqual([name for name, _, _ in known[pid]], [name for name, _, _ in known[ranks[0][1]]])
        self.assertEqual(known[scalable[1]][0][0], known[plain[1]][0][0], "the same id, told in two ways")
        self.assertEqual(len({name for names in known.values() for name, _, _ in names}), 4)
        whole, part = (name for name, _, _ in known[ranks[0][1]])
        self.check(rows, whole, part, ranks[2][1])
        row = rows[known[plain[1]][0][0], "all-reduce"]
        self.assertEqual((row["size"], row["ranks"], row["calls"], row["bytes"], row["timed"]), (2, 2, 2 * TURNS, MIB, 0))
        for column in ("total_ns", "mean_ns", "shortest_ns", "waited_ns", "last", "last_pid", "algbw", "busbw"):
            self.assertIsNone(row[column], column)
        peers = self.daemon.sql("SELECT operation, peer, sum(calls) AS calls FROM collective c JOIN process p ON p.id = c.process"
                                f" WHERE p.pid = {ranks[0][1]} AND peer >= 0 GROUP BY 1, 2 ORDER BY 1")
        self.assertEqual([tuple(row.values()) for row in peers], [(2, 1, TURNS), (3, 1, TURNS), (6, 1, 2 * TURNS), (7, 1, TURNS)])
        self.check_recorded()
        self.check_shipped(known)
        self.end(ranks[0][0])
        wait_for("the end of its communicators", lambda: self.daemon.sql(
            f"SELECT count(ended_ns) AS n FROM communicator c JOIN process p ON p.id = c.process WHERE p.pid = {ranks[0][1]}")[0]["n"] == 2)

    def check_recorded(self):
        path = os.path.join(self.daemon.directory, "recording.sbt")
        result = self.daemon.ctl("record", "--all", "--since", "1h", "-o", path)
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(self.rows("--file", path), self.rows())

    def check_shipped(self, known):
        """A fleet gets the same, with the names and ranks of the communicators."""
        self.state, self.config, self.password = (os.path.join(self.daemon.directory, name) for name in ("ship", "ship.conf", "password"))
        self.write(self.password, test_ship.PASSWORD + "\n", 0o600)
        self.server = test_ship.Server()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.configure()
        self.ship_all()
        got = self.server.rows("collective")
        self.assertEqual({(row["communicator"], row["rank"], row["size"]) for row in got}, {told for names in known.values() for told in names})
        self.assertEqual({(row["operation"], row["type"], row["reduction"]) for row in got if row["peer"] < 0},
                         {("all-reduce", "float32", "sum"), ("all-gather", "float32", ""), ("reduce-scatter", "float32", "sum")})
        sums = ("calls", "bytes", "runs", "shared", "timed", "timed_bytes", "total_ns")
        [told] = self.daemon.sql(f"SELECT {', '.join(f'sum({name}) AS {name}' for name in sums)} FROM collective")
        self.assertEqual({name: sum(row[name] for row in got) for name in sums}, told)

    def check(self, rows, whole, part, last_pid):
        shortest = 100000
        # operation: communicator, calls a turn, bytes, factor of the bus bandwidth, calls share their kernel
        expected = {"all-reduce": (whole, 1, MIB, 4 / 3, 0), "all-gather": (whole, 1, 3 * MIB, 2 / 3, 0),
                    "reduce-scatter": (part, 1, 3 * MIB, 2 / 3, 0), "broadcast": (whole, 1, MIB // 2, 1, 0),
                    "reduce": (whole, 1, MIB // 2, 1, 0), "send": (whole, 2, 2 * MIB, 1, 1), "recv": (whole, 1, MIB, 1, 1)}
        for operation, (name, calls, size, factor, shared) in expected.items():
            with self.subTest(operation):
                row = rows[name, operation]
                self.assertEqual((row["size"], row["ranks"], row["calls"], row["bytes"], row["timed"], row["shared"]),
                                 (3, 3, 3 * TURNS * calls, size, 3 * TURNS, 3 * TURNS * shared))
                self.assertEqual((row["shortest_ns"], row["longest_ns"]), (shortest, shortest + 200000))
                self.assertEqual(row["waited_ns"], TURNS * 300000)
                self.assertEqual((row["last"], row["last_pid"]), (2, last_pid))
                self.assertAlmostEqual(row["algbw"], size * 1e9 / shortest, delta=2)
                self.assertAlmostEqual(row["busbw"], factor * size * 1e9 / shortest, delta=2)
        self.assertEqual((rows[whole, "all-reduce"]["type"], rows[whole, "all-reduce"]["reduction"]), ("float32", "sum"))
        self.assertEqual((rows[whole, "broadcast"]["type"], rows[whole, "broadcast"]["reduction"]), ("float16", None))
        self.assertEqual(len([key for key in rows if key[0] in (whole, part)]), len(expected))

    def test_what_was_missed_of_it_is_missing_from_no_other_answer(self):
        """Its first copy has no probes when a process maps it; the driver's has."""
        process, pid = self.rank(0, run=False)
        self.wait_probed()
        self.turn(process)
        wait_for("its calls", lambda: len(self.rows()) == 7)
        self.assertEqual(self.daemon.answer("collectives", "--pid", pid)["loss"].get("gap-nccl"), 1)
        for name in "apis", "memory", "ranges":
            self.assertEqual([reason for reason in self.daemon.answer(name, "--pid", pid)["loss"] if reason.startswith("gap")], [], name)

    def test_known_after_a_restart(self):
        """The next daemon knows the communicators, though it has not seen them made."""
        process, pid = self.rank(1, run=False)
        self.wait_probed()
        self.turn(process)
        wait_for("its calls", lambda: len(self.rows()) == 7)
        before = self.communicators()[pid]
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.start()
        self.wait_probed(2)
        self.turn(process)
        rows = wait_for("all calls", lambda: (lambda rows: rows if sum(row["calls"] for row in rows.values()) == 2 * 8 * TURNS
                                              else None)(self.rows()))
        self.assertEqual(self.communicators()[pid], before)
        self.assertEqual({name for name, _ in rows}, {name for name, _, _ in before})


if __name__ == "__main__":
    tracesmith.main()
