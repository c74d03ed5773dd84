"""Idle: what the daemon costs where no process uses CUDA, and at 50,000 launches a second.

Idle means: no process maps a driver library that the daemon looks for, and probes stand on one that
nobody maps. What the rest of the machine does is not idle (each exec and each mapping of code is
looked at), so the execs of the time measured are shown beside it. Beside the one that is measured at
50,000 launches a second another one is idle: what that one takes, the rest of the machine causes.
"""
import time

import bench

SECONDS = 20
RATE = 50_000
ROUNDS = 3


def forks():
    """Processes and threads made since boot, on the whole machine."""
    with open("/proc/stat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("processes"))


def wakes(pid):
    with open(f"/proc/{pid}/status") as file:
        return sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)


def measure(table, daemons):
    """Daemons by name, in the same time; their shares of a core."""
    before = [(bench.live_cpu_ns(daemon.pid), wakes(daemon.pid)) for daemon in daemons.values()]
    made, shares = forks(), []
    time.sleep(SECONDS)
    made = (forks() - made) / SECONDS
    for (name, daemon), (cpu, woken) in zip(daemons.items(), before):
        shares.append((bench.live_cpu_ns(daemon.pid) - cpu) / SECONDS / 1e7)
        used = bench.memory(daemon.pid)
        table.row(name, f"{shares[-1]:.3f}", f"{(wakes(daemon.pid) - woken) / SECONDS:.1f}",
                  f"{made:.1f}", bench.mib(used["VmRSS"]), bench.mib(used["RssAnon"]),
                  bench.load_average())
    return shares


def measure_rate(table, gpu, daemon, idle):
    """While a program launches; without its start and end."""
    process = gpu.workload("rate", "--kind", "launch", "--rate", RATE,
                           "--seconds", ROUNDS * SECONDS + 4)
    time.sleep(2)
    rounds = [measure(table, {f"{RATE} launches/s": daemon, "idle beside it": idle})
              for _ in range(ROUNDS)]
    print(f"{RATE} launches/s take {bench.median(busy - rest for busy, rest in rounds):.2f} % more")
    process.communicate()


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("daemon", "CPU %", "wakes/s", "forks/s", "RSS MiB", "anon MiB", "load")
    gpu, other = bench.Gpu(), bench.Gpu()
    try:
        with bench.Daemon(gpu, standing=False) as daemon:
            for _ in range(ROUNDS):
                measure(table, {"idle, no library": daemon})
        with bench.Daemon(gpu) as daemon:
            for _ in range(ROUNDS):
                measure(table, {"idle, probes stand": daemon})
            with bench.Daemon(other, standing=False) as idle:
                measure_rate(table, gpu, daemon, idle)
            measure(table, {"idle again": daemon})
    finally:
        other.close()
        gpu.close()


main()
