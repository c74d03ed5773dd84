"""GPU time by call stack: a sample of stacks gives about the same result as all of them, and says that it is an estimate."""
import gzip
import json
import os
import subprocess
import tempfile

import tracesmith
from tracesmith import BUILD, library, wait_for, workload_path

PATHS = ("forward", "backward", "update", "replay", "seldom")
SAMPLES = 500  # a second and thread
TOLERANCE = 0.08  # of all: about four standard deviations of the largest share
NOTE = "'tsctl run --stacks all' takes all of them"
# Below the directory that it was compiled in: that of another checkout, if a compiler cache has it from there.
PATHS_SOURCE = "/tests/fake/workload/paths.c"


def line_of(text):
    """The number of the line of the workload that has this first."""
    with open(tracesmith.SOURCE + PATHS_SOURCE) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


# Whatever the workload does while the daemon does not get to run has room: 131,072 records are the most for one process.
RINGS = "[exact]\nring_records = 131072\n[probe]\nring_size = 64MiB\n"


class Stacks(tracesmith.Case):
    settings = RINGS + f"launch_stacks = {SAMPLES}"

    def launch(self):
        self.daemon.start(prefix=["env", "TRACESMITH_PATIENCE=20"])  # a stack that is not found in time is cut

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="tracesmith-stacks-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def tsctl(self, *arguments):
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket, FAKE_CUDA_TIME_SCALE="1",
                           LD_LIBRARY_PATH=os.path.dirname(library()))
        result = tracesmith.Result(subprocess.run([os.path.join(BUILD, "tsctl"), *map(str, arguments)], text=True,
                                                  env=environment, capture_output=True, timeout=120))
        self.assertEqual(result.code, 0, result.err)
        return result

    def run_paths(self, *options, rounds=2000):
        """Its pid, with all that it did in the store."""
        result = self.tsctl("run", *options, "--", workload_path("paths"), "--rounds", rounds)
        pid = next(json.loads(line)["pid"] for line in result.out.splitlines() if '"rounds"' in line)
        self.daemon.wait_ended(pid)
        wait_for("its kernels", lambda: sum(row["count"] for row in self.daemon.query("kernels", "--pid", pid))
                 >= 12 * rounds + rounds // 50)
        return pid

    def shares(self, *options):
        """The part of the GPU time that each path has, the others' name being "", and what was said beside."""
        result = self.tsctl("export", "--folded", "-o", "-", *options)
        time = dict.fromkeys((*PATHS, ""), 0)
        for line in result.out.splitlines():
            stack, us = line.rsplit(" ", 1)
            time[next((path for path in PATHS if f";{path};" in stack), "")] += int(us)
        return {path: us / sum(time.values()) for path, us in time.items()}, result.err

    def assert_alike(self, estimated, true):
        for path, share in true.items():
            self.assertAlmostEqual(estimated[path], share, delta=TOLERANCE, msg=f"{path}: {estimated} for {true}")

    def kernels(self, pid):
        """The nanoseconds of each kernel by path, and how many of the launches were sampled."""
        time, rows = {}, self.daemon.query("kernels", "--by-stack", "--pid", pid)
        for row in rows:
            key = row["name"], next((path for path in PATHS if path in (row["stack"] or ())), "")
            time[key] = time.get(key, 0) + row["total_ns"]
        return time, sum(row["sampled"] for row in rows) / sum(row["count"] for row in rows)

    def assert_alike_by_stack(self, sampled, every):
        estimated, part = self.kernels(sampled)
        true, whole = self.kernels(every)
        self.assertEqual(whole, 1)
        self.assertLess(part, 1)
        for key, ns in true.items():
            self.assertAlmostEqual(estimated.get(key, 0), ns, delta=TOLERANCE * sum(true.values()), msg=f"{key}: {estimated} for {true}")

    def places(self, pid):
        return {row["where"] for row in self.daemon.query("kernels", "--by", "line", "--pid", pid)}

    def assert_lines(self, pid):
        """Each launch has its line and that of the caller, in which the compiler put the function that launches."""
        wait_for("the lines", lambda: all(PATHS_SOURCE in (place or "") for place in self.places(pid)))
        row = self.daemon.query("kernels", "--by-stack", "--name", "rare_us900", "--pid", pid)[0]
        frames = [(frame["function"], frame["line"], frame["inlined"]) for frame in row["frames"][:2]]
        self.assertEqual(frames, [("launch", line_of("TRY(cuLaunchKernel"), True), ("seldom", line_of("launch(rare"), False)])
        self.assertRegex(row["frames"][0]["file"], f"^/.*{PATHS_SOURCE}$")
        self.assertEqual(row["stack"][:2], ["launch", "seldom"])
        self.assertRegex(self.tsctl("query", "kernels", "--by-stack", "--pid", pid).out,
                         rf"\n +launch \(paths.c:{line_of('TRY(cuLaunchKernel')}\)\n +seldom \(paths.c:{line_of('launch(rare')}\)\n")
        return self.places(pid)

    def assert_lines_recorded(self, pid, places):
        recording = os.path.join(self.directory, "lines.sbt")
        self.tsctl("record", "-o", recording, "--pid", pid, "--since", "1h", "--until", "now")
        rows = json.loads(self.tsctl("query", "kernels", "--file", recording, "--by", "line", "--json").out)["rows"]
        self.assertEqual({row["where"] for row in rows}, places)
        self.tsctl("export", "--pprof", "-o", os.path.join(self.directory, "pprof"), "--file", recording)
        with gzip.open(os.path.join(self.directory, "pprof")) as file:
            self.assertIn(PATHS_SOURCE.encode(), file.read())

    def test_a_sample_tells_what_all_stacks_tell(self):
        every, sampled = self.run_paths("--stacks", "all"), self.run_paths()
        places = self.assert_lines(every)
        self.assertEqual({place[place.index(PATHS_SOURCE):] for place in places},
                         {f"{PATHS_SOURCE}:{line_of(text)}" for text in ("TRY(cuLaunchKernel", "TRY(cuGraphLaunch")})
        self.assert_lines_recorded(every, places)
        true, said = self.shares("--pid", every)
        self.assertEqual(true[""], 0, "with all stacks everything has one")
        self.assertGreater(min(true[path] for path in PATHS), 0.05, "each path matters")
        self.assertNotIn("estimated", said)

        estimated, said = self.shares("--pid", sampled)
        self.assertEqual(estimated[""], 0)
        self.assert_alike(estimated, true)
        self.assert_alike_by_stack(sampled, every)
        self.assertRegex(said, r"Stacks are estimated from \d+ samples: " + NOTE)

        recording = os.path.join(self.directory, "sampled.sbt")
        self.tsctl("record", "-o", recording, "--pid", sampled, "--since", "1h", "--until", "now")
        recorded, said = self.shares("--file", recording)
        self.assertEqual(recorded, estimated)
        self.assertIn(NOTE, said)
        self.assertIn("Stacks are estimated", self.tsctl("export", "--svg", "-o", "-", "--pid", sampled).out)
        self.assertNotIn("estimated", self.tsctl("export", "--svg", "-o", "-", "--pid", every).out)


class FewStacks(Stacks):
    """As few as by default: what is launched often is there, and what runs for long, too."""
    settings = RINGS

    def test_a_sample_tells_what_all_stacks_tell(self):
        estimated, said = self.shares("--pid", self.run_paths(rounds=4000))
        self.assertLess(estimated[""], 0.01)
        self.assertGreater(estimated["seldom"], 0.05)
        self.assertIn(NOTE, said)


if __name__ == "__main__":
    tracesmith.main()
