#!/usr/bin/env python3
"""What TraceSmith costs a program, true and told: in many short turns within one running process, each held
against turns next to it in which the process has no probes and no library in it. That is
the daemon's own doing: a process that runs into probes more often than `trap_limit` allows is left out of them.

Each turn of `default` starts with a price that is not known, for which a third of the calls is watched; `settled` are
longer turns in which it is known: what share of the calls is then watched, `events` say better than its pace.

Programs: train (PyTorch, bound by launches), fresh (the same, several times from its start: exact, and then the first
use of torch.profiler, what it leaves behind, and its second use, against turns before them), large (bound by the GPU), graph
(CUDA graphs), empty (empty kernels back to back), threads (the same from 8 threads).

States: within the default budget, watched whole, with an empty probe on each frequent function instead of ours, recorded
in light mode, and there with the stack of each launch (light_all), exactly, and exactly with the stack of each launch, and
both of these also with `light = exact` (inside, inside_all: the probes of launches are not in the process); in train also by torch.profiler with CUDA, which takes CUPTI
out after each turn, as TraceSmith does (TEARDOWN_CUPTI=1); then in longer turns `settled` and, PyTorch only, exactly with
--budget 3%. `events`: how many of the probes a second reached the daemon; `told`: what `tsctl cost` said of the last turn,
and what it foretold for whole and exact. In graph CUPTI stays, switched off, after the first exact turn, also in the
turns without anything, and torch.profiler comes last, without TraceSmith.

Usage: tests/gpu/price.py [BUILD] [PROGRAM…] (build/release; all), as root, with nvcc and PyTorch. ROUNDS (8), TURN_S (0.5),
LONG_S (10, of the turns settled and with --budget 3%; 0: none), LONGS (3: how many of them), LIMIT_S (0: none): all programs
together take no longer, with fewer rounds if that is too little; STATES (those of the program). The last line is the verdict.
"""
import json
import os
import random
import statistics
import sys
import time

import gpu
from empty_probe import EmptyProbe, hot_functions, mapped_code
from gpu import HERE, OUT, Program, check, compile_cuda, wait_for

BUILD = gpu.build(sys.argv)
ROUNDS = int(os.environ.get("ROUNDS", "8"))
TURN_S = float(os.environ.get("TURN_S", "0.5"))
LONG_S = float(os.environ.get("LONG_S", "10"))
LONGS = int(os.environ.get("LONGS", "3"))
LIMIT_S = float(os.environ.get("LIMIT_S", "0")) or float("inf")
TRAIN = os.environ.get("PROGRAM", "").split() or ["python3", os.path.join(HERE, "train.py"), "900"]
LONG_OFF_S = LONG_S / 4
FRESH_S = 2
LONG_SETTLE_S, LAST_S, PROFILE_S = 20, 8, 14  # until a price is known, the last one; torch.profiler
SETTLE_S = 0.15  # after a switch
IN_S = 1.5  # until it is in windows again, whose price is known; until its library knows its stacks
LOW, HIGH = 1 / 8, 7 / 8  # quantiles of rounds
# Tensors have a price of their own (tensors.py), and a process without a budget would pay it.
SETTINGS = "[probe]\nbudget = 1%\ntensors = no\ntrap_limit = {}\nlight = {}\n"
ATTACH = {"light": ("--light",), "light_all": ("--light", "--stacks", "all"), "stacks": ("--stacks", "all"), "inside_all": ("--stacks", "all"), "3%": ("--budget", "3%")}
INSIDE = ("light", "light_all", "inside", "inside_all")
TRIES = 20
PROGRAMS = {  # title, unit, states, whether it is PyTorch, share of LIMIT_S
    "train": ("PyTorch step", "ms", "default whole empty-probe light light_all exact inside stacks inside_all profiler", True, 28),
    "fresh": ("", "", "", True, 12),
    "large": ("PyTorch step bound by the GPU", "ms", "default whole light exact", True, 24),
    "graph": ("PyTorch step as a CUDA graph", "ms", "default whole light exact", True, 22),
    "empty": ("empty kernels back to back", "ns a launch", "default whole empty-probe light exact", False, 14),
    "threads": ("empty kernels from 8 threads", "ns a launch", "default whole empty-probe light exact", False, 14),
}


class Turns:
    """The program's pace in turns: up to two between two without anything."""

    def __init__(self, program, events=lambda: 0):
        self.program, self.events = program, events
        self.off, self.seen = [], []

    def mean(self, since, until):
        if self.program.process.poll() is not None:
            raise SystemExit(f"the program has ended with {self.program.process.returncode}; logs in {OUT}")
        values = [value for at, value in self.program.samples if since <= at < until]
        return statistics.mean(values) if values else float("nan")

    def turn(self, seconds):
        since = time.monotonic()
        time.sleep(seconds)
        return self.mean(since, time.monotonic())

    def between(self, switches, off, off_s=TURN_S):
        """Pairs of what switches a state on and for how many seconds; `off` switches all off. They return when that is
        done. The nearer turn without anything counts more."""
        if not self.off or off_s > TURN_S:
            off()
            self.off.append(self.turn(off_s))
        paces = []
        self.seen = []
        for on, seconds in switches:
            on()
            before = self.events()
            paces.append(self.turn(seconds))
            self.seen.append((self.events() - before) / seconds)
        off()
        self.off.append(self.turn(off_s))
        before, after = self.off[-2:]
        steps = len(paces) + 1
        return [pace / (before + (after - before) * n / steps) - 1 for n, pace in enumerate(paces, 1)]


