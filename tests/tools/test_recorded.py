"""The traces recorded on an H200 still read as they should: of a PyTorch training loop in the probe tier
(tests/gpu/probe_tier.py), and of a program with known numbers of everything in the exact tier, on two
devices (tests/gpu/exact.cu under `tsctl run`)."""

import collections
import gzip
import os
import sys
import tempfile
import unittest

import trace_processor

DATA = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "data")
TRACE = os.path.join(DATA, "train-probe-tier.perfetto-trace")
EXACT = os.path.join(DATA, "exact-tier.perfetto-trace.gz")
TRAIN = os.path.join(DATA, "train-exact-tier.perfetto-trace.gz")


def query_packed(path, *queries):
    with tempfile.NamedTemporaryFile(suffix=".perfetto-trace") as plain:
        with gzip.open(path) as packed:
            plain.write(packed.read())
        plain.flush()
        return trace_processor.query(plain.name, *queries)


class Recorded(unittest.TestCase):
    def test_reads_without_errors_and_shows_the_job(self):
        errors, slices, processes, frames = trace_processor.query(
            TRACE,
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select name, dur from slice",
            "select cmdline from process where pid > 0",
            "select count(*) as n from stack_profile_frame where name like '%cuda%'")
        self.assertEqual(errors, [])
        self.assertEqual([row for row in slices if row["dur"] < 0], [])
        names = collections.Counter(row["name"] for row in slices)
        self.assertGreater(names["cuLaunchKernel"], 1000)
        self.assertGreater(names["cuCtxSynchronize_v2"], 5)
        # A step of the model has about 170 launches and one wait.
        self.assertGreater(names["cuLaunchKernel"] / names["cuCtxSynchronize_v2"], 100)
        self.assertIn("train.py", processes[0]["cmdline"])
        self.assertGreater(frames[0]["n"], 0)

    def test_exact_tier_has_every_kernel_and_copy(self):
        errors, slices, flows = query_packed(
            EXACT,
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select s.name, s.dur, t.name as track from slice s join track t on s.track_id = t.id",
            "select count(*) as n from flow")
        self.assertEqual(errors, [])
        self.assertEqual([row for row in slices if row["dur"] < 0], [])
        names = collections.Counter(row["name"] for row in slices)
        self.assertEqual(names["empty()"], 1000 + 11)
        self.assertEqual(names["void scale<float>(float*, float, int)"], 100 + 200 + 300)
        self.assertEqual(names["spin(long long)"], 42 * 4 + 7)
        self.assertEqual(sum(n for name, n in names.items() if name.startswith("memcpy HtoD")), 16 + 19)
        # One flow from each call to its work, and on from node to node.
        self.assertEqual(flows[0]["n"], 1924)

    def test_exact_tier_of_a_training_loop(self):
        errors, slices, flows = query_packed(
            TRAIN,
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select name, dur from slice",
            "select count(*) as n from flow")
        self.assertEqual(errors, [])
        self.assertEqual([row for row in slices if row["dur"] < 0], [])
        kernels = [row for row in slices if "layer_norm" in row["name"] and row["name"].startswith("void at::native")]
        self.assertGreater(len(kernels), 50)
        self.assertTrue(all(0 < row["dur"] < 1000000 for row in kernels))
        self.assertGreater(flows[0]["n"], 1000)


if __name__ == "__main__":
    try:
        trace_processor.locate()
    except trace_processor.Unavailable as reason:
        print("skipped:", reason, file=sys.stderr)
        sys.exit(77)
    unittest.main()
