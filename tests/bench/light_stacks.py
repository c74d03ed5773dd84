"""Light_stacks: what the stacks of all launches cost a PyTorch program that trains on the CPU and is in light mode, where our
library walks them itself. Each of its tensors is a launch (torch_shim.c). In turns within one process: without us, light mode
without stacks, with all of them, and, by a daemon with TRACESMITH_CHECK_WALKS set, with all of them through the stub. Also how
many a step the library knew by itself, and what a walk takes by its own clock. Needs PyTorch for /usr/bin/python3.

Arguments: turns (default 7) and steps a turn (40)."""
import json
import os
import subprocess
import sys

import bench
import tracesmith
from tracesmith import BUILD, preloadable, wait_for

SHIM = os.path.join(BUILD, "tests/bench/libtorch_shim.so")
TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_turns.py")
SETTINGS = "[probe]\ntrap_limit = none\nunwind = eh-frame\n"
BUSY = 10  # turns, in which it is attached to
TOLD_STEPS = 1200  # until what a walk takes is told


class Program:
    def __init__(self):
        environment = dict(os.environ, LD_PRELOAD=preloadable(SHIM), OMP_NUM_THREADS="1", FAKE_CUDA_TIME_SCALE="0")
        self.process = subprocess.Popen(["/usr/bin/python3", "-B", TRAIN, SHIM, tracesmith.library()], env=environment,
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit("light_stacks: needs PyTorch for /usr/bin/python3")
        self.pid = self.process.pid

    def begin(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()

    def end(self):
        return map(int, self.process.stdout.readline().split())

    def turn(self, steps):
        """ns a step, and launches."""
        self.begin(steps)
        ns, launches = self.end()
        return ns / steps, launches / steps


def known(daemon):
    rows = json.loads(daemon.ctl("status", "--json").out)["rows"]
    return next(row["number"] for row in rows if (row["section"], row["name"]) == ("unwinding", "inside"))


def walk_ns(daemon, pid):
    cost = daemon.ctl("cost", pid, "--json")
    parts = json.loads(cost.out)["parts"] if cost.code == 0 else []
    return next((part["hit_ns"] for part in parts if part["part"] == "stacks-inside"), None)


def while_busy(program, steps, act):
    """What stops it needs a thread that runs."""
    program.begin(steps * BUSY)
    result = act()
    program.end()
    if result.code:
        raise SystemExit(result.err)


def states(daemon, program, steps, names, found):
    for stacks in names:
        while_busy(program, steps, lambda stacks=stacks: daemon.ctl("attach", program.pid, "--light", "--stacks", stacks))
        program.turn(steps)  # its stacks become known
        before = known(daemon)
        ns, launches = program.turn(steps)
        share = (known(daemon) - before) / (launches * steps)
        if stacks == "all" and names[1:]:
            program.turn(TOLD_STEPS)
        found.setdefault(stacks if names[1:] else "stub", []).append((ns, share, walk_ns(daemon, program.pid)))
        while_busy(program, steps, lambda: daemon.ctl("detach", program.pid))
    return launches


def main():
    bench.require_root()
    turns, steps = (int(argument) for argument in (sys.argv[1:] + ["7", "40"][len(sys.argv) - 1:]))
    print(bench.machine())
    program, found, launches = Program(), {}, 0
    for _ in range(turns):
        for check, names in ((False, ("none", "all")), (True, ("all",))):
            found.setdefault("off", []).append((program.turn(steps)[0], 0, None))
            os.environ.pop("TRACESMITH_CHECK_WALKS", None)
            if check:
                os.environ["TRACESMITH_CHECK_WALKS"] = "1"
            daemon = tracesmith.Daemon(SETTINGS).start()
            try:
                wait_for("the program", lambda: (program.turn(1), daemon.known(program.pid))[1])
                launches = states(daemon, program, steps, names, found)
            finally:
                daemon.close()
    program.process.stdin.close()
    program.process.wait()
    print(f"{launches:.0f} launches a step")
    table = bench.Table("stacks", "step ms", "over none, ns a launch", "known inside", "walk ns", "load")
    none = bench.median([ns for ns, _, _ in found["none"]])
    for name in ("off", "none", "all", "stub"):
        ns = bench.median([ns for ns, _, _ in found[name]])
        walks = [walk for _, _, walk in found[name] if walk]
        table.row(name, f"{ns / 1e6:.3f}", f"{(ns - none) / launches:+.0f}",
                  f"{bench.median([share for _, share, _ in found[name]]):.1%}", f"{bench.median(walks):.0f}" if walks else "",
                  bench.load_average())


main()
