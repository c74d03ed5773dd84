"""What a program wastes is found by pattern, count, bytes and function, in both tiers and in recordings; the
same program without it has no row."""
import json
import os
import subprocess

import tracesmith
from tracesmith import BUILD, wait_for, workload

MIB = 1 << 20
STEPS = 20
BATCH = 64 << 10
UPLOAD = 8 << 20
LATE_NS = 1000000000
# pattern and function: certainty, count, bytes
ALLOCATIONS = {
    ("never used", "forget_to_use"): ("certain", 3, 3 * MIB),
    ("freed late", "free_late"): ("certain", 1, 2 * MIB),
    ("allocated again", "train"): ("certain", STEPS - 1, (STEPS - 1) * BATCH),
}


def told(process):
    for line in process.stdout:
        if '"steps"' in line:
            return json.loads(line)
    raise AssertionError("the workload ended early")


class Waste(tracesmith.Case):
    def launch(self):
        self.daemon.start(prefix=["env", "TRACESMITH_PATIENCE=20"])  # a stack that is not found in time is cut

    def start(self, *arguments):
        process = workload("waste", *arguments)
        self.addCleanup(self.end, process)
        self.assertEqual(told(process)["pid"], process.pid)
        return process

    def pauses(self, pid):
        """How many of its pauses made it free late what it would have freed then."""
        ops = self.daemon.sql(f"SELECT start_ns, coalesce(end_ns, start_ns) AS end_ns FROM op WHERE pid = {pid} AND fn IS NOT NULL"
                              " ORDER BY start_ns", "--limit", 100000)
        return sum(after["start_ns"] - before["end_ns"] >= LATE_NS for before, after in zip(ops, ops[1:]))

    def rows(self, pid, late=("free_late",)):
        """By pattern and innermost function; copies are told by the sampled stacks of some of them. A program that a busy
        machine makes pause, beside those functions that do so by themselves, does free late, and wherever it happens."""
        rows, found = self.daemon.query("waste", "--pid", pid), {}
        held_up = any(row["pattern"] == "freed late" for row in rows) and self.pauses(pid) > len(late)
        for row in rows:
            name = row["stack"][0].split("+")[0] if row["stack"] else None
            key = row["pattern"], row["fn"] if row["kind"] == "HtoD" else name
            if held_up and row["pattern"] == "freed late" and name not in late:
                continue
            was = found.get(key, (row["certainty"], 0, 0))
            self.assertEqual(was[0], row["certainty"], row)
            found[key] = (row["certainty"], was[1] + row["count"], was[2] + row["bytes"])
        return found

    def wait_rows(self, pid, want):
        last = []
        def as_wanted():
            last[:] = [self.rows(pid)]
            return last[0] == want
        try:
            wait_for("the rows", as_wanted)
        except AssertionError:
            self.assertEqual(last[0], want)

    def test_each_waste_is_found_with_its_place(self):
        process = self.start()
        want = {**ALLOCATIONS, ("copied again", "cuMemcpyHtoDAsync_v2"): ("likely", STEPS - 1, (STEPS - 1) * UPLOAD)}
        self.wait_rows(process.pid, want)
        rows = {row["pattern"]: row for row in self.daemon.query("waste", "--pid", process.pid)}
        late = next(row for row in self.daemon.query("waste", "--pid", process.pid)
                    if row["pattern"] == "freed late" and row["stack"][0].startswith("free_late"))
        self.assertGreaterEqual(late["held_ns"], 1_300_000_000)
        self.assertLess(late["held_ns"], 60_000_000_000)
        self.assertIsNone(late["lost_ns"], "idle memory takes no time")
        self.assertGreater(rows["allocated again"]["lost_ns"], 0)
        self.assertIn("cuMemAllocAsync", rows["allocated again"]["advice"])
        self.assertEqual((late["kind"], late["fn"], late["device"]), ("device", "cuMemAlloc_v2", 0))
        answer = self.daemon.answer("waste", "--pid", process.pid)
        self.assert_nothing_lost(answer, allowed=("stack-sampled",))
        # What kernels may have used is possible at most, and shown only on request.
        every = self.rows_of_all(process.pid)
        self.assertLessEqual({row["pattern"] for row in every}, {pattern for pattern, _ in want})
        self.assertTrue([row for row in every if row["certainty"] == "possible" and row["pattern"] == "copied again"])
        recording = os.path.join(self.daemon.directory, "waste.sbt")
        self.daemon.ctl("record", "-o", recording, "--pid", process.pid, "--since", "1h")
        here = self.daemon.query("waste", "--pid", process.pid)
        again = self.daemon.query("waste", "--file", recording)
        self.assertEqual(again, here)
        report = self.daemon.ctl("report", "--md", "-o", "-", "--file", recording).out
        self.assertIn("allocated again", report)
        self.assertIn("tsctl query waste --file", report)

    def rows_of_all(self, pid):
        return self.daemon.query("waste", "--pid", pid, "--all")

    def test_a_window_before_it_has_none_of_it(self):
        process = self.start()
        wait_for("rows", lambda: self.rows(process.pid))
        ended = self.daemon.sql(f"SELECT max(start_ns) AS ns FROM op WHERE pid = {process.pid}")[0]["ns"]
        wait_for("a second without it", lambda: self.daemon.sql("SELECT now_ns() AS ns")[0]["ns"] > ended + 1_500_000_000)
        self.assertEqual(self.daemon.query("waste", "--pid", process.pid, "--since", "1s"), [])

    def test_a_program_without_waste_has_no_row(self):
        process = self.start("--clean")
        wait_for("all calls", lambda: self.daemon.apis(process.pid).get("cuMemcpyHtoDAsync_v2", {}).get("calls") == 2 * STEPS)
        answer = self.daemon.answer("waste", "--pid", process.pid)
        self.assertEqual(self.rows(process.pid, late=()), {}, answer)
        self.assert_nothing_lost(answer, allowed=("stack-sampled",))

    def test_the_exact_tier_is_sure_of_copies(self):
        for arguments, want in (
                ((), ("copied again", "cuMemcpyHtoDAsync_v2")),
                (("--pageable",), ("pageable copy", "cuMemcpyHtoDAsync_v2"))):
            process = subprocess.Popen(
                [os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path("waste"), *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(tracesmith.library()), "FAKE_CUDA_TIME_SCALE": "1",
                     "TRACESMITH_SOCKET": self.daemon.socket})
            self.addCleanup(self.end, process)
            pid = told(process)["pid"]
            row = wait_for("rows of copies", lambda: self.rows(pid).get(want))
            self.assertEqual(row[0], "certain")
            if arguments:
                wait_for("all copies", lambda: self.rows(pid)[want][1] >= 2 * STEPS)
                self.assertEqual(self.rows(pid)[want][:2], ("certain", 2 * STEPS))


if __name__ == "__main__":
    tracesmith.main()
