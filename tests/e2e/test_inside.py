"""The exact tier with `light = exact`: the library reports hot calls itself, the kernel's probes of them stay out of the
process, and every kernel, copy and set is there as without it, joined to its call, with its stack."""
import os
import signal
import tempfile
import time

import test_exact
import test_light
import tracesmith
from tracesmith import wait_for


class Inside(test_exact.Exact):
    settings = test_exact.Exact.settings + "light = exact"
    # Of those we need what they share.
    for name in [name for name in dir(test_exact.Exact) if name.startswith("test_")]:
        locals()[name] = None
    del name

    def assert_without_probes(self, pid):
        try:
            wait_for("the probes to leave it", lambda: not test_light.breakpoint_at(pid, "cuLaunchKernel"))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.daemon.log()}") from None
        self.assertTrue(test_light.breakpoint_at(pid, "cuMemAlloc_v2"))

    def with_stack(self, pid):
        """How many of its launches have a stack, and how many have none."""
        rows = self.exact(pid, "coalesce(stack, 0) <> 0 AS taken, count(*) AS n", "kind = 'launch'", "GROUP BY 1")
        found = {row["taken"]: row["n"] for row in rows}
        return found.get(1, 0), found.get(0, 0)

    def attach_inside(self, pid, *options):
        """For that all threads of the process are stopped at once: on a busy machine not at the first go, and a note says so."""
        def told():
            told = self.attach(pid, *options)
            if not any(map(tracesmith.not_now, told["notes"])):
                return told
            self.detach(pid)
            return None
        return wait_for("a good moment of all threads", told)

    def test_attach_and_detach(self):
        """With the stacks that were asked for; a budget opens and closes probes, so it leaves the calls to them."""
        for stacks in "all", "none":
            process = self.hold(run=False)
            pid = process.pid
            self.assertEqual(self.attach(pid, "--budget", "50%")["light_functions"], 0)
            self.detach(pid)
            told = self.attach_inside(pid, "--stacks", stacks)
            self.assertGreater(told["light_functions"], 50, told)
            self.assertEqual([note for note in told["notes"] if "taken out" not in note], [])
            self.assertEqual(self.tier(pid), "exact")
            self.assert_without_probes(pid)
            self.assert_as_told(pid, self.go(process), allowed=("windows", "paused"))
            taken, without = self.with_stack(pid)
            if stacks == "all":
                self.assertLessEqual(without, self.stacks_lost(pid))
                self.assertGreater(taken, 0)
            else:
                self.assertEqual(taken, 0)
                self.assertGreater(without, 0)
            told = self.detach(pid)
            self.assertEqual(told["lost"], 0)
            self.assertEqual(self.tier(pid), "probe")
            wait_for("the probes to be back", lambda: test_light.breakpoint_at(pid, "cuLaunchKernel"))
            process.communicate("\n")
            self.assertEqual(process.returncode, 0)

    inside = test_light.Light.inside
    test_own_namespaces = test_exact.Exact.test_own_namespaces

    def set(self, settings):
        with open(self.daemon.config, "a") as file:
            file.write(settings)
        self.daemon.process.send_signal(signal.SIGHUP)

    def test_a_budget_for_a_time(self):
        """It takes the calls back to the probes, and they come inside again without it; whichever was first."""
        process = self.hold()
        pid = process.pid
        self.wait_exact(pid)
        self.assert_without_probes(pid)
        for settings, inside in (("[exact]\nbudget = 50%\n", False), ("budget = none\n", True),
                                 ("[probe]\nlight = request\n", False), ("[exact]\nbudget = 50%\n", False),
                                 ("[probe]\nlight = exact\n", False), ("[exact]\nbudget = none\n", True)):
            self.set(settings)
            wait_for(f"the calls after {settings}", lambda: self.inside(pid) == (1 if inside else None) and
                     test_light.breakpoint_at(pid, "cuLaunchKernel") != inside)
        self.assert_as_told(pid, self.go(process), allowed=("windows", "paused"))
        # Their price is told, too.
        wait_for("the price", lambda: self.daemon.query("cost", "--pid", pid))
        process.communicate("\n")
        self.assertEqual(process.returncode, 0)

    def test_a_thread_with_a_filter(self):
        """It has it before it launches, or comes to it later: no call of ours on it makes a system call that it does not
        make itself."""
        for options in ((), ("--late",)):
            process = self.start("filtered", *options, options=("--budget", "none"))
            pid = process.pid
            self.assertIn("ready", process.stdout.readline())
            self.wait_exact(pid)
            wait_for("the calls inside", lambda: self.inside(pid) == 1)
            self.assert_launching(process)
            if options:
                process.stdin.write("\n")
                process.stdin.flush()
                self.assertIn("filtered", process.stdout.readline())
                self.assert_launching(process)
            out, _ = process.communicate("\n")
            self.assertEqual(process.returncode, 0, out)

    def assert_launching(self, process):
        """And recorded, launch by launch."""
        before = self.exact(process.pid, "count(*) AS n", "kind = 'launch'")[0]["n"]
        wait_for("launches", lambda: process.poll() is not None or
                 self.exact(process.pid, "count(*) AS n", "kind = 'launch'")[0]["n"] > before + 100)
        self.assertIsNone(process.poll(), "the program was killed")

    def test_run(self):
        """From the first call on, and on with another daemon; which may have other settings."""
        process = self.hold()
        pid = process.pid
        told = self.go(process)
        self.assert_without_probes(pid)
        self.assert_as_told(pid, told)
        sampled, others = self.with_stack(pid)
        self.assertGreater(sampled, 0)
        self.assertGreater(others, 0)
        process.communicate("\n")
        process = self.start("loop", "--seconds", 600, "--pace-ms", 1)
        pid = process.pid
        self.wait_exact(pid)
        self.assert_without_probes(pid)
        for light in "exact", "request":
            self.daemon.kill()
            with open(self.daemon.config, "a") as file:
                file.write(f"\n[probe]\nlight = {light}\n")
            self.daemon.start()
            self.wait_exact(pid)
            begin = time.monotonic_ns()
            wait_for("joined kernels", lambda: self.exact(
                pid, "count(*) AS n", f"gpu_start_ns > {begin} AND kind = 'launch' AND NOT no_call")[0]["n"] > 200)
            wait_for("probes as set", lambda: test_light.breakpoint_at(pid, "cuLaunchKernel") == (light == "request"))
        self.assertIsNone(process.poll(), "the program has ended")
        process.terminate()
        process.communicate()
        self.assertEqual(process.returncode, 0)

    def test_a_driver_that_leaves_no_room(self):
        """Its calls stay with the probes, and who asks is told."""
        with tempfile.TemporaryDirectory(prefix="driver-") as directory:
            test_light.without_room(directory)
            path = directory + ":" + os.path.dirname(tracesmith.library())
            process = self.hold(run=False, LD_LIBRARY_PATH=path)
            wait_for("probes on its copy", lambda: directory in self.daemon.ctl("status").out)
            told = self.attach(process.pid)
            self.assertEqual(told["light_functions"], 0)
            self.assertRegex(str(told["notes"]), "Frequent calls stay with the kernel's probes.*cuEventElapsedTime")
            self.assert_as_told(process.pid, self.go(process))
            process.communicate("\n")


if __name__ == "__main__":
    tracesmith.main()
