#!/usr/bin/env python3
"""What the exact tier costs a program within a budget, told and true: one running process, without a daemon and
attached with --budget in turns. CUPTI is taken out of it and comes back for each window, with graphs it is switched off and on
again, and the program must end well.

Usage: tests/gpu/exact_budget.py [BUILD] [train|graph|large ...] (build/release; train graph), as root, with PyTorch.
"""
import os
import statistics
import sys
import time

import gpu
from gpu import HERE, OUT, Program, check

BUILD = gpu.build(sys.argv)
OFF_S = 5
# Budget, seconds to settle (six turns, each of a window and a time without), seconds to measure.
PHASES = (("3%", 20, 30), ("20%", 14, 34))


def mean(program, since, until):
    return statistics.mean(value for at, value in program.samples if since <= at < until)


def span(seconds):
    since = time.monotonic()
    time.sleep(seconds)
    return since, time.monotonic()


def percent(ppm):
    return "-" if ppm is None else f"{ppm / 1e4:+.2f} %"


def told(daemon, pid):
    rows = daemon.sql("SELECT * FROM price JOIN process p ON p.id = price.process"
                      f" WHERE part = 2 AND p.pid = {pid}")
    return rows[0] if rows else None


def within(program, budget, settle_s, measure_s, graphs):
    """The pace with that budget, what was reported, and how many windows there were."""
    daemon = gpu.Daemon(BUILD, "[probe]\nbudget = 1%\n")
    code, out, err = daemon.ctl("attach", program.pid, "--budget", budget)
    if not check(f"attached with --budget {budget}", code == 0, err or out.splitlines()[0]):
        daemon.stop()
        return None
    time.sleep(settle_s)
    during = span(measure_s)
    row = told(daemon, program.pid)
    windows = daemon.sql(f"SELECT sum(windows) AS n, sum(watched_ns) / 1e6 / max(1, sum(windows)) AS ms FROM watch")[0]
    kernels = sorted(daemon.query("kernels")["rows"], key=lambda row: -row["total_ns"])[:3]
    loss = daemon.query("kernels")["loss"]
    code, out, err = daemon.ctl("detach", program.pid)
    check("detached, and unloaded unless it has graphs", code == 0 and ("stays" in out + err) == graphs, out + err)
    daemon.stop()
    print(f"  loss {loss}; windows {windows}")
    for kernel in kernels:
        print("  ", {key: kernel.get(key) for key in ("count", "plus_minus", "watched", "total_ns", "mean_ns", "name")})
    return during, row, windows["n"] or 0


def measure(title, program, graphs):
    time.sleep(1)
    before, windows = span(OFF_S), 0
    print(f"\n{title}: off {mean(program, *before):.4f} ms")
    for budget, settle_s, measure_s in PHASES:
        found = within(program, budget, settle_s, measure_s, graphs)
        if not found or program.process.poll() is not None:
            break
        during, row, count = found
        windows += count
        time.sleep(0.5)
        after = span(OFF_S)
        off = (mean(program, *before) + mean(program, *after)) / 2
        said = f"told {percent(row['cost_ppm'])} ({percent(row['cost_low_ppm'])} to {percent(row['cost_high_ppm'])}), " \
               f"{row['turns']} turns, watched {percent(row['share_ppm'])}, whole {percent(row['whole_ppm'])}" if row else "told nothing"
        print(f"--budget {budget:4} {mean(program, *during) / off - 1:+.2%} (off {off:.4f} ms, {count} windows)   {said}", flush=True)
        before = after
    check(f"{title}: windows", windows >= 8, str(windows))
    check(f"{title}: the program ended well", program.stop() == 0)


def main():
    print(gpu.machine())
    for what in sys.argv[2:] or ("train", "graph"):
        options = [] if what == "train" else [f"--{what}"]
        measure(f"PyTorch step, {what}", Program("python3", os.path.join(HERE, "train.py"), "900", *options), what == "graph")
    print(f"\n{len(gpu.failures)} failed; logs in {OUT}")
    return 1 if gpu.failures else 0


if __name__ == "__main__":
    sys.exit(main())
