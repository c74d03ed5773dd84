"""Light mode: the library in the process reports calls of hot functions, the kernel's probes stay out of them. No call
is missed or counted twice, whatever happens in between, and the driver's code is in the end what it was."""
import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import tracesmith
from test_counts import by_row
from tracesmith import wait_for, workload

CYCLES = int(os.environ.get("TS_CYCLES", "60"))
HANDLER_CYCLES = 12
LEFT_OUT = "left-out-frequent"
# Calls a function of the driver whenever it is told to, forks whenever it is told to.
FORKS = """
import ctypes, os, sys, threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
cuda = ctypes.CDLL(sys.argv[1])
event = ctypes.c_void_p()
def calls(n):
    for _ in range(n):
        cuda.cuEventQuery(event)
calls(10)
print("up", flush=True)
sys.stdin.readline()
calls(1000)
child = os.fork()
if not child:
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    calls(500)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
calls(1000)
print("done", flush=True)
sys.stdin.readline()
"""


def code_of(pid, path):
    """The executable mappings of a file: (bytes in the process, bytes in the file)."""
    found = []
    with open(f"/proc/{pid}/mem", "rb") as memory, open(path, "rb") as file:
        for start, end, offset in tracesmith.code_mapped(pid, path):
            memory.seek(start)
            file.seek(offset)
            found.append((memory.read(end - start), file.read(end - start)))
    return found


def symbol_offset(path, name):
    """Where a function is in its file (its code is mapped at its address there)."""
    out = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in out.splitlines() if line.split()[-1:] == [name])
    heads = subprocess.run(["objdump", "-h", "-j", ".text", path], capture_output=True, text=True, check=True).stdout
    text = next(line.split() for line in heads.splitlines() if " .text " in line)
    return address - int(text[3], 16) + int(text[5], 16)


def breakpoint_at(pid, name):
    """Whether the kernel has a probe there."""
    path = tracesmith.library()
    offset = symbol_offset(path, name)
    for start, end, at in tracesmith.code_mapped(pid, path):
        if at <= offset < at + end - start:
            with open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(start + offset - at)
                return memory.read(1) == b"\xcc"
    return False


def without_room(directory):
    """A driver with a function that no jump can be placed in."""
    with open(tracesmith.library(), "rb") as file:
        content = bytearray(file.read())
    offset = symbol_offset(tracesmith.library(), "cuEventElapsedTime")
    assert content[offset:offset + 4] == b"\x55\x48\x89\xe5"
    content[offset + 1:offset + 6] = b"\xe8\0\0\0\0"
    return tracesmith.write_library(directory, content)


class Uprobe:
    """A probe of somebody else's, counting, on each CPU."""

    def __init__(self, path, name):
        with open("/sys/bus/event_source/devices/uprobe/type") as file:
            kind = int(file.read())
        self.path = ctypes.create_string_buffer(path.encode())
        attr = struct.pack("IIQQQQQIIQQ", kind, 112, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(self.path),
                           symbol_offset(path, name)).ljust(112, b"\0")
        libc = ctypes.CDLL(None, use_errno=True)
        self.fds = [libc.syscall(298, attr, -1, cpu, -1, 0) for cpu in sorted(os.sched_getaffinity(0))]
        if min(self.fds) < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")

    def count(self):
        return sum(struct.unpack("Q", os.read(fd, 8))[0] for fd in self.fds)

    def close(self):
        for fd in self.fds:
            os.close(fd)


