"""Random programs that say in the end what they called, and when: of each function of each process, what the daemon tells is that, or
that within its bounds, or there are losses over the times of the calls that are missing. `Rhythms` runs many of them and judges."""
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import tracesmith
from tracesmith import wait_for

# Losses over whose time calls may have been made that are not told: of all, and of all but those that make memory.
with open(os.path.join(tracesmith.SOURCE, "core/model/loss_row.h")) as file:
    HIDES = {name: what for what, name in re.findall(r'X\(\d+, \w+, \w+, \w+, (\w+),\s*\\?\s*"[^"]*",\s*\\?\s*"([^"]+)"', file.read())}
HIDDEN = {True: ("CALLS",), False: ("CALLS", "WORK")}
MAKES_MEMORY = ("cuMemAlloc_v2",)
HOWS = ("",) * 12 + ("fork", "exec", "storm")
# Milliseconds. Most are as short as a test's, some as long as it takes to have windows.
LENGTHS = (5, 5, 20, 20, 50, 50, 100, 200, 200, 500, 1000, 2500)
AT_ONCE = int(os.environ.get("TS_AT_ONCE", "3"))


class Rhythms:
    """Runs random programs, while the daemon is told to read its settings again, ends and starts."""

    def __init__(self, daemon, library, seed):
        self.daemon, self.library, self.seed = daemon, library, seed
        self.choose = random.Random(seed)
        self.running, self.said, self.directories = [], {}, []

    def start(self, number):
        library, directory = self.library, None
        length, how = self.choose.choice(LENGTHS), self.choose.choice(HOWS)
        if self.choose.random() < 0.1:
            directory = tempfile.mkdtemp(prefix="tracesmith-driver-")
            library = shutil.copy(library, directory)
        process = subprocess.Popen([os.path.join(tracesmith.BUILD, "tests/e2e/e2e_rhythm"), library,
                                    str(self.seed * 100000 + number), str(length), how], stdout=subprocess.PIPE, text=True)
        self.running.append((f"{length} ms {how or 'plain'}{' fresh' if directory else ''}", process, directory))

    def finish(self):
        """The one that has run longest. A process may have run two programs."""
        what, process, directory = self.running.pop(0)
        out, _ = process.communicate(timeout=300)
        if process.returncode:
            raise AssertionError(f"{what}: exit {process.returncode}: {out}")
        for line in out.splitlines():
            said = json.loads(line)
            _, calls = self.said.setdefault(said["pid"], (what, {}))
            for name, slices in said["calls"].items():
                calls.setdefault(name, []).extend(slices)
        if directory:
            shutil.rmtree(directory)

    def disturb(self, number):
        """Before each start."""
        if number % 40 == 20:
            self.daemon.process.send_signal(signal.SIGHUP)
        if number % 100 == 50:
            self.daemon.stop()
            self.daemon.start()
        if number % 100 == 99:
            self.daemon.kill()
            self.daemon.start()

    def run(self, count):
        for number in range(count):
            self.disturb(number)
            self.start(number)
            if len(self.running) == AT_ONCE:
                self.finish()
        while self.running:
            self.finish()

    def losses(self, pid):
        rows = self.daemon.sql("SELECT r.name AS reason, l.start_ns, l.end_ns FROM loss l JOIN loss_reason r ON r.id = l.reason WHERE l.process = 0 "
                               f"OR l.process IN (SELECT id FROM process WHERE pid = {pid})")
        return [(row["start_ns"], row["end_ns"], row["reason"]) for row in rows]

    def judge(self, pid):
        """Of each function: how it is told, and a line of what is known."""
        what, calls = self.said[pid]
        wait_for("its end", lambda: self.daemon.ended(pid) or not self.daemon.known(pid))
        told, losses = self.daemon.apis(pid), self.losses(pid)
        for name, slices in calls.items():
            true = sum(count for _, _, count in slices)
            row = told.get(name, {"calls": 0, "plus_minus": None})
            bound = row["plus_minus"] or 0
            hides = [loss for loss in losses if HIDES[loss[2]] in HIDDEN[name in MAKES_MEMORY]]
            covered = within(hides, slices)
            unestimated = within([loss for loss in hides if loss[2] != "windows"], slices)
            first = min((slice[0] for slices in calls.values() for slice in slices), default=0)
            spans = ", ".join(f"{reason} {(start - first) / 1e6:.2f} to {(end - first) / 1e6:.2f} ms" for start, end, reason in losses)
            yield how_told(true, row["calls"], bound, covered, unestimated), (
                f"process {pid} ({what}), {name}: {true} calls, told {row['calls']} ± {row['plus_minus']}; "
                f"{covered} at times of a loss; losses: {spans or 'none'}")

    def judge_all(self):
        """Lines by how it is told."""
        lines = {how: [] for how in ("true", "within bounds", "beyond bounds", "said to be short", "silent")}
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for judged in pool.map(lambda pid: list(self.judge(pid)), self.said):
                for how, line in judged:
                    lines[how].append(line)
        print(f"{len(self.said)} processes: " + ", ".join(f"{len(found)} {how}" for how, found in lines.items()), file=sys.stderr)
        return lines


def within(losses, slices):
    """The calls that may have been made at the time of one."""
    return sum(count for first, last, count in slices if any(first <= end and last >= start for start, end, _ in losses))


def how_told(true, told, bound, covered, unestimated):
    """`covered`: the calls at the times of losses; `unestimated`: of such as no estimate is made for."""
    if told == true:
        return "true"
    if abs(told - true) <= bound:
        return "within bounds"
    if told + bound < true and told + bound + covered < true:
        return "silent"
    if bound and not told < true <= told + bound + unestimated:
        return "beyond bounds"
    return "said to be short" if told < true else "silent"
