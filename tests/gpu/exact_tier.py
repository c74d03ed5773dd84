#!/usr/bin/env python3
"""The exact tier on a real GPU: exact numbers, all joined; what it costs, beside torch.profiler; attach
and detach again and again; another profiler in the same process; several processes and devices.

Usage: tests/gpu/exact_tier.py [BUILD] [PART…] (build/release; counts cost large empty beside run cycles profiler several),
as root, with nvcc and PyTorch.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import gpu
from gpu import HERE, OUT, Program, check, compile_cuda, wait_for

BUILD = gpu.build(sys.argv)
CYCLES = int(os.environ.get("CYCLES", "100"))
DEVICES = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ")


def attach(daemon, pid, *options):
    code, out, err = daemon.ctl("attach", pid, "--json", *options)
    if code:
        check(f"attach {pid}", False, err.strip())
        return {}
    return json.loads(out)


def detach(daemon, pid):
    code, out, err = daemon.ctl("detach", pid, "--json")
    if code:
        check(f"detach {pid}", False, err.strip())
        return {}
    return json.loads(out)


def compare_counts(title, daemon, pid, lines):
    """What the program says that the device did, against what the daemon has."""
    ops = f"FROM op WHERE pid = {pid} AND exact"
    for line in lines:
        if "kernel" in line:
            seen = sum(row["count"] for row in daemon.query("kernels", "--pid", pid)["rows"] if row["name"] == line["kernel"])
            check(f"{title}: {line['kernel']}", seen == line["count"], f"ran {line['count']}, seen {seen}")
        if "copy" in line:
            row = daemon.sql(f"SELECT count(*) AS n, sum(bytes) AS bytes {ops} AND kind = 'copy'"
                             f" AND detail = '{line['copy']}'")[0]
            check(f"{title}: copies {line['copy']}", (row["n"], row["bytes"]) == (line["count"], line["bytes"]), row)
        if "set" in line:
            row = daemon.sql(f"SELECT count(*) AS n, sum(bytes) AS bytes {ops} AND kind = 'set'")[0]
            check(f"{title}: sets", (row["n"], row["bytes"]) == (line["count"], line["bytes"]), row)
        if "graph_launches" in line:
            row = daemon.sql(f"SELECT count(DISTINCT correlation) AS launches, count(*) AS nodes {ops} AND node <> 0")[0]
            want = (line["graph_launches"], line["graph_launches"] * line["nodes"])
            check(f"{title}: graph launches and nodes", (row["launches"], row["nodes"]) == want, row)
    row = daemon.sql(f"SELECT count(*) AS n, sum(no_call) AS alone, sum(gpu_start_ns < start_ns) AS early {ops}"
                     " AND kind IN ('launch', 'copy', 'set', 'kernel')")[0]
    check(f"{title}: all joined", row["n"] > 0 and not row["alone"], row)
    check(f"{title}: nothing runs before it was launched", not row["early"], row)
    # exact.cu copies 4096 bytes a time from and to memory of malloc().
    pageable = {}
    for row in daemon.query("pageable", "--pid", pid)["rows"]:
        pageable[row["kind"]] = pageable.get(row["kind"], 0) + row["bytes"]
    check(f"{title}: copies of pageable memory", pageable == {"HtoD": 16 * 4096, "DtoH": 17 * 4096}, pageable)
    code, report, err = daemon.ctl("report", pid, "--since", "1h", "--md", "-o", "-")
    check(f"{title}: the report has them", code == 0 and "Copies of pageable memory" in report, err.strip())
    # A copy that the host waits for lies within its call, if host and device have one clock. To the device, the driver
    # waits only until it has read pageable memory.
    rows = {row["fn"]: row for row in daemon.sql(
        f"SELECT fn, min(gpu_start_ns - start_ns) AS before, min(end_ns - gpu_end_ns) AS after, max(bytes) AS bytes {ops}"
        " AND fn IN ('cuMemcpyHtoD_v2', 'cuMemcpyDtoH_v2') GROUP BY fn")}
    check(f"{title}: host and device on one clock", len(rows) == 2 and min(row["before"] for row in rows.values()) > -5000
          and rows["cuMemcpyDtoH_v2"]["after"] > -5000, f"ns: {rows}")
    loss = daemon.query("loss", "--pid", pid)["loss"]
    check(f"{title}: nothing lost", not set(loss) - {"unbound", "unknown-free", "stack-sampled", "gap", "no-daemon", "mapping"}, loss)


def counts():
    for runtime in ("shared", "static"):
        program = compile_cuda("exact", "-cudart", runtime)
        for how in ("run", "attach"):
            daemon = gpu.Daemon(BUILD)
            command = daemon.command("run", "--", program) if how == "run" else [program]
            process = subprocess.Popen([*command, str(DEVICES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            pid = json.loads(process.stdout.readline())["pid"]
            if how == "attach":
                print(attach(daemon, pid, "--stacks", "all"))
            else:
                wait_for("collection", lambda: any(row["tier"].startswith("exact") for row in daemon.query("ps")["rows"]))
            process.stdin.write("\n")
            process.stdin.flush()
            lines = []
            for text in process.stdout:
                lines.append(json.loads(text))
                if "done" in lines[-1]:
                    break
            begin = time.monotonic()
            launches = 42 * 4
            wait_for("the last graph launch", lambda: daemon.sql(
                f"SELECT count(*) AS n FROM op WHERE node <> 0")[0]["n"] >= launches)
            print(f"the last records were there {time.monotonic() - begin:.2f} s after the device had finished")
            time.sleep(1)
            process.communicate("\n")
            check(f"{how}, {runtime} runtime: the program ended well", process.returncode == 0)
            compare_counts(f"{how}, {runtime} runtime", daemon, pid, lines)
            if runtime == "shared":
                for command in (["ps"], ["query", "kernels"], ["query", "kernels", "--by-stack", "--limit", "4"],
                                ["query", "idle"], ["query", "overlap"], ["query", "graphs"], ["query", "loss"]):
                    daemon.show(*command)
                code, _, err = daemon.ctl("export", "--perfetto", "--since", "1h", "-o", os.path.join(OUT, f"exact-{how}.perfetto-trace"))
                check("export --perfetto", code == 0, err)
            daemon.stop()


def look(daemon, pid, name):
    """After the costs: what there is to see of a training loop."""
    for command in (["ps"], ["query", "kernels", "--pid", pid, "--limit", "8"], ["query", "idle", "--pid", pid],
                    ["query", "overlap", "--pid", pid], ["query", "kernels", "--pid", pid, "--by-stack", "--limit", "2"],
                    ["query", "loss"]):
        daemon.show(*command)
    for option, file in (("--perfetto", "perfetto-trace"), ("--folded", "folded"), ("--svg", "svg")):
        # What happened a moment ago is not all there yet.
        window = ["--since", "1600ms", "--until", "1500ms"] if option == "--perfetto" else ["--since", "3s"]
        code, _, err = daemon.ctl("export", option, *window, "--pid", pid, "-o", os.path.join(OUT, f"{name}.{file}"))
        check(f"{name}: export {option}", code == 0, err)


def cost_of(title, unit, program, profilers, name):
    daemons = []

    def on(*options):
        daemons.append(gpu.Daemon(BUILD))
        if options:
            told = attach(daemons[-1], program.pid, *options)
            stops.append(told.get("stopped_ns", 0))

    def off(*options):
        if options:
            told.append(daemons[-1].query("kernels", "--pid", program.pid)["loss"])
            detach(daemons[-1], program.pid)
        daemons.pop().stop()

    def profile(kind):
        program.say(f"profile {kind}")
        wait_for(f"profile {kind}", lambda: program.comments[-1:] == [f"profile {kind}"], 300)

    stops, told = [], []
    phases = {"probe tier": (on, off)}
    for stacks in ("sampled", "all"):
        options = ("--stacks", stacks)
        phases[f"exact, stacks {stacks}"] = (lambda options=options: on(*options), lambda options=options: off(*options))
    result = gpu.compare(title, unit, program, phases)
    print("loss of the rounds", told)
    if stops:
        print(f"stops to attach: median {statistics.median(stops) / 1e6:.3f} ms, longest {max(stops) / 1e6:.3f} ms")
    daemon = gpu.Daemon(BUILD)
    attach(daemon, program.pid, "--stacks", "all")
    time.sleep(3)
    look(daemon, program.pid, name)
    detach(daemon, program.pid)
    daemon.stop()
    if profilers:
        phases = {f"torch.profiler {kind}": (lambda kind=kind: profile(kind), lambda: profile("off")) for kind in profilers}
        result.update(gpu.compare(title, unit, program, phases, min(gpu.ROUNDS, 3)))
    check(f"{title}: the program ended well", program.stop() == 0)
    return result


def cost():
    train = os.path.join(HERE, "train.py")
    result = cost_of("training step, PyTorch, bound by launches", "ms a step", Program("python3", train, "900"),
                     ("cuda", "cpu", "stack"), "train")
    check("exact tier cheaper than torch.profiler with CUDA alone",
          result["exact, stacks sampled"] < result["torch.profiler cuda"])


def cost_large():
    train = os.path.join(HERE, "train.py")
    cost_of("training step, PyTorch, bound by the GPU", "ms a step", Program("python3", train, "900", "--large"), ("cuda",),
            "train-large")


def cost_empty():
    cost_of("empty kernels back to back", "ns a launch", Program(compile_cuda("empty"), "900"), (), "empty")


def beside():
    """Ours and torch.profiler, each in programs of their own, since CUPTI once used is never quite
    gone from a process: so many steps alone, then with it on."""
    def ours(*options):
        def on(program):
            daemon = gpu.Daemon(BUILD)
            attach(daemon, program.pid, *options)
            return daemon.stop
        return on

    def profile(kind):
        def on(program):
            program.say(f"profile {kind}")
            wait_for("the profiler", lambda: program.comments[-1:] == [f"profile {kind}"], 60)
            return lambda: None
        return on

    def probe(program):
        return gpu.Daemon(BUILD).stop

    ways = {"probe tier": probe, "exact, stacks sampled": ours("--stacks", "sampled"), "exact, stacks all": ours("--stacks", "all"),
            "torch.profiler cuda": profile("cuda"), "torch.profiler cpu": profile("cpu"),
            "torch.profiler stack": profile("stack")}
    found = {name: [] for name in ways}
    for _ in range(gpu.ROUNDS):
        for name, on in ways.items():
            program = Program("python3", os.path.join(HERE, "train.py"), "600", samples=300)
            spans = []
            for what in (None, on):
                off = what(program) if what else None
                time.sleep(0.4)
                begin = time.monotonic()
                time.sleep(gpu.PHASE_S)
                spans.append(gpu.median_between(program, begin, time.monotonic()))
            found[name].append(spans[1] / spans[0])
            program.process.kill()
            program.process.wait()
            off()
    print(f"\ntraining step, PyTorch, bound by launches: with it on, held against the same program before, {gpu.ROUNDS} programs each")
    for name, ratios in found.items():
        print(f"{name:24} {statistics.median(ratios):.3f}  " + " ".join(f"{ratio:.3f}" for ratio in sorted(ratios)), flush=True)


def cost_of_run():
    """A process under `tsctl run`: collecting, and detached."""
    daemon = gpu.Daemon(BUILD)
    program = Program(*daemon.command("run", "--", "python3", os.path.join(HERE, "train.py"), "600"))
    wait_for("collection", lambda: any(row["tier"].startswith("exact") for row in daemon.query("ps")["rows"]))
    detach(daemon, program.pid)
    gpu.compare("training step under tsctl run, off: detached", "ms a step", program, {
        "exact": (lambda: attach(daemon, program.pid), lambda: detach(daemon, program.pid)),
    })
    check("tsctl run: the program ended well", program.stop() == 0)
    daemon.stop()


def losses(program):
    return [rest[0] for rest in program.rest if rest]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def cycles():
    """Attached and detached again and again, a training loop computes what it computes alone."""
    train = os.path.join(HERE, "train.py")
    alone = Program("python3", train, "600")
    program = Program("python3", train, "600")
    daemon = gpu.Daemon(BUILD)
    attach(daemon, program.pid)
    detach(daemon, program.pid)
    before = descriptors(program.pid)
    stops, ready, lost, unloaded = [], [], 0, 0
    begin = time.monotonic()
    for _ in range(CYCLES):
        told = attach(daemon, program.pid)
        stops.append(told.get("stopped_ns", 0))
        ready.append(told.get("ready_ns", 0))
        time.sleep(0.2)
        told = detach(daemon, program.pid)
        unloaded += bool(told.get("unloaded"))
        lost += told.get("lost", 0)
    after = descriptors(program.pid)
    print(f"{CYCLES} cycles in {time.monotonic() - begin:.0f} s; stop ms: median {statistics.median(stops) / 1e6:.3f}, longest"
          f" {max(stops) / 1e6:.3f}; collecting after ms: median {statistics.median(ready) / 1e6:.1f}; unloaded {unloaded};"
          f" records lost {lost}; descriptors and threads before {before}, after {after}")
    check("cycles: descriptors and threads as before", before == after)
    check("cycles: unloaded each time", unloaded == CYCLES)
    detached = [value for _, value in program.samples[-400:]]
    wait_for("as many steps", lambda: len(alone.rest) >= len(program.rest), 120)
    check("cycles: the programs ended well", program.stop() == 0 and alone.stop() == 0)
    mine, its = losses(program), losses(alone)
    same = next((i for i, (a, b) in enumerate(zip(mine, its)) if a != b), min(len(mine), len(its)))
    check("cycles: the loss curve is the same", same == min(len(mine), len(its)), f"for {same} of {min(len(mine), len(its))} steps")
    print(f"step after all cycles: {statistics.median(detached):.4f} ms")
    daemon.stop()


def profiler():
    """torch.profiler in a process that is attached to."""
    daemon = gpu.Daemon(BUILD)
    program = Program("python3", os.path.join(HERE, "train.py"), "600")
    attach(daemon, program.pid)
    time.sleep(1)
    program.say("profile cuda count")
    wait_for("the profiler", lambda: "profile cuda" in program.comments, 60)
    wait_for("us to step aside", lambda: any(row["tier"].endswith("paused") or "paused" in row["tier"]
                                             for row in daemon.query("ps")["rows"]), 5)
    time.sleep(2)
    daemon.show("ps")
    program.say("profile off")
    wait_for("the profiler's end", lambda: "profile off" in program.comments, 120)
    seen = [comment for comment in program.comments if "saw" in comment]
    check("profiler: it records", bool(seen) and int(seen[0].split()[2]) > 1000, seen)
    begin = time.monotonic()
    wait_for("us to go on", lambda: any(row["tier"] == "exact" for row in daemon.query("ps")["rows"]), 10)
    print(f"we went on {time.monotonic() - begin:.2f} s later")
    time.sleep(2)
    kernels = sum(row["count"] for row in daemon.query("kernels", "--pid", program.pid, "--since", "1s")["rows"])
    check("profiler: we record again", kernels > 100, kernels)
    loss = {row["reason"] for row in daemon.query("loss")["rows"]}
    check("profiler: the gap is told", "paused" in loss, loss)
    daemon.show("query", "loss")
    program.say("profile cuda count")
    time.sleep(2)
    program.say("profile off")
    wait_for("the second profile", lambda: program.comments.count("profile off") == 2, 60)
    seen = [comment for comment in program.comments if "saw" in comment]
    check("profiler: it records again", len(seen) == 2 and int(seen[1].split()[2]) > 1000, seen)
    check("profiler: the program ended well", program.stop() == 0)
    daemon.stop()


def several():
    """Two processes at once, one of them on each device where there are several."""
    daemon = gpu.Daemon(BUILD)
    programs = [Program("python3", os.path.join(HERE, "train.py"), "600",
                        env=dict(os.environ, CUDA_VISIBLE_DEVICES=str(i % DEVICES))) for i in range(2)]
    for program in programs:
        attach(daemon, program.pid)
    time.sleep(3)
    for program in programs:
        rows = daemon.query("kernels", "--pid", program.pid)["rows"]
        check(f"several: kernels of process {program.pid}", sum(row["count"] for row in rows) > 1000)
    daemon.show("query", "idle")
    daemon.show("query", "devices")
    for program in programs:
        detach(daemon, program.pid)
        check("several: the program ended well", program.stop() == 0)
    daemon.stop()


PARTS = {"counts": counts, "cost": cost, "large": cost_large, "empty": cost_empty, "beside": beside,
         "run": cost_of_run, "cycles": cycles, "profiler": profiler, "several": several}


def main():
    print(gpu.machine(), f"{DEVICES} device(s)")
    for name in sys.argv[2:] or PARTS:
        print(f"\n=== {name}", flush=True)
        PARTS[name]()
    print(f"\n{len(gpu.failures)} failed: {gpu.failures}; logs in {OUT}")
    return 1 if gpu.failures else 0


if __name__ == "__main__":
    sys.exit(main())