class Light(tracesmith.Case):
    standing = ("lib", "lib2")
    settings = "[probe]\nring_size = 64MiB\n"

    def environment(self):
        return {"TRACESMITH_INJECT_SOCKET": os.path.join(self.daemon.directory, "inject.sock")}

    def start(self, name, *arguments, **options):
        process = workload(name, *arguments, environment=self.environment(), **options)
        self.addCleanup(self.end, process)
        return process

    def busy(self, *arguments):
        process = self.start("rate", "--threads", 4, "--stop", *arguments)
        wait_for("its launches", lambda: self.launches(process.pid) > 100)
        return process

    def launches(self, pid):
        if not self.daemon.known(pid):
            return 0
        return self.daemon.apis(pid).get("cuLaunchKernel", {"calls": 0})["calls"]

    def do(self, verb, *arguments):
        result = self.daemon.ctl_again(verb, *arguments, "--json")
        self.assertEqual(result.code, 0, result.err + self.daemon.log())
        return json.loads(result.out)

    def attach(self, pid, *options):
        told = self.do("attach", pid, "--light", *options)
        self.assertGreater(told["light_functions"], 50)
        self.wait_tier(pid, "light")

    def detach(self, pid):
        told = self.do("detach", pid)
        self.assertTrue(told["unloaded"], told)
        self.wait_tier(pid, "probe")

    def wait_tier(self, pid, tier):
        """Beside a program that calls as fast as it can, `ps` may always be of a moment ago."""
        def tiers():
            return [row["tier"] for row in json.loads(self.daemon.ctl("ps", "--json").out)["rows"] if row["pid"] == pid]
        wait_for(lambda: f"tier {tier}, not {tiers()}", lambda: tier in tiers())

    def tier(self, pid):
        return next((row["tier"] for row in self.daemon.query("ps") if row["pid"] == pid), None)

    def inside(self, pid):
        return next((row["inside"] for row in self.daemon.query("ps") if row["pid"] == pid), None)

    def maps(self, pid):
        with open(f"/proc/{pid}/maps") as maps:
            return maps.read()

    def assert_untouched(self, pid, path=None):
        """Breakpoints of the daemon's own probes go with the last process that holds their links, a moment after it."""
        self.daemon.stop()
        self.assertEqual(tracesmith.ours_of(pid), [])
        self.assertTrue(code_of(pid, path or tracesmith.library()))
        wait_for("the code to be as it was", lambda: all(
            memory == file for memory, file in code_of(pid, path or tracesmith.library())))

    def finish(self, process, what="\n"):
        out, _ = process.communicate(what, timeout=120)
        self.assertEqual(process.returncode, 0)
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def launches_of(self, process):
        """How many it made, how many were seen, and how many found no room (the ring of a library has some for a second).
        None: nobody knows, as where the kernel's workers fall behind, who calls so often is left out for some seconds."""
        said = self.finish(process)
        self.daemon.wait_ended(process.pid)
        answer = self.daemon.answer("apis", "--pid", process.pid)
        # A disk that is behind costs ops, and no calls.
        self.assert_nothing_lost(answer, ("ring-full", "store", LEFT_OUT))
        seen = next(row["calls"] for row in answer["rows"] if row["fn"] == "cuLaunchKernel")
        return said[-1]["calls"], seen, None if LEFT_OUT in answer["loss"] else answer["loss"].get("ring-full", 0)

    def check_launches(self, process):
        """Each was seen once, or is told. While it changes, a launch may find no room in one ring, and some in the other."""
        made, seen, lost = self.launches_of(process)
        self.assertLessEqual(seen, made, f"counted twice; {lost} lost")
        if lost is not None:
            self.assertLessEqual(made - seen, lost, f"{made} made, {seen} seen")

    def counts(self, process, light=False, stacks="none"):
        """What was seen of `counts`, which must be what it says, with all that is the same in two runs of it."""
        if light:
            self.attach(process.pid, "--stacks", stacks)
        process.stdin.write("\n")
        process.stdin.flush()
        said = []
        while not said or "functions" not in said[-1]:
            said.append(json.loads(process.stdout.readline()))
        if light:
            self.detach(process.pid)
        said += self.finish(process)
        self.daemon.wait_ended(process.pid)
        answer = self.daemon.answer("apis", "--pid", process.pid)
        self.assert_nothing_lost(answer)
        probed = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        want = {name: row["calls"] for name, row in by_row(said).items() if name in probed}
        self.assertEqual({row["fn"]: row["calls"] for row in answer["rows"]}, want)
        return self.daemon.sql(
            "SELECT fn, kind, detail, bytes, result, device, count(*) AS n FROM op WHERE pid = "
            f"{process.pid} GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6 LIMIT 100000")

    def test_every_function_is_counted_with_its_arguments(self):
        """Whichever way the calls take: by the probes, by the hook, or by the hook's stub."""
        processes = [self.start("counts", "--hold") for _ in range(3)]
        # Whoever comes while another is in light mode is seen a moment later.
        for process in processes:
            self.assertIn("ready", process.stdout.readline())
        plain = self.counts(processes[0])
        self.assert_same(self.counts(processes[1], light=True), plain)
        self.assert_same(self.counts(processes[2], light=True, stacks="all"), plain)

    def assert_same(self, rows, plain):
        """States follow from the order of events, which the daemon cannot keep on a machine that is too busy, and says so."""
        status = json.loads(self.daemon.ctl("status", "--json").out)["rows"]
        if next(row["number"] for row in status if row["name"] == "unordered_events"):
            rows, plain = ([row for row in each if row["kind"] != "state"] for each in (rows, plain))
        self.assertEqual(rows, plain)

    def stacks(self, pid, since=0):
        """Of its launches since then: {frames: calls}, without a stack under None, under () with one that was cut short."""
        rows = self.daemon.sql(f"SELECT coalesce(stack, 0) AS stack, count(*) AS n FROM op WHERE pid = {pid} AND "
                               f"kind = 'launch' AND start_ns > {since} GROUP BY 1")
        frames = {}
        for row in self.daemon.sql("SELECT f.stack, f.address FROM frame f JOIN stack s ON s.id = f.stack JOIN stack_end e"
                                   " ON e.id = s.ended WHERE NOT f.inlined AND e.name = 'complete'"
                                   " ORDER BY f.stack, f.depth LIMIT 100000"):
            frames.setdefault(row["stack"], []).append(row["address"])
        found = {}
        for row in rows:
            key = tuple(frames.get(row["stack"], ())) if row["stack"] else None
            found[key] = found.get(key, 0) + row["n"]
        return found

    def test_stacks_are_those_that_the_probes_take(self):
        """A sample by default, all if asked for, none if not; to the caller's last frame, and nothing of ours."""
        process = self.busy("--rate", 2000)
        pid = process.pid
        wait_for("a stack by the probes", lambda: any(self.stacks(pid)))
        by_probes = {stack for stack in self.stacks(pid) if stack}
        for stacks in "sampled", "all", "none":
            self.attach(pid, "--stacks", stacks)
            begin = time.monotonic_ns()
            wait_for("calls", lambda: sum(self.stacks(pid, begin).values()) > 2000)
            found = self.stacks(pid, begin)
            self.detach(pid)
            self.assertLessEqual({stack for stack in found if stack}, by_probes, found)
            self.assertEqual(None in found, stacks != "all", found)
            self.assertEqual(any(found), stacks != "none", found)
        self.check_launches(process)

    def test_a_busy_program_is_attached_to_and_left_again_and_again(self):
        process = self.busy("--rate", 10000)
        for cycle in range(CYCLES):
            self.attach(process.pid, "--stacks", ("sampled", "all", "none")[cycle % 3])
            self.detach(process.pid)
            self.assertIsNone(process.poll(), f"ended in cycle {cycle}")
        self.check_launches(process)

    def test_a_thread_in_a_handler_is_waited_for(self):
        """What the handler interrupted may be code of ours, and stands on another stack, or far down its own; or it holds the lock of
        malloc(), so that it must not load us."""
        for which in ("own", "deep", "memory"):
            process = subprocess.Popen([os.path.join(tracesmith.BUILD, "tests/e2e/e2e_handlers"), tracesmith.library(), which],
                                       stdin=subprocess.PIPE, env={**os.environ, **self.environment()})
            self.addCleanup(self.end, process)
            wait_for("its calls", lambda: self.daemon.known(process.pid))
            for _ in range(HANDLER_CYCLES):
                self.attach(process.pid)
                self.detach(process.pid)
                self.assertIsNone(process.poll(), which)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, which)

    def filtered(self, *options):
        """A program that is killed if its thread that launches does what it does not do alone."""
        process = self.start("filtered", *options)
        self.assertIn("ready", process.stdout.readline())
        wait_for("its launches", lambda: self.launches(process.pid) > 10)
        return process

    def wait_launches(self, process, count=50):
        begin = time.monotonic_ns()
        wait_for("launches", lambda: process.poll() is not None or sum(self.stacks(process.pid, begin).values()) > count)
        self.assertIsNone(process.poll(), "the program was killed")

    def all_seen(self, process):
        launches = self.finish(process)[-1]["launches"]
        self.daemon.wait_ended(process.pid)
        apis = self.daemon.apis(process.pid)
        self.assertEqual((apis["cuLaunchKernel"]["calls"], apis["cuLaunchKernelEx"]["calls"]), (launches + 1, launches))

    def test_a_thread_with_a_filter_of_its_own(self):
        """It is refused by its name, and otherwise lives on, whichever way its calls take."""
        process = self.filtered()
        pid = process.pid
        refused = self.daemon.ctl("attach", pid, "--light")
        self.assertEqual(refused.code, 1, refused.err)
        self.assertRegex(refused.err, rf"^tsctl: Process {pid} has a seccomp filter \(thread \d+, 'filtered'\), .*--seccomp\n$")
        for stacks in "none", "sampled", "all":
            self.attach(pid, "--seccomp", "--stacks", stacks)
            self.wait_launches(process)
            self.detach(pid)
        self.all_seen(process)

    def test_a_filter_that_comes_later(self):
        process = self.filtered("--late")
        pid = process.pid
        self.attach(pid, "--stacks", "all")
        self.wait_launches(process)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertIn("filtered", process.stdout.readline())
        self.wait_launches(process)
        self.detach(pid)
        self.wait_launches(process)
        self.all_seen(process)

    def waits(self, what):
        process = subprocess.Popen([os.path.join(tracesmith.BUILD, "tests/e2e/e2e_waits"), tracesmith.library(), what], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **self.environment()})
        self.addCleanup(self.end, process)
        if process.stdout.readline() != "ready\n" and process.wait(tracesmith.DEADLINE) == tracesmith.SKIP:
            print("no io_uring here", file=sys.stderr)
            return None
        wait_for("its calls", lambda: self.daemon.known(process.pid))
        return process

    def goes_on(self, process):
        process.communicate("x", timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_a_thread_in_a_call_that_can_start_again(self):
        """It waits on, and gets all that it waits for."""
        for what in "uring", "worker", "pipe":
            process = self.waits(what)
            for _ in range(3 if process else 0):
                self.attach(process.pid)
                self.detach(process.pid)
            if process:
                self.goes_on(process)

    def test_a_thread_in_a_call_that_would_end_half_done_is_named(self):
        for what, call, until in (("submit", "io_uring_enter", "what it has submitted is done"),
                                  ("large", "write", "what it writes is read")):
            process = self.waits(what)
            if not process:
                continue
            pid = process.pid
            refused = self.daemon.ctl("attach", pid, "--light")
            self.assertEqual(refused.code, 1, refused.err)
            self.assertRegex(refused.err, rf"^tsctl: Cannot record process {pid}: Thread \d+ \('e2e_waits'\) of process {pid} waits in {call}\(\), which would"
                                          rf" end half done if it was stopped: try again when {until}\n$")
            wait_for("our library to go", lambda: not tracesmith.ours_of(pid))
            self.goes_on(process)

    def test_a_lock_of_the_loader_that_is_held(self):
        """Longer than the asker waits: the program works on, and in the end it is as it was, also where the daemon ends."""
        for dies in False, True:
            process = self.waits("loader")
            pid = process.pid

            def calls():
                return self.daemon.apis(pid)["cuEventQuery"]["calls"]
            asked = subprocess.Popen([os.path.join(tracesmith.BUILD, "tsctl"), "attach", str(pid), "--light"], text=True,
                                     stderr=subprocess.PIPE, env={**os.environ, "TRACESMITH_SOCKET": self.daemon.socket})
            self.addCleanup(self.end, asked)
            wait_for("our call to be under way", lambda: "545300010000-" in self.maps(pid))
            before = calls()
            wait_for("calls meanwhile", lambda: calls() > before + 1000)
            if dies:
                self.daemon.kill()
                self.daemon.start()
                before = 0
                wait_for("calls meanwhile", lambda: self.daemon.known(pid) and calls() > before + 1000)
            _, err = asked.communicate(timeout=60)
            self.assertEqual(asked.returncode, 1, err)
            if not dies:
                self.assertIn("or a thread held a lock that loading a library takes: what was done to it is undone when it does", err)
                before = calls()
                wait_for("calls after that", lambda: calls() > before + 1000)
            self.goes_on(process)

    def test_flat_out(self):
        """As fast as it can: what finds no room in a ring is counted."""
        process = self.busy("--rate", 0)
        for _ in range(3):
            self.attach(process.pid)
            self.detach(process.pid)
        made, seen, lost = self.launches_of(process)
        self.assertLessEqual(seen, made)
        if lost is not None:
            self.assertEqual(made, seen + lost)

    def test_the_code_is_what_it_was(self):
        process = self.busy("--rate", 10000)
        self.attach(process.pid)
        self.assertTrue(any(memory != file for memory, file in code_of(process.pid, tracesmith.library())))
        again = self.daemon.ctl("attach", process.pid)
        self.assertEqual(again.code, 1)
        self.assertRegex(again.err, rf"^tsctl: Process {process.pid} is in light mode: 'tsctl detach")
        self.detach(process.pid)
        self.assert_untouched(process.pid)

    def test_a_program_is_run_with_it(self):
        """Its calls are counted from the first one on: those before the library is ready by the probes."""
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(tracesmith.library()), "FAKE_CUDA_TIME_SCALE": "0",
                       "TRACESMITH_SOCKET": self.daemon.socket}
        process = subprocess.Popen([os.path.join(tracesmith.BUILD, "tsctl"), "run", "--light", tracesmith.workload_path("rate"),
                                    "--rate", "1000", "--threads", "2", "--stop"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, process)
        wait_for("light mode", lambda: self.tier(process.pid) == "light")
        before = self.launches(process.pid)
        wait_for("launches", lambda: self.launches(process.pid) > before + 1000)
        self.check_launches(process)

    def test_another_daemon_goes_on(self):
        process = self.busy("--rate", 10000)
        self.attach(process.pid)
        self.daemon.kill()
        self.daemon.start()
        wait_for("light mode", lambda: self.tier(process.pid) == "light")
        before = self.launches(process.pid)
        wait_for("launches", lambda: self.launches(process.pid) > before + 10000)
        self.detach(process.pid)
        before = self.launches(process.pid)
        wait_for("launches", lambda: self.launches(process.pid) > before + 10000)
        self.assert_untouched(process.pid)

    def test_a_probe_of_somebody_else(self):
        process = self.busy("--rate", 10000)
        early = Uprobe(tracesmith.library(), "cuLaunchKernel")
        self.addCleanup(early.close)
        self.attach(process.pid)
        late = Uprobe(tracesmith.library(), "cuLaunchKernel")
        counted = early.count()
        wait_for("hits", lambda: early.count() > counted + 1000 and late.count() > 1000)
        late.close()
        self.detach(process.pid)
        counted = early.count()
        wait_for("hits", lambda: early.count() > counted + 1000)
        self.check_launches(process)

    def test_a_child_is_another_process(self):
        process = subprocess.Popen(["/usr/bin/python3", "-c", FORKS, tracesmith.library()], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, env={**os.environ, **self.environment()})
        self.addCleanup(self.end, process)

        def tell():
            process.stdin.write("\n")
            process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "up\n")
        wait_for("its calls", lambda: self.daemon.known(process.pid))
        self.attach(process.pid)
        tell()
        child = int(process.stdout.readline())
        self.assertIn(b"\xe9", b"".join(memory for memory, file in code_of(child, tracesmith.library())))
        wait_for("probes in the child", lambda: breakpoint_at(child, "cuEventQuery"))
        tell()
        self.assertEqual(process.stdout.readline(), "done\n")
        self.detach(process.pid)
        self.finish(process)
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.daemon.apis(process.pid)["cuEventQuery"]["calls"], 2010)
        self.assertEqual(self.daemon.apis(child)["cuEventQuery"]["calls"], 500)

    def test_a_driver_that_leaves_no_room(self):
        directory = tempfile.mkdtemp(prefix="driver-")
        self.addCleanup(shutil.rmtree, directory)
        path = without_room(directory)
        process = self.start("rate", "--threads", 4, "--rate", 1000, "--stop", copy=directory)
        wait_for("its launches", lambda: self.launches(process.pid) > 100)
        result = self.daemon.ctl_again("attach", process.pid, "--light")
        self.assertEqual(result.code, 1, result.err)
        self.assertIn("cuEventElapsedTime", result.err)
        self.assertEqual(len(result.err.strip().splitlines()), 1, result.err)
        wait_for("our library to go", lambda: not tracesmith.ours_of(process.pid))
        before = self.launches(process.pid)
        wait_for("launches", lambda: self.launches(process.pid) > before + 1000)
        self.assert_untouched(process.pid, path)


