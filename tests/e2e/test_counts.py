"""Every probed function is counted exactly, with its errors, in each of several situations."""
import tracesmith
from tracesmith import run, wait_for, workload


class Counts(tracesmith.Case):
    standing = ("lib", "lib2")

    def check(self, process, expected):
        pid = process.pid
        self.daemon.wait_ended(pid)
        answer = self.daemon.answer("apis", "--pid", pid)
        seen = {row["fn"]: row for row in answer["rows"]}
        want = {row["fn"]: row for row in expected if "fn" in row}
        self.assertGreater(len(want), 100)
        probed = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        for name, row in want.items():
            if name not in probed:
                continue
            self.assertIn(name, seen, f"{name} was called {row['calls']} times and not seen")
            self.assertEqual(seen[name]["calls"], row["calls"], name)
        self.assertEqual(sorted(set(seen) - set(want)), [], "functions that nobody called")
        self.assert_nothing_lost(answer)
        self.check_errors(pid, want)

    def check_errors(self, pid, want):
        """Failed calls are counted by code, for functions whose return is watched."""
        watched = {row["fn"] for row in self.daemon.sql(
            f"SELECT DISTINCT fn FROM op JOIN process ON process.id = op.process WHERE process.pid = {pid} AND op.end_ns > 0")}
        seen = {}
        for row in self.daemon.query("errors", "--pid", pid):
            seen.setdefault(row["fn"], {})[str(row["result"])] = row["calls"]
        for name, row in want.items():
            if name in watched:
                self.assertEqual(seen.get(name, {}), row.get("errors", {}), f"errors of {name}")

    def test_every_function(self):
        self.check(*run("counts"))

    def test_second_copy_of_the_library(self):
        self.check(*run("counts", copy="lib2"))

    def test_both_copies_at_once(self):
        first, second = workload("counts", "--rounds", 3), workload("counts", "--rounds", 3, copy="lib2")
        for process in (first, second):
            out, _ = process.communicate(timeout=60)
            self.check(process, [tracesmith.json.loads(line) for line in out.splitlines() if line.startswith("{")])


class StartedBefore(tracesmith.Case):
    standing = ()

    def test_process_started_before_the_daemon_and_copy_found_by_itself(self):
        """The library is known to nobody: the daemon finds it because a process maps it."""
        before = workload("leak")
        try:
            daemon = tracesmith.Daemon(standing=())
            try:
                daemon.start()
                wait_for("probes on the library", lambda: tracesmith.library() in daemon.ctl("status").out)
                process, expected = run("counts")
                daemon.wait_ended(process.pid)
                seen = {row["fn"]: row["calls"] for row in daemon.query("apis", "--pid", process.pid)}
                for row in expected:
                    if row.get("fn") in seen:
                        self.assertEqual(seen[row["fn"]], row["calls"], row["fn"])
                self.assertGreater(len(seen), 100)
            finally:
                daemon.close()
        finally:
            before.communicate("\n")


if __name__ == "__main__":
    tracesmith.main()
