"""What the threads of a process are doing: as Python itself says it, of programs with and without Python and CUDA,
and in one sentence where it cannot be."""
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tracesmith
from tracesmith import wait_for

PYTHON = "/usr/bin/python3"
# What steers a terminal or turns text around.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
EVIL = b"\x1b[2J\xc2\x9b\xe2\x80\xae"
PARKED = os.path.join(tracesmith.SOURCE, "tests", "unit", "python_parked.py")
WAYS = os.path.join(tracesmith.SOURCE, "tests", "e2e", "ways.py")
SOME = "import time\ndef known_place():\n    time.sleep(1000)\nknown_place()\n"
# Waits for a stream that does not get on.
WAITS = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
context = ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(1000))
check(cuda.cuLaunchHostFunc(None, hold, None))
def wait_for_the_gpu():
    print("cuStreamSynchronize", flush=True)
    check(cuda.cuStreamSynchronize(None))
wait_for_the_gpu()
"""
# Python that C calls: a thread waits below list.sort(), another one computes.
NATIVE = """
import threading, time
def computes():
    while True:
        sum(range(1000))
def waits():
    time.sleep(1000)
def calls():
    waits()
def key(_):
    calls()
threading.Thread(target=computes, daemon=True).start()
[2, 1].sort(key=key)
"""
# A thread sleeps, and the page with its frames is taken away: whoever reads it waits.
HANGS = """
import ctypes, fcntl, mmap, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(323, 0o2000000)
if fd < 0:
    print("none", flush=True)
    sys.exit()
fcntl.ioctl(fd, 0xc018aa3f, bytearray(struct.pack("QQQ", 0xaa, 0, 0)))
thread = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
thread.start()
frame = None
while not frame or frame.f_code.co_name != "run":
    frame = sys._current_frames().get(thread.ident)
page = ctypes.c_uint64.from_address(id(frame) + 24).value & ~4095
while True:  # until it sleeps
    state = open(f"/proc/self/task/{thread.native_id}/stat").read().rsplit(")", 1)[1].split()[0]
    if state == "S":
        break
libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(4096), 4)
fcntl.ioctl(fd, 0xc020aa00, bytearray(struct.pack("QQQQ", page, 4096, 1, 0)))
print("hangs", flush=True)
ctypes.PyDLL(None).pause()
"""
PYTHON_EVIL = r"""
import time
evil = "\x1b[2J\x9b\u202e"
exec(compile("def waits(local=evil):\n    time.sleep(1000)\n", evil, "exec"))
waits.__code__ = waits.__code__.replace(co_name=evil, co_qualname=evil)
waits()
"""


class Stack(tracesmith.Case):
    def python(self, *arguments, environment=None):
        process = subprocess.Popen([PYTHON, "-B", *arguments], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   text=True, env=environment)
        self.addCleanup(self.end, process)
        return process

    def setUp(self):
        libraries = os.path.dirname(tracesmith.library())
        self.early = self.python("-c", WAITS, environment=dict(os.environ, LD_LIBRARY_PATH=libraries))
        wait_for("it to wait", lambda: "cuStreamSynchronize\n" == self.early.stdout.readline())
        super().setUp()

    def python_of(self, python, *arguments):
        process = subprocess.Popen([python, "-B", *arguments], stdin=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    def sleeper(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    def ask(self, *arguments):
        """On a busy machine it may not be read in time."""
        return wait_for("it to be read in time",
                        lambda: (r := self.daemon.ctl("stack", *arguments)) and "have not answered for" not in r.err and r)

    def wait_for_text(self, pattern, *arguments):
        """A thread that moves, or gets no CPU to be sampled on, shows less."""
        wait_for(pattern, lambda: re.search(pattern, self.ask(*arguments).out))

    def stack(self, pid, *arguments):
        result = self.ask(pid, "--json", *arguments)
        self.assertEqual((result.code, result.err), (0, ""))
        return json.loads(result.out)

    @staticmethod
    def at_rest(threads):
        """They sleep where they are going to stay; one that is read while it wakes is told to be moving."""
        return all(thread["state"] == "sleeping" and not thread["moving"] for thread in threads)

    def refuse(self, code, sentence, *arguments):
        result = self.ask(*arguments)
        self.assertEqual((result.code, result.out), (code, ""))
        self.assertRegex(result.err, f"^tsctl: .*{sentence}")
        self.assertEqual(result.err.count("\n"), 1)

    def truth(self, process):
        threads = {}
        for line in process.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "end":
                return threads
            if word == "thread":
                threads[int(rest)] = frames = []
            elif word == "frame":
                frames.append(rest)
        self.fail("it ended")

    def test_stacks(self):
        """One daemon for all of it."""
        for step in (self.equal_to_python, self.without_python, self.with_cuda, self.watched, self.native,
                     self.native_in_a_container, self.evil_names, self.native_and_python, self.refusals,
                     self.ends_meanwhile, self.does_not_answer):
            with self.subTest(step.__name__):
                step()

    def equal_to_python(self):
        process = self.python(PARKED, "threads")
        truth = self.truth(process)

        def settled():
            stack = self.stack(process.pid)
            main = stack["threads"][0]
            return main["call"] == "clock_nanosleep" and main["frames"][0]["function"] == "main" and \
                self.at_rest(stack["threads"]) and stack

        stack = wait_for("it to park", settled)
        self.assertEqual(stack["python"], platform.python_version())
        self.assertFalse(stack["cut"])
        found = {}
        for thread in stack["threads"]:
            self.assertFalse(thread["moving"] or thread["cut"] or thread["broken"])
            self.assertEqual(thread["state"], "sleeping")
            found[thread["tid"]] = [f"{f['function']}|{f['file']}|{f['line']}".replace("\ufffd", "\t")
                                    for f in thread["frames"]]
        self.assertEqual(found, truth)
        self.assertGreater(len(truth), 10)
        self.wait_for_text("\n        big = negative int of 210 bits\n        small = -12\n", process.pid, "--locals")
        text = self.ask(process.pid).out
        self.assertNotIn("small =", text)
        self.assertIn(f"Process {process.pid} (python3), Python {platform.python_version()}\n", text)
        self.assertRegex(text, rf"\nThread {process.pid} \(python3\): sleeping in clock_nanosleep( \(\w+\))?\n"
                               rf"    main \({PARKED}:\d+\)\n    <module> \(")
        self.assertIn("    in_made_up_code.", text.replace("in_made_up_code (", "in_made_up_code. ("))
        self.assertIn("made\ufffdup", text)

    def without_python(self):
        process = self.sleeper("sleep", "1000")
        stack = wait_for("it to sleep",
                         lambda: (s := self.stack(process.pid))["threads"][0]["call"] == "clock_nanosleep" and s)
        self.assertIsNone(stack["python"])
        self.assertEqual(stack["no_python"], "There is no Python in it")
        thread, = stack["threads"]
        self.assertEqual((thread["tid"], thread["name"], thread["state"], thread["call"], thread["frames"]),
                         (process.pid, "sleep", "sleeping", "clock_nanosleep", []))
        text = self.ask(process.pid).out
        self.assertIn("No Python frames: There is no Python in it\n", text)
        self.assertIn("sleeping in clock_nanosleep", text)
        self.assertEqual(self.stack(process.pid, "--native")["no_native"],
                         "Memory of root, and of programs that let nobody trace them, is read only where they use a GPU or Python")

    def with_cuda(self):
        libraries = os.path.dirname(tracesmith.library())
        process = self.python("-c", WAITS, environment=dict(os.environ, LD_LIBRARY_PATH=libraries))
        thread = wait_for("it to wait", lambda: (t := self.stack(process.pid)["threads"][0])["driver_call"] ==
                          "cuStreamSynchronize" and t)
        self.assertGreater(thread["driver_ns"], 0)
        self.assertEqual([frame["function"] for frame in thread["frames"]], ["wait_for_the_gpu", "<module>"])
        self.wait_for_text(rf"\nThread {process.pid} \(python3\): .*, in cuStreamSynchronize for \d", process.pid)
        text = self.ask(process.pid).out
        # What the stream has to do until then.
        self.assertRegex(text, r"\nGPU 0, default stream: cuLaunchHostFunc, called .* ago, is not known to be finished\n")
        work, = self.stack(process.pid)["work"]
        self.assertEqual((work["device"], work["stream"], work["call"], work["count"], work["waiting"]),
                         (0, "0x0", "cuLaunchHostFunc", 1, False))
        def native():
            return [frame["function"] for frame in self.stack(process.pid, "--native")["threads"][0]["frames"]]

        frames = wait_for("its native frames", lambda: "cuStreamSynchronize" in (frames := native()) and frames)
        self.assertLess(frames.index("cuStreamSynchronize"), frames.index("wait_for_the_gpu"))
        # A call that nobody saw begin: the native frames tell.
        def early():
            return self.stack(self.early.pid, "--native")["threads"][0]

        self.assertIsNone(self.stack(self.early.pid)["threads"][0]["driver_call"])
        thread = wait_for("it to wait", lambda: (t := early())["driver_call"] == "cuStreamSynchronize" and t)
        self.assertIsNone(thread["driver_ns"])
        self.wait_for_text(r", in cuStreamSynchronize\n", self.early.pid, "--native")

    def watched(self):
        process = self.python("-c", SOME)
        wait_for("its place", lambda: any(f["function"] == "known_place" for t in self.stack(process.pid)["threads"]
                                          for f in t["frames"]))
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        watch = subprocess.Popen([os.path.join(tracesmith.BUILD, "tsctl"), "stack", str(process.pid), "--watch"],
                                 env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, watch)
        for _ in range(2):
            while "known_place" not in (line := watch.stdout.readline()):
                self.assertTrue(line, "it ended")
        self.end(process)
        out, err = watch.communicate(timeout=tracesmith.DEADLINE)
        self.assertEqual(watch.returncode, 1)
        self.assertRegex(err.splitlines()[-1], f"^tsctl: Process {process.pid} (does not exist|has ended)")

    def stands(self, *command):
        """A stands.c that is ready, and its pid: it may be the child of what was started."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        pid = process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else pid

    def check_stands(self, pid, file, first="sleeping"):
        def settled():
            stack = self.stack(pid, "--native")
            rest = [thread for thread in stack["threads"] if thread["name"] in (file[:15], "deep")]
            return len(rest) == 2 and rest[0]["state"] == first and self.at_rest(rest[first == "ended":]) \
                and not any(t["moving"] for t in stack["threads"]) and stack

        expected = {file[:15]: ["sleeps_here", "sleeps_called", "main"] if first == "sleeping" else [],
                    "computes": ["computes_here", "computes_called", "run_computes"],
                    "deep": ["sleeps_here", *["deep_below"] * 901, "run_deep"], "moments": ["moments", "run_moments"]}

        def found(thread):
            own = [frame for frame in thread["frames"] if frame["file"] and frame["file"].endswith("/" + file)]
            names, wanted = [frame["function"] for frame in own], expected.get(thread["name"], [])
            at = next((i for i, function in enumerate(names) if function in wanted[:1]), 0)
            return names[at:at + len(wanted)]

        def whole():
            """A thread that gets no CPU to be sampled on shows less."""
            stack = settled()
            return stack and all(len(found(thread)) == len(expected.get(thread["name"], [])) for thread in stack["threads"]) and stack

        stack = wait_for("its threads to be where they stay", whole)
        self.assertIsNone(stack["no_native"])
        self.assertEqual({thread["name"]: found(thread) for thread in stack["threads"]}, expected)
        for thread in stack["threads"]:
            self.assertFalse(thread["moving"], thread)
            self.assertIsNone(thread["native_end"], thread)
            self.assertTrue(all(frame["native"] for frame in thread["frames"]), thread)

    def native(self):
        for file in ("e2e_stands_static_pie", "e2e_stands_static", "e2e_stands"):
            path = os.path.join(tracesmith.BUILD, "tests", "e2e", file)
            self.check_stands(self.stands(path), file)
        self.check_stands(self.stands(path, "its first thread ends"), file, "ended")
        pid = self.stands(path)
        self.wait_for_text(rf"    sleeps_here \({file}\)\n    sleeps_called \({file}\)\n    main \({file}\)\n", pid, "--native")
        self.wait_for_text(r"\n    computes_here \(", pid, "--native")

    def native_in_a_container(self):
        """Another root, another PID namespace, and files that are gone by then."""
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(os.path.join(tracesmith.BUILD, "tests", "e2e", "e2e_stands"), os.path.join(root, "inside"))
            for library in ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"):
                os.makedirs(root + os.path.dirname(library), exist_ok=True)
                shutil.copy(library, root + library)
            pid = self.stands("unshare", "--pid", "--fork", "--kill-child", "--mount", "chroot", root, "/inside")
            self.check_stands(pid, "inside")

    def evil_names(self):
        """Of a program, its threads and its functions, native and in Python."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(os.fsencode(directory), EVIL)
            program = Path(tracesmith.BUILD, "tests", "e2e", "e2e_stands").read_bytes()
            evil = program.replace(b"\0sleeps_called\0", b"\0" + EVIL.ljust(12, b"_") + b"\xff\0")
            self.assertNotEqual(evil, program)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o700), "wb") as file:
                file.write(evil)
            pids = [self.stands(path), self.python("-c", PYTHON_EVIL).pid]
            shown = ["?[2J??___? (\ufffd[2J\ufffd\ufffd)\n", "[2J\ufffd\ufffd (\ufffd[2J\ufffd\ufffd:2)\n"]
            for pid, frame in zip(pids, shown):
                def text():
                    return self.ask(pid, "--native", "--locals").out

                out = wait_for("its frames", lambda: frame in (out := text()) and out)
                self.assertIsNone(OBEYED.search(out), repr(out))

    def native_and_python(self):
        """Native frames stand between those of Python where Python was called from C, and only there."""
        pythons = [path for version in ("9", "10", "11", "12", "13")
                   for path in glob.glob(f"/root/.pyenv/versions/3.{version}.[0-9]*/bin/python3")]
        for python in [PYTHON, *pythons]:
            process = self.python_of(python, "-c", NATIVE)

            def settled():
                stack = self.stack(process.pid, "--native")
                functions = [[f["function"] for f in t["frames"] if not f["native"]] for t in stack["threads"]]
                return functions and functions[0][:1] == ["waits"] and len(functions) == 2 and \
                    "computes" in functions[1] and not stack["threads"][1]["moving"] and \
                    stack["threads"][1]["frames"][-1]["native"] and \
                    self.at_rest(stack["threads"][:1]) and stack

            stack = wait_for(f"{python} to wait", settled)
            frames = stack["threads"][0]["frames"]
            places = {f["function"].rpartition(".")[2]: i for i, f in enumerate(frames) if not f["native"]}
            self.assertGreater(places["waits"], 0, frames)
            self.assertTrue(frames[0]["native"])
            self.assertRegex(frames[0]["function"], "nanosleep|select")
            # A loop for each frame before 3.11, else one for both.
            loops = [f for f in frames if f["native"] and (f["function"] or "").startswith("_PyEval_EvalFrameDef")]
            self.assertEqual(loops, [])
            version = tuple(int(n) for n in stack["python"].split(".")[:2])
            if version >= (3, 11):
                self.assertEqual(places["calls"], places["waits"] + 1, frames)
            self.assertGreater(places["key"], places["calls"], frames)
            self.assertGreater(places["<module>"], places["key"] + 1, frames)
            self.assertEqual((frames[-1]["function"], stack["threads"][0]["native_end"]), ("_start", None))
            other = stack["threads"][1]["frames"]
            self.assertFalse(all(f["native"] for f in other))
            self.assertRegex(other[-1]["function"], "clone")
            self.end(process)
            self.all_ways(python)

    def all_ways(self, python):
        """However Python was called, there is a loop of the interpreter for each time it was entered, and no more."""
        process = self.python_of(python, WAYS)

        def settled():
            thread = self.stack(process.pid, "--native")["threads"][0]
            return [f["function"] for f in thread["frames"] if not f["native"]][:1] == ["leaf"] and \
                self.at_rest([thread]) and thread

        thread = wait_for(f"{python} to sleep", settled)
        self.assertFalse(thread["moving"] or thread["cut"] or thread["broken"] or thread["native_end"])
        functions = [frame["function"] or "" for frame in thread["frames"]]
        self.assertEqual([name for name in functions if name.startswith("_PyEval_EvalFrameDefault")], [])
        self.assertGreater(functions.count("chain"), 30)
        self.assertEqual(functions[-1], "_start")
        self.end(process)

    def refusals(self):
        self.refuse(2, "", "0")
        self.refuse(2, "", "python")
        self.refuse(1, "does not exist", Path("/proc/sys/kernel/pid_max").read_text().strip())
        zombie = subprocess.Popen(["true"])
        wait_for("its end", lambda: ") Z " in Path(f"/proc/{zombie.pid}/stat").read_text())
        self.refuse(1, r"\(true\) has ended and waits for its parent", zombie.pid)
        zombie.wait()
        process = self.python(PARKED, "threads")
        other = next(tid for tid in self.truth(process) if tid != process.pid)
        self.refuse(1, f"thread.*{process.pid}", other)
        kernel = [path.parent.name for path in Path("/proc").glob("[0-9]*/stat") if self.is_kernel(path)]
        if kernel:
            self.refuse(1, "thread of the kernel", kernel[0])
        else:
            print("SKIPPED: no thread of the kernel is seen here", file=sys.stderr)

    @staticmethod
    def is_kernel(path):
        try:
            return int(path.read_text().rsplit(")", 1)[1].split()[6]) & 0x200000
        except OSError:
            return False

    def ends_meanwhile(self):
        for _ in range(10):
            process = self.python("-c", "pass")
            result = self.ask(process.pid)
            if result.code:
                self.assertEqual(result.code, 1)
                self.assertRegex(result.err, r"^tsctl: Process \d+ .*\n$")
            self.end(process)

    def does_not_answer(self):
        process = self.python("-c", HANGS)
        if process.stdout.readline() != "hangs\n":
            print("SKIPPED: no userfaultfd", file=sys.stderr)
            return
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        slow = [subprocess.Popen([os.path.join(tracesmith.BUILD, "tsctl"), "stack", str(process.pid)],
                                 env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for _ in range(12)]
        said = [client.communicate(timeout=tracesmith.DEADLINE)[1] for client in slow]
        # Memory that nobody fills in makes nobody wait. One user has half of the places: the others are told at once.
        busy = [text for text in said if "Too many processes are being read at once" in text]
        late = [text for text in said if "have not answered for" in text]  # twelve at once, on a busy machine
        self.assertLessEqual(len(busy), 4)
        told = len(busy) + len(late)
        self.assertEqual(sorted(client.returncode for client in slow), [0] * (12 - told) + [1] * told, said)
        self.stack(process.pid)
        self.assertEqual(self.stack(os.getpid())["comm"], Path("/proc/self/comm").read_text().strip())
        self.assertEqual(self.daemon.ctl("status").code, 0)
        self.end(process)


if __name__ == "__main__":
    tracesmith.main()
