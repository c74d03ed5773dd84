"""Leak latency: from the moment that an allocation is as old as --min-age to its being in the
answer of `tsctl query leaks`, with a tsctl started anew for each look."""
import time

import bench
import tracesmith

ROUNDS = 9
MIN_AGE_NS = (1_000_000, 100_000_000, 1_000_000_000)
LEAK_BYTES = 12345  # of one block of the planted leak
QUIET_S = 4  # after this the daemon's ticks are rare


def visible_after(daemon, gpu, min_age_ns):
    """One program that leaks; ns from the due time to the end of the tsctl that first shows it."""
    process = gpu.workload("leak", "--steps", 10)
    rows = tracesmith.wait_for("the leak", lambda: daemon.query(
        "leaks", "--pid", process.pid, "--min-age", f"{min_age_ns}ns"))
    seen_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert any("leaky_cache_insert" in frame for row in rows for frame in row["stack"]), rows
    born_ns = daemon.sql("SELECT max(start_ns) AS ns FROM allocation JOIN process ON process.id = process"
                         f" WHERE pid = {process.pid} AND bytes = {LEAK_BYTES}")[0]["ns"]
    process.communicate("\n")
    return seen_ns - born_ns - min_age_ns


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("--min-age, daemon", "median ms", "worst ms", "load")
    gpu = bench.Gpu()
    try:
        with bench.Daemon(gpu) as daemon:
            for min_age_ns in MIN_AGE_NS:
                for quiet in (0, QUIET_S):
                    ms = []
                    for _ in range(ROUNDS):
                        time.sleep(quiet)
                        ms.append(visible_after(daemon, gpu, min_age_ns) / 1e6)
                    table.row(f"{min_age_ns // 10**6} ms, {'quiet before' if quiet else 'busy'}",
                              f"{bench.median(ms):.0f}", f"{max(ms):.0f}", bench.load_average())
    finally:
        gpu.close()


main()
