#!/usr/bin/env python3
"""What the probes cost a program, told and true: in turns within one running process, with everything off,
watched whole (budget none) and within the default budget. A budget acts by shares of time, so means are
compared, of phases that are long enough for windows to settle.

Usage: tests/gpu/price.py [BUILD] (build/release), as root, with nvcc and PyTorch. ROUNDS (3).
"""
import os
import statistics
import sys
import time

import gpu
from gpu import HERE, OUT, Program, check, compile_cuda

BUILD = gpu.build(sys.argv)
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SETTLE_S = float(os.environ.get("SETTLE_S", "20"))
PHASE_S = float(os.environ.get("PHASE_S", "15"))
OFF_S = 5
SETTINGS = {"whole (budget none)": "[probe]\nbudget = none\n", "default (budget 1 %)": "[probe]\nbudget = 1%\n"}


def mean(program, since, until):
    return statistics.mean(value for at, value in program.samples if since <= at < until)


def span(seconds):
    since = time.monotonic()
    time.sleep(seconds)
    return since, time.monotonic()


def cost(daemon, pid):
    rows = [row for row in daemon.query("cost")["rows"] if row["pid"] == pid]
    return rows[0] if rows else None


def percent(ppm):
    return "-" if ppm is None else f"{ppm / 1e4:+.2f} %"


def price(title, unit, program):
    time.sleep(1)
    ratios, told = {name: [] for name in SETTINGS}, {}
    before = span(OFF_S)
    for _ in range(ROUNDS):
        for name, settings in SETTINGS.items():
            daemon = gpu.Daemon(BUILD, settings)
            time.sleep(SETTLE_S if "default" in name else 1)
            during = span(PHASE_S)
            told[name] = cost(daemon, program.pid)
            daemon.show("query", "cost")
            daemon.stop()
            time.sleep(0.3)
            after = span(OFF_S)
            off = (mean(program, *before) + mean(program, *after)) / 2
            ratios[name].append(mean(program, *during) / off)
            before = after
    print(f"\n{title} ({unit}), {ROUNDS} rounds; off {mean(program, *before):.4f}")
    for name, found in ratios.items():
        row = told[name]
        said = f"told {percent(row['cost'])} ({percent(row['low'])} to {percent(row['high'])}), {row['turns']} turns, " \
               f"watched {percent(row['watched'])}, whole {percent(row['whole'])}" if row else "told nothing"
        print(f"{name:22} {statistics.median(found) - 1:+.2%}   " + " ".join(f"{ratio - 1:+.2%}" for ratio in found) + "   " + said,
              flush=True)
    check(f"{title}: the program ended well", program.stop() == 0)
    return ratios


def main():
    print(gpu.machine())
    for what in sys.argv[2:] or ("train", "large", "graph", "empty"):
        if what == "empty":
            price("empty kernels back to back", "ns a launch", Program(compile_cuda("empty"), "900"))
        else:
            options = [] if what == "train" else [f"--{what}"]
            price(f"PyTorch step, {what}", "ms", Program("python3", os.path.join(HERE, "train.py"), "900", *options))
    print(f"\n{len(gpu.failures)} failed; logs in {OUT}")
    return 1 if gpu.failures else 0


if __name__ == "__main__":
    sys.exit(main())
