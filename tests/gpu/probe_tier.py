#!/usr/bin/env python3
"""The probe tier on a real GPU: exact counts, a job that was running before, and what it costs.

Usage: tests/gpu/probe_tier.py [BUILD] (build/release), as root, with nvcc and PyTorch.
Writes its figures to standard output and its logs and a trace of the training loop to $OUT (or a
temporary directory). What is compared is switched on and off inside one running program, several
times in turn, since two runs differ by more than what is measured.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "..", "build", "release"))
OUT = os.environ.get("OUT") or tempfile.mkdtemp(prefix="tracesmith-gpu-")
ROUNDS = int(os.environ.get("ROUNDS", "5"))
PHASE_S = float(os.environ.get("PHASE_S", "2.5"))
failures = []


def check(what, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    if not condition:
        failures.append(what)


class Daemon:
    def __init__(self, settings=""):
        self.directory = tempfile.mkdtemp(prefix="tracesmith-gpu-")
        self.socket = os.path.join(self.directory, "control.sock")
        config = os.path.join(self.directory, "conf")
        with open(config, "w") as file:
            file.write(settings)
        self.log = open(os.path.join(OUT, "daemon.log"), "a")
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "tracesmithd"), "--config", config, "--socket", self.socket, "--state-dir", self.directory],
            stdout=self.log, stderr=self.log)
        self.wait("the daemon", lambda: self.process.poll() is None and self.ctl("status")[0] == 0)

    def wait(self, what, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"waited {seconds} s for {what}; see {OUT}/daemon.log")
            time.sleep(0.05)

    def ctl(self, *arguments):
        done = subprocess.run([os.path.join(BUILD, "tsctl"), *arguments], capture_output=True, text=True,
                              env=dict(os.environ, TRACESMITH_SOCKET=self.socket))
        return done.returncode, done.stdout, done.stderr

    def query(self, name, *arguments):
        code, out, _ = self.ctl("query", name, "--json", *arguments)
        return json.loads(out) if code == 0 else {"rows": [], "loss": {}}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def compile_cuda(name, *options):
    out = os.path.join(tempfile.gettempdir(), f"{name}-{os.getpid()}" + "".join(options).replace(" ", ""))
    subprocess.run(["nvcc", "-arch=native", "-o", out, *options, os.path.join(HERE, name + ".cu")], check=True)
    return out


def exact_counts():
    daemon = Daemon()
    for runtime in ("shared", "static"):
        program = compile_cuda("known", "-cudart", runtime)
        done = subprocess.run([program], capture_output=True, text=True, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        pid = lines[-1]["pid"]
        daemon.wait("the end of the program", lambda: any(
            row["pid"] == pid and row["state"] == "ended" for row in daemon.query("processes")["rows"]))
        answer = daemon.query("apis", "--pid", str(pid))
        seen = {row["fn"]: row["calls"] for row in answer["rows"]}
        for line in lines[:-1]:
            fn, calls = line["fn"], line["calls"]
            check(f"{runtime} runtime: {fn}", seen.get(fn) == calls, f"called {calls}, seen {seen.get(fn)}")
        check(f"{runtime} runtime: nothing lost", not set(answer["loss"]) - {"unbound", "unknown-free"}, answer["loss"])
    print(daemon.ctl("status")[1])
    daemon.stop()


class Program:
    """A program that prints lines of a time and a value."""

    def __init__(self, *command):
        self.samples = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        end = time.monotonic() + 120
        while len(self.samples) < 20 and time.monotonic() < end:
            time.sleep(0.1)

    def _read(self):
        for line in self.process.stdout:
            begin, value = line.split()
            self.samples.append((float(begin), float(value)))

    def stop(self):
        self.process.stdin.write("\n")
        self.process.stdin.close()
        code = self.process.wait(60)
        self.reader.join()
        return code


SETTINGS = {
    "probe, no stacks": "[probe]\nlaunch_stacks = 0\n",
    "probe (default)": "",
    "probe, all stacks": "[probe]\nlaunch_stacks = 1000000000\n",
}


def overhead(title, unit, program):
    phases = []
    for _ in range(ROUNDS):
        for name in ["off", *SETTINGS]:
            daemon = Daemon(SETTINGS[name]) if name != "off" else None
            time.sleep(0.3)
            begin = time.monotonic()
            time.sleep(PHASE_S)
            phases.append((name, begin, time.monotonic()))
            if daemon:
                if name == "probe, all stacks":
                    lost = daemon.query("loss")["rows"]
                    stacks = daemon.ctl("sql", "--csv", "SELECT count(DISTINCT stack) FROM frame")[1].split()
                daemon.stop()
    code = program.stop()
    check(f"{title}: the program ended well", code == 0)
    values, rounds = {}, {}
    for name, begin, end in phases:
        inside = [value for at, value in program.samples if begin <= at < end - 0.2]
        values.setdefault(name, []).extend(inside)
        rounds.setdefault(name, []).append(statistics.median(inside) if inside else 0)
    base = statistics.median(values["off"])
    print(f"\n{title} ({unit})\n{'':20} {'samples':>8} {'median':>10} {'ratio':>7}  medians of the rounds")
    for name, found in values.items():
        median = statistics.median(found)
        each = " ".join(f"{value:.3f}" for value in rounds[name])
        print(f"{name:20} {len(found):8} {median:10.4f} {median / base:7.3f}  {each}")
    print("last round with all stacks: loss", {row["reason"]: row["count"] for row in lost}, "unique stacks", stacks[-1:],
          flush=True)


def running_job(program):
    """A training loop that ran before the daemon did."""
    pid = program.process.pid
    daemon = Daemon()
    daemon.wait("the training loop", lambda: any(row["pid"] == pid for row in daemon.query("ps")["rows"]))
    time.sleep(3)
    launches = daemon.query("launches", "--pid", str(pid))
    total = sum(row["calls"] for row in launches["rows"])
    check("running PyTorch job: launches are seen", total > 1000, f"{total} in 3 s")
    daemon.wait("an allocation", lambda: daemon.query("leaks", "--pid", str(pid), "--min-age", "0s")["rows"], 30)
    for command in (["ps"], ["query", "launches", "--limit", "3"], ["query", "apis"], ["query", "memory"],
                    ["query", "leaks", "--min-age", "1s", "--limit", "2"], ["query", "syncs", "--limit", "2"],
                    ["query", "states", "--since", "20ms", "--limit", "10"]):
        print("$ tsctl", *command)
        print(daemon.ctl(*command)[1], flush=True)
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
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                         text=True).stdout.strip(), "kernel", os.uname().release)
    probe_cost()
    exact_counts()
    train = Program("python3", os.path.join(HERE, "train.py"), "600")
    running_job(train)
    overhead("training step, PyTorch, bound by launches", "ms a step", train)
    overhead("empty kernels back to back", "ns a launch", Program(compile_cuda("empty"), "600"))
    print(f"\n{len(failures)} failed; logs in {OUT}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
