#!/usr/bin/python3
"""Test workloads: runs every workload program and checks what it says about itself, and that
the simulated CUPTI says the same.

test_workloads.py WORKLOAD_FOLDER INJECTION...
"""

import collections
import json
import os
import subprocess
import signal
import sys
import tempfile

folder = sys.argv[1]
injections = sys.argv[2:]  # test_cupti_inject.c, for each layout
# Objects that a program leaves to its end are held by memory that the leak checker does not read.
os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")


def run(name, *args, status=0, stdin="", **environment):
    """Runs a program and gives its JSON lines; status is what has to come back."""
    done = subprocess.run([os.path.join(folder, name), *args], input=stdin, text=True,
                          capture_output=True, timeout=120, check=False,
                          env={**os.environ, **environment})
    assert done.returncode == status, (name, args, done.returncode, done.stderr)
    assert done.stderr == "", (name, args, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls(lines, pid=None):
    return {line["fn"]: line["calls"] for line in lines
            if "fn" in line and pid in (None, line["pid"])}


def test_counts():
    for rounds in (1, 3):
        lines = run("counts", "--rounds", str(rounds))
        numbers = calls(lines)
        assert len(numbers) == lines[-1]["functions"], "every function is called"
        assert len(set(numbers.values())) == len(numbers), "no two have one number"
        assert sum(numbers.values()) == lines[-1]["calls"]
        failing = [line for line in lines if line.get("errors")]
        assert len(failing) > 50
        assert all(sum(line["errors"].values()) <= line["calls"] for line in failing)
    lines = run("counts", "--hold", stdin="\n\n")
    assert lines[0]["ready"] == 1


def test_leak():
    last = run("leak", "--steps", "95", "--leak-every", "10", "--leak-bytes", "777", stdin="\n")[-1]
    assert (last["leak"], last["count"], last["bytes"]) == ("leaky_cache_insert", 9, 9 * 777)
    lines = run("leak", "--clean", "--steps", "20", "--seconds", "0")
    assert lines[-1]["count"] == 0
    numbers = calls(lines)
    taken = [fn for fn in numbers if fn.startswith("cuMemAlloc") or fn == "cuMemHostAlloc"]
    given = [fn for fn in numbers if fn.startswith("cuMemFree")]
    assert sum(numbers[fn] for fn in taken) == sum(numbers[fn] for fn in given)


def test_streams():
    lines = run("streams", "--threads", "3", "--steps", "12")
    numbers = calls(lines)
    assert lines[-1]["steps"] == 36
    assert numbers["cuLaunchKernel"] == 36 * 25
    assert numbers["cuStreamSynchronize"] == 33 and numbers["cuCtxSynchronize"] == 3
    assert any(run("streams", "--seconds", seconds)[-1]["steps"] for seconds in ("0.2", "2", "16"))


def test_rate():
    lines = run("rate", "--count", "12345", "--threads", "2", FAKE_CUDA_TIME_SCALE="0")
    assert calls(lines)["cuLaunchKernel"] == 24690
    lines = run("rate", "--kind", "mixed", "--count", "1000")
    numbers = calls(lines)
    assert numbers["cuLaunchKernel"] == numbers["cuMemAlloc_v2"] == numbers["cuMemFree_v2"] == 1000
    # Never faster; how much slower is up to the machine.
    assert calls(run("rate", "--rate", "5000", "--seconds", "0.5")).get("cuLaunchKernel", 0) <= 2600
    assert run("rate", "--rate", "5000", "--count", "2500")[-1]["seconds"] >= 0.5


def test_forkexec():
    lines = run("forkexec", "--children", "2")
    roles = collections.defaultdict(list)
    for line in lines:
        if "role" in line:
            roles[line["role"]].append(line["pid"])
    launches = sorted(calls(lines, pid)["cuLaunchKernel"] for pid in roles["child"])
    assert launches == [100, 101]
    assert calls(lines, roles["parent"][0])["cuLaunchKernel"] == 7
    assert calls(lines, roles["exec"][0])["cuLaunchKernel"] == 31
    orphan = [line for line in lines if line["pid"] == roles["orphan"][0] and "fn" in line]
    assert {line["fn"]: line["errors"] for line in orphan} == {
        "cuInit": {"3": 1}, "cuCtxCreate_v2": {"3": 1}}


def test_crash():
    for how, status in (("segv", -11), ("kill", -9), ("_exit", 3), ("exit", 4), ("abort", -6)):
        for place in ((), ("--main-thread",)):
            lines = run("crash", "--how", how, *place, status=status)
            assert calls(lines)["cuLaunchKernel"] == 20
            assert lines[-1]["live_bytes"] == 54321


def test_filtered():
    for arguments, lines in (((), "\n"), (("--late",), "\n\n")):
        last = run("filtered", *arguments, stdin=lines)[-1]
        assert last["launches"] > 0


def test_short():
    assert calls(run("short", "--launches", "4"))["cuLaunchKernel"] == 4


def run_injected(injection, name, *args, **environment):
    """Runs a program with a library that counts; gives its lines, and those of the library."""
    with tempfile.NamedTemporaryFile("r") as counts:
        lines = run(name, *args, CUDA_INJECTION64_PATH=injection, FAKE_TEST_COUNTS=counts.name,
                    **environment)
        return lines, [json.loads(line) for line in counts]


def test_exact():
    last = run("exact")[-1]
    assert last["kernels"]["in_graph"] == last["graph_launches"] * (last["graph_nodes"] - 2)
    assert run("exact", "--hold", stdin="\n\n")[0]["ready"] == 1


def test_exact_as_cupti_sees_it():
    for injection in injections:
        for scale in "0", "1":
            lines, (start, seen) = run_injected(
                injection, "exact", "--threads", "4", "--rounds", "25", "--nodes", "3",
                FAKE_CUDA_DEVICES="2", FAKE_CUDA_TIME_SCALE=scale)
            said = lines[-1]
            assert start["injected"] == 0 and seen["device_records"] == 2, (start, seen)
            for what in "kernels", "copies", "copy_bytes", "sets", "set_bytes":
                assert seen[what] == said[what], (what, seen, said)
            assert seen["nodes"] == said["graph_launches"] * 3
            assert seen["calls"] == said["launch_calls"] + said["graph_launches"]
            assert seen["unjoined"] == 0
            assert said["copies"]["ptop"] == 100


def test_injection_reaches_children_that_exec():
    lines, seen = run_injected(injections[0], "forkexec", "--children", "2")
    starts = [line["pid"] for line in seen if "injected" in line]
    executed = [line["pid"] for line in lines if line.get("role") in ("parent", "exec", "child")]
    assert sorted(starts) == sorted(executed), (starts, executed)


def test_loop():
    sums = {run("loop", "--rounds", "30", *options)[-1]["checksum"] for options in ((), ("--graphs",), ("--graphs",))}
    assert len(sums) == 1
    # On a busy machine it takes longer until each has had its turn.
    for seconds in ("1", "4", "16", "32"):
        last = run("loop", "--seconds", seconds, "--stress", "--progress")[-1]
        assert last["right"], last
        missing = [what for what in ("rounds", "signals", "forks", "loads", "blocks", "naps") if not last[what]]
        if not missing:
            break
    assert not missing, last
    for injection in injections:
        lines, seen = run_injected(injection, "loop", "--seconds", "1", "--stress", "--graphs")
        assert lines[-1]["right"], lines[-1]
        kernels = lines[-1]["launches"] + lines[-1]["graphs"]
        assert seen[-1]["kernels"] == {"carry": kernels}, (lines[-1], seen)


def test_loop_ends_on_request():
    with subprocess.Popen([os.path.join(folder, "loop"), "--seconds", "100"],
                          stdout=subprocess.PIPE, text=True) as loop:
        loop.stdout.readline()
        loop.send_signal(signal.SIGTERM)
        assert json.loads(loop.stdout.read().splitlines()[-1])["right"]
    assert loop.returncode == 0


def test_profiler():
    for name in "profiler", "profiler12":
        for extra in (), ("--finalize",), ("--no-subscribe",):
            lines = run(name, "--start", "0.1", "--stop", "0.3", "--end", "0.4", *extra)
            start, stop = [line for line in lines if "profiler" in line]
            assert start["result"] == 0
            assert stop["kernels"] == stop["launched"] > 0
            assert stop["calls"] == stop["launched"] + 1 and stop["strangers"] == 0


def test_profiler_in_a_module():
    lines = run("profiler_late", "0.1", "--start", "0.1", "--stop", "0.2", "--end", "0.3")
    stop = [line for line in lines if line.get("profiler") == "stop"][0]
    assert lines[0]["waiting"] == 1 and stop["kernels"] == stop["launched"] > 0


def test_a_second_profiler():
    """With somebody else's registration there it gets their buffers, and neither has records."""
    lines, seen = run_injected(injections[-1], "profiler", "--start", "0.1", "--stop", "0.3",
                               "--end", "0.4")
    stop = [line for line in lines if line.get("profiler") == "stop"][0]
    assert stop["strangers"] > 0, stop
    assert sum(seen[-1]["kernels"].values()) < lines[-1]["launches"]


def test_nvtx():
    assert run("nvtx")[-1]["taken"] == 0
    for injection in injections:
        cupti = os.path.join(os.path.dirname(injection), "libcupti.so")
        lines, seen = run_injected(injection, "nvtx", "--threads", "2", "--ranges", "7",
                                   NVTX_INJECTION64_PATH=os.path.realpath(cupti))
        last = lines[-1]
        assert last["taken"] == 1
        assert seen[-1]["markers"] == 2 * (last["pushed"] + last["in_domain"] + last["started"]) \
            + last["marks"]


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name, flush=True)
