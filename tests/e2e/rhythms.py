"""Random programs that say in the end what they called, and when: of each function of each process, what the daemon tells is that, or
that within its bounds, or there are losses over the times of the calls that are missing. `Rhythms` runs many of them and judges."""
import json
import os
import random
import shutil
import subprocess
import tempfile

import tracesmith
from tracesmith import wait_for

# Losses over whose time calls may have been made that are not told.
UNSEEN = ("windows", "gap", "left-out", "left-out-frequent", "ring-full", "rate-limit", "call-state", "stray", "limit", "store", "bad-event")
HOWS = ("",) * 12 + ("fork", "exec", "storm")
AT_ONCE = 3


class Rhythms:
    """Runs `count` programs, of as many milliseconds as `lengths` says; `meanwhile`: a turn of it before each start."""

    def __init__(self, daemon, library, seed, lengths, meanwhile=lambda number: None):
        self.daemon, self.library, self.seed, self.lengths, self.meanwhile = daemon, library, seed, lengths, meanwhile
        self.choose = random.Random(seed)
        self.running, self.said, self.directories = [], {}, []

    def start(self, number):
        library, directory = self.library, None
        length, how = self.choose.choice(self.lengths), self.choose.choice(HOWS)
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

    def run(self, count):
        for number in range(count):
            self.meanwhile(number)
            self.start(number)
            if len(self.running) == AT_ONCE:
                self.finish()
        while self.running:
            self.finish()

    def losses(self, pid):
        rows = self.daemon.sql("SELECT r.name AS reason, l.start_ns, l.end_ns FROM loss l JOIN loss_reason r ON r.id = l.reason WHERE l.process = 0 "
                               f"OR l.process IN (SELECT id FROM process WHERE pid = {pid})")
        return [(row["start_ns"], row["end_ns"], row["reason"]) for row in rows if row["reason"] in UNSEEN]

    def judge(self, pid):
        """What is wrong, a line for each function, and how many are told as they are, within bounds, and as missed."""
        what, calls = self.said[pid]
        bad, exact, estimated, missed = [], 0, 0, 0
        wait_for("its end", lambda: self.daemon.ended(pid) or not self.daemon.known(pid))
        told, losses = self.daemon.apis(pid), self.losses(pid)
        for name, slices in calls.items():
            true = sum(count for _, _, count in slices)
            row = told.get(name, {"calls": 0, "plus_minus": None})
            bound = row["plus_minus"] or 0
            covered = sum(count for first, last, count in slices if any(first <= end and last >= start for start, end, _ in losses))
            if row["calls"] == true:
                exact += 1
            elif abs(row["calls"] - true) <= bound:
                estimated += 1
            elif row["calls"] + bound < true <= row["calls"] + bound + covered:
                missed += 1
            elif not row["calls"] - 2 * bound <= true < row["calls"]:
                first = min(slice[0] for slices in calls.values() for slice in slices)
                spans = ", ".join(f"{reason} {(start - first) / 1e6:.2f} to {(end - first) / 1e6:.2f} ms" for start, end, reason in losses)
                bad.append(f"process {pid} ({what}), {name}: {true} calls, told {row['calls']} ± {row['plus_minus']}; "
                           f"{covered} at times of a loss; losses: {spans or 'none'}")
        return bad, (exact, estimated, missed)

    def judge_all(self):
        bad, counts = [], [0, 0, 0]
        for pid in self.said:
            wrong, told = self.judge(pid)
            bad += wrong
            counts = [a + b for a, b in zip(counts, told)]
        return bad, counts
