"""The probes count right under Debian's other kernels, and an older one is refused with a message.

6.1 has no uprobe_multi (probes are attached the perf way). 6.12 has it, with links to single processes: there a
process that calls too often is left out, with the rights of the unit. Neither would end a program with a filter by
a return probe. Each kernel runs with another model of
preemption.
"""

import os
import shlex
import unittest

import tracesmith
import vm
from container import require

HERE, BUILD, SOURCE = map(shlex.quote, (os.path.dirname(os.path.abspath(__file__)), tracesmith.BUILD, tracesmith.SOURCE))
# Emulation is slow: give things the time.
COUNTS = f"""
export TS_BUILD={BUILD} TS_SOURCE={SOURCE} TS_DEADLINE=100
uname -rv
/usr/bin/python3 -B {HERE}/test_counts.py Counts.test_every_function &&
/usr/bin/python3 -B {HERE}/test_returns.py Probed.test_the_trial_is_passed_and_leaves_nothing &&
/usr/bin/python3 -B {HERE}/test_hooked.py $HOOKED &&
/usr/bin/python3 -B {HERE}/test_cost.py Calibration.test_hot_and_cold || exit 1
"""
ONE_LINK, SINGLE_LINKS = "export HOOKED=OneLinkForAll", "export HOOKED=Hooked.test_daemon_starts"
FLOOD = f"""
/usr/bin/python3 -B {HERE}/test_flood.py Flood.test_a_flood_of_allocations
"""
REFUSED = f"""
uname -r
mkdir /run/ts
{BUILD}/tracesmithd --socket /run/ts/control.sock --state-dir /run/ts 2>&1 |
	sed 's/^/said: /'
echo "ended with: ${{PIPESTATUS[0]}}"
"""


class Kernels(unittest.TestCase):
    def boot(self, suite, command, options=""):
        try:
            return vm.boot(suite, command, options=options)
        except vm.NoKernel as reason:
            self.skipTest(str(reason))

    def test_counts_on_6_1(self):
        status, output = self.boot("bookworm", ONE_LINK + COUNTS, "preempt=voluntary")
        self.assertRegex(output, r"(?m)^6\.1\.")
        self.assertEqual(status, 0, output)

    def test_counts_on_6_12(self):
        status, output = self.boot("bookworm-backports", SINGLE_LINKS + COUNTS + FLOOD, "preempt=full")
        self.assertRegex(output, r"(?m)^6\.12\.")
        self.assertEqual(status, 0, output)

    def test_5_10_is_refused_in_one_sentence(self):
        _, output = self.boot("bullseye", REFUSED)
        self.assertRegex(output, r"(?m)^5\.10\.")
        said = [line for line in output.splitlines() if line.startswith("said: ")]
        self.assertEqual(len(said), 1, output)
        self.assertRegex(said[0], r"5\.15")
        self.assertIn("ended with: 1", output)


if __name__ == "__main__":
    require("qemu-system-x86_64", "busybox", "cpio", "modprobe", "depmod", "xz")
    tracesmith.main()
