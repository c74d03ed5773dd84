"""Programs that link libtracesmith-client get tsctl's answers, and one sentence when there is none."""
import contextlib
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import tracesmith as e2e
from tracesmith import BUILD, SOURCE, run, wait_for, workload

NO_DAEMON, DENIED, CONNECTION_LOST, TIMED_OUT, BAD_REQUEST = -3, -4, -5, -6, -7
NOT_FOUND, LIMIT, UNAVAILABLE, NO_CUDA = -8, -9, -10, -12
RECORDING = Path(SOURCE, "tests/data/exact.sbt")
STACK = 6


def setUpModule():
    """Installs it, and builds a program as somebody else would."""
    global folder, program, environment
    folder = tempfile.TemporaryDirectory(prefix="tracesmith-client-")
    for part in ("client", "dev"):
        subprocess.run(["cmake", "--install", BUILD, "--component", part, "--prefix", folder.name], check=True,
                       capture_output=True)
    config, = Path(folder.name).rglob("tracesmith-client.pc")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(config.parent), "LD_LIBRARY_PATH": str(config.parent.parent),
                   "TRACESMITH_TSCTL": f"{BUILD}/tsctl"}
    environment.pop("TRACESMITH_SOCKET", None)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tracesmith-client"], env=environment, check=True,
                           capture_output=True, text=True).stdout.split()
    program = os.path.join(folder.name, "program")
    subprocess.run(["cc", "-std=gnu11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-o", program,
                    os.path.join(SOURCE, "tests/e2e/client.c"), *flags], check=True)


def tearDownModule():
    folder.cleanup()


def steps(*words, **options):
    """What each step that had an answer, or failed, has written."""
    ended = subprocess.run([program, *map(str, words)], env={**environment, **options}, capture_output=True, text=True,
                           timeout=120, check=False)
    if ended.returncode or ended.stderr:
        raise AssertionError(f"{words}: {ended}")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def plain(rows):
    """Without what the rows of tsctl have of stacks beside their frames."""
    return [{name: value for name, value in row.items() if name not in ("frames", "stack_end", "stack_linked", "stack_users")}
            for row in rows]


class Refusals(unittest.TestCase):
    def refused(self, error, said, *words, **options):
        last = steps(*words, **options)[-1]
        self.assertEqual(last.get("error"), error, last)
        self.assertRegex(last["message"], said)


