"""Recordings of real runs are emulated to the nanosecond, and what is predicted of another run is what that
does."""
import json
import os
import subprocess
import tempfile

import tracesmith
from tracesmith import BUILD, library, workload_path

# Of the device, from the first of its work to the last: what the program does before takes as long as it takes.
SPAN = "SELECT max(gpu_end_ns) - min(gpu_start_ns) AS ns FROM op WHERE exact AND kind IN ('launch', 'copy')"
SLOW = 500  # times slower than the simulated GPU is, so that a host that is disturbed does not matter


class WhatIf(tracesmith.Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name + ".sbt")

    def tsctl(self, *arguments, code=0):
        result = self.daemon.ctl(*arguments)
        self.assertEqual(result.code, code, (arguments, result.out, result.err))
        return result

    def record(self, name, *program, scale=1):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library()), FAKE_CUDA_TIME_SCALE=str(scale),
                           TRACESMITH_SOCKET=self.daemon.socket)
        done = subprocess.run([os.path.join(BUILD, "tsctl"), "record", "-o", self.path(name), "--",
                               workload_path(program[0]), *program[1:]],
                              env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def replay(self, name, *options, code=0):
        return json.loads(self.tsctl("replay", self.path(name), "--json", *options, code=code).out)

    def rows(self, name, statement):
        return json.loads(self.tsctl("sql", "--file", self.path(name), "--json", statement).out)["rows"]

    def span(self, name):
        return self.rows(name, SPAN)[0]["ns"]

    def query(self, name, query):
        return json.loads(self.tsctl("query", query, "--file", self.path(name), "--json").out)["rows"]

    def check_result(self, was):
        """Faster kernels, and some that are not there."""
        self.replay(was, "--scale", "kernel=^first:0.25", "--drop", "kernel=second", "-o", self.path("told"))
        before, told = ({row["name"]: row for row in self.query(name, "kernels")} for name in (was, "told"))
        self.assertEqual(set(told), {"first_half"})
        self.assertEqual(told["first_half"]["count"], before["first_half"]["count"])
        self.assertAlmostEqual(told["first_half"]["total_ns"], before["first_half"]["total_ns"] / 4, delta=100)
        self.assertIn("--scale kernel=^first:0.25", self.rows(
            "told", "SELECT value FROM recording WHERE key = 'emulated'")[0]["value"])
        # It is a recording like others.
        self.tsctl("export", self.path("told"), "--perfetto", "-o", os.path.join(self.folder, "trace"))
        self.assertEqual(self.tsctl("diff", self.path(was), self.path("told")).code, 0)

    def check_refusals(self, was):
        for options in (("--scale", "kernel:0"), ("--scale", "kernel=(:2"), ("--scale", "wheel:2"), ("--scale", "kernel"),
                        ("--drop", "host"), ("--drop", "set=x"), ("--graph=2s..1s",), ("--streams", "5000")):
            result = self.tsctl("replay", self.path(was), *options, code=2)
            self.assertRegex(result.err, r"^tsctl: ")
            self.assertEqual(result.out, "")
        for options, said in ((("--scale", "kernel=nobody:2"), "matches nothing"), (("--graph=1h..2h",), "two operations"),
                              (("--streams", "1"), "already as many streams"), (("--devices", "1"), "no more streams")):
            result = self.tsctl("replay", self.path(was), *options, code=1)
            self.assertEqual(result.out, "")
            self.assertIn(said, result.err)
        self.assertIn("must be above 0", self.tsctl("replay", self.path(was), "--scale", "copy=.*:0", code=2).err)
        self.tsctl("replay", "--emulate", "-o", self.path("told"), code=2)

    def test_what_is_unchanged_comes_out_as_it_was(self):
        for program in (("exact", "--rounds", "20"), ("streams", "--steps", "20")):
            self.record("was", *program)
            said = self.replay("was", "--emulate", "-o", self.path("is"))
            error = said["emulated"]
            self.assertEqual(error["recorded_ns"], error["emulated_ns"])
            self.assertEqual((error["start_max_ns"], error["disorder"]), (0, 0))
            self.tsctl("replay", "--check", self.path("was"), self.path("is"), "--tolerance", "0")
            # What is asked of the prediction is asked of its own sums: they are those of the model.
            self.assertEqual(self.query("is", "kernels"), self.query("was", "kernels"))
            self.assertEqual(self.query("is", "transfers"), self.query("was", "transfers"))
            idle = [{row["state"]: row["total_ns"] for row in self.query(name, "idle") if row["device"] == 0}
                    for name in ("was", "is")]
            for state in ("running", "copying"):
                self.assertAlmostEqual(idle[0][state], idle[1][state], delta=idle[0][state] * 0.05 + 1000)

    def held_up(self, name):
        """How long the host kept the program from submitting, which is otherwise a matter of microseconds: it moves what
        the device does, and no two runs are held up alike."""
        rows = self.rows(name, "SELECT fn, start_ns, coalesce(end_ns, start_ns) AS end_ns FROM op WHERE fn LIKE 'cuLaunch%' OR"
                         " fn LIKE 'cuMemcpy%' OR fn LIKE '%Synchronize%' ORDER BY start_ns")
        times = [row["end_ns"] - row["start_ns"] for row in rows if "Synchronize" not in row["fn"]]
        times += [after["start_ns"] - before["end_ns"] for before, after in zip(rows, rows[1:])]
        return sum(time for time in times if time > 2_000_000)

    def assert_told(self, told, truth, was):
        self.assertAlmostEqual(self.span(told), self.span(truth),
                               delta=self.span(truth) * 0.1 + self.held_up(truth) + self.held_up(was))

    def test_other_streams_are_predicted(self):
        self.record("one", "pipeline", scale=SLOW)
        self.record("three", "pipeline", "--streams", "3", scale=SLOW)
        self.assertLess(self.span("three") - self.held_up("three"), self.span("one") * 0.5)
        said = self.replay("one", "--streams", "3", "-o", self.path("told"))
        self.assert_told("told", "three", "one")
        self.assertEqual(said["confidence"], 0.95)
        # The whole of it: how sure that is depends on how steady the host was, so no more than the order here.
        self.assertLess(1, said["speedup"])
        self.assertLessEqual(said["speedup_low"], said["speedup"])
        self.assertLessEqual(said["speedup"], said["speedup_high"])
        streams = "SELECT count(DISTINCT stream) AS n FROM op JOIN stream s ON s.id = stream WHERE exact"
        self.assertEqual(self.rows("told", streams)[0]["n"], 3)
        self.replay("three", "--streams", "1", "-o", self.path("told"))
        self.assert_told("told", "one", "three")
        self.check_result("one")
        self.check_refusals("one")

    def test_other_devices_are_in_all_of_the_prediction(self):
        self.record("one", "pipeline", "--streams", "2")
        self.replay("one", "--devices", "2", "-o", self.path("told"))
        streams = "SELECT id, device FROM stream WHERE id IN (SELECT stream FROM op WHERE exact) ORDER BY id"
        on = [(row["id"], row["device"]) for row in self.rows("told", streams)]
        self.assertEqual([device for _, device in on], [0, 1])
        self.tsctl("replay", "--check", self.path("told"))
        self.replay("told", "--emulate", "-o", self.path("again"))
        for name in ("told", "again"):
            ops = "SELECT DISTINCT stream, device FROM op WHERE stream > 0 AND kind != 'state' ORDER BY stream"
            self.assertEqual([(row["stream"], row["device"]) for row in self.rows(name, ops)], on)

    def test_without_a_recording_it_is_the_last_10_s(self):
        program, _ = tracesmith.run("pipeline")
        self.daemon.wait_ended(program.pid)
        of = ("replay", "--pid", program.pid)
        tracesmith.wait_for("the last 10 s to be empty",
                            lambda: json.loads(self.tsctl(*of, "--json").out.splitlines()[-1]).get("changes") == 0)
        self.assertIn("No operations", self.tsctl(*of, "--emulate", code=1).err)
        self.tsctl(*of, "--emulate", "--since", "10m")

    def test_fewer_waits_are_predicted(self):
        self.record("waits", "pipeline", "--streams", "2", "--sync", scale=SLOW)
        self.record("flows", "pipeline", "--streams", "2", scale=SLOW)
        self.assertLess(self.span("flows") - self.held_up("flows"), self.span("waits") * 0.7)
        said = self.replay("waits", "--no-sync", "-o", self.path("told"))
        self.assertGreaterEqual(said["changes"][0]["changed"], 39)
        self.assert_told("told", "flows", "waits")


if __name__ == "__main__":
    tracesmith.main()
