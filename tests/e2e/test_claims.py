"""What a process claims of its stacks: it may name those that the kernel's programs have sent for it, and no others."""
import json
import os
import subprocess

import tracesmith
from tracesmith import BUILD, library, wait_for

CLAIMS = os.path.join(BUILD, "tests", "e2e", "e2e_claims")
LIBRARY = os.path.join(BUILD, "libtracesmith.so")
WIDTH = 77
NONE, BACKWARD = 1, 3  # enum ts_stub_role


def distance(one, other):
    """Of two functions of the library."""
    out = subprocess.run(["objdump", "-t", LIBRARY], capture_output=True, text=True, check=True).stdout
    at = {line.split()[-1]: int(line.split()[0], 16) for line in out.splitlines() if " F .text" in line}
    return at[other] - at[one]


class Claims(tracesmith.Case):
    settings = "[probe]\nring_size = 64MiB\nunwind = eh-frame\n"

    def start(self):
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(library()), "FAKE_CUDA_TIME_SCALE": "0",
                       "TRACESMITH_SOCKET": self.daemon.socket,
                       "TRACESMITH_INJECT_SOCKET": os.path.join(self.daemon.directory, "inject.sock")}
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "run", "--light", "--stacks", "all", "--", CLAIMS, library(),
                                    LIBRARY, str(distance("tracesmith_light", "light_stub"))],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        rows = lambda: json.loads(self.daemon.ctl("ps", "--json").out)["rows"]
        wait_for("light mode", lambda: [row for row in rows() if row["pid"] == process.pid and row["tier"] == "light"])
        return process

    def order(self, process, *words):
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def stacks(self, pid, width):
        """Stacks of such launches, oldest first; 0: none."""
        return [row["stack"] for row in self.daemon.sql("SELECT coalesce(stack, 0) AS stack FROM op WHERE kind = 'launch' AND"
                                                        f" pid = {pid} AND grid_x = {width} ORDER BY start_ns LIMIT 1000")]

    def wait_stacks(self, pid, width, count):
        wait_for(f"{count} launches", lambda: len(self.stacks(pid, width)) == count)
        return self.stacks(pid, width)

    def test_the_forward_pass_is_its_own(self):
        process = self.start()
        pid, fn = process.pid, self.daemon.sql("SELECT id FROM function WHERE name = 'cuLaunchKernel'")[0]["id"]
        self.order(process, "go", 100)
        forward = self.wait_stacks(pid, 1, 100)[-1]
        self.assertTrue(forward)
        # An id of no stack, and one of another process's stack.
        other = self.start()
        self.order(other, "go", 100)
        foreign = self.wait_stacks(other.pid, 1, 100)[-1]
        self.order(process, "claim", fn, NONE, 0)
        for claimed in (12345, foreign):
            self.order(process, "claim", fn, BACKWARD, claimed % 2**64)
        plain, *claims = self.wait_stacks(pid, WIDTH, 3)
        self.assertTrue(plain)
        self.assertEqual(claims, [plain, plain])
        self.order(process, "claim", fn, BACKWARD, forward % 2**64)
        joined = self.wait_stacks(pid, WIDTH, 4)[-1]
        self.assertEqual(self.daemon.sql(f"SELECT stack, forward FROM backward WHERE id = {joined}"),
                         [{"stack": plain, "forward": forward}])
        process.stdin.close()
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)


if __name__ == "__main__":
    tracesmith.main()
