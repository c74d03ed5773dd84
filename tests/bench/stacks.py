"""Stacks: what the stack of a launch costs, by call frame information: from one place in a loop, where the thread's last
walk still holds, and where it does not. One process, settings switched in turns; figures are medians of the turns' medians.
"""
import os
import signal
import subprocess

import bench
from tracesmith import BUILD, wait_for

TURNS = 7
DEPTHS = 10, 40
ORDERS = "same", "other", "outer"
STATES = {"none": "launch_stacks = 0", "stacks": "launch_stacks = 1000000000"}
COMMON = "unwind = eh-frame\nstack_depth = 127\ntrap_limit = none\nrate_limit = 1000\n"


def choose(daemon, settings, state):
    reread = daemon.log().count("Reread")
    with open(daemon.config, "w") as file:
        file.write(settings.replace("[probe]\n", f"[probe]\n{state}\n"))
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("the settings", lambda: daemon.log().count("Reread") > reread)


def measure(gpu, orders):
    results = {(state, order): [] for state in STATES for order in orders}
    with bench.Daemon(gpu, COMMON) as daemon:
        with open(daemon.config) as file:
            settings = file.read()
        process = subprocess.Popen([os.path.join(BUILD, "tests/e2e/e2e_paths"), os.path.join(gpu.directory, gpu.name)],
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def turn(order):
            process.stdin.write(order + "\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        for _ in range(TURNS):
            for state, setting in STATES.items():
                choose(daemon, settings, setting)
                for order in orders:
                    turn(order)
                    results[state, order].append(turn(order))
        process.stdin.close()
        process.wait()
        process.stdout.close()
    return {name: bench.median(values) for name, values in results.items()}


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("launches", "frames", "without ns", "with ns", "added ns", "load")
    gpu = bench.Gpu()
    try:
        orders = [f"{order} {depth}" for depth in DEPTHS for order in ORDERS]
        found = measure(gpu, orders)
        for order in orders:
            without, with_stack = found["none", order], found["stacks", order]
            table.row(*order.split(), f"{without:.0f}", f"{with_stack:.0f}", f"{with_stack - without:.0f}",
                      bench.load_average())
    finally:
        gpu.close()


main()
