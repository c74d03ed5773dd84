"""With call frame information the stacks of programs without frame pointers are whole, and equal to what the C
library finds; also where rules are learned, forgotten or missing."""
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile

import tracesmith
from tracesmith import BUILD, wait_for

TARGET = os.path.join(BUILD, "tests/unit/unwind_target")
PATHS = os.path.join(BUILD, "tests/e2e/e2e_paths")
CALLS = int(os.environ.get("TS_CALLS", 150_000))
SLOW = tracesmith.preloadable(os.path.join(BUILD, "tests/e2e/libe2e_slow.so"))
# Stacks that no rule or frame pointer leads out of end in their second frame behind the call.
ENDS = {"compiled-bare": 3, "unknown": 3}
PYTHON = """
import ctypes, threading
driver = ctypes.CDLL(%r)
assert driver.cuInit(0) == 0
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
def inner(n, size):
    if n:
        return max([n], key=lambda _: inner(n - 1, size))
    driver.cuCtxSetCurrent(context)
    assert driver.cuMemAlloc_v2(ctypes.byref(memory), size) == 0
    print("python", size)
inner(3, 4096)
thread = threading.Thread(target=inner, args=(2, 8192))
thread.start()
thread.join()
print("end", flush=True)
input()
"""


def truth(directory, name):
    """The return addresses that the C library found, without those of the function that looked and of its call."""
    with open(os.path.join(directory, name), "rb") as file:
        head = file.read(56)
        count = struct.unpack_from("<I", head, 48)[0]
        return struct.unpack(f"<{count}Q", file.read(8 * count))[2:]


class Case(tracesmith.Case):
    settings = "[probe]\nunwind = eh-frame\nstack_depth = 127\npython = no"

    environment = {"TRACESMITH_PATIENCE": "20"}  # a stack that is not found in time is cut

    library = tracesmith.library()

    def launch(self):
        self.daemon.start(prefix=["env", *(f"{name}={value}" for name, value in self.environment.items())])

    def start(self, *arguments):
        return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(self.library)))

    def round(self, process, before):
        """Lets it go through all; the size of each allocation by name, when all of them are known."""
        sizes = {}
        for line in iter(process.stdout.readline, "end\n"):
            name, size = line.split()[:2]
            sizes[name] = int(size)
            before += 1
        wait_for("its stacks", lambda: self.daemon.sql(
            f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND kind = 'alloc'"
            " AND stack IN (SELECT stack FROM frame)")[0]["n"] == before)
        process.stdin.write("\n")
        process.stdin.flush()
        return sizes, before

    def frames(self, pid, size):
        """Addresses and names of the stack of an allocation."""
        rows = self.daemon.sql("SELECT frame.address, symbol FROM frame JOIN op ON frame.stack = op.stack"
                               f" WHERE NOT inlined AND op.pid = {pid} AND op.kind = 'alloc' AND op.bytes = {size} ORDER BY depth")
        return tuple(row["address"] for row in rows), [row["symbol"] for row in rows]

    def figure(self, name):
        return next(row["number"] for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"]
                    if (row["section"], row["name"]) == ("unwinding", name))

    def unwound(self):
        return self.figure("stacks")

    def check_trap(self, name, frames, wanted):
        if name in ENDS:
            self.assertLessEqual(len(frames), ENDS[name])
        elif name != "compiled":  # there are more than the C library finds
            self.assertEqual(frames, wanted)
        self.assertEqual(frames[:len(wanted)], wanted[:len(frames)])

    def ends(self, pid):
        """How the stacks of all its allocations end, and how many have none."""
        rows = self.daemon.sql("SELECT coalesce(e.name, 'none') AS end, count(*) AS n FROM op LEFT JOIN stack s ON s.id ="
                               " op.stack LEFT JOIN stack_end e ON e.id = s.ended"
                               f" WHERE op.pid = {pid} AND op.kind = 'alloc' GROUP BY 1")
        return {row["end"]: row["n"] for row in rows}

    def end_of(self, pid, size):
        """How the stack of an allocation ends, once the allocation is known; 'none' if it has none."""
        rows = wait_for("an allocation", lambda: self.daemon.sql(
            "SELECT coalesce(e.name, 'none') AS end FROM op LEFT JOIN stack s ON s.id = op.stack LEFT JOIN stack_end e"
            f" ON e.id = s.ended WHERE op.pid = {pid} AND op.kind = 'alloc' AND op.bytes = {size}"
            " AND (coalesce(op.stack, 0) = 0 OR op.stack IN (SELECT stack FROM frame))"))
        return rows[0]["end"]

    def finish(self, process):
        process.stdin.close()
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)
        process.stdout.close()

    def lost(self, pid):
        return json.loads(self.daemon.ctl("query", "leaks", "--pid", str(pid), "--min-age", "0", "--json").out)["loss"]

    def check_traps(self, rounds_wanted=5, learned=True):
        """Goes through them several times: stacks are right while rules are learned, and after."""
        with tempfile.TemporaryDirectory(prefix="tracesmith-unwind-") as directory:
            process = self.start(TARGET, directory, self.library)
            rounds, count, unwound = [], 0, []

            def is_learned():
                nonlocal count
                sizes, count = self.round(process, count)
                rounds.append(sizes)
                unwound.append(self.unwound())
                return len(rounds) >= rounds_wanted and (not learned or unwound[-1] == unwound[-2])

            # Where the mappings of others were lost, as on a busy machine, rules are learned again.
            wait_for("nothing to be left to be learned", is_learned)
            self.finish(process)
            self.assertGreater(len(rounds[0]), 12)
            whole = 0
            for name in rounds[0]:
                with self.subTest(name):
                    first, last = (self.frames(process.pid, sizes[name])[0][2:] for sizes in (rounds[0], rounds[-1]))
                    wanted = truth(directory, name)
                    whole += name not in ENDS and len(last) >= len(wanted)
                    if not learned:  # it may end early
                        wanted = wanted[:len(last)]
                        last = last[:len(wanted)]
                    elif name != "signal-stack":  # the old stack is not in the copy
                        self.assertEqual(len(first), len(last))
                    self.check_trap(name, last, wanted)
            self.assertGreater(whole, len(rounds[0]) / 2)
        return process.pid

    def python_names(self):
        """The names of the frames of both stacks of the Python program."""
        process = self.start("/usr/bin/python3", "-c", PYTHON % self.library)
        self.round(process, 0)
        self.finish(process)
        return [self.frames(process.pid, size)[1] for size in (4096, 8192)]

    def check_python(self):
        found = self.python_names()
        for names in found:
            self.assertGreater(names.count("_PyEval_EvalFrameDefault"), 1)
            self.assertEqual(names[0], "cuMemAlloc_v2")
        self.assertEqual(found[0][-1], "_start")


