#!/usr/bin/env python3
"""Recordings on a real GPU: emulated, they are as they were; what-ifs are compared with variants of the program that
really do what was asked; issued again on the GPU, they take as long and overlap as much.

Usage: tests/gpu/replay.py [BUILD] [PART…] (build/release; same predict issue), as root, with nvcc.
"""
import json
import os
import subprocess
import sys

import gpu
from gpu import OUT, check, compile_cuda

BUILD = gpu.build(sys.argv)
STEPS = int(os.environ.get("STEPS", "50"))
SIZE = int(os.environ.get("SIZE", "1024"))
RUNS = int(os.environ.get("RUNS", "5"))

# What-ifs of the base program, and the variant that does so: name, options of replay, arguments of the variant. Half
# the size of a side is an eighth of a multiplication and a quarter of all else.
PREDICTIONS = (
    ("copies on a second stream", ("--streams", 2, "--no-sync"), ("overlap", STEPS, SIZE)),
    ("half the size", ("--scale", "kernel=multiply:0.125", "--scale", "kernel=add:0.25", "--scale", "copy:0.25"),
     ("base", STEPS, SIZE // 2)),
    ("graphs", ("--graph",), ("graph", STEPS, SIZE)),
)


def record(daemon, name, *command):
    path = os.path.join(OUT, name + ".sbt")
    code, out, err = daemon.ctl("record", "-o", path, "--", *command)
    check(f"record {name}", code == 0, err.strip()[-300:])
    return path


def answer(daemon, *arguments):
    code, out, err = daemon.ctl(*arguments, "--json")
    if code:
        print(f"$ tsctl {' '.join(map(str, arguments))}: {code}\n{err}", flush=True)
    try:
        return json.loads(out)
    except ValueError:
        return {}


def span(daemon, path):
    """From the first to the last work on the device, in nanoseconds."""
    code, out, err = daemon.ctl("sql", "--file", path, "--json",
                                "SELECT max(gpu_end_ns) - min(gpu_start_ns) AS ns FROM op WHERE exact"
                                " AND kind IN ('launch', 'kernel', 'copy')")
    check(f"read {os.path.basename(path)}", code == 0, err.strip())
    return json.loads(out)["rows"][0]["ns"] if code == 0 else 0


def measured(daemon, program, *arguments):
    """The shortest of several runs of a variant."""
    return min(span(daemon, record(daemon, f"variant-{arguments[0]}-{number}", program, *arguments))
               for number in range(RUNS))


def same(daemon, program):
    for variant in ("base", "overlap", "graph", "streams"):
        first = record(daemon, f"{variant}-1", program, variant, STEPS, SIZE)
        second = record(daemon, f"{variant}-2", program, variant, STEPS, SIZE)
        emulated = answer(daemon, "replay", "--check", first)
        check(f"{variant}: as its emulation", emulated.get("same"), f"durations p99 {emulated.get('p99_ppm')} ppm")
        again = answer(daemon, "replay", "--check", first, second)
        check(f"{variant}: two runs do the same", again.get("same"),
              [one["text"] for one in again.get("differences", [])][:3])
        daemon.show("replay", first, "--emulate")
        code = daemon.show("diff", first, second, "--fail-over", "10%", "--limit", 5)
        check(f"{variant}: two runs take as long", code == 0)


def predict(daemon, program):
    base = record(daemon, "base", program, "base", STEPS, SIZE)
    for name, options, arguments in PREDICTIONS:
        path = os.path.join(OUT, f"predicted-{arguments[0]}-{arguments[2]}.sbt")
        daemon.show("replay", base, *options, "-o", path)
        predicted, truth = span(daemon, path), measured(daemon, program, *arguments)
        print(json.dumps({"prediction": name, "predicted_ms": predicted / 1e6, "measured_ms": truth / 1e6}), flush=True)
        check(f"{name}: within 10 %", predicted and truth and abs(predicted / truth - 1) <= 0.1,
              f"{predicted / max(truth, 1) - 1:+.1%}")


def issue(daemon, program):
    for variant in ("base", "overlap", "graph", "streams"):
        path = record(daemon, f"issue-{variant}", program, variant, STEPS, SIZE)
        report = answer(daemon, "replay", "--on-gpu", path, "-o", os.path.join(OUT, f"issued-{variant}.sbt"))
        print(json.dumps({"variant": variant, **report}), flush=True)
        if not report:
            check(f"{variant}: issued again", False)
            continue
        longer = report["replayed_ns"] / report["recorded_ns"] - 1
        check(f"{variant}: makespan within 5 %", abs(longer) <= 0.05, f"{longer:+.1%}")
        check(f"{variant}: every stream in order", report["streams_in_order"] == report["streams"])
        overlap = report["replayed_overlap"] - report["recorded_overlap"]
        check(f"{variant}: overlaps as much", abs(overlap) <= 0.05, f"{overlap:+.3f}")
        check(f"{variant}: durations at the 99th percentile within 10 %", report["p99_ppm"] <= 100000, report["p99_ppm"])


PARTS = {"same": same, "predict": predict, "issue": issue}

if __name__ == "__main__":
    print(gpu.machine())
    steps = compile_cuda("steps", "-O3")
    for part in sys.argv[2:] or PARTS:
        tracing = gpu.Daemon(BUILD)
        PARTS[part](tracing, steps)
        tracing.stop()
    print("failed:", gpu.failures or "nothing")
    sys.exit(bool(gpu.failures))
