#!/usr/bin/python3
"""Checks the states that TraceSmith reports against its own ops, by brute force.

    states.py [--file F.sbt] [--pid N] [--tsctl PATH]

What a device or stream was doing at any time follows from the ops alone: it ran what ran, and it was
*blocked* (pending, or waiting for another stream) from the submission of what had not started. This
program works that out op by op, with no model, and compares:

- each stored state interval with what the ops say of that time: they may not differ anywhere;
- the time in each state (`busy`, which `idle` reads) with what the ops add up to.

It knows nothing of why; so it finds states that go on although all work is over, and work that no state
shows. What it says is one line for each difference. Exit status: 0 none, 1 some, 2 usage.

States of the exact tier are compared with exact times, those of the probe tier with its bounds. Where a
record was lost both sides guess, and may guess differently: who wants none of that looks at `loss` first.
"""
import argparse
import bisect
import collections
import json
import subprocess
import sys

SLACK_NS = 1000  # clocks of calls and of devices are read apart
SHORT_NS = 20000  # the store leaves out shorter exact states (docs/tables.md)
GAP_NS = 1000000  # of such states in a row; longer times without one were not observed
NODE, NO_CALL = 256, 512  # flags of ops
ROWS_MAX = 1000000  # that tsctl sql gives
NO_WORK = ("state", "sync", "range", "overhead")
RUNNING, COPYING, BLOCKED, SYNCING, IDLE = "running", "copying", "blocked", "syncing", "idle"
TOLD = {"pending": BLOCKED, "waiting": BLOCKED}
WAITS = ("cuMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyPeer", "cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2",
         "cuMemcpy3D_v2", "cuMemcpy3DPeer", "cuMemcpyHtoA_v2", "cuMemcpyAtoH_v2")
OPS = ("SELECT kind, fn, stream, device, start_ns, end_ns, gpu_start_ns, gpu_end_ns, exact, bounds, result, flags"
       " FROM op WHERE process = {process} AND kind <> 'state' AND NOT captured"
       " ORDER BY start_ns")
STATES = ("SELECT stream, device, detail AS state, start_ns, end_ns, exact FROM op"
          " WHERE process = {process} AND kind = 'state' ORDER BY device, stream, start_ns")
BUSY = ("SELECT b.device, n.name AS state, sum(ns) AS ns FROM busy b JOIN detail n ON n.id = b.state"
        " AND n.kind = (SELECT id FROM kind WHERE name = 'state') WHERE b.process = {process} GROUP BY 1, 2")


class Timeline:
    """What holds at any time, from intervals that may overlap: how many of each sort are open."""

    def __init__(self):
        self.edges = []

    def add(self, what, start, end):
        if end > start:
            self.edges += [(start, what, 1), (end, what, -1)]

    def segments(self, choose):
        """[(start, choose(open))], each valid until the next."""
        open_, found, time = collections.Counter(), [], None
        for start, what, by in sorted(self.edges, key=lambda edge: edge[0]):
            if time is not None and start > time:
                now = choose(open_)
                if not found or found[-1][1] != now:
                    found.append((time, now))
            time = start
            open_[what] += by
        if time is not None:
            found.append((time, IDLE))
        return found


class Truth:
    """The segments of one device or stream."""

    def __init__(self, segments):
        self.starts = [start for start, _ in segments]
        self.states = [state for _, state in segments]

    def between(self, start, end):
        """[(start, end, state)] of a time; before the first and after the last segment it is idle."""
        at = bisect.bisect_right(self.starts, start) - 1
        while start < end:
            until = self.starts[at + 1] if at + 1 < len(self.starts) else end
            until = min(max(until, start), end)
            if until > start:
                yield start, until, self.states[at] if at >= 0 else IDLE
            start, at = until, at + 1

    def totals(self, windows):
        sums = collections.Counter()
        for window in windows:
            for start, end, state in self.between(*window):
                sums[state] += end - start
        return sums


