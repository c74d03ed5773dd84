"""Return probes: what they do to a program whose thread is cancelled inside a call, the settings that leave them
out, and the trial at start that leaves all of them out where the kernel would end programs."""
import os
import re
import shutil
import subprocess

import tracesmith
from tracesmith import copy_library, run, wait_for, workload
from test_counts import by_row

WAITS = ("stream", "event", "context")


def children(pid):
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            found += file.read().split()
    return found


def name_of(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


class Case(tracesmith.Case):
    """With a driver that no other daemon puts a probe on: any of them would do its harm."""

    def setUp(self):
        self.own = tracesmith.driver_directory("tracesmith-returns-")
        self.addCleanup(shutil.rmtree, self.own)
        self.driver, self.standing = copy_library(self.own), (self.own,)
        super().setUp()

    def cancelled(self, where):
        """Whether the mutex of the cancelled thread was unlocked, as it is without a daemon. (Where it is not, a program
        with the address sanitizer aborts, too.)"""
        process, said = run("cancel", "--in", where, copy=self.own, stderr=subprocess.DEVNULL)
        return process.returncode == 0 and said[0] == {"cancelled": True, "unlocked": True}

    def returns(self):
        """How many functions have a return probe, and the line of the status that says why some have none."""
        out = self.daemon.ctl("status").out
        line = re.search(r"(?m)^(.) returns +(.*)$", out)
        return int(re.search(r"(\d+) with return probe", out).group(1)), line and line.groups()

    def count(self):
        """All calls of a program that calls each function. Returns its pid and what was called."""
        process, expected = run("counts", copy=self.own)
        self.daemon.wait_ended(process.pid)
        answer = self.daemon.answer("apis", "--pid", process.pid)
        seen = {row["fn"]: row for row in answer["rows"]}
        probed = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        want = {name: row for name, row in by_row(expected).items() if name in probed}
        self.assertEqual({name: row["calls"] for name, row in seen.items()}, {name: row["calls"] for name, row in want.items()})
        return process.pid, seen, answer["loss"]

    def check_without(self):
        """Calls are counted all the same, and no answer looks whole that is not."""
        pid, seen, loss = self.count()
        self.assertEqual({row["errors"] for row in seen.values()}, {0})
        self.assertGreater(loss["no-effect"], 0)
        self.assertGreater(loss["no-return"], 0)
        for name in ("memory", "errors", "states"):
            self.assertGreater(self.daemon.answer(name, "--pid", pid)["loss"]["no-effect"], 0, name)
        self.assertIn("not known", self.daemon.ctl("query", "errors", "--pid", pid).out)
        self.check_leak()

    def check_leak(self):
        process = workload("leak", copy=self.own)
        self.addCleanup(self.end, process)
        self.assertTrue(process.stdout.readline())
        wait_for("the program to be known", lambda: self.daemon.known(process.pid))
        for name in ("leaks", "memory"):
            answer = self.daemon.answer(name, "--pid", process.pid)
            self.assertEqual(answer["rows"], [])
            self.assertGreater(answer["loss"]["no-effect"], 0, name)
            self.assertIn("not known", self.daemon.ctl("query", name, "--pid", process.pid).out)


class Probed(Case):
    def test_what_a_return_probe_does_to_a_cancelled_thread(self):
        """It is why the settings exist (docs/operating.md). If this fails one day, for a kernel that has fixed it, they say so."""
        self.assertEqual([self.cancelled(where) for where in WAITS], [False] * len(WAITS))

    def test_the_trial_is_passed_and_leaves_nothing(self):
        count, line = self.returns()
        self.assertGreater(count, 100)
        self.assertIsNone(line)
        self.assertNotIn("probed at", self.daemon.log())
        broker, = [pid for pid in children(self.daemon.process.pid) if name_of(pid) == "ts-broker"]
        wait_for("the child to be gone", lambda: not children(broker))


class NotProbed(Case):
    settings = "[probe]\nreturns = no\nring_size = 64MiB\n"

    def test_a_cancelled_thread_unlocks(self):
        self.assertEqual([self.cancelled(where) for where in WAITS], [True] * len(WAITS))

    def test_calls_are_counted(self):
        self.assertEqual(self.returns()[0], 0)
        self.assertRegex(self.returns()[1][1], r"\d+ functions are not probed at their return, as the settings say")
        self.assertEqual(self.daemon.ctl("status", "--check").out.count("returns"), 0)
        self.check_without()


class Some(Case):
    settings = "[probe]\nreturns = all but cuStreamSynchronize cu*CtxSynchronize*\nring_size = 64MiB\n"

    def test_by_function(self):
        self.assertEqual([self.cancelled(where) for where in WAITS], [True, False, True])
        pid, seen, loss = self.count()
        self.assertNotIn("no-effect", loss)
        self.assertGreater(loss["no-return"], 0)
        self.assertGreater(sum(row["errors"] for row in seen.values()), 0)
        self.assertNotIn("no-return", self.daemon.answer("memory", "--pid", pid)["loss"])


class Trial(Case):
    """What the broker's child comes to is made up here: this kernel is fixed."""
    settings = "[probe]\nring_size = 64MiB\n"
    outcome = "seccomp"
    says = r"no function is probed at its return: .*seccomp filter"

    def launch(self):
        os.environ["TRACESMITH_TRIAL"] = self.outcome
        self.addCleanup(os.environ.pop, "TRACESMITH_TRIAL")
        super().launch()

    def test_there_are_none_and_it_is_said(self):
        count, line = self.returns()
        self.assertEqual(count, 0)
        self.assertEqual(line[0], "!")
        self.assertRegex(line[1], self.says)
        check = self.daemon.ctl("status", "--check")
        self.assertNotEqual(check.code, 0)
        self.assertRegex(check.out, self.says)
        self.assertRegex(self.daemon.ctl("status", "--json").out, self.says)
        self.assertEqual(len(re.findall(self.says, self.daemon.log())), 1)
        self.assertEqual([self.cancelled(where) for where in WAITS], [True] * len(WAITS))
        self.check_without()


class ShadowStack(Trial):
    outcome = "shadow-stack"
    says = r"no function is probed at its return: .*shadow stack"


class NoAnswer(Trial):
    outcome = "no-answer"
    says = r"no function is probed at its return: .*trial"


if __name__ == "__main__":
    tracesmith.main()
