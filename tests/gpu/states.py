#!/usr/bin/env python3
"""States on a real GPU: in a recording of each program of this folder, of both tiers, what `states` and `idle` tell is
what the ops add up to (tests/tools/states.py works it out by brute force, and knows no model).

Usage: tests/gpu/states.py [BUILD] [PART…] (build/release; exact train steps pulse detach empty known leak), as root, with
nvcc, and PyTorch for train. LIMIT_S: begins no part after so many seconds, and names those that were left out. Both
tiers of a program run beside each other. The last line is the verdict.
"""
import concurrent.futures
import importlib.util
import json
import os
import subprocess
import sys
import time

import gpu
from gpu import HERE, OUT, check, wait_for

sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import states  # noqa: E402

BUILD = gpu.build(sys.argv)
LIMIT_S = float(os.environ.get("LIMIT_S", "inf"))
# Records of work that follows upon other work overlap by what the device's clock does not resolve.
SLACK_NS = int(os.environ.get("SLACK_NS", "2500"))


class Left(Exception):
    """Cannot be run here."""


class States:
    def __init__(self):
        self.threads = concurrent.futures.ThreadPoolExecutor(8)
        self.programs = {}
        self.daemon = gpu.Daemon(BUILD)

    def prepare(self, parts):
        """All at once: a compilation takes seconds."""
        for name in sorted({NEEDS[part] for part in parts} - {None}):
            self.programs[name] = self.threads.submit(gpu.compile_cuda, name)

    def program(self, name):
        try:
            return self.programs[name].result()
        except (OSError, subprocess.CalledProcessError) as error:
            raise Left(f"{name}.cu: {error}") from error

    def sql(self, path):
        def rows(text):
            code, out, err = self.daemon.ctl("sql", "--json", "--limit", states.ROWS_MAX, "--file", path, text)
            if code:
                raise Left(f"sql: {err}")
            return json.loads(out)["rows"]
        return rows

    def show(self, title, path):
        """What the checker says, and how the time of the first device is divided."""
        sql = self.sql(path)
        found = states.check(sql, None, SLACK_NS)
        ops = sql("SELECT count(*) AS n, sum(exact) AS exact, sum(no_call) AS no_call FROM op WHERE kind <> 'state'")[0]
        lost = sql("SELECT n.name, sum(count) AS n FROM loss l JOIN loss_reason n ON n.id = l.reason GROUP BY 1")
        code, out, _ = self.daemon.ctl("query", "idle", "--json", "--file", path)
        rows = [row for row in json.loads(out)["rows"] if row["device"] == 0] if code == 0 else []
        shares = " ".join(f"{row['state']} {row['total_ns'] / 1e6:.2f}" for row in rows)
        detail = f"{len(found)} differ: {found[:3]}; " if found else ""
        check(f"{title}: states agree with the ops", ops["n"] and not found,
              f"{detail}{ops['n']} ops, {ops['exact']} exact, {ops['no_call']} without their call; device 0: {shares or '-'} of "
              f"{rows[0]['observed_ns'] / 1e6 if rows else 0:.1f} ms; lost { {row['name']: row['n'] for row in lost} }")
        return {row["state"]: row["total_ns"] for row in rows}, rows[0]["observed_ns"] if rows else 0

    def record_exact(self, name, command, said):
        path = os.path.join(OUT, "exact.sbt")
        # Its input does not end: some programs end with it.
        quiet, held = os.pipe()
        os.write(held, said)
        try:
            done = subprocess.run(self.daemon.command("record", "-o", path, "--", *command), stdin=quiet, text=True,
                                  capture_output=True, check=False)
        finally:
            os.close(quiet)
            os.close(held)
        if not check(f"{name}, exact tier: recorded", os.path.exists(path), done.stderr.strip()[-200:]):
            raise Left("nothing to look at")
        return path

    def ended(self, process):
        """The daemon knows, and has had the time to bound what came last."""
        wait_for(f"the end of {process.pid}",
                 lambda: self.daemon.sql(f"SELECT 1 FROM process WHERE pid = {process.pid} AND exit_ns IS NOT NULL"))
        time.sleep(1)

    def record_past(self, name, process, path):
        self.ended(process)
        code, _, err = self.daemon.ctl("record", "-o", path, "--since", "10m", "--pid", process.pid)
        check(f"{name}: recorded", code == 0, err.strip()[-200:])

    def record_probe(self, name, command, said, seconds):
        """The daemon saw it all; the recording is made afterwards."""
        path = os.path.join(OUT, "probe.sbt")
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        process.stdin.write(said)
        process.stdin.flush()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
        self.record_past(f"{name}, probe tier", process, path)
        return path

    def both(self, name, *command, said=b"", seconds=None):
        """What is known of the exact one. A program that does not end by itself is ended after so many seconds."""
        for path in ("exact.sbt", "probe.sbt"):
            if os.path.exists(os.path.join(OUT, path)):
                os.unlink(os.path.join(OUT, path))
        limit = ("timeout", str(seconds)) if seconds else ()
        exact = self.threads.submit(self.record_exact, name, (*limit, *command), said)
        probe = self.threads.submit(self.record_probe, name, command, said, seconds)
        told = self.show(f"{name}, exact tier", exact.result())
        self.show(f"{name}, probe tier", probe.result())
        return told

    def pulse(self):
        for arguments in (("graph",), ("graph", "sync"), ("kernel",), ("copy",)):
            what, *sync = arguments
            told, observed_ns = self.both(" ".join(("pulse", *arguments)), self.program("pulse"), what, "1000", "5000", *sync)
            check("  idle nearly all the time", told.get("pending", 0) < observed_ns / 20, f"{told.get('pending', 0) / 1e6:.2f} ms pending")

    def detach(self):
        """Attached to, let go, and attached to again."""
        path = os.path.join(OUT, "detach.sbt")
        for what in ("graph", "kernel"):
            process = subprocess.Popen([self.program("pulse"), what, "5000", "5000"], stdout=subprocess.DEVNULL)
            time.sleep(1)
            for _ in range(2):
                check(f"attach to pulse {what}", self.daemon.ctl("attach", process.pid)[0] == 0)
                time.sleep(0.7)
                check(f"detach from pulse {what}", self.daemon.ctl("detach", process.pid)[0] == 0)
            check(f"pulse {what} ended well", process.wait() == 0)
            self.record_past(f"pulse {what}, attached to twice", process, path)
            told, observed_ns = self.show(f"pulse {what}, attached to twice", path)
            check("  idle nearly all the time", told.get("pending", 0) < observed_ns / 20, f"{told.get('pending', 0) / 1e6:.2f} ms pending")
            os.unlink(path)

    def exact(self):
        self.both("exact", self.program("exact"), "1", said=b"\n\n")

    def known(self):
        self.both("known", self.program("known"), said=b"\n\n")

    def steps(self):
        for variant in ("overlap", "graph", "streams", "base", "serial", "spread"):
            shape = ("16", "16", "1") if variant in ("serial", "spread") else ("512", "8", "4")
            self.both(f"steps {variant}", self.program("steps"), variant, "50", *shape)

    def leak(self):
        self.both("leak", self.program("leak"), seconds=2)

    def empty(self):
        self.both("empty", self.program("empty"), seconds=0.7)

    def train(self):
        if not importlib.util.find_spec("torch"):
            raise Left("no PyTorch")
        for option in ((), ("--graph",)):
            self.both(" ".join(("train", *option)), sys.executable, os.path.join(HERE, "train.py"), "1", *option)


NEEDS = {"exact": "exact", "train": None, "steps": "steps", "pulse": "pulse", "detach": "pulse", "empty": "empty",
         "known": "known", "leak": "leak"}


def main():
    began, left = time.monotonic(), []
    parts = sys.argv[2:] or list(NEEDS)
    print(gpu.machine(), flush=True)
    all_states = States()
    all_states.prepare(parts)
    for part in parts:
        spent_s = time.monotonic() - began
        if spent_s > LIMIT_S:
            left.append(part)
            continue
        print(f"== {part}, after {spent_s:.0f} s", flush=True)
        try:
            getattr(all_states, part)()
        except Left as error:
            print(f"     left: {error}", flush=True)
            left.append(f"{part} ({error})")
        except SystemExit as error:
            check(part, False, error)
    all_states.daemon.stop()
    print(f"states.py: {'FAILED: ' + ', '.join(gpu.failures) if gpu.failures else 'all agree'}; {time.monotonic() - began:.0f} s"
          + (f"; not run: {', '.join(left)}" if left else ""), flush=True)
    return 1 if gpu.failures else 0


if __name__ == "__main__":
    sys.exit(main())
