"""The Python package gives the same answers as tsctl, and says the same when it has none."""
import ast
import contextlib
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest import mock

import tracesmith as e2e
from tracesmith import BUILD, SOURCE, run, wait_for, workload

PACKAGE = Path(BUILD, "python")
if not (PACKAGE / "tracesmith").exists():
    e2e.skip(f"no Python package in {PACKAGE}: it needs protoc")
# The package has the name of the tests' own module.
del sys.modules["tracesmith"]
sys.path.insert(0, str(PACKAGE))
import tracesmith  # noqa: E402
from tracesmith import _plot as plot, control_pb2 as control  # noqa: E402
from tracesmith._connection import Connection  # noqa: E402

LIBRARY = "libtracesmith-range.so.1"
# What marks spans in all ways that there are.
RANGES = """
import asyncio, json, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import tracesmith
print("loaded", flush=True)
sys.stdin.readline()
with tracesmith.range("step"):
    with tracesmith.range("inner <b>\\x1b[31m"):
        time.sleep(0.001)
@tracesmith.range("plain")
def plain(x):
    return x and plain(x - 1)
assert plain(4) == 0 and plain.__name__ == "plain"
@tracesmith.range("iterated")
def iterated():
    yield from (1, 2)
    return 3
assert list(iterated()) == [1, 2]
@tracesmith.range("awaited")
async def awaited():
    await asyncio.sleep(0)
    return 4
assert asyncio.run(awaited()) == 4
with tracesmith.range("x" * 100):
    pass
again = tracesmith.range("again")
with again, again, again:
    pass
thread = threading.Thread(target=tracesmith.range("in a thread").__enter__)
thread.start()
thread.join()
over = tracesmith.range("over a fork").__enter__()
fork = os.fork()
if not fork:
    over.__exit__()
    with tracesmith.range("in the child"):
        pass
    os._exit(0)
_, status = os.waitpid(fork, 0)
over.__exit__()
tracesmith._range._end(10 ** 6)
tracesmith.range("left open").__enter__()
print(json.dumps({"fork": fork, "status": status}), flush=True)
os._exit(0)
"""
TSCTL = os.path.join(BUILD, "tsctl")
NOBODY = 65534


def as_json(row):
    """A row as tsctl writes it."""
    said = {}
    for name, value in row.items():
        said[name] = value.hex() if isinstance(value, bytes) else value
        if isinstance(value, tracesmith.Stack):
            said[name] = list(value)
            if value.frames:
                said["frames"] = [frame._asdict() for frame in value.frames]
            if value.end:
                said["stack_end"] = value.end
            if value.linked:
                said["stack_linked"] = True
    return said


