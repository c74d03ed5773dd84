#!/usr/bin/env python3
"""Recordings on a real GPU: emulated, they are as they were; what-ifs are compared with variants of the program that
really do what was asked; issued again on the GPU, they take as long and overlap as much.

Usage: tests/gpu/replay.py [BUILD] [PART…] (build/release; same train predict issue), as root, with nvcc.
"""
import json
import os
import statistics
import subprocess
import sys

import gpu
from gpu import OUT, check, compile_cuda

BUILD = gpu.build(sys.argv)
STEPS = int(os.environ.get("STEPS", "50"))
RUNS = int(os.environ.get("RUNS", "5"))
WARM = 2  # steps that each variant begins with

# Of steps.cu: the size of the matrices, how many pairs of kernels, and MiB of the copy.
PLAIN = (1024, 8, 4)
BOUND_BY_COPIES = (1024, 2, 32)
BOUND_BY_LAUNCHES = (64, 32, 1)
LARGE, HALF = (2048, 8, 16), (1024, 8, 4)

# What-ifs of the base program, and the variant that really does so: name, recorded, options of replay, variant. Half
# the length of a side is an eighth of a multiplication and a quarter of all else.
PREDICTIONS = (
    ("copies on a second stream", BOUND_BY_COPIES, ("--streams", 2, "--no-sync"), ("overlap", BOUND_BY_COPIES)),
    ("half the size", LARGE, ("--scale", "kernel=multiply:0.125", "--scale", "kernel=add:0.25", "--scale", "copy:0.25"),
     ("base", HALF)),
    ("graphs", BOUND_BY_LAUNCHES, ("--graph",), ("graph", BOUND_BY_LAUNCHES)),
)

WORK = "exact AND kind IN ('launch', 'kernel', 'copy', 'graph')"


def record(daemon, name, *command, options=()):
    """The path of the recording, and what the program said last."""
    path = os.path.join(OUT, name + ".sbt")
    quiet, held = os.pipe()  # nothing is said to it, and its input does not end
    done = subprocess.run(daemon.command("record", "-o", path, *options, "--", *command), stdin=quiet, capture_output=True,
                          text=True)
    os.close(quiet)
    os.close(held)
    check(f"record {name}", done.returncode == 0, done.stderr.strip()[-300:])
    return path, (done.stdout.strip().splitlines() or [""])[-1]


def record_steps(daemon, program, variant, shape, number=0, options=()):
    return record(daemon, f"{variant}-{'-'.join(map(str, shape))}-{number}", program, variant, str(STEPS),
                  *map(str, shape), options=options)


def answer(daemon, *arguments):
    code, out, err = daemon.ctl(*arguments, "--json")
    if code:
        print(f"$ tsctl {' '.join(map(str, arguments))}: {code}\n{err}", flush=True)
    try:
        return json.loads(out)
    except ValueError:
        return {}


def span(daemon, path, skip):
    """From the work after the first ones to the last one on the device, in nanoseconds."""
    rows = answer(daemon, "sql", "--file", path,
                  f"SELECT max(gpu_end_ns) - (SELECT gpu_start_ns FROM op WHERE {WORK} ORDER BY gpu_start_ns"
                  f" LIMIT 1 OFFSET {skip}) AS ns FROM op WHERE {WORK}").get("rows")
    return rows[0]["ns"] or 0 if rows else 0


def span_of_steps(daemon, path, shape):
    return span(daemon, path, WARM * (1 + 2 * shape[1]))


def emulates(daemon, name, path):
    """Unchanged, a recording comes out as it was."""
    said = answer(daemon, "replay", path, "--emulate")
    print(json.dumps({"emulated": name, "notes": said.get("notes"), **said.get("emulated", {})}), flush=True)
    if not check(f"{name}: emulated", "emulated" in said):
        return
    error = said["emulated"]
    recorded, emulated = error["recorded_ns"], error["emulated_ns"]
    check(f"{name}: makespan within 2 %", abs(emulated - recorded) <= 0.02 * recorded, f"{emulated / recorded - 1:+.3%}")
    check(f"{name}: starts within 5 % of it at the 99th percentile", error["start_p99_ns"] <= 0.05 * recorded,
          f"{error['start_p99_ns']} ns")
    check(f"{name}: every stream in order", error["disorder"] == 0)
    daemon.show("info", path)


