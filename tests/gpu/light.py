#!/usr/bin/env python3
"""Light mode on a real driver: how its hot functions begin, and whether a jump has room there; that calls are counted as
the kernel's probes count them; that the code is in the end what it was; what it costs beside them and an empty probe, in
turns within one running process; and that a program whose handlers take their time is attached to and left unharmed, in light mode
and exactly, CYCLES times (10).

Usage: tests/gpu/light.py [BUILD] (build/release), as root, with PyTorch and a C compiler; about 45 s and 13 s for each of ROUNDS
(5; 0: nothing is compared). The last line is the verdict.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import gpu
from empty_probe import EmptyProbe, hot_functions, mapped_code
from gpu import HERE, OUT, ROUNDS, Program, check, wait_for

BUILD = gpu.build(sys.argv)
PROGRAM = os.environ.get("PROGRAM", "").split() or ["python3", os.path.join(HERE, "train.py"), "900"]
COUNT_S = 4
STEPS_MIN = 20
CYCLES = int(os.environ.get("CYCLES", "10"))


def show_prologues(functions):
    for name, offset, code in functions:
        print(f"  {name:40} {offset:#10x} {code.hex(' ')}")


def code_differs(pid):
    path, start, end, offset = mapped_code(pid)
    with open(f"/proc/{pid}/mem", "rb") as memory, open(path, "rb") as file:
        memory.seek(start)
        file.seek(offset)
        return memory.read(end - start) != file.read(end - start)


def launches_a_step(daemon, program):
    """Calls between the ends of two steps, by the steps between them."""
    time.sleep(COUNT_S)
    ends = [at for at, _ in program.samples][-STEPS_MIN - 20:-20]
    time.sleep(1.5)
    since, until = int(ends[0] * 1e9), int(ends[-1] * 1e9)
    calls = daemon.sql(f"SELECT count(*) AS n FROM op WHERE pid = {program.pid} AND kind = 'launch' AND start_ns >= {since} "
                       f"AND start_ns < {until}")[0]["n"]
    return calls / (len(ends) - 1)


class Turns:
    def __init__(self, program):
        self.program, self.daemon, self.stops = program, None, []
        self.functions = self.empty = None

    def start(self):
        self.daemon = gpu.Daemon(BUILD)
        wait_for("the process", lambda: any(row["pid"] == self.program.pid for row in self.daemon.query("ps")["rows"]))

    def stop(self):
        self.daemon.stop()

    def probe(self):
        self.empty = EmptyProbe(self.program.pid, *self.functions)

    def unprobe(self):
        self.empty.close()

    def attach(self):
        self.start()
        code, out, err = self.daemon.ctl("attach", self.program.pid, "--light", "--json")
        if code:
            raise SystemExit(err)
        self.stops.append(json.loads(out)["stopped_ns"])
        time.sleep(0.5)

    def detach(self):
        code, _, err = self.daemon.ctl("detach", self.program.pid)
        if code:
            raise SystemExit(err)
        self.stop()


def interrupted():
    """Whoever is in a handler is waited for, or is not asked."""
    library = os.path.join(tempfile.mkdtemp(prefix="tracesmith-gpu-"), "handler.so")
    subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-pthread", "-o", library, os.path.join(HERE, "handler.c")], check=True)
    program = Program(*PROGRAM, env={**os.environ, "LD_PRELOAD": library})
    daemon = gpu.Daemon(BUILD)
    wait_for("the process", lambda: any(row["pid"] == program.pid for row in daemon.query("ps")["rows"]))
    late = stayed = 0
    for cycle in range(CYCLES):
        for options in (["--light"], []):
            for verb in ("attach", "detach"):
                done, said, told = again(daemon, verb, program.pid, "--json", *(options if verb == "attach" else []))
                late += said
                stayed += not told.get("unloaded", True)
                if not done:
                    check(f"{verb} {' '.join(options)}", False)
    steps = len(program.samples)
    wait_for("another step", lambda: len(program.samples) > steps)
    code = program.stop()
    check("a program with slow handlers was attached to and left, and ended well", code == 0 and not stayed,
          f"{2 * CYCLES} times, {late} of them asked for again; {code}")
    daemon.stop()


def again(daemon, *arguments):
    """Asks until there is a good moment. Returns whether there was one, how often there was none, and the answer."""
    for tries in range(20):
        code, out, err = daemon.ctl(*arguments)
        if code == 0:
            return True, tries, json.loads(out)
        if tries and ("is not attached" in err or "already" in err):  # it took longer than it was waited for
            return True, tries, {}
        if "try again" not in err:
            break
    print(" ".join(map(str, arguments)), err)
    return False, tries, {}


def main():
    print(gpu.machine())
    program = Program(*PROGRAM)
    turns = Turns(program)
    turns.start()
    path = mapped_code(program.pid)[0]
    print(path)
    turns.functions = path, hot_functions(turns.daemon, path)
    show_prologues(turns.functions[1])
    by_probes = launches_a_step(turns.daemon, program)
    code, out, err = turns.daemon.ctl("attach", program.pid, "--light")
    print(out + err, flush=True)
    if not check("light mode works with this driver", code == 0):
        program.stop()
        turns.stop()
        return
    by_library = launches_a_step(turns.daemon, program)
    check("calls a step are the same", by_probes == by_library, f"{by_probes} {by_library}")
    turns.daemon.show("ps")
    turns.detach()
    check("the code is as it was", not code_differs(program.pid))
    with open(f"/proc/{program.pid}/maps") as maps:
        check("nothing of ours is mapped", "tracesmith" not in maps.read())
    interrupted()
    if not ROUNDS:
        check("the program ended well", program.stop() == 0)
        return
    found = gpu.compare("a step", "ms", program, {"probes": (turns.start, turns.stop), "empty probe": (turns.probe, turns.unprobe),
                                                  "light": (turns.attach, turns.detach)})
    print(f"light costs {found['light'] - 1:+.2%}, probes {found['probes'] - 1:+.2%}, an empty probe instead "
          f"{found['empty probe'] - 1:+.2%}; {by_probes:.0f} launches a step; longest stops "
          f"{statistics.median(turns.stops) / 1e6:.2f} ms (median), {max(turns.stops) / 1e6:.2f} ms (worst)")
    check("the program ended well", program.stop() == 0)


if __name__ == "__main__":
    gpu.run(main)
