"""Why memory ran out, on a real GPU: an allocation of PyTorch that is larger than what is free, and one that fails since
what is free lies in pieces; told apart by `tsctl query oom`, with who held what, within a second.

    python3 tests/gpu/oom.py [BUILD]

Another process takes most of the device first, so that the one that fails needs to fill only ROOM_MIB of it. The programs are this
file with an argument of its own; each does what a line that it reads says.
"""
import json
import os
import subprocess
import sys
import time

import gpu
from gpu import check, wait_for

MIB = 1 << 20
ROOM_MIB = int(os.environ.get("ROOM_MIB", "4096"))
BLOCK_MIB = 4  # five in a segment of 20 MiB


def program():
    import torch
    held = []

    def take(mib):
        held.append(torch.empty(int(mib) * MIB, dtype=torch.uint8, device="cuda"))

    def leave(mib):
        take((torch.cuda.mem_get_info()[0] >> 20) - int(mib))

    def fill(mib):
        try:
            while True:
                take(mib)
        except torch.cuda.OutOfMemoryError:
            pass

    def board():
        held[:] = [tensor for i, tensor in enumerate(held) if i % 2 or tensor.numel() != BLOCK_MIB * MIB]

    deeds = {"take": take, "leave": leave, "fill": fill, "board": board}
    torch.empty(1, device="cuda")
    print("ready", flush=True)
    for line in sys.stdin:
        word, failed = line.split(), False
        try:
            deeds[word[0]](*word[1:])
        except torch.cuda.OutOfMemoryError:
            failed = True
        print(json.dumps({"failed": failed, "held": sum(tensor.numel() for tensor in held)}), flush=True)


class Program:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--program"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.process.stdout.readline()

    def do(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.communicate(timeout=60)
        return self.process.returncode


def newest(daemon, pid, after):
    """The next failure that the program noticed, and after how long it is there."""
    began = time.monotonic()
    while time.monotonic() - began < 10:
        rows = [row for row in daemon.query("oom", "--pid", pid)["rows"] if row["outcome"] == "failed" and row["oom"] > after]
        if rows:
            return rows[0], time.monotonic() - began
        time.sleep(0.05)
    return {}, time.monotonic() - began


def main():
    build = gpu.build(sys.argv)
    print(gpu.machine())
    daemon = gpu.Daemon(build, "[probe]\ntensors = yes\nbudget = none\ntrap_limit = none\n")
    other, one = Program(), Program()
    for program in (other, one):
        wait_for("its probes", lambda: program.do("take 1") and any(
            row["kind"] == "tensor" for row in daemon.query("memory", "--pid", program.pid)["rows"]))
    taken = other.do(f"leave {ROOM_MIB}")
    one.do(f"take {ROOM_MIB // 4}")
    asked = one.do(f"take {2 * ROOM_MIB}")
    check("more than there is fails", asked["failed"], str(asked))
    size, after = newest(daemon, one.pid, 0)
    print(f"  there after {after:.2f} s: {size.get('enough')}")
    check("of a size: what was asked for", size.get("bytes") == 2 * ROOM_MIB * MIB, str(size.get("bytes")))
    check("of a size: no fragmentation is blamed", "no fragmentation" not in (size.get("enough") or "no fragmentation"))
    check("of a size: within a second", after < 1, f"{after:.2f} s")

    one.do(f"fill {BLOCK_MIB}")
    full, _ = newest(daemon, one.pid, size.get("oom", 0))
    held = one.do("board")["held"]
    asked = one.do(f"take {ROOM_MIB // 4}")
    check("a fourth of the room fails once all is in pieces", asked["failed"], str(asked))
    pieces, after = newest(daemon, one.pid, full.get("oom", 0))
    print(f"  there after {after:.2f} s: {pieces.get('enough')}")
    check("of pieces: fragmentation is blamed", "no fragmentation" in (pieces.get("enough") or ""))
    check("of pieces: as much lies free as was asked for, and no piece is as large",
          (pieces.get("cached_bytes") or 0) >= ROOM_MIB // 4 * MIB > (pieces.get("largest_bytes") or 1 << 60), str(pieces))
    check("of pieces: within a second", after < 1, f"{after:.2f} s")
    told = json.loads(daemon.ctl("oom", "show", pieces.get("oom", 0), "--json")[1] or "{}")
    by = {(row["pid"], row["kind"]): row["bytes"] for row in told.get("oom-held", {}).get("rows", [])}
    check("who held it: the other one", by.get((other.pid, "device"), 0) >= taken["held"], str(by))
    check("who held it: by tensor", by.get((one.pid, "tensor"), 0) >= held, str(by))
    place = os.path.basename(__file__)
    check("who held it: by line", any(place in str(row["stack"]) for row in told.get("oom-stacks", {}).get("rows", [])
                                      if row["pid"] == one.pid and row["kind"] == "tensor"))
    daemon.show("query", "oom")
    daemon.show("oom", "show", pieces.get("oom", 0))
    check("both programs ended well", one.stop() == 0 and other.stop() == 0)
    daemon.stop()


if __name__ == "__main__":
    if "--program" in sys.argv:
        program()
    else:
        gpu.run(main)
