#!/usr/bin/python3
"""Test workloads: runs every workload program and checks what it says about itself.

test_workloads.py WORKLOAD_FOLDER
"""

import collections
import json
import os
import subprocess
import sys

folder = sys.argv[1]
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
    assert run("streams", "--seconds", "0.2")[-1]["steps"] > 0


def test_rate():
    lines = run("rate", "--count", "12345", "--threads", "2", FAKE_CUDA_TIME_SCALE="0")
    assert calls(lines)["cuLaunchKernel"] == 24690
    lines = run("rate", "--kind", "mixed", "--count", "1000")
    numbers = calls(lines)
    assert numbers["cuLaunchKernel"] == numbers["cuMemAlloc_v2"] == numbers["cuMemFree_v2"] == 1000
    lines = run("rate", "--rate", "5000", "--seconds", "0.5")
    assert 2000 <= calls(lines)["cuLaunchKernel"] <= 2600


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


def test_short():
    assert calls(run("short", "--launches", "4"))["cuLaunchKernel"] == 4


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name, flush=True)
