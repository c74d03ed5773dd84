"""With all stacks in light mode the library knows most of them itself. They are those that the kernel's programs take,
whatever the program does, and whoever else is there."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import tracesmith
from tracesmith import BUILD, library, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
WALKED = os.path.join(BUILD, "tests/e2e/e2e_walked")
LIBRARIES = [os.path.join(BUILD, f"tests/e2e/libe2e_walked_{which}.so") for which in ("one", "two")]
PATHS = os.path.join(BUILD, "tests/e2e/e2e_paths")
FORGED = os.path.join(BUILD, "tests/e2e/e2e_forged")
TORCH = os.path.join(BUILD, "tests/e2e/libtorch_cpu.so")
TORCH_SOURCE = os.path.join(HERE, "torch_program.c")
TORCH_PROGRAM = os.path.join(BUILD, "tests/e2e/torch_program")
PYTHON = "/usr/bin/python3"
PYTHON_CALLS, TORCH_CALLS = (os.path.join(HERE, name) for name in ("walk_calls.py", "torch_calls.py"))
UWSGI = 'exec uwsgi --plugin python3 --honour-stdin --pyrun "$0" --pyargv "$1" 2>&1'
AT_THE_END = ("9", "10")
LAST, PYTHON_PLACES, PASSING = 1000, 12, 4  # the latter in code that is made anew each time
CALLS = int(os.environ.get("TS_CALLS", 100_000))
STACK_LOST = 1 << 6  # OP_STACK_LOST
CYCLES = int(os.environ.get("TS_CYCLES", 20))
ENTRY = "cuLaunchKernel"
OF_THREADS, WIDTH_LIBRARY, WIDTH_FORK, WIDTH_VFORK, WIDTH_TINY = 100, 201, 203, 204, 205


def pythons():
    found = {"system": PYTHON}
    for path in glob.glob("/root/.pyenv/versions/3.*/bin/python3.*[0-9t]"):
        version = os.path.basename(path)[len("python"):]
        if re.fullmatch(r"3\.(9|[1-9]\d)t?", version):
            found[version] = path
    return found


class Case(tracesmith.Case):
    # Whatever is done while the daemon does not get to run has room.
    settings = ("[exact]\nring_records = 131072\n[probe]\nring_size = 64MiB\nunwind = eh-frame\nstack_depth = 127\n"
                "python = yes\npython_depth = 64\n")
    environment = {"TRACESMITH_PATIENCE": "20"}  # a stack that is not found in time is cut

    def launch(self):
        self.daemon.start(prefix=["env", *(f"{name}={value}" for name, value in self.environment.items())])

    def popen(self, *command):
        """In light mode, with all stacks, from its start on."""
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(library()), "FAKE_CUDA_TIME_SCALE": "0",
                       "TRACESMITH_SOCKET": self.daemon.socket,
                       "TRACESMITH_INJECT_SOCKET": os.path.join(self.daemon.directory, "inject.sock")}
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "run", "--light", "--stacks", "all", "--",
                                    *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=environment)
        self.addCleanup(self.end, process)
        return process

    def wait_light(self, process):
        self.hello = process.stdout.readline()
        while "ready" not in self.hello and not self.hello.startswith("["):
            self.assertTrue(self.hello, "it ended")
            self.hello = process.stdout.readline()
        return self.wait_tier(process)

    def wait_tier(self, process):
        wait_for("light mode", lambda: self.tier(process.pid) == "light")
        return process

    def start(self, *command):
        return self.wait_light(self.popen(*command))

    def walked(self):
        process = self.start(WALKED, library(), *LIBRARIES)
        self.names = json.loads(self.hello)
        self.assertEqual(set(self.names), set(PLACES))
        return process

    def wanted(self):
        """Of the places, by width."""
        found = {}
        for width, name in enumerate(self.names, 1):
            found[width] = PLACES[name] + list(MAIN if name != "coroutine" else ())
            found[width + OF_THREADS] = PLACES[name] + ["go_round", "worker"]
        return {**found, WIDTH_TINY: chain("call", "*6", "deep", "tiny_worker")}

    def own(self):
        """The part of a round that the library can know itself."""
        return 1 - len(ASIDE) / len(self.names)

    def wait_inside(self, go, part=1):
        """Goes until as good as all of its launches that the library can know are known inside; goes on as told."""
        made = 0

        def is_known():
            nonlocal made
            before, calls = self.inside(), go()
            made += calls
            self.wait_launches(self.pid, self.made + made)
            return self.inside() - before >= 0.99 * part * calls
        wait_for("the library to know its stacks", is_known)
        self.made += made

    def begin(self, process):
        """Its launches are counted from here on."""
        self.pid, self.made = process.pid, self.launches(process.pid)
        return process

    def rounds(self, process, count):
        return self.order(process, "round", count)["calls"]

    def order(self, process, *words):
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        while line and not line.startswith("{"):  # what others say
            line = process.stdout.readline()
        self.assertTrue(line, f"it ended at {words}")
        return json.loads(line)

    def go_on(self, process):
        process.stdin.write("\n")
        process.stdin.flush()

    def finish(self, process):
        process.stdin.close()
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)

    def attach(self, pid):
        result = self.daemon.ctl_again("attach", pid, "--light", "--stacks", "all")
        self.assertEqual(result.code, 0, result.err)
        wait_for("light mode", lambda: self.tier(pid) == "light")

    def detach(self, pid):
        result = self.daemon.ctl_again("detach", pid, "--json")
        self.assertEqual(result.code, 0, result.err)
        self.assertTrue(json.loads(result.out)["unloaded"], result.out)

    def tier(self, pid):
        rows = json.loads(self.daemon.ctl("ps", "--json").out)["rows"]
        return next((row["tier"] for row in rows if row["pid"] == pid), None)

    def figures(self):
        return {row["name"]: row for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"]
                if row["section"] == "unwinding"}

    def inside(self):
        return self.figures()["inside"]["number"]

    def wrong(self):
        return int(re.search(r"(\d+) wrongly so", self.figures()["held"]["value"])[1])

    def launches(self, pid):
        return self.daemon.apis(pid).get(ENTRY, {"calls": 0})["calls"] if self.daemon.known(pid) else 0

    def wait_launches(self, pid, count):
        wait_for(lambda: f"{count} launches, not {self.launches(pid)}", lambda: self.launches(pid) >= count)
        self.assertEqual(self.launches(pid), count)

    def wait_stored(self, pid, since=0, before=0):
        """They are a second or two after their count; `before`: how many there were before."""
        wait_for("the store", lambda: sum(sum(stacks.values()) for stacks in self.stacks(pid, since).values())
                 == self.launches(pid) - before)

    def stacks(self, pid, since=0):
        """Of the launches since then by width: {stack: calls}, 0: without one."""
        found = {}
        for row in self.daemon.sql("SELECT grid_x AS width, coalesce(stack, 0) AS stack, count(*) AS n FROM op WHERE"
                                   f" pid = {pid} AND kind = 'launch' AND start_ns > {since} GROUP BY 1, 2 LIMIT 100000"):
            found.setdefault(row["width"], {})[row["stack"]] = row["n"]
        return found

    def frames(self, pid, since=0, which="NOT inlined"):
        """By stack of such launches, once all of them are known."""
        def ask():
            rows = self.daemon.sql("SELECT stack, kind, symbol, frame.source, line FROM frame WHERE stack IN (SELECT stack FROM op"
                                   f" WHERE pid = {pid} AND kind = 'launch' AND start_ns > {since}) AND {which}"
                                   " ORDER BY stack, depth LIMIT 200000")
            self.assertLess(len(rows), 200000)
            found = {}
            for row in rows:
                found.setdefault(row["stack"], []).append(row)
            wanted = {stack for stacks in self.stacks(pid, since).values() for stack in stacks if stack}
            return (found,) if wanted <= set(found) else None
        return wait_for("the frames", ask)[0]

    def check_loss(self, pid, *allowed):
        """Nothing but what each answer with stacks may lack on a busy machine, and what came before the probes, as they are
        put on in each process by itself while another one is in light mode."""
        self.assert_nothing_lost(self.daemon.answer("launches", "--pid", pid), ("windows", *allowed))

    def check_names(self, pid, wanted, since=0, before=None):
        """All stacks of a width have the functions that are wanted, in order; as far as they go, if they are cut short."""
        self.wait_stored(pid, *() if before is None else (since, before))
        frames, stacks = self.frames(pid, since), self.stacks(pid, since)
        self.check_missing(pid, since)
        for width in stacks:
            for stack, calls in stacks[width].items():
                if stack:
                    with self.subTest(width=width, calls=calls, stack=stack):
                        self.check_chain([row["symbol"] for row in frames[stack]], wanted[width])

    def check_missing(self, pid, since):
        """A stack that is missing, as on a busy machine, is told to be."""
        rows = self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE pid = {pid} AND kind = 'launch' AND start_ns > {since}"
                               f" AND coalesce(stack, 0) = 0 AND NOT flags & {STACK_LOST}")
        self.assertEqual(rows[0]["n"], 0)

    def check_python(self, pid, truths, depth=64, since=0):
        """Frames of Python are those that Python itself has seen."""
        self.wait_stored(pid)
        frames, stacks = self.frames(pid, since, "(kind = 1 OR depth = 0)"), self.stacks(pid, since)
        self.assertEqual({str(width) for width in stacks}, set(truths))
        self.check_missing(pid, since)
        for width, calls in stacks.items():
            truth = truths[str(width)][:depth]
            for stack, rows in ((stack, frames[stack]) for stack in calls if stack):
                python = [[row["symbol"], row["source"], row["line"]] for row in rows if row["kind"] == 1]
                # Code that is gone before it is read has no name, and not that of what has come in its place.
                passing = str(width) in AT_THE_END
                python = [there if frame == ["<unknown>", None, None] and (passing or there[1] == "passing") else frame
                          for frame, there in zip(python, truth)] + python[len(truth):]
                with self.subTest(width=width, calls=calls[stack], stack=stack):
                    self.assertEqual(python, truth[:len(python)])
                    # Steps count that lead to no frame, too.
                    self.assertGreaterEqual(len(python), len(truth) if len(truth) < depth else depth // 2)
                    self.assertEqual(rows[0]["symbol"], ENTRY)

    def check_chain(self, names, wanted):
        """Between our functions there are those of the C library; and code that is gone before it is read has no name."""
        self.assertEqual(names[:2], [ENTRY, "call"])
        if not set(names) & LOADED and set(wanted) & LOADED:
            wanted = [name for name in wanted if name not in LOADED]
        ours = [name for name in names if name in FUNCTIONS]
        self.assertEqual(ours, wanted[:len(ours)])


def chain(*names):
    """The functions of the program on a stack; behind "*N" the next one is there N times."""
    found, times = [], 1
    for name in names:
        if name.startswith("*"):
            times = int(name[1:])
        else:
            found += times * [name]
            times = 1
    return found


MAIN = ("go_round", "obey", "main")
# Of each place, as the program names it.
PLACES = {"plain": chain("call", "plain"), "deep_60": chain("call", "*61", "deep", "deep_60"),
          "deep_300": chain("call", "*301", "deep", "deep_300"), "variable": chain("call", "variable"),
          "aligned": chain("call", "aligned"), "large": chain("call", "large"),
          "callback": chain("call", "compare", "callback"), "coroutine": chain("call", "in_coroutine"),
          "signalled": chain("call", "on_signal", "take_signal", "signalled"),
          "signalled_aside": chain("call", "on_signal", "take_signal", "signalled_aside"),
          "compiled": chain("call", "compiled"), "compiled_linked": chain("call", "compiled_linked")}
# Those that the library leaves to the kernel's programs: another stack than the thread's own, a signal, code without rules.
ASIDE = {"coroutine", "signalled", "signalled_aside", "compiled", "compiled_linked"}
LIBRARY = {WIDTH_LIBRARY: chain("call", "walked_one", "call_back", "call_library", "obey", "main"),
           WIDTH_LIBRARY + 1: chain("call", "walked_two", "call_back", "call_library", "obey", "main")}
SWAPPED = {width: chain(*names[:-2], "swap", "obey", "main") for width, names in LIBRARY.items()}
LOADED = {"walked_one", "walked_two", "call_back"}
FUNCTIONS = {*sum(PLACES.values(), []), *sum(LIBRARY.values(), []), *sum(SWAPPED.values(), []), *MAIN, "worker", "go_in_threads",
             "tiny_worker", "go_tiny", "in_child", "go_forked", "go_vforked"}


class Programs(Case):
    """Programs one after the other."""

    def test_a_program_of_traps(self):
        process = self.begin(self.walked())
        self.wait_inside(lambda: self.rounds(process, 100), self.own())
        self.wait_inside(lambda: self.order(process, "threads", 4, 50)["calls"])
        self.order(process, "tiny", 1000)
        self.made += 1000
        self.wait_inside(lambda: self.order(process, "tiny", 1000) and 1000)
        self.check_names(self.pid, self.wanted())
        self.check_loss(self.pid)
        self.finish(process)

    def test_libraries_that_take_turns_at_an_address(self):
        process = self.begin(self.walked())

        def call(count):
            self.order(process, "call", count)
            return count
        at = set()
        for turn in range(6):
            at.add(self.order(process, "load", turn % 2)["at"])
            if turn:  # known as it is, this cannot be the other one's
                self.made += call(20000)
            self.wait_inside(lambda: call(1000))
        self.assertEqual(len(at), 1, "they are not at the same address")
        before = self.inside()
        self.check_names(self.pid, LIBRARY)
        since = time.monotonic_ns()

        def swap():
            """A busy daemon may have its answers only when the next one is there."""
            self.order(process, "swap", 20, 5000)
            self.made += 200000
            self.wait_launches(self.pid, self.made)
            return self.inside() > before
        wait_for("stacks inside", swap)
        self.check_names(self.pid, SWAPPED, since)
        self.check_loss(self.pid)
        self.finish(process)

    def test_libraries_that_took_turns_while_the_daemon_did_not_look(self):
        """What was known of the first one led the library to its stacks all the time."""
        process = self.begin(self.walked())

        def swap():
            self.order(process, "swap", 1, 1000)
            return 2000
        wait_for("a stack inside", lambda: swap() and self.inside())
        self.wait_launches(self.pid, self.launches(self.pid))
        for _ in range(3):
            before, made = self.inside(), 0
            while not self.inside() > before:
                self.order(process, "load", 0)
                self.order(process, "call", 1000)
            since = time.monotonic_ns()
            self.daemon.process.send_signal(signal.SIGSTOP)
            for turn in range(1, 7):
                self.order(process, "load", turn % 2)
                self.order(process, "call", 3000)
            self.daemon.process.send_signal(signal.SIGCONT)
            wait_for("its launches", lambda: sum(sum(stacks.values()) for stacks in self.stacks(self.pid, since).values()) == 18000)
            self.check_names(self.pid, LIBRARY, since)
        self.finish(process)

    def test_children_and_another_program(self):
        process = self.begin(self.walked())
        self.wait_inside(lambda: self.rounds(process, 50), self.own())
        for _ in range(5):
            self.assertEqual(self.order(process, "fork", 1000)["status"], 0)
            self.made += self.rounds(process, 10)
        self.wait_launches(self.pid, self.made)
        self.check_names(self.pid, self.wanted())
        # On its parent's stack, whose thread it has for its own.
        for _ in range(5):
            self.assertEqual(self.order(process, "vfork", 1000)["status"], 0)
            self.rounds(process, 10)
        since = time.monotonic_ns()
        process.stdin.write("exec\n")
        process.stdin.flush()
        process.stdout.readline()
        self.wait_tier(process)
        self.made = self.launches(process.pid)
        self.wait_inside(lambda: self.rounds(process, 50), self.own())
        self.check_names(self.pid, {**self.wanted(), WIDTH_VFORK: chain("call", "in_child", "go_vforked", "obey", "main")})
        self.check_loss(self.pid)
        self.finish(process)


class Pythons(Case):
    """Of each version there is, one after the other."""

    def go(self, process, count):
        told = self.order(process, count)
        self.truths = told["stacks"]
        return told["calls"]

    def check_lines(self, pid, truths):
        """Answers have the line of the launch, and of its callers."""
        def lines():
            return {row["where"] for row in self.daemon.query("launches", "--pid", pid, "--by", "line")}
        wait_for("the lines", lambda: lines() == {f"{PYTHON_CALLS}:{truths['1'][0][2]}"})
        functions = {name for row in self.daemon.query("launches", "--pid", pid) for name in row["stack"] or ()}
        self.assertLessEqual({f"{function} (walk_calls.py:{line})" for function, _, line in
                              (truths[width][1] for width in "1345")}, functions)

    def programs(self, *options):
        """All are started before the first one is waited for."""
        found = {version: self.popen(executable, "-B", PYTHON_CALLS, library(), *options)
                 for version, executable in pythons().items()}
        return {version: self.wait_light(process) for version, process in found.items()}

    def test_the_main_thread(self):
        processes, truths = self.programs(), {}
        for version, process in processes.items():
            with self.subTest(version):
                self.begin(process)
                # Code that is made anew is a new stack each time.
                self.wait_inside(lambda: self.go(process, 20), 1 - PASSING / PYTHON_PLACES)
            truths[version] = self.truths
        for version, process in processes.items():
            with self.subTest(version):
                self.check_lines(process.pid, truths[version])
                before, inside = self.launches(process.pid), self.inside()
                process.stdin.close()
                truths[version] |= json.loads(process.stdout.readline())
                self.assertEqual(process.wait(tracesmith.DEADLINE), 0)
                self.daemon.wait_ended(process.pid)
                self.assertEqual(self.launches(process.pid), before + 2 * LAST)
                self.assertLessEqual(self.inside() - inside, LAST, "of an interpreter that has ended")
                self.check_python(process.pid, truths[version])
                self.check_loss(process.pid)

    def test_an_interpreter_in_another_program(self):
        """Whose main thread may end it at any time."""
        process = self.start("sh", "-c", UWSGI, PYTHON_CALLS, tracesmith.preloadable(library()))  # uwsgi splits it at spaces
        self.begin(process)
        inside = self.inside()
        self.wait_launches(self.pid, self.go(process, 20))
        self.assertEqual(self.inside(), inside)
        self.check_python(self.pid, self.truths)
        self.check_loss(self.pid)
        self.end(process)

    def test_another_thread(self):
        processes, before = self.programs("thread"), self.inside()
        truths = {}
        for version, process in processes.items():
            self.begin(process)
            self.wait_launches(self.pid, self.go(process, 20))
            truths[version] = self.truths
        self.assertEqual(self.inside(), before)
        for version, process in processes.items():
            with self.subTest(version):
                self.check_python(process.pid, truths[version])
                self.check_loss(process.pid)
            self.finish(process)


class Settings(Case):
    """They are read again while programs run."""

    def read(self, **settings):
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        before = self.daemon.log().count("Reread")
        with open(self.daemon.config, "a") as file:
            file.write("[probe]\n" + text)
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for("the settings", lambda: self.daemon.log().count("Reread") > before)
        return time.monotonic_ns()

    def test_how_deep_stacks_are(self):
        process = self.begin(self.walked())
        deep = 1 + self.names.index("deep_60")
        for depth in (20, 127, 3):
            since = self.read(stack_depth=depth)
            self.wait_inside(lambda: self.rounds(process, 50), self.own())
            self.check_names(self.pid, self.wanted(), since)
            frames = self.frames(self.pid, since)
            stacks = self.stacks(self.pid, since)
            whole = {row["id"] for row in self.daemon.sql("SELECT s.id FROM stack s JOIN stack_end e ON e.id = s.ended"
                                                          " WHERE e.name IN ('complete', 'depth') LIMIT 100000")}
            self.assertEqual({len(frames[stack]) for stack in stacks[deep] if stack in whole}, {min(depth, 70)})
            self.assertLessEqual(max(map(len, frames.values())), depth)
        self.check_loss(self.pid)
        self.finish(process)

    def test_how_they_are_walked(self):
        processes, before = [self.walked()], self.inside()
        self.read(unwind="frame-pointers")
        processes.append(self.walked())
        for process in processes:
            self.begin(process)
            self.wait_launches(self.pid, self.made + self.rounds(process, 100))
            self.wait_stored(self.pid)
            self.assertEqual({row["name"] for row in self.daemon.sql(
                "SELECT e.name FROM op JOIN stack s ON s.id = op.stack JOIN stack_end e ON e.id = s.ended"
                f" WHERE op.pid = {self.pid} AND kind = 'launch'")}, {"frame-pointers"})
        self.read(unwind="eh-frame")
        self.assertEqual(self.inside(), before)
        for process in processes:
            since = time.monotonic_ns()
            self.begin(process)
            self.wait_inside(lambda: self.rounds(process, 50), self.own())
            self.check_names(self.pid, self.wanted(), since)
            self.finish(process)

    def test_frames_of_python(self):
        process = self.begin(self.start(PYTHON, "-B", PYTHON_CALLS, library()))
        truths = None

        def go():
            nonlocal truths
            told = self.order(process, 20)
            truths = told["stacks"]
            return told["calls"]
        for settings, depth in (({}, 64), ({"python": "no"}, 0), ({"python": "yes", "python_depth": 3}, 3), ({"python_depth": 64}, 64)):
            since = self.read(**settings)
            self.wait_inside(go, 1 - PASSING / PYTHON_PLACES)
            self.check_python(self.pid, truths, depth, since)
        self.check_loss(self.pid)
        self.finish(process)


class Checked(Case):
    """Each call goes through the stub, which compares what the library has found."""
    environment = {**Case.environment, "TRACESMITH_CHECK_WALKS": "1"}

    def test_stacks_from_inside_are_the_kernels(self):
        torch = [self.popen(PYTHON, "-B", TORCH_CALLS, TORCH, library()), self.popen(TORCH_PROGRAM, TORCH, library(), 3)]
        python, walked = self.popen(PYTHON, "-B", PYTHON_CALLS, library()), self.popen(WALKED, library(), *LIBRARIES)
        for process in (*torch, python, walked):
            self.wait_light(process)
        for process in torch:
            self.go_on(process)
        for process in (python, walked):
            self.begin(process)
            while self.made < CALLS:
                self.made += self.order(process, "threads", 4, 100)["calls"] if process == walked else 0
                self.made += self.rounds(process, 100) if process == walked else self.order(process, 200)["calls"]
            self.wait_launches(process.pid, self.made)
        self.order(walked, "swap", 100, 500)
        for process in torch:
            wait_for("its launches", lambda: self.launches(process.pid) >= CALLS)
        self.assertEqual(self.inside(), 0)
        self.assertEqual(self.wrong(), 0)
        # This many hits may starve the kernel's workers: then stacks are sampled.
        for process in (python, walked):
            self.check_loss(process.pid, "stack-sampled")
            self.finish(process)

    def test_random_walks(self):
        """All kinds of frames, in two threads and in signal handlers: walks that have much in common are told apart."""
        process = self.popen(PATHS, library())
        self.wait_tier(process)
        for order in ("same 40", "outer 40", "hole 20", *(f"random {seed} {CALLS // 20}" for seed in range(20))):
            process.stdin.write(order + "\n")
            process.stdin.flush()
            self.assertTrue(process.stdout.readline())
            self.assertEqual(self.wrong(), 0, order)


class Torch(Case):
    """The stack of a launch in the backward pass, with that of the forward pass."""

    def places(self, pid, since):
        """Where launches of each width are made."""
        found = {}
        for row in self.daemon.sql("SELECT grid_x AS width, stack_where(stack) AS place FROM op WHERE"
                                   f" pid = {pid} AND kind = 'launch' AND start_ns > {since} GROUP BY 1, 2 LIMIT 100000"):
            found.setdefault(row["width"], set()).add(row["place"])
        return found

    def part_inside(self, pid):
        """Of the next launches of a program that goes on by itself."""
        inside, before = self.inside(), self.launches(pid)
        wait_for("launches", lambda: self.launches(pid) > before + 5000)
        inside = self.inside() - inside
        return inside / (self.launches(pid) - before)

    def check_places(self, process, wanted):
        """From now on."""
        since = time.monotonic_ns()
        wait_for("launches of each width", lambda: set(self.places(process.pid, since)) == set(wanted))
        self.go_on(process)
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)
        self.daemon.wait_ended(process.pid)
        self.wait_stored(process.pid)
        self.assertEqual(self.places(process.pid, since), {width: {place} for width, place in wanted.items()})
        self.check_loss(process.pid)

    def test_a_program_without_python(self):
        process = self.start(TORCH_PROGRAM, TORCH, library())
        self.go_on(process)
        wait_for("stacks inside", lambda: self.part_inside(process.pid) > 0.9)
        with open(TORCH_SOURCE) as file:
            line = {text.strip(): number for number, text in enumerate(file, 1)}
        first, second, forward = (f"user_{name} (torch_program.c:{line[text]})" for name, text in (
            ("first", "call(1, 1);"), ("second", "call(2, 3);"), ("forward", "launch(3);")))
        self.check_places(process, {1: first, 2: second, 3: forward, 1001: f"{first} [backward]", 1002: f"{second} [backward]",
                                    1010: f"{forward} [backward, before]", 1011: f"{second} [backward, before]"})

    def test_python(self):
        """Threads but the main one are left to the kernel's programs: those of one network, and the end of its step."""
        process = self.start(PYTHON, "-B", TORCH_CALLS, TORCH, library())
        self.go_on(process)
        lines = {int(width): line for width, line in json.loads(process.stdout.readline()).items()}
        wait_for("stacks inside", lambda: self.part_inside(process.pid) > 0.45)
        with open(TORCH_CALLS) as file:
            step = next(number for number, text in enumerate(file, 1) if "torch_launch(4)" in text)
        first, second, forward, other, last = (f"{name} (torch_calls.py:{line})" for name, line in (
            ("first", lines[1]), ("second", lines[2]), ("forward", lines[3]), ("other", lines[21]), ("step", step)))
        wanted = {1: first, 2: second, 3: forward, 4: last, 1001: f"{first} [backward]", 1002: f"{second} [backward]",
                  1010: f"{forward} [backward, before]", 1011: f"{second} [backward, before]"}
        for width in range(21, 25):
            wanted |= {width: other, 1000 + width: f"{other} [backward]"}
        self.check_places(process, wanted)


