"""Every probed function is counted exactly, with its errors, in each of several situations."""
import tracesmith
from tracesmith import run, wait_for, workload
from verified import load_ms, verified

# Instructions of a program that the kernel looks at: it refuses one at a million, and its versions differ.
VERIFIED_MAX = 400_000

# Older symbols of the same meaning, counted under the newer name; the _ptsz and _ptds forms are too.
OLDER = {
    "cuMemHostRegister": "cuMemHostRegister_v2", "cuEventDestroy": "cuEventDestroy_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2", "cuGraphInstantiate": "cuGraphInstantiate_v2",
    "cuCtxCreate": "cuCtxCreate_v2", "cuCtxDestroy": "cuCtxDestroy_v2", "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease": "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset": "cuDevicePrimaryCtxReset_v2",
}


def by_row(expected):
    """What the workload called, summed by the names that the daemon uses."""
    rows = {}
    for row in expected:
        if "fn" not in row:
            continue
        name = row["fn"]
        for suffix in ("_ptsz", "_ptds"):
            name = name.removesuffix(suffix)
        total = rows.setdefault(OLDER.get(name, name), {"calls": 0, "errors": {}})
        total["calls"] += row["calls"]
        for code, count in row["errors"].items():
            total["errors"][code] = total["errors"].get(code, 0) + count
    return rows


class Counts(tracesmith.Case):
    standing = ("lib", "lib2")
    # All calls have room, so that it does not matter how soon the daemon gets a processor.
    settings = "[probe]\nring_size = 64MiB\n"

    def check(self, process, expected):
        pid = process.pid
        self.daemon.wait_ended(pid)
        answer = self.daemon.answer("apis", "--pid", pid)
        seen = {row["fn"]: row for row in answer["rows"]}
        probed = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        want = {name: row for name, row in by_row(expected).items() if name in probed}
        self.assertGreater(len(want), 100)
        for name, row in want.items():
            self.assertIn(name, seen, f"{name} was called {row['calls']} times and not seen")
            self.assertEqual(seen[name]["calls"], row["calls"], f"{name}; loss {answer['loss']}")
        self.assertEqual(sorted(set(seen) - set(want)), [], "functions that nobody called")
        self.assert_nothing_lost(answer)
        self.check_errors(pid, want)

    def check_errors(self, pid, want):
        """Failed calls are counted by code, for functions whose return is watched."""
        watched = {row["fn"] for row in self.daemon.sql(
            f"SELECT DISTINCT fn FROM op JOIN process ON process.id = op.process WHERE process.pid = {pid} AND op.end_ns > 0")}
        seen = {}
        for row in self.daemon.query("errors", "--pid", pid):
            by_code = seen.setdefault(row["fn"], {})
            by_code[str(row["code"])] = by_code.get(str(row["code"]), 0) + row["calls"]
        for name, row in want.items():
            if name in watched:
                self.assertEqual(seen.get(name, {}), row.get("errors", {}), f"errors of {name}")

    def test_every_function(self):
        self.check(*run("counts"))
        # Here and on other kernels (test_kernels).
        taken = verified(self.daemon.process.pid)
        print(f"loaded within {load_ms(self.daemon.process.pid):.0f} ms, instructions: {taken}")
        self.assertLessEqual({"enter", "leave", "inside", "process_exec"}, set(taken))
        self.assertGreater(taken["enter"], 10_000)
        self.assertLessEqual(max(taken.values()), VERIFIED_MAX, taken)

    def test_second_copy_of_the_library(self):
        self.check(*run("counts", copy="lib2"))

    def test_both_copies_at_once(self):
        first, second = workload("counts", "--rounds", 3), workload("counts", "--rounds", 3, copy="lib2")
        for process in (first, second):
            out, _ = process.communicate(timeout=120)
            self.check(process, [tracesmith.json.loads(line) for line in out.splitlines() if line.startswith("{")])


class LetGo(tracesmith.Case):
    standing = ()

    def test_copy_that_nobody_maps_any_more_loses_its_probes(self):
        """Both a copy found when the daemon started and one that appeared later."""
        path = tracesmith.os.path.realpath(tracesmith.library("lib2"))
        for times in (1, 2):
            process = workload("leak", copy="lib2")
            wait_for("probes on the copy", lambda: self.daemon.log().count(f"functions of '{path}'") >= times)
            process.communicate("\n")
            wait_for("them to be gone", lambda: path not in self.daemon.ctl("status").out)


class StartedBefore(tracesmith.Case):
    standing = ()

    def test_process_started_before_the_daemon_and_copy_found_by_itself(self):
        """The library is known to nobody: the daemon finds it because a process maps it."""
        before = workload("rate", "--count", 5, "--hold")
        try:
            self.assertIn("ready", before.stdout.readline())
            daemon = tracesmith.Daemon(standing=())
            try:
                daemon.start()
                # Its path alone is in the status before they are there.
                wait_for("probes on the library", lambda: f"functions of '{tracesmith.os.path.realpath(tracesmith.library())}'" in daemon.log())
                process, expected = run("counts")
                daemon.wait_ended(process.pid)
                seen = {row["fn"]: row["calls"] for row in daemon.query("apis", "--pid", process.pid)}
                for name, row in by_row(expected).items():
                    if name in seen:
                        self.assertEqual(seen[name], row["calls"], name)
                self.assertGreater(len(seen), 100)
                # What ran before was not watched up to then, as soon as it is seen; what came after has none.
                before.stdin.write("\n")
                before.stdin.flush()
                wait_for("the older process", lambda: daemon.known(before.pid))
                self.assertGreaterEqual(daemon.answer("apis", "--pid", before.pid)["loss"].get("no-daemon", 0), 1)
                self.assertFalse({"gap", "no-daemon"} & set(daemon.answer("apis", "--pid", process.pid)["loss"]))
            finally:
                daemon.close()
        finally:
            before.kill()
            before.wait()


if __name__ == "__main__":
    tracesmith.main()
