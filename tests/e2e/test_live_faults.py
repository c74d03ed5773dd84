"""Memory that runs out and a connection that breaks, at any moment of what tsctl does with the daemon: the answer, or a sentence;
and nothing is left in a program. What is asked of a recording is in tests/tools/test_faults.py, which has the loop."""
import collections
import concurrent.futures
import json
import os
import re
import shutil
import sys

import tracesmith
from tracesmith import BUILD, run, wait_for, workload, workload_path

TOOLS = os.path.join(BUILD, "tests", "tools")
sys.argv[1:1] = [os.path.join(TOOLS, "libfaulty.so"), os.path.join(BUILD, "tsctl"), os.path.join(TOOLS, "faulty_store")]
sys.path.insert(0, os.path.join(tracesmith.SOURCE, "tests", "tools"))
os.environ.setdefault("TS_FAULTS_SHARE", "0.2")  # there are few
faults = __import__("test_faults")
AT_ONCE = 6
KINDS = ("memory", "read", "write")
WHY = {"memory": "[Mm]emory", "read": "Input/output error", "write": "No buffer space available|No space left on device"}
# What is said on a busy host, whatever fails.
BESIDES = re.compile("tsctl: (not watched for|GPU times were not recorded for|lost: [0-9]+ |.* does not answer; waiting$)")


class Faulty(tracesmith.Case):
    settings = "[store]\nbounds_wait = 500ms\n"  # what a recording waits for at its end

    def setUp(self):
        super().setUp()
        self.known = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket, FAKE_CUDA_TIME_SCALE="0",
                          LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()))

    def loop(self):
        loop = faults.Faults("test_a_recording")
        loop.setUp()
        self.addCleanup(loop.doCleanups)
        return loop

    def tsctl(self, loop, words, right=0, **faulty):
        """Its output, or None where it failed and said so."""
        process = loop.run_faulty([faults.TSCTL, *map(str, words)], self.known, **faulty)
        code, said = process.returncode, process.stderr.decode()
        where = f"{words} {faulty}: exit {code}: {said}\n{process.stdout}\n{loop.where()}"
        lines = [line for line in said.splitlines() if not BESIDES.match(line)]
        if code == right:
            self.assertEqual(lines, [], where)
            return process.stdout.decode()
        self.assertIn("nth", faulty, where)
        # A connection and a file that fail, both.
        self.assertIn((code, len(lines)), [(1, 1), (1, 1 + (faulty["calls"] == "write" and faulty["for"] > 1))], where)
        for line in lines:
            self.assertRegex(line, "^tsctl: [A-Z'].*[^ ]$", where)
            self.assertIsNone(re.search("Success|[(]null[)]", line), where)
            self.assertRegex(line, WHY[faulty["calls"]], where)
        return None

    def each_fault(self, play, at_once=AT_ONCE, counts=(1, faults.FOR_EVER)):
        """Plays it with each of the faults, so many at a time: play(loop, **faulty)."""
        moments = []
        for calls in KINDS:
            loop = self.loop()
            play(loop, calls=calls)
            moments += [(calls, nth, count) for nth in loop.sites_said() for count in counts]
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            played = [pool.submit(play, self.loop(), calls=calls, nth=nth, **{"for": count}) for calls, nth, count in moments]
            for moment, future in zip(moments, played):
                with self.subTest(moment=moment):
                    future.result()

    def start_loop(self):
        """A program that goes on calling, and says how far it is."""
        process = workload("loop", "--seconds", 600, "--pace-ms", 2, "--progress", environment=self.known)
        self.addCleanup(self.end, process)
        wait_for("the program to use CUDA", lambda: self.daemon.known(process.pid))
        return process


