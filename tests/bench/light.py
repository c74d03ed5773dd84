"""Light: what a launch costs in place, in turns within one process: without us, with the kernel's probe, in light
mode, and after the daemon of light mode has died (nobody takes the records)."""
import os
import subprocess
import sys
import time

import bench
import tracesmith

TURN = 2.5
ROUNDS = int(os.environ.get("ROUNDS", "4"))
WORK = (64, 1024)
STATES = ("off", "probe", "light", "light, no daemon")


class Program:
    """On the first CPU; the daemon is on the others."""

    def __init__(self, kib):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), FAKE_CUDA_TIME_SCALE="0",
                           TRACESMITH_INJECT_SOCKET=SOCKET)
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", os.path.join(tracesmith.BUILD, "tests", "bench", "in_place"), str(kib), "600"],
            stdout=subprocess.PIPE, text=True, env=environment)
        os.set_blocking(self.process.stdout.fileno(), False)

    def lines(self):
        return [tuple(map(float, line.split())) for line in self.process.stdout.readlines()]

    def measure(self):
        time.sleep(0.3)
        self.lines()
        time.sleep(TURN)
        return bench.median([ns for _, ns in self.lines()])

    def close(self):
        self.process.kill()
        self.process.wait()


DAEMON = tracesmith.Daemon()
SOCKET = os.path.join(DAEMON.directory, "inject.sock")


def a_round(program):
    found = {"off": program.measure()}
    DAEMON.start(prefix=("taskset", "-c", f"1-{os.cpu_count() - 1}"))
    tracesmith.wait_for("the program", lambda: DAEMON.known(program.process.pid))
    found["probe"] = program.measure()
    result = DAEMON.ctl("attach", program.process.pid, "--light")
    if result.code:
        sys.exit(result.err)
    time.sleep(0.5)
    found["light"] = program.measure()
    DAEMON.kill()
    found["light, no daemon"] = program.measure()
    DAEMON.start(prefix=("taskset", "-c", f"1-{os.cpu_count() - 1}"))
    tracesmith.wait_for("light mode again", lambda: any(
        row["tier"] == "light" for row in DAEMON.query("ps", "--pid", program.process.pid)))
    result = DAEMON.ctl("detach", program.process.pid)
    if result.code:
        sys.exit(result.err)
    DAEMON.stop()
    return found


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("an iteration with one launch, ns", *STATES)
    try:
        for kib in WORK:
            program = Program(kib)
            rounds = [a_round(program) for _ in range(ROUNDS)]
            program.close()
            middle = {state: bench.median([found[state] for found in rounds]) for state in STATES}
            for n, found in enumerate(rounds):
                table.row(f"{kib} KiB, round {n + 1}", *(f"{found[state]:.0f}" for state in STATES))
            table.row(f"{kib} KiB, median", *(f"{middle[state]:.0f}" for state in STATES))
            table.row(f"{kib} KiB, over off",
                      *(f"{bench.median([found[state] - found['off'] for found in rounds]):+.0f}" for state in STATES))
    finally:
        DAEMON.close()


if __name__ == "__main__":
    main()
