#!/usr/bin/python3
"""Who is started or attached to is watched: a program waits at its start until its calls are seen, and each record has its
call; where that takes too long, it goes on, and both the user and the answers are told."""
import json
import os
import signal
import subprocess
import tempfile
import time

import tracesmith
from tracesmith import BUILD, wait_for

SLOW = tracesmith.preloadable(os.path.join(BUILD, "tests", "e2e", "libe2e_slow.so"))
LAUNCHES = 3000
RATE = 20000
ROUNDS = int(os.environ.get("TS_ROUNDS", "5"))
RUN = [os.path.join(BUILD, "tsctl"), "run", "--"]
WORK_NS = 500000000
SAID = "are not watched yet"


class Case(tracesmith.Case):
    """Probes come with the first process that maps the driver, and are still going with the next one."""
    settings = "[probe]\nring_size = 64MiB\n"
    standing = ()
    budget = "1%"

    def setUp(self):
        self.folder = self.own_driver()
        super().setUp()

    def environment(self, **more):
        path = f"{self.folder}:{os.path.dirname(tracesmith.library())}"
        return {**os.environ, "LD_LIBRARY_PATH": path, "FAKE_CUDA_TIME_SCALE": "1", "TRACESMITH_SOCKET": self.daemon.socket, **more}

    def start(self, *command, **options):
        process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.environment(), **options)
        self.addCleanup(self.end, process)
        return process

    def launches(self, pid):
        """Of its exact launches: all of them, and those that nobody saw called."""
        [row] = self.daemon.sql("SELECT count(*) AS n, coalesce(sum(no_call), 0) AS alone FROM op"
                                f" WHERE exact AND pid = {pid} AND kind IN ('launch', 'kernel')")
        return row["n"], row["alone"]


class Started(Case):
    def rate(self, *options, **more):
        process = self.start(*RUN, tracesmith.workload_path("rate"), *options, stderr=subprocess.PIPE, **more)
        out, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.daemon.wait_ended(process.pid)
        return process.pid, out, err

    def test_each_launch_has_its_call(self):
        for _ in range(ROUNDS):
            pid, _, err = self.rate("--count", LAUNCHES)
            wait_for("its records", lambda: self.launches(pid)[0] == LAUNCHES)
            alone = self.launches(pid)[1]
            answer = self.daemon.answer("apis", "--pid", pid)
            calls = {row["fn"]: row["calls"] for row in answer["rows"]}
            if SAID in err:  # on a busy machine
                self.assertIn("gap", answer["loss"])
            else:
                self.assertEqual((alone, calls.get("cuLaunchKernel"), err), (0, LAUNCHES, ""), answer["loss"])
            self.assertNotIn("windows", answer["loss"])


class Held(Started):
    """Its disk takes some of the second that the program waits for, for the first bytes of a driver."""

    def launch(self):
        self.daemon.start(["env", f"LD_PRELOAD={SLOW}", "TS_SLOW_DRIVER=300"])

    def test_each_launch_in_a_recording_has_its_call(self):
        path = os.path.join(self.daemon.directory, "held.sbt")
        process = self.start(os.path.join(BUILD, "tsctl"), "record", "-o", path, "--", tracesmith.workload_path("rate"), "--count",
                             LAUNCHES, stderr=subprocess.PIPE)
        _, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0, err)
        [row] = self.daemon.sql("SELECT count(*) AS n, coalesce(sum(no_call), 0) AS alone FROM op WHERE exact AND kind IN"
                                " ('launch', 'kernel')", "--file", path)
        if SAID not in err:
            self.assertEqual((row["n"], row["alone"]), (LAUNCHES, 0), err)


