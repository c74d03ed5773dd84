#!/usr/bin/env python3
"""States on a real GPU: in a recording of each program of this folder, of both tiers, what `states` and `idle` tell is
what the ops add up to (tests/tools/states.py works it out by brute force, and knows no model).

Usage: tests/gpu/states.py [BUILD] [PART…] (build/release; pulse detach exact known steps leak empty train), as root,
with nvcc and PyTorch.
"""
import json
import os
import subprocess
import sys
import time

import gpu
from gpu import HERE, OUT, check, compile_cuda, wait_for

sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import states  # noqa: E402

BUILD = gpu.build(sys.argv)
# Records of work that follows upon other work overlap by what the device's clock does not resolve.
SLACK_NS = int(os.environ.get("SLACK_NS", "2500"))


def table(daemon, path=None):
    def sql(text):
        where = ["--file", path] if path else []
        code, out, err = daemon.ctl("sql", "--json", "--limit", states.ROWS_MAX, *where, text)
        if code:
            raise SystemExit(f"sql: {err}")
        return json.loads(out)["rows"]
    return sql


def show(daemon, title, path, pid=None):
    """What the checker says, and how the time of the first device is divided."""
    sql = table(daemon, path)
    found = states.check(sql, pid, SLACK_NS)
    ops = sql("SELECT count(*) AS n, sum(exact) AS exact FROM op WHERE kind <> 'state'")[0]
    lost = sql("SELECT n.name, sum(count) AS n FROM loss l JOIN loss_reason n ON n.id = l.reason GROUP BY 1")
    code, out, _ = daemon.ctl("query", "idle", "--json", "--file", path)
    rows = [row for row in json.loads(out)["rows"] if row["device"] == 0] if code == 0 else []
    shares = " ".join(f"{row['state']} {row['total_ns'] / 1e6:.2f}" for row in rows)
    print(f"     {title}: {ops['n']} ops, {ops['exact']} exact; device 0: {shares or '-'}"
          f" of {rows[0]['observed_ns'] / 1e6 if rows else 0:.1f} ms; lost {({row['name']: row['n'] for row in lost})}")
    check(f"{title}: states agree with the ops", not found, f"{len(found)} differ: {found[:3]}" if found else "")
    return {row["state"]: row["total_ns"] for row in rows}, rows[0]["observed_ns"] if rows else 0


def run(command, said, **options):
    """Its input does not end: some programs end with it."""
    quiet, held = os.pipe()
    os.write(held, said)
    try:
        return subprocess.run(command, stdin=quiet, text=True, check=False, **options)
    finally:
        os.close(quiet)
        os.close(held)


def record_exact(daemon, name, command, said):
    path = os.path.join(OUT, "states.sbt")
    if os.path.exists(path):
        os.unlink(path)
    done = run(daemon.command("record", "-o", path, "--", *command), said, capture_output=True)
    check(f"{name}: recorded", os.path.exists(path), done.stderr.strip()[-200:])
    return path


def record_probe(daemon, name, command, said):
    """The daemon saw it all; the recording is made afterwards."""
    path = os.path.join(OUT, "states.sbt")
    run(command, said, stdout=subprocess.DEVNULL)
    wait_for(f"the end of {name}", lambda: daemon.sql("SELECT count(*) FROM process HAVING count(*) > 0 AND count(*) = count(exit_ns)"))
    time.sleep(1)
    code, _, err = daemon.ctl("record", "-o", path, "--since", "10m", "--all")
    check(f"{name}: recorded", code == 0, err.strip()[-200:])
    return path


def both(name, *command, said=b""):
    daemon = gpu.Daemon(BUILD)
    exact = show(daemon, f"{name}, exact tier", record_exact(daemon, name, command, said))
    daemon.stop()
    daemon = gpu.Daemon(BUILD)
    show(daemon, f"{name}, probe tier", record_probe(daemon, name, command, said))
    daemon.stop()
    return exact


def pulse():
    program = compile_cuda("pulse")
    for arguments in (("graph",), ("graph", "sync"), ("kernel",), ("copy",)):
        what, *sync = arguments
        told, observed_ns = both(" ".join(("pulse", *arguments)), program, what, "1000", "5000", *sync)
        check("  idle nearly all the time", told.get("pending", 0) < observed_ns / 20, f"{told.get('pending', 0) / 1e6:.2f} ms pending")


def detach():
    """Attached to, let go, and attached to again."""
    program = compile_cuda("pulse")
    for what in ("graph", "kernel"):
        daemon = gpu.Daemon(BUILD)
        process = subprocess.Popen([program, what, "6000", "5000"], stdout=subprocess.DEVNULL)
        time.sleep(1)
        for _ in range(2):
            check(f"attach to pulse {what}", daemon.ctl("attach", process.pid)[0] == 0)
            time.sleep(1)
            check(f"detach from pulse {what}", daemon.ctl("detach", process.pid)[0] == 0)
        process.wait()
        time.sleep(1)
        path = os.path.join(OUT, "states.sbt")
        daemon.ctl("record", "-o", path, "--since", "10m", "--pid", process.pid)
        told, observed_ns = show(daemon, f"pulse {what}, attached to twice", path)
        check("  idle nearly all the time", told.get("pending", 0) < observed_ns / 20, f"{told.get('pending', 0) / 1e6:.2f} ms pending")
        daemon.stop()


def exact():
    both("exact", compile_cuda("exact"), "1", said=b"\n\n")


def known():
    both("known", compile_cuda("known"), said=b"\n\n")


def steps():
    program = compile_cuda("steps")
    for variant in ("base", "overlap", "graph", "streams", "serial", "spread"):
        shape = ("16", "16", "1") if variant in ("serial", "spread") else ("512", "8", "4")
        both(f"steps {variant}", program, variant, "50", *shape)


def leak():
    both("leak", "timeout", "-s", "INT", "2", compile_cuda("leak"))


def empty():
    both("empty", "timeout", "0.7", compile_cuda("empty"))


def train():
    for option in ((), ("--graph",)):
        both(" ".join(("train", *option)), sys.executable, os.path.join(HERE, "train.py"), "2", *option)


PARTS = {part.__name__: part for part in (pulse, detach, exact, known, steps, leak, empty, train)}
for part in sys.argv[2:] or PARTS:
    print(f"== {part}", flush=True)
    PARTS[part]()
print(gpu.machine())
print(f"{len(gpu.failures)} failed" if gpu.failures else "all agree")
sys.exit(1 if gpu.failures else 0)