class Again(Case):
    """The library comes and goes, and so does the daemon."""

    def shared(self, pid):
        """What the process has of what the daemon shares: mappings, and descriptors."""
        with open(f"/proc/{pid}/maps") as maps:
            found = [line.split()[1] for line in maps if "tracesmith-walk" in line]
        links = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        return found, [link for link in links if "tracesmith" in os.path.basename(link)]

    def wait_known(self):
        """Of a program that goes on by itself."""
        before = self.inside()
        wait_for("stacks inside", lambda: self.inside() > before + 100)

    def test_attached_to_and_left_again_and_again(self):
        process = tracesmith.workload("rate", "--threads", 3, "--rate", 5000, "--stop",
                                      environment={"TRACESMITH_INJECT_SOCKET": os.path.join(self.daemon.directory, "inject.sock")})
        self.addCleanup(self.end, process)
        wait_for("its launches", lambda: self.launches(process.pid) > 100)
        before = self.shared(process.pid)
        self.assertEqual(before, ([], []))
        for _ in range(CYCLES):
            self.attach(process.pid)
            self.wait_known()
            self.assertEqual(self.shared(process.pid)[0], ["r--s"])
            self.detach(process.pid)
            self.assertEqual(self.shared(process.pid), before)
            self.assertEqual(tracesmith.ours_of(process.pid), [])
        out, _ = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0)
        said = json.loads(out.splitlines()[-1])
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.launches(process.pid), said["calls"])
        self.wait_stored(process.pid)
        frames = self.frames(process.pid)
        for stack in self.stacks(process.pid)[1]:
            names = [row["symbol"] for row in frames.get(stack, [])]
            self.assertTrue(not stack or names[:3] == [ENTRY, "spin_launch", "work"][:len(names)], names)
        self.check_loss(process.pid, "stack-sampled")  # by the probes, in between

    def test_another_daemon_goes_on(self):
        process = self.begin(self.walked())
        self.wait_inside(lambda: self.rounds(process, 50), self.own())
        for _ in range(2):
            links = self.shared(process.pid)[1]
            self.daemon.kill()
            self.rounds(process, 50)
            self.launch()
            self.rounds(process, 50)
            self.wait_tier(process)
            before, since = self.launches(process.pid), time.monotonic_ns()
            self.begin(process)
            self.wait_inside(lambda: self.rounds(process, 50), self.own())
            self.assertEqual(self.shared(process.pid), (["r--s"], links))
            self.check_names(process.pid, self.wanted(), since, before=before)
        self.finish(process)


