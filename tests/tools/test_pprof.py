"""Reads the profile of make_trace back: with Google's protobuf; or, where asked, with pprof itself.

test_pprof.py MAKE_TRACE [go]
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import pprof

MAKE_TRACE = None
SKIPPED = 77
STACK = ("cuMemAlloc_v2", "train+0x2345",
         'std::vector<int, std::allocator<int> >::grow("x")', "0xdead", "main")
GEMM = "[GPU_Kernel]void gemm<float, 128>(float const*, float*)"
HOSTILE = "[GPU_Kernel]<script>alert(\"1\")</script>]]>&'; \ufffd\ufffd\uffff"
THIRD, FOURTH = "stream 3 (0x5500)", "stream 4 (0x5600)"
# What ran, its stack, nanoseconds, how often, bytes, stream.
SAMPLES = {
    (("[GPU_Copy]HtoD", "main"), (10000, 10, 40960), THIRD),
    ((HOSTILE, *STACK), (1000, 1, 0), THIRD),
    ((GEMM, *STACK), (31000, 31, 0), THIRD),
    ((GEMM, "[no stack]"), (25000, 25, 0), THIRD),
    (("[GPU_Graph]", "[no stack]"), (8000, 1, 0), THIRD),
    (("[GPU_Kernel]unknown kernel", "[no stack]"), (1000, 2, 0), FOURTH),
    (("[GPU_Set]", "[no stack]"), (2500, 5, 0), THIRD),
}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = os.path.join(folder.name, "profile.pb.gz")
        subprocess.run([MAKE_TRACE, "pprof", cls.path], check=True)


class Protobuf(Case):
    def setUp(self):
        self.profile = pprof.Profile(self.path)

    def test_every_stack_has_its_time(self):
        samples = {(names, values, labels["stream"]) for names, values, labels in self.profile.samples}
        self.assertEqual(samples, SAMPLES)
        self.assertEqual(len(self.profile.samples), len(SAMPLES))

    def test_every_sample_says_of_what_it_is(self):
        for _, _, labels in self.profile.samples:
            self.assertEqual({**labels, "stream": None}, {
                "pid": 4242, "process": "train (4242)", "device": "GPU 0 (NVIDIA H200)", "stream": None})

    def test_head(self):
        self.assertEqual(self.profile.types,
                         [("gpu_time", "nanoseconds"), ("launches", "count"), ("bytes", "bytes")])
        self.assertEqual(self.profile.default, "gpu_time")
        self.assertEqual(self.profile.raw.time_nanos, 1700000001001002000)
        self.assertEqual(self.profile.raw.duration_nanos, 1401500 - 1002000)
        self.assertIn("TraceSmith", self.profile.comments[0])

    def test_functions_are_once_and_in_their_file(self):
        files = {self.profile.text(self.profile.functions[place.line[0].function_id].name):
                 self.profile.file_of(place) for place in self.profile.locations.values()}
        self.assertEqual(len(files), len(self.profile.locations))
        self.assertEqual(files["main"], "/usr/bin/train")
        self.assertEqual(files["cuMemAlloc_v2"], "/usr/lib/libcuda.so.1")
        self.assertIsNone(files[GEMM])
        lines = {self.profile.text(self.profile.functions[line.function_id].name):
                 (self.profile.text(self.profile.functions[line.function_id].filename), line.line)
                 for place in self.profile.locations.values() for line in place.line}
        self.assertEqual(lines["main"], ("/src/train.cc", 7))
        self.assertEqual(lines["cuMemAlloc_v2"], ("", 0))
        self.assertEqual(len(set(self.profile.raw.string_table)), len(self.profile.raw.string_table))


class Go(Case):
    def pprof(self, *arguments):
        return subprocess.run(["go", "tool", "pprof", *arguments, self.path], check=True, capture_output=True,
                              text=True, env=dict(os.environ, PPROF_TMPDIR="/tmp", TZ="UTC")).stdout

    def test_raw_shows_every_sample(self):
        raw = self.pprof("-raw")
        values = collections.Counter(tuple(map(int, found)) for found in
                                     re.findall(r"^ +(\d+) +(\d+) +(\d+): ", raw, re.M))
        self.assertEqual(values, collections.Counter(values for _, values, _ in SAMPLES))
        self.assertIn("gpu_time/nanoseconds[dflt] launches/count bytes/bytes", raw)

    def test_top_names_kernels_in_full(self):
        top = self.pprof("-top", "-nodefraction=0")
        self.assertRegex(top, r"(?m)^ +56us 71\.34% .*" + re.escape(GEMM) + "$")
        self.assertRegex(top, r"(?m)^ +0 +0% .* 42us 53\.50%  main$")

    def test_lines_are_shown(self):
        self.assertRegex(self.pprof("-top", "-lines", "-nodefraction=0"), r"(?m)  main /src/train\.cc:7$")

    def test_labels_choose(self):
        self.assertIn("1us  ", self.pprof("-top", "-tagfocus=stream=stream 4"))
        self.assertIn("78.50us total", self.pprof("-top", "-tagfocus=pid=4242"))
        self.assertIn(" GPU 0 (NVIDIA H200)", self.pprof("-top", "-tagroot=device"))

    def test_bytes_are_a_sample_type(self):
        self.assertRegex(self.pprof("-top", "-sample_index=bytes"), r"40kB +100% +100% +40kB +100%  \[GPU_Copy\]HtoD")


if __name__ == "__main__":
    MAKE_TRACE = sys.argv.pop(1)
    if sys.argv[1:2] == ["go"]:
        sys.argv.pop(1)
        if not shutil.which("go"):
            print("skipped: no 'go tool pprof' (Debian: golang-go)")
            sys.exit(SKIPPED)
        del Protobuf
    else:
        del Go
    del Case
    unittest.main()
