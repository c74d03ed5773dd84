"""Queries: every query, statements of SQL and exports through tsctl, over ten million ops that
programs have really made. (bench_query has generated ones, spread over 500 s and 16 streams.)

The programs still run, so that there is live memory. A query's time is that of tsctl from its start
to its end; that of `tsctl version` is the floor. An export is counted, not kept.
"""
import json
import os
import subprocess
import time

import bench
import tracesmith

OPS = 10_000_000
RATE = 400_000
ROUNDS = 5
STATEMENTS = (
    "SELECT count(*), sum(bytes) FROM op",
    "SELECT fn, count(*), max(duration_ns) FROM op GROUP BY fn",
    "SELECT count(*) FROM op WHERE kind = 'alloc' AND bytes > 1000000",
)
EXPORTS = ("--perfetto", "--chrome")


def fill(gpu, daemon):
    """Ops of one thread that launches, allocates and frees, and of a training job that goes on."""
    job = gpu.workload("leak", "--steps", 2000)
    process = gpu.workload("rate", "--kind", "mixed", "--count", OPS // 3, "--rate", RATE // 3)
    process.communicate()
    daemon.wait_ended(process.pid)
    return job


def tsctl_ms(daemon, *arguments):
    times = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        result = daemon.ctl(*arguments)
        times.append((time.monotonic() - begin) * 1e3)
        assert result.code == 0, result.err
    return f"{bench.median(times):.1f}", f"{max(times):.1f}"


def query_names(daemon):
    return [row["name"] for row in json.loads(daemon.ctl("query", "list", "--json").out)["rows"]]


def measure_queries(daemon):
    table = bench.Table("tsctl (10 million ops)", "median ms", "worst ms", "load")
    table.row("version (the floor)", *tsctl_ms(daemon, "version"), bench.load_average())
    for name in query_names(daemon):
        table.row(name, *tsctl_ms(daemon, "query", name, "--json"), bench.load_average())
    for text in STATEMENTS:
        table.row(text, *tsctl_ms(daemon, "sql", text), bench.load_average())


def export(daemon, form):
    """Seconds and bytes of one export, and the most KiB that tsctl had."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [os.path.join(tracesmith.BUILD, "tsctl"), "export", form, "--since", "1d", "-o", "-"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=dict(os.environ, TRACESMITH_SOCKET=daemon.socket))
    size = 0
    while data := os.read(process.stdout.fileno(), 1 << 20):
        size += len(data)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    assert status == 0
    return time.monotonic() - begin, size, usage.ru_maxrss


def measure_exports(daemon):
    table = bench.Table("export (10 million ops)", "seconds", "MB", "MB/s", "Mop/s", "tsctl MiB",
                        "daemon MiB", "load")
    for form in EXPORTS:
        seconds, size, kib = export(daemon, form)
        table.row(form, f"{seconds:.1f}", f"{size / 1e6:.0f}", f"{size / 1e6 / seconds:.0f}",
                  f"{OPS / 1e6 / seconds:.2f}",
                  bench.mib(kib), bench.mib(bench.memory(daemon.pid)["VmRSS"]), bench.load_average())


def main():
    bench.require_root()
    print(bench.machine())
    gpu = bench.Gpu()
    try:
        with bench.Daemon(gpu) as daemon:
            job = fill(gpu, daemon)
            status = daemon.status()
            ops = status["store", "ops_written"]
            print(f"{ops} ops, {status['store', 'database_bytes'] / ops:.2f} bytes an op in the database\n")
            measure_queries(daemon)
            print()
            measure_exports(daemon)
            job.communicate("\n")
    finally:
        gpu.close()


main()
