#!/usr/bin/env python3
"""First do no harm, on a real driver and a real CUPTI: the awkward programs of tests/e2e (harm_list.py) under each way of
tracing, held against themselves alone; the table is that of tests/e2e/test_harm.py.

Usage: tests/gpu/harm.py [BUILD] (build/release), as root; a minute for each mode. The programs need only libc: they are those of
PROGRAMS (BUILD/tests/e2e, which can come from another machine). MODES (run,attach,detach,undo-light,inside), ONLY (all), ROUNDS
(1), JOBS (4); DRIVER: another libcuda.so.1, which for a trial can be the simulated one. The last line is the verdict.
"""
import concurrent.futures
import glob
import os
import sys

import gpu
from gpu import HERE, check

sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import harm_list
import harms

BUILD = gpu.build(sys.argv)
PROGRAMS = os.environ.get("PROGRAMS", os.path.join(BUILD, "tests", "e2e"))
MODES = os.environ.get("MODES", "run,attach,detach,undo-light,inside").split(",")
ONLY = os.environ.get("ONLY", "").split(",") if os.environ.get("ONLY") else []
JOBS = int(os.environ.get("JOBS", "4"))
PLACES = ("/usr/local/nvidia/lib*/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1")
# MiB, resident and in all, that a real CUPTI and its buffers take, and leave.
MEMORY = {"probes": (2, 2), "detach": (400, 4096), "undo-light": (32, 256)}
TRACED = (600, 8192)


def driver():
    for place in [os.environ["DRIVER"]] if "DRIVER" in os.environ else PLACES:
        for path in sorted(glob.glob(place), reverse=True):
            return path
    raise SystemExit("no libcuda.so.1: set DRIVER")


class Daemon(gpu.Daemon):
    def run_command(self):
        return self.command("run")


def setup():
    path = driver()
    simulated = "tests/fake" in path
    environment = dict(os.environ, FAKE_CUDA_MEMORY_MIB="256", FAKE_CUDA_DEVICES="1") if simulated else dict(os.environ)
    folders = [os.path.dirname(path), *glob.glob("/usr/local/cuda/extras/CUPTI/lib64")]
    environment["LD_LIBRARY_PATH"] = ":".join(folders + [environment.get("LD_LIBRARY_PATH", "")]).rstrip(":")
    return harms.Setup(PROGRAMS, path, environment, simulated, MEMORY, TRACED)


def trials(where, programs, mode, daemon=None, alone=None):
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda each: harms.Trial(where, each, mode, daemon, alone and alone[each]).run(), programs))


def one_round(where, programs):
    gpu.wait_for("the driver to be without probes", lambda: harms.untouched(where.driver))
    alone, found = dict(zip(programs, trials(where, programs, "alone"))), []
    for inside in False, True:
        modes = [mode for mode in MODES if (mode == "inside") == inside]
        if not modes:
            continue
        names = os.path.basename(where.driver) if not where.simulated else os.path.basename(os.path.realpath(where.driver))
        light = "exact" if inside else "request"
        daemon = Daemon(BUILD, f"[probe]\nstanding = {where.driver}\nlibraries = {names}*\nlight = {light}\n")
        for mode in modes:
            mine = [program for program in programs if mode in program.modes]
            found += [harms.Verdict(alone[trial.program], trial) for trial in trials(where, mine, mode, daemon, alone)]
        daemon.stop()
    return found


def main():
    where = setup()
    print(where.driver if where.simulated else gpu.machine())
    programs = [program for program in harm_list.PROGRAMS if program.real and (not ONLY or program.name in ONLY)]
    # The first process compiles the kernel, with a library that the others do not need.
    trials(where, [program for program in harm_list.PROGRAMS if program.name == "plain"], "alone")
    for _ in range(int(os.environ.get("ROUNDS", "1"))):
        found = one_round(where, programs)
        print(harms.table(found, MODES), flush=True)
        for verdict in found:
            if verdict.unexpected:
                check(f"{verdict.program.name} × {verdict.mode}", False, "; ".join(verdict.unexpected))
        tried = sum(verdict.word != "skipped" for verdict in found)
        check("programs were tried", tried > 0, f"{tried} of {len(found)}")


if __name__ == "__main__":
    os.environ.setdefault("PROGRAM", "")  # it needs no PyTorch
    gpu.run(main)
