"""Memory that runs out and files that cannot be read or written, at any moment of what tsctl does with a recording: the answer
that there is without, or a sentence that says why there is none."""

import os
import contextlib
import json
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

FAULTY, TSCTL, STORE = map(os.path.abspath, sys.argv[1:4])
del sys.argv[1:4]
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "data")
# How many of the moments are tried; tests/soak/faults tries all.
SHARE = float(os.environ.get("TS_FAULTS_SHARE", "0.01"))
SEED = int(os.environ.get("TS_FAULTS_SEED", "29"))
SECONDS = 30
FOR_EVER = 1 << 62
TAIL = b"SBTEND"
CONTENT = """SELECT kind, count(*), sum(start_ns), sum(end_ns), sum(bytes), sum(handle) FROM op GROUP BY kind
 UNION ALL SELECT 'sums', count(*), sum(calls), sum(total_ns), sum(bytes), 0 FROM rollup
 UNION ALL SELECT 'works', count(*), sum(count), sum(total_ns), sum(bytes), 0 FROM work"""

COMMANDS = [line.split() for line in """
info F
info F --json
view F
view F --tree
view F --lanes
view F --json
diff F OTHER
diff F OTHER --json
graph F --json
graph F --dot -o OUT
replay F
replay F --json
replay F --emulate
replay F --emulate --json -o OUT
replay F --scale kernel=.*:0.5 --json
replay F --no-sync --streams 2
replay F --graph
export F --perfetto -o OUT
export F --chrome -o OUT
export F --folded -o OUT
export F --svg -o OUT
export F --pprof -o OUT
export F --csv -o OUT
plot busy F -o OUT
plot memory F -o OUT
plot memory-map F -o OUT
report F -o OUT
report F --md -o OUT
oom -f F
query list -f F
query kernels --by-stack -f F
query kernels -f F --csv
query leaks --min-age 1ns -f F
query critical-path --by-stack -f F --json
""".strip().splitlines()]
COMMANDS += [["sql", "-f", "F", *how, statement] for statement in (
    "SELECT * FROM op LEFT JOIN frame USING (stack)", "SELECT * FROM process p LEFT JOIN stream s ON s.process = p.id")
             for how in ([], ["--json"])]


def queries():
    rows = subprocess.run([TSCTL, "query", "list", "-f", os.path.join(DATA, "exact.sbt"), "--csv"], capture_output=True, text=True,
                          check=True).stdout.splitlines()[1:]
    return [["query", row.split(",")[0], "-f", "F", "--json"] for row in rows]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tracesmith-faults-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.said = os.path.join(self.folder, "said")
        self.random = random.Random(SEED)
        self.out = os.path.join(self.folder, "out")
        os.mkdir(self.out)
        # LD_PRELOAD takes no path with a space.
        self.shim = shutil.copy(FAULTY, self.folder)

    def run_faulty(self, command, **faulty):
        environment = dict(os.environ, LD_PRELOAD=self.shim, FAULTY_SAID=self.said,
                           **{f"FAULTY_{name.upper()}": str(value) for name, value in faulty.items()})
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, cwd=self.out,
                              timeout=SECONDS, check=False)

    def sites(self, command, calls, share=SHARE):
        """The numbers of the calls from different places, and some of them."""
        self.run_faulty(command, calls=calls)
        self.forget()
        with open(self.said, encoding="ascii") as file:
            sites = [int(line) for line in file]
        return self.random.sample(sites, round(len(sites) * share + self.random.random() * (share < 1)))

    def forget(self):
        """What was written."""
        shutil.rmtree(self.out)
        os.mkdir(self.out)

    def where(self):
        with open(self.said, encoding="utf-8", errors="replace") as file:
            return file.read()


