"""What cannot be done is told in one sentence, with the exit status, and harms nobody else."""
import os
import socket
import struct
import subprocess
import time
import unittest

import tracesmith
from tracesmith import BUILD, run, wait_for, workload

NOBODY = 65534


def tsctl(*arguments, **options):
    return tracesmith.Result(subprocess.run([os.path.join(BUILD, "tsctl"), *arguments], capture_output=True, text=True,
                                            timeout=60, **options))


def daemon_run(*arguments, **options):
    return tracesmith.Result(subprocess.run([os.path.join(BUILD, "tracesmithd"), *arguments], capture_output=True,
                                            text=True, timeout=60, **options))


class Sentences(tracesmith.Case):
    def refused(self, result, code, *words):
        self.assertEqual(result.code, code, result.err)
        self.assertEqual(result.out, "")
        self.assertEqual(len(result.err.strip().splitlines()), 1, result.err)
        for word in words:
            self.assertIn(word, result.err)

    def test_unknown_pid(self):
        for query in ("apis", "leaks", "memory", "states"):
            self.refused(self.daemon.ctl("query", query, "--pid", "999999"), 1, "999999")
        self.refused(self.daemon.ctl("export", "--perfetto", "--pid", "999999", "-o", "/dev/null"), 1, "999999")

    def test_process_without_cuda(self):
        self.refused(self.daemon.ctl("query", "apis", "--pid", str(os.getpid())), 1, str(os.getpid()))

    def test_unknown_query_names_the_near_one(self):
        self.refused(self.daemon.ctl("query", "leak"), 1, "leaks")

    def test_usage(self):
        for arguments in (["nonsense"], ["query"], ["query", "apis", "--since", "yesterday"], ["query", "apis", "--pid", "x"],
                          ["sql"], ["export", "--perfetto"], ["status", "extra"]):
            result = self.daemon.ctl(*arguments)
            self.assertEqual(result.code, 2, arguments)
            self.assertNotEqual(result.err, "", arguments)

    def test_sql_that_may_not(self):
        for text in ("DELETE FROM process", "SELEC 1", "ATTACH '/etc/passwd' AS p", "SELECT 1; SELECT 2",
                     "PRAGMA journal_mode = delete", "SELECT load_extension('x')", "SELECT * FROM nowhere"):
            self.refused(self.daemon.ctl("sql", text), 1)
        self.assertEqual(self.daemon.ctl("sql", "SELECT 1").code, 0)

    def test_sql_that_never_ends_is_ended(self):
        begin = time.monotonic()
        text = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
        self.refused(self.daemon.ctl("sql", "--timeout", "1s", text), 1)
        self.assertLess(time.monotonic() - begin, 10)

    def test_no_daemon(self):
        self.refused(tsctl("status", "--socket", "/tmp/no-such-tracesmith.sock"), 1, "/tmp/no-such-tracesmith.sock",
                     "systemctl start tracesmithd")

    def test_user_without_the_rights(self):
        os.chmod(self.daemon.directory, 0o755)
        self.refused(tsctl("status", "--socket", self.daemon.socket, user=NOBODY), 1, "group")
        os.chmod(self.daemon.socket, 0o666)
        self.refused(tsctl("status", "--socket", self.daemon.socket, user=NOBODY), 1, "group")

    def test_second_daemon_on_the_state_directory(self):
        second = daemon_run("--config", self.daemon.config, "--socket", "/tmp/tracesmith-second.sock", "--state-dir",
                            self.daemon.directory)
        self.assertEqual(second.code, 1)
        self.assertIn(f"Another tracesmithd uses '{self.daemon.directory}'", second.err)

    def test_second_daemon_on_the_socket(self):
        other = tracesmith.tempfile.mkdtemp()
        self.addCleanup(tracesmith.shutil.rmtree, other)
        second = daemon_run("--config", self.daemon.config, "--socket", self.daemon.socket, "--state-dir", other)
        self.assertEqual(second.code, 1)
        self.assertIn(self.daemon.socket, second.err)
        self.assertEqual(self.daemon.ctl("status").code, 0, "the first one goes on")

    def test_output_to_a_closed_pipe(self):
        run("short")
        shell = f"{BUILD}/tsctl query list --socket {self.daemon.socket} | true"
        result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")


