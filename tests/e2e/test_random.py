"""Programs that do at random what can be done with the driver, right and wrong: what TraceSmith says
of them is what the simulated driver has in its books. TS_SEEDS and TS_EXACT_SEEDS: which programs,
TS_STEPS: how long."""
import json
import os
import subprocess
import time

import tracesmith
from tracesmith import BUILD, wait_for
from test_counts import by_row

SEEDS = [int(seed) for seed in os.environ.get("TS_SEEDS", "1 2 3 4 5 6").split()]
EXACT_SEEDS = [int(seed) for seed in os.environ.get("TS_EXACT_SEEDS", "8 9").split()]
STEPS = int(os.environ.get("TS_STEPS", "100000"))
HELD = ("device", "managed", "pool", "host", "registered", "physical")


class Random(tracesmith.Case):
    # Whatever it does while the daemon does not get to run has room.
    settings = "[exact]\nring_records = 131072\n[probe]\nring_size = 64MiB\n"

    def start(self, seed, prefix=(), steps=STEPS):
        process = subprocess.Popen(
            [*prefix, tracesmith.workload_path("random"), "--seed", str(seed), "--steps", str(steps)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(tracesmith.library()), "FAKE_CUDA_TIME_SCALE": "0",
                 "FAKE_CUDA_DEVICES": "2", "TRACESMITH_SOCKET": self.daemon.socket})
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return process

    def told(self, pid):
        """Live bytes and how many, by kind and device."""
        live = {}
        for row in self.daemon.query("memory", "--pid", pid):
            # Address space is of no device.
            device = -1 if row["device"] is None or row["kind"] == "reserved" else row["device"]
            if row["live_count"]:
                total = live.setdefault((row["kind"], device), [0, 0])
                total[0] += row["live_bytes"]
                total[1] += row["live_count"]
        return live

    def leaks(self, pid):
        live = {}
        for row in self.daemon.query("leaks", "--pid", pid, "--min-age", "0s", "--limit", 1000):
            device = -1 if row["device"] is None else row["device"]
            total = live.setdefault((row["kind"], device), [0, 0])
            total[0] += row["bytes"]
            total[1] += row["count"]
        return live

    def wait_equal(self, what, ask, want):
        """Events are on their way for a moment; after that both are to be the same."""
        end = time.monotonic() + tracesmith.DEADLINE
        while (have := ask()) != want and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(have, want, what)

    def check_round(self, seed, books):
        pid = books["pid"]
        live = {(kind, device): [size, count] for kind, device, size, count in books["live"]}
        what = f"of the program with seed {seed} after round {books['round']}"
        self.wait_equal(f"memory {what}", lambda: self.told(pid), live)
        self.wait_equal(f"leaks {what}", lambda: self.leaks(pid), {key: sums for key, sums in live.items() if key[0] in HELD})

    def play(self, process, seed, at_round=lambda number: None):
        """Checks each round; what the program said."""
        said = []
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            said.append(json.loads(line))
            if "round" in said[-1]:
                self.check_round(seed, said[-1])
                at_round(said[-1]["round"])
                process.stdin.write("\n")
                process.stdin.flush()
        self.assertEqual(process.wait(), 0)
        self.assertIn("round", said[-1], "it told its books")
        return said

    def check_calls(self, pid, seed, said):
        self.daemon.wait_ended(pid)
        answer = self.daemon.answer("apis", "--pid", pid)
        probed = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        want = {name: row["calls"] for name, row in by_row(said).items() if name in probed}
        seen = {row["fn"]: row["calls"] for row in answer["rows"]}
        odd = {name: (seen.get(name), want.get(name)) for name in {*seen, *want} if seen.get(name) != want.get(name)}
        self.assertEqual(odd, {}, f"calls seen and made by the program with seed {seed}")
        # Its handles of streams outlive their contexts, so work on them is never waited for.
        self.assert_nothing_lost(answer, allowed=("unbound", "stack-sampled", "no-record"))

    def test_probe_tier(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                process = self.start(seed)
                said = self.play(process, seed)
                self.check_calls(process.pid, seed, said)

    def check_exact(self, seed):
        process = self.start(seed, (os.path.join(BUILD, "tsctl"), "run", "--"))
        said = self.play(process, seed)
        books = said[-1]
        self.check_calls(books["pid"], seed, said)
        ran = {row["kind"]: row["n"] for row in self.daemon.sql(
            "SELECT iif(kind = 'launch', 'kernel', kind) AS kind, count(*) AS n FROM op WHERE exact"
            f" AND pid = {books['pid']} AND kind IN ('launch', 'kernel', 'copy', 'set') GROUP BY 1")}
        self.assertEqual(ran, {"kernel": books["kernels"], "copy": books["copies"], "set": books["sets"]},
                         f"what ran of the program with seed {seed}")

    def test_exact_tier(self):
        for seed in EXACT_SEEDS:
            with self.subTest(seed=seed):
                self.check_exact(seed)


if __name__ == "__main__":
    tracesmith.main()
