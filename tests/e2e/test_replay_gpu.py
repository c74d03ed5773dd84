"""Parts of a recording are reissued on a GPU: what is compared is what was issued."""
import json
import os
import subprocess

import tracesmith
from tracesmith import BUILD, library, workload_path

WORKS = "kind IN ('launch', 'copy', 'set') AND exact"


class Parts(tracesmith.Case):
    def tsctl(self, *arguments, code=0):
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket, FAKE_CUDA_TIME_SCALE="10",
                           LD_LIBRARY_PATH=os.path.dirname(library()))
        result = tracesmith.Result(subprocess.run([os.path.join(BUILD, "tsctl"), *map(str, arguments)], text=True,
                                                  env=environment, capture_output=True, timeout=120))
        self.assertEqual(result.code, code, (arguments, result.out, result.err))
        return result

    def setUp(self):
        super().setUp()
        self.recording, self.replayed = (os.path.join(self.daemon.directory, name) for name in ("was.sbt", "is.sbt"))
        self.tsctl("record", "-o", self.recording, "--", workload_path("streams"), "--threads", 2, "--steps", 8)

    def rows(self, statement, path=None):
        return json.loads(self.tsctl("sql", "--file", path or self.recording, "--json", statement).out)["rows"]

    def check_part(self, where, *options):
        """The makespan is that of the part, of which nothing else was issued."""
        part = self.rows(f"SELECT count(*) works, count(DISTINCT stream) streams,"
                         f" max(gpu_end_ns) - min(gpu_start_ns) ns FROM op WHERE {WORKS} AND {where}")[0]
        said = json.loads(self.tsctl("replay", "--on-gpu", self.recording, *options, "-o", self.replayed, "--json").out)
        self.assertEqual(said["works"], part["works"])
        self.assertEqual(said["streams_in_order"], said["streams"])
        self.assertGreaterEqual(said["streams"], part["streams"])  # marks of events are on the others
        self.assertEqual(said["recorded_ns"], part["ns"])
        # Its first thread only prepares.
        again = self.rows(f"SELECT count(*) works, max(gpu_end_ns) - min(gpu_start_ns) ns FROM op WHERE {WORKS} AND tid <> pid",
                          self.replayed)[0]
        self.assertEqual((again["works"], again["ns"]), (part["works"], said["replayed_ns"]))

    def test_a_part_is_compared_with_that_part(self):
        streams = [row["stream"] for row in self.rows(f"SELECT DISTINCT stream FROM op WHERE {WORKS} ORDER BY 1")]
        self.assertEqual(len(streams), 6)
        for stream in (streams[0], streams[-1]):
            self.check_part(f"stream = {stream}", "--stream", stream)
        self.check_part("name LIKE '%gemm%'", "--kernel", "gemm")
        self.check_part("device = 0", "--device", 0)
        text = self.tsctl("replay", "--on-gpu", self.recording, "-o", self.replayed)
        self.assertIn("Order: 6 of 6 streams", text.out)
        self.assertNotIn("Use -o FILE to record", text.err)

    def test_a_part_of_nothing_is_refused(self):
        for options in (("--stream", 9999), ("--kernel", "nobody"), ("--device", 7)):
            for output in ((), ("-o", self.replayed)):
                result = self.tsctl("replay", "--on-gpu", self.recording, *options, *output, code=1)
                self.assertEqual(result.err, "tsctl: Nothing in the recording matches --stream, --device or --kernel\n")
                self.assertEqual(result.out, "")
        self.assertFalse(os.path.exists(self.replayed))


if __name__ == "__main__":
    tracesmith.main()
