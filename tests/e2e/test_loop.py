#!/usr/bin/python3
"""The daemon's loop never blocks: with a name service that takes six seconds to answer, a libcuda on a
disk that takes six seconds, and a kernel that takes six seconds to take probes off, it goes on, and what
was missed meanwhile is reported. A daemon that stops waits for none of them for long."""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import tracesmith
from tracesmith import wait_for, workload

SLOW = tracesmith.preloadable(os.path.join(tracesmith.BUILD, "tests", "e2e", "libe2e_slow.so"))
# Any of the delays in the loop makes a turn of six seconds. On a busy machine a turn may take some
# because the thread does not get a processor; what it computes itself stays below this.
LONGEST_US, LONGEST_CPU_US = 5900000, 100000
FOREVER_S = 600


class Loop(tracesmith.Case):
    def setUp(self):
        pass  # each test starts its own

    def start(self, *prefix, standing=()):
        self.daemon = tracesmith.Daemon(standing=standing)
        self.addCleanup(self._close)
        self.daemon.start(prefix=prefix)

    def start_slow(self, standing=(), links_s=6):
        self.start("env", f"LD_PRELOAD={SLOW}", f"TS_SLOW_LINKS={links_s}", standing=standing)

    def test_who_was_not_looked_at_yet_may_be_missing_and_that_is_said(self):
        directory = tempfile.mkdtemp(prefix="tracesmith-loop-")
        self.addCleanup(shutil.rmtree, directory)
        fifo, slow = os.path.join(directory, "fifo"), shutil.copy("/usr/bin/sleep", os.path.join(directory, "slow-to-map"))
        os.mkfifo(fifo)
        process = subprocess.Popen([slow, "inf"])
        self.addCleanup(lambda: (process.kill(), process.wait()))
        self.start("env", f"LD_PRELOAD={SLOW}", f"TS_SLOW_MAPS={fifo}", "TRACESMITH_PATIENCE=20")

        def said():
            return [self.daemon.ctl(*verb).err for verb in (("query", "apis", "--pid", process.pid), ("query", "leaks", "--pid", process.pid))]
        wait_for("all but that one to be looked at", lambda: all("tracesmithd, 1 to go" in each
                                                                for each in said()))
        writer = os.open(fifo, os.O_RDWR)  # ends all waiting
        self.addCleanup(os.close, writer)
        wait_for("all to be looked at", lambda: not any("still looking" in each for each in said()))

    def figure(self, name):
        rows = self.daemon.ctl("status", "--json")
        return next(row["number"] for row in tracesmith.json.loads(rows.out)["rows"] if row["name"] == name)

    def assert_never_held_up(self):
        self.assertLess(self.figure("loop_longest_us"), LONGEST_US)
        self.assertLess(self.figure("loop_longest_cpu_us"), LONGEST_CPU_US)

    def attached(self):
        return self.attachments() > 0

    def attachments(self):
        return len(re.findall(f"Attached to .*'{re.escape(os.path.realpath(tracesmith.library()))}'", self.daemon.log()))

    def test_a_slow_name_service_disk_and_kernel_hold_up_nothing(self):
        self.start_slow()
        copy = os.path.realpath(tracesmith.library())
        process = workload("rate", "--count", 5, "--hold")
        try:
            wait_for("probes on the library", lambda: copy in self.daemon.ctl("status").out)
            process.stdin.write("\n")
            process.stdin.flush()
            wait_for("the process", lambda: self.daemon.known(process.pid))
            wait_for("the gap until the probes were on", lambda: self.daemon.sql(
                "SELECT 1 FROM loss l JOIN loss_reason r ON r.id = l.reason JOIN process p ON p.id = l.process"
                f" WHERE r.name = 'gap' AND p.pid = {process.pid} AND l.end_ns - l.start_ns >= 5900000000"))
            user = pwd.getpwuid(os.geteuid()).pw_name
            wait_for("the name of its user", lambda: self.daemon.sql(
                f"SELECT 1 FROM process WHERE pid = {process.pid} AND user = '{user}'"))
            attached = self.daemon.ctl_again("attach", process.pid)
            self.assertEqual(attached.code, 0, attached.err)
        finally:
            process.kill()
            process.communicate()
        wait_for("the library to be given up", lambda: "taking its probes off" in self.daemon.log())
        self.assert_never_held_up()

    def test_what_a_slow_start_misses_is_told(self):
        """Until the probes are on, not only until the daemon runs."""
        process = workload("rate", "--count", 5, "--hold")
        self.addCleanup(self.end, process)
        begin = time.monotonic_ns()
        self.start_slow(standing=("lib",), links_s=0)
        process.stdin.write("\n")
        process.stdin.flush()
        wait_for("the process", lambda: self.daemon.known(process.pid))
        [row] = self.daemon.sql("SELECT max(l.end_ns) AS ns FROM loss l JOIN loss_reason r ON r.id = l.reason JOIN process p ON p.id = l.process"
                                f" WHERE r.name IN ('gap', 'no-daemon') AND p.pid = {process.pid}")
        self.assertGreaterEqual(row["ns"] - begin, 5900000000)

    def test_settings_are_reread_beside_it(self):
        self.start_slow()
        user = pwd.getpwuid(os.geteuid()).pw_name
        with open(self.daemon.config, "w") as file:
            file.write(f"[probe]\nstanding = {tracesmith.pattern(tracesmith.library())}\n"
                       f"[filter]\nuids = {user}\n")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.ctl("status")
        # And another one while the first is under way.
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for("the settings to be read twice", lambda: self.daemon.log().count("Reread '") == 2)
        self.assertIn("only processes of 1 user", self.daemon.ctl("status").out)
        wait_for("probes on the library", self.attached)
        self.assertEqual(self.attachments(), 1)
        self.assert_never_held_up()

    def test_a_service_manager_that_does_not_read_is_not_waited_for(self):
        path = os.path.join(tempfile.mkdtemp(prefix="tracesmith-notify-"), "socket")
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.settimeout(tracesmith.DEADLINE)
        os.chmod(os.path.dirname(path), 0o755)
        os.chmod(path, 0o666)  # as systemd's
        self.start("sh", "-c", f'NOTIFY_SOCKET={path} WATCHDOG_USEC=100000 WATCHDOG_PID=$$ exec "$@"', "sh")
        self.assertEqual(manager.recv(100), b"READY=1")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as filler:
            with self.assertRaises(BlockingIOError):
                while True:
                    filler.sendto(b"full", path)
        full_ns = self.figure("running_ns")
        wait_for("ten times the watchdog", lambda: self.figure("running_ns") > full_ns + 1000000000)
        self.assert_never_held_up()
        # STOPPING=1 waits for room.
        manager.close()

    def test_it_stops_although_probes_stay_on(self):
        self.start_slow(standing=("lib",), links_s=FOREVER_S)
        process = workload("rate", "--count", 5)
        process.communicate("\n")
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.daemon.stop(), 0, self.daemon.log())

    def test_it_stops_while_it_attaches(self):
        self.start_slow()
        process = workload("rate", "--count", 5, "--hold")
        try:
            wait_for("the library to be read", lambda: "slow to read a libcuda" in self.daemon.log())
            self.assertEqual(self.daemon.stop(), 0, self.daemon.log())
        finally:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    tracesmith.main()
