"""What processes can do to the daemon that watches them: nobody makes it wait, nobody makes it miss others."""
import os
import subprocess
import tempfile
import time

import tracesmith
from tracesmith import wait_for

HOLD = os.path.join(tracesmith.BUILD, "tests", "e2e", "e2e_hold")


class Held(tracesmith.Case):
    """A process holds the lock of its own memory, and says hello."""

    def hold(self, *arguments):
        directory = tempfile.mkdtemp(prefix="tracesmith-hold-")
        self.addCleanup(os.rmdir, directory)
        process = subprocess.Popen([HOLD, directory, os.path.join(self.daemon.directory, "inject.sock"), *map(str, arguments)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        if not line and process.wait() == tracesmith.SKIP:
            self.skipTest("no FUSE here")
        self.assertEqual(line, "held\n")
        return process

    def test_the_others_are_watched(self):
        held = self.hold()
        begin = time.monotonic()
        self.daemon.ctl("status")
        print("status took", time.monotonic() - begin)
        other, counts = tracesmith.run("counts")
        self.daemon.wait_ended(other.pid)
        print("ended after", time.monotonic() - begin)
        held.stdin.close()
        held.stdin = None
        self.assertEqual(held.wait(20), 0)


if __name__ == "__main__":
    tracesmith.main()
