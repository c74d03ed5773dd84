"""Query start: what it costs that a query has a process of its own, over one connection and an empty store. `ps` has none,
so it is the base in the same run. TS_BASE names the build folder of an older tracesmithd, to be compared with."""
import os
import sys
import time

import bench
import tracesmith

sys.path.insert(0, os.path.join(tracesmith.SOURCE, "tests", "e2e"))
from foreign import Client, control  # noqa: E402

ROUNDS = 500
REQUESTS = (
    ("ps", {"query": control.QueryRequest(name="ps")}),
    ("processes", {"query": control.QueryRequest(name="processes")}),
    ("devices", {"query": control.QueryRequest(name="devices")}),
    ("SELECT 1", {"sql": control.SqlRequest(text="SELECT 1")}),
)


def measure(table, name, gpu):
    with bench.Daemon(gpu) as daemon:
        client = Client(daemon.socket)
        times = {what: [] for what, _ in REQUESTS}
        for number in range(ROUNDS):
            for index, (what, request) in enumerate(REQUESTS):
                begin = time.monotonic()
                client.ask(id=number * len(REQUESTS) + index + 1, **request)
                times[what].append((time.monotonic() - begin) * 1e3)
        for what, taken in times.items():
            taken.sort()
            table.row(name, what, f"{bench.median(taken):.2f}", f"{taken[len(taken) * 9 // 10]:.2f}", bench.load_average())


def main():
    bench.require_root()
    print(bench.machine())
    table = bench.Table("tracesmithd", "request", "median ms", "p90 ms", "load")
    gpu = bench.Gpu()
    try:
        measure(table, "this", gpu)
        if "TS_BASE" in os.environ:
            tracesmith.BUILD = os.environ["TS_BASE"]
            measure(table, "base", gpu)
    finally:
        gpu.close()


main()
