"""Python_frames: what frames of Python cost a call whose stack is taken, over one without a stack and one with a
native stack; 10 frames, for every Python there is. The last column: the same by a daemon that reads each code object
of each stack, where it is counted which are freed.

All is switched within one running process, in turns, by settings that the daemon reads again. Each figure is the median
of the turns' medians.
"""
import glob
import os
import signal
import subprocess
import sys

import bench
from tracesmith import wait_for

TURNS = 7
CALLS = """
import ctypes, statistics, sys, time
driver = ctypes.CDLL(sys.argv[1])
driver.cuInit(0)
call, clock = driver.cuLaunchKernel, time.perf_counter_ns
arguments = [ctypes.c_void_p(0)] + 7 * [ctypes.c_uint(0)] + 3 * [ctypes.c_void_p(0)]
def measure():
    batches = []
    for _ in range(100):
        start = clock()
        for _ in range(200):
            call(*arguments)
        batches.append((clock() - start) / 200)
    return statistics.median(batches)
def deep(n):
    return deep(n - 1) if n else measure()
print("ready", flush=True)
for line in sys.stdin:
    print(deep(int(line)), flush=True)
"""
STATES = {"none": "launch_stacks = 0", "native": "launch_stacks = 1000000000\npython = no",
          "python": "launch_stacks = 1000000000\npython = yes"}
COMMON = "unwind = eh-frame\nstack_depth = 127\ntrap_limit = none\n"


def pythons():
    yield "/usr/bin/python3"
    for version in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14"):
        yield from glob.glob(f"/root/.pyenv/versions/{version}.[0-9]*/bin/python{version}")[:1]


def measure(gpu, executable, counted=True):
    results = {name: [] for name in STATES}
    with bench.Daemon(gpu, COMMON) as daemon:
        with open(daemon.config) as file:
            settings = file.read()
        process = subprocess.Popen([executable, "-c", CALLS, os.path.join(gpu.directory, gpu.name)], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()

        def turn(frames):
            process.stdin.write(f"{frames - 3}\n")  # the module, the last deep() and measure()
            process.stdin.flush()
            return float(process.stdout.readline())

        turn(10)
        wait_for("its Python", lambda: daemon.status().get(("python", "processes")))
        if counted:
            try:
                wait_for("the count", lambda: daemon.status().get(("python", "counted")), 5)
            except AssertionError:
                print(f"{executable}: it is not counted what code it frees")
        for number in range(TURNS):
            for name, state in STATES.items():
                reread = daemon.log().count("Reread")
                with open(daemon.config, "w") as file:
                    file.write(settings.replace("[probe]\n", f"[probe]\n{state}\n"))
                daemon.process.send_signal(signal.SIGHUP)
                wait_for("the settings", lambda: daemon.log().count("Reread") > reread)
                turn(10)
                results[name].append(turn(10))
        process.stdin.close()
        process.wait()
    return {name: bench.median(values) for name, values in results.items()}


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("python", "none ns", "native ns", "python ns", "native +", "python +", "read +", "load")
    gpu = bench.Gpu()
    try:
        for executable in sys.argv[1:] or pythons():
            found = measure(gpu, executable)
            none, native, python = (found[name] for name in STATES)
            os.environ["TRACESMITH_READ_CODES"] = "1"
            read = measure(gpu, executable, False)
            del os.environ["TRACESMITH_READ_CODES"]
            table.row(executable, f"{none:.0f}", f"{native:.0f}", f"{python:.0f}", f"{native - none:.0f}",
                      f"{python - native:.0f}", f"{read['python'] - read['native']:.0f}", bench.load_average())
    finally:
        gpu.close()


main()
