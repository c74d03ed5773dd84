"""Recordings that no daemon would write, with right checksums, through all that tsctl does with one: an answer, or a
sentence that says why there is none; in bounded time, memory and output, and with nothing that a terminal obeys."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import commands

HOSTILE, TSCTL = sys.argv[1:3]
del sys.argv[1:3]
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "data")
SOURCES = ["exact.sbt", "nvtx.sbt"]
MUTANTS = int(os.environ.get("TS_MUTANTS", "30"))
FIRST = int(os.environ.get("TS_MUTANT", "1"))
EACH = 9  # commands that a mutant gets: the next ones
SECONDS = 30
MEMORY_KB = 2 << 20
OUTPUT = 64 << 20
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

COMMANDS = commands.COMMANDS + [line.split() for line in """
view F --lanes --from 1us --to 1ms
view F --limit 5 --kernel .
diff F ORIGINAL
diff ORIGINAL F --json
graph F --dot
replay F --scale kernel=.*:0.5
replay F --scale kernel=.*:1000000 --scale host:0.001 --json
replay F --drop copy
replay F --launch-latency 1us
replay F --copy-bandwidth 2x
replay F --no-sync
replay F --streams 1000 --json
replay F --devices 3
replay F --graph --no-sync --streams 3 -o OUT
replay F --check
replay F --check ORIGINAL
replay ORIGINAL --check F --json
""".strip().splitlines()]


def queries(path):
    rows = json.loads(subprocess.run([TSCTL, "query", "list", "-f", path, "--json"], capture_output=True,
                                     check=True).stdout)["rows"]
    return [["query", row["name"], "-f", "F", *how] for row in rows for how in ([], ["--json"])]


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tracesmith-hostile-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path, self.out = os.path.join(self.folder, "f.sbt"), os.path.join(self.folder, "out")

    def run_tsctl(self, command):
        """Exit status, output and what it said; fails where it did not end by itself."""
        names = [os.path.join(self.folder, name) for name in ("stdout", "stderr")]
        with open(names[0], "wb") as out, open(names[1], "wb") as err:
            limit = (OUTPUT, OUTPUT)
            process = subprocess.Popen(
                ["timeout", "--signal=KILL", str(SECONDS), TSCTL, *command], stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        with open(names[0], "rb") as out, open(names[1], "rb") as err:
            said = err.read().decode()
            self.assertIn(process.returncode, (0, 1), said)
            self.assertLess(usage.ru_maxrss, MEMORY_KB, "memory")
            return process.returncode, out.read().decode(), said

    def try_command(self, command, original):
        words = {"F": self.path, "ORIGINAL": original, "OUT": self.out}
        code, out, said = self.run_tsctl([words.get(word, word) for word in command])
        for text in (out, said):
            found = (CONTROL if "--json" in command else OBEYED).search(text)
            self.assertIsNone(found, found and repr(text[max(0, found.start() - 60):found.end() + 60]))
        for line in said.splitlines():
            self.assertRegex(line, "^tsctl: ", said)
        if code and "--check" not in command:
            self.assertTrue(said)
        if "--json" in command and code == 0:
            lines = command[0] == "replay" and "--emulate" not in command
            for text in out.splitlines() if lines else [out]:
                json.loads(text)
        if code == 0 and command[0] == "replay" and "OUT" in command:
            self.run_tsctl(["info", self.out])

    def test_mutants(self):
        commands = COMMANDS + queries(os.path.join(DATA, SOURCES[0]))
        turn = 0
        for seed in range(FIRST, FIRST + MUTANTS):
            original = os.path.join(DATA, SOURCES[seed % len(SOURCES)])
            subprocess.run([HOSTILE, original, str(seed), self.path], check=True)
            for _ in range(EACH):
                command = commands[turn % len(commands)]
                turn += 1
                with self.subTest(seed=seed, command=" ".join(command)):
                    self.try_command(command, original)

    def test_mutants_without_their_end(self):
        """Of which sums are counted, where they are asked for."""
        commands = queries(os.path.join(DATA, SOURCES[0]))
        turn = 0
        for seed in range(FIRST, FIRST + MUTANTS):
            original = os.path.join(DATA, SOURCES[seed % len(SOURCES)])
            subprocess.run([HOSTILE, original, str(seed), self.path], check=True)
            os.truncate(self.path, os.path.getsize(self.path) - 1)
            for _ in range(EACH):
                command = commands[turn % len(commands)]
                turn += 1
                with self.subTest(seed=seed, command=" ".join(command)):
                    self.try_command(command, original)

    def test_what_was_not_changed_is_read_as_it_was(self):
        for name in SOURCES:
            original = os.path.join(DATA, name)
            subprocess.run([HOSTILE, original, "0", self.path], check=True)
            for command in (["view", "--json"], ["replay", "--json"]):
                answers = [self.run_tsctl([command[0], path, *command[1:]])[1] for path in (original, self.path)]
                self.assertEqual(*answers)
                self.assertGreater(len(answers[0]), 10000)

    def test_no_recording_at_all(self):
        fifo, empty = os.path.join(self.folder, "fifo"), os.path.join(self.folder, "empty")
        os.mkfifo(fifo)
        open(empty, "wb").close()
        for path in (fifo, empty, self.folder, "/dev/zero", TSCTL, os.path.join(self.folder, "none")):
            for command in (["info"], ["view", "--tree"], ["diff", path], ["graph", "--json"], ["replay"],
                            ["replay", "--emulate"], ["export", "--csv", "-o", self.out]):
                code, out, said = self.run_tsctl([command[0], path, *command[1:]])
                self.assertEqual((code, out, said.count("\n")), (1, "", 1), said)

    def test_it_is_not_written_over(self):
        original = os.path.join(DATA, SOURCES[0])
        shutil.copy(original, self.path)
        os.symlink(self.path, self.out)
        for command in (["replay", "--emulate"], ["replay", "--on-gpu"], ["export", "--csv"]):
            process = subprocess.run([TSCTL, command[0], self.path, *command[1:], "-o", self.out], capture_output=True)
            self.assertEqual(process.returncode, 2)
            self.assertIn(b"the recording itself", process.stderr)
            with open(original, "rb") as before, open(self.path, "rb") as now:
                self.assertEqual(before.read(), now.read())


if __name__ == "__main__":
    unittest.main()