def same(daemon, program):
    for variant in ("base", "overlap", "graph", "streams"):
        first, _ = record_steps(daemon, program, variant, PLAIN, 1)
        second, _ = record_steps(daemon, program, variant, PLAIN, 2)
        emulates(daemon, variant, first)
        emulated = answer(daemon, "replay", "--check", first)
        check(f"{variant}: as its emulation", emulated.get("same"), f"durations p99 {emulated.get('p99_ppm')} ppm")
        again = answer(daemon, "replay", "--check", first, second)
        check(f"{variant}: two runs do the same", again.get("same"),
              [one.get("text") for one in again.get("differences", [])][:3])
        code = daemon.show("diff", first, second, "--fail-over", "10%", "--limit", 5)
        check(f"{variant}: two runs take as long", code == 0)


def train(daemon, program):
    """A PyTorch training loop bound by launches, and one bound by the GPU."""
    for name, arguments in (("train", ("3",)), ("train-large", ("3", "--large"))):
        path, _ = record(daemon, name, sys.executable, os.path.join(gpu.HERE, "train.py"), *arguments)
        emulates(daemon, name, path)
        daemon.show("query", "critical-path", "--file", path, "--limit", 10)
        daemon.show("replay", path, "--graph")


def predict(daemon, program):
    for name, shape, options, (variant, other) in PREDICTIONS:
        base, _ = record_steps(daemon, program, "base", shape)
        path = os.path.join(OUT, f"predicted-{variant}.sbt")
        daemon.show("replay", base, *options, "-o", path)
        predicted, recorded = span_of_steps(daemon, path, shape), span_of_steps(daemon, base, shape)
        spans, told = [], []
        for number in range(RUNS):
            # Of a graph as a whole: a record for each of its kernels slows it down.
            again, said = record_steps(daemon, program, variant, other, f"real-{number}", ("--records=-nodes",))
            spans.append(span_of_steps(daemon, again, other))
            told.append(json.loads(said)["ms"] if said.startswith("{") else 0)
        alone = [json.loads(subprocess.run([program, variant, str(STEPS), *map(str, other)], capture_output=True,
                                           text=True).stdout)["ms"] for _ in range(RUNS)]
        truth = statistics.median(spans)
        print(json.dumps({"prediction": name, "recorded_ms": recorded / 1e6, "predicted_ms": predicted / 1e6,
                          "measured_ms": [one / 1e6 for one in spans], "said_ms": told, "untraced_ms": alone}), flush=True)
        check(f"{name}: within 10 %", predicted and truth and abs(predicted / truth - 1) <= 0.1,
              f"{recorded / 1e6:.3f} ms recorded, {predicted / 1e6:.3f} predicted, {truth / 1e6:.3f} measured: "
              f"{predicted / max(truth, 1) - 1:+.1%}")


def issue(daemon, program):
    for variant in ("base", "overlap", "graph", "streams"):
        path, _ = record_steps(daemon, program, variant, PLAIN, "issue")
        report = answer(daemon, "replay", "--on-gpu", path, "-o", os.path.join(OUT, f"issued-{variant}.sbt"))
        print(json.dumps({"variant": variant, **report}), flush=True)
        if not check(f"{variant}: issued again", "replayed_ns" in report):
            continue
        longer = report["replayed_ns"] / report["recorded_ns"] - 1
        check(f"{variant}: makespan within 5 %", abs(longer) <= 0.05, f"{longer:+.1%}")
        check(f"{variant}: every stream in order", report["streams_in_order"] == report["streams"])
        overlap = report["replayed_overlap"] - report["recorded_overlap"]
        check(f"{variant}: overlaps as much", abs(overlap) <= 0.05, f"{overlap:+.3f}")
        check(f"{variant}: durations at the 99th percentile within 10 %", report["p99_ppm"] <= 100000, report["p99_ppm"])


PARTS = {"same": same, "train": train, "predict": predict, "issue": issue}

if __name__ == "__main__":
    print(gpu.machine())
    steps = compile_cuda("steps", "-O3")
    for part in sys.argv[2:] or PARTS:
        tracing = gpu.Daemon(BUILD)
        PARTS[part](tracing, steps)
        tracing.stop()
    print("failed:", gpu.failures or "nothing")
    sys.exit(bool(gpu.failures))
