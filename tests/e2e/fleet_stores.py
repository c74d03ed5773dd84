"""Hosts with real daemons and shippers, whose stores were filled by hand with a boot before this one, and what a fleet has of them."""
import hashlib
import json
import os
import shutil
import subprocess
import time
import uuid

import clickhouse
import tracesmith
import unit
from tracesmith import BUILD

SHIP = os.path.join(BUILD, "tracesmith-ship")
MINUTE = 60
# Quotes, backslashes, a tab, a line break, and a letter of four bytes.
ODD = "o'd\"d\\n\t𝛌\n\\'x"
FIRST = 600  # second of the boot in which its rows begin

# Columns of a table of the fleet, what each is in a store, and where that stands there.
TOLD = {
    "rollup": ("boot, process, second, kind, fn, detail, device, result, freed, calls, timed, total_ns, bytes",
               ("b.boot_id", "r.process", "r.second / 60 * 60", "k.name", "f.name", "coalesce(d.name, '')", "r.device", "coalesce(r.result, 0)", "r.freed",
                "sum(r.calls)", "sum(r.timed)", "sum(r.total_ns)", "sum(r.bytes)"),
               "rollup r JOIN boot b ON b.id = r.boot JOIN kind k ON k.id = r.kind JOIN function f ON f.id = r.fn"
               " LEFT JOIN detail d ON d.kind = r.kind AND d.id = r.detail GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"),
    "work": ("boot, process, second, device, kind, name, count, total_ns",
             ("b.boot_id", "w.process", "w.second / 60 * 60", "w.device", "k.name", "coalesce(n.text, '')", "sum(w.count)", "sum(w.total_ns)"),
             "work w JOIN boot b ON b.id = w.boot JOIN kind k ON k.id = w.kind LEFT JOIN name n ON n.id = w.name GROUP BY 1, 2, 3, 4, 5, 6"),
    "busy": ("boot, process, second, device, state, ns",
             ("b.boot_id", "s.process", "s.second / 60 * 60", "s.device", "d.name", "sum(s.ns)"),
             "busy s JOIN boot b ON b.id = s.boot JOIN detail d ON d.kind = (SELECT id FROM kind WHERE name = 'state') AND d.id = s.state"
             " GROUP BY 1, 2, 3, 4, 5"),
    "process": ("boot, process, pid, comm, command", ("b.boot_id", "p.id", "p.pid", "p.comm", "p.command"), "process p JOIN boot b ON b.id = p.boot"),
}


