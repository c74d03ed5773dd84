#!/usr/bin/env python3
"""The line of Python behind each kernel of a PyTorch loop (train.py), in both tiers, and with `light = exact`, where the
library walks the stacks itself: of 100 steps, every kernel's stack must reach a line of the program (forward, optimizer) or a
node of autograd (backward, which runs in a thread without Python), and nodes are to have the line of the forward pass that
made them; `leaks` must name the line that keeps a tensor. Prints how stacks ended, what each line and op cost, and whether
the library's walks and the kernel's are the same.

Usage: tests/gpu/lines.py [BUILD] (build/release), as root, with PyTorch; a minute. PROGRAM: another command.
"""
import collections
import json
import os
import statistics
import sys
import time

import gpu
from gpu import HERE, Program, check, wait_for

BUILD = gpu.build(sys.argv)
STEPS = int(os.environ.get("STEPS", "100"))
WARM_S = 5
PROGRAM = os.environ.get("PROGRAM", "").split() or ["python3", os.path.join(HERE, "train.py"), "900"]
SOURCE = os.path.basename(PROGRAM[1])
NODES = ("Backward", "AccumulateGrad", "autograd::Engine")
ENOUGH = 1.0
SHOWN = 5
KNOWN = 0.9  # of its stacks, once they have been seen
COMPARE_S = float(os.environ.get("COMPARE_S", "20"))
SETTINGS = "[probe]\nbudget = none\ntrap_limit = none\nlaunch_stacks = 1000000000\n"
PYTHON, BACKWARD = 1, 3


def kernels_between(daemon, pid, since, until):
    """Kernels by the stack that launched them."""
    return daemon.sql(f"SELECT stack, min(name) AS name, count(*) AS count FROM op WHERE pid = {pid} AND kind = 'launch'"
                      f" AND start_ns BETWEEN {int(since * 1e9)} AND {int(until * 1e9)} GROUP BY stack")


def frames_of(daemon, stack):
    return daemon.sql(f"SELECT kind, symbol, source, line FROM frame WHERE stack = {stack} ORDER BY depth, inlined")


def reached(frames):
    """What the stack says to its reader."""
    mark = ""
    for frame in frames:
        if frame["kind"] == BACKWARD:
            mark = f" {frame['symbol']}"
        if frame["kind"] == PYTHON and os.path.basename(frame["source"] or "") == SOURCE:
            return f"{SOURCE}:{frame['line']}{mark}"
    for frame in frames:
        if frame["kind"] != PYTHON and frame["symbol"] and any(node in frame["symbol"] for node in NODES):
            return "autograd"
    return None


def examine(tier, daemon, program):
    """After a number of steps whose launches are all stored."""
    time.sleep(WARM_S)
    first = len(program.samples)
    wait_for("the steps", lambda: len(program.samples) > first + STEPS + 1, 120)
    since, until = program.samples[first][0], program.samples[first + STEPS][0]
    time.sleep(3)  # bounds_wait: then the last ones are stored
    ends = {row["id"]: row["name"] for row in daemon.sql("SELECT stack.id, name FROM stack JOIN stack_end ON stack_end.id = ended")}
    kernels, by_end, by_line, without, depth = 0, collections.Counter(), collections.Counter(), [], []
    for row in kernels_between(daemon, program.pid, since, until):
        frames = frames_of(daemon, row["stack"]) if row["stack"] else []
        line = reached(frames)
        kernels += row["count"]
        by_end[ends.get(row["stack"], "none taken")] += row["count"]
        by_line[line or "nothing"] += row["count"]
        depth += [len(frames)] * row["count"]
        if not line:
            without.append((row, frames))
    print(f"\n{tier}: {kernels} kernels in {STEPS} steps, {len(by_line)} lines, {statistics.median(depth or [0]):.0f} frames"
          f" (median), {max(depth or [0])} (most); stacks ended: {dict(by_end)}")
    for line, count in by_line.most_common():
        print(f"  {count / STEPS:8.2f} a step  {line}")
    for row, frames in without[:SHOWN]:
        print(f"  without: {row['count']} of {row['name']}, {ends.get(row['stack'])}")
        for frame in frames:
            print(f"    {frame['symbol']} {frame['source'] or ''}")
    lost = sum(row["count"] for row, _ in without)
    check(f"{tier}: every kernel has its line or its node", kernels and (kernels - lost) / kernels >= ENOUGH, f"{lost} have not")
    check(f"{tier}: nodes have lines of the forward pass", any(line.endswith("[backward]") for line in by_line))
    return by_line


def unwinding(daemon, name):
    code, out, _ = daemon.ctl("status", "--json")
    return next((row for row in json.loads(out)["rows"] if (row["section"], row["name"]) == ("unwinding", name)), None)


def attach(daemon, program, *options):
    code, out, err = daemon.ctl("attach", program.pid, "--stacks", "all", *options)
    check("attached", code == 0, out + err)


def examine_inside(daemon, program):
    """Its library takes the stacks, but for the first ones of each kind."""
    code, out, err = daemon.ctl("detach", program.pid)
    check("detached", code == 0, out + err)
    daemon.configure(SETTINGS + "light = exact\n")
    time.sleep(1)
    attach(daemon, program)
    time.sleep(WARM_S)
    before, first = unwinding(daemon, "inside")["number"], len(program.samples)
    by_line = examine("exact tier, from inside", daemon, program)
    walked, steps = unwinding(daemon, "inside")["number"] - before, len(program.samples) - first
    launches = sum(by_line.values()) / STEPS
    print(f"  the library knew {walked / steps:.1f} stacks a step of {launches:.1f}")
    check("the library knows most of its stacks", walked / steps > KNOWN * launches)
    daemon.show("cost", program.pid)


def compare(program):
    """Each stack is walked by the library and by the kernel."""
    daemon = gpu.Daemon(BUILD, SETTINGS, TRACESMITH_CHECK_WALKS="1")
    attach(daemon, program, "--light")
    time.sleep(COMPARE_S)
    held = unwinding(daemon, "held")
    print(f"  compared for {COMPARE_S} s: {held['value']}")
    check("the library's stacks are the kernel's", not held["warning"])
    daemon.show("detach", program.pid)
    daemon.stop()


def main():
    print(gpu.machine())
    program = Program(*PROGRAM)
    daemon = gpu.Daemon(BUILD, SETTINGS)
    examine("probe tier", daemon, program)
    attach(daemon, program)
    examine("exact tier", daemon, program)
    examine_inside(daemon, program)
    for arguments in (("launches", "--by", "line"), ("launches", "--by", "op"), ("kernels",), ("syncs",)):
        daemon.show("query", *arguments, "--pid", program.pid, "--since", "10s")
    daemon.show("stack", program.pid, "--native", "--threads")
    leaks = daemon.query("leaks", "--min-age", "5s", "--pid", program.pid)["rows"]
    places = collections.Counter(row.get("where") for row in leaks)
    print("leaks:", dict(places))
    check("leaks names the program's line", any((place or "").find(SOURCE) >= 0 for place in places))
    daemon.show("query", "leaks", "--min-age", "5s", "--pid", program.pid)
    daemon.show("status")
    daemon.show("detach", program.pid)
    daemon.stop()
    compare(program)
    check("the program ended well", program.stop() == 0)


if __name__ == "__main__":
    gpu.run(main)
