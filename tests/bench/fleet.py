#!/usr/bin/python3
"""fleet.py [cluster|modern|node] [HOSTS]: what a fleet of made-up hosts costs ClickHouse: an hour of rollups of HOSTS × 8 GPUs
(1000) is inserted; at an eighth, a quarter, a half and all of it the disk and the time of each query are printed as a
table, and at the end how many blocks of one host and minute a second are taken. All servers share this machine."""
import concurrent.futures
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import clickhouse  # pylint: disable=wrong-import-position
import fleet_hosts  # pylint: disable=wrong-import-position
from tracesmith import BUILD  # pylint: disable=wrong-import-position

MINUTES, GPUS, DATABASE, PATTERNS, AT_ONCE = 60, 8, "fleet", 4, 20
QUERIES = ["hosts", "versions", "jobs", "gpus", "kernels", "collectives", "stragglers", "leaks", "loss", "price"]
TABLES = ["rollup", "work", "busy", "memory"]
KEY = "@key@"


def tsctl(server, *arguments):
    path = os.path.join(server.directory, "password")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(clickhouse.PASSWORD)
    environment = dict(os.environ, TRACESMITH_FLEET_URL=f"{server.url}/{DATABASE}", TRACESMITH_FLEET_PASSWORD_FILE=path)
    start = time.monotonic()
    done = subprocess.run([os.path.join(BUILD, "tsctl"), "fleet", *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.monotonic() - start


class Load:
    def __init__(self, kind, hosts):
        self.cluster = clickhouse.cluster() if kind == "cluster" else None
        self.server = self.cluster.node[0][0] if self.cluster else getattr(clickhouse, kind)()
        self.settings = {"insert_distributed_sync": 1} if self.cluster else {"async_insert": 0} if kind == "modern" else {}
        tsctl(self.server, "init", *(["--cluster", "fleet"] if self.cluster else []))
        self.settle()
        self.start = int(time.time()) // 60 * 60 - 60 * (MINUTES + 1)
        self.hosts, self.pattern = hosts, []
        # One rank of the job is slow. The hours of a few hosts are made row by row, the others' are those with another name.
        for number in range(PATTERNS):
            host = fleet_hosts.Host(number, hosts, self.start, GPUS, slow={9: 1.15})
            host.key = KEY
            minutes = [host.minute(minute) for minute in range(MINUTES)]
            self.pattern.append({table: "".join(minute[table] for minute in minutes) for table in TABLES})

    def settle(self):
        if self.cluster:
            self.cluster.settled()

    def insert(self, first, last):
        """Returns rows, bytes and seconds."""
        rows = size = 0
        seconds = 0.0
        for begin in range(first, last, AT_ONCE):
            hosts = [fleet_hosts.Host(n, self.hosts, self.start, GPUS) for n in range(begin, min(begin + AT_ONCE, last))]
            text = {table: "".join(self.pattern[host.number if host.number < PATTERNS else host.number % (PATTERNS - 2) * 3][table]
                                   .replace(KEY, host.key) for host in hosts) for table in TABLES}
            for host in hosts:
                for table, row in host.identity(self.start + 60 * MINUTES):
                    text[table] = text.get(table, "") + row
            for table, lines in text.items():
                rows, size = rows + lines.count("\n"), size + len(lines)
                start = time.monotonic()
                fleet_hosts.insert(self.server, DATABASE, table, lines, **self.settings)
                seconds += time.monotonic() - start
        return rows, size, seconds

    def disk(self):
        """Rows and bytes, of one replica of each shard."""
        nodes = [row[0] for row in self.cluster.node] if self.cluster else [self.server]
        sums = [node.rows(f"SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{DATABASE}'")[0] for node in nodes]
        return sum(int(one[0]) for one in sums), sum(int(one[1]) for one in sums)

    def ask(self, name):
        """Seconds of a query, the median of three if it is short."""
        times = [tsctl(self.server, "query", name, "--since", "2h", "--json")]
        while times[0] < 3 and len(times) < 3:
            times.append(tsctl(self.server, "query", name, "--since", "2h", "--json"))
        return statistics.median(times)

    def blocks(self, seconds=15, threads=4):
        """Blocks of one host, table and minute that are taken in a second."""
        end = time.monotonic() + seconds

        def send(number):
            count = 0
            while time.monotonic() < end:
                host = fleet_hosts.Host(100000 + number * 1000 + count, self.hosts, self.start, GPUS)
                for table, lines in host.minute(0).items():
                    fleet_hosts.insert(self.server, DATABASE, table, lines, **self.settings)
                count += 1
            return count * len(TABLES)
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(send, range(threads))) / (time.monotonic() - start)


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "cluster"
    hosts = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    load = Load(kind, hosts)
    print("| hosts | rows | rows/s | MB sent | MB on disk | bytes a row |", " | ".join(QUERIES), "|", flush=True)
    done = 0
    for part in (8, 4, 2, 1):
        rows, size, seconds = load.insert(done, hosts // part)
        done = hosts // part
        load.settle()
        stored, disk = load.disk()
        times = [load.ask(name) for name in QUERIES]
        print(f"| {done} | {stored} | {rows / seconds:.0f} | {size / 1e6:.0f} | {disk / 1e6:.0f} | {disk / stored:.1f} |",
              " | ".join(f"{one:.2f}" for one in times), "|", flush=True)
    print(f"blocks of one host and minute: {load.blocks():.0f} a second; load average {os.getloadavg()[0]:.1f}")


main()
