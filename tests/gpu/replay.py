#!/usr/bin/env python3
"""Recordings on a real GPU: emulated, they are as they were; what-ifs are compared with variants of the program that
really do what was asked; issued again on the GPU, they take as long and overlap as much.

Usage: tests/gpu/replay.py [BUILD] [PART…] (build/release; live same train predict issue mixed), as root, with nvcc.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import gpu
from gpu import OUT, check, compile_cuda

BUILD = gpu.build(sys.argv)
STEPS = int(os.environ.get("STEPS", "50"))
RUNS = int(os.environ.get("RUNS", "5"))
WARM = 2  # steps that each variant starts with

# Of steps.cu: the size of the matrices, how many pairs of kernels, and MiB of the copy.
PLAIN = (1024, 8, 4)
BOUND_BY_COPIES, BOUND_BY_BOTH = (1024, 2, 32), (1024, 4, 16)
BOUND_BY_LAUNCHES, SHORT, LONGER = (64, 32, 1), (128, 16, 1), (256, 100, 1)
LARGE, HALF = (2048, 8, 16), (1024, 8, 4)

FEW_BLOCKS, HALF_FULL, FULL = (16, 16, 1), (700, 16, 1), (2000, 16, 1)  # of kernels that only compute

# What-ifs, and the variant that really does so: name, recorded, options of replay, variant. Half the length of a side
# is an eighth of a multiplication and a quarter of all else.
OVERLAP = ("--streams", 2, "--no-sync")
HALVES = ("--scale", "kernel=multiply:0.125", "--scale", "kernel=add:0.25", "--scale", "copy:0.25")
PREDICTIONS = (
    ("copies on a second stream", ("base", BOUND_BY_COPIES), OVERLAP, ("overlap", BOUND_BY_COPIES)),
    ("copies on a second stream", ("base", BOUND_BY_BOTH), OVERLAP, ("overlap", BOUND_BY_BOTH)),
    ("half the size", ("base", LARGE), HALVES, ("base", HALF)),
    *(("kernels on four streams", ("serial", shape), ("--streams", 4), ("spread", shape))
      for shape in (FEW_BLOCKS, FULL, HALF_FULL)),
    ("graphs", ("base", BOUND_BY_LAUNCHES), ("--graph",), ("graph", BOUND_BY_LAUNCHES)),
    ("graphs", ("base", SHORT), ("--graph",), ("graph", SHORT)),
    ("graphs", ("base", LONGER), ("--graph",), ("graph", LONGER)),
)

WORK = "exact AND kind IN ('launch', 'kernel', 'copy', 'graph')"


def record(daemon, name, *command, options=(), said=b""):
    """The path of the recording, and what the program said last."""
    path = os.path.join(OUT, name + ".sbt")
    quiet, held = os.pipe()  # nothing else is said to it, and its input does not end
    os.write(held, said)
    done = subprocess.run(daemon.command("record", "-o", path, *options, "--", *command), stdin=quiet,
                          capture_output=True, text=True)
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


def span_of_steps(daemon, path, variant, shape):
    return span(daemon, path, WARM * (shape[1] if variant in ("serial", "spread") else 1 + 2 * shape[1]))


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


def steps_ms(daemon, path):
    """Of train.py: the medians of the time from step to step, and of that from the first to the last work of one."""
    # A step ends when its wait does; what follows is the copy of the loss.
    rows = answer(daemon, "sql", "--limit", 10000000, "--file", path,
                  "SELECT end_ns, gpu_start_ns, gpu_end_ns FROM op WHERE fn = 'cuCtxSynchronize_v2' OR"
                  " (exact AND kind IN ('launch', 'kernel', 'set') AND gpu_start_ns) ORDER BY coalesce(gpu_start_ns, end_ns)")
    ends, spans, first = [], [], None
    for row in rows.get("rows", []):
        if row["gpu_start_ns"]:
            first, last = first or row["gpu_start_ns"], row["gpu_end_ns"]
            continue
        ends.append(row["end_ns"])
        if first:
            spans.append(last - first)
        first = None
    if len(ends) < 10:
        return 0, 0
    return statistics.median(b - a for a, b in zip(ends, ends[1:])) / 1e6, statistics.median(spans) / 1e6


def train(daemon, program):
    """A PyTorch training loop bound by launches, and one bound by the GPU; the first as a graph, predicted and done."""
    script = os.path.join(gpu.HERE, "train.py")
    paths = {}
    for name, arguments in (("train", ("3",)), ("train-large", ("3", "--large"))):
        paths[name], _ = record(daemon, name, sys.executable, script, *arguments)
        emulates(daemon, name, paths[name])
        daemon.show("query", "critical-path", "--file", paths[name], "--limit", 10)
    predicted = os.path.join(OUT, "predicted-train.sbt")
    daemon.show("replay", paths["train"], "--graph", "-o", predicted)
    real, _ = record(daemon, "train-graph", sys.executable, script, "3", "--graph", options=("--records=-nodes",))
    # What Python does before the first launch of a step is gone from the real one as well, which no recording tells.
    steps, spans = zip(*(steps_ms(daemon, path) for path in (paths["train"], predicted, real)))
    print(f"a step of PyTorch as a graph, from wait to wait: {steps[0]:.3f} ms recorded, {steps[1]:.3f} predicted,"
          f" {steps[2]:.3f} measured", flush=True)
    told("a step of PyTorch as a graph, on the device", *spans[:2], spans[2:])
    for name in paths:
        issue_again(daemon, name, paths[name])


# How much faster blocks of two kernels are done beside each other than one after the other, no recording tells.
UNKNOWN = {HALF_FULL: 0.2}


def told(name, recorded, predicted, measured, within=0.1, **more):
    """A prediction in milliseconds, and what was measured."""
    print(json.dumps({"prediction": name, "recorded_ms": recorded, "predicted_ms": predicted, "measured_ms": measured,
                      **more}), flush=True)
    truth = statistics.median(measured)
    check(f"{name}: within {within:.0%}", predicted and truth and abs(predicted / truth - 1) <= within,
          f"{recorded:.3f} ms recorded, {predicted:.3f} predicted, {truth:.3f} measured: "
          f"{predicted / max(truth, 1e-6) - 1:+.1%}")


def predict(daemon, program):
    for name, (from_variant, shape), options, (variant, other) in PREDICTIONS:
        base, _ = record_steps(daemon, program, from_variant, shape)
        path = os.path.join(OUT, f"predicted-{variant}-{'-'.join(map(str, shape))}.sbt")
        daemon.show("replay", base, *options, "-o", path)
        spans, said = [], []
        for number in range(RUNS):
            # Of a graph as a whole: a record for each of its kernels slows it down.
            again, line = record_steps(daemon, program, variant, other, f"real-{number}", ("--records=-nodes",))
            spans.append(span_of_steps(daemon, again, variant, other) / 1e6)
            said.append(json.loads(line)["ms"] if line.startswith("{") else 0)
        alone = [json.loads(subprocess.run([program, variant, str(STEPS), *map(str, other)], capture_output=True,
                                           text=True).stdout)["ms"] for _ in range(RUNS)]
        told(f"{name}, {' '.join(map(str, shape))}", span_of_steps(daemon, base, from_variant, shape) / 1e6,
             span_of_steps(daemon, path, from_variant, shape) / 1e6, spans,
             within=UNKNOWN.get(shape, 0.1), said_ms=said, untraced_ms=alone)


def issue_again(daemon, name, *paths, within=0.05, part=()):
    """Issued again on the GPU, recordings take as long, in order, with as much overlap; by the medians, if several."""
    reports = []
    for path in paths:
        again = os.path.join(OUT, f"issued-{os.path.basename(path)}")
        report = answer(daemon, "replay", "--on-gpu", path, *part, "-o", again)
        print(json.dumps({"issued": name, **report}), flush=True)
        if not check(f"{name}: issued again", "replayed_ns" in report):
            return
        check(f"{name}: every stream in order", report["streams_in_order"] == report["streams"])
        overlap = report["replayed_overlap"] - report["recorded_overlap"]
        check(f"{name}: overlaps as much", abs(overlap) <= 0.05, f"{overlap:+.3f}")
        reports.append(report)
    recorded, replayed, p50, p99 = (statistics.median(one[what] for one in reports)
                                    for what in ("recorded_ns", "replayed_ns", "p50_ppm", "p99_ppm"))
    check(f"{name}: makespan within {within:.0%}", abs(replayed / recorded - 1) <= within,
          f"{recorded / 1e6:.3f} ms recorded, {replayed / 1e6:.3f} issued again: {replayed / recorded - 1:+.1%}; durations"
          f" {p50 / 1e4:.2f} % off at the median, {p99 / 1e4:.2f} % at the 99th percentile")


def issue(daemon, program):
    for variant, shape in (("base", PLAIN), ("overlap", PLAIN), ("graph", PLAIN), ("streams", PLAIN),
                           ("overlap", BOUND_BY_COPIES), ("base", BOUND_BY_LAUNCHES), ("graph", BOUND_BY_LAUNCHES)):
        paths = [record_steps(daemon, program, variant, shape, f"issue-{number}")[0] for number in range(3)]
        # A program that does nothing but launch is as fast as the host.
        issue_again(daemon, f"{variant} {' '.join(map(str, shape))}", *paths,
                    within=0.1 if shape == BOUND_BY_LAUNCHES else 0.05)
    path, _ = record_steps(daemon, program, "streams", PLAIN, "part")
    rows = answer(daemon, "sql", "--file", path, f"SELECT DISTINCT stream FROM op WHERE {WORK}")["rows"]
    again = os.path.join(OUT, "part-again.sbt")
    for part in ((), *(("--stream", row["stream"]) for row in rows), ("--kernel", "multiply")):
        check(f"issued {part}", daemon.show("replay", "--on-gpu", path, *part, "-o", again) == 0)
    rows = answer(daemon, "sql", "--file", path,
                  f"SELECT (SELECT min(start_ns) FROM op WHERE {WORK}) - min(start_ns) AS ns FROM op")["rows"]
    begin = rows[0]["ns"]
    window = "--from", f"{begin + 20000000}ns", "--to", f"{begin + 60000000}ns"
    issue_again(daemon, "40 ms of two chains", path, part=window)


def mixed(daemon, program):
    """Threads, many streams, events, copies and sets of each kind, a graph that forks and joins; on each device."""
    devices = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("\n")
    path, _ = record(daemon, "mixed", compile_cuda("exact"), str(devices), said=b"\n\n")
    emulates(daemon, "mixed", path)
    daemon.show("replay", "--check", path)
    issue_again(daemon, "mixed", path, within=0.2)  # most of it is launches of an empty kernel


def live(daemon, program):
    """Two seconds of a job that was running, attached to; and the two before them, from the store."""
    job = gpu.Program(sys.executable, os.path.join(gpu.HERE, "train.py"), "60", samples=100)
    check("attach", daemon.show("attach", job.pid) == 0)
    time.sleep(3)
    path = os.path.join(OUT, "live.sbt")
    check("record 2 s", daemon.show("record", "-o", path, "--pid", job.pid, "--duration", "2s") == 0)
    past = os.path.join(OUT, "past.sbt")
    check("record the past", daemon.show("record", "-o", past, "--pid", job.pid, "--since", "4s", "--duration", "1s") == 0)
    job.stop()
    emulates(daemon, "live", path)
    emulates(daemon, "past", past)
    daemon.show("replay", path, "--graph")
    issue_again(daemon, "live", path)


PARTS = {"live": live, "same": same, "train": train, "predict": predict, "issue": issue, "mixed": mixed}

if __name__ == "__main__":
    print(gpu.machine())
    steps = compile_cuda("steps", "-O3")
    for part in sys.argv[2:] or PARTS:
        tracing = gpu.Daemon(BUILD)
        PARTS[part](tracing, steps)
        tracing.stop()
    print("failed:", gpu.failures or "nothing")
    sys.exit(bool(gpu.failures))
