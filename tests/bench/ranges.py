"""Ranges: what tracesmith.range() costs where nobody watches, and where a daemon does: a pair of calls of the library, a
`with`, and a call of a decorated function, over one that is not decorated. Time on a CPU; medians of batches."""
import os
import subprocess
import sys

import bench
from tracesmith import BUILD, wait_for

PACKAGE = os.path.join(BUILD, "python")
LIBRARY = "libtracesmith-range.so"
MEASURED = """
import statistics, sys, time
sys.path.insert(0, sys.argv[1])
import tracesmith
from tracesmith._range import _begin, _end
def plain():
    pass
marked = tracesmith.range("step")(plain)
def pair():
    _end(_begin(b"step"))
def span():
    with tracesmith.range("step"):
        pass
def ns(call):
    batches = []
    for _ in range(60):
        start = time.thread_time_ns()
        for _ in range(500):
            call()
        batches.append((time.thread_time_ns() - start) / 500)
    return statistics.median(batches)
print("ready", flush=True)
for _ in sys.stdin:
    base = ns(plain)
    print(base, *(ns(call) - base for call in (pair, span, marked)), flush=True)
"""


def main():
    bench.require_root()
    gpu, rows = bench.Gpu(), []
    program = subprocess.Popen([sys.executable, "-c", MEASURED, PACKAGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)

    def measure(watched):
        program.stdin.write("\n")
        program.stdin.flush()
        rows.append((watched, *(f"{float(ns):.0f}" for ns in program.stdout.readline().split())))

    assert program.stdout.readline() == "ready\n"
    measure("nobody")
    gpu.name += f" {LIBRARY}*"
    with bench.Daemon(gpu, standing=False) as daemon:
        wait_for("the probes", lambda: LIBRARY in daemon.log())
        measure("a daemon")
    measure("nobody any more")
    program.stdin.close()
    program.wait()
    gpu.close()
    print(bench.machine())
    for row in ("watched by", "empty call", "begin and end", "with", "decorated, ns"), *rows:
        print("{:16}{:>12}{:>15}{:>8}{:>15}".format(*row))


main()
