#!/usr/bin/env python3
"""What TraceSmith costs a program, true and told: in many short turns within one running process, each held
against the turns just before and just after it in which the process has no probes and no library in it. That is
the daemon's own doing: a process that runs into probes more often than `trap_limit` allows is left out of them.

Programs: train (PyTorch, bound by launches), large (bound by the GPU), graph (CUDA graphs), empty (empty kernels
back to back), threads (the same from 8 threads). States: within the default budget, watched whole, recorded
in light mode, exactly, and exactly with the stack of each launch, and both of these also with `light = exact` (inside,
inside_all: the probes of launches are not in the process); then for longer exactly with --budget 3%, and without TraceSmith
torch.profiler with CUDA. `told` is what `tsctl cost` said, of the last round. In graph CUPTI stays, switched off, after
the first exact turn, also in the turns without anything.

Usage: tests/gpu/price.py [BUILD] [PROGRAM…] (build/release; all), as root, with nvcc and PyTorch. ROUNDS (8),
TURN_S (0.6), LONG_S (12, of a turn with --budget 3%; 0: none),
STATES (those of the program).
"""
import json
import os
import random
import signal
import statistics
import sys
import time

import gpu
from gpu import HERE, OUT, Program, check, compile_cuda

BUILD = gpu.build(sys.argv)
ROUNDS = int(os.environ.get("ROUNDS", "8"))
TURN_S = float(os.environ.get("TURN_S", "0.6"))
LONG_S = float(os.environ.get("LONG_S", "12"))
LONG_ROUNDS = 3
SETTLE_S = 0.2  # after a switch
IN_S = 1.5  # until it is in windows again, whose price is known
OUT_S = 1.5  # until a process is left out: that is looked at once a second
LOW, HIGH = 1 / 8, 7 / 8  # quantiles of rounds
SETTINGS = "[probe]\nbudget = 1%\ntrap_limit = {}\nlight = {}\n"
ATTACH = {"light": ("--light",), "stacks": ("--stacks", "all"), "inside_all": ("--stacks", "all"), "3%": ("--budget", "3%")}
INSIDE = ("light", "inside", "inside_all")
TRIES = 20
PROGRAMS = {
    "train": ("PyTorch step", "ms", "default whole light exact inside stacks inside_all", True),
    "large": ("PyTorch step bound by the GPU", "ms", "default whole light exact inside", True),
    "graph": ("PyTorch step as a CUDA graph", "ms", "default whole light exact inside", True),
    "empty": ("empty kernels back to back", "ns a launch", "default whole light exact inside", False),
    "threads": ("empty kernels from 8 threads", "ns a launch", "default whole light exact inside", False),
}


class Turns:
    """The program's pace in turns, each between two turns without anything."""

    def __init__(self, program):
        self.program = program
        self.off = []

    def mean(self, since, until):
        if self.program.process.poll() is not None:
            raise SystemExit(f"the program has ended with {self.program.process.returncode}; logs in {OUT}")
        return statistics.mean(value for at, value in self.program.samples if since <= at < until)

    def turn(self, seconds):
        since = time.monotonic()
        time.sleep(seconds)
        return self.mean(since, time.monotonic())

    def between(self, on, off, seconds=TURN_S):
        """`on` and `off` switch, and return when that is done."""
        if not self.off:
            off()
            self.off.append(self.turn(TURN_S))
        on()
        pace = self.turn(seconds)
        off()
        self.off.append(self.turn(TURN_S))
        return 2 * pace / (self.off[-2] + self.off[-1]) - 1


