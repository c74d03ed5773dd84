"""A recording answers everything that the daemon answers, and the same; a damaged one says so."""
import datetime
import json
import os
import shutil
import subprocess
import tempfile
import unittest

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
        "process", "function", "kind", "detail", "memory_kind", "loss_reason", "pool_kind", "collect_state", "memory",
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
        result = self.daemon.ctl("record", "-o", self.file, "--all", "--since", "1h")
        self.assertEqual(result.code, 0, result.err)

    def past(self):
        """Programs of both tiers that have ended, and all of their ops stored."""
        for name, exact in (("leak", False), ("exact", True), ("nvtx", True), ("streams", False), ("counts", False)):
            process = self.workload(name, exact=exact)
            process.communicate()
            self.daemon.wait_ended(process.pid)
        wait_for("the last ops", lambda: self.daemon.sql("SELECT max(start_ns) < now_ns() - 3000000000 AS old FROM op")[0]["old"])

    def both(self, *arguments):
        """The answers of the daemon and of the file."""
        return [self.daemon.ctl(*arguments, *file) for file in ((), ("--file", self.file))]

    def assert_same(self, *arguments, without=()):
        answers = []
        for result in self.both(*arguments, "--json"):
            self.assertEqual(result.code, 0, result.err)
            answer = dict(json.loads(result.out), said=result.err)
            for row in answer["rows"]:
                for column in without:
                    row.pop(column)
            answer["loss"].pop(ANY_TIME, None)
            answers.append(answer)
        self.assertEqual(answers[0], answers[1], arguments)
        return answers[0]["rows"]

    def test_every_answer_is_that_of_the_store(self):
        self.past()
        self.record()
        self.queries()
        self.statements()
        self.exports()

    def test_what_is_held_at_the_end(self):
        process = self.workload("leak")
        wait_for("the leak", lambda: self.daemon.answer("leaks", "--min-age", "1ns")["rows"])
        wait_for("its work", lambda: any(line.startswith("{") for line in iter(process.stdout.readline, "")))
        wait_for("its end", lambda: self.daemon.sql("SELECT max(end_ns) < now_ns() - 1000000000 AS old FROM op WHERE kind = 'alloc'")[0]["old"])
        self.record()
        for name in ("ps", "processes", "memory", "streams", "devices"):
            self.assert_same("query", name)
        self.assertTrue(self.assert_same("query", "leaks", "--min-age", "1ns", without=["oldest_ns"]))
        self.assertTrue(self.assert_same("sql", "SELECT * FROM allocation ORDER BY id"))

    def queries(self):
        facts = {row["key"]: row["value"] for row in self.rows("SELECT key, value FROM recording")}
        middle = (facts["wall_offset_ns"] + self.rows("SELECT (min(start_ns) + max(start_ns)) / 2 AS t FROM op")[0]["t"]) / 1e9
        windows = [[], ["--since", datetime.datetime.fromtimestamp(middle).isoformat()],
                   ["--until", datetime.datetime.fromtimestamp(middle).isoformat()]]
        pid = self.rows("SELECT max(pid) AS pid FROM process WHERE comm = 'exact'")[0]["pid"]
        some = {}
        for query in self.assert_same("query", "list"):
            name, options = query["name"], query["options"].split()
            some[name] = 0
            for window in windows if "--since" in options else [[]]:
                some[name] += len(self.assert_same("query", name, *window))
            for option in ("--by-stack", "--by-stream"):
                if option in options:
                    self.assert_same("query", name, option)
            if "--pid" in options:
                self.assert_same("query", name, "--pid", pid, "--limit", 5)
        empty = [name for name, rows in some.items() if not rows]
        self.assertEqual(empty, ["ps", "leaks", "pools"], "asked of nothing")

    def rows(self, statement):
        result = self.daemon.ctl("sql", "--json", "--file", self.file, statement)
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)["rows"]

    def statements(self):
        for statement in STATEMENTS:
            self.assertTrue(self.assert_same("sql", statement, "--limit", 1000000), statement)
        for statement in REFUSED:
            store, file = self.both("sql", statement)
            self.assertEqual((store.code, store.err), (file.code, file.err))
            self.assertEqual(store.code, 1)

    def exports(self):
        for name in FORMATS:
            paths = [os.path.join(self.directory, f"{name}.{of}") for of in ("store", "file")]
            for arguments, path in (([], paths[0]), ([self.file], paths[1])):
                result = self.daemon.ctl("export", *arguments, f"--{name}", "-o", path)
                self.assertEqual(result.code, 0, result.err)
            with open(paths[0], "rb") as store, open(paths[1], "rb") as file:
                self.assertEqual(store.read(), file.read(), name)


def main():
    tracesmith.main()


if __name__ == "__main__":
    main()
