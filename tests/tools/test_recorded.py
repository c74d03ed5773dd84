"""The trace of a PyTorch training loop on an H200 (tests/gpu/probe_tier.py) still reads as it should."""

import collections
import os
import sys
import unittest

import trace_processor

TRACE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "data",
                     "train-probe-tier.perfetto-trace")


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


if __name__ == "__main__":
    try:
        trace_processor.locate()
    except trace_processor.Unavailable as reason:
        print("skipped:", reason, file=sys.stderr)
        sys.exit(77)
    unittest.main()