class Tracer:
    def __init__(self, pid):
        self.pid = pid
        self.daemon = gpu.Daemon(BUILD, SETTINGS.format("none", "request"))
        self.attached = False

    def configure(self, limit, light="request"):
        with open(os.path.join(self.daemon.directory, "conf"), "w") as file:
            file.write(SETTINGS.format(limit, light))
        self.daemon.process.send_signal(signal.SIGHUP)

    def say(self, *arguments):
        code, out, err = self.daemon.ctl(*arguments)
        if code:
            check(" ".join(map(str, arguments)), False, out + err)

    def off(self):
        if self.attached:
            self.say("detach", self.pid)
        self.attached = False
        self.say("budget", self.pid, "default")
        self.configure("0.0001%")
        time.sleep(OUT_S)

    def attach(self, state):
        """Settings are reread a moment after they were asked for."""
        for _ in range(TRIES):
            code, out, err = self.daemon.ctl("attach", self.pid, "--json", *ATTACH.get(state, ()))
            if code:
                break
            if (json.loads(out)["light_functions"] > 0) == (state in INSIDE):
                self.attached = True
                return
            self.say("detach", self.pid)
            time.sleep(0.1)
        check(f"attached to as wanted: {state}", False, out + err)

    def on(self, state):
        self.configure("none", "exact" if state.startswith("inside") else "request")
        if state in ("default", "whole"):
            self.say("budget", self.pid, "none" if state == "whole" else "default")
        else:
            self.attach(state)
        time.sleep(IN_S if state == "default" else SETTLE_S)

    def cost(self):
        code, out, _ = self.daemon.ctl("cost", self.pid, "--json")
        return json.loads(out) if code == 0 else None

    def settle(self, turns=8, seconds=40):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            cost = self.cost()
            if cost and any(part["turns"] >= turns for part in cost["parts"]):
                return
            time.sleep(0.5)


def percent(ppm):
    return "-" if ppm is None else f"{ppm / 1e4:+.2f}"


def told(cost):
    if not cost:
        return "told nothing"
    parts = ", ".join(f"{part['part']} {percent(part['cost'])}{'' if part['measured'] else ' estimated'}"
                      for part in cost["parts"])
    return f"told {percent(cost['cost'])} ({percent(cost['low'])} to {percent(cost['high'])}) %: {parts}"


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def show(state, found, said=""):
    if found:
        print(f"  {state:10} {statistics.median(found):+8.2%} ({quantile(found, LOW):+.2%} to {quantile(found, HIGH):+.2%})"
              f"  mean {statistics.mean(found):+.2%}, {len(found)} turns   {said}", flush=True)


def profile(turns, program):
    def switch(line):
        program.say(line)
        gpu.wait_for("torch.profiler", lambda: program.comments and program.comments[-1] == line)
        time.sleep(SETTLE_S)

    turns.off = []
    return [turns.between(lambda: switch("profile cuda"), lambda: switch("profile off")) for _ in range(ROUNDS)]


def price(name, program):
    title, unit, states, pytorch = PROGRAMS[name]
    found, said = {}, {}
    turns = Turns(program)
    time.sleep(1)
    tracer = Tracer(program.pid)
    tracer.settle()
    states = os.environ.get("STATES", states).split()
    for _ in range(ROUNDS):
        for state in random.sample(states, len(states)):
            ratio = turns.between(lambda: tracer.on(state), tracer.off)
            found.setdefault(state, []).append(ratio)
    if LONG_S:
        for _ in range(LONG_ROUNDS):
            def on():
                tracer.on("3%")
                tracer.settle(6, 20)
            found.setdefault("exact 3%", []).append(turns.between(on, tracer.off, LONG_S))
            said["exact 3%"] = ""
    tracer.configure("none")
    time.sleep(OUT_S)
    for state in ("whole", "default"):
        tracer.on(state)
        tracer.settle(8, 12)
        said[state] = told(tracer.cost())
    tracer.daemon.stop()
    off = statistics.median(turns.off)
    if pytorch and name != "large":
        found["profiler"] = profile(turns, program)
    print(f"\n{title}: off {off:.4f} {unit}")
    for state, ratios in found.items():
        show(state, ratios, said.get(state, ""))
    check(f"{title}: the program ended well", program.stop() == 0)


def main():
    print(gpu.machine())
    for name in sys.argv[2:] or PROGRAMS:
        begin = time.monotonic()
        if name in ("empty", "threads"):
            program = Program(compile_cuda("empty", "-std=c++17"), "900", "8" if name == "threads" else "1")
        else:
            program = Program("python3", os.path.join(HERE, "train.py"), "900", *([] if name == "train" else [f"--{name}"]))
        price(name, program)
        print(f"  {time.monotonic() - begin:.0f} s", flush=True)
    print(f"\n{len(gpu.failures)} failed; logs in {OUT}")
    return 1 if gpu.failures else 0


if __name__ == "__main__":
    sys.exit(main())
