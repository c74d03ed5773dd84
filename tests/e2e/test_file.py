"""A recording answers everything that the daemon answers, and the same; a damaged one says so."""
import base64
import ctypes
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
import zlib

import tracesmith
from tracesmith import BUILD, wait_for

# Records of mappings can be lost at any time: see assert_nothing_lost.
ANY_TIME = "mapping"
STATEMENTS = [
    "SELECT * FROM op ORDER BY start_ns, process, stream, kind, tid, end_ns, gpu_start_ns, gpu_end_ns, correlation",
    "SELECT kind, fn, count(*) AS n, sum(end_ns) AS e, sum(gpu_end_ns) AS g, min(seen_ns) AS s FROM op GROUP BY 1, 2",
    "SELECT name, count(*) AS n, sum(bytes) AS b FROM op WHERE exact AND kind = 'launch' GROUP BY 1",
    "SELECT pid, count(*) AS n FROM op WHERE stream = (SELECT max(stream) FROM op) GROUP BY 1",
    "SELECT * FROM state ORDER BY start_ns, stream, process, state",
    "SELECT sum(ops) AS n, min(first_ns) AS f, max(last_ns) AS l FROM chunk",
    "SELECT now_ns() > max(start_ns) AS after FROM op",
    *[f"SELECT * FROM {table} ORDER BY 1, 2" for table in (
        "process", "function", "kind", "detail", "memory_kind", "loss_reason", "pool_kind", "frame_kind", "collect_state",
        "memory",
        "collect", "device", "stream", "frame")],
    *[f"SELECT count(*) AS n FROM {table}" for table in ("name", "rollup", "work", "busy")],
    "SELECT sum(calls) AS calls, sum(total_ns) AS ns, sum(bytes) AS bytes FROM rollup",
    "SELECT n.text, sum(w.count) AS n, sum(w.total_ns) AS ns FROM work w JOIN name n ON n.id = w.name GROUP BY 1 ORDER BY 1",
    "SELECT result_name(700) AS name",
]
REFUSED = ["DELETE FROM op", "SELECT nonsense", "ATTACH '/etc/passwd' AS x", "PRAGMA query_only = 0", "SELECT 1; SELECT 2"]
FORMATS = ["perfetto", "chrome", "folded", "svg", "pprof", "csv"]


