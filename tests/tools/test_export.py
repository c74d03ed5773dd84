"""Reads the trace of make_trace back with trace_processor, in both formats, and checks all of it;
the folded stacks and the flame graph line by line.

test_export.py MAKE_TRACE
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import trace_processor

MAKE_TRACE = None
COMMAND = 'train --name "a\\b"\t\ufffd\u00e4 \x1b[31m'
ADDRESS = "0xffffffff00000000"
FRAMES = ["main", "0xdead", 'std::vector<int, std::allocator<int> >::grow("x")',
          "train+0x2345", "cuMemAlloc_v2"]  # outermost first
GEMM = "void gemm<float, 128>(float const*, float*)"
HOSTILE = "<script>alert(\"1\")</script>]]>&'; \n\ufffd\uffff"
CALLS = {"cuMemAlloc_v2": 101, "cuMemFree_v2": 40, "cuLaunchKernel": 200, "cuEventRecord": 1,
         "cuStreamSynchronize": 1, "unknown function": 1, "cuLaunchKernelEx": 52,
         "cuMemcpyHtoDAsync_v2": 10, "cuMemsetD8Async": 5, "cuGraphLaunch": 2}
INSTANT_CALLS = 200
STATES = {"pending": 5, "waiting": 1, "running": 2, "copying": 1, "host waits": 1}
LOSSES = {"ring-full": 2, "gap": 1, "unread": 1, "paused": 2, "budget": 1}
WORK = {GEMM: 56, HOSTILE: 1, "memcpy HtoD": 10, "memset": 5, "graph": 1, "unknown kernel": 2}
RANGES = {"step": 1, "forward": 2, "mark": 1, "CUPTI buffer flush": 1}

QUERY_ERRORS = ("select name, value from stats"
                " where severity in ('error', 'data_loss') and value > 0")
QUERY_SLICES = ("select s.id, s.ts, s.dur, s.depth, s.name, s.category, s.arg_set_id,"
                " t.tid, p.pid from slice s left join thread_track k on k.id = s.track_id"
                " left join thread t using (utid) left join process p using (upid)")
QUERY_PROCESSES = "select pid, name, cmdline from process where pid > 0"
QUERY_THREADS = "select tid, name from thread where tid > 0"
QUERY_COUNTERS = ("select t.name, t.unit, p.pid, c.ts, c.value from counter c"
                  " join process_counter_track t on t.id = c.track_id"
                  " join process p using (upid) where t.name like '%memory%' order by c.ts")
QUERY_ARGS = "select arg_set_id, key, display_value from args"
QUERY_FLOWS = ("select a.name call, a.ts begin, b.name work, b.ts start from flow f"
               " join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in")
QUERY_OVERLAPS = ("select a.name from slice a join slice b on a.track_id = b.track_id"
                  " and a.ts < b.ts and b.ts < a.ts + a.dur and b.ts + b.dur > a.ts + a.dur")
QUERY_RATES = ("select t.name, c.ts, c.value from counter c join counter_track t on t.id = c.track_id"
               " where t.name in ('busy', 'copied and set') order by c.ts")


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
            (cls.errors, cls.slices, cls.processes, cls.threads, cls.counters, args, cls.flows,
             cls.overlaps, *cls.more) = trace_processor.query(
                 path, QUERY_ERRORS, QUERY_SLICES, QUERY_PROCESSES, QUERY_THREADS, QUERY_COUNTERS,
                 QUERY_ARGS, QUERY_FLOWS, QUERY_OVERLAPS, *cls.queries)
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
        self.assertEqual(names, {**CALLS, **STATES, **LOSSES, **WORK, **RANGES})
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
        exact = self.named("running") + self.named("copying") + self.named("host waits")
        self.assertEqual([row["dur"] for row in exact], [1 << 19, 1 << 19, 1 << 18, 1 << 19])
        self.assertEqual({self.args_of(row)["exact"] for row in exact}, {"true"})
        self.assertEqual({row["depth"] for row in exact}, {0})

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
        self.assertEqual(counts, ["17", "4", "1", "5", "1", "1", "2"])
        self.assertEqual([row["dur"] for row in self.named("paused")], [2000000000] * 2)
        self.assertEqual(self.named("gap")[0]["dur"], 1000000000)

    def test_kernels_have_the_times_of_the_device_and_all_their_parameters(self):
        rows = self.named(GEMM)[:50]
        self.assertEqual([(row["ts"], row["dur"], row["depth"], row["category"]) for row in rows],
                         [(1001002000 + i * 1000, 1000, 0, "kernel") for i in range(50)])
        self.assertEqual(self.args_of(rows[1]), {
            "stream": "3", "grid[0]": "2", "grid[1]": "2", "grid[2]": "2", "block[0]": "8",
            "block[1]": "8", "block[2]": "8", "shared_bytes": "2048", "static_bytes": "1024",
            "local_bytes": "16", "registers": "64", "correlation": "1001000", "context": "0xc0de",
            "launch_delay_ns": "2000", "seen_after_ns": str(3000000 - 1004000), "exact": "true",
            **self.stack_args(rows[1])})

    def stack_args(self, row):
        return {key: value for key, value in self.args_of(row).items() if "frame" in key}

    def test_a_call_has_what_it_was_asked_for_and_no_more(self):
        row = self.named("cuLaunchKernelEx")[0]
        self.assertEqual((row["ts"], row["dur"], row["category"]), (1001000000, 200, "launch"))
        self.assertEqual(self.args_of(row)["shared_bytes"], "2048")
        for name in ("registers", "exact", "launch_delay_ns"):
            self.assertNotIn(name, self.args_of(row))
        self.assertEqual(self.args_of(self.named("cuLaunchKernelEx")[-1])["untimed"], "true")

    def test_copies_have_bytes_and_their_rate(self):
        rows = self.named("memcpy HtoD")
        self.assertEqual({(row["dur"], row["category"]) for row in rows}, {(1000, "copy")})
        self.assertEqual({(self.args_of(row)["bytes"], self.args_of(row)["bytes_per_second"])
                          for row in rows}, {("4096", "4096000000")})

    def test_work_whose_call_nobody_saw_says_so(self):
        rows = self.named("unknown kernel")
        self.assertEqual([row["dur"] for row in rows], [500, 500])
        self.assertEqual({self.args_of(row)["no_call"] for row in rows}, {"true"})
        self.assertNotIn("launch_delay_ns", self.args_of(rows[0]))

    def test_no_slices_of_a_track_overlap(self):
        self.assertEqual(self.overlaps, [])
        branches = self.named(GEMM)[50:]
        self.assertEqual([(row["ts"], row["dur"], row["depth"]) for row in branches],
                         [(1001205000 + i * 500, 1000, 0) for i in range(6)])
        self.assertEqual([self.args_of(row)["node"] for row in branches],
                         [str(70 + i) for i in range(6)])
        self.assertEqual({self.args_of(row)["graph"] for row in branches}, {"7"})

    def test_a_flow_leads_from_each_call_to_its_work(self):
        flows = collections.Counter((row["call"], row["work"]) for row in self.flows)
        self.assertEqual(flows, {
            ("cuLaunchKernelEx", GEMM): 50, ("cuLaunchKernelEx", HOSTILE): 1,
            ("cuMemcpyHtoDAsync_v2", "memcpy HtoD"): 10, ("cuMemsetD8Async", "memset"): 5,
            ("cuGraphLaunch", "graph"): 1, ("cuGraphLaunch", GEMM): 1, (GEMM, GEMM): 5})
        for row in self.flows:
            if row["call"] == "cuLaunchKernelEx" and row["work"] == GEMM:
                self.assertEqual(row["start"] - row["begin"], 2000)

    def test_ranges_nest_where_they_do_and_else_not(self):
        self.assertEqual([row["dur"] for row in self.named("step")], [100000])
        self.assertEqual([row["dur"] for row in self.named("forward")], [40000, 30000])
        self.assertEqual([row["dur"] for row in self.named("mark")], [0])
        self.assertEqual([row["dur"] for row in self.named("CUPTI buffer flush")], [50])
        self.assertEqual([self.args_of(row) for row in self.named("forward")],
                         [{"domain": "torch"}] * 2)
        self.assertEqual(self.args_of(self.named("step")[0]), {})

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
        QUERY_RATES,
    )

    def test_command_line(self):
        """One that is only the name says nothing more."""
        self.assertEqual({r["pid"]: r["cmdline"] for r in self.processes},
                         {4242: COMMAND, 5151: None})

    def test_stacks_where_they_are_known(self):
        uses, sites = self.more[:2]
        by_category = collections.Counter(row["category"] for row in self.slices
                                          if row["ts"] in {use["ts"] for use in uses})
        self.assertEqual(len(uses), 50 + 2 * 25 + 2 * 10 + 2 * 1 + 1 + 6, by_category)
        uses = [row for row in uses if row["ts"] < 1001000000]
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

    def test_a_device_has_a_row_for_each_stream_and_its_state_above(self):
        tracks = collections.Counter()
        for row in self.more[2]:
            tracks[(row["name"], row["parent"])] += row["slices"]
        gpu = "GPU 0 (NVIDIA H200)"
        self.assertEqual(tracks[(gpu, None)], 3)
        self.assertEqual(tracks[("stream 3 (0x5500)", gpu)], 50 + 10 + 5 + 1 + 6 + 1)
        self.assertEqual(tracks[("stream 3 (0x5500) state", gpu)], 1)
        self.assertEqual(tracks[("stream 4 (0x5600)", gpu)], 2)
        self.assertEqual(tracks[("NVTX", None)], 4)

    def test_counters_of_a_device(self):
        values = collections.defaultdict(list)
        for row in self.more[4]:
            values[row["name"]].append((row["ts"], row["value"]))
        self.assertEqual(values["busy"], [(954 << 20, 50.0), (955 << 20, 25.0), (956 << 20, 0.0)])
        rates = values["copied and set"]
        moved = sum(value * (after - at) / 1e9 for (at, value), (after, _) in zip(rates, rates[1:]))
        self.assertAlmostEqual(moved, 10 * 4096)
        self.assertEqual(rates[-1][1], 0)

    def test_wall_clock(self):
        self.assertEqual(self.more[3][0]["wall"], 1700000001000000000)


class Chrome(Trace):
    format = "chrome"
    counter_suffix = " bytes"

    def test_it_is_json_with_every_event(self):
        trace = json.loads(self.bytes)
        phases = collections.Counter(event["ph"] for event in trace["traceEvents"])
        instants = INSTANT_CALLS + 2  # the loss of no length, the mark
        slices = sum(sum(names.values()) for names in (CALLS, STATES, LOSSES, WORK, RANGES))
        self.assertEqual((phases["i"], phases["X"], phases["C"]),
                         (instants, slices - instants, 139))
        labels = [event["args"]["labels"] for event in trace["traceEvents"]
                  if event["name"] == "process_labels"]
        self.assertIn(COMMAND, labels)

    def test_stacks_lead_from_the_call_to_main(self):
        trace = json.loads(self.bytes)
        leaves = [event["sf"] for event in trace["traceEvents"] if "sf" in event]
        self.assertEqual(len(leaves), 50 + 2 * 25 + 2 * 10 + 2 * 1 + 1 + 6)
        names, at = [], leaves[0]
        while at:
            frame = trace["stackFrames"][at]
            names.insert(0, frame["name"])
            at = frame.get("parent")
        self.assertEqual(names, FRAMES)


def make(kind):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        subprocess.run([MAKE_TRACE, kind, path], check=True)
        with open(path, "rb") as file:
            return file.read().decode()


class Folded(unittest.TestCase):
    def test_lines_are_as_flame_graphs_want_them(self):
        main = 'train_(4242);main;0xdead;std::vector<int,_std::allocator<int>_>::grow("x");' \
               "train+0x2345;cuMemAlloc_v2;[GPU_Kernel]"
        lines = make("folded").split("\n")
        self.assertEqual(lines, [
            "train_(4242);[no stack];[GPU_Graph] 8",
            "train_(4242);[no stack];[GPU_Kernel]unknown_kernel 1",
            "train_(4242);[no stack];[GPU_Kernel]void_gemm<float,_128>(float_const*,_float*) 25",
            "train_(4242);[no stack];[GPU_Set] 3",
            main + "<script>alert(\"1\")</script>]]>&':__\ufffd\uffff 1",
            main + "void_gemm<float,_128>(float_const*,_float*) 31",
            "train_(4242);main;[GPU_Copy]HtoD 10",
            ""])


class Svg(unittest.TestCase):
    SVG = "{http://www.w3.org/2000/svg}"

    @classmethod
    def setUpClass(cls):
        cls.bytes = make("svg")
        cls.root = xml.etree.ElementTree.fromstring(cls.bytes)
        cls.frames = [group for group in cls.root.iter(cls.SVG + "g") if group.get("data-n")]

    def test_it_needs_nothing_from_elsewhere(self):
        links = [value for element in self.root.iter() for value in element.attrib.values()
                 if "//" in value or value.startswith("url")]
        self.assertEqual(links, [])
        self.assertEqual(len(list(self.root.iter(self.SVG + "script"))), 1)
        self.assertEqual(self.bytes.count("<script"), 1)

    def test_hostile_names_are_text(self):
        titles = [frame.find(self.SVG + "title").text for frame in self.frames]
        self.assertIn("<script>alert(\"1\")</script>]]>&'; \ufffd\ufffd\ufffd\n"
                      "kernel \u00b7 1.00 \u00b5s \u00b7 1.27 % \u00b7 1 \u00d7", titles)

    def test_frames_lie_below_their_callers_and_beside_each_other(self):
        rows = collections.defaultdict(list)
        for frame in self.frames:
            top = int(frame.find(self.SVG + "rect").get("y"))
            rows[top].append((int(frame.get("data-x")), int(frame.get("data-n"))))
        tops = sorted(rows)
        self.assertEqual(rows[tops[0]], [(0, 78500)])
        for top, above in zip(tops[1:], tops):
            for start, length in rows[top]:
                self.assertTrue(any(a <= start and start + length <= a + n for a, n in rows[above]))
            ends = 0
            for start, length in sorted(rows[top]):
                self.assertGreaterEqual(start, ends)
                ends = start + length


if __name__ == "__main__":
    MAKE_TRACE = sys.argv.pop(1)
    try:
        trace_processor.locate()
    except trace_processor.Unavailable as error:
        print(f"skipped: {error}")
        sys.exit(trace_processor.SKIPPED)
    unittest.main()
