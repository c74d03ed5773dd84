"""A daemon that listens and does not answer: tsctl says so and gives up. One that only takes long is waited for."""
import concurrent.futures
import os
import signal
import socket
import subprocess
import tempfile
import unittest

import tracesmith
from foreign import ENDLESS
from tracesmith import BUILD, wait_for

WAITS = "{} does not answer; waiting"
GIVES_UP = ("{} has not answered for 10 s: see 'systemctl status tracesmithd' and its log, and restart it with "
            "'systemctl restart tracesmithd'")
# Each verb that asks the daemon.
VERBS = (["status"], ["status", "--check"], ["ps"], ["top", "--json"], ["attach", "1"], ["detach", "1"], ["cost"],
         ["budget", "1", "5%"], ["stack", "1"], ["query", "list"], ["query", "kernels"], ["oom"], ["oom", "show", "1"],
         ["sql", "SELECT 1"], ["record", "--all", "-o", "-"], ["record", "-o", "/dev/null", "--", "true"], ["view"], ["graph", "--json"],
         ["export", "--csv", "-o", "-"], ["report", "1", "-o", "-"], ["plot", "busy", "-o", "-"], ["replay"], ["version"])


def tsctl(path, arguments, **options):
    return tracesmith.Result(subprocess.run([os.path.join(BUILD, "tsctl"), "--socket", path, *arguments], capture_output=True,
                                            text=True, timeout=300, stdin=subprocess.DEVNULL, **options))


class NoDaemon(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = os.path.join(self.directory.name, "control.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        self.listener.bind(self.path)

    def assert_gave_up(self, result, who, arguments=("status",)):
        check = "--check" in arguments
        self.assertEqual(result.code, 2 if check else 1, result.err)
        lines = [line.removeprefix("tsctl: ") for line in result.err.splitlines()]
        self.assertEqual(lines, [WAITS.format(who), GIVES_UP.format(who)])

    def test_no_verb_waits_for_ever(self):
        self.listener.listen(2 * len(VERBS))
        with concurrent.futures.ThreadPoolExecutor(len(VERBS)) as threads:
            results = list(threads.map(lambda arguments: tsctl(self.path, arguments), VERBS))
        for arguments, result in zip(VERBS, results):
            with self.subTest(arguments=arguments):
                self.assert_gave_up(result, f"tracesmithd ({os.getpid()})", arguments)

    def test_no_place_to_wait_in(self):
        self.listener.listen(0)
        with socket.socket(socket.AF_UNIX) as only:
            only.connect(self.path)
            self.assert_gave_up(tsctl(self.path, ["status"]), f"tracesmithd on {self.path}")

    def test_one_that_goes_on_is_heard(self):
        """What it says late is an answer all the same."""
        self.listener.listen(1)
        with subprocess.Popen([os.path.join(BUILD, "tsctl"), "--socket", self.path, "status"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
            self.assertIn("waiting", asking.stderr.readline())
            client = self.listener.accept()[0]
            client.recv(1 << 16)
            client.sendall(b"\4\0\0\0\x08\1\x1a\0")  # a hello
            client.recv(1 << 16)
            client.close()
            self.assertIn("closed the connection", asking.communicate()[1])


class Stopped(tracesmith.Case):
    def test_a_daemon_that_was_stopped(self):
        asking = self.ask_for_long()
        self.daemon.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.daemon.process.send_signal, signal.SIGCONT)
        who = f"tracesmithd ({self.daemon.process.pid})"
        for err in tsctl(self.daemon.socket, ["status"]).err, asking.communicate()[1]:
            self.assertEqual(err, f"tsctl: {WAITS.format(who)}\ntsctl: {GIVES_UP.format(who)}\n")
        self.assertEqual(asking.returncode, 1)

    def ask_for_long(self):
        """For longer than a silent daemon is waited for."""
        asking = subprocess.Popen([os.path.join(BUILD, "tsctl"), "--socket", self.daemon.socket, "sql", "--timeout", "15s",
                                   ENDLESS + "SELECT count(*) FROM n"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (asking.kill(), asking.communicate()))
        wait_for("the query to run", lambda: "1 running" in self.daemon.ctl("status").out)
        return asking

    def test_a_long_query_is_waited_for(self):
        asking = self.ask_for_long()
        self.assertRegex(asking.communicate()[1], r"^tsctl: The (query|statement) took too long.*\n$")
        self.assertEqual(asking.returncode, 1)


if __name__ == "__main__":
    tracesmith.main()
