"""Memory that runs out and files that cannot be read or written, at any moment of what tsctl does with a recording: the answer
that there is without, or a sentence that says why there is none."""

import os
import contextlib
import http.client
import json
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

import commands

FAULTY, TSCTL, STORE = map(os.path.abspath, sys.argv[1:4])
del sys.argv[1:4]
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "data")
# How many of the moments are tried; tests/soak/faults tries all.
SHARE = float(os.environ.get("TS_FAULTS_SHARE", "0.01"))
SEED = int(os.environ.get("TS_FAULTS_SEED", "29"))
SECONDS = 30
FOR_EVER = 1 << 62
TAIL = b"SBTEND"
CONTENT = """SELECT kind, count(*), sum(start_ns), sum(end_ns), sum(bytes % 1000003), sum(handle % 1000003) FROM op GROUP BY kind
 UNION ALL SELECT 'sums', count(*), sum(calls), sum(total_ns), sum(bytes), 0 FROM rollup
 UNION ALL SELECT 'works', count(*), sum(count), sum(total_ns), sum(bytes), 0 FROM work"""

COMMANDS = commands.COMMANDS + [line.split() for line in """
diff F OTHER
diff F OTHER --json
graph F --dot -o OUT
replay F --scale kernel=.*:0.5 --json
replay F --no-sync --streams 2
plot busy F -o OUT
plot memory F -o OUT
plot memory-map F -o OUT
report F -o OUT
report F --md -o OUT
oom -f F
query list -f F
query kernels -f F --csv
query critical-path --by-stack -f F --json
""".strip().splitlines()]


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

    def environment(self, environment=None, **faulty):
        return dict(environment or os.environ, LD_PRELOAD=self.shim, FAULTY_SAID=self.said,
                    **{f"FAULTY_{name.upper()}": str(value) for name, value in faulty.items()})

    def run_faulty(self, command, environment=None, **faulty):
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=self.environment(environment, **faulty),
                              cwd=self.out, timeout=SECONDS, check=False)

    def sites(self, command, calls, share=SHARE):
        """The numbers of the calls from different places, and some of them."""
        self.run_faulty(command, calls=calls)
        return self.sites_said(share)

    def sites_said(self, share=SHARE):
        self.forget()
        with open(self.said, encoding="ascii") as file:
            sites = [int(line) for line in file]
        return self.random.sample(sites, min(len(sites), round(len(sites) * share + self.random.random() * (share < 1))))

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


class Page(Case):
    """`tsctl serve`: what it answers is whole, or says that it is not; and it goes on."""
    WINDOW = "since=28883701688889&until=28883781932235"
    PATHS = ("", "main.js", "extent", "query/kernels", f"timeline?columns=50&{WINDOW}", f"flame?of=launches&{WINDOW}",
             f"memory?columns=7&{WINDOW}", f"addresses?{WINDOW}", f"waits?pid=5508&what=work&id=1&at=28883750000000&{WINDOW}",
             "whatif?streams=1")
    SOURCE = (os.path.join(DATA, "exact.sbt"),)

    def get(self, port, path):
        """Status and text, or None where the connection broke."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (http.client.HTTPException, ConnectionError):
            return None
        finally:
            connection.close()

    def play(self, environment=None, **faulty):
        """The answers to all paths, twice; or None, where it did not start and said why."""
        process = subprocess.Popen([TSCTL, "serve", "--listen", "127.0.0.1:0", *self.SOURCE], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment(environment, **faulty))
        try:
            url = urllib.parse.urlsplit(process.stdout.readline().strip())
            answers = [self.get(url.port, self.address(url, path)) for path in 2 * self.PATHS] if url.port else None
            process.terminate()
            said = process.communicate(timeout=SECONDS)[1]
        finally:
            process.kill()
            process.wait()
        where = f"{faulty} exit {process.returncode} {said}\n{self.where()}"
        # These two end a program themselves: that its threads cannot get what they need is no state to go on in.
        if re.search("cannot allocate memory for thread-local data|Fatal error in GNU libmicrohttpd", said):
            return None
        if answers is None:
            self.assertEqual((process.returncode, len(said.splitlines())), (1, 1), where)
            self.assertRegex(said, "^tsctl: [A-Z'].*[^ ]$", where)
        self.assertIn(process.returncode, (0, 1), where)
        self.assertEqual(said if process.returncode == 0 else "", "", where)
        return answers

    @staticmethod
    def address(url, path):
        return f"/t/{urllib.parse.parse_qs(url.query)['token'][0]}/{path}"

    def is_right(self, answer, right):
        return answer == right

    def check(self, right, environment=None, **faulty):
        answers = self.play(environment, **faulty)
        where = f"{faulty}\n{self.where()}"
        wrong = 0
        for path, answer, wanted in zip(2 * self.PATHS, answers or [], right or []):
            if self.is_right(answer, wanted):
                continue
            wrong += 1
            if answer:
                self.assertIn(answer[0], (500, 503), (path, answer, where))
                self.assertTrue(answer[1].strip() or faulty["for"] > 1, (path, where))
        self.assertTrue(faulty["for"] > 1 or wrong <= 1, (wrong, where))

    def try_all(self, environment=None, share=SHARE):
        right = self.play(environment)
        self.assertEqual({answer[0] for answer in right}, {200}, right)
        for calls in ("memory", "read", "write"):
            self.play(environment, calls=calls)
            for nth in self.sites_said(share):
                for count in (1, FOR_EVER):
                    with self.subTest(calls=calls, nth=nth, count=count):
                        self.check(right, environment, calls=calls, nth=nth, **{"for": count})

    def test_a_page(self):
        self.try_all(share=min(1, 4 * SHARE))


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
        self.assertEqual(stats["broken"], 0, where)
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