class Daemon(e2e.Case, Refusals):
    def test_one_daemon(self):
        ended, _ = run("leak", "--steps", "20")
        self.daemon.wait_ended(ended.pid)
        self.connect = f"connect {self.daemon.socket}"
        self.same_answers(ended.pid)
        self.refusals(ended.pid)
        self.permission()
        self.process(ended.pid)

    def same_answers(self, pid):
        def same(step, *arguments):
            def both():
                ours, = steps(self.connect, step)
                theirs = json.loads(self.daemon.ctl(*arguments, "--json").out)
                for answer in ours, theirs:
                    answer["loss"].pop("mapping", None)
                    answer["rows"] = plain(answer["rows"])
                return (ours["rows"], ours["loss"]) == (theirs["rows"], theirs["loss"]) and ours
            return wait_for(f"the same answer to {step}", both)

        same(f"query apis pid={pid} sort=-calls name=cu* limit=2", "query", "apis", "--pid", pid, "--sort", "-calls",
             "--name", "cu*", "--limit", "2")
        stacks = same(f"query launches pid={pid}", "query", "launches", "--pid", pid)
        same(f"query launches pid={pid} by=4", "query", "launches", "--pid", pid, "--by", "function")
        self.assertEqual(stacks["units"]["stack"], STACK)
        # Where we had no time to look at the program, its stacks are cut or missing, and that is told.
        self.assertTrue({"stack", "stack-cut"} & set(stacks["loss"]) or
                        any("main" in frame for row in stacks["rows"] for frame in row["stack"] or ()), stacks)
        text = "SELECT fn, count(*) AS n, x'00ff' AS bytes, NULL AS none, 0.5 AS half FROM op GROUP BY fn"
        same("sql " + text, "sql", text)
        lately, never, socket_of, child = steps(
            "connect", f"query apis pid={pid} since=-3600000000000", f"query apis pid={pid} until=1", "status", "fork",
            TRACESMITH_SOCKET=self.daemon.socket)
        self.assertGreater(len(lately["rows"]), 2)
        self.assertEqual((never["rows"], "after the window" in never["note"]), ([], True), never)
        self.assertIn("memory_bytes", [row["name"] for row in socket_of["rows"]])
        self.assertIn("is that of the parent", child["message"])

    def do(self, step):
        """The answer to what needs a good moment of the process."""
        def answer():
            said, = steps(self.connect, step)
            return None if e2e.not_now(said.get("message", "")) else said
        said = wait_for(f"a good moment to {step}", answer)
        self.assertIn("rows", said, step)
        return said

    def refusals(self, pid):
        for error, said, step in (
                (NOT_FOUND, "did you mean 'kernels'", "query kernel"),
                (NOT_FOUND, "has not used CUDA", f"query apis pid={os.getpid()}"),
                (BAD_REQUEST, "does not take .device., only", "query apis device=0"),
                (BAD_REQUEST, "ends before it starts", "query apis since=-1 until=-9000000000"),
                (BAD_REQUEST, "size of the struct is not set", "query apis size=0"),
                (BAD_REQUEST, "syntax error", "sql SELEC 1"),
                (BAD_REQUEST, "too long", "sql SELECT '" + "x" * 70000 + "'"),
                (NO_CUDA, "does not use CUDA", f"attach {os.getpid()}"),
                (NOT_FOUND, str(pid), f"detach {pid}")):
            with self.subTest(step=step[:40]):
                refused, after = steps(self.connect, step, "sql SELECT 1 AS one")
                self.assertEqual(refused.get("error"), error, refused)
                self.assertRegex(refused["message"], said)
                self.assertEqual(after["rows"], [{"one": 1}])
        self.refused(BAD_REQUEST, "There is no connection", "status")

    def process(self, ended):
        looping = workload("loop", "--seconds", "600", "--pace-ms", "1")
        self.addCleanup(self.end, looping)
        wait_for("its launches", lambda: "cuLaunchKernel" in self.daemon.apis(looping.pid))
        row, = self.do(f"attach {looping.pid} records=0x8d stacks=3")["rows"]
        processes, devices, uses, refused = steps(self.connect, f"follow {looping.pid}")
        self.assertGreater(row["ready_ns"], 0)
        self.assertEqual((row["records"], row["stacks"]), (0x8d, 3))
        shown, = (row for row in processes["rows"] if row["pid"] == looping.pid)
        self.assertEqual(shown["comm"], "loop")
        self.assertIn("calls.launches", shown)
        self.assertIn(shown["id"], [row["process"] for row in uses["rows"]])
        self.assertTrue(devices["rows"])
        self.assertEqual((refused["error"], "is subscribed" in refused["message"]), (BAD_REQUEST, True))
        self.assertEqual(self.do(f"detach {looping.pid}")["rows"][0]["unloaded"], 1)
        self.refused(BAD_REQUEST, "does not know these records", self.connect, f"attach {looping.pid} stacks=9")
        usual, = self.do(f"attach {looping.pid} size=24")["rows"]
        self.assertEqual((usual["records"], usual["stacks"]), (0xef, 2))
        self.do(f"detach {looping.pid}")
        self.rust(ended, looping.pid)
        self.end(looping)

    def permission(self):
        """Who may not open the socket is told what to do."""
        os.chmod(folder.name, 0o755)
        ended = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program, self.connect],
                               env=environment, capture_output=True, text=True, check=True)
        self.assertIn('"error":%d' % DENIED, ended.stdout)
        self.assertIn("usermod -aG tracesmith", ended.stdout)

    def rust(self, pid, running):
        """The crate's own test, and its example."""
        if subprocess.run("cargo --version && rustc --version", shell=True, capture_output=True, check=False).returncode:
            print("skipped: the Rust crate, for there is no cargo (apt install cargo)")
            return
        crate = os.path.join(folder.name, "rust")
        shutil.copytree(Path(SOURCE, "client/rust"), crate, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
        there = {**environment, "TRACESMITH_SOCKET": self.daemon.socket, "TRACESMITH_PID": str(running)}
        for words in ("test", "--test", "daemon"), ("build", "--example", "query"):
            made = subprocess.run(["cargo", words[0], "--offline", "--quiet", *words[1:]], cwd=crate, env=there,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stdout)
            self.assertNotIn("warning", made.stdout)

        def example(*words, **options):
            return subprocess.run([f"{crate}/target/debug/examples/query", *map(str, words)], env={**there, **options},
                                  capture_output=True, text=True, check=False)

        head, *rows = example("apis", pid).stdout.splitlines()
        self.assertIn("cuMemAlloc_v2", {row.split("\t")[head.split("\t").index("fn")] for row in rows})
        self.assertEqual(len(example("processes", RECORDING).stdout.splitlines()), 2)
        refused = example("apis", TRACESMITH_SOCKET="/nonexistent")
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertTrue(refused.stderr.startswith("query: No daemon listens on /nonexistent"), refused.stderr)


class Files(Refusals):
    def test_a_recording_answers_as_tsctl_does(self):
        names = ("processes", "kernels")
        for name, ours in zip(names, steps(f"open {RECORDING}", *(f"query {name}" for name in names))):
            theirs = subprocess.run([f"{BUILD}/tsctl", "query", name, "--file", RECORDING, "--json"], capture_output=True,
                                    text=True, check=True).stdout
            self.assertTrue(ours["rows"])
            self.assertEqual(ours["rows"], plain(json.loads(theirs)["rows"]))

    def test_bad_files(self):
        self.refused(UNAVAILABLE, "not an .sbt file", "open /etc/passwd")
        self.refused(UNAVAILABLE, "No such file", "open /nonexistent")
        self.refused(UNAVAILABLE, "Cannot run '/nonexistent'", f"open {RECORDING}", TRACESMITH_TSCTL="/nonexistent")
        self.refused(NOT_FOUND, "is not in this|has not used CUDA", f"open {RECORDING}", "query apis pid=1")


class Servers(Refusals):
    """On the socket is no daemon, or a hostile one."""

    @staticmethod
    def frame(message):
        return struct.pack("<I", len(message)) + message

    def serve(self, *answers, drop=b""):
        """A server that sends each of these once it is asked, then `drop` again and again, and waits for the client to go."""
        directory = tempfile.TemporaryDirectory()
        server = socket.socket(socket.AF_UNIX)
        path = os.path.join(directory.name, "socket")
        server.bind(path)
        server.listen()

        def answer():
            with server, server.accept()[0] as client:
                for words in answers:
                    client.recv(1 << 16)
                    client.sendall(words)
                with contextlib.suppress(ConnectionError):
                    while drop and (not select.select([client], [], [], 0.001)[0] or client.recv(1 << 16)):
                        client.sendall(drop)
                if answers and not drop:
                    client.shutdown(socket.SHUT_WR)
                while client.recv(1 << 16):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(directory.cleanup)
        self.addCleanup(thread.join)
        return f"connect {path}"

    def test_no_daemon(self):
        self.refused(NO_DAEMON, "No daemon listens on /nonexistent: start it", "connect /nonexistent")
        self.refused(NO_DAEMON, "No daemon listens on /run/none", "connect", TRACESMITH_SOCKET="/run/none")
        self.refused(NO_DAEMON, "Cannot connect", "connect /" + "x" * 200)

    def test_another_server(self):
        for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", self.frame(b"\xff\xff\xff\xff"), self.frame(b"\x08\1"), b"\2"):
            with self.subTest(words=words):
                self.refused(CONNECTION_LOST, "not tracesmithd|closed the connection", self.serve(words))

    def test_an_answer_that_does_not_fit(self):
        hello = self.frame(b"\x08\1\x1a\2\x08\1")
        column, row, done = b"\x2a\x05\x0a\x03\x0a\1a", b"\x32\2\x0a\0", b"\x42\0"
        reply = lambda *bodies: b"".join(self.frame(b"\x08\2" + body) for body in bodies)  # noqa: E731
        for answer in (reply(row), reply(column, row, done), reply(column, column), reply(b"\x4a\0"), reply(b""),
                       reply(column)[:-1]):
            with self.subTest(answer=answer):
                refused, after = steps(self.serve(hello, answer), "sql SELECT 1", "sql SELECT 2")
                self.assertEqual(refused["error"], CONNECTION_LOST, refused)
                self.assertEqual((after["error"], after["message"]), (BAD_REQUEST, "There is no connection"))
        good = b"\x32\x06\x0a\x04\x0a\2\x08\x0e"
        answered, = steps(self.serve(hello, reply(column, good, done)), "sql SELECT 7 AS a")
        self.assertEqual(answered["rows"], [{"a": 7}])
        said, = steps(self.serve(hello, reply(b"\x12\x06\x08\1\x12\2\x1b[")), "sql SELECT 1")
        self.assertEqual((said["error"], said["message"]), (BAD_REQUEST, "\N{REPLACEMENT CHARACTER}["))

    def test_silence(self):
        self.refused(TIMED_OUT, "does not answer", "timeout 1000000", self.serve())

    def test_drops(self):
        """However often there is a byte, or an answer to something else, the call ends."""
        hello = self.frame(b"\x08\1\x1a\2\x08\1")
        for start, drop in (struct.pack("<I", 60000), b"\1"), (b"", self.frame(b"\x08\x07\x1a\0")):
            with self.subTest(drop=drop):
                self.refused(TIMED_OUT, "does not answer in time", "timeout 20000000", self.serve(start, drop=drop))
                self.refused(TIMED_OUT, "does not answer in time", self.serve(hello + start, drop=drop), "timeout 20000000",
                             "status")


if __name__ == "__main__":
    e2e.main()