class Unwind(Case):
    def test_stacks_are_whole(self):
        pid = self.check_traps()
        ends = self.ends(pid)
        self.assertEqual(set(ends) - {"unreadable"}, {"complete", "no-mapping", "no-rule"}, ends)
        self.check_python()

    def test_libraries_that_take_turns_at_an_address_give_no_wrong_frame(self):
        with tempfile.TemporaryDirectory(prefix="tracesmith-unwind-") as directory:
            process = self.start(TARGET, directory, self.library, "reload", "20")
            wanted = {}

            def is_whole():
                wanted.update((int(line.split()[1]), line.split()[0]) for line in iter(process.stdout.readline, "end\n"))
                wait_for("its calls", lambda: sum(self.ends(process.pid).values()) == len(wanted))
                process.stdin.write("\n")
                process.stdin.flush()
                return "complete" in self.ends(process.pid)

            # The last library stays: on a busy machine the others are gone before the daemon looks.
            wait_for("a whole stack", is_whole)
            wanted.update((int(line.split()[1]), line.split()[0]) for line in iter(process.stdout.readline, "end\n"))
            self.finish(process)
            truths = {name: truth(directory, name) for name in wanted.values()}
        self.assertEqual(truths["reload-1000"][:2], truths["reload-4000"][:2], "they are not at the same address")
        whole = 0
        for size, name in wanted.items():
            frames = self.frames(process.pid, size)[0][2:]
            self.assertEqual(frames, truths[name][:len(frames)])
            whole += len(frames) == len(truths[name])
        self.assertGreater(whole, 0)

    def test_children_have_no_frame_of_another_program(self):
        """After fork and vfork, in threads too, and exec, each with a library where its parent has had another."""
        ends, addresses, whole = {}, set(), 0
        with tempfile.TemporaryDirectory(prefix="tracesmith-unwind-") as directory:
            process = self.start("setarch", "-R", TARGET, directory, self.library, "children")
            for line in iter(process.stdout.readline, "end\n"):
                name, size, pid = line.split()
                end, frames, wanted = self.end_of(pid, size), self.frames(pid, size)[0][2:], truth(directory, name)
                addresses.add(wanted[0])
                self.assertEqual(frames, wanted if end == "complete" else wanted[:len(frames)], f"{name} of {pid}, {end}")
                ends.setdefault(name, []).append(end)
                # Walked by the daemon first, then by the programs.
                whole = whole + 1 if end == "complete" else 0
                self.assertLess(len(ends[name]), 100, ends)
                process.stdin.write("\n" if whole == 2 else "a")
                process.stdin.flush()
                whole %= 2
            self.finish(process)
        self.assertEqual(len(addresses), 1, "the libraries are not at the same address")
        self.assertEqual(set(ends), {"before", "parent", *(prefix + name for prefix in ("", "thread-") for name in
                                                           ("fork", "fork-reload", "vfork", "executed"))})


