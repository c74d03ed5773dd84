"""A process that the probes would slow down too much is watched in windows, within its budget: what windows
do not show is estimated, and other processes are counted as exactly as ever."""
import json
import signal
import time

import tracesmith
from tracesmith import run, wait_for, workload

SECONDS = 8
PAUSE_NS = 25000000


def of_probes(rows):
    return [row for row in rows if row["part"] == "probes"]


def finish(process):
    """Ends it, if it has not ended; what it did."""
    process.terminate()
    out, _ = process.communicate(timeout=120)
    return json.loads(out.splitlines()[-1])


def steps(*arguments):
    """Until it is told to end."""
    return workload("steps", "--seconds", 600, *arguments)


# What comes while the daemon does not get to run has room.
ROOM = "[probe]\nring_size = 64MiB"


class Price(tracesmith.Case):
    budget = "0.5%"
    settings = ROOM

    def cost(self, pid):
        rows = of_probes(self.daemon.query("cost", "--pid", pid)) if self.daemon.known(pid) else []
        return rows[0] if rows else None

    def launches(self, pid):
        """None: of none of its calls is anything known yet."""
        return self.daemon.apis(pid).get("cuLaunchKernel")

    def in_windows(self, pid):
        cost = self.cost(pid)
        return cost and cost["watched"] < 1000000 and cost["turns"] > 0

    def is_watched_in_part(self, pid):
        return self.in_windows(pid) and (row := self.launches(pid)) and row["watched"] < 800000

    def test_missed_calls_are_estimated(self):
        process = steps()
        self.addCleanup(self.end, process)
        begin = time.monotonic()
        wait_for("windows", lambda: self.is_watched_in_part(process.pid) and time.monotonic() > begin + SECONDS)
        truth = finish(process)
        self.daemon.wait_ended(process.pid)
        answer = self.daemon.answer("apis", "--pid", process.pid)
        row, = [row for row in answer["rows"] if row["fn"] == "cuLaunchKernel"]
        self.assertLess(row["watched"], 800000)
        self.assertGreater(row["plus_minus"], 0, row)
        self.assertLess(abs(row["calls"] - truth["launches"]), max(3 * row["plus_minus"], 0.05 * truth["launches"]),
                        f"{row} of {truth}")
        self.assertIn("windows", answer["loss"])
        self.assertLessEqual(set(answer["loss"]), {"windows", "stack-cut"})
        self.assertEqual(self.daemon.apis(process.pid)["cuStreamSynchronize"]["calls"], truth["steps"])
        self.assertIsNone(self.daemon.apis(process.pid)["cuStreamSynchronize"]["plus_minus"])

    def test_others_are_counted_exactly(self):
        """They change from the link for all to links of their own, and back, and one comes in between."""
        calm = steps("--calls", 1, "--pause", PAUSE_NS)
        self.addCleanup(self.end, calm)
        process = steps()
        self.addCleanup(self.end, process)
        wait_for("windows", lambda: self.in_windows(process.pid))
        begin_ns = time.monotonic_ns()
        late = steps("--calls", 1, "--pause", PAUSE_NS)
        self.addCleanup(self.end, late)
        wait_for("the calls of the late one", lambda: self.daemon.known(late.pid) and (row := self.launches(late.pid)) and row["calls"] > 100)
        for each in (process, late, calm):
            truth = finish(each)
            self.daemon.wait_ended(each.pid)
            row = self.launches(each.pid)
            if each is calm:
                loss = self.daemon.answer("apis", "--pid", each.pid)["loss"]
                self.assertIsNone(row["plus_minus"])
                self.assertLessEqual(row["calls"], truth["launches"])
                self.assertGreaterEqual(row["calls"] + loss.get("ring-full", 0), truth["launches"], loss)
            elif each is late:  # its first calls may come before its link does
                self.assertIsNone(row["plus_minus"])
                self.assertLessEqual(row["calls"], truth["launches"])
                first, = self.daemon.sql("SELECT min(start_ns) AS ns FROM op WHERE kind = 'launch' AND pid = " + str(late.pid))
                self.assertLessEqual(truth["launches"] - row["calls"], (first["ns"] - begin_ns) / PAUSE_NS + 1, f"{row} of {truth}")

    def test_the_settings_are_reread(self):
        process = steps()
        self.addCleanup(self.end, process)
        wait_for("windows", lambda: self.in_windows(process.pid))
        with open(self.daemon.config) as file:
            settings = file.read()
        with open(self.daemon.config, "w") as file:
            file.write(settings.replace("budget = 0.5%", "budget = none"))
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for("all of it", lambda: self.cost(process.pid)["watched"] == 1000000)
        self.assertIsNone(self.cost(process.pid)["budget"])


class Known(tracesmith.Case):
    budget = "1%"

    def measured(self, pid):
        rows = of_probes(self.daemon.query("cost", "--pid", pid)) if self.daemon.known(pid) else []
        return rows and rows[0]["measured"] == "in place" and rows[0]

    def test_a_known_price_is_found(self):
        """The program makes launches with a breakpoint expensive, and knows what that costs it."""
        process = steps("--work", 4000, "--price", 4000)
        self.addCleanup(self.end, process)
        told = wait_for("a price", lambda: self.measured(process.pid), 4 * tracesmith.DEADLINE)
        truth = finish(process)
        self.assertLessEqual(told["low"], told["cost"])
        self.assertLessEqual(told["cost"], told["high"])
        # The interval holds it nine times of ten, three of them (nearly) always.
        sure = (told["whole_high"] - told["whole_low"]) / 1e6
        self.assertLess(abs(told["whole"] / 1e6 - truth["price"]), max(1.5 * sure, 0.15 * truth["price"]), f"{told} of {truth}")
        self.assertGreater(truth["price"], 0.1)


class Whole(tracesmith.Case):
    settings = ROOM

    def test_without_a_budget_nothing_is_missed(self):
        process, said = run("steps", "--seconds", 3)
        self.daemon.wait_ended(process.pid)
        answer = self.daemon.answer("launches", "--pid", process.pid)
        self.assertNotIn("windows", answer["loss"])
        # The program makes them as fast as it can: on a busy machine some find no room in the ring, which is told.
        calls, launches = sum(row["calls"] for row in answer["rows"]), said[-1]["launches"]
        self.assertLessEqual(calls, launches)
        self.assertGreaterEqual(calls, launches - answer["loss"].get("ring-full", 0))
        self.assertGreater(calls, 0)


if __name__ == "__main__":
    tracesmith.main()
