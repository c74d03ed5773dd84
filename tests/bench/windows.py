"""Windows: the daemon's own CPU time beside a program of 50,000 launches a second, watched whole and in windows
within a budget. Its goal is 1 % of a core in windows.

Its program launches 50 times and waits for the GPU in each millisecond; what is measured starts when the budget has
settled. A second daemon, with nothing to trace, runs beside it: what it needs is the rest of the machine's doing (each
exec and each mapping of code is looked at). Names of runs as arguments choose some of them.
"""
import json
import sys
import time

import bench

LAUNCHES = 50
PAUSE_NS = 950_000
SETTLE, SECONDS = 20, 20
RUNS = {"whole": "none", "1%": "1%", "0.5%": "0.5%"}


def part_of(daemon, pid):
    rows = json.loads(daemon.ctl("query", "cost", "--pid", str(pid), "--json").out)["rows"]
    return next(row for row in rows if row["part"] == "probes")


def measure(gpu, nothing, name, budget):
    with bench.Daemon(gpu, budget=budget) as daemon, bench.Daemon(nothing, standing=False) as idle:
        process = gpu.workload("steps", "--calls", LAUNCHES, "--work", 0, "--pause", PAUSE_NS,
                               "--seconds", SETTLE + SECONDS + 2)
        time.sleep(SETTLE)
        seen = daemon.status()["probes", "events"]
        before = bench.live_cpu_ns(daemon.pid), bench.live_cpu_ns(idle.pid)
        time.sleep(SECONDS)
        cpu, rest = bench.live_cpu_ns(daemon.pid) - before[0], bench.live_cpu_ns(idle.pid) - before[1]
        events = daemon.status()["probes", "events"] - seen
        part = part_of(daemon, process.pid)
        out, _ = process.communicate()
        told = json.loads(out.splitlines()[-1])
    return (name, f"{told['launches'] / told['seconds']:.0f}", f"{part['watched'] / 1e4:.1f}", f"{events / SECONDS:.0f}",
            f"{cpu / SECONDS / 1e7:.2f}", f"{rest / SECONDS / 1e7:.2f}", f"{part['cost'] / 1e4:.2f}", f"{part['whole'] / 1e4:.2f}", bench.load_average())


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("budget", "launches/s", "watched %", "events/s", "daemon %", "idle %", "price %", "whole %", "load")
    gpu, nothing = bench.Gpu(), bench.Gpu()
    try:
        for name in sys.argv[1:] or RUNS:
            table.row(*measure(gpu, nothing, name, RUNS[name]))
    finally:
        gpu.close()
        nothing.close()


main()