def choose_stream(open_):
    return RUNNING if open_[RUNNING] else BLOCKED if open_[BLOCKED] else IDLE


def is_submitted(op):
    """Parts of a launch were submitted with it, and work without a call is known from its start on."""
    return not op["flags"] & (NODE | NO_CALL)


def is_waiting(op):
    return op["end_ns"] and not op["result"] and (op["kind"] == "sync" or op["fn"] in WAITS)


class Process:
    def __init__(self, sql, process):
        ops = sql(OPS.format(process=process))
        if len(ops) >= ROWS_MAX:
            raise SystemExit(f"states.py: {ROWS_MAX} ops and more are more than a statement gives")
        self.states = sql(STATES.format(process=process))
        self.busy = sql(BUSY.format(process=process))
        self.work = [op for op in ops if op["kind"] not in NO_WORK and op["gpu_start_ns"] is not None and not op["result"]]
        self.place_work()
        self.bound_work()
        self.waits = [op for op in ops if is_waiting(op)]
        self.of_stream = collections.defaultdict(list)
        for op in self.work:
            self.of_stream[op["stream"]].append(op)

    def place_work(self):
        """Calls from before their stream's device was known."""
        devices = {op["stream"]: op["device"] for op in self.work if op["exact"]}
        for op in self.work:
            if op["device"] < 0:
                op["device"] = devices.get(op["stream"], -1)

    def bound_work(self):
        """A stream keeps its order: work was over when the next one started, at the latest."""
        begins = {}
        for op in reversed(self.work):
            begin = begins.get(op["stream"])
            if op["exact"] and not op["flags"] & NO_CALL:
                begins[op["stream"]] = op["gpu_start_ns"]
            elif begin is not None and op["gpu_start_ns"] == op["start_ns"] and (op["gpu_end_ns"] is None or begin < op["gpu_end_ns"]):
                op["gpu_end_ns"] = max(begin, op["start_ns"])

    def device(self, device):
        """Of the exact tier."""
        blocked, line = collections.defaultdict(Timeline), Timeline()
        for op in self.work:
            if op["device"] != device or op["gpu_end_ns"] is None:
                continue
            if is_submitted(op):
                blocked[op["stream"]].add(BLOCKED, op["start_ns"], op["gpu_end_ns"])
            if op["exact"]:
                kind = COPYING if op["kind"] in ("copy", "set") else RUNNING
                line.add(kind, op["gpu_start_ns"], op["gpu_end_ns"])
                blocked[op["stream"]].add(RUNNING, op["gpu_start_ns"], op["gpu_end_ns"])
        for timeline in blocked.values():
            segments = timeline.segments(choose_stream)
            for (start, state), (end, _) in zip(segments, segments[1:]):
                if state == BLOCKED:
                    line.add(BLOCKED, start, end)
        for op in self.waits:
            if op["device"] == device:
                line.add(SYNCING, op["start_ns"], op["end_ns"])
        return Truth(line.segments(lambda open_: next(
            (state for state in (RUNNING, COPYING, BLOCKED, SYNCING) if open_[state]), IDLE)))

    def stream(self, stream):
        line = Timeline()
        for op in self.of_stream[stream]:
            if op["gpu_end_ns"] is None:
                continue
            if is_submitted(op):
                line.add(BLOCKED, op["start_ns"], op["gpu_end_ns"])
            if op["exact"]:
                line.add(RUNNING, op["gpu_start_ns"], op["gpu_end_ns"])
        return Truth(line.segments(choose_stream))

    def unbound_from(self, stream):
        """Work without an end is pending until the daemon gives up: when that was no op says."""
        return min((op["start_ns"] for op in self.of_stream[stream] if op["gpu_end_ns"] is None), default=float("inf"))