class File(tracesmith.Case):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp(prefix="tracesmith-file-")
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o755)
        self.file = os.path.join(self.directory, "f.sbt")

    def workload(self, name, *arguments, exact=False):
        command = [os.path.join(BUILD, "tsctl"), "run", "--stacks", "all", "--"] if exact else []
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), FAKE_CUDA_TIME_SCALE="1",
                           TRACESMITH_SOCKET=self.daemon.socket)
        process = subprocess.Popen([*command, tracesmith.workload_path(name), *map(str, arguments)], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        return process

    def record(self):
        self.wait_named()
        result = self.daemon.ctl("record", "-o", self.file, "--all", "--since", "1h")
        self.assertEqual(result.code, 0, result.err)

    def wait_named(self):
        """Stacks get their names in the background."""
        def named():
            nameless = self.daemon.sql("SELECT count(DISTINCT stack) AS n FROM op WHERE stack AND stack NOT IN (SELECT stack FROM frame)")[0]["n"]
            told = [row["number"] for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"] if row["name"] == "stacks_unnamed"]
            return nameless <= sum(told)
        wait_for("names of all stacks", named)

    def past(self):
        """Programs of both tiers that have ended, and all of their ops stored."""
        for name, exact, *arguments in (("leak", False), ("exact", True, "--pageable"), ("nvtx", True), ("streams", False), ("counts", False)):
            process = self.workload(name, *arguments, exact=exact)
            process.communicate()
            self.daemon.wait_ended(process.pid)
        wait_for("the last ops", lambda: self.daemon.sql("SELECT max(start_ns) < now_ns() - 3000000000 AS old FROM op")[0]["old"])

    def both(self, *arguments):
        """The answers of the daemon and of the file."""
        return [self.daemon.ctl(*arguments, *file) for file in ((), ("--file", self.file))]

    def assert_same(self, *arguments, without=()):
        answers, end = self.answers(arguments, without), time.monotonic() + tracesmith.DEADLINE
        # A recording lacks what came since: lines of functions, and after two minutes sums of minutes in the place of seconds.
        while answers[0] != answers[1] and time.monotonic() < end:
            self.record()
            answers = self.answers(arguments, without)
        self.assertEqual(answers[0], answers[1], arguments)
        return answers[0]["rows"]

    def answers(self, arguments, without):
        answers = []
        for result in self.both(*arguments, "--json"):
            self.assertEqual(result.code, 0, result.err)
            answer = dict(json.loads(result.out), said=result.err)
            for row in answer["rows"]:
                for column in without:
                    row.pop(column)
            answer["loss"].pop(ANY_TIME, None)
            answers.append(answer)
        return answers

    def test_every_answer_is_that_of_the_store(self):
        self.past()
        self.record()
        self.queries()
        self.statements()
        self.exports()
        self.reports()

    def reports(self):
        """Of a recording, as HTML whose pictures are XML, and as Markdown; and of what the daemon has."""
        page, text = (os.path.join(self.directory, name) for name in ("report.html", "report.md"))
        for output, options in ((page, ()), (text, ("--md",))):
            result = self.daemon.ctl("report", self.file, "-o", output, *options)
            self.assertEqual((result.code, result.out, result.err), (0, "", ""))
            with open(output, encoding="utf-8") as file:
                report = file.read()
            for part in ("What stands out", "waited for the device", "Kernels", "reduce(float const", "Copies of pageable memory", "Failed calls"):
                self.assertIn(part.replace("_", "\\_") if options else part, report)
            if options:
                self.assertNotIn("<", report.replace("<br>", ""))
                continue
            self.assertNotIn("<script", report)
            self.assertNotRegex(report, r'(src|href)="(?!data:)')
            pictures = re.findall(r"<svg.*?</svg>", report, re.DOTALL)
            self.assertEqual([xml.etree.ElementTree.fromstring(each).get("aria-label") for each in pictures],
                             ["Streams over time", "Memory over time", "Addresses over time"])
            flame = xml.etree.ElementTree.fromstring(base64.b64decode(re.search(r'base64,([^"]*)"', report).group(1)))
            self.assertTrue(flame.tag.endswith("svg"))
        self.plots()
        result = self.daemon.ctl("report", "--since", "1h", "--md", "-o", "-")
        self.assertEqual((result.code, result.err), (0, ""))
        self.assertIn("What each device did", result.out)

    def plots(self):
        picture = os.path.join(self.directory, "picture.svg")
        for name, title in (("busy", "Streams over time"), ("memory", "Memory over time"), ("memory-map", "Addresses over time")):
            result = self.daemon.ctl("plot", name, self.file, "-o", "-")
            self.assertEqual(result.code, 0, result.err)
            self.assertEqual(xml.etree.ElementTree.fromstring(result.out).get("aria-label"), title)
            self.png(name)
        with subprocess.Popen([os.path.join(BUILD, "tsctl"), "plot", "memory", "--follow", "--since", "1h", "-o", picture],
                              env=dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)) as process:
            for _ in range(2):
                wait_for("the picture", lambda: os.path.exists(picture))
                os.remove(picture)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(tracesmith.DEADLINE), 0)

    def png(self, name):
        """Where librsvg is installed it is one with something on it; where it cannot be loaded, that is said."""
        path = os.path.join(self.directory, f"{name}.png")
        broken = os.path.join(self.directory, "librsvg-2.so.2")
        with open(broken, "w") as file:
            file.write("no library")
        result = subprocess.run([os.path.join(BUILD, "tsctl"), "plot", name, self.file, "-o", path], capture_output=True, text=True,
                                env=dict(os.environ, LD_LIBRARY_PATH=self.directory))
        self.assertEqual((result.returncode, result.stderr.count("\n"), os.path.exists(path)), (1, 1, False), result.stderr)
        self.assertIn("apt install librsvg2-2), or give -o FILE.svg", result.stderr)
        try:
            ctypes.CDLL("librsvg-2.so.2")
        except OSError:
            print("skipped: librsvg2-2 is not installed", file=sys.stderr)
            return
        result = self.daemon.ctl("plot", name, self.file, "-o", path)
        self.assertEqual(result.code, 0, result.err)
        with open(path, "rb") as file:
            data = file.read()
        self.assertEqual(data[:16], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
        self.assertEqual(int.from_bytes(data[16:20], "big"), 2 * 1180)
        at, pixels = 8, b""
        while at < len(data):
            size = int.from_bytes(data[at:at + 4], "big")
            pixels += data[at + 8:at + 8 + size] if data[at + 4:at + 8] == b"IDAT" else b""
            at += size + 12
        self.assertGreater(len(set(zlib.decompress(pixels))), 20, "it is blank")

    def test_what_is_held_at_the_end(self):
        process = self.workload("leak")
        wait_for("the leak", lambda: self.daemon.answer("leaks", "--min-age", "1ns")["rows"])
        wait_for("its work", lambda: any(line.startswith("{") for line in iter(process.stdout.readline, "")))
        wait_for("its end", lambda: self.daemon.sql("SELECT max(end_ns) < now_ns() - 1000000000 AS old FROM op WHERE kind = 'alloc'")[0]["old"])
        self.record()
        for name in ("ps", "processes", "memory", "streams", "devices"):
            self.assert_same("query", name)
        self.assertTrue(self.assert_same("query", "leaks", "--min-age", "1ns", without=["oldest_ns", "why"]))
        self.assertTrue(self.assert_same("query", "fragmentation", without=["oldest_ns", "typical_bytes", "unusable"]))
        self.assertTrue(self.assert_same("query", "fragmentation-sizes"))
        self.assertTrue(self.assert_same("sql", "SELECT * FROM allocation ORDER BY id"))

    def queries(self):
        facts = {row["key"]: row["value"] for row in self.rows("SELECT key, value FROM recording")}
        times = self.rows("SELECT (min(start_ns) + max(start_ns)) / 2 AS middle, now_ns() / 1000000000 * 1000000000 - 1000 AS end FROM op")[0]
        middle, end = (datetime.datetime.fromtimestamp((time + facts["wall_offset_ns"]) // 1000 / 1e6).isoformat() for time in (times["middle"], times["end"]))
        windows = [["--until", end], ["--since", middle, "--until", end], ["--until", middle]]
        pid = self.rows("SELECT max(pid) AS pid FROM process WHERE comm = 'exact'")[0]["pid"]
        some = {}
        for query in self.assert_same("query", "list"):
            name, options = query["name"], query["options"].split()
            some[name] = 0
            for window in windows if "--since" in options else [[]]:
                some[name] += len(self.assert_same("query", name, *window))
            for option in ("--by-stack", "--by-stream"):
                if option in options:
                    self.assert_same("query", name, option, *(windows[0] if "--since" in options else []))
            if "--pid" in options:
                self.assert_same("query", name, "--pid", pid, "--limit", 5, *(windows[0] if "--since" in options else []))
                window = windows[0] if "--since" in options else []
                whose = self.assert_same("query", name, "--user", "root", *window)
                self.assertEqual(whose, self.assert_same("query", name, "--user", "0", *window))
                self.assertEqual(bool(whose), bool(self.assert_same("query", name, *window)))
        calls = [row["calls"] for row in self.assert_same("query", "apis", "--sort", "+calls", "--limit", 3, *windows[0])]
        self.assertEqual((len(calls), calls), (3, sorted(calls)))
        named = [row["fn"] for row in self.assert_same("query", "apis", "--name", "Launch|Memc*y", *windows[0])]
        self.assertTrue(named and all("Launch" in name or "Memcpy" in name for name in named))
        empty = [name for name, rows in some.items() if not rows]
        self.assertEqual(empty, ["ps", "leaks", "fragmentation", "fragmentation-sizes", "fragmentation-history", "collectives", "pools", "cost"],
                         "asked of nothing; test_collectives has a recording of its own")

    def rows(self, statement):
        result = self.daemon.ctl("sql", "--json", "--file", self.file, statement)
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)["rows"]

    def statements(self):
        for statement in STATEMENTS:
            # A recording says nothing of whose share of the database it was.
            without = ["owner"] if "FROM process " in statement else []
            self.assertTrue(self.assert_same("sql", statement, "--limit", 1000000, without=without), statement)
        for statement in REFUSED:
            store, file = self.both("sql", statement)
            self.assertEqual((store.code, store.err), (file.code, file.err))
            self.assertEqual(store.code, 1)

    def exports(self):
        for name in FORMATS:
            paths = [os.path.join(self.directory, f"{name}.{of}") for of in ("store", "file")]
            for arguments, path in ((["--since", "1000d"], paths[0]), ([self.file], paths[1])):
                result = self.daemon.ctl("export", *arguments, f"--{name}", "-o", path)
                self.assertEqual(result.code, 0, result.err)
            with open(paths[0], "rb") as store, open(paths[1], "rb") as file:
                self.assertEqual(store.read(), file.read(), name)


class Damaged(tracesmith.Case):
    """Files that are not whole."""

    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp(prefix="tracesmith-file-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.file = os.path.join(self.directory, "f.sbt")
        process, _ = tracesmith.run("exact")
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.daemon.ctl("record", "-o", self.file, "--all", "--since", "1h").code, 0)
        with open(self.file, "rb") as file:
            self.data = file.read()

    def ask(self, data, statement="SELECT count(*) AS n, sum(handle) AS h FROM op"):
        """What is said of a file of these bytes; its answer or None."""
        with open(self.file, "wb") as file:
            file.write(data)
        result = self.daemon.ctl("sql", "--json", "--file", self.file, statement)
        self.assertIn(result.code, (0, 1), result.err)
        for line in result.err.splitlines():
            self.assertRegex(line, "^tsctl: ")
        return result.err, json.loads(result.out) if result.code == 0 else None

    def test_each_damage_is_said(self):
        self.cut_off()
        self.changed_byte()
        self.changed_chunk()
        self.sums_of_what_is_left()
        self.no_recording()
        self.without_a_daemon()

    def cut_off(self):
        size, most = len(self.data), 0
        for left in {*range(0, size, size // 40), *range(size - 40, size, 3), 1, 23, 24, 55, 57}:
            said, answer = self.ask(self.data[:left])
            self.assertEqual(said.count("\n"), 1, said)
            if left < 24:
                self.assertIsNone(answer)
                self.assertRegex(said, "is truncated within its first bytes")
                continue
            self.assertRegex(said, "is truncated: using the data up to byte [0-9]+, |has no end")
            self.assertEqual(answer["loss"].get("cut-off"), 1, left)
            most = max(most, answer["rows"][0]["n"])
        said, answer = self.ask(self.data)
        self.assertEqual(said, "")
        self.assertNotIn("cut-off", answer["loss"])
        self.assertEqual(answer["rows"][0]["n"], most)
        self.assertGreater(most, 500)
        result = self.daemon.ctl("export", self.file, "--perfetto", "-o", os.path.join(self.directory, "t"))
        self.assertEqual((result.code, "cut-off" in result.err), (0, False))
        self.ask(self.data[:size - 100])
        result = self.daemon.ctl("export", self.file, "--perfetto", "-o", os.path.join(self.directory, "t"))
        self.assertEqual((result.code, "cut-off" in result.err), (0, True))
        self.assertRegex(self.daemon.ctl("info", self.file).out, "! state +cut off at byte [0-9]+")

    def changed_byte(self):
        noticed = 0
        for at in range(3, len(self.data), len(self.data) // 60):
            said, _ = self.ask(self.data[:at] + bytes([self.data[at] ^ 16]) + self.data[at + 1:])
            noticed += bool(said)
        self.assertEqual(noticed, len(range(3, len(self.data), len(self.data) // 60)))

    def changed_chunk(self):
        """What can be asked goes on without one of the chunks, and says so."""
        _, answer = self.ask(self.data, "SELECT offset, ops, (SELECT sum(ops) FROM chunk) AS n FROM file_block ORDER BY ops DESC LIMIT 1")
        chunk = answer["rows"][0]
        at = chunk["offset"] + 60
        whole = answer["loss"]
        said, answer = self.ask(self.data[:at] + bytes([self.data[at] ^ 16]) + self.data[at + 1:])
        self.assertEqual(said, f"tsctl: '{self.file}' is damaged at byte {chunk['offset']}: {chunk['ops']} operations are missing there\n")
        self.assertEqual((answer["loss"], answer["rows"][0]["n"]), ({**whole, "damaged": chunk["ops"]}, chunk["n"] - chunk["ops"]))
        path = os.path.join(self.directory, "t")
        for verb in (["view", self.file], ["export", self.file, "--chrome", "-o", path], ["replay", self.file, "--json"],
                     ["graph", self.file, "--json"], ["query", "critical-path", "--file", self.file], ["info", self.file]):
            result = self.daemon.ctl(*verb)
            self.assertEqual((result.code, "is damaged at byte" in result.err), (0, True), result.err)
        self.assertRegex(result.out, f"! state +damaged at byte {chunk['offset']}\n")
        self.assertRegex(result.out, f"! damaged +{chunk['ops']}\n")

    def sums_of_what_is_left(self):
        """A program is recorded, and tsctl is gone when half of its launches are in the file, or all but the sums."""
        command = [tracesmith.workload_path("exact")]
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), TRACESMITH_SOCKET=self.daemon.socket)
        subprocess.run([os.path.join(BUILD, "tsctl"), "record", "-o", self.file, "--", *command], env=environment, check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(self.file, "rb") as file:
            data = file.read()
        _, answer = self.ask(data, "SELECT offset + size + 32 AS end, sum(iif(kind = (SELECT id FROM kind WHERE name = 'launch'), ops, 0))"
                             " OVER (ORDER BY offset) AS launches FROM file_block ORDER BY offset")
        last = answer["rows"][-1]
        half = next(row for row in answer["rows"] if 2 * row["launches"] >= last["launches"])
        for end in {half["end"], last["end"]}:
            _, answer = self.ask(data[:end + 1], "SELECT sum(calls) AS sums, (SELECT count(*) FROM op WHERE kind = 'launch') AS ops,"
                                 " (SELECT sum(count) FROM work) > 0 AS works FROM rollup WHERE kind = (SELECT id FROM kind WHERE name = 'launch')")
            row = answer["rows"][0]
            self.assertGreater(row["ops"], 100)
            self.assertEqual((row["sums"], row["works"]), (row["ops"], 1))
            for query in ("kernels", "apis", "overlap", "memory"):
                result = self.daemon.ctl("query", query, "--json", "--since", "1h", "--file", self.file) if query != "memory" else \
                    self.daemon.ctl("query", query, "--json", "--file", self.file)
                answer = json.loads(result.out)
                self.assertEqual((bool(answer["rows"]), answer["loss"].get("cut-off")), (True, 1), query)

    def no_recording(self):
        for data, said in ((b"", "truncated within its first bytes"), (b"text\n" * 100, "is not an .sbt file"),
                           (os.urandom(1000), "is not an .sbt file")):
            self.assertRegex(self.ask(data)[0], said)
        os.chmod(self.directory, 0o755)
        os.chmod(self.file, 0)
        shutil.copy(os.path.join(BUILD, "tsctl"), self.directory)
        result = subprocess.run([os.path.join(self.directory, "tsctl"), "info", self.file], user=65534, capture_output=True,
                                text=True)
        self.assertEqual((result.returncode, result.stderr),
                         (1, f"tsctl: Cannot open '{self.file}': Permission denied\n"))
        for path, said in ((self.directory, "it is a directory"), ("/dev/null", "it is not a regular file"),
                           (self.file + "x", "No such file or directory")):
            for verb in (["query", "ps", "--file", path], ["info", path], ["export", path, "--chrome", "-o", "-"]):
                result = self.daemon.ctl(*verb)
                self.assertEqual((result.code, result.out, result.err.count("\n")), (1, "", 1))
                self.assertIn(said, result.err)

    def without_a_daemon(self):
        for verb in (["status"], ["ps"], ["attach", "1"]):
            self.assertEqual(self.daemon.ctl(*verb, "--file", self.file).code, 2)


if __name__ == "__main__":
    tracesmith.main()
