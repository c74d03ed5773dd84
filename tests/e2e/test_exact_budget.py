"""The exact tier within a budget: CUPTI is in the process in windows and taken out between them, and totals are
estimates that hold."""
import json
import os
import subprocess

import tracesmith
from tracesmith import BUILD, wait_for, workload_path

MILLION = 1000000
BUDGET = 0.05
# What CUPTI costs a call by being there, and a launch by recording it.
COSTS = "loaded=2000,kernel=20000"
SECONDS = 24


class ExactBudget(tracesmith.Case):
    def start(self, name, *arguments, run=False, budget=BUDGET):
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(tracesmith.library()), "FAKE_CUDA_TIME_SCALE": "1",
                       "FAKE_CUPTI_ODD": COSTS, "TRACESMITH_SOCKET": self.daemon.socket,
                       "TRACESMITH_INJECT_SOCKET": os.path.join(self.daemon.directory, "inject.sock")}
        self.budget = ("--budget", f"{100 * budget:g}%")
        prefix = [os.path.join(BUILD, "tsctl"), "run", *self.budget, "--"] if run else []
        process = subprocess.Popen([*prefix, workload_path(name), *map(str, arguments)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, process)
        wait_for("the program to use CUDA", lambda: self.daemon.known(process.pid))
        return process

    def threads(self, pid):
        return len(os.listdir(f"/proc/{pid}/task"))

    def cost(self, pid):
        return next((row for row in self.daemon.query("cost", "--pid", pid) if row["part"] == "exact"), None)

    def test_totals_are_estimates_that_hold(self):
        process = self.start("steps", "--seconds", SECONDS, "--calls", 50, "--pause", 2000000, run=True)
        inside, told = [], None
        while process.poll() is None:
            try:
                inside.append(self.threads(process.pid))
                told = self.cost(process.pid) or told
            except OSError:
                break
        truth = json.loads(process.communicate()[0].splitlines()[-1])
        self.daemon.wait_ended(process.pid)
        # CUPTI's thread comes and goes with it.
        self.assertGreater(sum(b == a + 1 for a, b in zip(inside, inside[1:])), 3, inside)
        self.assertGreater(sum(b == a - 1 for a, b in zip(inside, inside[1:])), 3, inside)
        self.assertTrue(told["measured"], told)
        self.assertEqual(told["budget"], BUDGET * MILLION)
        # Judged by the price, on the safe side of it, with what it costs to come and go.
        self.assertLess(told["watched"], 1.2 * BUDGET * MILLION / (told["whole"] / MILLION), told)
        self.assertGreater(told["watched"], 0.1 * BUDGET * MILLION / (told["whole_high"] / MILLION), told)
        self.assertLess(told["cost"], 1.5 * told["budget"])
        self.assert_estimates(process.pid, truth)

    def assert_estimates(self, pid, truth):
        answer = self.daemon.answer("kernels", "--pid", pid)
        kernel, = answer["rows"]
        self.assertIn("exact-windows", answer["loss"])
        self.assertLess(kernel["watched"], 800000)
        self.assert_near(kernel["count"], kernel["plus_minus"], truth["launches"], kernel)
        self.assert_near(kernel["total_ns"], kernel["plus_minus_ns"], truth["launches"] * kernel["mean_ns"], kernel)
        calls, = [row for row in self.daemon.query("apis", "--pid", pid) if row["fn"] == "cuLaunchKernel"]
        self.assert_near(calls["calls"], calls["plus_minus"], truth["launches"], calls)
        idle = self.daemon.query("idle", "--pid", pid)
        self.assertAlmostEqual(sum(row["share"] for row in idle), MILLION, delta=5)
        whole = sum(row["total_ns"] for row in idle)
        self.assertLess(idle[0]["observed_ns"], 0.8 * whole)
        self.assertLess(abs(whole / 1e9 - truth["seconds"]), 0.1 * truth["seconds"], idle)
        running, = [row for row in idle if row["state"] == "running"]
        self.assert_near(running["total_ns"], running["plus_minus_ns"], truth["launches"] * kernel["mean_ns"], running)
        self.assertIn(f"{kernel['plus_minus']:,}".replace(",", ""), self.daemon.ctl("query", "kernels", "--pid", pid).out)

    def assert_near(self, told, plus_minus, truth, row):
        """The interval is one of 90 %: three times as far is 1 in a million, if the program was as steady as its CPU."""
        self.assertGreater(plus_minus, 0)
        self.assertLess(abs(told - truth), max(3 * plus_minus, 0.05 * truth), f"{row}, truly {truth}")


if __name__ == "__main__":
    tracesmith.main()