def windows_of(states, truth):
    """The times that the exact states of a device cover: where one ends and the next starts, except
    what was too short to be stored."""
    windows = []
    for state in states:
        start, end = state["start_ns"], state["end_ns"]
        if windows and all(until - since <= SHORT_NS + SLACK_NS
                           for since, until, _ in truth.between(windows[-1][1], start)):
            windows[-1][1] = end
        else:
            windows.append([start, end])
    return windows


def check_intervals(what, states, truth, slack_ns):
    for state in states:
        told = TOLD.get(state["state"], state["state"])
        for start, end, true in truth.between(state["start_ns"], state["end_ns"]):
            if true != told and end - start > slack_ns:
                yield (f"{what}: told {state['state']} from {state['start_ns']} for {ms(state['end_ns'] - state['start_ns'])},"
                       f" but {true} from {start} for {ms(end - start)}")


def check_sums(what, busy, truth, windows):
    """Between windows it is told, but not by a state: what is part of the sums there is not known."""
    told = collections.Counter()
    for row in busy:
        told[TOLD.get(row["state"], row["state"])] += row["ns"]
    true = truth.totals(windows)
    between = truth.totals((end, start) for (_, end), (start, _) in zip(windows, windows[1:]) if start - end <= GAP_NS)
    slack = SLACK_NS + len(windows) * 2 * SHORT_NS + sum(told.values()) // 1000
    for state in sorted(set(told) | set(true)):
        if not true[state] - slack <= told[state] <= true[state] + between[state] + slack:
            yield f"{what}: {ms(told[state])} {state} in all, but {ms(true[state])} of it by the ops"


def ms(ns):
    return f"{ns / 1e6:.3f} ms"


def check_exact(process, slack_ns):
    of_device = collections.defaultdict(list)
    of_stream = collections.defaultdict(list)
    for state in process.states:
        if state["exact"]:
            (of_stream if state["stream"] else of_device)[state["stream"] or state["device"]].append(state)
    for device, states in of_device.items():
        truth = process.device(device)
        yield from check_intervals(f"device {device}", states, truth, slack_ns)
        yield from check_sums(f"device {device}", [row for row in process.busy if row["device"] == device], truth,
                              windows_of(states, truth))
    for stream, states in of_stream.items():
        yield from check_intervals(f"stream {stream}", states, process.stream(stream), slack_ns)


def check_bounds(process, slack_ns):
    """A stream waits for another one also without work of its own, which no op shows."""
    of_stream = collections.defaultdict(list)
    for state in process.states:
        if not state["exact"] and state["stream"] and state["state"] != "waiting":
            of_stream[state["stream"]].append(state)
    for stream, states in of_stream.items():
        truth, unbound_ns = process.stream(stream), process.unbound_from(stream)
        known = [state for state in states if state["end_ns"] <= unbound_ns]
        yield from check_intervals(f"stream {stream} (bounds)", known, truth, slack_ns)


def check(sql, pid=None, slack_ns=SLACK_NS):
    """The differences, a sentence each. `sql` runs a statement and gives rows as dictionaries; shorter differences
    than `slack_ns` are none."""
    where = f" WHERE pid = {pid}" if pid else ""
    found = []
    for row in sql(f"SELECT id, pid FROM process{where} ORDER BY id"):
        process = Process(sql, row["id"])
        for complaint in (*check_exact(process, slack_ns), *check_bounds(process, slack_ns)):
            found.append(f"process {row['pid']}, {complaint}")
    return found


def main():
    parser = argparse.ArgumentParser(description="Checks states against ops.")
    parser.add_argument("--file", help="a recording; without it the daemon is asked")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--tsctl", default="tsctl")
    options = parser.parse_args()

    def sql(text):
        command = [options.tsctl, "sql", "--json", "--limit", str(ROWS_MAX), *(["--file", options.file] if options.file else []),
                   text]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"states.py: {done.stderr.strip()}")
        return json.loads(done.stdout)["rows"]

    found = check(sql, options.pid)
    print("\n".join(found[:50]) if found else "states agree with the ops")
    if len(found) > 50:
        print(f"and {len(found) - 50} more")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
