"""A planted leak is found by function, bytes and count, and nothing else is reported."""
import json
import os
import signal
import subprocess

import tracesmith
from tracesmith import wait_for, workload


def read_until(process, key):
    """Reads the workload's lines up to the one that has `key`."""
    for line in process.stdout:
        if line.startswith("{") and key in json.loads(line):
            return json.loads(line)
    raise AssertionError(f"the workload ended without '{key}'")


class Leaks(tracesmith.Case):
    def leaks(self, pid, *arguments):
        return self.daemon.query("leaks", "--pid", pid, *arguments)

    def test_planted_leak_and_nothing_else(self):
        process = workload("leak")
        want = read_until(process, "leak")
        pid = process.pid
        wait_for("all calls", lambda: self.daemon.apis(pid).get("cuStreamDestroy_v2", {}).get("calls") == 2)
        rows = self.leaks(pid, "--min-age", "0s")
        self.assertEqual([sum(row[of] for row in rows) for of in ("bytes", "count", "allocations", "frees")],
                         [want["bytes"], want["count"], want["count"], 0])
        for row in rows:
            self.assertEqual(row["fn"], "cuMemAlloc_v2")
            self.assertEqual(row["stack"][0].split("+")[0], want["leak"], "the innermost frame")
        # Others are those for which nobody had the time to walk to the end.
        row, = [row for row in rows if row["stack_end"] == "complete"]
        names = [frame.split("+")[0] for frame in row["stack"]]
        self.assertIn("train_step", names)
        self.assertIn("main", names)
        process.communicate("\n")
        self.daemon.wait_ended(pid)
        self.assertEqual(self.leaks(pid, "--min-age", "0s"), [], "a process that has ended holds nothing")

    def test_nothing_in_a_clean_program(self):
        """Frees by other threads, through other families of calls, and of reused addresses match."""
        process = workload("leak", "--clean")
        read_until(process, "leak")
        wait_for("all calls", lambda: self.daemon.apis(process.pid).get("cuStreamDestroy_v2", {}).get("calls") == 2)
        answer = self.daemon.answer("leaks", "--pid", process.pid, "--min-age", "0s")
        self.assertEqual(answer["rows"], [])
        self.assert_nothing_lost(answer)
        self.assertEqual(sum(row["live_bytes"] for row in self.daemon.query("memory", "--pid", process.pid)), 0)
        process.communicate("\n")

    def test_leak_is_visible_once_it_is_old_enough(self):
        process = workload("leak", "--steps", 11)
        want = read_until(process, "leak")
        wait_for("the leak", lambda: sum(row["count"] for row in self.leaks(process.pid, "--min-age", "1s")) == want["count"])
        process.communicate("\n")


class OtherNamespace(tracesmith.Case):
    standing = ()

    def test_target_in_its_own_mount_and_pid_namespace(self):
        """Its copy of the library has a path that exists for it alone, and it is gone when asked for."""
        script = ('mount -t tmpfs none /mnt && mkdir /mnt/gpu && cp "$1" /mnt/gpu/ && cp "$2" /mnt/job && '
                  'LD_LIBRARY_PATH=/mnt/gpu exec /mnt/job --seconds 600 --leak-every 5 --pace-ms 5')
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "job", tracesmith.library(),
             tracesmith.workload_path("leak")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, FAKE_CUDA_TIME_SCALE="0"), start_new_session=True)
        self.addCleanup(lambda: (os.killpg(process.pid, signal.SIGKILL), process.communicate()))
        want = read_until(process, "leak")
        row = wait_for("the process", lambda: [p for p in self.daemon.query("processes") if p["ns_pid"] != p["pid"]])[0]
        self.assertEqual(row["ns_pid"], want["pid"], "its pid as it sees it")
        # The probes came when the library was mapped, so calls before that may be missing, and that is told.
        leak = wait_for("the leak", lambda: self.leaks_of(row["pid"]))
        self.assertEqual(leak["stack"][0].split("+")[0], "leaky_cache_insert")
        self.assertLessEqual(leak["count"], want["count"])

    def leaks_of(self, pid):
        for row in self.daemon.query("leaks", "--pid", pid, "--min-age", "0s"):
            if row["stack"] and row["stack"][0].startswith("leaky"):
                return row
        return None


if __name__ == "__main__":
    tracesmith.main()