@contextlib.contextmanager
def in_child(call):
    """Runs it in a fork of this process; gives a function that returns what it returned, a text, at the end."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if not child:
            try:
                file.write(call().encode())
                file.flush()
            finally:
                os._exit(0)
        said = []
        yield lambda: said[0]
        os.waitpid(child, 0)
        file.seek(0)
        said.append(file.read().decode())


class Refusals(unittest.TestCase):
    def refused(self, kind, call, *arguments, **options):
        """The sentence."""
        with self.assertRaises(kind) as caught:
            call(*arguments, **options)
        self.assertIsInstance(caught.exception, tracesmith.Error)
        return str(caught.exception)


class Case(e2e.Case, Refusals):
    maxDiff = None

    def assert_same(self, ask, *arguments):
        """As tsctl answers to these arguments. What comes in between can be in one answer alone; and a busy host loses
        mappings all the time."""
        said = {}

        def both():
            answer, result = ask(), self.daemon.ctl(*arguments, "--json")
            self.assertEqual(result.code, 0, result.err)
            theirs = {"truncated": False, "note": "", **json.loads(result.out)}
            theirs.pop("missing", None)  # the line of `loss` for people
            ours = {"query": answer.query, "rows": [as_json(row) for row in answer], "loss": answer.loss,
                    "truncated": answer.truncated, "note": answer.note}
            for answer in ours, theirs:
                answer["loss"].pop("mapping", None)
                answer["rows"] = [row for row in answer["rows"] if row.get("reason") != "mapping"]
            if "--" in theirs["note"]:  # an option, which is an argument here
                ours["note"] = theirs["note"]
            said["ours"], said["theirs"] = ours, theirs
            return ours == theirs

        try:
            wait_for("the same answer", both)
        except AssertionError:
            self.assertEqual(said["ours"], said["theirs"], arguments)

    def assert_all_same(self, asked, *more):
        for row in asked.queries():
            with self.subTest(query=row["name"]):
                self.assert_same(lambda name=row["name"]: asked.query(name), "query", row["name"], *more)


class Daemon(Case):
    libraries = "libtracesmith-range.so*"

    def connect(self):
        client = tracesmith.connect(self.daemon.socket)
        self.addCleanup(client.close)
        return client

    def test_one_daemon(self):
        program, _ = run("leak", "--steps", "20")
        self.daemon.wait_ended(program.pid)
        ts = self.connect()
        self.same_answers(ts, program.pid)
        self.errors(ts, program.pid)
        self.threads_and_forks(ts)
        self.ranges(ts)
        self.permission()
        self.process(ts)
        self.restart(ts)

    def same_answers(self, ts, pid):
        self.assert_all_same(ts)
        self.assert_same(lambda: ts.query("apis", pid=pid, sort="-calls", name="cu*", limit=2),
                         "query", "apis", "--pid", pid, "--sort", "-calls", "--name", "cu*", "--limit", "2")
        self.assert_same(lambda: ts.query("launches", pid=pid, by="function", until="2100-01-01T00:00:00"),
                         "query", "launches", "--pid", pid, "--by", "function", "--until", "2100-01-01T00:00:00")
        text = "SELECT fn, count(*) AS n, x'00ff' AS bytes, NULL AS none, 0.5 AS half FROM op GROUP BY fn"
        self.assert_same(lambda: ts.sql(text), "sql", text)
        lately = ts.query("apis", pid=pid, since="1h", until="now").rows
        self.assertTrue(lately)
        for since in (3600, timedelta(hours=1), datetime.now() - timedelta(hours=1),
                      datetime.now(timezone.utc) - timedelta(hours=1)):
            self.assertEqual(ts.query("apis", pid=pid, since=since).rows, lately, since)
        self.assertEqual(ts.query("apis", pid=pid, until="2024-05-31T13:00:00").rows, [])
        stacks = [row["stack"] for row in ts.query("launches", pid=pid) if row["stack"]]
        self.assertTrue(stacks)
        self.assertEqual([len(stack.frames) for stack in stacks], [len(stack) for stack in stacks])
        status = {item.name: item for item in ts.status()}
        self.assertGreater(status["memory_bytes"].number, 0)
        self.assertRegex(ts.version, r"^[0-9]+\.")
        self.assertEqual(ts.version, tracesmith.__version__)
        self.assertTrue(plot.memory(ts, pid, plot.window_of(ts, pid, "1h", None))[0])
        self.shown(ts)

    def shown(self, ts):
        answer = ts.sql("SELECT '<script>' || char(27) || '&' AS \"<b>\", 1 AS one")
        self.assertIn("&lt;script&gt;", answer._repr_html_())
        self.assertNotIn("<script>", answer._repr_html_())
        self.assertNotIn("<b>", answer._repr_html_())
        self.assertNotIn("\x1b", repr(answer))
        self.assertEqual([row["one"] for row in answer], [1])
        self.assertEqual(answer[0]["one"], answer[-1:][0]["one"])
        self.assertIn("first 1 rows", repr(ts.sql("SELECT 1 UNION ALL SELECT 2", limit=1)))
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pandas is not installed"):
                answer.pandas()
        else:
            self.assertEqual(answer.pandas()["one"].tolist(), [1])

    def errors(self, ts, pid):
        self.assertIn("did you mean 'kernels'?", self.refused(tracesmith.NotFound, ts.query, "kernel"))
        self.assertIn("takes no min_age, only", self.refused(tracesmith.BadRequest, ts.query, "apis", min_age="1s"))
        self.assertIn("see since= and until=",
                      self.refused(tracesmith.BadRequest, ts.query, "apis", since="now", until="10s"))
        self.assertIn("has not used CUDA", self.refused(tracesmith.NotFound, ts.query, "apis", pid=os.getpid()))
        self.assertIn("syntax error", self.refused(tracesmith.BadRequest, ts.sql, "SELEC 1"))
        for options in ({"since": "3 apples"}, {"since": "2024-13-01"}, {"since": -1}, {"until": float("nan")}, {"pid": -1},
                        {"pid": 1 << 40}, {"pid": "7"}, {"limit": True}, {"by": "colour"}, {"name": 7}, {"name": "\ud800"}):
            with self.subTest(options=options):
                self.assertIn(f"{next(iter(options))}= needs", self.refused(tracesmith.BadRequest, ts.query, "apis", **options))
        self.assertIn("too long", self.refused(tracesmith.BadRequest, ts.sql, "SELECT '" + "x" * 70000 + "'"))
        self.refused(tracesmith.Limited, ts.sql, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) "
                     "SELECT count(*) FROM n", timeout="50ms")
        for call in (ts.attach, ts.detach):
            self.assertIn(f"{pid}", self.refused(tracesmith.NotFound, call, pid))  # it has ended
        self.assertIn("does not use CUDA", self.refused(tracesmith.NoCuda, ts.attach, os.getpid()))
        self.refused(tracesmith.BadRequest, ts.attach, os.getpid(), records="kernels,nonsense")
        self.refused(tracesmith.BadRequest, ts.attach, os.getpid(), budget="300%")
        self.assertIn("start it with", self.refused(tracesmith.NoDaemon, tracesmith.connect, "/nonexistent"))
        self.assertIn("Cannot connect", self.refused(tracesmith.NoDaemon, tracesmith.connect, "/" + "x" * 200))
        self.assertEqual(len(ts.sql("SELECT 1 AS one")), 1, "it still answers")

    def threads_and_forks(self, ts):
        said, answers = [], range(8)
        threads = [threading.Thread(target=lambda i=i: said.append(ts.sql(f"SELECT {i} AS i")[0]["i"])) for i in answers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(said), list(answers))
        with mock.patch.object(tracesmith.Answer, "add", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, ts.sql, "SELECT 1")
        self.assertEqual(ts.sql("SELECT 9 AS i")[0]["i"], 9, "the rest of the answer before")
        with in_child(lambda: str(ts.sql("SELECT 7 AS i")[0]["i"])) as answer:
            self.assertEqual(ts.sql("SELECT 8 AS i")[0]["i"], 8)
        self.assertEqual(answer(), "7")

    def ranges(self, ts):
        """Once probes are on the library, which no process has mapped before."""
        child = subprocess.Popen([sys.executable, "-c", RANGES, PACKAGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), "loaded\n")
        library = os.path.realpath(PACKAGE / "tracesmith" / LIBRARY)
        wait_for("the probes", lambda: f"functions of '{library}'" in self.daemon.log())
        out, _ = child.communicate("go\n", timeout=60)
        self.assertEqual(child.returncode, 0, out)
        told = json.loads(out)
        self.assertEqual(told.pop("status"), 0)  # of the fork
        rows = ts.sql(f"SELECT p.pid, tid, name, end_ns - start_ns AS ns, flags & 1 AS ended FROM op JOIN process p"
                      f" ON p.id = op.process WHERE kind = 'range' AND p.pid IN ({child.pid}, {told['fork']})")
        seen = {}
        for row in rows:
            seen.setdefault(row["name"], []).append(row)
        count = {name: len(rows) for name, rows in seen.items()}
        long = "x" * (72 - 3) + "\N{HORIZONTAL ELLIPSIS}"
        self.assertEqual(count, {"step": 1, "inner <b>\x1b[31m": 1, "plain": 5, "iterated": 1, "awaited": 1, long: 1,
                                 "in a thread": 1, "over a fork": 1, "in the child": 1, "left open": 1, "again": 3})
        self.assertGreaterEqual(seen["step"][0]["ns"], seen["inner <b>\x1b[31m"][0]["ns"])
        self.assertEqual({name for name, rows in seen.items() if not rows[0]["ended"]}, {"in a thread", "left open"})
        self.assertNotEqual(seen["in a thread"][0]["tid"], child.pid)
        self.assertEqual([row["pid"] for row in seen["in the child"]], [told["fork"]])
        summed = {row["name"]: row["count"] for row in ts.query("ranges", pid=child.pid)}
        self.assertEqual(summed, {name: n for name, n in count.items() if name != "in the child"})
        # The end that had no begin, and nothing else.
        before = {row["pid"]: row["count"] for row in ts.query("loss") if row["reason"] == "before"}
        self.assertEqual((before[child.pid], told["fork"] in before), (1, False))
        path = os.path.join(self.daemon.directory, "trace.json")
        trace = self.daemon.ctl("export", "--chrome", "-o", path, "--since", "1h")
        self.assertEqual(trace.code, 0, trace.err)
        with open(path) as file:
            named = {event.get("name") for event in json.load(file)["traceEvents"]}
        self.assertLessEqual(set(count), named)

    def permission(self):
        """Who may not open the socket is told what to do."""
        def connect():
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            return self.refused(tracesmith.Denied, tracesmith.connect, self.daemon.socket)

        with in_child(connect) as answer:
            pass
        self.assertIn("No permission to use", answer())

    def process(self, ts):
        """Attached, watched and recorded, and then read."""
        path = os.path.join(self.daemon.directory, "run.sbt")
        program = workload("loop", "--seconds", "600", "--pace-ms", "1")
        self.addCleanup(self.end, program)
        wait_for("the process", lambda: self.daemon.known(program.pid))
        with ts.attach(program.pid, records="-overhead", wait="60s") as attached, ts.subscribe() as live:
            self.assertIn("kernels", attached.records)
            self.assertNotIn("overhead", attached.records)
            with ts.record(path, pid=program.pid, tsctl=TSCTL) as record:
                before = self.counts(ts, program.pid)
                kernels = wait_for("each kernel once more", lambda: self.more(self.counts(ts, program.pid), before))
                program.send_signal(signal.SIGSTOP)  # while a busy host reports more and more, it waits up to 30 s
            program.send_signal(signal.SIGCONT)
            processes = next(now.processes for now in live if now.processes)
            self.assertIn(program.pid, [process["pid"] for process in processes])
        self.assertTrue(attached.detached.unloaded)
        self.assertGreater(attached.detached.records, 0)
        self.assertIn("is not attached", self.refused(tracesmith.Error, ts.detach, program.pid))
        with ts.attach(program.pid):
            self.end(program)  # and needs no detaching
        with self.assertRaisesRegex(tracesmith.Error, "Nothing was recorded"):
            ts.record(path + "2", pid=program.pid, tsctl=TSCTL).stop()
        self.assertFalse(os.path.exists(path + "2"))
        with record.open() as recording:
            self.assert_all_same(recording, "--file", path)
            self.assertLessEqual(set(kernels), {row["name"] for row in recording.query("kernels", pid=program.pid)})

    @staticmethod
    def counts(ts, pid):
        """How often each of its kernels has run."""
        return {row["name"]: row["count"] for row in ts.query("kernels", pid=pid, since="1h")}

    @staticmethod
    def more(now, before):
        return now if all(count > before.get(name, 0) for name, count in now.items()) else None

    def restart(self, ts):
        """A client outlives the daemon; what was under way says so."""
        live = ts.subscribe()
        self.assertEqual(next(live).span_ns >= 0, True)
        self.daemon.stop()
        with self.assertRaises(tracesmith.ConnectionLost):
            for _ in live:
                pass
        self.assertEqual(list(live), [])
        self.refused(tracesmith.NoDaemon, ts.query, "apis")
        self.daemon.start()
        self.assertEqual(ts.sql("SELECT 1 AS one").rows, [{"one": 1}])
        ts.close()
        self.refused(tracesmith.BadRequest, ts.query, "apis")


class Files(Refusals):
    def test_bad_files(self):
        opened = lambda path: tracesmith.open(path, tsctl=TSCTL)  # noqa: E731
        self.assertIn("not an .sbt file", self.refused(tracesmith.Unavailable, opened, "/etc/passwd"))
        self.assertIn("No such file", self.refused(tracesmith.Unavailable, opened, Path("/nonexistent")))
        self.assertIn("Cannot run", self.refused(tracesmith.Unavailable, tracesmith.open, "x", tsctl="/nonexistent"))
        whole = Path(SOURCE, "tests/data/exact.sbt").read_bytes()
        with tempfile.NamedTemporaryFile() as cut, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            cut.write(whole[:len(whole) * 3 // 4])
            cut.flush()
            with opened(cut.name) as recording:
                self.assertGreater(len(recording.query("processes")), 0)
                self.assertIn("is not in this recording",
                              self.refused(tracesmith.NotFound, recording.query, "apis", pid=1))
        self.assertIn("truncated", str(said[0].message))
        refused = subprocess.run([TSCTL, "answer", cut.name], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 check=False)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("not a connected socket", refused.stderr)

    def test_pictures(self):
        """Drawn with matplotlib where it is; what they show is computed without it."""
        sums = ("SELECT process, CASE WHEN detail IN ('host', 'registered') THEN 'host' ELSE 'device ' || device END AS place,"
                " max(live_bytes) AS peak FROM op WHERE kind IN ('alloc', 'free') GROUP BY 1, 2")
        with tracesmith.open(Path(SOURCE, "tests/data/exact.sbt"), tsctl=TSCTL) as recording:
            window = plot.window_of(recording, None, None, None)
            for divided in window._replace(step_ns=window.until_ns - window.since_ns), window:
                curves, _ = plot.memory(recording, None, divided)
                self.assertEqual(sorted((curve.label.split(", ")[1], curve.peak_bytes) for curve in curves),
                                 sorted((row["place"], row["peak"]) for row in recording.sql(sums)))
                self.assertEqual({curve.bytes[-1] for curve in curves}, {0}, "all was freed")
            lanes, _ = plot.lanes(recording, None, window)
            copies = recording.sql("SELECT DISTINCT stream FROM op WHERE kind IN ('copy', 'set') AND gpu_end_ns > 0")
            self.assertLessEqual({f"stream {row['stream']}" for row in copies}, {lane.label.split(", ")[2] for lane in lanes})
            for bar in (bar for lane in lanes for bar in lane.bars):
                self.assertLessEqual(window.since_ns, bar.start_ns)
                self.assertLessEqual(bar.start_ns, bar.end_ns)
                self.assertLessEqual(bar.end_ns, window.until_ns)
            self.refused(tracesmith.BadRequest, plot.window_of, recording, None, "3 apples", None)
            self.drawn(recording)

    def drawn(self, recording):
        try:
            import matplotlib
        except ImportError:
            print("skipped: drawing, for there is no matplotlib (apt install python3-matplotlib)")
            with self.assertRaisesRegex(ImportError, "matplotlib is not installed"):
                recording.plot_memory()
            return
        matplotlib.use("Agg")
        memory, lanes = recording.plot_memory(), recording.plot_lanes()
        self.assertEqual(len(memory.get_lines()), 3)
        self.assertIn("stream 1", " ".join(label.get_text() for label in lanes.get_yticklabels()))
        for axes in memory, lanes:
            self.assertRegex(axes.get_xlabel(), "^seconds since 20")
            axes.figure.savefig(io.BytesIO())
        self.assertIs(recording.plot_lanes(axes=memory), memory)
        for draw in recording.plot_memory, recording.plot_lanes:
            self.assertIn("see since=", self.refused(tracesmith.NotFound, draw, since="now"))
            with mock.patch.dict(sys.modules, matplotlib=None), self.assertRaisesRegex(ImportError, "not installed"):
                draw()

    def test_columns_of_a_curve_hold_what_was_left(self):
        self.assertEqual(plot._columns([(1, 5, 2), (3, 2, 0), (9, 7, 7)], 5), (1, [5, 2, 2, 7]))
        self.assertEqual(plot._label("a$b\nc" + "x" * 90), "a\\$b?c" + "x" * 34 + "\N{HORIZONTAL ELLIPSIS}")

    def test_another_server(self):
        for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\4\0\0\0\xff\xff\xff\xff", b"\2\0\0\0\x08\1", b"\9"):
            with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as server:
                path = os.path.join(directory, "socket")
                server.bind(path)
                server.listen()

                def answer(words=words):
                    with server.accept()[0] as client:
                        client.recv(1000)
                        client.sendall(words)

                thread = threading.Thread(target=answer)
                thread.start()
                self.refused(tracesmith.ConnectionLost, tracesmith.connect, path)
                thread.join()

    def test_messages_of_a_subscription_add_up(self):
        """Those who are left out have done nothing, those who are gone are no more."""
        theirs, ours = socket.socketpair()
        live = control.LiveReply
        busy = live.Process(id=1, pid=7, calls=live.Calls(count=4), lost=5, live_bytes=6,
                            use=[live.Use(device=0, states=live.States(running_ns=3))])
        messages = [live(time_ns=1, whole=True, process=[busy, live.Process(id=2, pid=8)],
                         device=[live.Device(device=0, calls=live.Calls(count=4))]),
                    live(time_ns=2, process=[live.Process(id=3, pid=9)], gone=[2]), live(time_ns=3, whole=True)]
        replies = [control.Reply(id=1, hello=control.HelloReply(protocol=1)),
                   *(control.Reply(id=2, live=message) for message in messages)]
        with theirs:
            for reply in replies:
                data = reply.SerializeToString()
                theirs.sendall(struct.pack("<I", len(data)) + data)
            subscription = tracesmith.Subscription(Connection(ours, False, lambda: None))
            first, second, third = (next(subscription) for _ in messages)
        self.assertEqual([process["calls"]["count"] for process in first.processes], [4, 0])
        self.assertEqual([process["pid"] for process in second.processes], [7, 9])
        rests, device = second.processes[0], second.devices[0]
        self.assertEqual((rests["calls"]["count"], rests["lost"], rests["live_bytes"]), (0, 0, 6))
        self.assertEqual((rests["use"][0]["states"]["running_ns"], device["calls"]["count"]), (0, 0))
        self.assertEqual((third.time_ns, third.processes, third.devices), (3, [], []))
        self.refused(tracesmith.ConnectionLost, next, subscription)
        self.assertEqual(list(subscription), [])

    def test_sources_are_those_of_python_3_8(self):
        for path in (PACKAGE / "tracesmith").glob("*.py"):
            ast.parse(path.read_text(), str(path), feature_version=(3, 8))


if __name__ == "__main__":
    e2e.main()
