"""Processes come, fork, run other programs, crash and end; each is one row with its own calls."""
import json
import os
import signal
import subprocess
import unittest

import tracesmith
from tracesmith import run, wait_for, workload


class Processes(tracesmith.Case):
    def assert_calls(self, pid, expected):
        self.daemon.wait_ended(pid)
        probed = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        want = {row["fn"]: row["calls"] for row in expected if row.get("pid") == pid and row.get("fn") in probed}
        seen = {fn: row["calls"] for fn, row in self.daemon.apis(pid).items()}
        self.assertEqual(seen, want, f"calls of {pid}")

    def test_forks_and_execs(self):
        process, expected = run("forkexec")
        pids = sorted({row["pid"] for row in expected if "fn" in row})
        self.assertGreater(len(pids), 2)
        for pid in pids:
            self.assert_calls(pid, expected)
        rows = {row["pid"]: row for row in self.daemon.query("processes")}
        for pid in pids:
            if pid != process.pid:
                self.assertIn(rows[pid]["ppid"], pids + [process.pid])

    def test_program_without_cuda_in_the_place_of_one_with(self):
        """Its end is told, though it never called anything."""
        program = f"import ctypes, os; ctypes.CDLL({tracesmith.library()!r}).cuInit(0); os.execv('/bin/true', ['true'])"
        pids = set()
        for _ in range(10):
            process = tracesmith.subprocess.Popen(["/usr/bin/python3", "-c", program])
            process.wait()
            pids.add(process.pid)
        wait_for("all to be seen", lambda: pids <= {row["pid"] for row in self.daemon.query("processes")})
        wait_for("the end of all", lambda: not pids & {row["pid"] for row in self.daemon.query("ps")})

    def test_short_life(self):
        for _ in range(20):
            process, expected = run("short")
            self.assert_calls(process.pid, expected)
        row = [row for row in self.daemon.query("processes") if row["pid"] == process.pid][0]
        self.assertEqual((row["comm"], row["state"], row["exit_code"]), ("short", "ended", 0))

    def test_command_lines_of_what_ended_before_anybody_looked(self):
        first = f"import ctypes; ctypes.CDLL({tracesmith.library()!r}).cuInit(0)"
        then = f"{first}; import os; os.execv('/usr/bin/python3', ['python3', '-c', {first!r}, 'the', 'second'])"
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            one, two, long = (subprocess.Popen(["/usr/bin/python3", "-c", *arguments]) for arguments in
                              ([first, "of a", "moment"], [then], [first, "x" * 5000]))
            for process in (one, two, long):
                self.assertEqual(process.wait(), 0)
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        for process in (one, two, long):
            self.daemon.wait_ended(process.pid)
        rows = {row["pid"]: row["command"] for row in self.daemon.query("processes")}
        self.assertEqual(rows[one.pid], f"/usr/bin/python3 -c {first} of a moment")
        self.assertEqual(rows[two.pid], f"python3 -c {first} the second")
        self.assertRegex(rows[long.pid], "^/usr/bin/python3 -c import .* x{300,}$")

    def test_crashes(self):
        codes = {"segv": 11, "kill": 9, "abort": 6, "_exit": None, "exit": None}
        for how, code in codes.items():
            process = workload("crash", "--how", how, "--launches", 37, stderr=tracesmith.subprocess.DEVNULL)
            process.communicate()
            self.daemon.wait_ended(process.pid)
            self.assertEqual(self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"], 37, how)
            row = [row for row in self.daemon.query("processes") if row["pid"] == process.pid][0]
            if code is not None:
                self.assertEqual(row["exit_code"] & 127, code, how)
            self.assertEqual(self.daemon.query("leaks", "--pid", process.pid, "--min-age", "0s"), [])

    def test_description_of_a_running_process(self):
        process = workload("leak", "--steps", 3)
        row = wait_for("the process and what others say of it", lambda: [
            row for row in self.daemon.query("processes") if row["pid"] == process.pid and row["user"] and row["command"]])[0]
        self.assertEqual((row["comm"], row["state"], row["user"]), ("leak", "running", "root"))
        self.assertIn("--steps 3", row["command"])
        wait_for("it in ps", lambda: process.pid in [
            row["pid"] for row in json.loads(self.daemon.ctl("ps", "--json").out)["rows"]])
        process.communicate("\n")

    def test_streams_and_states(self):
        process, expected = run("streams", "--threads", 3, "--steps", 20)
        self.assert_calls(process.pid, expected)
        self.assertGreater(len(self.daemon.query("streams", "--pid", process.pid)), 3)
        states = self.daemon.query("states", "--pid", process.pid)
        self.assertTrue({"pending"} <= {row["state"] for row in states})
        for row in states:
            self.assertGreater(row["duration_ns"], 0)
        by_stream = {}
        for row in states:
            by_stream.setdefault((row["stream"], row["device"]), []).append((row["start_ns"], row["end_ns"]))
        for intervals in by_stream.values():
            intervals.sort()
            for before, after in zip(intervals, intervals[1:]):
                self.assertLessEqual(before[1], after[0], "intervals of one machine do not overlap")


class Filter(tracesmith.Case):
    settings = "[filter]\nuids = 12345\n"

    def test_only_what_the_filter_wants(self):
        other, _ = run("short")
        wanted, expected = run("short", user=12345)
        self.daemon.wait_ended(wanted.pid)
        answer = self.daemon.answer("processes")
        self.assertEqual({row["pid"] for row in answer["rows"]} & {other.pid, wanted.pid}, {wanted.pid})
        hidden = "settings hide all processes except those of 1 user"
        self.assertIn(hidden, answer["note"])
        self.assertIn(hidden, self.daemon.answer("ps")["note"])
        self.assertIn(hidden, self.daemon.ctl("query", "apis", "--pid", other.pid).err)
        self.assertRegex(self.daemon.ctl("status").out, "! filters +only processes of 1 user are traced\n")
        # As it was meant to be, whatever a busy host is warned of.
        self.assertNotIn("filters", self.daemon.ctl("status", "--check").out)


class FilterByCgroup(unittest.TestCase):
    def test_also_those_below_the_cgroup(self):
        root = tracesmith.tempfile.mkdtemp(prefix="tracesmith-cgroup-")
        self.addCleanup(tracesmith.os.rmdir, root)
        tracesmith.subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
        self.addCleanup(tracesmith.subprocess.run, ["umount", root], check=True)
        outer = tracesmith.os.path.join(root, f"tracesmith-{tracesmith.os.getpid()}")
        inner = tracesmith.os.path.join(outer, "inner")
        for path in (outer, inner):
            tracesmith.os.mkdir(path)
            self.addCleanup(tracesmith.os.rmdir, path)
        daemon = tracesmith.Daemon(f"[filter]\ncgroups = {outer}\n").start()
        self.addCleanup(daemon.close)
        other, _ = run("short")

        def enter():
            with open(tracesmith.os.path.join(inner, "cgroup.procs"), "w") as file:
                file.write("0")

        wanted, _ = run("short", preexec_fn=enter)
        daemon.wait_ended(wanted.pid)
        seen = {row["pid"] for row in daemon.query("processes")}
        self.assertEqual(seen & {other.pid, wanted.pid}, {wanted.pid})


class FilterByReload(tracesmith.Case):
    def test_pids_from_now_on_and_what_was_before_is_told(self):
        process = workload("rate", "--rate", "1000", "--seconds", "600")
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        wait_for("the process", lambda: self.daemon.known(process.pid))
        with open(self.daemon.config, "a") as file:
            file.write(f"[filter]\npids = {process.pid}\n")
        subprocess.run([os.path.join(tracesmith.BUILD, "tracesmithd"), "--config", self.daemon.config, "--reload",
                        str(self.daemon.process.pid)], check=True)
        wait_for("the settings to be read", lambda: "Reread" in self.daemon.log())
        other, _ = run("short")
        calls = self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"]
        wait_for("more calls", lambda: self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"] > calls + 100)
        self.assertFalse(self.daemon.known(other.pid))
        self.assertIn("filter", {row["reason"] for row in self.daemon.query("loss")})


class RateLimit(tracesmith.Case):
    settings = "[probe]\nrate_limit = 1000\n"

    def test_what_is_left_out_is_of_its_process(self):
        """So it is if the process has ended before it is counted."""
        quiet = workload("leak", "--steps", "5")
        self.addCleanup(lambda: quiet.communicate("\n"))
        wait_for("it", lambda: self.daemon.known(quiet.pid))
        self.assertNotIn("rate-limit", self.daemon.answer("apis", "--pid", quiet.pid)["loss"])
        for _ in range(3):
            process, _ = run("rate", "--kind", "launch", "--count", "5000")
            self.daemon.wait_ended(process.pid)
            self.assertGreater(self.daemon.answer("apis", "--pid", process.pid)["loss"]["rate-limit"], 0)
        self.assertNotIn("rate-limit", self.daemon.answer("apis", "--pid", quiet.pid)["loss"])

    def test_what_is_left_out_is_counted(self):
        process, expected = run("rate", "--kind", "launch", "--count", "20000")
        self.daemon.wait_ended(process.pid)
        made = [row["calls"] for row in expected if row.get("fn") == "cuLaunchKernel"][0]
        seen = self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"]
        limited = sum(row["count"] for row in self.daemon.query("loss", "--pid", process.pid) if row["reason"] == "rate-limit")
        self.assertLess(seen, made)
        self.assertGreater(limited, 0)
        self.assertLessEqual(abs(seen + limited - made), 30,
                             f"other calls are limited too, but they are few: {seen} seen, {limited} limited of {made}")


class PerfWay(tracesmith.Case):
    settings = "[probe]\nattach = perf\n"

    def test_counts_with_one_perf_event_each(self):
        process, expected = run("short")
        self.daemon.wait_ended(process.pid)
        seen = {fn: row["calls"] for fn, row in self.daemon.apis(process.pid).items()}
        for row in expected:
            if row.get("fn") in seen:
                self.assertEqual(seen[row["fn"]], row["calls"])
        self.assertIn("perf events", self.daemon.ctl("status").out)

    def _close(self):
        """A kernel that has uprobe_multi takes 0.1 s to let go of each perf event: not waited for."""
        self.daemon.process.kill()
        tracesmith.shutil.rmtree(self.daemon.directory)


if __name__ == "__main__":
    tracesmith.main()