class Stacks(Light):
    """A process that takes too many stacks takes none, and its calls are counted all the same."""
    settings = "[probe]\nring_size = 64MiB\nlaunch_stacks = 1000000000\n"  # also of two calls within a microsecond
    for name in [name for name in dir(Light) if name.startswith("test_")]:
        locals()[name] = None
    del name

    def test_too_many(self):
        process = self.busy("--rate", 500)
        pid = process.pid
        self.attach(pid, "--stacks", "sampled")
        self.assertEqual(self.inside(pid), 1)
        begin = time.monotonic_ns()
        wait_for("calls", lambda: sum(self.stacks(pid, begin).values()) > 2000)
        self.assertNotIn(None, self.stacks(pid, begin))
        with open(self.daemon.config, "a") as file:
            file.write("trap_limit = 0.05%\n")
        self.daemon.process.send_signal(signal.SIGHUP)

        def without():
            begin = time.monotonic_ns()
            wait_for("calls", lambda: self.stacks(pid, begin))
            return not any(self.stacks(pid, begin))
        wait_for("calls without stacks", without)
        # By then a library that had not said that it takes none would have lost the probe, and maybe calls.
        wait_for("the end of its time", lambda: f"process {pid}" not in self.daemon.ctl("status").out)
        self.check_launches(process)


if __name__ == "__main__":
    tracesmith.main()
