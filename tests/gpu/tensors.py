"""PyTorch's tensors seen from outside: figures equal to torch.cuda.memory_stats() at random moments, a tensor that is
kept in a list found by its line, and what becomes of expandable segments, cudaMallocAsync, graphs and empty_cache().

    python3 tests/gpu/tensors.py [BUILD] [PART…] (build/release; moments requests leak before price), as root, with PyTorch.

MOMENTS (100), LEAK_S (60; 600 for the long proof), PRICE_ROUNDS (4). The program is this file with an argument of its own; it steps once for each line that it reads.
"""
import json
import os
import random
import subprocess
import sys
import time

import gpu
from gpu import check, wait_for

MOMENTS = int(os.environ.get("MOMENTS", "100"))
LEAK_S = float(os.environ.get("LEAK_S", "60"))
PRICE_ROUNDS = int(os.environ.get("PRICE_ROUNDS", "4"))
# Name, PYTORCH_CUDA_ALLOC_CONF, at how many moments; 0: its blocks are not seen. A moment takes a second.
WAYS = (("default", "", MOMENTS), ("expandable segments", "expandable_segments:True", MOMENTS // 3),
        ("cudaMallocAsync", "backend:cudaMallocAsync", 0))
KEPT = []


def keep(torch):
    KEPT.append(torch.empty(300_000, device="cuda"))  # the leak


def program(leaks):
    import torch
    draw = random.Random(7)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    live = []

    def churn():
        for _ in range(draw.randrange(1, 40)):
            if live and draw.random() < 0.5:
                live.pop(draw.randrange(len(live)))
            else:
                live.append(torch.empty(draw.randrange(1, 2_000_000), device="cuda"))
        del live[200:]

    def train():
        optimizer.zero_grad()
        model(torch.randn(64, 512, device="cuda")).sum().backward()
        optimizer.step()

    def other_stream():
        stream = torch.cuda.Stream()
        tensor = torch.empty(1_000_000, device="cuda")
        with torch.cuda.stream(stream):
            tensor.mul_(2)
        tensor.record_stream(stream)

    def graph():
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            out = torch.ones(100_000, device="cuda") * 3
        captured.replay()
        torch.cuda.synchronize()
        live.append(out)

    def empty():
        torch.cuda.empty_cache()
        live.append(torch.empty(1000, device="cuda"))  # what it gave back is told with the next block

    deeds = {"churn": churn, "train": train, "stream": other_stream, "graph": graph, "empty": empty,
             "keep": lambda: keep(torch)}
    train()
    print(json.dumps({"ready": True, "line": keep.__code__.co_firstlineno + 1}), flush=True)
    for line in sys.stdin:
        word = line.split()
        began = time.monotonic()
        for _ in range(int(word[1])):
            deeds[word[0]]()
            if leaks and word[0] == "train":
                keep(torch)
        torch.cuda.synchronize()
        took = time.monotonic() - began
        stats = torch.cuda.memory_stats()
        print(json.dumps({"took": took, "allocated": stats.get("allocated_bytes.all.current", 0),
                          "reserved": stats.get("reserved_bytes.all.current", 0),
                          "peak": stats.get("allocated_bytes.all.peak", 0),
                          "requested": stats.get("requested_bytes.all.current", 0),
                          "active": stats.get("active_bytes.all.current", 0),
                          "blocks": stats.get("active.all.current", 0)}), flush=True)


class Program:
    def __init__(self, way="", leaks=False):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--program", *(["--leaks"] if leaks else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=way))
        self.pid = self.process.pid
        self.line = json.loads(self.process.stdout.readline())["line"]

    def do(self, deed, times=1):
        self.process.stdin.write(f"{deed} {times}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.communicate(timeout=60)
        return self.process.returncode


def memory(daemon, pid, kind="tensor"):
    rows = [row for row in daemon.query("memory", "--pid", pid)["rows"] if row["kind"] == kind]
    return rows[0] if rows else {}


def agree(daemon, pid, want):
    """Waits for its figures; None: they never were equal."""
    end = time.monotonic() + 15
    while time.monotonic() < end:
        row = memory(daemon, pid)
        if (row.get("live_bytes"), row.get("reserved_bytes")) == (want["allocated"], want["reserved"]):
            return row
        time.sleep(0.1)
    print("  said", row, "want", want)
    return None


def compare(daemon, name, way, moments):
    draw = random.Random(3)
    program = Program(way)
    wrong = 0
    for moment in range(moments):
        deed = draw.choice(("churn", "churn", "train", "stream", "graph", "empty"))
        want = program.do(deed, 1 if deed == "graph" else draw.randrange(1, 4))
        row = agree(daemon, program.pid, want)
        if not row:
            wrong += 1
            print(f"  {name}: moment {moment} after {deed}")
        if wrong > 5:
            break
    check(f"{name}: equal to memory_stats() at {moments} moments", wrong == 0, f"{wrong} wrong")
    if row:
        check(f"{name}: no block is unknown", row["unknown_bytes"] == 0, str(row))
        check(f"{name}: the peak", row["peak_bytes"] == want["peak"], f"{row['peak_bytes']} {want['peak']}")
        print(f"  {name}: {row['live_count']} blocks, PyTorch's active {want['blocks']}")
    daemon.show("query", "memory", "--pid", program.pid)
    daemon.show("query", "pools", "--pid", program.pid)
    check(f"{name}: the program ended well", program.stop() == 0)


def not_seen(daemon, name, way, _):
    program = Program(way)
    want = program.do("churn", 20)
    time.sleep(3)
    check(f"{name}: nothing is made up", not memory(daemon, program.pid) and memory(daemon, program.pid, "pool"), str(want))
    daemon.show("query", "memory", "--pid", program.pid)
    check(f"{name}: the program ended well", program.stop() == 0)


def leak(daemon):
    """Beside the same program without it; LEAK_S=600 for longer."""
    leaking, clean, began = Program("", True), Program(), time.monotonic()
    place = f"{os.path.basename(__file__)}:{leaking.line}"
    found, accused, after, judged = None, [], 0, None
    while time.monotonic() - began < LEAK_S:
        leaking.do("train", 10)
        clean.do("train", 10)
        if not found:
            rows = daemon.query("leaks", "--pid", leaking.pid, "--min-age", "5s")["rows"]
            found = next((row for row in rows if row["kind"] == "tensor" and place in (row["where"] or "")), None)
            after = time.monotonic() - began
        rows = daemon.query("leaks")["rows"]
        if not judged and any(row["pid"] == leaking.pid and row["verdict"] == "leak" and place in (row["where"] or "") for row in rows):
            judged = time.monotonic() - began
        accused += [row for row in rows if row["pid"] == clean.pid and row["verdict"] in ("leak", "growing")]
        time.sleep(0.2)
    check(f"the tensor in a list is found at {place}", found, f"after {after:.0f} s: {found and found['where']}")
    print(f"  called a leak after {judged and round(judged)} s")
    check(f"nothing of the same program without it is accused in {LEAK_S:.0f} s", not accused, str(accused[:1]))
    daemon.show("query", "leaks", "--pid", leaking.pid)
    daemon.show("query", "leaks", "--pid", clean.pid, "--all")
    check("both programs ended well", leaking.stop() == 0 and clean.stop() == 0)


def requests(build):
    """What was asked for, by PyTorch's own probes."""
    daemon = gpu.Daemon(build, "[probe]\ntensors = yes\ntensor_requests = yes\nbudget = none\ntrap_limit = none\n")
    draw = random.Random(5)
    for name, way in (("default", ""), ("expandable segments", "expandable_segments:True")):
        program, wrong, compared = Program(way), 0, 0
        for _ in range(MOMENTS // 4):
            deed = draw.choice(("churn", "churn", "train", "stream", "graph", "empty"))
            want = program.do(deed, 1 if deed == "graph" else draw.randrange(1, 4))
            # To PyTorch, a block that was given back but waits for a stream is still asked for.
            if want["active"] != want["allocated"]:
                continue
            compared += 1
            row, end = agree(daemon, program.pid, want) or {}, time.monotonic() + 5
            while row.get("requested_bytes") != want["requested"] and time.monotonic() < end:
                time.sleep(0.1)
                row = memory(daemon, program.pid)
            if row.get("requested_bytes") != want["requested"]:
                wrong += 1
                print(f"  {name}, after {deed}: said {row.get('requested_bytes')}, want {want['requested']}")
        check(f"{name}: what was asked for, equal to memory_stats() at {compared} moments", compared and not wrong, f"{wrong} wrong")
        lost = daemon.query("loss", "--pid", program.pid)["loss"]
        check(f"{name}: both ways gave the same blocks", "tensor-mismatch" not in lost, str(lost))
        daemon.show("query", "memory", "--pid", program.pid)
        check(f"{name}: the program ended well", program.stop() == 0)
    daemon.stop()


def before(build):
    """Attached to in the middle."""
    program = Program()
    program.do("churn", 5)
    daemon = gpu.Daemon(build, "[probe]\ntensors = yes\nbudget = none\ntrap_limit = none\n")
    row = wait_for("its sums", lambda: program.do("churn") and memory(daemon, program.pid))
    want = program.do("churn")
    row = agree(daemon, program.pid, want)
    check("in the middle: the sums are right, and blocks from before are told as unknown", row and row["unknown_bytes"] > 0, str(row))
    check("the program ended well", program.stop() == 0)
    daemon.stop()


def price(build):
    """Of one running program, with the daemon and without tensors, as by default, and with all of them, in turn."""
    whole = "\nbudget = none\ntrap_limit = none\n"
    settings = {"no": "tensors = no" + whole, "within the budget": "budget = 1%\n", "within a budget of 5 %": "budget = 5%\n",
                "yes": "tensors = yes" + whole, "yes, and requests": "tensors = yes\ntensor_requests = yes" + whole, "from 1 MiB": "tensors = yes\ntensor_size = 1MiB" + whole,
                "sums only": "tensors = yes\ntensor_size = 1TiB" + whole}
    program, took = Program(), {name: [] for name in settings}
    program.do("train", 200)
    for _ in range(PRICE_ROUNDS):
        for name, text in settings.items():
            daemon = gpu.Daemon(build, f"[probe]\n{text}")
            program.do("train", 50)
            if "budget" in name:
                program.do("train", 1500)  # until it is known to be too dear
            took[name].append(program.do("train", 300)["took"] / 300)
            daemon.stop()
    middle = {name: sorted(times)[len(times) // 2] * 1e3 for name, times in took.items()}
    for name, ms in middle.items():
        print(f"tensors {name}: {ms:.3f} ms a step, {100 * (ms / middle['no'] - 1):+.1f} %; all {took[name]}")
    check("the program ended well", program.stop() == 0)


def main():
    build = gpu.build(sys.argv)
    parts = sys.argv[2:] or ["moments", "requests", "leak", "before", "price"]
    print(gpu.machine())
    if "moments" in parts or "leak" in parts:
        daemon = gpu.Daemon(build, "[probe]\ntensors = yes\nbudget = none\ntrap_limit = none\n")
        for name, way, moments in WAYS if "moments" in parts else ():
            (compare if moments else not_seen)(daemon, name, way, moments)
        if "leak" in parts:
            leak(daemon)
        daemon.show("query", "loss")
        daemon.show("status")
        daemon.stop()
    if "requests" in parts:
        requests(build)
    if "before" in parts:
        before(build)
    if "price" in parts:
        price(build)


if __name__ == "__main__":
    if "--program" in sys.argv:
        program("--leaks" in sys.argv)
    else:
        gpu.run(main)
