"""Stacks reach the line of Python: their frames of Python are those that Python itself sees, among the native ones."""
import glob
import json
import os
import subprocess
import tempfile
import time

import tracesmith
from tracesmith import BUILD, library, wait_for

FAKE = os.path.join(BUILD, "tests/e2e/python_fake")
TORCH = os.path.join(BUILD, "tests/e2e/libtorch_cpu.so")
PROGRAM = os.path.join(BUILD, "tests/e2e/torch_program")
CALLS, TRAIN = (os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
                for name in ("python_calls.py", "torch_calls.py"))
VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]
LOOP = "_PyEval_EvalFrameDefault"
FORGETS = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).cuInit(0)
print("ready", flush=True)
input()
while True:
    compile("1", "many", "eval")
"""
# Runs a program under a filter of system calls that lets all pass.
FILTERED = """
import ctypes, os, struct, sys
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = struct.pack("HP", 1, ctypes.addressof(allow))
for call in (38, 1, 0, 0, 0), (22, 2, program):
    if ctypes.CDLL(None, use_errno=True).prctl(*call) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""
FEW = """
import ctypes, sys, time
driver = ctypes.CDLL(sys.argv[1])
driver.cuInit(0)
arguments = [ctypes.c_void_p(0)] + 7 * [ctypes.c_uint(0)] + 3 * [ctypes.c_void_p(0)]
print("ready", flush=True)
input()
while True:
    driver.cuLaunchKernel(*arguments)
    for _ in range(5):
        compile("1", "few", "eval")
    time.sleep(0.01)
"""
# A breakpoint is a byte of the function that the type's field has.
FORKS = """
import ctypes, os, sys
TP_DEALLOC = 48
function = ctypes.c_void_p.from_address(id(type(compile("1", "one", "eval"))) + TP_DEALLOC).value
code = lambda: ctypes.string_at(function, 16)
before = code()
ctypes.CDLL(sys.argv[1]).cuInit(0)
print("ready", flush=True)
input()
trapped = code()
child = os.fork()
if child == 0:
    print(trapped != before, code() == trapped, flush=True)
    while code() != before:
        compile("1", "many", "eval")
    os._exit(0)
os.waitpid(child, 0)
print(code() == trapped, flush=True)
input()
"""


def pythons():
    found = {"system": "/usr/bin/python3"}
    for version in VERSIONS:
        paths = glob.glob(f"/root/.pyenv/versions/{version}.[0-9]*/bin/python{version}")
        if paths:
            found[version] = paths[0]
        else:
            print(f"SKIPPED Python {version}: it is not in /root/.pyenv")
    return found


def interpreters():
    """What runs a program: each Python, and a server that has one in a plugin."""
    found = {version: (executable, "-B") for version, executable in pythons().items()}
    # Its output goes where its log goes.
    found["uwsgi"] = ("sh", "-c", 'exec uwsgi --plugin python3 --honour-stdin --pyrun "$0" --pyargv "$1" 2>&1')
    return found


