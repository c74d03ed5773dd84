"""A program that calls probed functions flat out loses its probes at once, hot or cold, and gets them back
when it has stopped; all others are counted as exactly as ever."""
import json
import os
import signal

import tracesmith
from tracesmith import wait_for, workload

BURST = 100
# On an emulated machine, or beside other busy programs, a flood is a trickle.
LIMIT = os.environ.get("TS_TRAP_LIMIT", "10%")


def say(process):
    """Asks a program for its next words."""
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


class Case(tracesmith.Case):
    # Room for what comes before the flood is noticed: what a full ring loses is another story.
    settings = "[probe]\nring_size = 256MiB\nlaunch_stacks = 0\n"
    trap_limit = LIMIT

    def start(self, *arguments):
        process = workload(*arguments, copy=self.standing[0])
        self.addCleanup(self.end, process)
        return process

    def flood(self, kind, *options):
        process = self.start("flood", "--kind", kind, *options)
        json.loads(process.stdout.readline())
        return process

    def status(self):
        return json.loads(self.daemon.ctl("status", "--json").out)

    def items(self, section):
        return {row["name"]: row for row in self.status()["rows"] if row["section"] == section}

    def out(self):
        """Who is left out now: what is said of it, by pid."""
        return {int(name.split()[1]): row["value"] for name, row in self.items("probes").items()
                if name.startswith("process ")}

    def calls(self, pid, function="cuLaunchKernel"):
        return self.daemon.apis(pid).get(function, {"calls": 0})["calls"]

    def comes_back(self, process, function):
        """Its calls are seen again, each once."""
        wait_for("the end of its time", lambda: process.pid not in self.out())

        def seen_again():
            before = self.calls(process.pid, function)
            say(process)
            return self.calls(process.pid, function) == before + BURST
        wait_for("its calls to be seen", seen_again, 2 * tracesmith.DEADLINE)
        for _ in range(3):
            self.assertTrue(seen_again(), "calls are missed, or counted twice")



class Flood(Case):
    def start_calm(self):
        """One that changes from the links for all processes to links of its own, and later back."""
        calm = self.start("steps", "--seconds", 3600, "--calls", 1, "--pause", 1000000)
        wait_for("the calm one", lambda: self.daemon.known(calm.pid))
        return calm

    def check_calm(self, calm):
        """All of its calls were counted, each once, but for those that found the ring full of the flood's."""
        calm.terminate()
        said, _ = calm.communicate(timeout=120)
        said = json.loads(said)
        self.daemon.wait_ended(calm.pid)
        answer = self.daemon.answer("apis", "--pid", calm.pid)
        missed = [said[what] - self.calls(calm.pid, name)
                  for name, what in (("cuLaunchKernel", "launches"), ("cuStreamSynchronize", "steps"))]
        self.assertGreaterEqual(min(missed), 0, missed)
        self.assertLessEqual(sum(missed), answer["loss"].get("ring-full", 0), missed)
        # A flood may come faster than the daemon or the disk takes its calls, which belongs to the whole host.
        self.assert_nothing_lost(answer, ("store", "ring-full"))

    def check_flood(self, kind, function, reason):
        calm = self.start_calm()
        process = self.flood(kind)
        sentence = wait_for("the flood to be noticed", lambda: self.out().get(process.pid))
        self.assertIn("allocations" if kind == "alloc" else "launches", sentence)
        wait_for("the loss to be told", lambda: reason in self.daemon.answer("loss", "--pid", process.pid)["loss"])

        def unseen():
            before = self.calls(process.pid, function)
            return self.calls(process.pid, function) == before
        wait_for("its calls to be missed", unseen)
        truth = say(process)["flooded"]
        self.assertLess(self.calls(process.pid, function), truth)
        self.comes_back(process, function)
        self.check_calm(calm)
        return process

    def test_a_flood_of_launches(self):
        process = self.check_flood("launch", "cuLaunchKernel", "left-out-frequent")
        # What it allocated was seen all the time.
        self.assertNotIn("left-out", self.daemon.answer("memory", "--pid", process.pid)["loss"])
        self.assertIn("left-out-frequent", self.daemon.answer("apis", "--pid", process.pid)["loss"])

    def test_a_flood_of_allocations(self):
        process = self.check_flood("alloc", "cuMemAlloc_v2", "left-out")
        for query in ("memory", "leaks"):
            self.assertIn("left-out", self.daemon.answer(query, "--pid", process.pid)["loss"])
        self.assertIn("workers_ns", self.items("kernel"))

    def test_who_cannot_have_a_link_is_told(self):
        """The kernel knows a process by its first thread, which may have ended."""
        other = self.flood("launch", "--threads", 0, "--leave")
        say(other)
        say(other)
        wait_for("its calls", lambda: self.daemon.known(other.pid) and self.calls(other.pid, "cuLaunchKernel") == BURST)
        calm = self.start_calm()
        process = self.flood("launch")
        wait_for("the flood to be noticed", lambda: self.out().get(process.pid))
        say(process)
        wait_for("the loss to be told", lambda: "windows" in self.daemon.answer("apis", "--pid", other.pid)["loss"],
                 3 * tracesmith.DEADLINE)
        self.assertNotIn("left-out-frequent", self.daemon.answer("apis", "--pid", other.pid)["loss"])
        self.comes_back(other, "cuLaunchKernel")
        self.check_calm(calm)

    def test_without_a_limit_nobody_is_left_out(self):
        process = self.flood("launch")
        wait_for("the flood to be noticed", lambda: self.out().get(process.pid))
        with open(self.daemon.config) as file:
            settings = file.read()
        with open(self.daemon.config, "w") as file:
            file.write(settings.replace(f"trap_limit = {LIMIT}", "trap_limit = none"))
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for("it to be let in", lambda: process.pid not in self.out())
        say(process)
        self.comes_back(process, "cuLaunchKernel")