class Flood(Case):
    settings = Case.settings + "\nring_size = 64MiB"  # no call is missed while the daemon does not get to run
    environment = {}

    def python_is_whole(self):
        """Once the flood is forgotten, of which all programs together have a share."""
        return self.python_names()[0][-1] == "_start"

    def test_code_compiled_all_the_time_does_not_send_stacks_for_ever(self):
        before = self.unwound()
        count = 4000
        other = self.start(TARGET, "/tmp", self.library, "flood", "1")
        other.stdout.readline()
        wait_for("another process", lambda: self.daemon.known(other.pid))
        process = self.start(TARGET, "/tmp", self.library, "flood", str(count))
        process.stdout.readline()
        wait_for("its calls", lambda: sum(self.ends(process.pid).values()) == count)
        ends, lost, asked = self.ends(process.pid), self.lost(process.pid), self.unwound() - before
        self.finish(process)
        self.assertEqual(set(ends) - {"none"}, {"no-mapping", "missed"}, ends)
        self.assertLess(asked, count / 2)
        self.assertEqual(lost["stack-cut"], ends["missed"])
        self.assertNotIn("ring-full", lost)
        self.assertNotIn("stack-cut", self.lost(other.pid))
        self.finish(other)
        wait_for("whole stacks of others", self.python_is_whole)

    def stacks(self, pid):
        """The frames of each stack that its allocations have."""
        stacks = {}
        for row in self.daemon.sql("SELECT stack, frame.address FROM frame WHERE NOT inlined AND stack IN (SELECT stack FROM"
                                   f" op WHERE pid = {pid} AND kind = 'alloc') ORDER BY stack, depth"):
            stacks[row["stack"]] = stacks.get(row["stack"], ()) + (row["address"],)
        return stacks.values()

    def test_a_stack_that_is_written_over_while_it_is_read_does_harm_to_no_other(self):
        """It has what is written there; below, and above a true address, it is right. No call is missed."""
        count, made, others = 1000, 0, 0
        with tempfile.TemporaryDirectory(prefix="tracesmith-unwind-") as directory:
            other = self.start(TARGET, directory, self.library)
            process = self.start(TARGET, directory, self.library, "scribble", str(count))

            def other_is_whole():
                nonlocal others
                sizes, others = self.round(other, others)
                return self.end_of(other.pid, sizes["plain"]) == "complete"

            def many_are_long():
                nonlocal made
                if made:
                    process.stdin.write("\n")
                    process.stdin.flush()
                self.assertEqual(process.stdout.readline(), "end\n")
                made += count
                wait_for("its calls", lambda: sum(self.ends(process.pid).values()) == made)
                return len({frames[3] for frames in self.stacks(process.pid) if len(frames) > 3}) > 10

            wait_for("a whole stack of the other", other_is_whole)
            self.finish(other)
            wait_for("stacks with what is written", many_are_long)
            lost, stacks = self.lost(process.pid), self.stacks(process.pid)
            self.finish(process)
            wanted = truth(directory, "scribble")
        self.assertLessEqual(set(lost), {"stack-cut", "mapping"})  # as in assert_nothing_lost()
        below = max(stacks, key=len)[:3]
        for frames in stacks:
            self.assertEqual(frames[:3], below[:len(frames)])
            if frames[3:4] == wanted[:1]:
                self.assertEqual(frames[3:], wanted[:len(frames) - 3])


class FewRules(Case):
    """With rules for 32 addresses nearly each stack must be asked for: right, only slower."""
    environment = {**Case.environment, "TRACESMITH_RULE_SETS": "16"}

    def test_stacks_are_whole(self):
        self.check_traps(2, learned=False)


