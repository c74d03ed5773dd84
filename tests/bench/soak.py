"""Soak: whether the daemon's memory stays flat under a steady load.

    soak.py [SECONDS [RATE]]    1800 s; iterations a second and thread, 0 (the default): flat out

One program calls the driver without a pause (launches, allocations, frees), others come and go, and
a user asks for `ps` and `leaks` each second. After the first five minutes a line is fitted to the
memory of the daemon and of the processes that it keeps, in means of 30 s, since neighbouring seconds
are alike; its slope is printed with the interval of 95 %.
"""
import contextlib
import math
import statistics
import sys
import time

import bench

WARM_S = 300
BLOCK_S = 30
SHOWN_S = 60


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def family(pid):
    """The daemon and the processes that it has now, with theirs."""
    found = [pid]
    with contextlib.suppress(FileNotFoundError):
        for child in children(pid):
            found += family(child)
    return found


def resident(pids):
    """KiB. Those that looked into a process at the start are gone later."""
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):
            total += bench.memory(pid).get("VmRSS", 0)
    return total


def fit(points):
    """Slope of a line through (s, KiB) and half of its interval of 95 %, both in KiB/s."""
    count = len(points)
    slope, start = statistics.linear_regression(*zip(*points))
    middle = statistics.fmean(x for x, _ in points)
    left = sum((y - start - slope * x) ** 2 for x, y in points) / (count - 2)
    error = math.sqrt(left / sum((x - middle) ** 2 for x, _ in points))
    z = statistics.NormalDist().inv_cdf(0.975)
    return slope, error * (z + (z**3 + z) / (4 * (count - 2)))  # of Student's distribution, nearly


def blocks(samples):
    """Means of (s, KiB) after the first minutes."""
    by_block = {}
    for at, kib in samples:
        if at >= WARM_S:
            by_block.setdefault(int(at / BLOCK_S), []).append(kib)
    return [((number + 0.5) * BLOCK_S, statistics.fmean(values)) for number, values in sorted(by_block.items())]


def soak(gpu, daemon, seconds, rate):
    table = bench.Table("after", "RSS MiB", "load")
    pids, samples, begin = family(daemon.pid), [], time.monotonic()
    busy = gpu.workload("rate", "--kind", "mixed", "--threads", 2, "--rate", rate, "--seconds", seconds + 60)
    with contextlib.ExitStack() as stack:
        stack.callback(busy.communicate)
        stack.callback(busy.kill)
        while (at := time.monotonic() - begin) < seconds:
            gpu.workload("rate", "--kind", "mixed", "--count", 100).communicate()
            for query in ("ps", "leaks"):
                answer = daemon.ctl("query", query, "--json")
                if answer.code != 0:
                    sys.exit(f"{query}: {answer.err}")
            samples.append((at, resident(pids)))
            if len(samples) == 1 or at // SHOWN_S > samples[-2][0] // SHOWN_S:
                table.row(f"{at:.0f} s", bench.mib(samples[-1][1]), bench.load_average())
            time.sleep(max(0.0, begin + at + 1 - time.monotonic()))
    return samples


def main():
    bench.require_root()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1800
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if seconds < WARM_S + 3 * BLOCK_S:
        sys.exit(f"soak.py: at least {WARM_S + 3 * BLOCK_S} s: the first {WARM_S} s do not count")
    print(bench.machine())
    gpu = bench.Gpu()
    try:
        with bench.Daemon(gpu) as daemon:
            points = blocks(soak(gpu, daemon, seconds, rate))
    finally:
        gpu.close()
    slope, half = (value * 3600 / 1024 for value in fit(points))
    print(f"slope {slope:+.2f} MiB/h, 95 %: {slope - half:+.2f} to {slope + half:+.2f}; "
          f"{len(points)} means of {BLOCK_S} s, after the first {WARM_S} s")


main()
