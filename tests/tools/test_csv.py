"""Reads the CSV of make_trace back with Python's own reader.

test_csv.py MAKE_TRACE
"""

import collections
import csv
import os
import subprocess
import sys
import tempfile
import unittest

MAKE_TRACE = None
HOSTILE = "<script>alert(\"1\")</script>]]>&'; \n\ufffd\uffff"
CALLS = {"cuMemAlloc_v2": 101, "cuMemFree_v2": 40, "cuLaunchKernel": 200, "cuEventRecord": 1,
         "cuStreamSynchronize": 1, "cuLaunchKernelEx": 52, "cuMemcpyHtoDAsync_v2": 10,
         "cuMemsetD8Async": 5, "cuGraphLaunch": 2}
NODE = 256  # of a graph: a part of a call


class Csv(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            subprocess.run([MAKE_TRACE, "csv", path], check=True)
            with open(path, newline="", encoding="utf-8") as file:
                cls.rows = list(csv.DictReader(file, strict=True, restkey="beyond", restval="missing"))

    def test_every_line_has_every_column(self):
        for row in self.rows:
            self.assertNotIn("beyond", row)
            self.assertNotIn("missing", row.values())

    def test_every_call_is_there(self):
        calls = collections.Counter(row["fn"] for row in self.rows
                                    if row["fn"] and not int(row["flags"]) & NODE)
        self.assertEqual(calls, CALLS)
        kinds = collections.Counter(row["kind"] for row in self.rows)
        self.assertEqual((kinds["kernel"], kinds["range"], kinds["overhead"]), (8, 4, 1))

    def test_hostile_names_come_back(self):
        self.assertEqual(sum(row["name"] == HOSTILE for row in self.rows), 1)

    def test_numbers_are_as_in_sql(self):
        row = next(row for row in self.rows if row["kind"] == "alloc")
        self.assertEqual(int(row["address"]) % 2**64, 0xffffffff00000000)
        self.assertEqual((row["start_ns"], row["end_ns"], row["duration_ns"]), ("1000000000", "1000000500", "500"))
        self.assertEqual((row["gpu_start_ns"], row["seen_ns"], row["name"]), ("", "", ""))
        self.assertEqual((row["pid"], row["process_name"], row["device_name"]), ("4242", "train", "NVIDIA H200"))
        copy = next(row for row in self.rows if row["fn"] == "cuMemcpyHtoDAsync_v2")
        self.assertEqual((copy["kind"], copy["detail"], copy["bytes"], copy["exact"]), ("copy", "HtoD", "4096", "1"))
        state = {row["detail"] for row in self.rows if row["kind"] == "state"}
        self.assertIn("syncing", state)


if __name__ == "__main__":
    MAKE_TRACE = sys.argv.pop(1)
    unittest.main()