class Links(Case):
    """While somebody is left out, each process has a link of its own, which the kernel ties to its first
    thread and to its memory."""

    def told(self, pid):
        return not {"windows", "ring-full"}.isdisjoint(self.daemon.answer("apis", "--pid", pid)["loss"])

    def seen(self, process):
        """In the end each call of its bursts is seen; none ever twice, and what is missed before is told."""
        start = self.calls(process.pid)
        bursts = []

        def full():
            before = self.calls(process.pid)
            say(process)
            bursts.append(self.calls(process.pid) - before)
            return bursts[-4:] == 4 * [BURST]
        wait_for("its calls to be seen", full, 2 * tracesmith.DEADLINE)
        seen, made = self.calls(process.pid) - start, BURST * len(bursts)
        self.assertLessEqual(seen, made)
        if seen < made:
            self.assertTrue(self.told(process.pid), f"{bursts}, {seen} of {made}")

    def test_whatever_becomes_of_it_no_call_is_missed_untold(self):
        flood = self.flood("launch")
        calm, changed, leaves = (self.flood("launch", "--threads", 0, *more)
                                 for more in ([], ["--exec"], ["--leave-later"]))
        wait_for("the flood to be noticed", lambda: self.out().get(flood.pid))
        # Another thread than the first one runs another program: then it is the first one.
        say(changed)
        say(changed)
        self.seen(changed)
        # The first thread ends: told, whether or not the kernel still sees the others.
        say(leaves)
        wait_for("the loss to be told", lambda: say(leaves) and self.told(leaves.pid), 2 * tracesmith.DEADLINE)
        # Many that have ended before they could have a link, or soon after.
        short = []
        for _ in range(30):
            short.append(self.start("flood", "--threads", 0))
            short[-1].stdin.write("\n\n")
            short[-1].stdin.close()
            wait_for("it to end, or others to be started meanwhile",
                     lambda: sum(process.poll() is None for process in short) < 3)
        for process in short:
            self.daemon.wait_ended(process.pid)
            calls = self.calls(process.pid)
            self.assertLessEqual(calls, BURST)
            if calls < BURST:
                self.assertTrue(self.told(process.pid), f"{calls} of {BURST} calls")
        say(calm)
        self.seen(calm)


class OneLinkForAll(Case):
    """Without links to single processes nobody is watched while one is left out, and all are told."""
    settings = Case.settings + "attach = perf\n"
    _close = Case.leave

    def setUp(self):
        self.own_copy()
        super().setUp()

    def test_a_flood_of_launches(self):
        calm = self.start("steps", "--seconds", 3600, "--calls", 1, "--pause", 1000000)
        wait_for("the calm one", lambda: self.daemon.known(calm.pid))
        process = self.flood("launch")
        wait_for("the flood to be noticed", lambda: self.out().get(process.pid))
        wait_for("the loss of all to be told", lambda: "windows" in self.daemon.answer("apis", "--pid", calm.pid)["loss"])
        self.assertNotIn("windows", self.daemon.answer("memory", "--pid", calm.pid)["loss"])
        say(process)
        self.comes_back(process, "cuLaunchKernel")
        before = self.calls(calm.pid, "cuLaunchKernel")
        wait_for("the calm one again", lambda: self.calls(calm.pid, "cuLaunchKernel") > before)


if __name__ == "__main__":
    tracesmith.main()
