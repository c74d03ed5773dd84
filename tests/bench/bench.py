"""Shared by the benches of the whole daemon: a private daemon that sees only our programs, what a
process uses of the machine, and tables.

Other programs of the machine may use the simulated GPU too. So each bench has a copy of it with a
name of its own, which is the one that its daemon looks for.
"""
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import tracesmith  # noqa: E402


class Gpu:
    """A copy of the simulated GPU's library under a name that nobody else has."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="tracesmith-bench-")
        self.name = tracesmith.copy_library(self.directory)

    def workload(self, name, *arguments):
        return tracesmith.workload(name, *arguments, copy=self.directory)

    def close(self):
        shutil.rmtree(self.directory)


class Daemon(tracesmith.Daemon):
    """A daemon that looks for that copy only; it has probes from the start where `standing`."""

    def __init__(self, gpu, settings="", standing=True, budget="none"):
        super().__init__(f"[probe]\nlibraries = {gpu.name}\n{settings}",
                         standing=(gpu.directory,) if standing else (), budget=budget)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    @property
    def pid(self):
        return self.process.pid

    def status(self):
        """The numbers of the status by section and name."""
        rows = json.loads(self.ctl("status", "--json").out)["rows"]
        return {(row["section"], row["name"]): row["number"] for row in rows}


def cpu_ns(pid):
    """Time on a CPU, of threads that have ended too, in ticks of 10 ms."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * (10**9 // os.sysconf("SC_CLK_TCK"))


def live_cpu_ns(pid):
    """Time on a CPU of the threads that live, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def memory(pid):
    """KiB by field of /proc/PID/status: VmRSS, VmHWM, RssAnon, ..."""
    fields = {}
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if value.endswith("kB\n"):
                fields[name] = int(value.split()[0])
    return fields


def mib(kib):
    return f"{kib / 1024:.1f}"


def load_average():
    with open("/proc/loadavg") as file:
        return file.read().split()[0]


def machine():
    """The machine in a line, with what else it is doing."""
    model = ""
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}; load {load_average()}"


def median(values):
    return statistics.median(values)


class Table:
    """Columns as wide as their heads; prints row by row, for runs that take long."""

    def __init__(self, *heads):
        self.widths = [max(len(head), 10) for head in heads]
        self.widths[0] = max(self.widths[0], 30)
        self.row(*heads)

    def row(self, *values):
        cells = [str(value).rjust(width) for value, width in zip(values, self.widths)]
        cells[0] = str(values[0]).ljust(self.widths[0])
        print("  ".join(cells), flush=True)


def require_root():
    if os.geteuid() != 0:
        tracesmith.skip("needs root for BPF")
