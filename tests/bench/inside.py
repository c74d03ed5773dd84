"""Inside: what the threads of a recorded process cost it: how often they wake up and the CPU that they take, of a
process that makes 50,000 launches a second and of one that makes none. (fake-cupti is the simulated CUPTI's own.)
"""
import os
import time

import bench
import tracesmith

SECONDS = 5
RATE = 50_000


def threads(pid):
    """By id: name, voluntary switches, CPU in ns."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        place = f"/proc/{pid}/task/{task}"
        try:
            with open(f"{place}/status") as status, open(f"{place}/schedstat") as stat, open(f"{place}/comm") as comm:
                waits = next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt"))
                found[task] = comm.read().strip(), waits, int(stat.read().split()[0])
        except FileNotFoundError:
            pass
    return found


def measure(table, name, pid):
    before = threads(pid)
    time.sleep(SECONDS)
    for task, (comm, waits, cpu) in threads(pid).items():
        if task in before:
            table.row(name, comm, f"{(waits - before[task][1]) / SECONDS:.1f}",
                      f"{(cpu - before[task][2]) / SECONDS / 1e7:.3f}", bench.load_average())


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("process", "thread", "wakes/s", "CPU %", "load")
    daemon = tracesmith.Daemon().start()
    started = []
    try:
        idle = tracesmith.workload("rate", "--count", 1, "--hold")
        started.append(idle)
        idle.stdin.write("\n")
        idle.stdin.flush()
        busy = tracesmith.workload("rate", "--rate", RATE, "--seconds", 600)
        started.append(busy)
        for process in started:
            tracesmith.wait_for("the process", lambda: daemon.known(process.pid))
            attached = daemon.ctl("attach", process.pid)
            if attached.code:
                raise SystemExit(attached.err)
        time.sleep(1)
        measure(table, "idle", idle.pid)
        measure(table, f"{RATE} launches/s", busy.pid)
    finally:
        for process in started:
            process.kill()
            process.communicate()
        daemon.close()


main()
