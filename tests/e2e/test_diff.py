"""Recordings of one program are compared: what it did (replay --check), how long that took (diff), and what a
GPU makes of its commands when they are issued again (replay --on-gpu)."""

import json
import os
import subprocess
import tempfile

import tracesmith
from tracesmith import BUILD, library, workload_path


class Compare(tracesmith.Case):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="tracesmith-diff-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def tsctl(self, *arguments, scale=1):
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket, FAKE_CUDA_TIME_SCALE=str(scale),
                           LD_LIBRARY_PATH=os.path.dirname(library()))
        return tracesmith.Result(subprocess.run([os.path.join(BUILD, "tsctl"), *map(str, arguments)], text=True,
                                                env=environment, capture_output=True, timeout=120))

    def record(self, name, workload, *arguments, scale=1):
        path = os.path.join(self.directory, name + ".sbt")
        result = self.tsctl("record", "-o", path, "--", workload_path(workload), *arguments, scale=scale)
        self.assertEqual(result.code, 0, result.err)
        return path

    def json(self, *arguments, code=0, scale=1):
        result = self.tsctl(*arguments, "--json", scale=scale)
        self.assertEqual(result.code, code, result.err)
        return json.loads(result.out)

    def test_two_runs_are_the_same_and_a_changed_one_is_not(self):
        first = self.record("first", "exact", "--threads", 1, "--rounds", 5)
        second = self.record("second", "exact", "--threads", 1, "--rounds", 5)
        changed = self.record("changed", "exact", "--threads", 1, "--rounds", 5, "--nodes", 5)

        same = self.json("replay", "--check", first, second)
        self.assertTrue(same["same"])
        self.assertEqual((same["processes"], same["streams"], same["threads"]), (1, 3, 1))
        self.assertGreater(same["compared"], 200)
        self.assertTrue(self.json("replay", "--check", first)["same"])

        # A graph of five kernels instead of four: the set that followed the fourth comes later.
        other = self.json("replay", "--check", first, changed, code=1)
        stream = next(one for one in other["differences"] if "stream" in one)
        self.assertEqual((stream["what"], stream["field"]), ("field", "kind"))
        here = next(one for one in stream["context"] if one["operation"] == stream["operation"])
        self.assertIn("memset", here["a"])
        self.assertIn("in_graph", here["b"])
        text = self.tsctl("replay", "--check", first, changed)
        self.assertEqual(text.code, 1)
        self.assertIn("They differ", text.out)

        rows = self.json("diff", first, changed)["rows"]
        kernel = next(row for row in rows if row["section"] == "kernels" and row["name"] == "in_graph")
        self.assertEqual((kernel["a_count"], kernel["b_count"]), (20, 25))
        self.assertEqual(kernel["verdict"], "worse")
        self.assertEqual(next(row for row in rows if row["section"] == "kernels")["name"], "in_graph")

    def test_fail_over_tells_in_its_exit_status(self):
        fast = self.record("fast", "streams", "--threads", 1, "--steps", 6, scale=1)
        again = self.record("again", "streams", "--threads", 1, "--steps", 6, scale=1)
        slow = self.record("slow", "streams", "--threads", 1, "--steps", 6, scale=2)

        worse = self.tsctl("diff", fast, slow, "--fail-over", "20%")
        self.assertEqual(worse.code, 1)
        self.assertRegex(worse.err, r"kernels: 'gemm_f16_backward' got worse by 100\.0 %")
        self.assertEqual(self.tsctl("diff", fast, slow).code, 0, "without --fail-over nothing fails")
        self.assertEqual(self.tsctl("diff", slow, fast, "--fail-over", "99%").code, 0)
        kernels = [row for row in self.json("diff", fast, again)["rows"] if row["section"] == "kernels"]
        self.assertEqual({row["verdict"] for row in kernels} - {"same", "light", "noise"}, set())

        self.assertEqual(self.tsctl("diff", fast).code, 2)
        self.assertEqual(self.tsctl("diff", fast, slow, "--fail-over", "5").code, 2)
        for wrong, sentence in (([fast, fast, "--", slow], "appears twice on one side"),
                                ([fast, "--", slow, "--", slow], "a single '--'"),
                                ([fast, "--", slow, "--json"], "'--json' is not a recording")):
            result = self.tsctl("diff", *wrong)
            self.assertEqual((result.code, result.out), (2, ""))
            self.assertIn(sentence, result.err)
        missing = self.tsctl("diff", fast, os.path.join(self.directory, "none.sbt"))
        self.assertEqual(missing.code, 1)
        self.assertIn("none.sbt", missing.err)

    def test_several_recordings_of_each_make_an_interval(self):
        arguments = ("streams", "--threads", 1, "--steps", 6)
        fast = [self.record(f"fast{i}", *arguments, scale=5) for i in range(3)]
        slow = [self.record(f"slow{i}", *arguments, scale=6) for i in range(3)]

        result = self.tsctl("diff", "--json", "--fail-over", "10%", *fast, "--", *slow)
        self.assertEqual(result.code, 1, result.err)
        self.assertRegex(result.err, r"kernels: 'gemm_f16_backward' got worse by 20\.0 % \(\d+\.\d to \d+\.\d %\)")
        rows = {(row["section"], row["name"]): row for row in json.loads(result.out)["rows"]}
        gpu = rows["time", "all kernels"]
        self.assertEqual((gpu["confidence"], gpu["verdict"]), (900000, "worse"))
        self.assertAlmostEqual(gpu["change"], 200000, delta=20000)
        self.assertLessEqual(gpu["low"], gpu["change"])
        self.assertLessEqual(gpu["change"], gpu["high"])
        wall = rows["wall", "from the first to the last operation"]
        self.assertIsNone(wall["confidence"], "of wall time three runs are too few")
        self.assertNotIn("wall: 'from the first to the last operation' got worse", result.err)

        same = self.tsctl("diff", "--fail-over", "5%", fast[0], fast[1], "--", fast[2], fast[1])
        self.assertEqual(same.code, 0, same.err)
        self.assertIn("A is the median of 2 recordings", same.out)
        for wrong in ((*fast,), (fast[0], "--"), ("--", fast[0], fast[1])):
            result = self.tsctl("diff", *wrong)
            self.assertEqual((result.code, result.out), (2, ""))
            self.assertIn("--", result.err)

    def test_what_measured_nothing_does_not_pass(self):
        whole = self.record("whole", "streams", "--threads", 1, "--steps", 6)
        process, _ = tracesmith.run("short")
        self.daemon.wait_ended(process.pid)
        untimed, cut = (os.path.join(self.directory, name + ".sbt") for name in ("untimed", "cut"))
        self.assertEqual(self.tsctl("record", "-o", untimed, "--pid", process.pid, "--since", "1h", "--until", "now").code, 0)
        with open(whole, "rb") as file, open(cut, "wb") as to:
            to.write(file.read()[:-200])

        for a, b, said in ((whole, untimed, f"{untimed} has no GPU times"), (untimed, whole, f"{untimed} has no GPU times"),
                           (untimed, untimed, f"{untimed} has no GPU times"), (whole, cut, f"part of {cut} is missing"),
                           (cut, whole, f"part of {cut} is missing")):
            result = self.tsctl("diff", a, b, "--fail-over", "5%")
            self.assertEqual(result.code, 1)
            self.assertIn(f"Nothing to compare: {said}", result.err)
            self.assertEqual(self.tsctl("diff", a, b).code, 0, "without --fail-over nothing fails")
        self.assertNotIn("Both did the same work", self.tsctl("diff", whole, untimed).out)
        self.assertIn("Both did the same work", self.tsctl("diff", whole, whole).out)
        answer = self.json("diff", whole, cut)
        lost = {row["name"]: (row["a"] or 0) + (row["b"] or 0) for row in answer["rows"] if row["section"] == "lost"}
        self.assertEqual(answer["loss"], lost)
        self.assertEqual(lost["cut-off"], 1)

    def test_empty_recordings_are_not_the_same(self):
        whole = self.record("whole", "exact", "--threads", 1, "--rounds", 2)
        empty = os.path.join(self.directory, "empty.sbt")
        with open(whole, "rb") as file, open(empty, "wb") as to:
            to.write(file.read()[:32])
        for arguments in ((empty, empty), (empty,)):
            result = self.tsctl("replay", "--check", *arguments)
            self.assertEqual((result.code, result.out), (1, ""))
            self.assertIn("Nothing to compare", result.err)
        self.assertEqual(self.tsctl("replay", "--check", whole, empty).code, 1)
        result = self.tsctl("plot", "busy", empty, "-o", "-")
        self.assertEqual((result.code, result.out, result.err.splitlines()[-1:]),
                         (1, "", ["tsctl: No stream was used in this recording"]))

    def test_a_longer_recording_is_compared_by_call(self):
        short = self.record("short", "streams", "--threads", 1, "--steps", 6)
        long = self.record("long", "streams", "--threads", 1, "--steps", 12)
        rows = self.json("diff", short, long, "--fail-over", "5%")["rows"]
        kernel = next(row for row in rows if row["section"] == "kernels")
        self.assertEqual((kernel["compared"], kernel["verdict"]), ("calls", "same"))
        self.assertEqual(kernel["b_count"], 2 * kernel["a_count"])

    def test_commands_are_issued_again_on_a_gpu(self):
        recording = self.record("steps", "streams", "--threads", 2, "--steps", 8, scale=10)
        replayed = os.path.join(self.directory, "replayed.sbt")
        report = self.json("replay", "--on-gpu", recording, "-o", replayed, scale=10)
        self.assertEqual(report["streams_in_order"], report["streams"])
        self.assertEqual(report["streams"], 6)
        self.assertLess(report["p99_ppm"], 10000)
        # Not at once: each stream has as much to do as it had. How late threads wake up on a busy machine is no part of it.
        streams = self.json("sql", "--file", recording, "SELECT sum(gpu_end_ns - gpu_start_ns) AS ns FROM op WHERE exact"
                            " AND kind IN ('launch', 'kernel', 'copy', 'set') GROUP BY stream")["rows"]
        self.assertGreater(report["replayed_ns"], 0.9 * max(row["ns"] for row in streams))

        part = self.json("replay", "--on-gpu", recording, "--kernel", "gemm")
        self.assertEqual(part["unknown"], 0)
        whole = self.json("replay", "--on-gpu", recording)
        self.assertLess(part["works"], whole["works"])

    def test_graphs_are_issued_again_as_graphs(self):
        recording = self.record("graphs", "exact", "--threads", 1, "--rounds", 5)
        report = self.json("replay", "--on-gpu", recording, "-o", os.path.join(self.directory, "replayed.sbt"))
        self.assertEqual(report["streams_in_order"], report["streams"])


if __name__ == "__main__":
    tracesmith.main()
