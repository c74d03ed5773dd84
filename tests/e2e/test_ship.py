"""tracesmith-ship: all that the daemon knows arrives at a ClickHouse, once, whatever fails in between."""

import contextlib
import gzip
import http.server
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest
import urllib.parse

import clickhouse
import rowbinary
import tracesmith
from tracesmith import BUILD, SOURCE, run, wait_for, workload

SHIP = os.path.join(BUILD, "tracesmith-ship")
PASSWORD = "it's secret"
TYPES = {"U8": "UInt8", "U32": "UInt32", "U64": "UInt64", "I32": "Int32", "I64": "Int64", "TIME": "DateTime", "TEXT": "String"}
# What tells rows apart; of those that are the same the one told last counts.
KEYS = {"host": ["boot"], "process": ["process"], "device": ["process", "device"], "stack": ["process", "stack"],
        "rollup": ["process", "kind", "fn", "detail", "device", "result", "freed", "second"],
        "work": ["process", "device", "kind", "detail", "name", "second"], "busy": ["process", "device", "state", "second"],
        "collective": ["process", "number", "operation", "type", "reduction", "peer", "log2_bytes", "second"],
        "memory": ["process", "device", "kind", "second"], "loss": ["process", "reason", "second"],
        "price": ["process", "part"], "clock": ["at_ns"],
        "op": ["process", "start_ns", "tid", "kind", "fn", "detail", "stream", "device", "gpu_start_ns", "correlation", "node", "name"], "incident": ["kind", "id"], "growth": ["process", "stack", "fn", "kind", "device"]}


def tables():
    """Columns with types of each table, as the source of the shipper has them."""
    with open(os.path.join(SOURCE, "client/ship/tables.c")) as file:
        text = file.read().partition("const struct table tables[]")[2]
    found = {}
    for part in re.split(r'^\t\{ (?=")', text, flags=re.MULTILINE)[1:]:
        listed = re.findall(r'(\w+)\((\w+)\)|\{ "(\w+)", ROWBINARY_LINES \}', part[part.rindex("\t  { "):])
        columns = [(name or lines, TYPES[kind] if kind else "Array(String)") for kind, name, lines in listed if not kind or kind in TYPES]
        found[part.split('"')[1]] = [("host", "String"), ("boot", "String"), ("told_ns", "UInt64"), *columns]
    return found


class Server(http.server.ThreadingHTTPServer):
    """What a ClickHouse answers to the shipper, and the blocks that it got; `fail` is asked before each."""
    daemon_threads = True

    def __init__(self, version="26.7.1.1"):
        super().__init__(("127.0.0.1", 0), Handler)
        self.version, self.tables, self.blocks, self.tokens = version, tables(), [], {}
        self.missing, self.password, self.fail = (), PASSWORD, lambda count: None
        self.count, self.began, self.ahead, self.drift = 0, time.monotonic_ns(), time.time_ns(), 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def now_ns(self):
        """What its clock shows: ours when it started, and from there on it gains `drift` of what passes."""
        passed = time.monotonic_ns() - self.began
        return self.ahead + passed + int(passed * self.drift)

    def columns(self):
        return "".join(f"{table}\t{name}\t{'LowCardinality(String)' if name == 'kind' else kind}\n"
                       for table, columns in self.tables.items() for name, kind in columns if (table, name) not in self.missing)

    def handle_error(self, request, client_address):
        pass  # of clients that are killed

    def all_rows(self, table):
        """With their keys, in the order in which they came."""
        types = dict(self.tables[table])
        for name, columns, body in self.blocks:
            for row in rowbinary.rows(body, [(column, types[column]) for column in columns]) if name == table else ():
                yield (row["host"], row["boot"], *(row[column] for column in KEYS[table])), row

    def told(self, table):
        return [key for key, _ in self.all_rows(table)]

    def rows(self, table):
        """Those that are left when rows of one key replace each other."""
        last = {}
        for key, row in self.all_rows(table):
            if key not in last or last[key]["told_ns"] <= row["told_ns"]:
                last[key] = row
        return list(last.values())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        server, query = self.server, urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if self.headers.get("X-ClickHouse-Key", "") != server.password:
            return self.answer(403, "Code: 516. DB::Exception: default: Authentication failed: password is incorrect")
        if "query" in query:
            return self.insert(query)
        statement = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "version()" in statement:
            return self.answer(200, server.version + "\n")
        if "hostName()" in statement:
            now = server.now_ns()
            return self.answer(200, f"{now if 'now64' in statement else now // 10**9}\tserver\n")
        return self.answer(200, server.columns() if "system.columns" in statement else "")

    def insert(self, query):
        server = self.server
        server.count += 1
        fault = server.fail(server.count)
        if fault == "cut":
            self.rfile.read(10)
            self.close_connection = True
            return None
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if fault == "refuse":
            return self.answer(500, "Code: 252. DB::Exception: Too many parts (300). Merges are processing significantly slower")
        match = re.fullmatch(r"INSERT INTO tracesmith\.(\w+) \(([\w, ]+)\) FORMAT RowBinary", query["query"][0])
        for token in query.get("insert_deduplication_token", []):
            assert server.tokens.setdefault(token, body) == body, f"{token} is not the same again"
        assert self.headers["Content-Encoding"] == "gzip"
        server.blocks.append((match[1], match[2].split(", "), gzip.decompress(body)))
        if fault == "silence":  # it has the block, and nobody gets to know
            self.close_connection = True
            return None
        return self.answer(200, "")


