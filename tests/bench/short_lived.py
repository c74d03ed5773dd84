"""Short-lived: programs that are over before anybody has looked at them, and what is known of each.

    short_lived.py [COUNT [SECONDS]]    2000 in 60 s, evenly

Each calls the driver a few times, and has a command line of its own. Those that are missing, and
those without their command line, must be told as lost.
"""
import subprocess
import sys
import time

import bench
import tracesmith


def start_all(gpu, count, seconds):
    """One after another, at their times; the pids. They are waited for as others start."""
    begin, running, pids = time.monotonic(), [], []
    for i in range(count):
        time.sleep(max(0.0, begin + i * seconds / count - time.monotonic()))
        running.append(subprocess.Popen(
            [f"short-lived-{i}"], executable=tracesmith.workload_path("short"), stdout=subprocess.DEVNULL,
            env={"LD_LIBRARY_PATH": gpu.directory, "FAKE_CUDA_TIME_SCALE": "0"}))
        pids.append(running[-1].pid)
        running = [process for process in running if process.poll() is None]
    for process in running:
        process.wait()
    return pids, time.monotonic() - begin


def known(daemon, pids):
    """Command line by pid, once the last of them has ended for the daemon."""
    daemon.wait_ended(pids[-1])
    return {row["pid"]: row["command"] for row in daemon.sql("SELECT pid, command FROM process")}


def main():
    bench.require_root()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    print(bench.machine())
    gpu = bench.Gpu()
    try:
        with bench.Daemon(gpu) as daemon:
            pids, took = start_all(gpu, count, seconds)
            found = known(daemon, pids)
            lost = daemon.answer("loss")["loss"]
    finally:
        gpu.close()
    missing = [pid for pid in pids if pid not in found]
    without = [i for i, pid in enumerate(pids) if pid in found and found[pid] != f"short-lived-{i}"]
    table = bench.Table("started", "in s", "known", "command", "load")
    table.row(count, f"{took:.1f}", count - len(missing), count - len(missing) - len(without), bench.load_average())
    print("lost:", ", ".join(f"{number} {reason}" for reason, number in lost.items()) or "nothing")
    if (missing or without) and not lost:
        sys.exit("what is missing was not told")


main()
