"""tsctl record: what is in the file is what is in the store, each op once, however it comes and ends."""
import datetime
import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import time
import unittest

import tracesmith
from tracesmith import BUILD, library, run, wait_for, workload, workload_path

CONTENT = ("SELECT kind, count(*) AS n, sum(start_ns % 1000003) AS start, sum(coalesce(gpu_end_ns, 1) % 1000003) AS gpu,"
           " sum(coalesce(seen_ns, 1) % 1000003) AS seen, sum(stream) AS streams, sum(stack % 1009) AS stacks,"
           " sum(correlation % 1009) AS correlations, count(name) AS names FROM op WHERE pid {} GROUP BY kind ORDER BY kind")
# What the ops refer to: frames of their stacks, their streams and names.
REFERRED = ("SELECT (SELECT count(*) FROM op WHERE pid {0} AND stack <> 0 AND stack NOT IN (SELECT stack FROM frame)) AS stacks,"
            " (SELECT count(*) FROM op WHERE pid {0} AND stream <> 0 AND stream NOT IN (SELECT id FROM stream)) AS streams")
SUMS = "SELECT sum(calls) AS calls, sum(total_ns) AS ns, sum(bytes) AS bytes FROM rollup JOIN process p ON p.id = process WHERE pid {}"


class Record(tracesmith.Case):
    # What a recording waits for at its end, and a test before it compares.
    settings = "[store]\nbounds_wait = 500ms\n"

    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp(prefix="tracesmith-record-")
        self.addCleanup(lambda: subprocess.run(["rm", "-r", self.directory]))
        self.file = os.path.join(self.directory, "f.sbt")

    def rows(self, statement, file=None):
        if not file:
            return self.daemon.sql(statement)
        result = self.daemon.ctl("sql", "--json", statement, "--file", file)
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)["rows"]

    @staticmethod
    def besides(err):
        """What is said but for what a host that is busy with other things may lose."""
        return re.sub("tsctl: (not watched for|lost: [0-9]+ (mapping|stack)s?\\b).*\n", "", err)

    def fact(self, key, file=None):
        rows = self.rows(f"SELECT value FROM recording WHERE key = '{key}'", file or self.file)
        return rows[0]["value"] if rows else None

    def assert_same(self, pid, file=None, sums=True):
        """The file has the ops of the process that the store has, and what they refer to."""
        where = f"= {pid}"
        stored = self.rows(CONTENT.format(where))
        self.assertTrue(stored)
        self.assertEqual(self.rows(CONTENT.format(where), file or self.file), stored)
        self.assertEqual(self.rows(REFERRED.format(where), file or self.file),
                         self.rows(REFERRED.format(where)))
        if sums:
            self.assertEqual(self.rows(SUMS.format(where), file or self.file), self.rows(SUMS.format(where)))

    def settle(self, pid):
        """Waits until a process has ended, what it left on a stream is bounded, and the daemon has told the store all
        that it knew of it."""
        self.daemon.wait_ended(pid)

        def is_told():
            model = {row["name"]: row["number"] for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"]
                     if row["section"] == "model"}
            return model["processes"] == model["pending_ops"] == 0
        wait_for("the last ops", is_told)
        self.assertTrue(self.rows(CONTENT.format(f"= {pid}")))

    def start(self, *arguments, **options):
        """tsctl record in the background, once it records."""
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "record", "-o", self.file, *map(str, arguments)],
                                   env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate(timeout=tracesmith.DEADLINE)))
        wait_for("the recording to begin", lambda: process.poll() is not None
                 or os.path.exists(self.file) and os.path.getsize(self.file) > 0)
        return process

    def end(self, process, number=signal.SIGINT):
        process.send_signal(number)
        out, err = process.communicate(timeout=2 * tracesmith.DEADLINE)
        return process.returncode, err

    def test_past(self):
        process, _ = run("exact", "--rounds", "50")
        self.settle(process.pid)
        for whom in (["--all"], ["--pid", process.pid]):
            result = self.daemon.ctl("record", "-o", self.file, "--since", "1h", *whom)
            self.assertEqual((result.code, result.out), (0, ""))
            self.assertEqual(self.besides(result.err), "")
            self.assert_same(process.pid)
            self.assertEqual(self.fact("complete"), 1)
        for name in ("apis", "memory", "transfers", "syncs", "streams", "states"):
            rows = [json.loads(self.daemon.ctl("query", name, "--pid", process.pid, "--json", *file).out)["rows"]
                    for file in ((), ("--file", self.file))]
            self.assertEqual(rows[0], rows[1], name)

    def test_part_of_the_past_is_cut_at_its_edges(self):
        process, _ = run("exact", "--rounds", "50")
        self.settle(process.pid)
        whole = self.rows(f"SELECT start_ns FROM op WHERE pid = {process.pid} ORDER BY start_ns")

        def offset():
            """Of the wall clock, and how long it took to look."""
            begin = time.monotonic_ns()
            now = time.time_ns()
            return time.monotonic_ns() - begin, now - begin

        _, offset_ns = min(offset() for _ in range(100))  # one of them is not interrupted

        def time_of(op):
            ns = whole[op]["start_ns"] + offset_ns
            return f"{datetime.datetime.utcfromtimestamp(ns // 10**9).isoformat()}.{ns % 10**9:09}Z"
        result = self.daemon.ctl("record", "-o", self.file, "--all", "--since", time_of(len(whole) // 3),
                                 "--until", time_of(2 * len(whole) // 3))
        self.assertEqual(result.code, 0, result.err)
        since, until = self.fact("since_ns"), self.fact("until_ns")
        part = (f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND start_ns < {until} AND"
                f" max(start_ns, coalesce(end_ns, 0), iif(exact, coalesce(gpu_end_ns, 0), 0)) >= {since}")  # others have bounds
        self.assertTrue(0 < self.rows(part)[0]["n"] < len(whole))
        self.assertEqual(self.rows("SELECT count(*) AS n FROM op", self.file), self.rows(part))

    def test_program(self):
        other = workload("rate", "--rate", "500", "--seconds", "600")
        self.addCleanup(lambda: (other.kill(), other.communicate()))
        wait_for("the other program", lambda: self.daemon.known(other.pid))
        script = f"'{workload_path('exact')}' --rounds 20 > /dev/null; sh -c '\"{workload_path('short')}\" & wait; sleep 0.3'; exit 7"
        environment = {"LD_LIBRARY_PATH": os.path.dirname(library()), "FAKE_CUDA_TIME_SCALE": "0"}
        result = self.daemon.ctl("record", "-o", self.file, "--", "env", *(f"{k}={v}" for k, v in environment.items()),
                                 "sh", "-c", script)
        self.assertEqual(result.code, 7, result.err)
        processes = self.rows("SELECT pid, comm FROM process ORDER BY comm", self.file)
        self.assertEqual([row["comm"] for row in processes], ["exact", "short"])
        for row in processes:
            self.assert_same(row["pid"])
        self.assertEqual(self.rows("SELECT count(*) AS n FROM op WHERE kind IN ('launch', 'kernel') AND exact"
                                   " AND name IS NULL", self.file)[0]["n"], 0)
        self.assertEqual(self.fact("command"), "env")
        self.assertEqual(sorted(map(int, self.fact("pids").split())), sorted(row["pid"] for row in processes))

    def test_program_that_ends_otherwise(self):
        for program, status, said in ((["sh", "-c", "kill -9 $$"], 137, "no CUDA"), (["/nonexistent"], 127, "Cannot run"),
                                      (["/etc/passwd"], 126, "Cannot run"), (["true"], 1, "no CUDA")):
            result = self.daemon.ctl("record", "-o", self.file, "--", *program)
            self.assertEqual(result.code, status, result.err)
            self.assertIn(said, result.err)
            self.assertFalse(os.path.exists(self.file))

    def test_nothing_is_no_recording(self):
        process, _ = run("short")
        self.settle(process.pid)
        with open(self.file, "w") as file:
            file.write("mine")
        for whom, said in ((["--pid", process.pid], f"process {process.pid} has ended"), (["--", "true"], "no CUDA calls from true"),
                           (["--all", "--duration", "0.1s"], "no process used CUDA"),
                           (["--pid", process.pid, "--since", "0.2s", "--until", "0.1s"], "in that time")):
            result = self.daemon.ctl("record", "-o", self.file, *whom)
            self.assertEqual(result.code, 1, (whom, result.err, result.code or self.rows("SELECT * FROM op", self.file)))
            self.assertIn("Nothing was recorded: ", result.err)
            self.assertIn(said, result.err)
            with open(self.file) as file:
                self.assertEqual(file.read(), "mine", "not lost for an empty one")
        result = self.daemon.ctl("record", "-o", self.file, "--pid", process.pid, "--since", "1h")
        self.assertEqual(result.code, 0, result.err)
        self.assert_same(process.pid)

    def test_program_that_is_not_there_leaves_the_file(self):
        with open(self.file, "w") as file:
            file.write("mine")
        self.assertEqual(self.daemon.ctl("record", "-o", self.file, "--", "/nonexistent").code, 127)
        with open(self.file) as file:
            self.assertEqual(file.read(), "mine")

    def test_program_outlives_its_recording(self):
        whole = f"'{BUILD}/tsctl' sql --file {self.file} --csv \"SELECT 1 AS n FROM recording WHERE key = 'file_state' AND value = 'whole'\""
        until_whole = f"until {whole} 2> /dev/null | grep -qx 1; do sleep 0.1; done; echo"
        result = self.daemon.ctl("record", "-o", self.file, "--duration", "1s", "--", "sh", "-c",
                                 f"({until_whole}) | LD_LIBRARY_PATH='{os.path.dirname(library())}' '{workload_path('rate')}' --rate 1000 --stop; exit 5")
        self.assertEqual(result.code, 5, result.err)
        end = self.daemon.sql("SELECT exit_ns FROM process WHERE comm = 'rate' AND exit_ns > 0")[0]["exit_ns"]
        self.assertLess(self.fact("until_ns"), end, "not before the end of the program")

    def test_program_gets_our_signals(self):
        script = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); print('ready', flush=True); signal.pause()"
        recorder = self.start("--", "/usr/bin/python3", "-c", script)
        self.assertEqual(recorder.stdout.readline(), "ready\n")
        code, err = self.end(recorder, signal.SIGTERM)
        self.assertEqual(code, 3, err)

    def test_live_until_interrupted(self):
        recorder = self.start("--all")
        process, _ = run("exact", "--rounds", "20")
        self.daemon.wait_ended(process.pid)
        code, err = self.end(recorder)
        self.assertEqual((code, self.besides(err)), (0, ""))
        self.assert_same(process.pid)
        self.assertEqual(self.fact("complete"), 1)
        self.assertEqual(self.fact("file_state"), "whole")

    def test_live_with_past_for_a_time(self):
        before, _ = run("short")
        self.daemon.wait_ended(before.pid)
        recorder = self.start("--all", "--since", "1m", "--duration", "1s")
        after = []
        while recorder.poll() is None and len(after) < 3:
            after.append(run("short")[0].pid)
        out, err = recorder.communicate(timeout=tracesmith.DEADLINE)
        self.assertEqual(recorder.returncode, 0, err)
        self.assert_same(before.pid)
        for pid in after:
            self.daemon.wait_ended(pid)
        until = self.fact("until_ns")
        for row in self.rows("SELECT pid, exit_ns FROM process"):
            if row["pid"] in after and row["exit_ns"] < until:
                self.assert_same(row["pid"])
        self.assertGreaterEqual((until - self.fact("since_ns")) / 1e9, 61)

    def test_process_that_ends(self):
        process = workload("rate", "--rate", "1000", "--seconds", "2", "--hold")
        process.stdin.write("\n")
        process.stdin.flush()
        wait_for("the process", lambda: self.daemon.known(process.pid))
        recorder = self.start("--pid", process.pid, "--since", "1m", "--duration", "1h")
        process.communicate("\n")
        out, err = recorder.communicate(timeout=tracesmith.DEADLINE)
        self.assertEqual(recorder.returncode, 0, err)
        self.assertIn(f"Process {process.pid} has ended", err)
        self.assert_same(process.pid)

    def test_daemon_that_is_killed_meanwhile(self):
        recorder = self.start("--all")
        process = workload("rate", "--kind", "mixed", "--rate", "3000", "--stop")
        wait_for("the process", lambda: self.daemon.known(process.pid))
        for _ in range(2):
            at = os.path.getsize(self.file)
            wait_for("more", lambda: os.path.getsize(self.file) > at + 1000)
            self.daemon.kill()
            self.daemon.start()
            # What it has from the former daemon makes the file longer, too.
            wait_for("it to be back", lambda: "The daemon is back" in recorder.stderr.readline())
        process.communicate("\n")
        self.settle(process.pid)
        code, err = self.end(recorder)
        self.assertEqual(code, 0, err)
        self.assert_same(process.pid)
        self.assertIn("no-daemon", self.daemon.ctl("query", "loss", "--file", self.file).out)

    def test_daemon_that_does_not_come_back(self):
        process, _ = run("short")
        self.settle(process.pid)
        recorder = self.start("--all", "--since", "1m", "--duration", "1h")
        wait_for("the past", lambda: self.rows("SELECT count(*) AS n FROM op", self.file)[0]["n"])
        self.daemon.stop()
        wait_for("to be told", lambda: recorder.stderr.readline().count("Waiting"))
        code, err = self.end(recorder)
        self.assertEqual(code, 1, err)
        self.assertIn("the recording ends here", err)
        self.assertEqual(self.fact("file_state"), "whole")
        self.assertEqual(self.fact("complete"), 0)

    def test_killed_recorder_leaves_what_it_had(self):
        process = workload("rate", "--kind", "mixed", "--rate", "3000", "--seconds", "600",
                           environment={"CUDA_INJECTION64_PATH": os.path.join(BUILD, "libtracesmith.so"),
                                        "TRACESMITH_INJECT_SOCKET": os.path.join(self.daemon.directory, "inject.sock")})
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        wait_for("the process", lambda: self.daemon.known(process.pid))
        recorder = self.start("--all", "--since", "1m", "--duration", "1h")
        launches = "SELECT count(*) AS n, count(fn) AS fn FROM op WHERE kind = 'launch'"
        wait_for("launches in the file", lambda: self.rows(launches, self.file)[0]["n"] > 1000)
        self.end(recorder, signal.SIGKILL)
        self.assertEqual(self.fact("file_state"), "cut off")
        have = self.rows(launches, self.file)[0]
        self.assertGreater(have["n"], 1000)
        self.assertEqual(have["n"], have["fn"])
        self.assertEqual(self.rows(REFERRED.format("> 0"), self.file), [{"stacks": 0, "streams": 0}])

    def test_full_disk(self):
        process, _ = run("exact", "--rounds", "200")
        self.daemon.wait_ended(process.pid)
        place = os.path.join(self.directory, "small")
        os.mkdir(place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", place], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", place], check=True))
        file = os.path.join(place, "f.sbt")
        result = self.daemon.ctl("record", "-o", file, "--all", "--since", "1m")
        self.assertEqual(result.code, 1)
        self.assertIn("No space left", result.err)
        self.assertEqual(self.fact("file_state", file), "cut off")

    def test_where_it_goes(self):
        process, _ = run("short")
        self.daemon.wait_ended(process.pid)
        result = subprocess.run(f"'{BUILD}/tsctl' record -s {self.daemon.socket} -o - --all --since 1m | cat > {self.file}",
                                shell=True)
        self.assertEqual(result.returncode, 0)
        self.assert_same(process.pid)
        ours, theirs = pty.openpty()
        result = subprocess.run([f"{BUILD}/tsctl", "record", "-s", self.daemon.socket, "-o", "-", "--all", "--since", "1m"],
                                stdout=theirs, stderr=subprocess.PIPE, text=True)
        os.close(ours)
        os.close(theirs)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is binary", result.stderr)
        result = self.daemon.ctl("record", "-o", "/nonexistent/f.sbt", "--all", "--since", "1m")
        self.assertEqual((result.code, result.err),
                         (1, "tsctl: Cannot write '/nonexistent/f.sbt': No such file or directory\n"))

    def test_who_asks_for_nonsense(self):
        for arguments in (["--all"], ["-o", self.file], ["-o", self.file, "--all", "--pid", "7"],
                          ["-o", self.file, "--all", "--", "true"], ["-o", self.file, "--all", "--records", "all"],
                          ["-o", self.file, "--since", "1m", "--", "true"], ["-o", "-", "--", "true"],
                          ["-o", self.file, "--all", "--since", "10s", "--until", "20s"]):
            result = self.daemon.ctl("record", *arguments)
            self.assertEqual((result.code, result.err.count("\n")), (2, 1), arguments)
        with open(self.file, "w") as file:
            file.write("mine")
        result = self.daemon.ctl("record", "-o", self.file, "--pid", "1")
        self.assertEqual(result.code, 1)
        self.assertIn("Process 1 has not used CUDA", result.err)
        with open(self.file) as file:
            self.assertEqual(file.read(), "mine", "what was there goes at the first byte only")


if __name__ == "__main__":
    tracesmith.main()
