#!/usr/bin/env python3
"""Memory on a real GPU: what a program says that the driver holds for it, at each step of taking and giving back memory
in the ways that are easily miscounted, is what TraceSmith says; in both tiers.

Usage: tests/gpu/memory.py [BUILD] (build/release), as root, with nvcc.
"""
import json
import subprocess
import sys

import gpu
from gpu import check, compile_cuda, wait_for

BUILD = gpu.build(sys.argv)
KINDS = ("device", "physical", "pool")


def held(daemon, pid):
    live = dict.fromkeys(KINDS, 0)
    for row in daemon.query("memory", "--pid", pid)["rows"]:
        if row["kind"] in live:
            live[row["kind"]] += row["live_bytes"]
    return live


def agrees(daemon, line):
    told = {kind: line[kind] for kind in KINDS}
    try:
        wait_for("the memory", lambda: held(daemon, line["pid"]) == told, 3)
        return True
    except SystemExit:
        return False


def follow(title, daemon, command):
    """The program waits at each of its lines until we have looked."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pids = set()
    for text in process.stdout:
        line = json.loads(text)
        pids.add(line["pid"])
        check(f"{title}: {line['at']}", agrees(daemon, line), f"{held(daemon, line['pid'])}")
        process.stdin.write("\n")
        process.stdin.flush()
    process.stdin.close()
    check(f"{title}: the program ended well", process.wait() == 0)
    for pid in pids:
        answer = daemon.query("leaks", "--pid", pid, "--min-age", "0s")
        check(f"{title}: no leak of {pid}", not answer["rows"], answer["rows"])
        check(f"{title}: nothing lost of {pid}", not answer["loss"], answer["loss"])


program = compile_cuda("memory", "-lcuda")
for tier in ("probe", "exact"):
    daemon = gpu.Daemon(BUILD)
    follow(tier, daemon, daemon.command("run", "--", program) if tier == "exact" else [program])
    daemon.stop()
print(gpu.machine())
print(f"{len(gpu.failures)} failed" if gpu.failures else "all agree")
sys.exit(1 if gpu.failures else 0)
