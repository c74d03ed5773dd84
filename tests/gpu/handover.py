#!/usr/bin/env python3
"""A process in which torch.profiler was used before: attached while that is idle, it is recorded exactly and joined; the
profiler gets everything when it is used again, and afterwards; the program ends well. What it pays for that.

Usage: tests/gpu/handover.py [BUILD] (build/release), as root, with PyTorch; about 45 s, of which TURNS (4) take 4 s
each. PROGRAM: another command that understands what program() does. The last line is the verdict.
"""
import collections
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import gpu
import model
from gpu import OUT, check, wait_for

PROFILED, STEPS = 20, 200
TURNS = int(os.environ.get("TURNS", "4"))
WORK = ("kernel", "gpu_memcpy", "gpu_memset")  # in torch.profiler's traces
SUBMITS = ("Launch", "Memcpy", "Memset")


def profiled(step):
    """What torch.profiler saw of so many steps, by category, and how long it took to start and to stop."""
    from torch.profiler import ProfilerActivity, profile
    before = time.monotonic()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        started = time.monotonic()
        for _ in range(PROFILED):
            step()
        ended = time.monotonic()
    stopped = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        with open(file.name) as trace:
            events = json.load(trace)["traceEvents"]
    seen = collections.Counter()
    for event in events:
        category = event.get("cat", "")
        if category in WORK:
            seen[category] += 1
        elif category in ("cuda_runtime", "cuda_driver") and any(word in event["name"] for word in SUBMITS):
            seen[category] += 1
    return {"seen": seen, "start_ms": (started - before) * 1e3, "stop_ms": (stopped - ended) * 1e3}


def program():
    """Reads "profile", "steps N" and, to end, an empty line; answers each with a line of JSON."""
    import torch
    step = model.training(torch)
    print("{}", flush=True)
    for line in sys.stdin:
        words = line.split()
        if not words:
            break
        if words[0] == "profile":
            print(json.dumps(profiled(step)), flush=True)
            continue
        begin, took = time.monotonic_ns(), []
        for _ in range(int(words[1])):
            before = time.monotonic()
            step()
            took.append((time.monotonic() - before) * 1e3)
        print(json.dumps({"begin": begin, "end": time.monotonic_ns(), "ms": statistics.median(took)}), flush=True)


class Traced:
    def __init__(self):
        command = shlex.split(os.environ.get("PROGRAM", f"{sys.executable} {os.path.abspath(__file__)} --program"))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=open(os.path.join(OUT, "program.log"), "w"))
        self.pid = self.process.pid
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the program ended with {self.process.wait()}; see {OUT}/program.log")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(60)


def tier(daemon, pid):
    return next((row["tier"] for row in daemon.query("ps")["rows"] if row["pid"] == pid), None)


def steps(daemon, traced, title, per_step):
    """Every kernel, copy and set of these steps has its time and its call."""
    ran = traced.ask(f"steps {STEPS}")
    ops = f"FROM op WHERE pid = {traced.pid} AND kind IN ('launch', 'kernel', 'copy', 'set')"
    inside = f"{ops} AND exact AND gpu_start_ns BETWEEN {ran['begin']} AND {ran['end']}"

    def count(text):
        return daemon.sql(f"SELECT count(*) AS n {text}")[0]["n"]

    wanted = round(per_step * STEPS)
    end = time.monotonic() + 10
    while count(inside) < wanted and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(1)  # one too many would come, too
    check(f"{title}: all are exact", count(inside) == wanted, f"{count(inside)} of {wanted}")
    check(f"{title}: all are joined", not count(f"{inside} AND no_call"), f"{count(inside + ' AND no_call')} are not")
    late = count(f"{ops} AND NOT exact AND start_ns BETWEEN {ran['begin']} AND {ran['end']}")
    check(f"{title}: no call is without its work", not late, f"{late} are")
    backwards = count(f"{inside} AND gpu_start_ns < start_ns")
    check(f"{title}: none ran before its call", not backwards, f"{backwards} did")
    print(f"     {ran['ms']:.3f} ms a step", flush=True)


def profile(traced, title, seen):
    told = traced.ask("profile")
    check(f"{title}: torch.profiler sees what it saw alone", told["seen"] == seen, f"{told['seen']}")
    print(f"     it started in {told['start_ms']:.1f} ms and stopped in {told['stop_ms']:.1f} ms", flush=True)


def attach(daemon, pid, *options):
    code, out, err = daemon.ctl("attach", pid, *options)
    check("attached", code == 0, (out + err).strip().replace("\n", "; "))
    wait_for("recording to start", lambda: tier(daemon, pid) == "exact")


def price(daemon, traced):
    """Each way to record against the steps just before and after it, in one process."""
    ways = {"kernels, copies, calls": (), "kernels, copies": ("--records", "kernels,copies")}
    ratios = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, options in ways.items():
            before = traced.ask("steps 100")["ms"]
            daemon.ctl("attach", traced.pid, *options)
            wait_for("recording to start", lambda: tier(daemon, traced.pid) == "exact")
            during = traced.ask("steps 100")["ms"]
            daemon.ctl("detach", traced.pid)
            ratios[name].append(during / ((before + traced.ask("steps 100")["ms"]) / 2))
    for name, found in ratios.items():
        print(f"     {name:24} {statistics.median(found):.3f} of the time without ({' '.join(f'{r:.3f}' for r in found)})")


def main():
    traced = Traced()
    first = traced.ask("profile")
    seen = traced.ask("profile")["seen"]
    print(f"{gpu.machine()}\ntorch.profiler alone, {PROFILED} steps: {seen}, "
          f"started in {first['start_ms']:.1f} ms", flush=True)
    check("torch.profiler is steady", first["seen"] == seen, f"{first['seen']}")
    per_step = sum(seen.get(name, 0) for name in WORK) / PROFILED
    print(f"     {traced.ask(f'steps {STEPS}')['ms']:.3f} ms a step without TraceSmith")
    daemon = gpu.Daemon(gpu.build(sys.argv))
    print(f"     {traced.ask(f'steps {STEPS}')['ms']:.3f} ms a step in the probe tier")
    attach(daemon, traced.pid)
    for turn in ("first", "second"):
        steps(daemon, traced, f"{turn} turn", per_step)
        profile(traced, f"{turn} turn", seen)
        wait_for("us to go on", lambda: tier(daemon, traced.pid) == "exact")
    steps(daemon, traced, "last turn", per_step)
    loss = daemon.query("kernels", "--pid", traced.pid)["loss"]
    check("only the pauses are lost", not set(loss) - {"paused", "stack-sampled", "gap", "no-daemon", "unbound", "mapping"}, f"{loss}")
    code, out, err = daemon.ctl("detach", traced.pid)
    check("detached", code == 0, (out + err).strip().replace("\n", "; "))
    profile(traced, "detached", seen)
    price(daemon, traced)
    profile(traced, "attached and detached again and again", seen)
    daemon.stop()
    print(f"     {traced.ask(f'steps {STEPS}')['ms']:.3f} ms a step afterwards")
    profile(traced, "without a daemon", seen)
    check("the program ended well", traced.end() == 0)


if __name__ == "__main__":
    if "--program" in sys.argv:
        program()
    else:
        gpu.run(main)
