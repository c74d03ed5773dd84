"""Torch_backward: whether calls of PyTorch's backward pass are joined to the line of the forward pass that they belong
to. torch_shim.c makes each tensor of a program that trains on the CPU an allocation of the simulated driver, and the
program says (torch_lines.py) in which node each was made, and where that node was. Needs PyTorch (Debian: python3-torch)
for /usr/bin/python3.

Argument: steps (default 20). Exits with 1 if a line is wrong, or none is right.
"""
import collections
import json
import os
import subprocess
import sys

import bench
from tracesmith import BUILD, preloadable, wait_for

PYTHON = "/usr/bin/python3"
SHIM = os.path.join(BUILD, "tests/bench/libtorch_shim.so")
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_lines.py")
SETTINGS = "unwind = eh-frame\nstack_depth = 127\npython_depth = 128"
MARK, BEFORE = " [backward]", " [backward, before]"
SIZE_STEP = 512


def run(gpu, steps):
    with bench.Daemon(gpu, SETTINGS) as daemon:
        environment = dict(os.environ, LD_PRELOAD=preloadable(SHIM), OMP_NUM_THREADS="1", FAKE_CUDA_TIME_SCALE="0")
        process = subprocess.Popen([PYTHON, "-W", "ignore", "-B", PROGRAM, SHIM, os.path.join(gpu.directory, gpu.name),
                                    os.path.join(gpu.directory, "stacks"), str(steps)], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        wait_for("its Python", lambda: daemon.status().get(("python", "processes")))
        process.stdin.write("\n")
        process.stdin.flush()
        truth = json.loads(process.stdout.readline())
        wait_for("its allocations", lambda: daemon.sql(
            f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND kind = 'alloc'")[0]["n"] >= truth["made"], 60)
        found = daemon.sql(f"SELECT bytes, stack_where(stack) AS place, stack FROM op WHERE pid = {process.pid}"
                           " AND kind = 'alloc' ORDER BY bytes LIMIT 10000")
        process.communicate("\n")
        return truth["rows"], {row["bytes"] // SIZE_STEP: row["place"] for row in found}


def main():
    bench.require_root()
    steps = int((sys.argv[1:] + ["20"])[0])
    gpu = bench.Gpu()
    try:
        rows, places = run(gpu, steps)
    finally:
        gpu.close()
    nodes = collections.defaultdict(collections.Counter)
    for name, made, first, end in rows:
        for size in range(first + 1, end + 1):
            place = places.get(size)
            if place and place.endswith(BEFORE):
                outcome = 'before, on the line' if f'({made})' in place else f'before {place}'
            elif not place or not place.endswith(MARK):
                outcome = "without" if not place or place.startswith("[") else f"own {place}"
            else:
                outcome = "right" if f"({made})" in place else f"WRONG {place}"
            nodes[name, made][outcome] += 1
    total = collections.Counter()
    for (name, made), outcomes in sorted(nodes.items(), key=lambda item: str(item[0])):
        print(f"{name:45} {made or '-':20} {dict(outcomes)}")
        for outcome, count in outcomes.items():
            total[outcome.split()[0].strip(",")] += count
    print(dict(total))
    sys.exit(total["WRONG"] > 0 or not total["right"])


main()
