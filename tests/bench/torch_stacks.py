"""Torch_stacks: whether the stacks of a PyTorch program that trains on the CPU are whole and true. torch_shim.c makes
each of its tensors an allocation of the simulated driver, and writes down what libgcc's unwinder says of the native
frames and Python's own API of its own. Needs PyTorch (Debian: python3-torch) for /usr/bin/python3.

Arguments: steps (default 30) and threads (3). Exits with 1 if fewer than 99.9 % of the stacks are complete and equal.
"""
import collections
import os
import statistics
import subprocess
import sys

import bench
from tracesmith import BUILD, preloadable, wait_for

PYTHON = "/usr/bin/python3"
SHIM = os.path.join(BUILD, "tests/bench/libtorch_shim.so")
TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_train.py")
SETTINGS = "unwind = eh-frame\nstack_depth = 127\npython_depth = 128\nbackward = no"  # joined stacks are two
ENOUGH = 0.999
SIZE_STEP = 512  # as in torch_shim.c

Sample = collections.namedtuple("Sample", "native python loops_before gil")


def read_truth(path):
    """By size: addresses that are not of the interpreter's loop, how often that was called since the one before, and
    the frames of Python."""
    truth = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            size, native, gil, python = line.rstrip("\n").split("\t")
            kept, loops, count = [], [], 0
            for address in native.split():
                if address.startswith("*"):
                    count += 1
                    continue
                kept.append(int(address))
                loops.append(count)
                count = 0
            frames = [frame.rsplit("|", 2) for frame in python.split(";")] if python else []
            truth[int(size)] = Sample(kept, [(name, file, int(at)) for name, file, at in frames], loops, gil == "1")
    return truth


def pages(daemon, text, key):
    """All rows of a query that has a place for the key's last value; an answer has 10,000 at most."""
    rows, last = True, -(1 << 63)
    while rows:
        rows = daemon.sql(text.format(last))
        yield from rows
        last = rows[-1][key] if rows else last


def read_stacks(daemon, pid):
    """The stack of each size, how stacks ended, and their frames."""
    found = {row["bytes"]: row["stack"] for row in pages(
        daemon, f"SELECT bytes, stack FROM op WHERE pid = {pid} AND kind = 'alloc' AND bytes > {{}} ORDER BY bytes"
        " LIMIT 10000", "bytes")}
    ends = {row["id"]: row["name"] for row in pages(
        daemon, "SELECT stack.id, name FROM stack JOIN stack_end ON stack_end.id = ended WHERE stack.id > {}"
        " ORDER BY stack.id LIMIT 10000", "id")}
    frames = collections.defaultdict(list)
    for row in pages(daemon, "SELECT stack, address, kind, symbol, source, line FROM frame WHERE inlined = 0 AND stack IN"
                     " (SELECT id FROM stack WHERE id > {} ORDER BY id LIMIT 30) ORDER BY stack, depth", "stack"):
        frames[row["stack"]].append(row)
    return found, ends, frames


def compare(sample, rows):
    """What is wrong with a complete stack, None if nothing is. The probed function and the shim's are innermost."""
    native, runs, run = [], [], False
    for row in rows[2:]:
        if row["kind"] == 1:
            run = True
            continue
        native.append(row["address"] % 2**64)
        runs.append(run)
        run = False
    if native != sample.native:
        return "native"
    if [(row["symbol"], row["source"], row["line"]) for row in rows if row["kind"] == 1] != sample.python:
        return "python"
    if runs != [count > 0 for count in sample.loops_before]:
        return "order"
    return None


def run(gpu, steps, threads):
    with bench.Daemon(gpu, SETTINGS) as daemon:
        truth_path = os.path.join(gpu.directory, "truth")
        environment = dict(os.environ, LD_PRELOAD=preloadable(SHIM), OMP_NUM_THREADS="1", FAKE_CUDA_TIME_SCALE="0")
        process = subprocess.Popen([PYTHON, "-B", TRAIN, SHIM, os.path.join(gpu.directory, gpu.name), truth_path,
                                    str(steps), str(threads)], env=environment, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        wait_for("its Python", lambda: daemon.status().get(("python", "processes")))
        wait_for("the count of code objects", lambda: daemon.status()["python", "counted"])
        process.stdin.write("\n")
        process.stdin.flush()
        made = int(process.stdout.readline())
        wait_for("its allocations", lambda: daemon.sql(
            f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND kind = 'alloc'")[0]["n"] >= made, 60)
        found, ends, frames = read_stacks(daemon, process.pid)
        status = {key: number for key, number in daemon.status().items()
                  if key[0] in ("python", "unwinding") or key[1] == "stacks_cut"}
        process.communicate("\n")
        return read_truth(truth_path), found, ends, frames, status


def show(wrong, sample, rows):
    print(f"--- {wrong}")
    for row in rows:
        print(f"  {row['address'] % 2**64:x} {row['symbol']} {row['source'] or ''} {row['line'] or ''}")
    print("  truth:", " ".join(f"{address:x}" for address in sample.native), sample.python, sample.loops_before)


def main():
    bench.require_root()
    steps, threads = (int(argument) for argument in (sys.argv[1:] + ["30", "3"][len(sys.argv) - 1:]))
    print(bench.machine())
    gpu = bench.Gpu()
    try:
        truth, found, ends, frames, status = run(gpu, steps, threads)
    finally:
        gpu.close()
    wrong, last = collections.Counter(), 0
    for size, sample in truth.items():
        rows, stack = frames.get(found.get(size), []), found.get(size)
        end = ends.get(stack, "missing")
        reason = compare(sample, rows) if end == "complete" else end
        wrong[reason] += 1
        last = max(last, size // SIZE_STEP if reason else 0)
        if reason and wrong[reason] <= 2:
            show(reason, sample, rows)
    right, native, python = wrong.pop(None, 0), [], []
    for sample in truth.values():
        native.append(len(sample.native) + sum(sample.loops_before))
        python.append(len(sample.python))
    print(f"{len(truth)} samples in {threads} threads, {len(set(found.values()))} stacks; complete and equal {right}"
          f" ({100 * right / len(truth):.3f} %), not {dict(wrong)}, the last is sample {last}; without the"
          f" GIL {sum(not sample.gil for sample in truth.values())}; median frames: native {statistics.median(native):.0f},"
          f" Python {statistics.median(python):.0f} ({sum(count == 0 for count in python)} without)")
    print(", ".join(f"{section} {name} {number}" for (section, name), number in status.items()))
    sys.exit(right < ENOUGH * len(truth))


main()
