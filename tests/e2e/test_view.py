"""Operations as text, CSV and profiles: from the daemon and from a recording the same, and as SQL has them."""
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import tracesmith
from tracesmith import BUILD, library, workload_path

sys.path.insert(0, os.path.join(tracesmith.SOURCE, "tests", "tools"))
import pprof  # noqa: E402

WINDOW = ("--since", "1h")  # of the daemon, which shows its last seconds only
BESIDE = ["process_name", "device_name"]  # columns of the CSV that the table has not


class View(unittest.TestCase):
    """All of it is asked of one run, which is in the store of one daemon and in one recording."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = tracesmith.Daemon()
        cls.addClassCleanup(cls.daemon.close)
        cls.daemon.start()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.file = os.path.join(folder.name, "run.sbt")
        cls.path = os.path.join(folder.name, "out")
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library()), FAKE_CUDA_TIME_SCALE="1",
                           TRACESMITH_SOCKET=cls.daemon.socket)
        subprocess.run([os.path.join(BUILD, "tsctl"), "record", "-o", cls.file, "--", workload_path("exact")],
                       env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        cls.pid = cls.sql("SELECT pid FROM process")[0]["pid"]
        cls.daemon.wait_ended(cls.pid)  # so that the store has all of it, too

    @classmethod
    def said(cls, *arguments):
        result = cls.daemon.ctl(*arguments)
        if result.code:
            raise AssertionError(f"{arguments}: exit {result.code}: {result.err}")
        return result.out

    @classmethod
    def sql(cls, text):
        return json.loads(cls.said("sql", "--json", "--limit", "1000000", "--file", cls.file, text))["rows"]

    def busy(self):
        """The options for the time in which devices had work, and that time."""
        times = self.sql("SELECT (SELECT min(start_ns) FROM op) first, min(gpu_start_ns) begin, max(gpu_end_ns) end"
                         " FROM op WHERE exact AND kind IN ('launch', 'kernel', 'copy', 'set')")[0]
        first, begin, end = times["first"], times["begin"], times["end"]
        return ("--from", f"{(begin - first) / 1e9:.9f}", "--to", f"{(end - first) / 1e9:.9f}"), begin, end

    def rows(self, *arguments):
        """Those of a view of the daemon's store; of the recording they are the same."""
        stored, recorded = (json.loads(self.said("view", *source, "--json", "--pid", self.pid, *arguments))["rows"]
                            for source in (WINDOW, (self.file,)))
        self.assertEqual(recorded, stored)
        return recorded

    def test_csv_is_the_table(self):
        stored = self.said("export", *WINDOW, "--csv", "-o", "-", "--pid", self.pid)
        recorded = self.said("export", self.file, "--csv", "-o", "-", "--pid", self.pid)
        self.assertEqual(sorted(recorded.splitlines()), sorted(stored.splitlines()))
        rows = list(csv.reader(io.StringIO(recorded), strict=True))
        columns = rows[0][:-len(BESIDE)]
        self.assertEqual(rows[0][-len(BESIDE):], BESIDE)
        table = self.said("sql", "--csv", "--limit", "1000000", "--file", self.file,
                          f"SELECT {', '.join(columns)} FROM op WHERE pid = {self.pid}")
        self.assertGreater(len(rows), 500)
        self.assertEqual(sorted(row[:-len(BESIDE)] for row in rows), sorted(csv.reader(io.StringIO(table))))

    def profile(self, *arguments):
        self.said("export", *arguments, "--pprof", "-o", self.path, "--pid", self.pid)
        return pprof.Profile(self.path)

    def test_a_profile_has_all_gpu_time(self):
        samples = self.profile(self.file).samples
        self.assertCountEqual([(*sample[:2], sorted(sample[2].items())) for sample in samples],
                              [(*sample[:2], sorted(sample[2].items())) for sample in self.profile(*WINDOW).samples])
        want = self.sql("SELECT count(*) n, sum(gpu_end_ns - gpu_start_ns) ns,"
                        " sum(iif(kind IN ('copy', 'set'), bytes, 0)) bytes FROM op"
                        " WHERE exact AND kind IN ('launch', 'kernel', 'copy', 'set')")[0]
        self.assertEqual([sum(values[i] for _, values, _ in samples) for i in range(3)],
                         [want["ns"], want["n"], want["bytes"]])
        streams = {labels.get("stream") for _, _, labels in samples}
        self.assertEqual(len(streams), self.sql("SELECT count(DISTINCT stream) n FROM op WHERE exact"
                                                " AND kind IN ('launch', 'kernel', 'copy', 'set')")[0]["n"])

    def test_lines_are_all_ops_in_order(self):
        rows = self.rows()
        table = self.sql("SELECT start_ns, kind, stream, fn FROM op WHERE kind != 'state'")
        self.assertEqual([row["start_ns"] for row in rows], sorted(row["start_ns"] for row in table))
        self.assertCountEqual([(row["start_ns"], row["kind"], row["stream"] or 0, row["fn"]) for row in rows],
                              [(row["start_ns"], row["kind"], row["stream"], row["fn"]) for row in table])
        text = self.said("view", self.file)
        self.assertEqual(len(re.findall(rf"^ +\d+\.\d{{6}} .* exact \({self.pid}\) ", text, re.M)), len(table))
        self.assertRegex(text, "\nnothing lost\n|\nnot watched for |\nlost: [0-9]+ (mapping|stack)s?\\b")

    def test_filters(self):
        scale = self.rows("--kernel", "^scale")
        self.assertEqual(len(scale), self.sql("SELECT count(*) n FROM op WHERE name LIKE 'scale%'")[0]["n"])
        stream = scale[0]["stream"]
        rows = self.rows("--stream", stream)
        self.assertEqual({row["stream"] for row in rows}, {stream})
        self.assertEqual(len(rows), self.sql(f"SELECT count(*) n FROM op WHERE stream = {stream} AND kind != 'state'")[0]["n"])
        window, begin, end = self.busy()
        part = json.loads(self.said("view", self.file, "--json", *window))["rows"]
        self.assertGreater(len(part), 300)
        for row in part:
            self.assertLess(row["start_ns"], end)
            self.assertGreaterEqual(max(row["end_ns"] or row["start_ns"], row["gpu_end_ns"] or 0), begin)

    def test_a_tree_has_each_op_once(self):
        text = self.said("view", self.file, "--tree")
        lines = len(re.findall(r"^ +\d+\.\d{6} ", text, re.M))
        self.assertEqual(lines, self.sql("SELECT count(*) n FROM op WHERE kind != 'state'")[0]["n"])
        rows = json.loads(self.said("view", self.file, "--tree", "--json"))["rows"]
        leaves = [row for row in rows if row["stream"] or row["tid"]]
        self.assertEqual(sum(row["ops"] for row in leaves), lines)
        for row in rows:
            self.assertLessEqual(row["busy_ns"], row["gpu_ns"])

    def test_lanes_fit_the_terminal(self):
        text = self.said("view", self.file, "--lanes", *self.busy()[0])
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        streams = self.sql("SELECT count(DISTINCT stream) n FROM op WHERE exact"
                           " AND kind IN ('launch', 'kernel', 'copy', 'set')")[0]["n"]
        self.assertGreaterEqual(len(re.findall(r"^    stream \d+ +[.A-Za-z]+$", text, re.M)), streams)
        self.assertRegex(text, r"(?m)^  GPU 0 busy +[.1-9#]{60}$")

    def test_what_is_wrong_is_said(self):
        for arguments, code, said in ((("--kernel", "("), 2, "Invalid --kernel"),
                                      (("--tree", "--lanes"), 2, "exclude each other"), (("--pid", "999999"), 1, "999999")):
            result = self.daemon.ctl("view", self.file, *arguments)
            self.assertEqual(result.code, code, result.err)
            self.assertIn(said, result.err)
            self.assertEqual(result.out, "")


if __name__ == "__main__":
    tracesmith.main()
