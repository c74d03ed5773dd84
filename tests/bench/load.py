"""Load: calls a second through BPF, ring, model and store, and where loss starts.

One program calls the simulated GPU at a given rate, or flat out; a fresh daemon watches it. Each
call is received or counted as dropped: made = seen + dropped, exactly, or this ends with 1.
"""
import json
import sys

import bench

SECONDS = 5
DROPPED = ("ring-full", "call-state", "rate-limit")
MEANT = ("stack-sampled", "unbound")  # nothing is synchronized, few stacks are taken
# What a program does in one iteration; calls of an iteration.
CALLS = {"launch": 1, "mixed": 3}
RATES = (10_000, 50_000, 100_000, 200_000, 300_000, 500_000, 0)
SMALL_RING = "ring_size = 256KiB\n"
# Kind, threads, calls a second of all threads (0: flat out), settings.
RUNS = (
    *[(kind, 1, rate, "") for kind in CALLS for rate in RATES],
    ("launch", 2, 0, ""),
    ("launch", 4, 0, ""),
    *[("launch", 1, rate, SMALL_RING) for rate in (50_000, 100_000, 200_000, 0)],
)


def made_by(out):
    """Calls by function, and the rate that was reached."""
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    rate = next(row["calls_per_s"] for row in rows if "calls_per_s" in row)
    return {row["fn"]: row["calls"] for row in rows if "fn" in row}, rate


def drive(daemon, process):
    """Lets the program make its calls; what it printed, and CPU time of daemon and program."""
    process.stdout.readline()
    before = bench.live_cpu_ns(daemon.pid), bench.cpu_ns(process.pid)
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    after = bench.live_cpu_ns(daemon.pid), bench.cpu_ns(process.pid)
    out, _ = process.communicate("\n")
    daemon.wait_ended(process.pid)
    return out, after[0] - before[0], after[1] - before[1]


def count(daemon, pid, made):
    """Calls that were made of probed functions, seen, dropped and stored; other losses."""
    probed = {row["name"] for row in daemon.sql("SELECT name FROM function")}
    answer = daemon.answer("apis", "--pid", pid)
    return (sum(calls for fn, calls in made.items() if fn in probed),
            sum(row["calls"] for row in answer["rows"]),
            sum(answer["loss"].get(reason, 0) for reason in DROPPED),
            daemon.sql("SELECT count(*) AS n FROM op WHERE kind <> 'state'")[0]["n"],
            {reason: n for reason, n in answer["loss"].items() if reason not in DROPPED + MEANT})


def measure(gpu, kind, threads, rate, settings):
    """One run; its row of the table, and whether the count is exact."""
    with bench.Daemon(gpu, settings) as daemon:
        process = gpu.workload("rate", "--kind", kind, "--threads", threads, "--seconds", SECONDS,
                               "--rate", rate // CALLS[kind] // threads, "--hold")
        out, cpu, own = drive(daemon, process)
        used = bench.memory(daemon.pid)
        by_function, reached = made_by(out)
        made, seen, dropped, stored, other = count(daemon, process.pid, by_function)
    name = ", ".join([kind, str(rate or "flat out"), *[f"{threads} threads"] * (threads > 1), *["small ring"] * bool(settings)])
    return (name, f"{reached:.0f}", made, seen, dropped, f"{100 * dropped / made:.2f}", stored,
            f"{cpu / SECONDS / 1e7:.1f}", f"{own / SECONDS / 1e7:.1f}", bench.mib(used["VmHWM"]),
            bench.mib(used["RssAnon"]), bench.load_average(), other or ""), made == seen + dropped


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("calls/s asked", "reached", "made", "seen", "dropped", "dropped %", "stored",
                        "daemon %", "program %", "peak MiB", "anon MiB", "load", "other loss")
    exact = True
    gpu = bench.Gpu()
    try:
        for run in RUNS:
            row, same = measure(gpu, *run)
            table.row(*row)
            exact &= same
    finally:
        gpu.close()
    print("made = seen + dropped, in every run" if exact else "some calls were neither seen nor counted as dropped!")
    sys.exit(not exact)


main()