class Host:
    """Its store has `minutes` of a boot that ended `ago` seconds before now, `every` minutes apart; or of this boot, if `current`. `number`
    makes its rows unlike those of others. With `once`, each kernel runs in one minute, else in all."""
    driver = f"libcuda.so.{os.getpid()}"  # that no program uses

    def __init__(self, name, number, minutes, ago=600, every=1, current=False, settings="", processes=2, kernels=3, once=False):
        self.name, self.number, self.ago, self.current = name, number, ago, current
        self.first = max(0, (int(time.monotonic()) // MINUTE - minutes) * MINUTE) if current else FIRST
        self.end = self.first + MINUTE * every * minutes
        self.seconds = range(self.first, self.end, MINUTE * every)
        self.processes, self.kernels, self.once = processes, kernels, once
        self.job = f"{number} {ODD}".replace("\n", "")  # which separates variables
        self.boot = str(uuid.UUID(int=number + 1, version=4))
        # What a former boot left is as old as this one, at least.
        self.daemon = tracesmith.Daemon(f"{settings}\n[store]\nkeep_age = 0\n", standing=(), driver=self.driver)
        self.state = os.path.join(self.daemon.directory, "ship")
        self.status = os.path.join(self.daemon.directory, "ship.status")
        self.config = os.path.join(self.daemon.directory, "ship.conf")
        self.password = os.path.join(self.daemon.directory, "password")
        with open(os.open(self.password, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(clickhouse.PASSWORD + "\n")

    def make(self, template):
        """The store, of one that a daemon has made, before its daemon starts."""
        shutil.copy(template, self.daemon.database)
        unit.own(self.daemon.database)
        with tracesmith.edited(self.daemon.database) as db:
            self._fill(db)
        return self

    def _fill(self, db):
        kinds, fns = dict(db.execute("SELECT name, id FROM kind")), dict(db.execute("SELECT name, id FROM function"))
        states = [state for state, in db.execute("SELECT id FROM detail WHERE kind = ?", (kinds["state"],))]
        if not self.current:
            db.execute("UPDATE boot SET boot_id = ?, wall_offset_ns = ?, last_ns = ?",
                       (self.boot, time.time_ns() - (self.ago + self.end) * 10**9, self.end * 10**9))
        db.execute("UPDATE boot SET next_process = ?", (self.processes + 1,))
        names = [(2**40 * (self.number + 1) + at, f"{'' if at else ODD}kernel_{hashlib.md5(str(at).encode()).hexdigest()}<{self.number}>")
                 for at in range(self.kernels)]
        db.executemany("INSERT INTO name(id, text, symbol, boot, told_ns) VALUES(?, ?, ?, 1, ?)",
                       ((at, text, text, self.end * 10**9) for at, text in names))
        for process in range(1, self.processes + 1):
            db.execute("INSERT INTO process(id, boot, pid, ns_pid, ppid, uid, user, started_ticks, comm, command, first_ns, exit_ns, exit_code, owner, variables)"
                       " VALUES(?, 1, ?, 1, 1, 1000, 'alice', 1, ?, ?, ?, ?, 0, 1000, ?)",
                       (process, 1000 * self.number + process, f"{ODD}{process}"[:15], f"python3 {ODD}", (self.first + 1) * 10**9, (self.end - 1) * 10**9,
                        f"RANK={process - 1}\nWORLD_SIZE={self.processes}\nSLURM_JOB_ID={self.job}"))
        self._minutes(db, kinds, fns, states, names)

    def _minutes(self, db, kinds, fns, states, names):
        rollup, work, busy = [], [], []
        for minute, second in enumerate(self.seconds):
            for process in range(1, self.processes + 1):
                calls = 1000 * (self.number + 1) + 10 * minute + process
                rollup.append((second, process, kinds["launch"], fns["cuLaunchKernel"], 0, 0, 0, 0, 0, 0, calls, calls, calls * 2500, 900, 90000, 0, 0))
                rollup.append((second, process, kinds["copy"], fns["cuMemcpyHtoDAsync_v2"], 1, 0, 0, 0, 0, 0, calls // 7, 0, 0, 0, 0, calls << 12, 0))
                for at, (name, _) in enumerate(names[minute::len(self.seconds)] if self.once else names):
                    work.append((second, process, 0, 0, kinds["kernel"], 0, name, 0, 0, 9, calls + at, (calls + at) * 1000, 900, 2000, 0, 0))
                busy += [(second, process, 0, state, 0, 0, 10**9 * (state + 1) + minute) for state in states]
        db.executemany("INSERT INTO rollup(boot, second, process, kind, fn, detail, device, stream, result, stack, freed, calls, timed, total_ns, min_ns,"
                       f" max_ns, bytes, captured) VALUES(1{', ?' * 17})", rollup)
        db.executemany("INSERT INTO work(boot, second, process, device, stream, kind, detail, name, graph, stack, bucket, count, total_ns, min_ns, max_ns,"
                       f" bytes, delay_ns) VALUES(1{', ?' * 16})", work)
        db.executemany(f"INSERT INTO busy(boot, second, process, device, state, kernels, copies, ns) VALUES(1{', ?' * 7})", busy)

    def configure(self, *urls):
        with open(self.config, "w") as file:
            file.write("url = " + "\n  ".join(urls) + f"\npassword_file = {self.password}\nhost = {self.name}\ndatabase = shipped\n")
        return self

    def arguments(self, *more, state=None):
        return [SHIP, "-c", self.config, "-d", state or self.state, "--status", self.status, "-s", self.daemon.socket, *more]

    def ship(self):
        return subprocess.run(self.arguments("--once"), capture_output=True, text=True, timeout=600, check=False)

    def start(self, *more, state=None, prefix=()):
        """A shipper."""
        with open(os.path.join(self.daemon.directory, "ship.log"), "a") as log:
            return subprocess.Popen([*prefix, *self.arguments(*more, state=state)], stdout=log, stderr=log)

    def said(self):
        """What the shipper says of itself."""
        if not os.path.exists(self.status):
            return {}
        with open(self.status) as file:
            return dict(line.rstrip("\n").partition(" ")[::2] for line in file)

    def stored(self, table):
        names, values, place = TOLD[table]
        columns = ", ".join(f"{value} AS {name}" for name, value in zip(names.split(", "), values))
        result = self.daemon.ctl("sql", "--json", "--limit", "1000000", f"SELECT {columns} FROM {place}")
        assert result.code == 0, result.err
        return sorted(list(row.values()) for row in json.loads(result.out)["rows"])

    def close(self):
        if self.daemon.process:
            self.daemon.close()
        else:
            shutil.rmtree(self.daemon.directory)


def make_template():
    """An empty store of this version, as a file of a folder that ends with this process."""
    daemon = tracesmith.Daemon(standing=(), driver=Host.driver).start()
    path = os.path.join(clickhouse.temporary(), "template.db")
    daemon.stop()
    shutil.copy(daemon.database, path)
    daemon.close()
    return path


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def told(server, table, name, final="FINAL", on=""):
    """The rows of a host that a fleet has, or, `on="_local"`, a node."""
    answer = server.ask(f"SELECT {TOLD[table][0]} FROM shipped.{table}{on} {final} WHERE host = {quoted(name)} FORMAT JSONCompact",
                        output_format_json_quote_64bit_integers=0)
    return sorted(json.loads(answer)["data"])


def init(server, *arguments):
    path = os.path.join(server.directory, "password")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(clickhouse.PASSWORD + "\n")
    return ctl(server, "init", *arguments)


def ctl(server, *arguments):
    environment = dict(os.environ, TRACESMITH_FLEET_URL=f"{server.url}/shipped", TRACESMITH_FLEET_PASSWORD_FILE=os.path.join(server.directory, "password"))
    return tracesmith.Result(subprocess.run([os.path.join(BUILD, "tsctl"), "fleet", *map(str, arguments)], env=environment, capture_output=True, text=True,
                                            timeout=300))


def query(server, name, *arguments):
    result = ctl(server, "query", name, "--json", *arguments)
    assert result.code == 0, result.err
    return json.loads(result.out)["rows"]


def assert_there_once(case, server, hosts, again=False):
    """Every row of every host, compared with its store; `again`: some were sent twice, which only FINAL hides."""
    for host in hosts:
        for table in TOLD:
            stored = host.stored(table)
            case.assertTrue(stored)
            case.assertEqual(told(server, table, host.name), stored, f"{table} of {host.name}")
            if not again and table != "process":  # which is sent each minute
                case.assertEqual(len(told(server, table, host.name, "")), len(stored), f"{table} of {host.name}")