class Python(tracesmith.Case):
    settings = "[probe]\nunwind = eh-frame\nstack_depth = 127\npython = yes\npython_depth = 128\nlaunch_stacks = 400"

    def launch(self):
        self.daemon.start(prefix=["env", "TRACESMITH_PATIENCE=20"])  # a stack that is not found in time is cut

    def status(self, section, name):
        return next((row["number"] for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"]
                     if (row["section"], row["name"]) == (section, name)), None)

    def start(self, executable, *arguments, counted=False):
        found, before = (self.status("python", name) for name in ("processes", "counted"))
        process = subprocess.Popen([executable, *arguments, tracesmith.preloadable(library())], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        while (line := process.stdout.readline()) != "ready\n":
            self.assertTrue(line, "it ended")
        wait_for("its Python", lambda: self.status("python", "processes") == found + 1)
        if counted:
            wait_for("the count of what it frees", lambda: self.status("python", "counted") > before)
        self.go_on(process)
        return process

    def go_on(self, process):
        process.stdin.write("\n")
        process.stdin.flush()

    def stacks(self, pid):
        """The frames of each allocation, by its size."""
        found = {}
        for row in self.daemon.sql("SELECT op.bytes, frame.kind, symbol, frame.source, line FROM frame JOIN op"
                                   f" ON frame.stack = op.stack WHERE op.pid = {pid} AND op.kind = 'alloc'"
                                   " ORDER BY op.bytes, depth"):
            found.setdefault(row["bytes"], []).append(row)
        return found

    def finish(self, process, count, pid=None):
        """The stacks, when it has all."""
        pid = pid or process.pid
        wait_for("its stacks", lambda: len(self.stacks(pid)) == count)
        stacks = self.stacks(pid)
        self.go_on(process)
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)
        process.stdin.close()
        process.stdout.close()
        return stacks

    def check(self, rows, truth):
        python = [[row["symbol"], row["source"], row["line"]] for row in rows if row["kind"] == 1]
        # Code that is gone before it is read has no name, and not that of what has come in its place.
        python = [there if frame == ["<unknown>", None, None] and there[1] == "passing" else frame
                  for frame, there in zip(python, truth["stack"])]
        self.assertEqual(python, truth["stack"])
        self.assertEqual(rows[0]["symbol"], "cuMemAlloc_v2")
        names = [row["symbol"] for row in rows]
        if names[-1] == "_start":
            self.assertNotIn(LOOP, names)

    def test_stacks_have_the_lines_of_python(self):
        for version, command in interpreters().items():
            process = self.start(*command, CALLS, counted=True)
            truths = [json.loads(line) for line in iter(process.stdout.readline, "end\n")]
            self.assertGreaterEqual(len(truths), 30)
            stacks = self.finish(process, len(truths))
            for truth in truths:
                with self.subTest(version, size=truth["size"], place=truth["stack"][1][0]):
                    self.check(stacks[truth["size"]], truth)

    def test_a_virtual_environment_in_a_container(self):
        """Another root, and another PID namespace."""
        root = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, root)  # never with what is in it
        with tempfile.TemporaryDirectory() as venv:
            subprocess.run([list(pythons().values())[-1], "-m", "venv", "--without-pip", venv], check=True)
            process = self.start("unshare", "--pid", "--fork", "--kill-child", "--mount", "sh", "-ec",
                                 f'mount --rbind / {root}; exec chroot {root} "$@"', "sh",
                                 os.path.join(venv, "bin/python"), "-B", CALLS)
            truths = [json.loads(line) for line in iter(process.stdout.readline, "end\n")]
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                pid = int(file.read())
            stacks = self.finish(process, len(truths), pid)
            self.assertGreaterEqual(len(truths), 30)
            for truth in truths:
                with self.subTest(size=truth["size"], place=truth["stack"][1][0]):
                    self.check(stacks[truth["size"]], truth)

    def test_what_is_no_interpreter_gets_few_frames(self):
        process = self.start(FAKE)
        sizes = dict(line.split() for line in iter(process.stdout.readline, "end\n"))
        stacks = self.finish(process, len(sizes))
        good, unknown = "good", "<unknown>"
        wanted = {"good": [good], "endless": 128 * [good], "many": 128 * [good], "wide": [512 * "x" + "…", good],
                  "no-code": [unknown, good], "no-name": [unknown, good], "nowhere": [], "crooked": [good],
                  "closed": [good], "closed-last": [good], "device": [unknown, good],
                  "kernel": [good], "at-the-end": [good], "shims": [], "crooked-first": [], "no-cframe": []}
        self.assertEqual(set(wanted), set(sizes))
        for name, size in sizes.items():
            with self.subTest(name):
                rows = stacks[int(size)]
                self.assertEqual([row["symbol"] for row in rows if row["kind"] == 1], wanted[name])
                self.assertIn("main", [row["symbol"] for row in rows])
        # Where the outer end is missing, frames belong to the innermost loop.
        self.assertEqual([row["symbol"] for row in stacks[int(sizes["closed-last"])]][1:5],
                         ["call", good, LOOP, "call_without_code"])

    def test_who_frees_much_code_is_not_counted(self):
        process = self.start("/usr/bin/python3", "-c", FORGETS, counted=True)
        self.go_on(process)
        wait_for("no count", lambda: self.status("python", "counted") == 0)
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def test_what_is_counted_has_its_price(self):
        """Of its calls none is cold once it launches kernels."""
        process = self.start("/usr/bin/python3", "-c", FEW, counted=True)
        self.go_on(process)
        wait_for("the price", lambda: any(row["cold"] for row in self.daemon.query("cost", "--pid", process.pid)))
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def test_a_forked_child_that_frees_much_code_loses_its_parents_probe(self):
        process = self.start("/usr/bin/python3", "-c", FORKS, counted=True)
        self.assertEqual(process.stdout.readline(), "True True\n", "both have it")
        self.assertEqual(process.stdout.readline(), "True\n", "the parent keeps it")
        self.finish(process, 0)

    def places(self, pid, width, limit=20, since=0):
        """Where the last launches of a width are made, of those with a stack."""
        return [row["place"] for row in self.daemon.sql(
            f"SELECT stack_where(stack) AS place FROM op WHERE pid = {pid} AND kind = 'launch' AND grid_x = {width}"
            f" AND stack <> 0 AND start_ns > {since} ORDER BY start_ns DESC LIMIT {limit}")]

    def test_the_backward_pass_has_the_lines_of_the_forward_pass(self):
        process = self.start("/usr/bin/python3", "-B", TRAIN, TORCH)
        lines = {int(width): line for width, line in json.loads(process.stdout.readline()).items()}
        places = {1: f"first (torch_calls.py:{lines[1]})", 2: f"second (torch_calls.py:{lines[2]})"}
        view = f"forward (torch_calls.py:{lines[3]}) [backward, before]"
        other_view = f"{places[2]} [backward, before]"
        beside = f"other (torch_calls.py:{lines[21]})"
        # Those of a node's launches are sampled whose call's was, but for the first of all.
        for width, place in ((1, f"{places[1]} [backward]"), (2, f"{places[2]} [backward]"), (10, view), (11, other_view),
                             *((width, f"{beside} [backward]") for width in range(21, 25))):
            wait_for(f"launches of {place}", lambda: self.places(process.pid, 1000 + width) == 20 * [place])
        by_line = {row["where"] for row in self.daemon.query("launches", "--pid", process.pid, "--by", "line")}
        by_op = {row["where"] for row in self.daemon.query("launches", "--pid", process.pid, "--by", "op")}
        self.go_on(process)
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)
        process.stdin.close()
        process.stdout.close()
        no_line = {"[no user frame]"}
        for width, place in ((1001, f"{places[1]} [backward]"), (1002, f"{places[2]} [backward]"), (1010, view),
                             (1011, other_view), (1, places[1]), (2, places[2]),
                             *((1000 + width, f"{beside} [backward]") for width in range(21, 25))):
            self.assertLessEqual(set(self.places(process.pid, width, 10000)), {place} | no_line)
        self.assertIn(f"{TRAIN}:{lines[1]} [backward]", by_line)
        self.assertIn("MmBackward0", by_op)

    def test_the_backward_pass_of_a_program_without_python(self):
        self.backward_of([PROGRAM, TORCH, library()])

    def test_the_backward_pass_under_a_filter_of_system_calls(self):
        """As in a container: the library may not look into memory by the call that is made for it."""
        self.backward_of(["/usr/bin/python3", "-c", FILTERED, PROGRAM, TORCH, library()], "--seccomp")

    def backward_of(self, command, *options):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.go_on(process)

        def functions(width, since):
            return [(place.split(" ", 1)[0], place[place.index("["):])
                    for place in self.places(process.pid, 1000 + width, since=since)]

        def check(since=0):
            for width, place in ((1, ("user_first", "[backward]")), (2, ("user_second", "[backward]")),
                                 (10, ("user_forward", "[backward, before]")), (11, ("user_second", "[backward, before]"))):
                wait_for(f"launches of {place}", lambda: functions(width, since) == 20 * [place])
        check()
        attached = self.daemon.ctl_again("attach", process.pid, "--light", "--stacks", "all", *options)
        self.assertEqual(attached.code, 0, attached.err)
        wait_for("light mode", lambda: [row["tier"] for row in json.loads(self.daemon.ctl("ps", "--json").out)["rows"]
                                        if row["pid"] == process.pid] == ["light"])
        check(time.monotonic_ns())
        self.go_on(process)
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)
        process.stdin.close()
        process.stdout.close()


if __name__ == "__main__":
    tracesmith.main()
