"""What processes can do to the daemon that watches them: nobody makes it wait, nobody makes it miss others."""
import json
import os
import subprocess
import tempfile

import tracesmith
from test_counts import by_row
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

    def release(self, process):
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0)

    def ctl_soon(self, *arguments):
        result = self.daemon.ctl(*arguments)
        self.assertEqual(result.code, 0, f"{arguments}: {result.err}")
        return result

    def test_nobody_waits_for_it(self):
        held = [self.hold(), self.hold(), self.hold()]
        self.ctl_soon("status")
        other, expected = tracesmith.run("counts")
        self.ctl_soon("ps")
        self.daemon.wait_ended(other.pid)
        apis = self.daemon.apis(other.pid)
        want = by_row(expected)
        for name in ("cuMemAlloc_v2", "cuMemFree_v2", "cuStreamSynchronize"):
            self.assertEqual(apis[name]["calls"], want[name]["calls"])
        stacks = self.daemon.query("launches", "--pid", other.pid)
        self.assertTrue(any("counts" in json.dumps(row) for row in stacks), stacks)
        row = self.daemon.sql(f"SELECT command FROM process WHERE pid = {other.pid}")
        self.assertIn("counts", row[0]["command"])
        wait_for("a word about it", lambda: "lets nobody look into its memory" in self.daemon.log())
        for process in held:
            self.release(process)


if __name__ == "__main__":
    tracesmith.main()
