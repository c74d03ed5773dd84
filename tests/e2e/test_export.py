"""Traces of real runs, read back by an independent reader, hold exactly what the daemon stored."""
import datetime
import json
import os
import pty
import subprocess
import sys
import tempfile

import tracesmith
from tracesmith import BUILD, run, wait_for, workload

sys.path.insert(0, os.path.join(tracesmith.SOURCE, "tests", "tools"))
import trace_processor  # noqa: E402

FLAT_KIB = 48 << 10  # of tsctl, however long the window

ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
BY_KIND = ("select category, count(*) n, min(dur) shortest from slice"
           " where category not in ('loss', 'state') group by category")
STATES = "select count(*) n, sum(dur) ns, max(depth) depth from slice where category = 'state'"
BY_NAME = ("select name, count(*) n from slice where category not in ('loss', 'state')"
           " group by name")
COUNTERS = ("select t.name, count(*) n, max(c.value) most from counter c"
            " join track t on t.id = c.track_id group by t.name")
CALLERS = ("select distinct f.name from __intrinsic_track_event_callstacks c"
           " join stack_profile_callsite s on s.id = c.callsite_id"
           " join stack_profile_callsite o on o.id = s.parent_id"
           " join stack_profile_frame f on f.id = o.frame_id")
PROCESSES = "select pid, name, cmdline from process where pid > 0"
THREADS = "select tid from thread where tid > 0"


