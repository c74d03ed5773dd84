"""SQL in processes of their own: what a user's statement can do to the daemon, the store and other users.

Each attack has been one on a real host. An honest client asks `ps` beside it, and is answered while the attack runs;
how soon is printed.
"""
import contextlib
import os
import signal
import socket
import sqlite3
import threading
import time

import tracesmith
from foreign import ENDLESS, Client, control
from tracesmith import run, wait_for

LONG = "printf('%.*c', 7000000, 'x')"
# Takes minutes, in a single step of SQLite's.
STEP = f"length(replace({LONG}, substr({LONG}, 3500000) || 'y', 'z'))"
SORT = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {}) "
        "SELECT i, hex(randomblob(2000)) AS h FROM n ORDER BY h")
MANY = "SELECT i, hex(zeroblob(500)) FROM n"


def children(daemon):
    """The processes that answer queries."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                comm, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            found[int(pid)] = (comm, int(rest.split()[1]))
        except OSError:
            pass
    zygotes = {pid for pid, (comm, parent) in found.items() if parent == daemon.process.pid and comm == "ts-zygote"}
    return [pid for pid, (comm, parent) in found.items() if comm == "ts-query" and parent in zygotes]


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


class Honest(threading.Thread):
    """Asks `ps` again and again, on connections of its own, while something goes on."""

    def __init__(self, path):
        super().__init__()
        self.path, self.over, self.times, self.wrong = path, threading.Event(), [], []

    def run(self):
        while not self.over.is_set():
            begin = time.monotonic()
            client = Client(self.path)
            reply = client.ask(id=1, query=control.QueryRequest(name="ps"))[-1]
            client.socket.close()
            self.times.append((time.monotonic() - begin) * 1e3)
            if reply.WhichOneof("body") != "done":
                self.wrong.append(reply)
            self.over.wait(0.02)


class QueryChild(tracesmith.Case):
    def connect(self):
        client = Client(self.daemon.socket)
        self.addCleanup(client.socket.close)
        return client

    def sql(self, text, **options):
        """The last reply."""
        return self.connect().ask(id=1, sql=control.SqlRequest(text=text, **options))[-1]

    def assert_fails(self, reply, code, sentence):
        self.assertEqual(reply.WhichOneof("body"), "error", reply)
        self.assertEqual(reply.error.code, code, reply)
        self.assertIn(sentence, reply.error.message)

    def beside_honest(self, what, attack):
        """What it returns; `ps` was answered meanwhile."""
        honest = Honest(self.daemon.socket)
        honest.start()
        try:
            wait_for("a first answer", lambda: honest.times)
            before = len(honest.times)
            result = attack()
            wait_for("an answer meanwhile", lambda: len(honest.times) > before)
        finally:
            honest.over.set()
            honest.join()
        times = sorted(honest.times)
        print(f"{what}: {len(times)} times ps, median {times[len(times) // 2]:.1f} ms, worst {times[-1]:.1f} ms")
        self.assertEqual(honest.wrong, [])
        return result

    def test_an_answer_and_where_it_comes_from(self):
        process, expected = run("short")
        self.daemon.wait_ended(process.pid)
        calls = {row["fn"]: row["calls"] for row in self.daemon.query("apis", "--pid", process.pid)}
        self.assertGreater(len(calls), 1)
        self.assertEqual(calls, {row["fn"]: row["calls"] for row in expected if row.get("fn") in calls})
        client = self.connect()
        wait_for("the end of those before", lambda: not children(self.daemon))
        client.send(id=1, sql=control.SqlRequest(text=ENDLESS + "SELECT max(i) FROM n"))
        child = wait_for("its process", lambda: children(self.daemon))[0]
        before = int(status_of(self.daemon.process.pid)["Seccomp_filters"])
        wait_for("its two filters", lambda: int(status_of(child)["Seccomp_filters"]) == before + 2)
        status = status_of(child)
        self.assertEqual({status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")}, {"0" * 16})
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        # Nothing of the store is open for writing.
        for fd in os.listdir(f"/proc/{child}/fd"):
            if "tracesmith.db" in os.readlink(f"/proc/{child}/fd/{fd}"):
                with open(f"/proc/{child}/fdinfo/{fd}") as file:
                    flags = int(file.read().split("flags:\t")[1].split()[0], 8)
                self.assertEqual(flags & os.O_ACCMODE, os.O_RDONLY)
        client.socket.close()
        wait_for("its end", lambda: not children(self.daemon))

    def test_attacks_end_with_a_sentence_and_others_are_served(self):
        limit = control.Error.LIMIT
        columns = ", ".join(f"{LONG} AS c{i}" for i in range(150))
        reply = self.beside_honest("memory", lambda: self.sql("SELECT " + columns, timeout_ns=10**11))
        self.assert_fails(reply, limit, "256 MiB of memory")
        begin = time.monotonic()
        reply = self.beside_honest("a long step", lambda: self.sql(
            "SELECT " + " + ".join([STEP] * 100), timeout_ns=10**9))
        self.assert_fails(reply, limit, "took too long")
        self.assertLess(time.monotonic() - begin, tracesmith.DEADLINE)
        reply = self.beside_honest("a sort", lambda: self.sql(SORT.format(100000), limit=1, timeout_ns=10**11))
        self.assert_fails(reply, limit, "256 MiB")
        self.assertEqual(self.sql(SORT.format(20000), limit=1, timeout_ns=10**11).done.rows, 1, "a smaller one is not refused")
        self.assertEqual([name for name in os.listdir(self.daemon.directory) if name.startswith("query.")], [])
        wait_for("their ends", lambda: not children(self.daemon))

    def test_who_never_reads_waits_alone(self):
        deaf = [self.connect() for _ in range(12)]
        for client in deaf:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send(id=1, sql=control.SqlRequest(text=ENDLESS + MANY, limit=1000000))
        wait_for("their processes", lambda: len(children(self.daemon)) > 4)
        reply = self.beside_honest("who never reads", lambda: self.sql("SELECT 1"))
        self.assertEqual(reply.WhichOneof("body"), "done", reply)
        self.assertEqual(self.daemon.ctl("status").code, 0)

    def test_a_process_that_is_killed_is_told_of(self):
        client = self.connect()
        client.send(id=1, sql=control.SqlRequest(text=ENDLESS + "SELECT max(i) FROM n"))
        os.kill(wait_for("its process", lambda: children(self.daemon))[0], signal.SIGKILL)
        self.assert_fails(list(client.replies())[-1], control.Error.UNAVAILABLE, "was killed")
        self.assertIn("was killed", self.daemon.log())
        self.assertEqual(self.sql("SELECT 1").WhichOneof("body"), "done")

    def test_the_store_is_written_and_cleaned_meanwhile(self):
        """Readers that cannot write to the log's index see whole states of it, whatever is written, and nobody is
        answered before what he asked for is written."""
        with contextlib.closing(sqlite3.connect(self.daemon.database, check_same_thread=False)) as db:
            db.execute("BEGIN IMMEDIATE")  # the writer waits, much longer than names are waited for
            short, expected = run("short")
            threading.Timer(1, db.rollback).start()
            calls = self.daemon.apis(short.pid)
            self.assertEqual({fn: row["calls"] for fn, row in calls.items()},
                             {row["fn"]: row["calls"] for row in expected if row.get("fn") in calls})
            self.assertGreater(len(calls), 1)
        program = tracesmith.workload("rate", "--kind", "mixed", "--rate", "20000", "--seconds", "600")
        try:
            wait_for("calls", lambda: self.daemon.known(program.pid))
            answers, end = 0, time.monotonic() + 3
            while answers < 2 or time.monotonic() < end:
                rows = self.daemon.sql("SELECT (SELECT count(*) FROM process) AS processes,"
                                       " (SELECT total(ops) FROM chunk) AS ops")
                self.assertGreater(rows[0]["processes"], 0)
                answers += 1
            print(f"{answers} answers meanwhile")
        finally:
            self.end(program)

    def test_a_daemon_that_ends_takes_them_with_it(self):
        self.connect().send(id=1, sql=control.SqlRequest(text=f"SELECT {' + '.join([STEP] * 100)}"))
        child = wait_for("its process", lambda: children(self.daemon))[0]
        begin = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertLess(time.monotonic() - begin, tracesmith.DEADLINE)
        wait_for("its end", lambda: not os.path.exists(f"/proc/{child}"))
        self.daemon.start()
        self.connect().send(id=1, sql=control.SqlRequest(text=f"SELECT {' + '.join([STEP] * 100)}"))
        child = wait_for("its process", lambda: children(self.daemon))[0]
        self.daemon.kill()
        wait_for("its end", lambda: not os.path.exists(f"/proc/{child}"))
        self.daemon.start()


if __name__ == "__main__":
    tracesmith.main()
