"""Fragmentation seen from outside: free bytes, pieces, the largest one and the index of each pool equal to what
torch.cuda.memory_snapshot() says, packed and as a checkerboard, with ordinary and with expandable segments.

    python3 tests/gpu/fragmentation.py [BUILD]

The program is this file with an argument of its own; it does what each line that it reads says.
"""
import json
import os
import subprocess
import sys
import time

import gpu
from gpu import check

WAYS = (("default", ""), ("expandable segments", "expandable_segments:True"))
STEPS = ("pack small", "board small", "pack large", "board large", "churn", "clear")


def measure(segments):
    """By pool: the definition of docs/queries.md, block by block. What waits for a stream counts as free, as it was given back."""
    pools = {}
    for segment in segments:
        expandable = segment.get("is_expandable")
        name = "expandable" if expandable else "small" if segment["total_size"] == 2 << 20 else "large"
        pool = pools.setdefault(name, {"reserved_bytes": 0, "free_bytes": 0, "pieces": 0, "largest_bytes": 0, "one": 0, "beside": 0})
        pool["reserved_bytes"] += segment["total_size"]
        pieces, piece, taken = [], 0, False
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                pieces.append(piece)
                piece, taken = 0, True
            else:
                piece += block["size"]
        pieces = [size for size in pieces + [piece] if size]
        pool["pieces"] += len(pieces)
        pool["free_bytes"] += sum(pieces)
        pool["largest_bytes"] = max([pool["largest_bytes"], *pieces])
        if taken and pieces:
            pool["one"] += sum(size * size for size in pieces) / sum(pieces)
            pool["beside"] += sum(pieces)
    for pool in pools.values():
        one, beside = pool.pop("one"), pool.pop("beside")
        pool["index"] = round(1e6 * (1 - one / beside)) if beside else 0
    return pools


def program():
    import random
    import torch
    draw = random.Random(5)
    sizes = {"small": 64 << 10, "large": 4 << 20}
    live = {"small": [], "large": [], "churn": []}
    torch.empty(1, device="cuda")
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.split()
        if word[0] == "pack":
            live[word[1]] = [torch.empty(sizes[word[1]], dtype=torch.uint8, device="cuda") for _ in range(200)]
        elif word[0] == "board":
            live[word[1]] = live[word[1]][::2]
        elif word[0] == "churn":
            for _ in range(2000):
                if live["churn"] and draw.random() < 0.5:
                    live["churn"].pop(draw.randrange(len(live["churn"])))
                else:
                    live["churn"].append(torch.empty(draw.randrange(1, 8 << 20), dtype=torch.uint8, device="cuda"))
        else:
            live = {name: [] for name in live}
            torch.cuda.empty_cache()
            live["churn"].append(torch.empty(1, device="cuda"))  # what it gave back is told with the next block
        torch.cuda.synchronize()
        print(json.dumps(measure(torch.cuda.memory_snapshot())), flush=True)


def seen(daemon, pid):
    rows = [row for row in daemon.query("fragmentation", "--pid", pid)["rows"] if row["kind"] == "tensor"]
    return {row["pool"]: {name: row[name] for name in ("reserved_bytes", "free_bytes", "pieces", "largest_bytes", "index")} for row in rows}


def is_near(one, other):
    return one.keys() == other.keys() and all(
        value == other[pool][name] or (name == "index" and abs(value - other[pool][name]) <= 2)
        for pool, values in one.items() for name, value in values.items())


def compare(daemon, name, way):
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--program"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=way))
    process.stdout.readline()
    for step in STEPS:
        process.stdin.write(f"{step}\n")
        process.stdin.flush()
        want, end = json.loads(process.stdout.readline()), time.monotonic() + 15
        while not is_near(rows := seen(daemon, process.pid), want) and time.monotonic() < end:
            time.sleep(0.2)
        check(f"{name}: {step}", is_near(rows, want), f"{rows} want {want}" if not is_near(rows, want) else "")
        if step.startswith("board"):
            daemon.show("query", "fragmentation", "--pid", process.pid)
    picture = os.path.join(gpu.OUT, f"map-{name.split()[0]}.svg")
    daemon.show("plot", "memory-map", "--pid", process.pid, "--since", "2m", "-o", picture)
    check(f"{name}: its picture", os.path.getsize(picture) > 1000)
    process.communicate(timeout=60)
    check(f"{name}: the program ended well", process.returncode == 0)


def main():
    build = gpu.build(sys.argv)
    print(gpu.machine())
    daemon = gpu.Daemon(build, "[probe]\ntensors = yes\nbudget = none\ntrap_limit = none\n")
    for name, way in WAYS:
        compare(daemon, name, way)
    daemon.show("query", "loss")
    daemon.stop()


if __name__ == "__main__":
    if "--program" in sys.argv:
        program()
    else:
        gpu.run(main)