class Held(Case):
    """A thread's last walk stands for the next one where that would be the same: here each is walked nevertheless."""
    settings = "[probe]\nlaunch_stacks = 1000000000\nrate_limit = 1000"
    environment = {**Case.environment, "TRACESMITH_CHECK_WALKS": "1"}

    def figures(self):
        """Stacks that were held, wrongly held ones, and failed reads."""
        rows = {row["name"]: row for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"]
                if row["section"] == "unwinding"}
        held = re.fullmatch(r"(\d+) stacks were as the thread's last one, (\d+) wrongly so", rows["held"]["value"])
        return int(held[1]), int(held[2]), rows["unread_stacks"]["number"]

    def test_no_walk_is_held_that_would_be_another(self):
        process = self.start(PATHS, self.library)

        def order(text):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            return process.stdout.readline()

        def is_steady():
            """All walks of an order are held, once the rules that the one before has missed are filed."""
            before, _, unread = self.figures()
            order("hole 20")
            held, _, unread_after = self.figures()
            return held - before == 20000 and unread_after == unread

        wait_for("a steady state", is_steady)
        for text in ("random 1 20000", "same 40", "outer 40"):  # learns the rules
            order(text)
        before, _, unread = self.figures()
        order(f"random 2 {CALLS}")
        held, wrong, unread_after = self.figures()
        self.assertGreater(held - before, CALLS / 20)
        self.assertEqual(wrong, 0)
        self.assertEqual(unread_after, unread, "reads fail in steady state")
        order("same 40")
        order("outer 40")
        held_after, wrong, _ = self.figures()
        self.assertAlmostEqual(held_after - held, 20000, delta=1000)  # all of the first order, none of the second
        self.assertEqual(wrong, 0)
        self.finish(process)


class Late(Case):
    environment = {"LD_PRELOAD": SLOW, "TRACESMITH_PATIENCE": "20"}  # 4 s, less than the file takes

    def again(self, process):
        process.stdin.write("\n")
        process.stdin.flush()
        for _ in iter(process.stdout.readline, "end\n"):
            pass
        return self.ends(process.pid)

    def test_a_file_that_does_not_answer_holds_up_only_its_own_stacks(self):
        with tempfile.TemporaryDirectory(prefix="tracesmith-unwind-", dir="/dev/shm") as directory:
            target = os.path.join(directory, "slow-to-read")
            shutil.copy(TARGET, target)
            process = self.start(target, directory, self.library)
            count = len([*iter(process.stdout.readline, "end\n")])
            self.check_python()
            wait_for("its calls", lambda: sum(self.ends(process.pid).values()) == count)
            missed = self.ends(process.pid).get("missed", 0)
            self.assertGreater(missed, 0)
            self.assertEqual(self.lost(process.pid)["stack-cut"], missed)
            wait_for("its stacks to be whole", lambda: "complete" in self.again(process))
            self.finish(process)


class Unmapped(Case):
    """Until its mappings are known, no stack of a process can be walked."""

    def launch(self):
        directory = tempfile.mkdtemp(prefix="tracesmith-unwind-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, directory)
        self.fifo, self.slow = os.path.join(directory, "fifo"), os.path.join(directory, "slow-to-map")
        os.mkfifo(self.fifo)
        shutil.copy(TARGET, self.slow)
        self.environment = {**Case.environment, "LD_PRELOAD": SLOW, "TS_SLOW_MAPS": self.fifo}
        super().launch()

    def waiting(self):
        return self.figure("waiting")

    def test_its_stacks_wait_and_are_whole(self):
        with tempfile.TemporaryDirectory(prefix="tracesmith-unwind-") as directory:
            processes = [self.start(self.slow, directory, self.library)]
            count = len([*iter(processes[0].stdout.readline, "end\n")])
            wait_for("its stacks to wait", self.waiting)
            processes.append(self.start(TARGET, directory, self.library))
            self.assertEqual(len([*iter(processes[1].stdout.readline, "end\n")]), count)
            wait_for("the first alone to wait", lambda: self.waiting() == 1)
            fifo = os.open(self.fifo, os.O_RDWR)  # ends all waiting
            self.addCleanup(os.close, fifo)
            for process in processes:
                ends = self.ends(process.pid)
                self.assertEqual(sum(ends.values()), count)
                self.assertEqual(set(ends) - {"unreadable"}, {"complete", "no-mapping", "no-rule"}, ends)
                self.assertNotIn("stack-cut", self.lost(process.pid))
                self.finish(process)
            self.assertEqual(self.waiting(), 0)


if __name__ == "__main__":
    tracesmith.main()