class Late(Case):
    """Its disk takes six seconds for them."""

    def launch(self):
        self.daemon.start(["env", f"LD_PRELOAD={SLOW}"])

    def run_to_end(self, stderr):
        process = self.start(*RUN, tracesmith.workload_path("rate"), "--count", LAUNCHES, stderr=stderr)
        _, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0)
        self.daemon.wait_ended(process.pid)
        return process.pid, err

    def test_it_goes_on_and_both_are_told(self):
        pid, err = self.run_to_end(subprocess.PIPE)
        self.assertIn(SAID, err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("gap", self.daemon.answer("loss", "--pid", pid)["loss"])

    def test_nothing_is_written_where_the_errors_of_tsctl_would_not_go(self):
        """The file that has the number 2 by then may be any."""
        with tempfile.NamedTemporaryFile("r") as file:
            process = self.start(*RUN, "/bin/sh", "-c", f'exec 2>"{file.name}"; exec "$@"', "sh",
                                 tracesmith.workload_path("rate"), "--count", LAUNCHES)
            process.communicate("\n", timeout=120)
            self.assertEqual((process.returncode, file.read()), (0, ""))


class Frequent(Case):
    """Whoever asked for records gets their calls, though probes would take more of a CPU than one process may have."""
    settings = "[probe]\nring_size = 256MiB\nlaunch_stacks = 0\n[exact]\nring_records = 1048576\n"
    trap_limit = "1%"
    budget = "none"

    def check(self, process, out):
        launches = next(json.loads(line) for line in out.splitlines() if '"kind"' in line)["calls"]
        self.daemon.wait_ended(process.pid)
        wait_for("its records", lambda: self.launches(process.pid)[0] == launches)
        self.assertEqual(self.launches(process.pid)[1], 0, self.daemon.answer("loss", "--pid", process.pid)["loss"])
        answer = self.daemon.answer("apis", "--pid", process.pid)
        calls = {row["fn"]: row["calls"] for row in answer["rows"]}
        self.assertEqual((calls["cuLaunchKernel"], answer["loss"].get("left-out-frequent")), (launches, None))

    def test_of_a_program_that_was_started(self):
        process = self.start(*RUN, tracesmith.workload_path("rate"), "--rate", RATE, "--seconds", 4)
        self.check(process, process.communicate("\n", timeout=120)[0])
        self.assertIn(f"Process {process.pid} reports the calls of", self.daemon.log())

    def test_where_it_may_not_the_limit_holds(self):
        with open(self.daemon.config, "a") as file:
            file.write("[probe]\nlight = never\n")
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for("the settings to be read", lambda: "Reread" in self.daemon.log())
        process = self.start(*RUN, tracesmith.workload_path("rate"), "--rate", RATE, "--stop")
        wait_for("it to be left out", lambda: f"Process {process.pid} hit probes" in self.daemon.log())
        wait_for("the loss to be told", lambda: "left-out-frequent" in self.daemon.answer("apis", "--pid", process.pid)["loss"])


class Budgeted(Case):
    """Whoever gave a budget has windows, which need the probes: where those would take more than one process may have, calls are missing,
    and each answer says so."""
    settings = Frequent.settings
    trap_limit = "1%"

    def run_to_limit(self, *command):
        process = self.start(os.path.join(BUILD, "tsctl"), *command, "--budget=5%", "--", tracesmith.workload_path("rate"), "--rate", RATE,
                             "--stop", stderr=subprocess.PIPE)
        wait_for("it to be left out", lambda: " hit probes " in self.daemon.log())
        _, err = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0, err)
        return process.pid, err

    def test_what_is_left_out_is_on_its_answers(self):
        pid, _ = self.run_to_limit("run")
        self.daemon.wait_ended(pid)
        for name in ("apis", "launches"):
            answer = self.daemon.answer(name, "--pid", pid)
            self.assertIn("left-out-frequent", answer["loss"], name)
            self.assertIn("frequent calls were not watched for", answer["missing"], name)

    def test_and_in_a_recording(self):
        path = os.path.join(self.daemon.directory, "left-out.sbt")
        _, err = self.run_to_limit("record", "-o", path)
        self.assertIn("frequent calls were not watched for", err)
        self.assertIn("left-out-frequent", self.daemon.answer("apis", "--file", path)["loss"])


class Attached(Case):
    """Its disk takes three seconds for them, and CUPTI starts at once."""

    def launch(self):
        self.daemon.start(["env", f"LD_PRELOAD={SLOW}", "TS_SLOW_DRIVER=3000"])

    def test_recording_has_started_when_it_says_so(self):
        process = self.start(tracesmith.workload_path("loop"), "--seconds", 1800, "--pace-ms", 1)
        result = self.daemon.ctl_again("attach", process.pid, "--wait=60s", "--json")
        self.assertEqual(result.code, 0, result.err)
        since_ns = time.monotonic_ns()
        self.assertNotIn("not watched", " ".join(json.loads(result.out)["notes"]))
        # What was launched before may run a little later.
        after = f"exact AND pid = {process.pid} AND kind IN ('launch', 'kernel') AND gpu_start_ns > {since_ns + WORK_NS}"
        wait_for("kernels after that", lambda: self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE {after}")[0]["n"] > 20)
        self.assertEqual(self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE {after} AND no_call")[0]["n"], 0)


if __name__ == "__main__":
    tracesmith.main()
