#!/usr/bin/env python3
"""The probe tier on a real GPU: exact counts, a job that was running before, and what it costs.

Usage: tests/gpu/probe_tier.py [BUILD] (build/release), as root, with nvcc and PyTorch.
"""
import json
import os
import subprocess
import sys
import time

import gpu
from gpu import HERE, OUT, Program, check, compile_cuda, wait_for

BUILD = gpu.build(sys.argv)


def exact_counts():
    daemon = gpu.Daemon(BUILD)
    for runtime in ("shared", "static"):
        program = compile_cuda("known", "-cudart", runtime)
        done = subprocess.run([program], capture_output=True, text=True, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        pid = lines[-1]["pid"]
        wait_for("the end of the program", lambda: any(
            row["pid"] == pid and row["state"] == "ended" for row in daemon.query("processes")["rows"]))
        answer = daemon.query("apis", "--pid", pid)
        seen = {row["fn"]: row["calls"] for row in answer["rows"]}
        for line in lines[:-1]:
            fn, calls = line["fn"], line["calls"]
            check(f"{runtime} runtime: {fn}", seen.get(fn) == calls, f"called {calls}, seen {seen.get(fn)}")
        check(f"{runtime} runtime: nothing lost", not set(answer["loss"]) - {"unbound", "unknown-free"}, answer["loss"])
    print(daemon.ctl("status")[1])
    daemon.stop()


SETTINGS = {
    "probe, no stacks": "[probe]\nlaunch_stacks = 0\n",
    "probe (default)": "",
    "probe, all stacks": "[probe]\nlaunch_stacks = 1000000000\n",
}


def overhead(title, unit, program):
    running = []
    told = {}

    def on(name):
        running.append(gpu.Daemon(BUILD, SETTINGS[name]))

    def off(name):
        daemon = running.pop()
        if name == "probe, all stacks":
            told["loss"] = {row["reason"]: row["count"] for row in daemon.query("loss")["rows"]}
            told["stacks"] = daemon.sql("SELECT count(DISTINCT stack) AS n FROM frame")[0]["n"]
        daemon.stop()

    phases = {}
    for name in SETTINGS:
        phases[name] = (lambda name=name: on(name), lambda name=name: off(name))
    gpu.compare(title, unit, program, phases)
    check(f"{title}: the program ended well", program.stop() == 0)
    print("last round with all stacks:", told, flush=True)


def running_job(program):
    """A training loop that ran before the daemon did."""
    daemon = gpu.Daemon(BUILD)
    wait_for("the training loop", lambda: any(row["pid"] == program.pid for row in daemon.query("ps")["rows"]))
    time.sleep(3)
    launches = daemon.query("launches", "--pid", program.pid)
    total = sum(row["calls"] for row in launches["rows"])
    check("running PyTorch job: launches are seen", total > 1000, f"{total} in 3 s")
    wait_for("an allocation", lambda: daemon.query("leaks", "--pid", program.pid, "--min-age", "0s")["rows"], 30)
    for command in (["ps"], ["query", "launches", "--limit", "3"], ["query", "apis"], ["query", "memory"],
                    ["query", "leaks", "--min-age", "1s", "--limit", "2"], ["query", "syncs", "--limit", "2"],
                    ["query", "states", "--since", "20ms", "--limit", "10"]):
        daemon.show(*command)
    trace = os.path.join(OUT, "train.perfetto-trace")
    code, _, err = daemon.ctl("export", "--perfetto", "--since", "60ms", "-o", trace)
    check("export", code == 0, err)
    print(daemon.ctl("status")[1])
    daemon.stop()


def probe_cost():
    """tests/bench/bench_probe, where it was built: what a probe adds to an empty function."""
    bench = os.path.join(BUILD, "bench_probe")
    if os.path.exists(bench):
        print(subprocess.run([bench, os.path.join(BUILD, "libdriver.so")], capture_output=True, text=True).stdout, flush=True)


def main():
    print(gpu.machine())
    probe_cost()
    exact_counts()
    train = Program("python3", os.path.join(HERE, "train.py"), "600")
    running_job(train)
    overhead("training step, PyTorch, bound by launches", "ms a step", train)
    overhead("empty kernels back to back", "ns a launch", Program(compile_cuda("empty"), "600"))
    print(f"\n{len(gpu.failures)} failed; logs in {OUT}")
    return 1 if gpu.failures else 0


if __name__ == "__main__":
    sys.exit(main())