class Export(tracesmith.Case):
    # All calls have room, so that it does not matter how soon the daemon gets a processor.
    settings = "[probe]\nring_size = 64MiB\n"

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "trace")

    def ended(self, name, *arguments):
        process, _ = run(name, *arguments)
        self.daemon.wait_ended(process.pid)
        self.daemon.sql("SELECT 1")  # comes after the last of its ops
        return process.pid

    def leaked(self):
        """A program that has ended, and whose stacks got their names while it ran: a busy daemon may be late for others."""
        process = workload("leak")
        self.addCleanup(self.end, process)
        for sought in ("SELECT 1 FROM frame WHERE symbol = 'leaky_cache_insert'",
                       f"SELECT 1 FROM process WHERE pid = {process.pid} AND command LIKE '%workload/leak%'"):
            wait_for(sought, lambda: self.daemon.sql(sought))
        process.communicate("\n")
        self.daemon.wait_ended(process.pid)
        return process.pid

    def export(self, kind, *arguments):
        since = () if "--since" in arguments else ("--since", "1000d")
        result = self.daemon.ctl("export", f"--{kind}", "-o", self.path, *since, *arguments)
        self.assertEqual(result.code, 0, result.err)
        return result

    def stored(self, pid, what="kind", where="kind != 'state'"):
        return {row[what]: row["n"] for row in self.daemon.sql(
            f"SELECT {what}, count(*) n FROM op WHERE pid = {pid} AND {where} GROUP BY {what}")}

    def check(self, kind, pid):
        self.export(kind, "--pid", pid)
        errors, kinds, names, states = trace_processor.query(self.path, ERRORS, BY_KIND, BY_NAME,
                                                             STATES)
        self.assertEqual(errors, [])
        self.assertEqual({row["category"]: row["n"] for row in kinds}, self.stored(pid))
        self.assertEqual({row["name"]: row["n"] for row in names}, self.stored(pid, "fn"))
        self.assertGreaterEqual(min(row["shortest"] for row in kinds), 0)
        want = self.daemon.sql("SELECT count(*) n, sum(duration_ns) ns FROM state"
                               f" WHERE pid = {pid} AND state != 'idle'")[0]
        self.assertEqual((states[0]["n"], states[0]["ns"]), (want["n"], want["ns"]))
        self.assertEqual(states[0]["depth"], 0, "states of one stream overlap")

    def test_every_call_of_every_function_in_both_formats(self):
        pid = self.ended("counts")
        self.check("perfetto", pid)
        self.check("chrome", pid)

    def test_threads_streams_and_devices(self):
        pid = self.ended("streams")
        self.check("perfetto", pid)
        threads = {row["tid"] for row in trace_processor.query(self.path, THREADS)[0]}
        self.assertEqual(threads, {row["tid"] for row in self.daemon.sql(
            f"SELECT DISTINCT tid FROM op WHERE pid = {pid} AND kind != 'state'")})
        self.check("chrome", pid)

    def test_memory_and_stacks_and_names(self):
        pid = self.leaked()
        self.check("perfetto", pid)
        counters, callers, processes = trace_processor.query(self.path, COUNTERS, CALLERS, PROCESSES)
        most = {row["name"]: row["most"] for row in counters}
        self.assertEqual(most["GPU 0 memory"], self.daemon.sql(
            f"SELECT max(live_bytes) n FROM op WHERE pid = {pid} AND device = 0")[0]["n"])
        self.assertIn("leaky_cache_insert", {row["name"] for row in callers})
        self.assertEqual([row["pid"] for row in processes], [pid])
        # The words of a stored command line are those between spaces.
        self.assertEqual(processes[0]["name"], tracesmith.workload_path("leak").split()[0])
        self.assertIn("workload/leak", processes[0]["cmdline"])

    def test_more_names_than_an_answer_has_rows(self):
        """The stack of the leak comes behind 25,000 others, each of one frame."""
        pid = self.leaked()
        self.daemon.stop()
        with tracesmith.edited(self.daemon.database) as db:
            process, = db.execute("SELECT id FROM process WHERE pid = ?", (pid,)).fetchone()
            ids = range(-2**63 + 2, -2**63 + 25002)
            db.executemany("INSERT INTO stack(id, process) VALUES (?, ?)", [(stack, process) for stack in ids])
            db.executemany("INSERT INTO frame(stack, depth, address) VALUES (?, 0, 1)", [(stack,) for stack in ids])
        self.daemon.start()
        self.export("perfetto", "--pid", pid)
        self.assertIn("leaky_cache_insert", {row["name"] for row in trace_processor.query(self.path, CALLERS)[0]})

    def test_all_processes_and_a_window(self):
        first, second = self.ended("short"), self.ended("short")
        rows = self.daemon.sql(
            f"SELECT (SELECT max(max(start_ns), max(end_ns)) FROM op WHERE pid = {first}) a,"
            f" (SELECT min(start_ns) FROM op WHERE pid = {second}) b, max(wall_offset_ns) wall"
            " FROM boot")[0]
        edge = datetime.datetime.fromtimestamp(((rows["a"] + rows["b"]) // 2 + rows["wall"]) / 1e9)
        for window, pids in (((), {first, second}), (("--until", edge.isoformat()), {first}),
                             (("--since", edge.isoformat()), {second}), (("--until", "1h"), set())):
            self.export("chrome", *window)
            self.assertEqual(self.pids() & {first, second}, pids, window)

    def test_the_daemon_is_asked_for_its_last_seconds(self):
        """And which part of time came is said, since a file of another program's format hides it."""
        # However late it is asked, there is something of them.
        process = workload("steps", "--seconds", 3600, "--calls", 1, "--pause", 10000000)
        self.addCleanup(self.end, process)
        pid = self.ended("short")
        result = self.daemon.ctl("export", "--chrome", "-o", self.path)
        self.assertEqual(result.code, 0, result.err)
        self.assertRegex(result.err, r"^tsctl: \d+ operations of 10\.0 s, from \d{4}-\d\d-\d\d [\d:.]+ to [\d :.-]+, "
                                     r"[0-9.]+ [KM]iB; use --since for more\n")
        last_ns = self.daemon.sql(f"SELECT max(start_ns) n FROM op WHERE pid = {pid}")[0]["n"]
        wait_for("ten seconds to pass", lambda: self.daemon.sql("SELECT now_ns() n")[0]["n"] > last_ns + 11e9)
        self.export("chrome", "--since", "1h")
        self.assertIn(pid, self.pids())
        result = self.daemon.ctl("export", "--chrome", "-o", self.path)
        self.assertNotIn(pid, self.pids())
        result = self.daemon.ctl("export", "--chrome", "--since", "5s", "-o", self.path)
        self.assertIn(" operations of 5.00 s, from ", result.err)
        self.assertNotIn("use --since for more", result.err)

    def test_progress_is_for_terminals(self):
        self.ended("short")
        ours, theirs = pty.openpty()
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        subprocess.run([os.path.join(BUILD, "tsctl"), "export", "--chrome", "--since", "1h", "-o", self.path], env=environment,
                       stdout=subprocess.DEVNULL, stderr=theirs, timeout=120, check=True)
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        self.assertRegex(shown, r"\r *\d+ %, [0-9.]+ (B|KiB|MiB) ")
        self.assertNotIn("%", self.export("chrome").err)

    def pids(self):
        with open(self.path) as file:
            events = json.load(file)["traceEvents"]
        return {event["pid"] for event in events if event["ph"] in "Xi" and event["cat"] != "loss"}

    def test_standard_output(self):
        pid = self.ended("short")
        result = self.daemon.ctl("export", "--chrome", "-o", "-", "--since", "1h", "--pid", str(pid))
        self.assertEqual(result.code, 0)
        self.assertGreater(len(json.loads(result.out)["traceEvents"]), 0)

    def test_a_terminal_gets_no_bytes(self):
        pid = self.ended("short")
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        for form, code in (("--perfetto", 2), ("--pprof", 2), ("--chrome", 0)):
            ours, theirs = pty.openpty()
            command = [os.path.join(BUILD, "tsctl"), "export", form, "-o", "-", "--pid", str(pid), "--since", "1us"]
            result = subprocess.run(command, env=environment, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=120)
            os.close(theirs)
            os.close(ours)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertEqual("This format is binary" in result.stderr, code == 2)

    def test_a_failure_leaves_the_old_file(self):
        with open(self.path, "w") as file:
            file.write("old")
        result = self.daemon.ctl("export", "--perfetto", "-o", self.path, "--pid", "999999")
        self.assertEqual(result.code, 1)
        self.assertRegex(result.err, r"^tsctl: .*999999")
        with open(self.path) as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["trace"])

    def test_a_full_disk_is_one_sentence(self):
        self.ended("leak")
        result = self.daemon.ctl("export", "--perfetto", "-o", "/dev/full")
        self.assertEqual(result.code, 1)
        self.assertIn("Cannot write '/dev/full': No space left on device", result.err)

    def test_what_and_where_have_to_be_said(self):
        for arguments in ([], ["--perfetto"], ["-o", self.path],
                          ["--perfetto", "--chrome", "-o", self.path]):
            self.assertEqual(self.daemon.ctl("export", *arguments).code, 2)
        self.assertFalse(os.path.exists(self.path))

    def test_memory_stays_flat(self):
        pid = self.ended("rate", "--count", "400000")
        wait_for("the ops to be stored", lambda: self.daemon.sql(
            f"SELECT sum(ops) n FROM chunk JOIN process p ON p.id = process WHERE p.pid = {pid}")[0]["n"] > 300000)
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        export = subprocess.Popen([os.path.join(BUILD, "tsctl"), "export", "--perfetto", "--since", "1h", "-o", self.path],
                                  env=environment)
        _, export.returncode, usage = os.wait4(export.pid, 0)
        self.assertEqual(export.returncode, 0)
        self.assertGreater(os.path.getsize(self.path), 20e6)
        self.assertLess(usage.ru_maxrss, FLAT_KIB)


if __name__ == "__main__":
    try:
        trace_processor.locate()
    except trace_processor.Unavailable as error:
        tracesmith.skip(error)
    tracesmith.main()
