"""Young: how long a program's launches go unseen on a busy host, from its first one to the first that is told. Each program has
a copy of the driver of its own, or the standing one while another program is watched in windows, so that each has a link of its own.

LOAD (30): as many loops beside it, and then two more programs that use the driver and map memory in eight threads all the time.
Programs: 20 of each kind, one after another.
"""
import json
import os
import shutil
import subprocess
import tempfile

import bench
import tracesmith

LOAD = int(os.environ.get("LOAD", "30"))
PROGRAMS = 20
LENGTH_MS = 6000
MAPPERS = 2
MAPPER = [os.path.join(tracesmith.BUILD, "tests/bench/mapper"), tracesmith.library(), "8"]


def unseen_s(daemon, library, seed):
    """None: none of its launches was seen."""
    process = subprocess.Popen([os.path.join(tracesmith.BUILD, "tests/e2e/e2e_rhythm"), library, str(seed), str(LENGTH_MS)],
                               stdout=subprocess.PIPE, text=True)
    launches = json.loads(process.communicate()[0])["calls"]["cuLaunchKernel"]
    daemon.wait_ended(process.pid)
    row, = daemon.sql(f"SELECT min(start_ns) AS ns FROM op WHERE pid = {process.pid} AND kind = 'launch'")
    return (row["ns"] - launches[0][0]) / 1e9 if row["ns"] and launches else None


def measure(table, name, daemon, fresh):
    seconds, never = [], 0
    for seed in range(PROGRAMS):
        directory = tempfile.mkdtemp(prefix="tracesmith-driver-")
        library = shutil.copy(tracesmith.library(), directory) if fresh else tracesmith.library()
        took = unseen_s(daemon, library, seed)
        seconds.append(LENGTH_MS / 1000 if took is None else took)
        never += took is None
        shutil.rmtree(directory)
    seconds.sort()
    table.row(name, *(f"{value:.3f}" for value in (bench.median(seconds), seconds[int(0.9 * PROGRAMS)], seconds[-1])), never,
              bench.load_average())


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("first launch that is seen, after", "median s", "p90 s", "most s", "never", "load")
    for load, mappers in ((0, 0), (LOAD, 0), (LOAD, MAPPERS)):
        loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
        daemon = tracesmith.Daemon(budget="1%").start()
        dear = tracesmith.workload("rate", "--kind", "launch", "--rate", 100_000, "--seconds", 3600)
        try:
            tracesmith.wait_for("windows", lambda: "windows" in daemon.answer("apis", "--pid", dear.pid)["loss"])
            beside = f"{load} loops" + (f", {mappers} programs that map memory" if mappers else "")
            loops += [subprocess.Popen(MAPPER) for _ in range(mappers)]
            measure(table, f"own link, {beside}", daemon, False)
            measure(table, f"own copy, {beside}", daemon, True)
        finally:
            for process in (dear, *loops):
                process.kill()
                process.wait()
            daemon.close()


if __name__ == "__main__":
    main()