class Ship(tracesmith.Case):
    def setUp(self):
        super().setUp()
        self.pids = []
        self.state = os.path.join(self.daemon.directory, "ship")
        self.config = os.path.join(self.daemon.directory, "ship.conf")
        self.password = os.path.join(self.daemon.directory, "password")
        self.write(self.password, PASSWORD + "\n", 0o600)
        self.server = Server()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.configure()

    def launch(self):
        self.daemon.start(prefix=["env", "TRACESMITH_PATIENCE=20"])  # a stack that is not found in time is cut

    def write(self, path, text, mode=0o644):
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)

    def configure(self, url="", more=""):
        self.write(self.config, f"url = {url or self.server.url}\npassword_file = {self.password}\nhost = node 'é'\n{more}")

    def arguments(self, *more):
        return [SHIP, "-c", self.config, "-d", self.state, "--status", self.state + ".status", "-s", self.daemon.socket, *more]

    def ship(self, *more):
        return subprocess.run(self.arguments(*(more or ("--once",))), capture_output=True, text=True, timeout=120, check=False)

    def ship_all(self):
        result = self.ship()
        self.assertEqual(result.returncode, 0, result.stderr)

    def work(self, name, **options):
        process, _ = run(name, **options)
        self.daemon.wait_ended(process.pid)
        self.pids.append(process.pid)
        return process

    def assert_all_arrived(self):
        """As the daemon has it: each call is counted once."""
        ids = [row["id"] for row in self.daemon.sql(f"SELECT id FROM process WHERE pid IN ({', '.join(map(str, self.pids))})")]
        of_ours = f"process IN ({', '.join(map(str, ids))})"
        [told] = self.daemon.sql("SELECT sum(calls) AS calls, sum(timed) AS timed, sum(total_ns) AS ns, sum(bytes) AS bytes"
                                 f" FROM rollup WHERE {of_ours}")
        rows = [row for row in self.server.rows("rollup") if row["process"] in ids]
        got = {name: sum(row[column] for row in rows)
               for name, column in (("calls", "calls"), ("timed", "timed"), ("ns", "total_ns"), ("bytes", "bytes"))}
        self.assertEqual(got, told)
        named = {row["stack"] for row in self.server.rows("stack") if row["process"] in ids}
        self.assertEqual(named, {row["id"] for row in self.daemon.sql(f"SELECT id FROM stack WHERE {of_ours}")})

    def test_all_of_it_arrives_once(self):
        process = self.work("counts", environment={"RANK": "3", "WORLD_SIZE": "8", "SLURM_JOB_ID": "77", "AWS_SECRET": "x"})
        self.ship_all()
        self.assert_all_arrived()
        [ours] = [row for row in self.server.rows("process") if row["pid"] == process.pid]
        self.assertEqual((ours["host"], ours["comm"], ours["rank"], ours["world_size"], ours["local_rank"], ours["job"], ours["pod"]),
                         ("node 'é'", "counts", 3, 8, -1, "77", ""))
        [kept] = self.daemon.sql(f"SELECT variables AS text FROM process WHERE pid = {process.pid}")
        self.assertNotIn("AWS", kept["text"])
        self.assertTrue(all(row["frames"] and row["frames"][0].startswith("cu") for row in self.server.rows("stack") if row["process"] == ours["process"]))
        self.assertTrue(self.server.rows("incident"))
        # Again, and after more: nothing is doubled, and stacks are not sent twice, unless their lines were found meanwhile.
        def stacks():
            return [(key, tuple(row["frames"])) for key, row in self.server.all_rows("stack")]

        before = stacks()
        self.ship_all()
        self.assertEqual(set(before) & set(stacks()[len(before):]), set())
        process = self.work("short")
        self.ship_all()
        self.assert_all_arrived()
        # A shipper that lost what it knew sends all again.
        os.unlink(os.path.join(self.state, "cursor"))
        self.ship_all()
        self.assert_all_arrived()

    def test_a_new_database_replaces_nothing_of_the_one_before(self):
        self.work("counts")
        self.ship_all()
        self.daemon.stop()
        for end in "", "-wal", "-shm":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.daemon.database + end)
        before = {table: self.server.rows(table) for table in KEYS if table not in ("host", "loss", "clock")}
        self.assertTrue(all(before[table] for table in ("process", "rollup", "stack", "incident")))
        del self.pids[:]
        self.daemon.start()
        self.work("counts")
        self.ship_all()
        self.assert_all_arrived()
        for table, rows in before.items():
            now = self.server.rows(table)
            self.assertEqual([row for row in rows if row not in now], [], f"of {table}, gone")
        self.assertGreater(len(self.server.rows("incident")), len(before["incident"]))

    def test_only_what_is_wanted(self):
        """Of some jobs, and without some tables; what is wanted later comes from then on, with the stacks that it may name."""
        wanted = workload("loop", "--seconds", "600", "--pace-ms", "20", environment={"SLURM_JOB_ID": "77"})
        self.addCleanup(self.end, wanted)
        ours = f"SELECT id FROM process WHERE pid = {wanted.pid} AND variables LIKE '%77%'"
        wait_for("it to be looked at", lambda: self.daemon.sql(ours) and self.daemon.query("apis", "--pid", wanted.pid))
        self.work("counts", environment={"SLURM_JOB_ID": "771"})
        self.configure(more="leave_out = price incident\njobs = 77 train-*\n")
        self.ship_all()
        self.assertEqual(self.ship("--window", "5m").returncode, 0)
        [ours] = self.daemon.sql(ours)
        for table, columns in self.server.tables.items():
            with self.subTest(table):
                sent = {row["process"] for row in self.server.rows(table)} if "process" in dict(columns) else set()
                self.assertLessEqual(sent, {0, ours["id"]})
                if table in ("process", "rollup", "op"):
                    self.assertIn(ours["id"], sent)
        self.assertEqual(self.server.rows("price") + self.server.rows("incident"), [])
        told = self.daemon.ctl("ship", "status", self.state + ".status", "--json")
        told = {row["name"]: row["value"] for row in json.loads(told.out)["rows"]}
        self.assertEqual((told["left_out"], told["jobs"], told["lost_seconds"]), ("price incident", "77 train-*", "0"))
        self.configure()
        self.ship_all()
        stacks = self.daemon.sql(f"SELECT s.id FROM stack s JOIN process p ON p.id = s.process WHERE p.pid = {self.pids[0]}")
        self.assertTrue(stacks)
        self.assertLessEqual({row["id"] for row in stacks}, {row["stack"] for row in self.server.rows("stack")})

    def test_whatever_fails_in_between(self):
        process = self.work("counts")
        faults = ["refuse", "cut", "silence", None, "silence", "cut", None, "refuse"]
        self.server.fail = lambda count: faults[count - 1] if count <= len(faults) else None
        result = self.ship()
        self.assertEqual(result.returncode, 1)
        self.assertIn("says: Too many parts (300)", result.stderr)
        # What was to be sent is as it was, although the daemon knows more by now.
        with open(os.path.join(self.state, "parcel"), "rb") as file:
            parcel = file.read()
        process = self.work("short")
        while self.server.count < 3:
            self.assertEqual(self.ship().returncode, 1)
        with open(os.path.join(self.state, "parcel"), "rb") as file:
            self.assertEqual(file.read(), parcel)
        # Without a daemon it still arrives; killed in the middle, too.
        self.daemon.stop()
        while self.server.count < len(faults):
            count = self.server.count
            shipper = subprocess.Popen(self.arguments(), stderr=subprocess.DEVNULL)
            wait_for("a block", lambda: self.server.count > count)
            shipper.kill()
            shipper.wait()
        shipper = subprocess.Popen(self.arguments(), stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, shipper)
        wait_for("the rest of it", lambda: not os.path.exists(os.path.join(self.state, "parcel")))
        shipper.kill()
        shipper.wait()
        self.daemon.start()
        self.ship_all()
        self.assert_all_arrived()

    def test_killed_at_any_moment(self):
        """tests/soak/kills: 200 times."""
        kills = int(os.environ.get("TS_PART_KILLS", 8))
        process = workload("rate", "--kind", "mixed", "--rate", "300", "--seconds", "36000", "--stop")
        self.addCleanup(self.end, process)
        wait_for("the process", lambda: self.daemon.known(process.pid))
        self.pids.append(process.pid)
        for _ in range(kills):
            shipper = subprocess.Popen(self.arguments(), stderr=subprocess.DEVNULL)
            time.sleep(random.uniform(0, 0.4))
            shipper.kill()
            self.assertEqual(shipper.wait(), -signal.SIGKILL)
        process.communicate("\n")
        self.daemon.wait_ended(process.pid)
        self.ship_all()
        self.assert_all_arrived()

    def test_clocks_are_compared(self):
        """With servers whose clocks are elsewhere and go wrong, one of them telling whole seconds."""
        for version, ahead, drift in (("22.8.1.1", 3600 * 10**9 + 12345678, 60e-6), ("18.16.1", -77 * 10**9 - 1, -40e-6)):
            server = Server(version)
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
            server.ahead, server.drift = server.ahead + ahead, drift
            self.configure(url=server.url)
            self.ship_all()
            row = server.rows("clock")[-1]
            # What the server's clock showed at that time of ours.
            passed = row["at_ns"] - server.began
            truth = server.ahead + passed + int(passed * drift) - row["at_ns"]
            self.assertLessEqual(abs(row["offset_ns"] - truth), row["bound_ns"], row)
            self.assertEqual((row["host"], row["server"]), ("node 'é'", "server"))
            self.assertGreater(row["round_trip_ns"], 0)
            self.assertLess(row["bound_ns"], 10**9 + row["round_trip_ns"], row)

    def test_a_window_of_operations(self):
        process = self.work("counts")
        result = self.ship("--window", "1h")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--window needs a duration of at most 10m", result.stderr)
        result = self.ship("--window", "5m")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = self.server.rows("op")
        self.assertIn(f"Sent {len(self.server.told('op'))} operations", result.stdout)
        [row] = self.daemon.sql(f"SELECT id FROM process WHERE pid = {process.pid}")
        rows = [one for one in rows if one["process"] == row["id"]]
        told = self.daemon.sql(f"SELECT kind, count(*) AS n, sum(start_ns % 1000003) AS start, sum(bytes % 1000003) AS bytes FROM op WHERE pid = {process.pid} GROUP BY kind")
        self.assertTrue(told)
        for one in told:
            of_kind = [row for row in rows if row["kind"] == one["kind"]]
            self.assertEqual((len(of_kind), sum(row["start_ns"] % 1000003 for row in of_kind), sum(row["bytes"] % 1000003 for row in of_kind)),
                             (one["n"], one["start"], one["bytes"]))
        # What is needed to understand them is there, although no minute was shipped; and again changes nothing.
        self.assertEqual([one["pid"] for one in self.server.rows("process") if one["process"] == row["id"]], [process.pid])
        self.assertEqual((len(self.server.rows("host")), len(self.server.rows("clock"))), (1, 1))
        again = self.daemon.ctl("ship", "window", self.config, "--since", "5m")
        self.assertEqual((again.code, again.out.startswith("Sent ")), (0, True), again.err)
        again = [key for key, one in self.server.all_rows("op") if one["process"] == row["id"]]
        self.assertEqual((len(again), len(set(again))), (2 * len(rows), len(rows)))
        for arguments, sentence in (((), "Give --since"), (("--since", "1h"), "must be at most 10 minutes ago")):
            refused = self.daemon.ctl("ship", "window", self.config, *arguments)
            self.assertEqual(refused.code, 2)
            self.assertIn(sentence, refused.err)
        self.daemon.stop()
        result = self.ship("--window", "5m")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1))
        self.assertIn("No daemon listens on", result.stderr)

    def sleeps(self, pid):
        """In clock_nanosleep: it has told how it goes, and has nothing to do."""
        with open(f"/proc/{pid}/syscall") as file:
            return file.read().startswith("230 ")

    def test_a_window_that_the_fleet_asks_for(self):
        """Of a real server; a host that does not allow it does not even look."""
        node = clickhouse.modern()
        self.addCleanup(node.kill)
        self.write(self.password, clickhouse.PASSWORD, 0o600)

        def fleet(*arguments):
            result = self.daemon.ctl("fleet", *arguments, "--url", f"{node.url}/tracesmith", "--password-file", self.password)
            self.assertEqual(result.code, 0, result.err)
            return result.out

        def told(name):
            result = self.daemon.ctl("ship", "status", self.state + ".status", "--json")
            return next((row["number"] for row in json.loads(result.out)["rows"] if row["name"] == name), None) if result.code == 0 else None
        fleet("init")
        waiting = workload("loop", "--seconds", "600", "--pace-ms", "20")
        self.addCleanup(self.end, waiting)
        wait_for("its calls", lambda: self.daemon.query("apis", "--pid", waiting.pid))
        self.configure(url=node.url)
        self.ship_all()
        self.assertIn("Asked 1 host:", fleet("window", "--host", "node 'é'", "--since", "5m"))
        # The next process does not take up what this one did.
        for more, count in (("", None), ("windows = yes\n", 1), ("windows = yes\n", None)):
            self.configure(url=node.url, more=more)
            shipper = subprocess.Popen(self.arguments())
            try:
                if count:
                    wait_for("the window", lambda: told("windows") == count)
                wait_for("the shipper to sleep", lambda: self.sleeps(shipper.pid))
                self.assertEqual(told("windows"), count)
            finally:
                shipper.kill()
                shipper.wait()
            if more:
                self.assertGreater(int(node.rows("SELECT count() FROM tracesmith.op WHERE fn = 'cuLaunchKernel'")[0][0]), 0)
            else:
                self.assertEqual(node.rows("SELECT count() FROM tracesmith.op"), [["0"]])

    def test_one_sentence_for_each_mistake(self):
        says = self.says
        self.configure(url="http://127.0.0.1:1")
        says("No server answers at http://127.0.0.1:1: .*; nothing is lost")
        self.configure(url="clickhouse.example:8123")
        says(r"url needs http:// or https:// and a host \(got 'clickhouse.example:8123'\)", 78)
        self.configure(more="compresion = gzip\n")
        says("Unknown setting 'compresion'", 78)
        self.configure(more="windows = maybe\n")
        says(r"windows needs yes or no \(got 'maybe'\)", 78)
        self.configure(more="leave_out = price\n  device\n")
        says("leave_out cannot have device: the other rows mean nothing without host, process, device and clock", 78)
        self.configure(more="leave_out = kernels\n")
        says("leave_out knows no 'kernels': see tracesmith-ship --print-config for what may be left out", 78)
        self.configure(more="jobs =\n")
        says(r"jobs needs a pattern: \* for all of them", 78)
        self.configure()
        os.chmod(self.password, 0o644)
        says(r"Others may use the password in \S+ \(mode 0644\): chmod 0600 it", 78)
        self.write(self.password, "wrong\n", 0o600)
        os.chmod(self.password, 0o600)
        says("does not accept user 'default' with this password")
        self.assertEqual(self.ship().returncode, 1)
        told = {row["name"]: row for row in json.loads(self.daemon.ctl("ship", "status", self.state + ".status", "--json").out)["rows"]}
        self.assertIn("does not accept user", told["trouble"]["value"])
        self.assertEqual((told["retries"]["number"], told["rows"]["number"]), (1, 0))
        self.write(self.password, PASSWORD, 0o600)
        self.server.missing = {("work", "delay_ns")}
        says("has no tracesmith.work.delay_ns: run 'tsctl fleet init'")
        self.server.missing = ()
        self.server.tables["rollup"] = [(name, "Int8" if name == "calls" else kind) for name, kind in self.server.tables["rollup"]]
        says("tracesmith.rollup.calls at .* is not UInt64: somebody changed the table by hand")
        self.server.tables = tables()
        self.assertEqual(self.ship("--check").returncode, 0)
        self.daemon.stop()
        other = Server()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        self.configure(url=other.url)
        says("No daemon listens on ")

    def says(self, sentence, code=1):
        result = self.ship("--check")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (code, 1), result.stderr)
        self.assertRegex(result.stderr, sentence)

    def test_certificates(self):
        """The server's, and ours, that a server may ask for."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pems = {name: tracesmith.certificate(self.daemon.directory, name, of, days)
                for name, of, days in (("good", "IP:127.0.0.1", 2), ("other", None, 2), ("expired", "IP:127.0.0.1", -1))}
        context.load_cert_chain(pems["good"])
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        url = self.server.url.replace("http:", "https:")
        self.configure(url=url)
        self.says(f"The certificate of {url} is not trusted: .*self-signed certificate")
        for name, sentence in (("other", "target host name '127.0.0.1'"), ("expired", "certificate has expired")):
            context.load_cert_chain(pems[name])
            self.configure(url=url, more=f"ca_file = {pems[name]}.crt\n")
            self.says(f"The certificate of {url} is not trusted: .*{sentence}")
        context.load_cert_chain(pems["good"])
        trusted = f"ca_file = {pems['good']}.crt\n"
        self.configure(url=url, more=trusted)
        self.assertEqual(self.ship("--check").returncode, 0)
        self.configure(url=self.server.url)
        self.says(f"The connection to {self.server.url} failed: ")
        # What it asks for: nothing is sent without it, with another one, or with one that others may read.
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 has the client believe that it is through before the server has looked
        context.load_verify_locations(pems["good"] + ".crt")
        self.configure(url=url, more=trusted)
        self.says(f"The connection to {url} failed: .*alert handshake failure")
        for name, modes, sentence, code in (("good", (0o644, 0o600), "Others may use the certificate in .* \\(mode 0644\\): chmod 0600 it", 78),
                                            ("good", (0o600, 0o640), "Others may use the key in .* \\(mode 0640\\): chmod 0600 it", 78),
                                            ("other", (0o600, 0o600), f"The connection to {url} failed: .*alert unknown ca", 1)):
            os.chmod(pems[name] + ".crt", modes[0])
            os.chmod(pems[name], modes[1])
            self.configure(url=url, more=f"{trusted}certificate_file = {pems[name]}.crt\nkey_file = {pems[name]}\n")
            self.says(sentence, code)
        os.chmod(pems["good"], 0o600)
        self.configure(url=url, more=f"{trusted}certificate_file = {pems['good']}.crt\nkey_file = {pems['other']}\n")
        self.says("Our own certificate or key cannot be used: ")
        self.configure(url=url, more=f"{trusted}certificate_file = {pems['good']}.crt\nkey_file = {pems['good']}\n")
        self.assertEqual(self.ship("--check").returncode, 0)

    def test_what_is_no_clickhouse(self):
        """A page, an error, another protocol, silence, and URLs that are none; whoever is right is found behind them."""
        def serve(answer):
            listener = socket.create_server(("127.0.0.1", 0))
            self.addCleanup(listener.close)

            def accept():
                with contextlib.suppress(OSError):
                    while True:
                        connection, _ = listener.accept()
                        with connection:
                            connection.recv(65536)
                            connection.sendall(answer)
            threading.Thread(target=accept, daemon=True).start()
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        page = b"<html>It works!</html>"
        servers = [(serve(b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 22\r\n\r\n%b" % (status, page)), sentence) for status, sentence in
                   ((b"200 OK", "is not ClickHouse"), (b"404 Not Found", "answers with HTTP status 404: it is not ClickHouse"),
                    (b"301 Moved", "answers with HTTP status 301: it is not ClickHouse"))]
        servers += [(serve(b"SSH-2.0-OpenSSH_9.2\r\n"), "failed: "), (serve(b""), "failed: "), ("http://127.0.0.1:99999", "The connection to http://127.0.0.1:99999 failed: "),
                    ("http://no.such.host.invalid:8123", "No server answers at http://no.such.host.invalid:8123: Could not resolve host")]
        for url, sentence in servers:
            self.configure(url=url)
            self.says(sentence)
        self.configure(url="\n  ".join([url for url, _ in servers][:7] + [self.server.url]))
        self.assertEqual(self.ship("--check").returncode, 0)
        for url, sentence in (("http://", "and a host"), ("http://:8123", "and a host"), ("https:///db", "and a host"), ("", "Missing url"),
                              ("http://u:p@127.0.0.1", "must not have a user"), ("http://127.0.0.1/?user=x", "must not have a user"),
                              ("http://127.0.0.1/#x", "must not have a user"), ("ftp://127.0.0.1", "http:// or https://"),
                              (f"http://{'x' * 200}", "Line 1 is longer than 198 bytes: a list may stand in several lines")):
            self.write(self.config, f"url = {url}\n")
            self.says(sentence, 78)


if __name__ == "__main__":
    tracesmith.main()
