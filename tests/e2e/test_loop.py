#!/usr/bin/python3
"""The daemon's loop never blocks: with a name service that takes two seconds to answer, and a libcuda on a
disk that takes two seconds, it goes on, and what was missed meanwhile is reported."""

import os
import pwd

import tracesmith
from tracesmith import wait_for, workload

SLOW = os.path.join(tracesmith.BUILD, "tests", "e2e", "libe2e_slow.so")
# Either delay in the loop makes a turn of two seconds. Beside other busy programs a turn may take some
# hundred milliseconds because the thread does not get a processor; what it computes itself stays below this.
LONGEST_US, LONGEST_CPU_US = 1000000, 20000


class Loop(tracesmith.Case):
    def setUp(self):
        self.daemon = tracesmith.Daemon(standing=())
        self.addCleanup(self._close)
        self.daemon.start(prefix=("env", f"LD_PRELOAD={SLOW}"))

    def figure(self, name):
        rows = self.daemon.ctl("status", "--json")
        return next(row["number"] for row in tracesmith.json.loads(rows.out)["rows"] if row["name"] == name)

    def test_a_slow_name_service_and_a_slow_disk_hold_up_nothing(self):
        copy = os.path.realpath(tracesmith.library())
        process = workload("rate", "--count", 5, "--hold")
        try:
            wait_for("probes on the library", lambda: copy in self.daemon.ctl("status").out)
            process.stdin.write("\n")
            process.stdin.flush()
            wait_for("the process", lambda: self.daemon.known(process.pid))
            wait_for("the gap until the probes were on", lambda: self.daemon.sql(
                "SELECT 1 FROM loss l JOIN loss_reason r ON r.id = l.reason JOIN process p ON p.id = l.process"
                f" WHERE r.name = 'gap' AND p.pid = {process.pid} AND l.end_ns - l.start_ns >= 1900000000"))
            user = pwd.getpwuid(os.geteuid()).pw_name
            wait_for("the name of its user", lambda: self.daemon.sql(
                f"SELECT 1 FROM process WHERE pid = {process.pid} AND user = '{user}'"))
        finally:
            process.kill()
            process.communicate()
        self.assertLess(self.figure("loop_longest_us"), LONGEST_US)
        self.assertLess(self.figure("loop_longest_cpu_us"), LONGEST_CPU_US)


if __name__ == "__main__":
    tracesmith.main()
