"""Sessions of the exact tier: whoever asks is answered once and rightly, and the program is as it was, whatever
the others (the user, the daemon, the program, another profiler) do in between."""
import json
import os
import signal
import subprocess
import threading
import time

import tracesmith
from tracesmith import BUILD, wait_for

CYCLES = int(os.environ.get("TS_CYCLES", "36"))
CYCLES_MIN, CYCLES_S = 11, CYCLES / 6
# A program that speaks for a library, badly: as a hostile one might.
LIAR = """
import ctypes, os, socket, struct, sys, time
ctypes.CDLL(sys.argv[1])
HELLO = struct.pack("<4I4IQ2I32s", 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, b"liar")
def state(kind, text=b""):
    return struct.pack("<4I256s", 2, kind, 0, 0, text)
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[2])
    s.send(HELLO)
    return s
print("up", flush=True)
"""


class Sessions(tracesmith.Case):
    # For who counts calls: all have room, however late the daemon is.
    settings = "[probe]\nring_size = 64MiB\n"

    def environment(self, **more):
        # A library that stays comes back to this daemon, and to no other of the host.
        return {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(tracesmith.library()), "FAKE_CUDA_TIME_SCALE": "1",
                "TRACESMITH_SOCKET": self.daemon.socket, "TRACESMITH_INJECT_SOCKET": self.inject_socket(), **more}

    def start(self, command, **more):
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.environment(**more))
        self.addCleanup(self.end, process)
        return process

    def loop(self, *options, run=False, **more):
        prefix = [os.path.join(BUILD, "tsctl"), "run", "--"] if run else []
        process = self.start([*prefix, tracesmith.workload_path("loop"), "--seconds", 1800, *options], **more)
        wait_for("the program to use CUDA", lambda: self.tier(process.pid))
        return process

    def liar(self, does):
        process = self.start(["/usr/bin/python3", "-c", LIAR + does, tracesmith.library(), self.inject_socket()])
        self.assertEqual(process.stdout.readline(), "up\n")
        return process

    def inject_socket(self):
        return os.path.join(self.daemon.directory, "inject.sock")

    def ask(self, verb, *arguments):
        result = self.daemon.ctl(verb, *arguments, "--json")
        self.assertIn(result.code, (0, 1), result.err)
        if result.code:
            self.assertEqual(len(result.err.strip().splitlines()), 1, result.err)
        return json.loads(result.out) if result.code == 0 else result.err

    def do(self, verb, *arguments):
        result = self.daemon.ctl_again(verb, *arguments, "--json")
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)

    def tier(self, pid):
        return next((row["tier"] for row in self.daemon.query("ps") if row["pid"] == pid), None)

    def wait_kernels(self, pid):
        begin = time.monotonic_ns()
        wait_for("kernels", lambda: self.daemon.sql(
            f"SELECT count(*) AS n FROM op WHERE exact AND pid = {pid} AND gpu_start_ns > {begin}")[0]["n"] > 20)

    def attach_or_join(self, pid):
        """Ours, whether the library that an earlier daemon has left comes by itself, or not yet."""
        answers = []

        def is_ours():
            if self.tier(pid) == "exact":
                return True
            answers.append(self.ask("attach", pid))
            return isinstance(answers[-1], dict)

        try:
            wait_for("the process to be ours", is_ours)
        except AssertionError as error:
            raise AssertionError(f"{error}: {answers[-3:]}, {self.daemon.query('ps')}, {self.residue(pid)}") from None

    def wait_detached(self, pid):
        """Whether somebody has attached meanwhile or not."""
        def is_detached():
            told = self.ask("detach", pid)
            return isinstance(told, dict) or "not attached" in told
        wait_for("the detach", is_detached)

    def residue(self, pid):
        return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd")), tracesmith.ours_of(pid)

    def finish(self, process):
        """Ends the loop well; it checks its own result."""
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, out)

    def test_again_and_again(self):
        process = self.loop("--stress", "--threads", 4)
        pid = process.pid
        self.do("attach", pid)
        self.do("detach", pid)
        settled = lambda: min(self.residue(pid)[:2] for _ in range(40))
        before, end, cycles = settled(), time.monotonic() + CYCLES_S, 0
        while cycles < CYCLES_MIN or cycles < CYCLES and time.monotonic() < end:
            self.do("attach", pid)
            told = self.do("detach", pid)
            self.assertTrue(told["unloaded"], told)
            cycles += 1
        print(f"{cycles} cycles", flush=True)
        # Its stress opens files and starts processes all the time.
        wait_for("threads and descriptors as before", lambda: settled() <= before)
        self.assertEqual(self.residue(pid)[2], [])
        self.finish(process)

    def test_many_ask_at_once(self):
        """One of those who attach at the same time gets the process, the others are told; so it is when they detach."""
        process = self.loop()
        for verb, rest in (("attach", "already"), ("detach", "detach")):
            def ask_all():
                told = []
                threads = [threading.Thread(target=lambda: told.append(self.ask(verb, process.pid))) for _ in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                # Whose turn it was may have met a bad moment of the process.
                return any(isinstance(answer, dict) for answer in told) and told or not any(map(tracesmith.not_now, told)) and told
            told = wait_for(f"a good moment to {verb}", ask_all)
            self.assertEqual(len([answer for answer in told if isinstance(answer, dict)]), 1, told)
            for answer in told:
                self.assertTrue(isinstance(answer, dict) or rest in answer or "not attached" in answer or
                                tracesmith.not_now(answer), answer)
        self.finish(process)

    def test_detach_while_attaching(self):
        process = self.loop("--stress")
        for _ in range(10):
            attach = self.start([os.path.join(BUILD, "tsctl"), "attach", process.pid])
            told = wait_for("the process to be ours", lambda: self.ask("detach", process.pid))
            attach.communicate(timeout=120)
            if isinstance(told, str):
                self.assertRegex(told, "not attached|being attached|try again")
                self.wait_detached(process.pid)
        self.finish(process)

    def test_client_hangs_up(self):
        process = self.loop()
        for _ in range(10):
            attach = self.start([os.path.join(BUILD, "tsctl"), "attach", process.pid])
            time.sleep(0.005)
            attach.kill()
            attach.wait()
        self.attach_or_join(process.pid)
        self.wait_kernels(process.pid)
        wait_for("the detach", lambda: isinstance(self.ask("detach", process.pid), dict))
        self.finish(process)

    def test_process_dies_in_each_stage(self):
        for ms in (0, 2, 4, 6, 10, 20, 40, 80):
            process = self.loop()
            attach = subprocess.Popen([os.path.join(BUILD, "tsctl"), "attach", str(process.pid)], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment())
            time.sleep(ms / 1000)
            process.kill()
            _, err = attach.communicate(timeout=120)
            if attach.returncode:
                self.assertRegex(err, "ended|does not exist|; try again")
        process = self.loop()
        self.do("attach", process.pid)
        process.kill()
        process.wait()
        self.assertRegex(self.ask("detach", process.pid), "does not exist|not attached|ended")

    def test_program_is_replaced(self):
        """exec() takes us out; the next program is attached to anew."""
        program = (f"import ctypes, os, sys, time; cuda = ctypes.CDLL({tracesmith.library()!r}); cuda.cuInit(0)\n"
                   "time.sleep(float(sys.argv[1])); os.execv(sys.executable, [sys.executable, '-c', sys.argv[2], sys.argv[1], sys.argv[2]])")
        process = self.start(["/usr/bin/python3", "-c", program, "0.05", program])
        end, answers = time.monotonic() + 3, []
        while time.monotonic() < end:
            answers.append(self.ask("attach", process.pid))
            self.assertIsNone(process.poll(), answers[-1])
        for answer in answers:
            self.assertTrue(isinstance(answer, dict) or any(word in answer for word in (
                "another program", "ended", "does not use CUDA", "still starting", "does not answer", "already",
                "does not run", "was free within", "try again")), answer)

    def test_daemon_is_killed_while_attaching(self):
        process = self.loop("--stress", "--threads", 4)
        for i in range(6):
            attach = self.start([os.path.join(BUILD, "tsctl"), "attach", process.pid])
            time.sleep(0.004 + i * 0.004)
            self.daemon.kill()
            attach.communicate(timeout=120)
            self.assertIsNone(process.poll(), "the program has ended")
            self.daemon.start()
        self.attach_or_join(process.pid)
        self.wait_kernels(process.pid)
        self.do("detach", process.pid)
        self.finish(process)

    def test_library_that_cannot_come_again(self):
        """It has stayed from an earlier daemon, and the socket lies where it cannot see it: as in a container."""
        process = self.loop(TRACESMITH_INJECT_SOCKET="/nowhere/inject.sock")
        self.do("attach", process.pid)
        self.daemon.kill()
        self.daemon.start()
        wait_for("the probe tier", lambda: self.tier(process.pid) == "probe")
        self.do("attach", process.pid, "--stacks", "none")
        self.wait_kernels(process.pid)
        told = self.do("detach", process.pid)
        self.assertTrue(told["unloaded"], told)
        self.assertEqual(self.residue(process.pid)[2], [])
        self.finish(process)

    def test_run_then_detached_then_attached(self):
        process = self.loop(run=True)
        wait_for("collection", lambda: self.tier(process.pid) == "exact")
        told = self.do("detach", process.pid)
        self.assertFalse(told["unloaded"], "the driver holds it")
        self.do("attach", process.pid)
        self.wait_kernels(process.pid)
        self.assertFalse(self.do("detach", process.pid)["unloaded"])
        self.finish(process)

    def test_another_profiler_first(self):
        """Who attaches meanwhile is told so, at once."""
        process = self.start([tracesmith.workload_path("profiler"), "--signals"])
        wait_for("the program to use CUDA", lambda: self.tier(process.pid))
        process.send_signal(signal.SIGUSR1)
        while '"start"' not in process.stdout.readline():
            self.assertIsNone(process.poll())
        told = self.do("attach", process.pid)
        self.assertIn("profiler", str(told["notes"] if "notes" in told else told))

    def states(self, pid):
        """Of its threads."""
        found = set()
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/stat") as file:
                found.add(file.read().rpartition(") ")[2][0])
        return found

    def test_stopped_program(self):
        process = self.loop()
        self.do("attach", process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_for("all its threads to stop", lambda: self.states(process.pid) == {"T"})
        told = self.ask("detach", process.pid)
        self.assertIn("stopped", told)
        process.send_signal(signal.SIGCONT)
        answers = [told]
        wait_for("it to be let go", lambda: answers.append(self.ask("detach", process.pid)) or "not attached" in answers[-1])
        wait_for("the library to go", lambda: self.residue(process.pid)[2] == [])
        self.finish(process)

    def test_liar_connects_while_attached(self):
        """A library that is not one, and comes and goes while ours is put in."""
        liar = self.liar("while True:\n    s = connect()\n    s.recv(4096)\n    s.close()")
        end = time.monotonic() + 3
        while time.monotonic() < end:
            self.ask("attach", liar.pid)
            self.ask("detach", liar.pid)
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log())

    def test_liar_says_everything(self):
        """In any order, and it never ends; the log does not fill."""
        liar = self.liar("for i in range(100000):\n    s = connect()\n    s.recv(4096)\n"
                         "    for kind in (3, 1, 2, 3, 4, 9, 1):\n"
                         "        try: s.send(state(kind, b'\\x1b[31m\\n' * 30))\n        except OSError: break")
        end = time.monotonic() + 2
        while time.monotonic() < end:
            self.ask("attach", liar.pid)
            self.ask("detach", liar.pid)
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log())
        self.assertLess(len(self.daemon.log()), 20000)
        self.assertNotIn("\x1b", self.daemon.log())

    def test_ends_do_not_count_calls_twice(self):
        """What another program calls while collected ones end is read once."""
        rate = self.start([tracesmith.workload_path("rate"), "--rate", 30000, "--seconds", 6])
        while rate.poll() is None:
            short = self.start([os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path("exact")])
            short.communicate()
        out, _ = rate.communicate()
        said = [json.loads(line) for line in out.splitlines() if '"calls_per_s"' in line][0]
        self.daemon.wait_ended(rate.pid)
        self.assertEqual(self.daemon.apis(rate.pid)["cuLaunchKernel"]["calls"], said["calls"])

    def test_daemon_stops_in_each_stage(self):
        process = self.loop()
        for ms in (0, 3, 6, 12, 25, 50):
            attach = self.start([os.path.join(BUILD, "tsctl"), "attach", process.pid])
            time.sleep(ms / 1000)
            self.assertEqual(self.daemon.stop(), 0, self.daemon.log())
            attach.communicate(timeout=120)
            self.daemon.start()
            self.attach_or_join(process.pid)
            self.do("detach", process.pid)
        self.finish(process)


if __name__ == "__main__":
    tracesmith.main()
