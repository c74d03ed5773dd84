"""Stacks: what the stack of a launch costs, by call frame information: from one place in a loop, where the thread's last
walk still holds, and where it does not. One process, settings switched in turns; figures are medians of the turns' medians.

Then call by call, in a new process each turn: the middle one, the 99th of 100 and the 999th of 1,000, of walks and of
calls from places that were never seen, each of which sends its stack to the daemon. Of all but `calls left out`, in which
the thread lost its CPU, whatever took it. What is added is over the middle call without a stack; medians of the turns.
"""
import collections
import os
import signal
import subprocess

import bench
from tracesmith import BUILD, wait_for

TURNS = 7
DEPTHS = 10, 40
ORDERS = "same", "other", "outer"
SINGLES = "each same 40", "each other 10", "each other 40", "each site 40"
MISSED, SITES = "each site 40", 512
STATES = {"none": "launch_stacks = 0", "stacks": "launch_stacks = 1000000000"}
COMMON = "unwind = eh-frame\nstack_depth = 127\ntrap_limit = none\nrate_limit = 1000\n"


def choose(daemon, settings, state):
    reread = daemon.log().count("Reread")
    with open(daemon.config, "w") as file:
        file.write(settings.replace("[probe]\n", f"[probe]\n{state}\n"))
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("the settings", lambda: daemon.log().count("Reread") > reread)
ROOM = "ring_size = 64MiB\n"  # three quarters full, no stacks are asked for


class Paths:
    """The program that makes the calls."""

    def __init__(self, gpu):
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/e2e/e2e_paths"), os.path.join(gpu.directory, gpu.name)],
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def order(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return [float(number) for number in self.process.stdout.readline().split()]

    def close(self):
        self.process.communicate()


def measure(gpu, orders):
    results = {(state, order): [] for state in STATES for order in orders}
    with bench.Daemon(gpu, COMMON) as daemon:
        with open(daemon.config) as file:
            settings = file.read()
        paths = Paths(gpu)
        for _ in range(TURNS):
            for state, setting in STATES.items():
                choose(daemon, settings, setting)
                for order in orders:
                    paths.order(order)
                    results[state, order] += paths.order(order)
        paths.close()
    return {name: bench.median(values) for name, values in results.items()}


def walks(daemon):
    """How many stacks the daemon has walked, and how many it was not asked for, as there were too many at once."""
    numbers = daemon.status()
    return numbers["unwinding", "stacks"], next(number for (_, name), number in numbers.items() if name == "stacks_cut")


def measure_singles(gpu, turns):
    """By state and order, and of misses, the figures of each turn."""
    found = collections.defaultdict(list)
    with bench.Daemon(gpu, COMMON + ROOM) as daemon:
        with open(daemon.config) as file:
            settings = file.read()
        for _ in range(turns):
            paths = Paths(gpu)
            for state, setting in STATES.items():
                choose(daemon, settings, setting)
                for order in SINGLES:
                    before, unasked = walks(daemon)
                    first = paths.order(order)
                    if order == MISSED and state == "stacks":
                        wait_for("an answer for each", lambda: sum(walks(daemon)) >= before + unasked + SITES)
                        if walks(daemon)[1] == unasked:
                            found["miss"].append(first)
                    found[state, order].append(paths.order(order))
            paths.close()
    return {name: [bench.median(column) for column in zip(*rows)] for name, rows in found.items()}


def show_singles(gpu, turns):
    table = bench.Table("calls", "frames", "middle ns", "99 of 100", "999 of 1,000", "longest", "left out",
                        "middle adds", "99 of 100 adds", "load")
    found = measure_singles(gpu, turns)

    def row(what, frames, figures, without):
        table.row(what, frames, *(f"{figure:.0f}" for figure in figures), f"{figures[0] - without:.0f}",
                  f"{figures[1] - without:.0f}", bench.load_average())

    for order in SINGLES:
        _, what, frames = order.split()
        without = found["none", order][0]
        row(f"{what}, without", frames, found["none", order], without)
        row(what, frames, found["stacks", order], without)
    row("miss", frames, found["miss"], without)


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
        show_singles(gpu, TURNS)
    finally:
        gpu.close()


main()
