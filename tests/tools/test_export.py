"""Reads the trace of make_trace back with trace_processor, in both formats, and checks all of it.

test_export.py MAKE_TRACE
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest

import trace_processor

MAKE_TRACE = None
COMMAND = 'train --name "a\\b"\t\ufffd\u00e4 \x1b[31m'
ADDRESS = "0xffffffff00000000"
FRAMES = ["main", "0xdead", 'std::vector<int, std::allocator<int> >::grow("x")',
          "train+0x2345", "cuMemAlloc_v2"]  # outermost first
CALLS = {"cuMemAlloc_v2": 101, "cuMemFree_v2": 40, "cuLaunchKernel": 200, "cuEventRecord": 1,
         "cuStreamSynchronize": 1, "unknown function": 1}
STATES = {"pending": 5, "waiting": 1}
LOSSES = {"ring-full": 2, "gap": 1, "unread": 1}

QUERY_ERRORS = ("select name, value from stats"
                " where severity in ('error', 'data_loss') and value > 0")
QUERY_SLICES = ("select s.id, s.ts, s.dur, s.depth, s.name, s.category, s.arg_set_id,"
                " t.tid, p.pid from slice s left join thread_track k on k.id = s.track_id"
                " left join thread t using (utid) left join process p using (upid)")
QUERY_PROCESSES = "select pid, name, cmdline from process where pid > 0"
QUERY_THREADS = "select tid, name from thread where tid > 0"
QUERY_COUNTERS = ("select t.name, t.unit, p.pid, c.ts, c.value from counter c"
                  " join process_counter_track t on t.id = c.track_id"
                  " join process p using (upid) order by c.ts")
QUERY_ARGS = "select arg_set_id, key, display_value from args"


class Trace(unittest.TestCase):
    """What holds in every format."""

    format = None
    queries = ()

    @classmethod
    def setUpClass(cls):
        if cls.format is None:
            raise unittest.SkipTest("no format of its own")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            subprocess.run([MAKE_TRACE, cls.format, path], check=True)
            with open(path, "rb") as file:
                cls.bytes = file.read()
            (cls.errors, cls.slices, cls.processes, cls.threads, cls.counters, args,
             *cls.more) = trace_processor.query(
                 path, QUERY_ERRORS, QUERY_SLICES, QUERY_PROCESSES, QUERY_THREADS, QUERY_COUNTERS,
                 QUERY_ARGS, *cls.queries)
        cls.args = collections.defaultdict(dict)
        for row in args:
            key = row["key"].removeprefix("debug.").removeprefix("args.")
            cls.args[row["arg_set_id"]][key] = row["display_value"]

    def named(self, name):
        rows = [row for row in self.slices if row["name"] == name]
        return sorted(rows, key=lambda row: row["ts"])

    def args_of(self, row):
        return self.args[row["arg_set_id"]]

    def test_reader_finds_no_fault(self):
        self.assertEqual(self.errors, [])

    def test_every_slice_is_there_and_none_is_negative(self):
        names = collections.Counter(row["name"] for row in self.slices)
        self.assertEqual(names, {**CALLS, **STATES, **LOSSES})
        self.assertGreaterEqual(min(row["dur"] for row in self.slices), 0)

    def test_times_are_exact(self):
        for i, row in enumerate(self.named("cuMemAlloc_v2")[:100]):
            self.assertEqual((row["ts"], row["dur"]), (1000000000 + i * 1000, 500))

    def test_calls_are_on_their_thread(self):
        self.assertEqual({(row["pid"], row["tid"]) for row in self.named("cuMemAlloc_v2")},
                         {(4242, 4242)})
        self.assertEqual(
            collections.Counter((r["pid"], r["tid"]) for r in self.named("cuLaunchKernel")),
            {(4242, 4243): 150, (5151, 5151): 50})

    def test_launches_have_no_length_and_a_grid(self):
        row = self.named("cuLaunchKernel")[0]
        self.assertEqual((row["dur"], row["category"]), (0, "launch"))
        self.assertEqual([self.args_of(row)[f"grid[{i}]"] for i in range(3)], ["1", "2", "3"])
        self.assertEqual([self.args_of(row)[f"block[{i}]"] for i in range(3)], ["128", "1", "1"])
        self.assertEqual(self.args_of(row)["captured"], "true")
        self.assertNotIn("bounds", self.args_of(row))

    def test_arguments_keep_64_bits(self):
        rows = self.named("cuMemAlloc_v2")
        self.assertEqual(self.args_of(rows[0])["address"], ADDRESS)
        self.assertEqual(self.args_of(rows[100])["bytes"], str(1 << 60))
        self.assertEqual(self.args_of(rows[100])["result"], "2")
        self.assertNotIn("result", self.args_of(rows[0]))

    def test_calls_inside_of_calls_nest(self):
        self.assertEqual(self.named("cuEventRecord")[0]["depth"], 1)
        self.assertEqual(self.named("cuStreamSynchronize")[0]["depth"], 0)

    def test_states_touch_and_do_not_nest(self):
        rows = self.named("pending") + self.named("waiting")
        self.assertEqual({row["depth"] for row in rows}, {0})
        self.assertEqual(sum(row["dur"] for row in rows), 100 + 100 + 150 + 1 + 350 + 200)
        self.assertEqual({self.args_of(row)["bounds"] for row in rows}, {"true"})

    def test_memory_counts_what_is_live(self):
        values = collections.defaultdict(list)
        for row in self.counters:
            values[(row["name"], row["pid"])].append(row["value"])
        rise = [(i + 1) * 256 for i in range(100)]
        fall = [(99 - i) * 256 for i in range(38)]  # the last free was of an unknown address
        self.assertEqual(values, {(f"GPU 0 memory{self.counter_suffix}", 4242): rise + fall,
                                  (f"page-locked host memory{self.counter_suffix}", 4242): [77]})

    def test_losses_are_counted(self):
        counts = [self.args_of(row)["count"] for name in LOSSES for row in self.named(name)]
        self.assertEqual(counts, ["17", "4", "1", "5"])
        self.assertEqual(self.named("gap")[0]["dur"], 1000000000)

    def test_names_of_processes_and_threads(self):
        names = {row["pid"]: row["name"] for row in self.processes}
        self.assertEqual((names[4242], names[5151]), ("train", "serve"))
        threads = {row["tid"]: row["name"] for row in self.threads}
        self.assertEqual(threads[4242], "train")
        self.assertEqual(threads[4243], "thread 4243")


class Perfetto(Trace):
    format = "perfetto"
    counter_suffix = ""
    queries = (
        "select s.ts, c.callsite_id from __intrinsic_track_event_callstacks c"
        " join slice s on s.id = c.slice_id",
        "select c.id, c.parent_id, c.depth, f.name, m.name file from stack_profile_callsite c"
        " join stack_profile_frame f on f.id = c.frame_id"
        " join stack_profile_mapping m on m.id = f.mapping",
        "select t.name, p.name parent, count(s.id) slices from track t"
        " left join track p on p.id = t.parent_id left join slice s on s.track_id = t.id"
        " group by t.id",
        "select to_realtime(1000000000) wall",
    )

    def test_command_line(self):
        self.assertEqual({r["pid"]: r["cmdline"] for r in self.processes},
                         {4242: COMMAND, 5151: "serve"})

    def test_stacks_where_they_are_known(self):
        uses, sites = self.more[:2]
        self.assertEqual(len(uses), 50)
        self.assertTrue(all(row["ts"] % 2000 == 1000 for row in uses))
        by_id = {row["id"]: row for row in sites}
        at, names = by_id[uses[0]["callsite_id"]], []
        self.assertEqual(at["file"], "/usr/lib/libcuda.so.1")
        while at:
            names.insert(0, at["name"])
            at = by_id.get(at["parent_id"])
        self.assertEqual(names, FRAMES)

    def test_streams_are_below_their_device(self):
        tracks = {(row["name"], row["parent"]): row["slices"] for row in self.more[2]}
        self.assertEqual(tracks[("GPU 0 (bounds)", None)], 1)
        self.assertEqual(tracks[("stream 1 (default)", "GPU 0 (bounds)")], 4)
        self.assertEqual(tracks[("stream 2 (0xabc0)", "GPU 1 (bounds)")], 1)
        self.assertEqual(tracks[("ring-full", "TraceSmith loss")], 2)

    def test_wall_clock(self):
        self.assertEqual(self.more[3][0]["wall"], 1700000001000000000)


class Chrome(Trace):
    format = "chrome"
    counter_suffix = " bytes"

    def test_it_is_json_with_every_event(self):
        trace = json.loads(self.bytes)
        phases = collections.Counter(event["ph"] for event in trace["traceEvents"])
        instants = CALLS["cuLaunchKernel"] + 1
        slices = sum(CALLS.values()) + sum(STATES.values()) + sum(LOSSES.values())
        self.assertEqual((phases["i"], phases["X"], phases["C"]),
                         (instants, slices - instants, 139))
        labels = [event["args"]["labels"] for event in trace["traceEvents"]
                  if event["name"] == "process_labels"]
        self.assertIn(COMMAND, labels)

    def test_stacks_lead_from_the_call_to_main(self):
        trace = json.loads(self.bytes)
        leaves = [event["sf"] for event in trace["traceEvents"] if "sf" in event]
        self.assertEqual(len(leaves), 50)
        names, at = [], leaves[0]
        while at:
            frame = trace["stackFrames"][at]
            names.insert(0, frame["name"])
            at = frame.get("parent")
        self.assertEqual(names, FRAMES)


if __name__ == "__main__":
    MAKE_TRACE = sys.argv.pop(1)
    try:
        trace_processor.locate()
    except trace_processor.Unavailable as error:
        print(f"skipped: {error}")
        sys.exit(trace_processor.SKIPPED)
    unittest.main()
