"""A program's inline hook in the driver: no probe is put over it, and nobody else pays for that."""
import os
import shutil
import subprocess
import unittest

import tracesmith
from tracesmith import wait_for

LAUNCH, ALLOCATE = "cuLaunchKernel", "cuMemAlloc_v2"


class Case(tracesmith.Case):
    """The driver is a file that no other test's programs map. The daemon is started by the tests."""

    def setUp(self):
        directory = tracesmith.driver_directory()
        self.addCleanup(shutil.rmtree, directory)
        self.driver, self.standing = tracesmith.copy_library(directory), (directory,)
        super().setUp()

    def launch(self):
        pass

    def program(self, driver=None):
        process = subprocess.Popen([os.path.join(tracesmith.BUILD, "tests/e2e/e2e_hooks"),
                                    driver or os.path.join(self.standing[0], "libcuda.so.1")],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def say(self, process, *words):
        """How often its hook was reached."""
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().split()
        self.assertEqual(answer[1:], ["ready"], f"it has ended with {process.wait(1) if not answer else None}")
        return int(answer[0])

    def hooked(self, how="mprotect", function=LAUNCH):
        process = self.program()
        self.say(process, "hook", function, how)
        return process

    def calls(self, process, function):
        return self.daemon.apis(process.pid).get(function, {}).get("calls", 0)

    def sees(self, process, function):
        """Its calls, from now on."""
        before = self.calls(process, function)

        def is_seen():
            self.say(process, "call", function, 1)
            return self.calls(process, function) > before
        wait_for(f"calls of {function} to be seen", is_seen)
        before = self.calls(process, function)
        self.say(process, "call", function, 50)
        wait_for(f"each call of {function}", lambda: self.calls(process, function) >= before + 50)
        self.assertEqual(self.calls(process, function), before + 50)

    def status(self):
        return self.daemon.ctl("status").out


class Hooked(Case):
    def test_daemon_starts(self):
        hooked, other = self.hooked(), self.program()
        for end in self.daemon.kill, self.daemon.stop:
            self.daemon.start()
            self.sees(other, LAUNCH)
            self.sees(other, ALLOCATE)
            self.sees(hooked, ALLOCATE)  # of another group of functions
            self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)
            wait_for("it to be told", lambda: f"Process {hooked.pid} has an inline hook in" in self.status())
            self.assertEqual(self.calls(hooked, LAUNCH), 0)
            wait_for("its loss", lambda: "windows" in self.daemon.answer("apis", "--pid", hooked.pid)["loss"])
            # One that comes later has its first calls missed, and told, at most.
            self.sees(self.program(), LAUNCH)
            end()
            self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)

    def test_written_through_proc(self):
        hooked = self.hooked("mem")
        self.daemon.start()
        wait_for("it to be told", lambda: f"Process {hooked.pid} has an inline hook in" in self.status())
        self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)

    def test_all_share_a_link_again_when_it_has_ended(self):
        hooked, other = self.hooked(), self.program()
        self.daemon.start()
        wait_for("it to be told", lambda: "has an inline hook in" in self.status())
        self.end(hooked)
        wait_for("it to be forgotten", lambda: "has an inline hook in" not in self.status())
        self.sees(other, LAUNCH)

        def sees_first():
            process = self.program()
            self.say(process, "call", LAUNCH, 7)
            self.end(process)
            wait_for("its end", lambda: self.daemon.ended(process.pid))
            return self.calls(process, LAUNCH) == 7
        wait_for("one whose first call is seen", sees_first)

    def test_hook_that_is_taken_away(self):
        hooked = self.hooked()
        self.daemon.start()
        wait_for("it to be told", lambda: "has an inline hook in" in self.status())
        self.say(hooked, "unhook", LAUNCH)
        self.sees(hooked, LAUNCH)
        self.assertEqual(self.say(hooked, "call", LAUNCH, 1), 0)

    def test_hook_over_a_probe(self):
        self.daemon.start()
        hooked, other = self.program(), self.program()
        self.sees(hooked, LAUNCH)
        self.say(hooked, "hook", LAUNCH, "mprotect")
        self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)
        self.sees(other, LAUNCH)
        self.daemon.kill()
        self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)
        self.daemon.start()
        wait_for("it to be told", lambda: "has an inline hook in" in self.status())
        self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)

    def test_probes_that_come_back(self):
        """Those of one process go while our library in it reports its calls, and of the others each has a link of its own."""
        self.daemon.start()
        hooked, other = self.program(), tracesmith.workload("rate", "--kind", "launch", "--rate", 100, "--seconds", 600,
                                                            copy=self.standing[0])
        self.addCleanup(self.end, other)
        self.say(hooked, "hook", LAUNCH, "mprotect")
        wait_for("the other", lambda: self.daemon.known(other.pid))
        attached = self.daemon.ctl_again("attach", "--light", other.pid)
        self.assertEqual(attached.code, 0, attached.err)
        wait_for("it to be told", lambda: "has an inline hook in" in self.status())
        self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)
        detached = self.daemon.ctl_again("detach", other.pid)
        self.assertEqual(detached.code, 0, detached.err)
        self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)


class OneLinkForAll(Case):
    """A kernel without links to single processes cannot leave one out."""
    settings = Case.settings + "attach = perf\n"
    _close = Case.leave

    def test_nobody_gets_probes_before_it_has_ended(self):
        hooked, other = self.hooked(), self.program()
        self.daemon.start()
        wait_for("it to be told", lambda: f"no probes yet. Process {hooked.pid} has an inline hook" in self.status())
        self.assertEqual(self.say(hooked, "call", LAUNCH, 100), 100)
        self.say(other, "call", LAUNCH, 1)
        self.end(hooked)
        self.sees(other, LAUNCH)
        self.assertIn("gap", self.daemon.answer("apis", "--pid", other.pid)["loss"])


if __name__ == "__main__":
    tracesmith.main()