class Tracer:
    def __init__(self, program):
        self.program, self.pid = program, program.pid
        self.daemon = gpu.Daemon(BUILD, SETTINGS.format("none", "request"))
        self.attached, self.probe, self.profiles = False, None, False
        path = mapped_code(self.pid)[0]
        self.code = path, hot_functions(self.daemon, path)

    def configure(self, limit, light="request"):
        self.daemon.configure(SETTINGS.format(limit, light))

    def say(self, *arguments):
        code, out, err = self.daemon.ctl(*arguments)
        if code:
            check(" ".join(map(str, arguments)), False, out + err)

    def status(self):
        code, out, _ = self.daemon.ctl("status", "--json")
        return {(row["section"], row["name"]): row["value"] for row in json.loads(out)["rows"]} if code == 0 else {}

    def events(self):
        return int(self.status()["probes", "events"].split()[0])

    def has_probes(self):
        """None: some."""
        said = self.status().get(("probes", f"process {self.pid}"))
        return True if said is None else None if "launches" in said or "allocations" in said else False

    def clear(self):
        if self.profiles:
            profile_switch(self.program, "profile off")
            self.profiles = False
        if self.probe:
            self.probe.close()
            self.probe = None
        if self.attached:
            self.say("detach", self.pid)
        self.attached = False

    def off(self):
        """Watched whole, it runs into both kinds of probes, and so is left out of both."""
        self.clear()
        self.say("budget", self.pid, "none")
        self.configure("0.0001%")
        wait_for("the process to be left out", lambda: self.has_probes() is False)
        time.sleep(SETTLE_S)

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
        if state == "profiler":
            self.off()
            profile_switch(self.program, "profile cuda")
            self.profiles = True
            return
        if state == "empty-probe":
            self.off()
            self.probe = EmptyProbe(self.pid, *self.code)
            time.sleep(SETTLE_S)
            return
        self.clear()
        self.configure("none", "exact" if state.startswith("inside") else "request")
        wait_for("the process to be watched again", self.has_probes)
        self.say("budget", self.pid, "default" if state in ("default", "3%") else "none")
        if state not in ("default", "whole"):
            self.attach(state)
        time.sleep(IN_S if state in ("default", "light_all", "inside_all") else SETTLE_S)

    def cost(self):
        code, out, _ = self.daemon.ctl("cost", self.pid, "--json")
        return json.loads(out) if code == 0 else None

    def settle(self, turns=8, seconds=40, name=""):
        """Waits until the part of that name, or any without one, was measured in this many turns."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            cost = self.cost()
            if cost and any(part["turns"] >= turns and name in part["part"] for part in cost["parts"]):
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


def told_whole(cost, part):
    """What it would be if all of it were watched, as those windows tell."""
    for each in cost["parts"] if cost else []:
        if each["part"] == part:
            return f"told {percent(each['whole'])} ({percent(each['whole_low'])} to {percent(each['whole_high'])}) %"
    return "told nothing"


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def show(state, found, events, said=""):
    if found:
        print(f"  {state:11} {statistics.median(found):+8.2%} ({quantile(found, LOW):+.2%} to {quantile(found, HIGH):+.2%})"
              f"  mean {statistics.mean(found):+.2%}, {len(found)} turns, {events:.0f} events   {said}", flush=True)


def profile_switch(program, line):
    program.say(line)
    wait_for("torch.profiler", lambda: program.comments and program.comments[-1] == line)
    time.sleep(SETTLE_S)


def profile(program, until):
    turns, found = Turns(program), []
    while len(found) < ROUNDS and time.monotonic() < until:
        found += turns.between([(lambda: profile_switch(program, "profile cuda"), TURN_S)],
                               lambda: profile_switch(program, "profile off"))
    return found


def measure(turns, tracer, states, until):
    """By state: the ratios of its turns, and events a second in them."""
    found, events = {}, {}
    for _ in range(ROUNDS):
        order = random.sample(states, len(states))
        while order:
            pair, order = order[:2], order[2:]
            if time.monotonic() > until:
                return found, events
            ratios = turns.between([(lambda state=state: tracer.on(state), TURN_S * (2 if state == "default" else 1))
                                    for state in pair], tracer.off)
            for state, ratio, seen in zip(pair, ratios, turns.seen):
                found.setdefault(state, []).append(ratio)
                events.setdefault(state, []).append(seen)
    return found, events


def measure_longs(turns, tracer, states, found, events, said):
    """Turns in which the price is known, one state after the other. `told` is of the last turn of each."""
    def on(state):
        tracer.on("default" if state == "settled" else "3%")
        tracer.settle(6, LONG_SETTLE_S, "probes" if state == "settled" else "exact")

    def off(state):
        """The first one of a turn is of whatever was before it; the second one stays."""
        costs[state] = tracer.cost()
        tracer.off()

    costs = {}
    for _ in range(LONGS):
        for state in states:
            ratios = turns.between([(lambda: on(state), LONG_S)], lambda: off(state), LONG_OFF_S)
            found.setdefault(state, []).extend(ratios)
            events.setdefault(state, []).extend(turns.seen)
    for state, cost in costs.items():
        said[state] = told(cost)
    said["whole"] = told_whole(costs.get("settled"), "probes")
    said["exact"] = told_whole(costs.get("exact 3%"), "exact")


def settle_last(tracer, said):
    tracer.on("default")
    tracer.settle(6, LAST_S - 3)
    cost = tracer.cost()
    said["default"], said["whole"] = told(cost), told_whole(cost, "probes")
    tracer.off()


def price(name, program, until):
    title, unit, states, pytorch, _ = PROGRAMS[name]
    states = os.environ.get("STATES", states).split()
    profiled_last = name == "graph"
    tracer, said = Tracer(program), {}
    turns = Turns(program, tracer.events)
    tracer.settle(6, 15)
    longs = ("settled", "exact 3%") if pytorch else ("settled",)
    long_s = LONGS * len(longs) * (LONG_S + 2 * LONG_OFF_S + LONG_SETTLE_S * 0.7) if LONG_S else LAST_S
    found, events = measure(turns, tracer, states, until - long_s - (PROFILE_S if profiled_last else 0))
    if LONG_S:
        measure_longs(turns, tracer, longs, found, events, said)
    else:
        settle_last(tracer, said)
    tracer.daemon.stop()
    off = statistics.median(turns.off), quantile(turns.off, LOW), quantile(turns.off, HIGH)
    if profiled_last:
        found["profiler"] = profile(program, until)
    print(f"\n{title}: off {off[0]:.4f} {unit} ({off[1]:.4f} to {off[2]:.4f})")
    for state, ratios in found.items():
        show(state, ratios, statistics.median(events.get(state, [0])), said.get(state, ""))
    if "settled" in found and "whole" in found:
        share = statistics.median(events["settled"]) / (statistics.median(events["whole"]) or 1)
        print(f"  settled: {share:.1%} of the events of whole, which take {share * statistics.median(found['whole']):+.2%}")
    check(f"{title}: the program ended well", program.stop() == 0)


def fresh_program(found):
    program = Program(*TRAIN)
    tracer, turns = Tracer(program), Turns(program)
    wait_for("the daemon to know the program", tracer.cost)
    tracer.off()
    for state in ("exact", "inside"):
        ratios = turns.between([(lambda state=state: tracer.on(state), FRESH_S)], tracer.off, FRESH_S)
        found.setdefault(state, []).extend(ratios)
    tracer.daemon.stop()
    before = turns.turn(FRESH_S)
    for line, state in (("profile cuda", "profiler"), ("profile off", "afterwards"), ("profile cuda", "once more")):
        profile_switch(program, line)
        found.setdefault(state, []).append(turns.turn(FRESH_S) / before - 1)
    profile_switch(program, "profile off")
    check("a fresh PyTorch program ended well", program.stop() == 0)


def fresh(until):
    found, took = {}, 0
    for _ in range(ROUNDS):
        begin = time.monotonic()
        if begin + took > until:
            break
        fresh_program(found)
        took = time.monotonic() - begin
    print("\nPyTorch step, in programs of their own, against turns before it")
    for state, ratios in found.items():
        show(state, ratios, 0, " ".join(f"{ratio:+.1%}" for ratio in ratios))


def main():
    print(gpu.machine())
    names, end = sys.argv[2:] or list(PROGRAMS), time.monotonic() + LIMIT_S
    left = {name: PROGRAMS[name][-1] for name in names}
    for name in names:
        begin = time.monotonic()
        until = begin + (end - begin) * left[name] / sum(left.values())
        del left[name]
        if name == "fresh":
            fresh(until)
            continue
        if name in ("empty", "threads"):
            program = Program(compile_cuda("empty", "-std=c++17"), "900", "8" if name == "threads" else "1")
        else:
            env = dict(os.environ, TEARDOWN_CUPTI="1") if name == "train" else None
            program = Program(*TRAIN, *([] if name == "train" else [f"--{name}"]), env=env)
        try:
            price(name, program, until)
        except (SystemExit, Exception) as error:
            check(name, False, f"{type(error).__name__}: {error}")
            for process in (*gpu.Daemon.running, program.process):
                process.kill()
        print(f"  {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    gpu.run(main)
