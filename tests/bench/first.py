"""First: what a budget costs a program in the first seconds, before its price is known: a step is compared with that of the
same program alone, by its thread's own time, which what else the machine does changes little. The simulated CUPTI takes
known times: 1 us a call while it is there and 3 us a launch that it records.
"""
import json
import os
import sys
import time

import bench
import tracesmith

SECONDS = 20
TURNS = int(os.environ.get("TURNS", "3"))
STEPS = ("steps", "--calls", 50, "--work", 2000, "--pause", 200_000, "--seconds", 600)
RUNS = ("probes, 1%", "1%", False), ("probes, none", "none", False), ("exact, 3%", "3%", True), ("exact, none", "none", True)
COSTS = "loaded=1000,kernel=3000"


class Run:
    """The program, for SECONDS after its first call."""

    def __init__(self):
        self.process = tracesmith.workload(*STEPS)

    def end(self):
        time.sleep(SECONDS)
        self.process.terminate()
        told = json.loads(self.process.communicate()[0].splitlines()[-1])
        return told["own_seconds"] / told["steps"]


def alone():
    return Run().end()


def within(budget, exact):
    daemon = tracesmith.Daemon(budget="none" if exact else budget).start()
    try:
        run = Run()
        tracesmith.wait_for("its first call", lambda: daemon.known(run.process.pid))
        if exact:
            said = daemon.ctl("attach", run.process.pid, "--budget", budget)
            if said.code:
                raise SystemExit(said.err)
        return run.end()
    finally:
        daemon.close()


def main():
    bench.require_root()
    os.environ["FAKE_CUPTI_ODD"] = COSTS
    print(bench.machine())
    table = bench.Table("first 20 s of a budget", "price %", "least %", "most %", "load")
    for name, budget, exact in RUNS:
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        prices = []
        for _ in range(TURNS):
            before, with_it, after = alone(), within(budget, exact), alone()
            prices.append(100 * (2 * with_it / (before + after) - 1))
        table.row(name, *(f"{value:+.2f}" for value in (bench.median(prices), min(prices), max(prices))), bench.load_average())


main()
