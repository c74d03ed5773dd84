"""Idle: what the daemon costs where no process uses CUDA, and at 50,000 launches a second.

Idle means: no process maps a driver library that the daemon looks for, and probes stand on one that
nobody maps. What the rest of the machine does is not idle (each exec and each mapping of code is
looked at), so the execs of the time measured are shown beside it.
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


def measure(table, name, daemon):
    cpu, made, woken = bench.live_cpu_ns(daemon.pid), forks(), wakes(daemon.pid)
    time.sleep(SECONDS)
    share = (bench.live_cpu_ns(daemon.pid) - cpu) / SECONDS / 1e7
    used = bench.memory(daemon.pid)
    table.row(name, f"{share:.3f}", f"{(wakes(daemon.pid) - woken) / SECONDS:.1f}",
              f"{(forks() - made) / SECONDS:.1f}", bench.mib(used["VmRSS"]), bench.mib(used["RssAnon"]),
              bench.load_average())
    return share, used["VmRSS"]


def measure_rate(table, gpu, daemon):
    """While a program launches; without its start and end."""
    process = gpu.workload("rate", "--kind", "launch", "--rate", RATE, "--seconds", SECONDS + 4)
    time.sleep(2)
    measure(table, f"{RATE} launches/s", daemon)
    process.communicate()


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("daemon", "CPU %", "wakes/s", "forks/s", "RSS MiB", "anon MiB", "load")
    gpu = bench.Gpu()
    try:
        with bench.Daemon(gpu, standing=False) as daemon:
            for _ in range(ROUNDS):
                measure(table, "idle, no library", daemon)
        with bench.Daemon(gpu) as daemon:
            for _ in range(ROUNDS):
                measure(table, "idle, probes stand", daemon)
            measure_rate(table, gpu, daemon)
            measure(table, "idle again", daemon)
    finally:
        gpu.close()


main()
