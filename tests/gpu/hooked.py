#!/usr/bin/env python3
"""Programs with inline hooks in the real driver, beside PyTorch, while daemons come and go: none may crash or lose a call of its
hook, and nothing but what they hooked may be taken for a hook, whatever former daemons left in the pages of the driver's code.

Usage: tests/gpu/hooked.py [BUILD] (build/release), as root, with PyTorch. The programs need only libc: PROGRAMS, the folder of
BUILD's tests/e2e. PROGRAM in place of PyTorch's training; DRIVER in place of the first libcuda.so.1. The last line is the verdict.
"""
import os
import subprocess
import sys
import time

import gpu
from gpu import HERE, Daemon, Program, check, wait_for
from harm import driver

BUILD = gpu.build(sys.argv)
PROGRAMS = os.environ.get("PROGRAMS", os.path.join(BUILD, "tests", "e2e"))
TRAIN = os.environ.get("PROGRAM", "").split() or ["python3", os.path.join(HERE, "train.py"), "900"]
# Of each group of functions that has links of its own.
HOOKED = [("cuLaunchKernel", "mprotect"), ("cuEventQuery", "mem"), ("cuMemAlloc_v2", "mprotect"), ("cuStreamSynchronize", "mem"),
          ("cuMemcpyHtoD_v2", "mprotect"), ("cuModuleLoadData", "mem")]
RESTARTS = int(os.environ.get("RESTARTS", "4"))


class Hooks:
    def __init__(self, function, how):
        self.function = function
        self.process = subprocess.Popen([os.path.join(PROGRAMS, "e2e_hooks"), driver()], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.say("hook", function, how)

    def say(self, *words):
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = self.process.stdout.readline().split()
        return int(answer[0]) if answer else None

    def holds(self):
        return self.say("call", self.function, 1000) == 1000


def launches(daemon, pid):
    return sum(row["calls"] for row in daemon.query("apis", "--pid", pid)["rows"] if row["fn"].startswith("cuLaunchKernel"))


def grows(daemon, pid):
    before = launches(daemon, pid)
    return wait_for("its launches", lambda: launches(daemon, pid) > before, 60)


def status(daemon):
    return daemon.ctl("status")[1]


def one_daemon(hooks, train):
    daemon = Daemon(BUILD, f"[probe]\nstanding = {driver()}\nlibraries = {os.path.basename(os.path.realpath(driver()))}*\n")
    if hooks:
        wait_for("one with a hook to be named", lambda: "has an inline hook" in status(daemon))
    check("the training's launches are seen", grows(daemon, train.pid))
    time.sleep(3)
    check("the daemon names one with a hook" if hooks else "the daemon takes nobody for one with a hook",
          ("has an inline hook" in status(daemon)) == bool(hooks))
    for each in hooks:
        check(f"the hook over {each.function} holds", each.holds())
    daemon.show("query", "loss", "--pid", train.pid)
    print("\n".join(line for line in status(daemon).splitlines() if "functions" in line or "hook" in line))
    return daemon


def main():
    print(driver() if "tests/fake" in driver() else gpu.machine())
    train = Program(*TRAIN)
    one_daemon([], train).process.kill()
    hooks = [Hooks(*each) for each in HOOKED]
    for _ in range(RESTARTS):
        daemon = one_daemon(hooks, train)
        daemon.process.kill()
        daemon.process.wait()
    daemon = one_daemon(hooks, train)
    for each in hooks:
        each.process.kill()
        each.process.wait()
    wait_for("them to be forgotten", lambda: "has an inline hook" not in status(daemon), 60)
    check("the training's launches are seen", grows(daemon, train.pid))
    daemon.stop()
    # Its pages are its own since the first probe.
    one_daemon([], train).stop()
    check("the training ends as it should", train.stop() == 0)


if __name__ == "__main__":
    gpu.run(main)
