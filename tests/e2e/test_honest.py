"""Nothing is missing without a word: what is not watched is told at the moment of the question, and not only at its end."""
import json
import os
import shutil
import tempfile
import threading
import time
import unittest

import tracesmith
from rhythms import Rhythms
from test_hooked import Case
from test_serve import Web, samples, total
from tracesmith import wait_for

LAUNCH = "cuLaunchKernel"
PROGRAMS = int(os.environ.get("TS_PROGRAMS", "300"))
SEED = int(os.environ.get("TS_SEED", "1"))


class Honest(Case):
    """A program that says how many calls it has made, with the settings that users have."""
    budget = "1%"
    settings = tracesmith.Case.settings

    def setUp(self):
        super().setUp()
        self.made = 0

    def call(self, process, count):
        self.say(process, "call", LAUNCH, count)
        self.made += count

    def call_for_a_while(self, process):
        for _ in range(10):
            self.call(process, 300)
            time.sleep(0.05)

    def assert_honest(self, process, *window):
        """What it has made so far is told, within its bounds, or said not to be."""
        made, answer = self.made, self.daemon.answer("apis", "--pid", process.pid, *window)
        rows = [row for row in answer["rows"] if row["fn"] == LAUNCH]
        told = rows[0]["calls"] + (rows[0]["plus_minus"] or 0) if rows else 0
        if told < made:
            self.assertTrue({"windows", "gap", "no-daemon", "left-out-frequent", "ring-full"} & set(answer["loss"]),
                            f"{told} of {made} calls, and {answer['loss']}")
        return told

    def test_a_gap_that_goes_on(self):
        self.daemon.start()
        process, missed = self.program(), 0
        for turn in range(160):
            self.call(process, 300)
            time.sleep(0.05)
            if turn % 10 == 9:
                told = self.assert_honest(process)
                missed += "windows" in self.daemon.answer("apis", "--pid", process.pid)["loss"]
                self.assertGreater(told, 0.7 * self.made, "what was missed since the last window is estimated, too")
        self.assertGreater(missed, 0, "it was never watched in windows")

    def test_the_last_seconds(self):
        self.daemon.start()
        process, unwatched = self.program(), 0

        def are_told():
            nonlocal unwatched
            before = self.made
            self.call_for_a_while(process)
            recent = self.daemon.answer("launches", "--pid", process.pid, "--since", "1s")
            least = sum(row["calls"] - (row["plus_minus"] or 0) for row in recent["rows"])
            # That many were made in half a second; the answer covers up to two seconds.
            self.assertLess(least, 5 * (self.made - before), recent)
            self.assertGreater(sum(row["calls"] for row in recent["rows"]), 0, recent)
            if any(row["watched"] == 0 for row in recent["rows"]):
                self.assertIn("windows", recent["loss"])
                unwatched += 1
            return unwatched == 10
        wait_for("seconds in which it was not watched", are_told)

    def test_top(self):
        """And whoever subscribes as it does: of a program that launches all the time the rate is an estimate, or not known."""
        self.daemon.start()
        process, over = self.program(), threading.Event()

        def launch():
            while not over.is_set():
                self.call_for_a_while(process)
        thread = threading.Thread(target=launch)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)

        def is_missed():
            said = json.loads(self.daemon.ctl("top", "--json").out)
            row = next((row for row in said["processes"] if row["pid"] == process.pid), None)
            if row is None or not row["calls_per_s"] and not said["missing"]:
                return False  # it is new
            self.assertNotEqual(row["launches_per_s"], 0, said)
            missing = said["missing"] or ""
            self.assertTrue(missing or row["launches_per_s"] > 500, said)
            return row["launches_estimated"] and "sampled" in missing
        for _ in range(3):
            wait_for("it to be watched in windows", is_missed)

    def test_metrics_and_recordings(self):
        """They tell what an answer tells: the same sums, and that some is missing."""
        self.daemon.start()
        process = self.program()

        def is_missed():
            self.call_for_a_while(process)
            return "windows" in self.daemon.answer("apis", "--pid", process.pid)["loss"]
        wait_for("it to be watched in windows", is_missed)
        web = Web(self.daemon)
        self.addCleanup(web.process.communicate)
        self.addCleanup(web.process.terminate)
        found = samples(web.get().text)
        mine = f'pid="{process.pid}"'
        seen, missed = total(found, "tracesmith_launches_total", mine), total(found, "tracesmith_missed_calls_total", mine)
        self.assertGreater(seen + 1.5 * missed, 0.7 * self.made, found)
        self.assertGreater(total(found, "tracesmith_lost_total", 'reason="windows"', mine), 0, found)
        recording = os.path.join(self.daemon.directory, "honest.sbt")
        self.assertEqual(self.daemon.ctl("record", "-o", recording, "--pid", process.pid, "--since", "1h").code, 0)
        told = self.daemon.answer("apis", "--pid", process.pid, "--file", recording)
        self.assertIn("windows", told["loss"])
        row, = [row for row in told["rows"] if row["fn"] == LAUNCH]
        self.assertGreater(row["calls"] + (row["plus_minus"] or 0), 0.7 * self.made)

    def test_a_pause_in_the_middle(self):
        self.daemon.start()
        for pause in (0.9, 1.1, 1.35):
            self.made = 0
            process = self.program()
            for part in range(2):
                for _ in range(20):
                    self.call(process, 200)
                    time.sleep(0.01)
                if not part:
                    time.sleep(pause)
            self.assert_honest(process)
            self.end(process)
            wait_for("its end", lambda: self.daemon.ended(process.pid))
            self.assert_honest(process)

    def test_what_was_not_watched_is_not_certain(self):
        """Memory that is copied into in every step, by copies of which most are not seen."""
        self.daemon.start()
        process = self.program()

        def is_unseen():
            self.say(process, "hold", 1 << 20)
            for _ in range(20):
                self.say(process, "fill", 300)
                time.sleep(0.05)
            self.say(process, "drop")
            answer = self.daemon.answer("waste", "--pid", process.pid)
            self.assertEqual([row for row in answer["rows"] if row["kind"] == "device" and row["certainty"] == "certain" and
                              row["pattern"] in ("never used", "freed late")], [], answer)
            return "windows" in answer["loss"] and any(
                row["pattern"] in ("never used", "freed late") for row in self.daemon.query("waste", "--pid", process.pid, "--all"))
        wait_for("a step of which no copy is seen", is_unseen)

    def test_an_end_in_the_first_gap(self):
        """Nothing was ever compared, so nothing is known of what was missed but that it was."""
        self.daemon.start()
        for _ in range(3):
            self.made = 0
            process = self.program()
            for _ in range(30):
                self.call(process, 400)
                time.sleep(0.02)
            self.end(process)
            wait_for("its end", lambda: self.daemon.ended(process.pid))
            self.assert_honest(process)

    def test_while_probes_are_put_on(self):
        """On a copy of the driver that came just now."""
        self.daemon.start()
        for _ in range(3):
            directory = tempfile.mkdtemp(prefix="tracesmith-driver-")
            self.addCleanup(shutil.rmtree, directory)
            shutil.copy(tracesmith.library(), f"{directory}/{self.driver}")
            self.made = 0
            process = self.program(f"{directory}/{self.driver}")
            for _ in range(30):
                self.call(process, 40)
                time.sleep(0.005)
                if self.daemon.known(process.pid):
                    self.assert_honest(process)
            self.end(process)
            wait_for("its end", lambda: not self.daemon.known(process.pid) or self.daemon.ended(process.pid))
            if self.daemon.known(process.pid):
                self.assert_honest(process)

    def test_a_daemon_that_comes_later(self):
        """And has yet to find the driver: nothing lies between the time without a daemon and that without probes."""
        directory = tracesmith.driver_directory()
        self.addCleanup(shutil.rmtree, directory)
        name = tracesmith.copy_library(directory)
        with open(self.daemon.config, "a") as file:
            file.write(f"[probe]\nlibraries = {name}\n")
        process = self.program(os.path.join(directory, name))
        self.daemon.start()

        def is_seen():
            self.call(process, 1)
            return self.daemon.known(process.pid) and self.calls(process, LAUNCH)
        wait_for("its calls to be seen", is_seen)
        spans = {row["reason"]: row for row in self.daemon.sql(
            "SELECT r.name AS reason, min(l.start_ns) AS start_ns, max(l.end_ns) AS end_ns FROM loss l JOIN loss_reason r ON r.id = l.reason"
            f" JOIN process p ON p.id = l.process WHERE p.pid = {process.pid} GROUP BY 1")}
        self.assertLessEqual(spans["gap"]["start_ns"], spans["no-daemon"]["end_ns"], spans)


class Generated(Case):
    """Random programs, with the settings that users have."""
    budget = "1%"
    trap_limit = "25%"
    settings = tracesmith.Case.settings

    def test_none_is_silent(self):
        self.daemon.start()
        rhythms = Rhythms(self.daemon, os.path.join(self.standing[0], self.driver), SEED)
        rhythms.run(PROGRAMS)
        told = rhythms.judge_all()
        self.assertEqual(told["silent"], [], "\n".join(told["silent"]))
        # Bounds are those of 90 %: far more are not beyond them by chance.
        beyond = told["beyond bounds"]
        self.assertLess(len(beyond), 6 + 0.3 * len(told["within bounds"]), "\n".join(beyond))


if __name__ == "__main__":
    tracesmith.main()
