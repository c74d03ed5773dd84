"""Tensors: what a report of PyTorch's allocator costs, in turns within one process: without us, with the probe and a report of
host memory (the trap and the decision to leave it out), with a block below `tensor_size` (the sums, too), and with one that is
followed (an event, and where it is given out a stack of 20 frames); and with what was asked for, too (another probe for each block).

The pace is that of a busy program, so that the ring does not overflow: a block each 25 us.
"""
import os
import subprocess
import sys
import time

import bench
import tracesmith

ROUNDS = int(os.environ.get("ROUNDS", "7"))
TIMES, TURNS = 400, 40
DEPTH = os.environ.get("DEPTH", "20")


class Program:
    def __init__(self):
        self.process = subprocess.Popen(
            [os.path.join(tracesmith.BUILD, "tests", "bench", "tensor_calls"), DEPTH], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library())))
        self.process.stdout.readline()

    def measure(self, device):
        found = []
        for _ in range(TURNS):
            self.process.stdin.write(f"{device} {TIMES}\n")
            self.process.stdin.flush()
            found.append(float(self.process.stdout.readline()))
            time.sleep(2 * TIMES * 12.5e-6)
        return bench.median(found)

    def close(self):
        self.process.kill()
        self.process.wait()


def with_daemon(program, daemon, found, states):
    daemon.start()
    folder = os.path.realpath(os.path.join(tracesmith.FAKE, "lib10"))
    names = ["libc10.so"] + ["libc10_cuda.so"] * ("GPU block, requested" in states)
    tracesmith.wait_for("probes", lambda: all(f"'{folder}/{name}'" in daemon.log() for name in names))
    program.measure(1)
    for name, device in states.items():
        found[name].append(program.measure(device))
    daemon.stop()


def main():
    program = Program()
    daemons = [tracesmith.Daemon(f"[probe]\ntensors = yes\n{more}\n")
               for more in ("", "tensor_size = 1MiB", "tensor_requests = yes")]
    states = ({"trap alone": 0, "GPU block": 1}, {"small block": 1}, {"GPU block, requested": 1})
    found = {name: [] for name in ("off", "trap alone", "small block", "GPU block", "GPU block, requested")}
    for _ in range(ROUNDS):
        found["off"].append(program.measure(1))
        for daemon, measured in zip(daemons, states):
            with_daemon(program, daemon, found, measured)
    program.close()
    for daemon in daemons:
        daemon.close()
    print(f"{os.cpu_count()} CPUs, {os.uname().release}; ns a report, median (lowest, highest) of {ROUNDS} rounds")
    for name, values in found.items():
        print(f"{name:20} {bench.median(values):8.1f} ({min(values):.1f}, {max(values):.1f})")


if __name__ == "__main__":
    sys.exit(main())