class Faults(Case):
    def run_tsctl(self, command, **faulty):
        """Exit status, output, what it said, and the files that it has written."""
        process = self.run_faulty([TSCTL, *command], **faulty)
        written = {}
        for name in os.listdir(self.out):
            path = os.path.join(self.out, name)
            with open(path, "rb") as file:
                written[name] = file.read()
            if written[name][1:4] == b"SBT" and TAIL in written[name][-32:]:
                written[name] = self.read_recording(path)
            os.unlink(path)
        return process.returncode, process.stdout, process.stderr.decode(), written

    @staticmethod
    def read_recording(path):
        """What is in a whole one: what could not be compressed is not."""
        said = subprocess.run([TSCTL, "sql", "--json", "-f", path, CONTENT], capture_output=True, check=True).stdout
        return said if b'"limit":' not in said else b"incomplete, and says so"

    def check(self, command, right, **faulty):
        code, out, said, written = self.run_tsctl(command, **faulty)
        if (code, out, said, written) == right:
            return
        where = f"{faulty} {said}\n{self.where()}"
        self.assertIn(code, (0, 1), where)
        if code == 0 and re.search(rb"\(limit\)|\"limit\":", out + said.encode()):
            return  # it says that something is missing
        written = {name: right[3][name] if content == b"incomplete, and says so" else content for name, content in written.items()}
        if code == 0:
            self.assertEqual((out, written, said), (right[1], right[3], right[2]), where)
            return
        # Nothing, or all, or a recording that is written in place and has no end.
        if written != right[3]:
            for content in written.values():
                self.assertEqual((content[1:4], content[-40:].find(TAIL)), (b"SBT", -1), where)
        # Beside what is said anyhow.
        lines = [line for line in said.splitlines() if line not in right[2].splitlines()]
        self.assertEqual(len(lines), 1, where)
        self.assertRegex(lines[0], "^tsctl: [A-Z'].*[^ ]$", where)
        self.assertIsNone(re.search("Success|[(]null[)]", lines[0]), where)

    def try_command(self, command):
        right = self.run_tsctl(command)
        self.assertEqual(right[0], 0, right[2])
        self.assertEqual(right, self.run_tsctl(command))
        for calls in ("memory", "read", "write"):
            for nth in self.sites([TSCTL, *command], calls):
                for count in (1, FOR_EVER):
                    with self.subTest(command=" ".join(command), calls=calls, nth=nth, count=count):
                        self.check(command, right, calls=calls, nth=nth, **{"for": count})

    def try_all(self, path, commands):
        words = {"F": path, "OTHER": os.path.join(DATA, "nvtx.sbt"), "OUT": "written"}
        for command in commands:
            with self.subTest(command=" ".join(command)):
                self.try_command([words.get(word, word) for word in command])

    def test_a_recording(self):
        self.try_all(os.path.join(DATA, "exact.sbt"), COMMANDS + queries())

    def test_one_without_its_end(self):
        """Its sums are counted from its operations."""
        path = shutil.copy(os.path.join(DATA, "exact.sbt"), self.folder)
        os.truncate(path, os.path.getsize(path) - 1)
        self.try_all(path, [["info", "F"], ["view", "F"], ["query", "kernels", "-f", "F"], ["query", "apis", "-f", "F"],
                            ["query", "overlap", "-f", "F"], ["query", "memory", "-f", "F"], ["export", "F", "--csv", "-o", "OUT"]])

    def test_output_that_cannot_be_written(self):
        for command in COMMANDS + queries():
            words = {"F": os.path.join(DATA, "exact.sbt"), "OTHER": os.path.join(DATA, "nvtx.sbt"), "OUT": "-"}
            with self.subTest(command=" ".join(command)), open("/dev/full", "wb") as full:
                process = subprocess.run([TSCTL, *(words.get(word, word) for word in command)], stdin=subprocess.DEVNULL,
                                         stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
                self.assertEqual(process.returncode, 1)
                self.assertRegex(process.stderr, r"\Atsctl: .*No space left on device\n\Z")


class Store(Case):
    """The writer of the daemon's database."""
    CALLS = 24 * 60

    def check(self, nth, count, calls):
        path = os.path.join(self.out, "store.db")
        process = self.run_faulty([STORE, path], calls=calls, nth=nth, **{"for": count})
        where = f"{calls} {nth} {count}: {process.stdout} {process.stderr}\n{self.where()}"
        self.assertIn(process.returncode, (0, 1), where)
        stats = json.loads(process.stdout)
        if process.returncode == 1:
            self.assertLess(stats["refused"], 0, where)
            return None
        # Beside what it could not write at the end.
        known = stats["written"] + stats["dropped"] + stats["held"]
        self.assertTrue(known == self.CALLS or stats["error"] and known < self.CALLS, where)
        if count == 1:
            self.assertEqual((stats["error"], stats["held"]), (0, 0), where)
        with contextlib.closing(sqlite3.connect(path)) as db:
            def ask(statement):
                return db.execute(statement).fetchone()[0]
            self.assertEqual(ask("PRAGMA integrity_check"), "ok", where)
            self.assertEqual(ask("SELECT coalesce(sum(ops), 0) FROM chunk"), stats["written"], where)
            if not stats["rows_dropped"] and not stats["error"]:
                self.assertEqual(ask("SELECT sum(calls) FROM rollup"), self.CALLS, where)
                self.assertEqual(ask("SELECT count(*) FROM process WHERE comm = 'program' AND command LIKE 'program%'"
                                     " AND user = 'somebody'"), 5, where)
                self.assertEqual(ask("SELECT count(*) FROM name"), 24, where)
                self.assertEqual(ask("SELECT count(*) FROM stack"), 24, where)
            if stats["dropped"] + stats["rows_dropped"] and not stats["error"]:
                self.assertGreater(ask("SELECT count(*) FROM loss"), 0, where)
        return stats

    def try_all(self, calls):
        whole = 0
        for nth in self.sites([STORE, os.path.join(self.out, "store.db")], calls, min(1, 10 * SHARE)):
            for count in (1, 20, FOR_EVER):
                with self.subTest(calls=calls, nth=nth, count=count):
                    self.forget()
                    stats = self.check(nth, count, calls)
                    whole += bool(stats) and stats["written"] == self.CALLS
        return whole

    def test_a_store(self):
        self.assertGreater(sum(self.try_all(calls) for calls in ("memory", "read", "write")), 0)


if __name__ == "__main__":
    unittest.main()
