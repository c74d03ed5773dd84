#!/usr/bin/env python3
"""Nothing is missing without a word, on a real driver: the random programs of tests/e2e/rhythm.c, which do real work, with the
settings that users have. Of each function of each process the truth is told, or an estimate with its bounds, or a loss that covers
what is missing.

Usage: tests/gpu/honest.py [BUILD [PROGRAMS]] (build/release, 1000), as root. BUILD has tests/e2e/e2e_rhythm and tests/fake as well;
it needs only libc and may come from another machine. TS_SEED (1): which programs; TS_AT_ONCE (3) of them at once, beside LOOPS (0)
busy loops; BOUND_S: none is started after that. DRIVER: another libcuda.so.1; with the simulated one, WORK=no. The last line is the
verdict.
"""
import contextlib
import os
import shutil
import subprocess
import sys
import time

import gpu
from gpu import HERE, OUT, check

BUILD = gpu.build(sys.argv)
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
EACH = 250  # programs in one database
os.environ["TS_BUILD"], os.environ["TS_DRIVER"] = BUILD, ""
os.environ.setdefault("PROGRAM", "")  # no PyTorch
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import tracesmith  # noqa: E402
from harm import driver  # noqa: E402
from rhythms import Rhythms  # noqa: E402


@contextlib.contextmanager
def busy(loops):
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def some(seed, count):
    """How many were told how."""
    path = os.path.realpath(driver())
    unit = shutil.which("systemd-analyze") and shutil.which("setpriv")
    daemon = tracesmith.Daemon(budget="1%", trap_limit="25%", driver=os.path.basename(path), standing=(), as_root=not unit)
    try:
        daemon.start()
        rhythms = Rhythms(daemon, path, seed)
        rhythms.run(count)
        told = rhythms.judge_all()
    finally:
        shutil.copy(daemon.log_path, os.path.join(OUT, f"daemon-{seed}.log"))
        daemon.close()
    for line in told["silent"] + told["beyond bounds"]:
        print(line)
    return {how: len(lines) for how, lines in told.items()}


def main():
    seed, done, sums = int(os.environ.get("TS_SEED", "1")), 0, {}
    end = time.monotonic() + float(os.environ.get("BOUND_S", "inf"))
    if os.environ.get("WORK") != "no":
        os.environ["RHYTHM_WORK"] = "1"
    with busy(int(os.environ.get("LOOPS", "0"))):
        while done < COUNT and time.monotonic() < end:
            for how, lines in some(seed, min(EACH, COUNT - done)).items():
                sums[how] = sums.get(how, 0) + lines
            done, seed = done + min(EACH, COUNT - done), seed + 1
    where = driver() if "tests/fake" in driver() else gpu.machine()
    print(f"{where}; {done} programs, functions of processes: " + ", ".join(f"{count} {how}" for how, count in sums.items()))
    check("none is silent", sums["silent"] == 0)


if __name__ == "__main__":
    gpu.run(main)