class DaemonRefuses(unittest.TestCase):
    def test_settings(self):
        path = "/tmp/tracesmith-bad.conf"
        with open(path, "w") as file:
            file.write("[probe]\nring_size = many\n")
        self.addCleanup(os.unlink, path)
        result = daemon_run("--config", path, "--check-config")
        self.assertEqual(result.code, 1)
        self.assertIn("ring_size", result.err)
        self.assertEqual(daemon_run("--config", "/nonexistent.conf").code, 1)

    def test_without_the_rights(self):
        directory = tracesmith.tempfile.mkdtemp()
        self.addCleanup(tracesmith.shutil.rmtree, directory)
        os.chown(directory, NOBODY, -1)
        result = daemon_run("--state-dir", directory, "--socket", directory + "/s", user=NOBODY, group=NOBODY)
        self.assertEqual(result.code, 1)
        self.assertIn("root", result.err)

    def test_damaged_database(self):
        daemon = tracesmith.Daemon()
        self.addCleanup(daemon.close)
        with open(daemon.database, "wb") as file:
            file.write(os.urandom(100000))
        result = daemon_run("--config", daemon.config, "--socket", daemon.socket, "--state-dir", daemon.directory)
        self.assertEqual(result.code, 1)
        self.assertIn(daemon.database, result.err)
        self.assertEqual(os.path.getsize(daemon.database), 100000, "it is left as it is")


class BadClients(tracesmith.Case):
    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.daemon.socket)
        client.settimeout(20)
        self.addCleanup(client.close)
        return client

    def closed(self, client):
        """The daemon says what it has to say and hangs up."""
        try:
            while client.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def still_well(self):
        begin = time.monotonic()
        self.assertEqual(self.daemon.ctl("query", "processes").code, 0)
        self.assertLess(time.monotonic() - begin, 5)

    def test_garbage_and_huge_lengths(self):
        for data in (b"\xff" * 4096, b"GET / HTTP/1.1\r\n\r\n", struct.pack("<I", 0xffffffff), struct.pack("<I", 1 << 30),
                     struct.pack("<I", 8) + b"\xff" * 8, struct.pack("<I", 0)):
            client = self.connect()
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            self.assertTrue(self.closed(client))
        self.still_well()

    def test_half_messages(self):
        clients = [self.connect() for _ in range(10)]
        for client in clients:
            client.sendall(struct.pack("<I", 100) + b"half")
        self.still_well()
        for client in clients:
            self.assertTrue(self.closed(client), "a half message is not waited for without end")

    def test_many_idle_connections(self):
        clients = []
        for _ in range(200):
            try:
                clients.append(self.connect())
            except OSError:
                break
        result = self.daemon.ctl("status")
        if result.code:  # all of one user's places are taken: that is told, and others still have theirs
            self.assertEqual(len(result.err.strip().splitlines()), 1)
        for client in clients:
            client.close()
        wait_for("room again", lambda: self.daemon.ctl("status").code == 0)

    def test_slow_reader(self):
        rate = workload("rate", "--kind", "mixed", "--rate", "100000", "--seconds", "5")
        rate.communicate()
        slow = subprocess.Popen([os.path.join(BUILD, "tsctl"), "sql", "SELECT * FROM op", "--socket", self.daemon.socket],
                                stdout=subprocess.PIPE)
        self.addCleanup(lambda: (slow.kill(), slow.communicate()))
        for _ in range(10):
            self.still_well()
        with open(f"/proc/{self.daemon.process.pid}/statm") as file:
            resident = int(file.read().split()[1]) * 4096
        self.assertLess(resident, 200 << 20)


if __name__ == "__main__":
    tracesmith.main()
