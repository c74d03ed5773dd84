"""The exact tier: under `tsctl run` and attached to, every kernel, copy and set of the simulated GPU is
there with its exact time and joined to its call; what is odd is counted, and nothing else changes."""
import json
import os
import signal
import subprocess
import tempfile
import time

import tracesmith
from tracesmith import BUILD, wait_for

COPY = {"htod": "HtoD", "dtoh": "DtoH", "dtod": "DtoD", "ptop": "PtoP"}
EXACT = "(SELECT * FROM op WHERE exact AND pid = {pid})"


class Exact(tracesmith.Case):
    # All calls have room, so that it does not matter how soon the daemon gets a processor.
    settings = "ring_size = 64MiB\n"

    def environment(self, copy="lib", **more):
        # Times as they are, so that durations can be told. The libcupti beside libcuda is that of 13.
        return {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(tracesmith.library(copy)), "FAKE_CUDA_TIME_SCALE": "1",
                "TRACESMITH_SOCKET": self.daemon.socket, **more}

    def start(self, *arguments, run=True, options=(), copy="lib", stderr=None, **environment):
        command = [os.path.join(BUILD, "tsctl"), "run", *options, "--"] if run else []
        name, *rest = arguments
        process = subprocess.Popen([*command, tracesmith.workload_path(name), *map(str, rest)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=stderr, text=True,
                                   env=self.environment(copy, **environment))
        self.addCleanup(self.end, process)
        return process

    def tier(self, pid):
        return next((row["tier"] for row in self.daemon.query("ps") if row["pid"] == pid), None)

    def wait_exact(self, pid):
        wait_for("collection to begin", lambda: self.tier(pid) == "exact")

    def attach(self, pid, *options):
        result = self.daemon.ctl_again("attach", pid, "--json", *options)
        self.assertEqual(result.code, 0, result.err + self.daemon.log())
        return json.loads(result.out)

    def detach(self, pid):
        result = self.daemon.ctl_again("detach", pid, "--json")
        self.assertEqual(result.code, 0, result.err + self.daemon.log())
        return json.loads(result.out)

    def exact(self, pid, columns, where="1", more=""):
        return self.daemon.sql(f"SELECT {columns} FROM {EXACT.format(pid=pid)} WHERE {where} {more}")

    def wait_records(self, pid, count):
        """Waits until so many kernels, copies and sets are there."""
        try:
            wait_for(f"{count} exact ops", lambda: self.exact(pid, "count(*) AS n", "kind IN ('launch', 'kernel', 'copy', 'set')")[0]["n"] >= count)
        except AssertionError as error:
            raise AssertionError(f"{error}; there are {self.exact(pid, 'kind, count(*) AS n', more='GROUP BY kind')}, "
                                 f"loss {self.loss(pid)}") from None

    def loss(self, pid, allowed=()):
        """Without what takes away nothing of what is counted here: on a busy machine stacks are missing or cut, and
        records come too late for the states of their streams."""
        answer = self.daemon.answer("loss", "--pid", pid)
        return {reason: n for reason, n in answer["loss"].items()
                if reason not in ("mapping", "stack", "stack-cut", "stack-sampled", "gap", "no-daemon", "last-records", "unbound", "late",
                                  *allowed)}

    def stacks_lost(self, pid):
        return self.daemon.answer("loss", "--pid", pid)["loss"].get("stack", 0)

    def assert_as_told(self, pid, told, allowed=()):
        self.wait_records(pid, sum(told["kernels"].values()) + sum(told["copies"].values()) + told["sets"])
        symbols = {}
        for row in self.daemon.sql(f"SELECT n.symbol, count(*) AS n FROM {EXACT.format(pid=pid)} o JOIN name n ON n.text = o.name"
                                   " WHERE o.kind IN ('launch', 'kernel') GROUP BY n.symbol"):
            symbols[row["symbol"]] = row["n"]
        self.assertEqual(symbols, told["kernels"])
        copies = {row["detail"]: (row["n"], row["bytes"])
                  for row in self.exact(pid, "detail, count(*) AS n, sum(bytes) AS bytes", "kind = 'copy'", "GROUP BY detail")}
        self.assertEqual(copies, {COPY[kind]: (count, told["copy_bytes"][kind]) for kind, count in told["copies"].items()})
        sets = self.exact(pid, "count(*) AS n, sum(bytes) AS bytes", "kind = 'set'")[0]
        self.assertEqual((sets["n"], sets["bytes"]), (told["sets"], told["set_bytes"]))
        graphs = self.exact(pid, "count(DISTINCT correlation) AS launches, count(*) AS nodes", "node <> 0")[0]
        self.assertEqual((graphs["launches"], graphs["nodes"]),
                         (told["graph_launches"], told["graph_launches"] * told["graph_nodes"]))
        work = "kind IN ('launch', 'kernel', 'copy', 'set')"
        if self.exact(pid, "count(*) AS n", f"{work} AND no_call")[0]["n"]:
            odd = self.daemon.sql(f"SELECT * FROM op WHERE pid = {pid} AND {work} AND (no_call OR NOT exact) LIMIT 20")
            self.fail(f"some are not joined: {odd}; loss {self.loss(pid)}")
        self.assertEqual(self.exact(pid, "count(*) AS n", f"{work} AND (gpu_start_ns < start_ns OR gpu_end_ns < gpu_start_ns)")[0]["n"],
                         0, "work ran before it was launched")
        self.assertEqual(self.loss(pid, allowed), {})

    def pageable(self, pid):
        """Bytes copied from and to pageable memory, by direction."""
        copied = {}
        for row in self.daemon.query("pageable", "--pid", pid):
            copied[row["kind"]] = copied.get(row["kind"], 0) + row["bytes"]
        return copied

    def hold(self, *arguments, **options):
        """The workload `exact`, waiting."""
        process = self.start("exact", "--hold", *arguments, **options)
        self.assertIn("ready", process.stdout.readline())
        return process

    def go(self, process):
        """Lets it do its work; what it did."""
        process.stdin.write("\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("{") and "kernels" in json.loads(line):
                return json.loads(line)
        raise AssertionError("the workload said nothing")

    def test_run(self):
        process = self.hold()
        told = self.go(process)
        self.wait_records(process.pid, sum(told["kernels"].values()))
        self.assert_as_told(process.pid, told)
        self.assertEqual(self.pageable(process.pid), {})
        self.assertEqual(self.tier(process.pid), "exact")
        out, _ = process.communicate("\n")
        self.assertEqual(process.returncode, 0, out)
        self.daemon.wait_ended(process.pid)
        self.assert_as_told(process.pid, told)

    def test_run_of_a_short_program(self):
        """From its first kernel on, and to its last one: flushed at the exit."""
        process = self.start("exact")
        out, _ = process.communicate()
        told = [json.loads(line) for line in out.splitlines() if '"kernels"' in line][0]
        self.assert_as_told(process.pid, told)

    def test_run_while_the_daemon_does_not_get_to_run(self):
        """Its first kernels wait for the daemon, for a while."""
        process = self.start("exact")
        # tsctl becomes it.
        wait_for("the program", lambda: os.path.basename(os.readlink(f"/proc/{process.pid}/exe")) == "exact")
        self.daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        self.daemon.process.send_signal(signal.SIGCONT)
        out, _ = process.communicate()
        told = [json.loads(line) for line in out.splitlines() if '"kernels"' in line][0]
        self.assert_as_told(process.pid, told)

    def test_run_before_the_daemon(self):
        """What is not recorded because the program did not wait any more is missing where exact times are asked for."""
        self.daemon.stop()
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1, stderr=subprocess.PIPE)
        self.assertIn("ready", process.stdout.readline())
        begin = time.monotonic_ns()
        self.daemon.start()
        first, last = self.wait_missed(process)
        self.assertLess(first, begin)
        self.assertIn("no-daemon", self.daemon.answer("kernels", "--pid", process.pid)["loss"])
        self.assertGreater(last, begin)

    def test_run_while_the_daemon_does_not_answer(self):
        """The same, though its probes see all calls."""
        self.daemon.process.send_signal(signal.SIGSTOP)
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1)
        self.assertIn("ready", process.stdout.readline())
        self.daemon.process.send_signal(signal.SIGCONT)
        first, last = self.wait_missed(process)
        calls = [row["start_ns"] for row in self.daemon.sql(
            f"SELECT start_ns FROM op WHERE kind = 'launch' AND NOT exact AND pid = {process.pid}")]
        outside = [start for start in calls if not first <= start <= last]
        self.assertLessEqual(len(outside), self.loss(process.pid).get("no-record", 0), (outside[:3], first, last))

    def wait_missed(self, process):
        """Waits until it is recorded; from when to when it was not."""
        self.wait_exact(process.pid)
        wait_for("kernels", lambda: self.daemon.query("kernels", "--pid", process.pid))
        self.assertEqual(self.daemon.answer("kernels", "--pid", process.pid)["loss"].get("disconnected"), 1)
        self.assertNotIn("disconnected", self.daemon.answer("apis", "--pid", process.pid)["loss"])
        [row] = self.daemon.sql("SELECT l.start_ns, l.end_ns FROM loss l JOIN loss_reason r ON r.id = l.reason JOIN process p"
                                f" ON p.id = l.process WHERE r.name = 'disconnected' AND p.pid = {process.pid}")
        return row["start_ns"], row["end_ns"]

    def test_an_answer_right_after_the_end_is_whole(self):
        for _ in range(8):
            process = self.start("exact")
            out, _ = process.communicate()
            answer = self.daemon.answer("kernels", "--pid", process.pid)
            told = [json.loads(line) for line in out.splitlines() if '"kernels"' in line][0]
            self.assertEqual(sum(row["count"] for row in answer["rows"]), sum(told["kernels"].values()))
            self.assert_nothing_lost(answer)
            self.assertTrue(self.daemon.ended(process.pid))

    def test_ps_right_after_an_attach_says_so(self):
        process = self.hold(run=False)
        wait_for("the program to be seen", lambda: self.tier(process.pid) == "probe")
        self.attach(process.pid)
        self.assertEqual(self.tier(process.pid), "exact")
        self.detach(process.pid)
        self.assertEqual(self.tier(process.pid), "probe")

    def test_run_by_a_driver_that_closes_the_library(self):
        """The library stays while it works: nothing of the program is lost, and detaching unloads it."""
        process = self.start("exact", FAKE_CUDA_CLOSE="1")
        out, _ = process.communicate()
        self.assertEqual(process.returncode, 0)
        self.assert_as_told(process.pid, [json.loads(line) for line in out.splitlines() if '"kernels"' in line][0])
        process = self.start("forkexec", FAKE_CUDA_CLOSE="1")
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, out)
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1, "--stress", FAKE_CUDA_CLOSE="1")
        self.wait_exact(process.pid)
        self.detach(process.pid)
        wait_for("the library to be unloaded", lambda: self.ours(process.pid) == [])
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
        self.assertEqual(process.returncode, 0, out)

    def test_layout_of_cuda_12(self):
        process = self.hold("--pageable", LD_PRELOAD=tracesmith.preloadable(os.path.join(tracesmith.FAKE, "lib12", "libcupti.so.12")))
        told = self.go(process)
        self.assert_as_told(process.pid, told)
        self.assertEqual(self.pageable(process.pid), {COPY[kind]: told["copy_bytes"][kind] for kind in ("htod", "dtoh")})
        version = self.daemon.sql("SELECT cupti_version FROM collect c JOIN process p ON p.id = c.process"
                                  f" WHERE p.pid = {process.pid}")[0]["cupti_version"]
        self.assertEqual(version, 20)

    def test_exit_status_and_signals_pass_through(self):
        process = self.start("crash", "--how", "segv", "--launches", 5, stderr=subprocess.DEVNULL)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGSEGV)
        result = self.daemon.ctl("run", "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((result.code, result.out, result.err), (7, "out\n", "err\n"))

    def test_attach_and_detach(self):
        process = self.hold(run=False)
        pid = process.pid
        told = self.attach(pid, "--stacks", "all")
        self.assertGreater(told["stopped_ns"], 0)
        again = self.daemon.ctl("attach", pid)
        self.assertEqual(again.code, 1, again.out)
        self.assertIn("already", again.err)
        done = self.go(process)
        self.assert_as_told(pid, done)
        stacks = self.exact(pid, "count(*) AS n", "kind = 'launch' AND coalesce(stack, 0) = 0")[0]["n"]
        self.assertLessEqual(stacks, self.stacks_lost(pid), "launches without a stack")
        told = self.detach(pid)
        self.assertIn("CUDA graph", str(told["notes"]))
        self.assertEqual(told["lost"], 0)
        before = self.residue(pid)
        for _ in range(5):
            self.attach(pid)
            self.detach(pid)
        # Threads take a moment to end, also before.
        wait_for("what is left to be no more than after the first time",
                 lambda: all(len(now) <= len(then) for now, then in zip(self.residue(pid), before)))
        wait_for("the tier to be told", lambda: self.tier(pid) == "probe")
        process.communicate("\n")
        self.assertEqual(process.returncode, 0)

    def ours(self, pid):
        return tracesmith.ours_of(pid)

    def residue(self, pid):
        """What attaching could leave behind. libcupti itself may stay: it cannot be unloaded."""
        return os.listdir(f"/proc/{pid}/task"), os.listdir(f"/proc/{pid}/fd"), self.ours(pid)

    def test_again_and_again(self):
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1, "--stress", "--progress", run=False)
        pid = process.pid
        wait_for("the program to use CUDA", lambda: self.tier(pid) == "probe")
        for _ in range(8):
            self.attach(pid)
            begin = time.monotonic_ns()
            wait_for("kernels", lambda: self.exact(pid, "count(*) AS n", f"gpu_start_ns > {begin}")[0]["n"] > 20)
            told = self.detach(pid)
            self.assertTrue(told["unloaded"], told)
        self.assertIsNone(process.poll(), "the program has ended")

    def test_where_graphs_are_launched_cupti_stays(self):
        """A graph crashes in its first launch after CUPTI is taken out, as in the simulated driver."""
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1, "--graphs", run=False)
        pid = process.pid
        wait_for("the program to use CUDA", lambda: self.tier(pid) == "probe")
        for _ in range(2):
            self.attach(pid)
            begin = time.monotonic_ns()
            wait_for("graphs", lambda: self.exact(pid, "count(*) AS n", f"node <> 0 AND gpu_start_ns > {begin}")[0]["n"] > 20)
            told = self.detach(pid)
            self.assertFalse(told["unloaded"])
            self.assertIn("CUDA graph", str(told["notes"]))
        self.assertIsNone(process.poll(), "the program has ended")

    def test_refusals(self):
        sleeper = subprocess.Popen(["sleep", "600"])
        self.addCleanup(lambda: (sleeper.kill(), sleeper.wait()))
        gone = subprocess.Popen(["true"])
        gone.wait()
        for pid, sentence in ((sleeper.pid, "CUDA"), (gone.pid, "does not exist"), (2, ""), (1, "")):
            for verb in ("attach", "detach"):
                result = self.daemon.ctl(verb, pid)
                self.assertEqual(result.code, 1, (verb, pid, result.out))
                self.assertEqual(len(result.err.strip().splitlines()), 1, result.err)
            self.assertIn(sentence.lower(), self.daemon.ctl("attach", pid).err.lower())
        result = self.daemon.ctl("attach", "nobody")
        self.assertEqual(result.code, 2, result.err)

    def test_wait_for_cuda(self):
        """`attach --wait` takes a process that has not loaded the driver yet."""
        program = (f"import ctypes, sys, time; print('up', flush=True); sys.stdin.readline()\n"
                   f"cuda = ctypes.CDLL({tracesmith.library()!r}); cuda.cuInit(0); time.sleep(600)")
        process = subprocess.Popen(["/usr/bin/python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=self.environment())
        self.addCleanup(self.end, process)
        process.stdout.readline()
        waiting = subprocess.Popen([os.path.join(BUILD, "tsctl"), "attach", "--wait", str(process.pid)], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment())
        process.stdin.write("\n")
        process.stdin.flush()
        _, err = waiting.communicate(timeout=120)
        # It loads the driver in this very moment.
        if not tracesmith.not_now(err):
            self.assertEqual(waiting.returncode, 0, err)
        else:
            self.attach(process.pid, "--wait")
        self.wait_exact(process.pid)

    def test_crash_keeps_what_was_handed_over(self):
        process = self.hold()
        told = self.go(process)
        self.assert_as_told(process.pid, told)
        process.kill()
        self.daemon.wait_ended(process.pid)
        self.assert_as_told(process.pid, told)

    def test_daemon_restarts(self):
        """The program runs on, and the next daemon records it without being asked."""
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1)
        self.wait_exact(process.pid)
        self.daemon.kill()
        self.daemon.start()
        wait_for("collection to go on", lambda: self.tier(process.pid) == "exact")
        begin = time.monotonic_ns()
        wait_for("kernels", lambda: self.exact(process.pid, "count(*) AS n", f"gpu_start_ns > {begin}")[0]["n"] > 20)
        self.assertIsNone(process.poll())

    def test_what_a_restart_costs_is_told(self):
        """Launches without times, and seconds of states that lack something, are within a loss of the process."""
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1)
        self.wait_exact(process.pid)
        for end in (self.daemon.kill, self.daemon.stop):
            wait_for("sums of states", lambda: len(self.busy(process.pid)) > 4)
            end()
            self.daemon.start()
            wait_for("collection to go on", lambda: self.tier(process.pid) == "exact")
            begin = time.monotonic_ns()
            wait_for("sums", lambda: any(second > begin // 1000000000 + 1 for second, _ in self.busy(process.pid)))
        losses = self.daemon.sql("SELECT l.start_ns, l.end_ns FROM loss l JOIN loss_reason r ON r.id = l.reason"
                                 " JOIN process p ON p.id = l.process"
                                 f" WHERE r.name = 'disconnected' AND p.pid = {process.pid}")
        self.assertEqual(self.loss(process.pid).get("disconnected"), 2)
        spans = [(row["start_ns"], row["end_ns"]) for row in losses]
        captured = 8
        plain = self.daemon.sql("SELECT start_ns FROM op WHERE fn = 'cuLaunchKernel' AND NOT exact"
                                f" AND NOT flags & {captured} AND pid = {process.pid}")
        self.assertTrue(plain)
        outside = [row for row in plain if not any(first <= row["start_ns"] <= last for first, last in spans)]
        # Whose records were on their way when a daemon was stopped.
        self.assertLessEqual(len(outside), self.loss(process.pid).get("no-record", 0), (outside[:3], spans))
        busy = self.busy(process.pid)
        whole = {second for second, ns in busy if ns == 1000000000}
        for second in range(busy[0][0] + 1, busy[-1][0]):
            self.assertTrue(second in whole or any(first < (second + 1) * 1000000000 and last > second * 1000000000
                                                   for first, last in spans), (second, dict(busy).get(second), spans))
        # Answers about calls lack nothing by it.
        self.assertNotIn("disconnected", self.daemon.answer("apis", "--pid", process.pid)["loss"])
        self.assertIn("disconnected", self.daemon.answer("kernels", "--pid", process.pid)["loss"])

    def busy(self, pid):
        rows = self.daemon.sql("SELECT second, sum(ns) AS ns FROM busy WHERE process IN"
                               f" (SELECT id FROM process WHERE pid = {pid}) GROUP BY second ORDER BY second")
        return [(row["second"], row["ns"]) for row in rows]

    def test_without_a_daemon(self):
        self.daemon.stop()
        process = self.start("exact", stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(err.strip().splitlines()), 1, err)
        self.assertIn("daemon", err)

    def test_forks_and_execs(self):
        """A forked child is neither recorded nor harmed; one that runs a program is recorded."""
        process = self.start("forkexec")
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, out)

    def test_another_profiler(self):
        """We step aside while it profiles, it gets what it wants, and the gap is told."""
        process = self.start("profiler", "--signals")
        self.wait_exact(process.pid)
        self.assertEqual(self.profile(process, "start")["result"], 0)
        wait_for("us to step aside", lambda: self.tier(process.pid) == "paused")
        told = self.profile(process, "stop")
        self.assertEqual((told["kernels"], told["strangers"]), (told["launched"], 0), told)
        wait_for("us to go on", lambda: self.tier(process.pid) == "exact")
        begin = time.monotonic_ns()
        wait_for("kernels", lambda: self.exact(process.pid, "count(*) AS n", f"gpu_start_ns > {begin}")[0]["n"] > 20)
        wait_for("the gap", lambda: "paused" in self.daemon.answer("kernels", "--pid", process.pid)["loss"])

    def test_a_module_that_may_profile_is_loaded(self):
        """That it imports CUPTI is enough for us to make room, before its first call, for a moment."""
        process = self.start("profiler_late", -1, "--signals")
        wait_for("it to be recorded", lambda: self.tier(process.pid) == "exact")
        process.stdin.write("\n")
        process.stdin.flush()
        wait_for("the pause", lambda: "paused" in self.daemon.answer("kernels", "--pid", process.pid)["loss"])
        self.wait_exact(process.pid)
        self.assertEqual(self.profile(process, "start")["result"], 0)
        told = self.profile(process, "stop")
        self.assertEqual((told["kernels"], told["strangers"]), (told["launched"], 0), told)

    def profile(self, process, what):
        """Lets its profiler start or stop; what it says of that."""
        process.send_signal({"start": signal.SIGUSR1, "stop": signal.SIGUSR2}[what])
        for line in process.stdout:
            if line.startswith("{") and json.loads(line).get("profiler") == what:
                return json.loads(line)
        raise AssertionError("the program has ended")

    def assert_all_joined(self, pid, since):
        """A hundred launches since then, and each with its kernel."""
        def launches(more):
            return self.daemon.sql("SELECT count(*) AS n, coalesce(max(start_ns), 0) AS last FROM op WHERE kind = 'launch' AND"
                                   f" pid = {pid} AND start_ns > {since} AND {more}")[0]
        wait_for("kernels", lambda: launches("exact")["n"] > 100)
        last = launches("exact")["last"]
        wait_for("the launches before to be there", lambda: not launches(f"NOT exact AND start_ns < {last}")["n"])
        self.assertEqual(self.exact(pid, "count(*) AS n", f"no_call AND gpu_start_ns BETWEEN {since} AND {last}")[0]["n"], 0)

    def test_a_profiler_that_keeps_its_subscription(self):
        """As torch.profiler does, once it was used: while it is idle we record without one, and when it starts again it gets
        everything."""
        process = self.start("profiler_late", 0, "--signals", "--keep", run=False)
        pid = process.pid
        wait_for("the program to launch", lambda: self.tier(pid) == "probe")
        self.assertEqual(self.profile(process, "start")["result"], 0)
        self.assertIn("Paused", str(self.attach(pid)["notes"]))
        for _ in range(2):
            told = self.profile(process, "stop")
            self.assertEqual((told["kernels"], told["strangers"]), (told["launched"], 0), told)
            self.assertGreaterEqual(told["calls"], told["launched"], told)
            self.wait_exact(pid)
            self.assert_all_joined(pid, time.monotonic_ns())
            self.assertEqual(self.profile(process, "start")["result"], 0)
            wait_for("us to step aside", lambda: self.tier(pid) == "paused")
        self.profile(process, "stop")
        self.wait_exact(pid)
        told = self.detach(pid)
        self.assertFalse(told["unloaded"], told)
        self.assertIn("stays", str(told["notes"]))
        told = self.attach(pid)
        self.assertIn("subscription", str(told["notes"]))
        self.assert_all_joined(pid, time.monotonic_ns())
        self.detach(pid)
        self.assertEqual(self.profile(process, "start")["result"], 0)
        told = self.profile(process, "stop")
        self.assertEqual((told["kernels"], told["strangers"]), (told["launched"], 0), told)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 0)
        # A thread that stood within its call when we left may have left a kernel without it, or a call without its kernel.
        loss = self.loss(pid, allowed=("paused",))
        lost = {reason: loss.pop(reason, 0) for reason in ("no-call", "no-record")}
        self.assertLessEqual(sum(lost.values()), 4, lost)
        self.assertEqual(loss, {})

    def test_a_profiler_that_would_not_get_its_records(self):
        """One that nobody knows keeps its subscription: its process stays paused, and the user is told what to do."""
        process = self.start("profiler", "--signals", "--keep", run=False)
        wait_for("the program to launch", lambda: self.tier(process.pid) == "probe")
        self.profile(process, "start")
        self.profile(process, "stop")
        result = self.daemon.ctl_again("attach", process.pid)
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("not recorded yet", result.out)
        self.assertIn("tsctl run", result.out)
        self.assertNotIn("libcupti", result.out)

    def test_odd_records(self):
        """What CUPTI does wrong is counted, never drawn and never a crash."""
        for odd, reason in (("zero", "untimed"), ("reversed", "untimed"), ("duplicate", "duplicate"), ("shuffle", None),
                            ("drop=20", "cupti"), ("unknown", "unknown-record"), ("late=300", None),
                            ("clock=none", None), ("clock=deaf", None)):
            process = self.hold("--rounds", 40, FAKE_CUPTI_ODD=odd)
            told = self.go(process)
            if reason:
                wait_for(f"'{reason}' with {odd}", lambda: self.loss(process.pid).get(reason))
                bad = self.exact(process.pid, "count(*) AS n", "gpu_end_ns < gpu_start_ns OR gpu_start_ns = 0")[0]["n"]
                self.assertEqual(bad, 0, odd)
            else:
                self.assert_as_told(process.pid, told, allowed=("late",))
            process.communicate("\n")
            self.assertEqual(process.returncode, 0, odd)

    def test_a_clock_that_nobody_knows(self):
        """A sentence for who asks, and no op that ran at a time that cannot be."""
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1, FAKE_CUPTI_ODD="clock=alien")
        told = "records with neither"
        wait_for("the library to give up", lambda: told in self.daemon.log())
        result = self.daemon.ctl_again("attach", process.pid)
        self.assertEqual(result.code, 1, result.out)
        self.assertIn(told, result.err)
        self.assertEqual(self.exact(process.pid, "count(*) AS n", "gpu_start_ns <> 0 AND NOT untimed")[0]["n"], 0)
        self.assertEqual(self.loss(process.pid).get("bad-event"), None)
        self.assertRegex(self.daemon.ctl("status").out, rf"process {process.pid} +cannot be recorded: .*{told}")
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 0)

    def without(self, place, library, symbol):
        """A copy of a simulated library that has no such function."""
        with open(tracesmith.library() if library == "libcuda.so.1" else os.path.join(
                os.path.dirname(tracesmith.library()), library), "rb") as file:
            code = file.read()
        name = symbol.encode()
        self.assertIn(b"\0" + name + b"\0", code)
        code = code.replace(b"\0" + name + b"\0", b"\0" + name[:-1] + b"_\0")
        if library == "libcuda.so.1":
            tracesmith.write_library(place, code)
            return
        with open(f"{place}/{library}", "wb") as file:
            file.write(code)

    def assert_refused(self, told, **environment):
        """To who attaches, before or after the library came; and to who looks at the daemon."""
        for run in True, False:
            process = self.start("loop", "--seconds", 600, "--pace-ms", 1, run=run, **environment)
            wait_for("the program to use CUDA", lambda: self.tier(process.pid) == "probe")
            if run:
                wait_for("the library to give up", lambda: told in self.daemon.ctl("status").out)
            result = self.daemon.ctl_again("attach", process.pid)
            self.assertEqual(result.code, 1, result.out)
            self.assertIn(told, result.err)
            process.send_signal(signal.SIGTERM)
            process.communicate()
            self.assertEqual(process.returncode, 0)

    def test_a_driver_that_nobody_knows(self):
        with tempfile.TemporaryDirectory() as place:
            self.without(place, "libcuda.so.1", "cuDeviceGetCount")
            self.assert_refused(f"({place}/libcuda.so.1) has no cuDeviceGetCount", LD_LIBRARY_PATH=place)

    def test_a_cupti_that_nobody_knows(self):
        with tempfile.TemporaryDirectory() as place:
            path = place + ":" + os.path.dirname(tracesmith.library())
            self.without(place, "libcupti.so.13", "cuptiSubscribe")
            self.assert_refused(f"({place}/libcupti.so.13) has no cuptiSubscribe", LD_LIBRARY_PATH=path,
                                LD_PRELOAD=f"{place}/libcupti.so.13")
            # What can be done without is done without.
            self.without(place, "libcupti.so.13", "cuptiActivityRegisterTimestampCallback")
            process = self.hold(LD_LIBRARY_PATH=path)
            self.assert_as_told(process.pid, self.go(process))
            process.communicate("\n")
            self.assertEqual(process.returncode, 0)

    def test_budget_with_a_cupti_that_cannot_be_taken_out(self):
        process = self.start("loop", "--seconds", 600, "--threads", 1, options=("--budget", "0.1%"), FAKE_CUPTI_ODD="slow=20000",
                             LD_PRELOAD=tracesmith.preloadable(os.path.join(tracesmith.FAKE, "lib12", "libcupti.so.12")))
        self.wait_exact(process.pid)
        wait_for("less to be recorded", lambda: self.daemon.sql(
            f"SELECT left_out FROM collect c JOIN process p ON p.id = c.process WHERE p.pid = {process.pid}")[0]["left_out"])
        wait_for("that to be told", lambda: "budget" in self.daemon.answer("kernels", "--pid", process.pid)["loss"])

    def test_own_namespaces(self):
        """In a PID and mount namespace of its own, where our library lies nowhere."""
        command = ["unshare", "--pid", "--fork", "--mount", "--mount-proc", tracesmith.workload_path("exact"), "--hold"]
        outer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(self.end, outer)
        pid = int(wait_for("the program", lambda: subprocess.run(
            ["pgrep", "-P", str(outer.pid)], capture_output=True, text=True).stdout.strip()))
        self.assertIn("ready", outer.stdout.readline())
        self.attach(pid)
        self.assert_as_told(pid, self.go(outer))
        # In there they count from 1.
        self.assertGreater(self.exact(pid, "min(tid) AS tid", "kind = 'launch'")[0]["tid"], 100)
        self.assertIn("CUDA graph", str(self.detach(pid)["notes"]))
        outer.communicate("\n")

    def test_queries_and_exports(self):
        process = self.hold(options=("--stacks", "all"))
        told = self.go(process)
        pid = process.pid
        self.assert_as_told(pid, told)
        rows = self.daemon.query("kernels", "--pid", pid)
        self.assertEqual(sum(row["count"] for row in rows), sum(told["kernels"].values()))
        self.assertLessEqual(sum(row["share"] for row in rows), 1000000)
        for row in rows:
            self.assertLessEqual(row["min_ns"], row["p50_ns"])
            self.assertLessEqual(row["p50_ns"], row["p99_ns"])
            self.assertLessEqual(row["p99_ns"], row["max_ns"])
        def named():
            rows = self.daemon.query("kernels", "--pid", pid, "--by-stack")
            without = sum(row["count"] for row in rows if not row["stack"])
            return without <= self.stacks_lost(pid) and "worker_launch" in str(rows) and rows
        by_stack = wait_for("the stack of each kernel", named)
        self.assertEqual(sum(row["count"] for row in by_stack), sum(told["kernels"].values()))
        streams = {row["stream"] for row in self.daemon.query("kernels", "--pid", pid, "--by-stream")}
        self.assertGreater(len(streams), 3)
        wait_for("the graph launches", lambda: sum(row["launches"] or 0 for row in self.daemon.query("graphs", "--pid", pid))
                 == told["graph_launches"])
        devices = self.daemon.query("devices")
        self.assertEqual(len(devices), told["devices"])
        wait_for("the states", lambda: self.daemon.query("idle", "--pid", pid))
        for row in self.daemon.query("overlap", "--pid", pid):
            self.assertGreater(row["observed_ns"], 0)
        for format in ("perfetto", "chrome", "folded", "svg"):
            path = os.path.join(self.daemon.directory, f"out.{format}")
            result = self.daemon.ctl("export", f"--{format}", "--since", "1h", "--pid", pid, "-o", path)
            self.assertEqual(result.code, 0, result.err)
            self.assertGreater(os.path.getsize(path), 1000)
        with open(os.path.join(self.daemon.directory, "out.folded")) as file:
            self.assertIn("[GPU_Kernel]", file.read())


if __name__ == "__main__":
    tracesmith.main()
