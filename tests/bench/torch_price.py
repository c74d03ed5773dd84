"""Torch_price: what the stack of each launch costs a PyTorch program that trains on the CPU, in place: between the work of
the interpreter and of PyTorch. Each of its tensors is a launch (torch_shim.c); settings are switched in turns in one
process, the last of them joins the backward pass to the forward one. What a walk takes is what the programs have timed themselves, the figure of `tsctl cost`; also the share of the
program's own time that a step takes longer. Needs bpftool, and PyTorch for /usr/bin/python3.

Arguments: turns (default 9) and steps a turn (10). With TRACESMITH_CHECK_WALKS set each walk is also done by the filed
rules alone, and the stacks that are others then are counted.
"""
import json
import os
import signal
import struct
import subprocess
import sys

import bench
from tracesmith import BUILD, preloadable, wait_for

SHIM = os.path.join(BUILD, "tests/bench/libtorch_shim.so")
TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_turns.py")
ALL = "launch_stacks = 1000000000\n"
APART = ALL + "backward = no\n"
STATES = {"none": "launch_stacks = 0", "10 native frames": APART + "python = no\nstack_depth = 10",
          "native": APART + "python = no", "native and Python": APART + "python = yes", "and joined": ALL + "python = yes"}
COMMON = "unwind = eh-frame\ntrap_limit = none\n"


def bpftool(*arguments):
    return json.loads(subprocess.run(["bpftool", "-j", *arguments], capture_output=True, text=True, check=True).stdout)


def walks(pid):
    """How many stacks of its calls were taken, and how long that took (struct probe_hits)."""
    key = ["key", "hex", *struct.pack("<I", pid).hex(" ").split()]
    for found in bpftool("map", "show"):
        if found.get("name") != "hits":
            continue
        found = subprocess.run(["bpftool", "-j", "map", "lookup", "id", str(found["id"]), *key], capture_output=True,
                               text=True, check=False)
        value = json.loads(found.stdout).get("value") if found.returncode == 0 else None
        if value:
            numbers = struct.unpack("<9Q", bytes(int(byte, 16) for byte in value))
            return sum(numbers[3:6]), sum(numbers[6:9])
    return 0, 0


def choose(daemon, settings, state):
    reread = daemon.log().count("Reread")
    with open(daemon.config, "w") as file:
        file.write(settings.replace("[probe]\n", f"[probe]\n{state}\n"))
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("the settings", lambda: daemon.log().count("Reread") > reread)


def measure(daemon, process, turns, steps):
    """By state: ns a step and ns a walk of each turn."""
    def turn(count):
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
        ns, launches = map(int, process.stdout.readline().split())
        return ns / count, launches / count

    with open(daemon.config) as file:
        settings = file.read()
    results = {name: ([], []) for name in STATES}
    choose(daemon, settings, STATES["native and Python"])
    turn(1)
    wait_for("its Python", lambda: daemon.status().get(("python", "processes")))
    turn(steps)  # learns the rules
    wait_for("the count of code objects", lambda: daemon.status()["python", "counted"])
    for _ in range(turns):
        for name, state in STATES.items():
            choose(daemon, settings, state)
            turn(1)
            count, ns = walks(process.pid)
            step, launches = turn(steps)
            count, ns = (after - before for after, before in zip(walks(process.pid), (count, ns)))
            results[name][0].append(step)
            results[name][1].append(ns / count if count else 0)
    return launches, results


def run(gpu, turns, steps):
    environment = dict(os.environ, LD_PRELOAD=preloadable(SHIM), OMP_NUM_THREADS="1", FAKE_CUDA_TIME_SCALE="0")
    with bench.Daemon(gpu, COMMON) as daemon:
        process = subprocess.Popen([sys.executable, "-B", TRAIN, SHIM, os.path.join(gpu.directory, gpu.name)],
                                   env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        launches, results = measure(daemon, process, turns, steps)
        rows = json.loads(daemon.ctl("status", "--json").out)["rows"]
        process.communicate()
    found = {row["name"]: row["value"] for row in rows if row["section"] == "unwinding"}
    print(f"{launches:.0f} launches a step; {found['rules']}; {found['stacks']}; {found['held']}")
    return results


def main():
    bench.require_root()
    turns, steps = (int(argument) for argument in (sys.argv[1:] + ["9", "10"][len(sys.argv) - 1:]))
    print(bench.machine())
    gpu = bench.Gpu()
    try:
        results = run(gpu, turns, steps)
    finally:
        gpu.close()
    table = bench.Table("stacks", "step ms", "least", "walk ns", "least", "load")
    for name, (step, walk) in results.items():
        table.row(name, f"{bench.median(step) / 1e6:.3f}", f"{min(step) / 1e6:.3f}", f"{bench.median(walk):.0f}",
                  f"{min(walk):.0f}", bench.load_average())


main()