class Hostile(Case):
    """What a process says of its stacks is believed if the kernel has sent them, of that process."""

    def order(self, process, *words):
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        return process.stdout.readline().split()

    def ops(self, pid):
        """Of calls by width: what stacks they have."""
        return {width: set(stacks) for width, stacks in self.stacks(pid).items()}

    def lost(self, pid):
        return self.daemon.answer("launches", "--pid", pid)["loss"].get("stack", 0)

    def test_stacks_that_are_not_its_own(self):
        other = self.begin(self.walked())
        self.made = super().order(other, "round", 10)["calls"]
        self.wait_stored(other.pid)
        foreign, foreign_too = (next(iter(self.stacks(other.pid)[width])) for width in (1, 2))
        process = self.start(FORGED, library())
        fn = self.daemon.sql(f"SELECT id FROM function WHERE name = '{ENTRY}'")[0]["id"]

        def is_inside():
            before = self.inside()
            for width in (1, 2):
                self.order(process, "call", width, 100)
            wait_for("its launches", lambda: self.launches(process.pid) % 200 == 0)
            return self.inside() - before
        wait_for("stacks inside", is_inside)
        self.wait_stored(process.pid)
        own = next(iter(self.stacks(process.pid)[1]))
        self.assertNotIn(own, (0, foreign, foreign_too))
        lost, count = self.lost(process.pid), self.launches(process.pid)

        def call(stack, width, order="api"):
            self.assertEqual(self.order(process, order, fn, stack, width), ["put"])

        def pair(*words):
            told, stack = self.order(process, *words)
            self.assertEqual(told, "put")
            return int(stack)
        call(own, 1001)
        call(foreign, 1002)
        call(12345, 1003)
        call(own, 1004, "early")
        good = pair("backward", own, own, 0)
        bad = [pair("backward", own, foreign, 0), pair("backward", foreign, own, 1), pair("backward", foreign, foreign_too, 0),
               pair("backward", own, own, 7), pair("backward", own, good, 2**63 - 1), pair("wrong", own, own, 1)]
        call(good, 1005)
        for number, stack in enumerate(bad):
            call(stack, 1100 + number)
        wait_for("its calls", lambda: self.launches(process.pid) >= count + 4 + len(bad))
        self.wait_stored(process.pid)
        ops = self.ops(process.pid)
        self.assertEqual(ops.pop(1001), {own})
        self.assertEqual(ops.pop(1005), {good})
        for width in (1002, 1003, *range(1100, 1100 + len(bad))):
            self.assertEqual(ops.pop(width), {0}, width)
        self.assertEqual(set(ops), {1, 2})
        self.assertEqual({row["id"] for row in self.daemon.sql("SELECT id FROM backward")}, {good})
        self.assertEqual(self.lost(process.pid), lost + 2 + len(bad))
        functions = {row["symbol"] for rows in self.frames(process.pid).values() for row in rows}
        self.assertIn("forger_call", functions)
        self.assertFalse(functions & (FUNCTIONS - {"main"}), functions)
        told = json.dumps(self.daemon.query("launches", "--pid", process.pid))
        self.assertNotIn("go_round", told)
        # Both go on.
        self.begin(other)
        self.wait_inside(lambda: super(Hostile, self).order(other, "round", 50)["calls"], self.own())
        for each in (other, process):
            self.finish(each)


if __name__ == "__main__":
    tracesmith.main()
