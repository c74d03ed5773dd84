#!/usr/bin/python3
"""What tracesmith-ship sends and costs, for a GPU that is idle and for one that is busy, on the simulated GPU.

    TS_BUILD=build/release tests/bench/ship.py [MINUTES]

A daemon of its own, a shipper, and a server that takes everything; first a process that waits, then one that is recorded exactly and
submits kernels without a pause. Prints bytes per second as sent, and CPU time and memory of the shipper.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
# A driver of a name of its own: no other process is seen.
os.environ["TS_DRIVER"] = "own"

import tracesmith  # pylint: disable=wrong-import-position
from test_ship import PASSWORD, SHIP, Server  # pylint: disable=wrong-import-position
from tracesmith import DRIVER  # pylint: disable=wrong-import-position

MINUTES = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def status(path):
    with open(path) as file:
        return dict(line.rstrip("\n").partition(" ")[::2] for line in file)


def used(pid):
    """CPU seconds, and the most memory in MiB."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    with open(f"/proc/{pid}/status") as file:
        most = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), most / 1024


def measure(what, folder, program, prefix=()):
    path, daemon, server = os.path.join(folder, what), tracesmith.Daemon(), Server()
    os.mkdir(path)
    shutil.copy(tracesmith.library("lib"), os.path.join(path, DRIVER))
    os.symlink(DRIVER, os.path.join(path, "libcuda.so.1"))
    for name in "libcupti.so.13",:
        shutil.copy(os.path.join(tracesmith.FAKE, "lib", name), path)
    with open(os.path.join(path, "password"), "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(PASSWORD)
    with open(os.path.join(path, "conf"), "w") as file:
        file.write(f"url = {server.url}\npassword_file = {path}/password\n")
    daemon.start()
    environment = dict(os.environ, LD_LIBRARY_PATH=path, TRACESMITH_SOCKET=daemon.socket, FAKE_CUDA_TIME_SCALE="0")
    work = subprocess.Popen([*prefix, tracesmith.workload_path(program[0]), *program[1:]], env=environment, stdin=subprocess.PIPE,
                            stdout=subprocess.DEVNULL)
    told = os.path.join(path, "status")
    shipper = subprocess.Popen([SHIP, "-c", f"{path}/conf", "-d", f"{path}/state", "--status", told, "-s", daemon.socket])
    try:
        end = lambda count: os.path.exists(told) and int(status(told)["minutes"]) >= count
        tracesmith.wait_for("the first whole minute", lambda: end(2), 300)  # the first one has stacks, and is a part
        before, cpu, start = status(told), used(shipper.pid)[0], time.monotonic()
        tracesmith.wait_for("more", lambda: end(2 + MINUTES), 100 * MINUTES)
        after, (cpu_now, most), wall = status(told), used(shipper.pid), time.monotonic() - start
        [calls] = daemon.sql("SELECT coalesce(sum(calls), 0) AS n FROM rollup WHERE freed = 0")
        minutes = int(after["minutes"]) - int(before["minutes"])
        print(f"{what}: {(int(after['bytes']) - int(before['bytes'])) / 60 / minutes:.0f} B/s, "
              f"{(int(after['rows']) - int(before['rows'])) / minutes:.0f} rows a minute; shipper {100 * (cpu_now - cpu) / wall:.3f} % of a "
              f"core, {most:.1f} MiB; {calls['n']} calls in all", flush=True)
    finally:
        for process in (shipper, work):
            process.kill()
            process.wait()
        daemon.close()
        server.shutdown()


folder = tempfile.mkdtemp(prefix="tracesmith-bench-")
try:
    measure("idle", folder, ["loop", "--seconds", "3000", "--pace-ms", "1000"])
    measure("busy", folder, ["loop", "--seconds", "3000"], [os.path.join(tracesmith.BUILD, "tsctl"), "run", "--"])
finally:
    shutil.rmtree(folder)