class Live(Faulty):
    def test_questions(self):
        process, _ = run("counts")
        self.daemon.wait_ended(process.pid)
        os.environ["TRACESMITH_SOCKET"] = self.daemon.socket
        loop = self.loop()
        for command in (["query", "apis", "--pid", process.pid, "--json"], ["query", "launches", "--pid", process.pid],
                        ["query", "processes", "--pid", process.pid, "--csv"], ["query", "list"],
                        ["sql", f"SELECT fn, sum(calls) FROM rollup JOIN process p ON p.id = process WHERE p.pid = {process.pid} GROUP BY fn"],
                        ["view", "--pid", process.pid, "--since", "1h", "--json"],
                        ["record", "--pid", process.pid, "--since", "1h", "-o", "OUT"]):
            with self.subTest(command=command):
                loop.try_command([str(word) for word in command])

    def calls_told(self, out):
        """Of a program, by process and function."""
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return {(line["pid"], line["fn"]): line["calls"] for line in lines if "fn" in line}

    def check_recorded(self, loop, truth, faulty):
        """What the file has of a program, if it says that it has all."""
        path = os.path.join(loop.out, "f.sbt")
        where = f"{faulty}\n{loop.where()}"
        rows = self.daemon.sql("SELECT p.pid AS pid, fn, sum(calls) AS calls FROM rollup JOIN process p ON p.id = process GROUP BY 1, 2",
                               "--file", path)
        told = {(row["pid"], row["fn"]): row["calls"] for row in rows}
        less = {key: (calls, told.get(key, 0)) for key, calls in truth.items() if told.get(key, 0) != calls}
        lost = self.daemon.sql("SELECT reason, sum(count) AS n FROM loss WHERE reason <> 'no-record' GROUP BY 1", "--file", path)
        self.assertTrue(not less or lost, f"{less} {where}")

    def test_a_program_that_is_recorded(self):
        def play(loop, **faulty):
            out = self.tsctl(loop, ["record", "-o", "f.sbt", "--", workload_path("forkexec")], **faulty)
            if out is not None:
                self.check_recorded(loop, self.calls_told(out), faulty)
        self.each_fault(play, counts=(1, 8, faults.FOR_EVER))

    def test_a_recording_of_what_runs(self):
        pid = self.start_loop().pid

        def play(loop, **faulty):
            if self.tsctl(loop, ["record", "-o", "f.sbt", "--pid", pid, "--duration", "300ms"], **faulty) is not None:
                path = os.path.join(loop.out, "f.sbt")
                self.assertEqual(self.daemon.sql("SELECT value FROM recording WHERE key = 'complete'", "--file", path)[0]["value"], 1)
                self.assertGreater(self.daemon.sql("SELECT count(*) AS n FROM op", "--file", path)[0]["n"], 0)
        self.each_fault(play)

    def test_a_program_that_is_run(self):
        """It runs as if it were started by itself, or not at all; and is traced as it runs."""
        def play(loop, **faulty):
            out = self.tsctl(loop, ["run", "--", workload_path("short"), "--launches", "300"], **faulty)
            if out is None:
                return
            truth = self.calls_told(out)
            pid = next(iter(truth))[0]
            self.daemon.wait_ended(pid)
            told = {(pid, row["fn"]): row["calls"] for row in self.daemon.query("apis", "--pid", pid)}
            self.assertEqual({key: told.get(key) for key in truth}, truth, faulty)
        self.each_fault(play)

    def attach_each(self, *options):
        """Whatever happens to who attaches, it can be detached, and nothing of ours is left in the program then."""
        processes = [self.start_loop() for _ in range(2)]
        free = collections.deque(processes)

        def rounds(process):
            while True:
                line = process.stdout.readline()
                if "rounds" in line or not line:
                    return line

        def play(loop, **faulty):
            process = free.popleft()
            pid = process.pid
            try:
                out = self.tsctl(loop, ["attach", pid, "--json", *options], **faulty)
                told = json.loads(out) if out is not None else None
                self.assertTrue(told is None or told["pid"] == pid and told["stopped_ns"] > 0, (faulty, told))
                result = self.daemon.ctl_again("detach", pid)
                self.assertTrue(result.code == 0 or told is None and "not attached" in result.err, (faulty, told, result.err))
                self.assertEqual(tracesmith.ours_of(pid), [], (faulty, told, result.code, result.out, result.err))
                self.assertTrue(rounds(process), "the program has ended")
            finally:
                free.append(process)
        self.each_fault(play, len(processes))

    def test_a_program_that_is_attached_to(self):
        self.attach_each()

    def test_a_program_that_is_attached_to_with_light(self):
        self.attach_each("--light")


class Top(Faulty):
    budget = "1%"  # frequent calls are seen in windows: it says so

    def test_top(self):
        process = workload("rate", "--kind", "launch", "--threads", 1, "--rate", 20000, "--seconds", 600, environment=self.known)
        self.addCleanup(self.end, process)
        pid = process.pid

        def ask(loop, **faulty):
            out = self.tsctl(loop, ["top", "--once", "--json"], **faulty)
            if out is None:
                return None
            told = json.loads(out)
            row = next(row for row in told["processes"] if row["pid"] == pid)
            self.assertEqual((row["comm"], row["tier"]), ("rate", "probe"), faulty)
            return told["missing"] or ""

        def play(loop, **faulty):
            self.assertIn((ask(loop, **faulty) or "sampled")[:7], ("sampled", "not wat"), faulty)

        def play_text(loop, **faulty):
            out = self.tsctl(loop, ["top", "--once"], **faulty)
            self.assertTrue(out is None or re.search(f"(?m)^ *{pid} .*rate", out), (faulty, out))
        wait_for("windows", lambda: ask(self.loop()))
        self.each_fault(play)
        self.each_fault(play_text)


class Metrics(faults.Page):
    """What `tsctl serve` has from the daemon."""
    PATHS = ("/metrics", "query/apis", "extent")
    SOURCE = ()

    @staticmethod
    def address(url, path):
        return f"{path}?{url.query}" if path == "/metrics" else faults.Page.address(url, path)

    def is_right(self, answer, right):
        """It has all that it had before: what the daemon itself uses has changed."""
        if not answer or answer[0] != 200:
            return False
        names = [set(re.findall('(?m)^(tracesmith_[^ ]*)|"fn":"([a-zA-Z]+)"', text)) for _, text in (answer, right)]
        return names[0] == names[1]

    def test_a_page(self):
        directory = tracesmith.driver_directory()
        self.addCleanup(shutil.rmtree, directory)
        daemon = tracesmith.Daemon("[store]\nbounds_wait = 500ms\n", driver=tracesmith.copy_library(directory)).start()
        self.addCleanup(daemon.close)
        process, _ = run("counts", environment={"LD_LIBRARY_PATH": directory})
        daemon.wait_ended(process.pid)
        self.try_all(dict(os.environ, TRACESMITH_SOCKET=daemon.socket))


if __name__ == "__main__":
    tracesmith.main()
