"""A planted leak is found by function, bytes and count, and nothing else is reported."""
import glob
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tracesmith
from tracesmith import wait_for, workload

sys.path.insert(0, os.path.join(tracesmith.SOURCE, "tests", "tools"))
import memory_viz

LIBC10 = os.environ.get("TS_LIBC10") or next(iter(glob.glob("/usr/lib/*/libc10.so.1*")), None)


def read_until(process, key):
    """Reads the workload's lines up to the one that has `key`."""
    for line in process.stdout:
        if line.startswith("{") and key in json.loads(line):
            return json.loads(line)
    raise AssertionError(f"the workload ended without '{key}'")


def misses_stacks(answer):
    """Some are missing or cut, as the daemon had no time to look at the program, and it says so."""
    return not {"stack", "stack-cut"}.isdisjoint(answer["loss"])


class Leaks(tracesmith.Case):
    def leaks(self, pid, *arguments):
        return self.daemon.query("leaks", "--pid", pid, *arguments)

    def test_planted_leak_and_nothing_else(self):
        process = workload("leak")
        want = read_until(process, "leak")
        pid = process.pid
        wait_for("all calls", lambda: self.daemon.apis(pid).get("cuStreamDestroy_v2", {}).get("calls") == 2)
        def named():
            answer = self.daemon.answer("leaks", "--pid", pid, "--min-age", "0s")
            without = sum(row["stack"] is None for row in answer["rows"])
            return without <= answer["loss"].get("stack", 0) and answer
        answer = wait_for("names", named)
        rows = answer["rows"]
        self.assertEqual([sum(row[of] for row in rows) for of in ("bytes", "count", "allocations", "frees")],
                         [want["bytes"], want["count"], want["count"], 0])
        for row in rows:
            self.assertEqual(row["fn"], "cuMemAlloc_v2")
            if row["stack"] is not None:  # walked while a mapping changed, for as long as a busy daemon did not know
                self.assertEqual(row["stack"][0].split("+")[0], want["leak"], "the innermost frame")
        # Others are those for which nobody had the time to walk to the end.
        whole = [row for row in rows if row["stack_end"] == "complete"]
        self.assertLessEqual(len(whole), 1, whole)
        if not misses_stacks(answer):
            self.assertTrue(whole, rows)
        for row in whole:
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

    def test_young_process_is_told_what_its_verdict_needs(self):
        """Without an age, what holds memory has a verdict, or is told when there will be one."""
        process = workload("leak")
        read_until(process, "leak")
        # One for each way to it; a busy daemon cuts some short.
        row, *_ = wait_for("the leak's row", lambda: [row for row in self.leaks(process.pid)
                                                      if row["stack"] and row["stack"][0].startswith("leaky")])
        self.assertEqual(row["verdict"], "not yet")
        self.assertRegex(row["why"], r"^watched for .*, needs .* s more$")
        process.communicate("\n")

    @unittest.skipUnless(os.environ.get("TS_LEAK_SECONDS"), "TS_LEAK_SECONDS=70: as long as a verdict takes, by hand")
    def test_verdicts_on_a_leak_and_on_the_same_program_without_it(self):
        seconds = float(os.environ["TS_LEAK_SECONDS"])
        steps = ("--pace-ms", 10, "--steps", int(seconds * 100))
        leaking, clean = workload("leak", *steps), workload("leak", "--clean", *steps)
        for process in (leaking, clean):
            self.addCleanup(self.end, process)
        row, = wait_for("a verdict", lambda: [row for row in self.leaks(leaking.pid) if row["verdict"] == "leak"],
                        seconds=seconds)
        self.assertTrue(row["stack"][0].startswith("leaky_cache_insert"))
        self.assertAlmostEqual(row["bytes_per_hour"] / (3600 * 10 * 12345), 1, delta=0.2)
        self.assertEqual([row for row in self.leaks(clean.pid) if row["verdict"] in ("leak", "growing")], [])
        recording = os.path.join(self.daemon.directory, "leaks.sbt")
        self.daemon.ctl("record", "-o", recording, "--pid", leaking.pid, "--since", "5s")
        again, = [row for row in self.daemon.query("leaks", "--file", recording) if row["verdict"] == "leak"]
        self.assertEqual(again["stack"], row["stack"])
        # The next daemon goes on from what this one knew.
        watched = f"SELECT g.since_ns, g.told_ns, g.verdict FROM growth g JOIN process p ON p.id = g.process WHERE p.pid = {leaking.pid} AND g.bytes_per_hour > 0"
        before, = self.daemon.sql(watched)
        self.daemon.stop()
        self.daemon.start()
        after = wait_for("a new verdict", lambda: [now for now in self.daemon.sql(watched) if now["told_ns"] > before["told_ns"]])
        self.assertEqual([(now["since_ns"], now["verdict"]) for now in after], [(before["since_ns"], before["verdict"])])
        self.assertEqual([row for row in self.leaks(clean.pid) if row["verdict"] in ("leak", "growing")], [])

    def test_leak_is_visible_once_it_is_old_enough(self):
        process = workload("leak", "--steps", 11)
        want = read_until(process, "leak")
        wait_for("the leak", lambda: sum(row["count"] for row in self.leaks(process.pid, "--min-age", "1s")) == want["count"])
        process.communicate("\n")


class TensorCase(tracesmith.Case):
    """Blocks of PyTorch's allocator, simulated: they lie inside what it got from the driver."""
    # All reports have room, so that it does not matter how soon the daemon gets a processor.
    room = "ring_size = 64MiB\n"
    settings = room + "tensors = yes"

    def start(self, *arguments):
        process = workload("tensors", *arguments)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def wait_probes(self):
        """On the copy of this build: other trees' tests have theirs."""
        path = os.path.realpath(os.path.join(tracesmith.FAKE, "lib10", "libc10.so"))
        wait_for("its probes", lambda: f"'{path}'" in self.daemon.log())

    def go_on(self, process, how=""):
        """What the allocator says after a number of random steps."""
        process.stdin.write(f"{how}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    def memory(self, pid):
        return {row["kind"]: row for row in self.daemon.query("memory", "--pid", pid)}

    def wait_known(self, pid, want):
        """Its sums, and those of the driver's memory that it holds, to the byte."""
        def known():
            memory = self.memory(pid)
            tensor, segments = memory.get("tensor", {}), memory.get("device", {})
            return (tensor.get("live_bytes"), tensor.get("reserved_bytes"), segments.get("live_bytes")) == (
                want["allocated"], want["reserved"], want["reserved"]) and memory
        memory = wait_for(f"the sums {want}, and nothing but the segments of the driver's memory", known)
        self.assertEqual(memory["tensor"]["cached_bytes"], want["reserved"] - want["allocated"])
        return memory["tensor"]


    def wait_kept(self, pid, size):
        """Blocks of that size in all are kept by keep_tensor(); of those whose stacks were missed, nobody knows by whom."""
        def kept():
            answer = self.daemon.answer("leaks", "--all", "--pid", pid, "--min-age", "0s")
            rows = [row for row in answer["rows"] if row["kind"] == "tensor"]
            found = sum(row["bytes"] for row in rows if any("keep_tensor" in frame for frame in row["stack"] or ()))
            missed = sum(row["bytes"] for row in rows if row["stack_end"] != "complete")
            return found == size or misses_stacks(answer) and found < size <= found + missed
        wait_for(f"{size} bytes in blocks that are kept", kept)


class Tensors(TensorCase):
    def test_sums_are_the_allocators_and_a_kept_tensor_is_found(self):
        process = self.start("--steps", 20000)
        self.wait_probes()
        for _ in range(5):
            want = self.go_on(process)
            tensor = self.wait_known(process.pid, want)
            self.assertEqual((tensor["live_count"], tensor["unknown_bytes"]), (want["live"], 0))
        self.wait_kept(process.pid, want["kept"] * 12800)  # rounded as the allocator gives them out
        # Before its copy had probes, which the driver's has always.
        self.assertIn("gap-torch", self.daemon.answer("memory", "--pid", process.pid)["loss"])
        self.assertEqual([reason for reason in self.daemon.answer("apis", "--pid", process.pid)["loss"] if reason.startswith("gap")], [])
        self.assertEqual(self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND detail = 'tensor' AND bytes = 4097"),
                         [{"n": 0}], "memory of the host is left out")
        pool, = self.daemon.query("pools", "--pid", process.pid)
        self.assertEqual((pool["kind"], pool["used_bytes"], pool["reserved_bytes"]), ("allocator", want["allocated"], want["reserved"]))
        process.communicate()
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.memory(process.pid)["tensor"]["live_bytes"], 0)

    def test_threads_that_race(self):
        process = self.start("--steps", 3000, "--threads", 6)
        self.wait_probes()
        for _ in range(4):
            want = self.go_on(process)
            tensor = self.wait_known(process.pid, want)
            self.assertEqual((tensor["live_count"], tensor["unknown_bytes"]), (want["live"], 0))

    def test_child_of_a_fork_holds_nothing(self):
        process = self.start("--steps", 300)
        self.wait_probes()
        self.go_on(process)
        want = self.go_on(process, "fork")
        tensor = self.wait_known(process.pid, want)
        self.assertEqual((tensor["live_count"], tensor["unknown_bytes"]), (want["live"], 0))
        child, = wait_for("the child's frees", lambda: self.daemon.sql(
            "SELECT o.process, count(*) AS n FROM op o JOIN process p ON p.id = o.process"
            f" WHERE p.ppid = {process.pid} AND o.kind = 'free' AND o.detail = 'tensor' GROUP BY 1 HAVING n > 10"))
        self.assertEqual(self.daemon.sql(f"SELECT * FROM pool WHERE process = {child['process']}"), [])
        self.assertNotIn("unknown-free", [row["reason"] for row in self.daemon.query("loss")])

    def test_two_copies_of_the_library(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        second = shutil.copy(os.path.join(tracesmith.FAKE, "lib10", "libc10.so"), folder.name)
        process = self.start("--steps", 500, "--second", second)
        wait_for("probes on both", lambda: second in self.daemon.log())
        self.wait_probes()
        for _ in range(3):
            want = self.go_on(process)
            tensor = self.wait_known(process.pid, want)
            self.assertEqual((tensor["live_count"], tensor["unknown_bytes"]), (want["live"], 0))
        pools = self.daemon.query("pools", "--pid", process.pid)
        self.assertEqual([pool["kind"] for pool in pools], ["allocator"] * 2)
        self.assertEqual(sorted(pool["used_bytes"] for pool in pools), [3 * 512, want["allocated"] - 3 * 512])

    def test_a_program_without_a_driver_has_no_probes(self):
        """PyTorch reports host memory, too, which is none of ours: who has no driver does not pay for it."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = shutil.copy(os.path.join(tracesmith.BUILD, "libtracesmith-range.so"), os.path.join(folder.name, "libc10.so"))
        script = "import ctypes, sys\nfor line in sys.stdin:\n    ctypes.CDLL(line.strip())\n    print(flush=True)"
        process = subprocess.Popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        def load(path):
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            process.stdout.readline()
        def state():
            return next((row["value"] for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"]
                         if (row["section"], row["name"]) == ("libraries", path)), None)
        load(path)
        self.assertEqual(wait_for("the library", state), "no probes: no process that maps it uses a driver")
        self.assertNotIn(path, self.daemon.log())
        load(tracesmith.library())
        wait_for("a try", lambda: state() == "not a driver library")
        self.assertIn(f"'{path}' is not a driver library", self.daemon.log())

    @unittest.skipUnless(LIBC10, "Debian's libtorch is not installed, and TS_LIBC10 names no other")
    def test_the_real_library_has_the_same_function(self):
        script = ("import ctypes, sys\n"
                  f"driver = ctypes.CDLL({tracesmith.library()!r})\n"
                  f"tell = ctypes.CDLL({LIBC10!r})['_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE']\n"
                  "tell.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint16]\n"
                  "for line in sys.stdin:\n    tell(*map(int, line.split()))\n    print(flush=True)")
        process = subprocess.Popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        wait_for("its probes", lambda: f"'{os.path.realpath(LIBC10)}'" in self.daemon.log())
        def tell(address, size, allocated, reserved, device, kind=1):
            process.stdin.write(f"{address} {size} {allocated} {reserved} {device << 8 | kind}\n")
            process.stdin.flush()
            process.stdout.readline()
        def wait_row(device, *want):
            names = ("live_count", "live_bytes", "reserved_bytes", "unknown_bytes")
            wait_for(f"{want} on device {device}", lambda: [
                tuple(row[name] for name in names) for row in self.daemon.query("memory", "--pid", process.pid)
                if (row["kind"], row["device"]) == ("tensor", device)] == [want])
        tell(0x7000, 1024, 5120, 8192, 0)
        tell(0x9000, 512, 512, 2048, 3)
        tell(0xb000, 4096, 7, 7, 0, kind=0)  # of the host
        wait_row(0, 1, 5120, 8192, 4096)
        wait_row(3, 1, 512, 2048, 0)
        tell(0x7000, -1024, 4096, 8192, 0)
        wait_row(0, 0, 4096, 8192, 4096)

    def test_blocks_from_before_are_told_as_unknown(self):
        self.daemon.stop()
        process = self.start("--steps", 500)
        before = self.go_on(process)
        self.daemon.start()
        wait_for("probes", lambda: self.go_on(process) and "tensor" in self.memory(process.pid))
        want = self.go_on(process)
        def known():
            tensor = self.memory(process.pid)["tensor"]
            return tensor["live_bytes"] == want["allocated"] and tensor
        tensor = wait_for("the sums", known)
        blocks = self.daemon.sql(f"SELECT live_bytes FROM memory m JOIN process p ON p.id = m.process JOIN memory_kind k"
                                 f" ON k.id = m.kind WHERE p.pid = {process.pid} AND k.name = 'tensor'")
        self.assertGreaterEqual(tensor["unknown_bytes"], before["kept"] * 12800)
        self.assertEqual(blocks[0]["live_bytes"] + tensor["unknown_bytes"], want["allocated"])
        self.assertLess(tensor["live_count"], want["live"])


    def snapshot(self, *arguments):
        path = os.path.join(self.folder.name, "snapshot.pickle")
        result = self.daemon.ctl("export", "--memory-viz", "-o", path, *map(str, arguments))
        self.assertEqual(result.code, 0, result.err)
        return memory_viz.Snapshot(path), result.err

    def test_snapshot_for_pytorchs_viewer(self):
        """Blocks tile their segments, sums are the allocator's, and each event fits going back in time."""
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        process = self.start("--steps", 2000)
        self.wait_probes()
        for _ in range(3):
            want = self.go_on(process)
        self.wait_known(process.pid, want)
        self.wait_kept(process.pid, want["kept"] * 12800)
        def whole():
            seen, said = self.snapshot("--pid", process.pid, "--since", "1h")
            return (seen.reserved(), seen.live_bytes(), len(seen.live())) == (want["reserved"], want["allocated"], want["live"]) and (seen, said)
        seen, said = wait_for(f"the sums {want}", whole)
        self.assertEqual((seen.about["pid"], seen.about["unknown_bytes"], seen.about["left_out"]), (process.pid, 0, 0))
        self.assertNotIn("left out", said)
        events = self.daemon.sql(f"SELECT kind, detail, count(*) AS n FROM op WHERE pid = {process.pid} AND coalesce(result, 0) = 0"
                                 " AND kind IN ('alloc', 'free') AND detail IN ('tensor', 'device') GROUP BY 1, 2")
        actions = [event["action"] for event in seen.traces[0]]
        self.assertEqual({(row["kind"], row["detail"]): row["n"] for row in events},
                         {("alloc", "tensor"): actions.count("alloc"), ("free", "tensor"): actions.count("free_completed"),
                          ("alloc", "device"): actions.count("segment_alloc"), ("free", "device"): actions.count("segment_free")})
        kept = [block for block in seen.live() if any(frame["name"] == "keep_tensor" for frame in block["frames"])]
        if not misses_stacks(self.daemon.answer("leaks", "--pid", process.pid)):
            self.assertEqual(sum(block["size"] for block in kept), want["kept"] * 12800)
            self.assertTrue(all(any("libc10" in frame["filename"] for frame in segment["frames"]) for segment in seen.segments))
        self.check_by_torch(seen)
        wait_for("rows of all blocks, which take a second", lambda: self.daemon.sql(
            f"SELECT total(a.bytes) AS n FROM allocation a JOIN process p ON p.id = a.process JOIN memory_kind k ON k.id = a.kind"
            f" WHERE p.pid = {process.pid} AND k.name = 'tensor'")[0]["n"] == want["allocated"])
        part, _ = self.snapshot("--pid", process.pid, "--since", "1us")
        self.assertEqual((part.live_bytes(), part.reserved(), part.traces), (want["allocated"], want["reserved"], [[]]))
        path = os.path.join(self.folder.name, "run.sbt")
        self.assertEqual(self.daemon.ctl("record", "--since", "1h", "-o", path, "--pid", str(process.pid)).code, 0)
        again, _ = self.snapshot("--file", path)
        self.assertEqual((again.live_bytes(), again.reserved(), len(again.traces[0])),
                         (want["allocated"], want["reserved"], len(seen.traces[0])))

    def check_by_torch(self, seen):
        """By the code that PyTorch ships, where it is there."""
        path = "/usr/lib/python3/dist-packages/torch/cuda/_memory_viz.py"
        if not os.path.exists(path):
            return
        theirs = runpy.run_path(path)
        stats = theirs["stats"](seen.segments)
        self.assertEqual((stats["segments"], stats["total_size"].value, stats["active_allocated"].value),
                         (len(seen.segments), seen.reserved(), seen.live_bytes()))
        self.assertIn("active_allocated", theirs["memory"](seen.segments, format_flamegraph=lambda lines: lines))

    def test_snapshot_where_there_is_nothing_to_show(self):
        result = self.daemon.ctl("export", "--memory-viz", "-o", "/dev/null", "--since", "1h")
        self.assertEqual(result.code, 1)
        self.assertIn("tensors = yes", result.err)
        processes = [self.start("--steps", 50) for _ in range(2)]
        wait_for("probes on both", lambda: all(self.go_on(p) and "tensor" in self.memory(p.pid) for p in processes))
        def several():
            result = self.daemon.ctl("export", "--memory-viz", "-o", "/dev/null", "--since", "1h")
            return result.code == 1 and "--pid" in result.err
        wait_for("a sentence on --pid", several)
        self.assertEqual(self.daemon.ctl("export", "--memory-viz", "-o", "/dev/null", "--until", "1s").code, 2)

    def wait_pools(self, pid, want):
        """What lies free in the segments, as the allocator itself counts it."""
        def known():
            rows = {row["pool"]: row for row in self.daemon.query("fragmentation", "--pid", pid) if row["kind"] == "tensor"}
            for pool in ("small", "large"):
                says, row = want[pool], rows.get(pool)
                if not says["segments"] and not row:
                    continue
                if not row or [row[name] for name in ("reserved_bytes", "free_bytes", "pieces", "largest_bytes")] != \
                        [says[name] for name in ("held", "free", "pieces", "largest")] or abs(row["index"] - says["index"] * 1e6) > 1:
                    return None
            return rows
        return wait_for(f"its free memory {want}", known)

    def test_free_memory_is_found_where_the_allocator_has_it(self):
        process = self.start("--steps", 1000, "--board", 512)
        wait_for("its probes", lambda: "/libc10.so" in self.daemon.log())
        for _ in range(4):
            want = self.go_on(process)
            rows = self.wait_pools(process.pid, want)
            self.assertNotIn("unknown", rows)
            self.assertGreater(rows["small"]["index"], 900000, "a checkerboard")
        device, = [row for row in self.daemon.query("fragmentation", "--pid", process.pid) if row["kind"] == "device"]
        self.assertEqual((device["index"], device["free_bytes"], device["reserved_bytes"]), (0, 0, want["reserved"]),
                         "to the driver the segments are packed")
        def found():
            answer = self.daemon.answer("fragmentation", "--pid", process.pid, "--by-stack")
            rows = [row for row in answer["rows"] if row["pool"] == "small"]
            return (misses_stacks(answer) or any("lay_board" in frame for frame in rows[0]["stack"] or ())) and rows
        by_stack = wait_for("the stack of the board", found)
        self.assertEqual(sum(row["splits"] for row in by_stack), rows["small"]["splits"])
        sizes = self.daemon.query("fragmentation-sizes", "--pid", process.pid)
        for pool in ("small", "large"):
            self.assertEqual(sum(row["free_bytes"] for row in sizes if row["pool"] == pool), want[pool]["free"])
            self.assertEqual(sum(row["pieces"] for row in sizes if row["pool"] == pool), want[pool]["pieces"])
        process.communicate()
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.daemon.query("fragmentation", "--pid", process.pid), [])

    def test_segments_from_before_are_told_as_unknown(self):
        self.daemon.stop()
        process = self.start("--steps", 500)
        self.go_on(process)
        self.daemon.start()
        wait_for("probes", lambda: self.go_on(process) and "tensor" in self.memory(process.pid))
        want = self.go_on(process)
        def known():
            rows = [row for row in self.daemon.query("fragmentation", "--pid", process.pid) if row["kind"] == "tensor"]
            return sum(row["reserved_bytes"] for row in rows) == want["reserved"] and \
                sum(row["used_bytes"] for row in rows) == want["allocated"] and {row["pool"]: row for row in rows}
        rows = wait_for("the sums", known)
        self.assertGreater(rows["unknown"]["reserved_bytes"], 0)
        self.assertEqual((rows["unknown"]["index"], rows["unknown"]["free_bytes"]), (None, None))


class RequestCase(TensorCase):
    """Blocks of which PyTorch's own probes say what was asked for."""
    settings = TensorCase.settings + "\ntensor_requests = yes"

    def start_with(self, *libraries, options=()):
        """Takes blocks through these copies of libc10_cuda in turns; `asked` are the bytes that it asked for."""
        process = self.start("--cuda", ":".join(libraries), *options)
        self.wait_probes()
        for library in libraries:
            wait_for("a word about it", lambda: f"'{library}'" in self.daemon.log())
        return process

    def wait_requested(self, process, want):
        tensor = self.wait_known(process.pid, want)
        self.assertEqual((tensor["live_count"], tensor["unknown_bytes"]), (want["live"], 0))
        self.assertEqual((tensor["requested_bytes"], tensor["rounding_bytes"]), (want["asked"], want["allocated"] - want["asked"]))

    def mismatches(self):
        return sum(row["count"] for row in self.daemon.query("loss") if row["reason"] == "tensor-mismatch")


class Requests(RequestCase):
    library = os.path.realpath(os.path.join(tracesmith.FAKE, "lib10", "libc10_cuda.so"))

    def test_each_block_has_the_size_that_was_asked_for(self):
        process = self.start_with(self.library, options=("--steps", 3000, "--threads", 3))
        for _ in range(3):
            want = self.go_on(process)
            self.wait_requested(process, want)
        def by_stack():
            rows = [row for row in self.daemon.query("memory", "--pid", process.pid, "--by-stack")
                    if any("keep_tensor" in frame for frame in row["stack"] or ())]
            return [sum(row[name] for row in rows) for name in ("live_bytes", "requested_bytes", "rounding_bytes")]
        kept = want["kept"]
        self.wait_kept(process.pid, kept * 12800)
        whole = not misses_stacks(self.daemon.answer("leaks", "--pid", process.pid))
        if whole:
            wait_for("the kept ones", lambda: by_stack() == [kept * 12800, kept * 12345, kept * 455])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            result = self.daemon.ctl("export", "--memory-viz", "-o", path, "--since", "1h", "--pid", str(process.pid))
            self.assertEqual(result.code, 0, result.err)
            seen = memory_viz.Snapshot(path)
            blocks = [block for block in seen.live() if any(frame["name"] == "keep_tensor" for frame in block["frames"])]
            self.assertEqual([block["requested_size"] for block in blocks], [12345] * (kept if whole else len(blocks)))
            self.assertTrue(all(segment["requested_size"] == sum(block["requested_size"] for block in segment["blocks"])
                                for segment in seen.segments))
        self.assertEqual(self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND fn = 'pytorch:malloc'"),
                         [{"n": 0}], "it is no operation of its own")
        self.assertEqual(self.mismatches(), 0)
        # The next daemon has it from the database, which has it a second later.
        self.daemon.stop()
        self.daemon.start()
        wait_for("its probes again", lambda: all(self.daemon.log().count(f"'{library}'") >= 2 for library in (
            self.library, self.library.replace("libc10_cuda", "libc10"))))
        self.wait_requested(process, self.go_on(process))
        process.communicate()
        self.daemon.wait_ended(process.pid)

    def test_two_copies_have_their_arguments_where_each_has_them(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        process = self.start_with(self.library, shutil.copy(self.library, folder.name), options=("--steps", 2000))
        for _ in range(3):
            self.wait_requested(process, self.go_on(process))
        self.assertEqual(self.mismatches(), 0)

    def test_a_build_without_probes_falls_back(self):
        process = self.start_with(self.library.replace("lib10/", "lib10/plain/"), options=("--steps", 2000))
        tensor = self.wait_known(process.pid, self.go_on(process))
        self.assertEqual((tensor["requested_bytes"], tensor["rounding_bytes"]), (None, None))
        self.assertEqual(self.mismatches(), 0)

    def test_blocks_that_only_one_of_the_two_tells_are_counted(self):
        """As those that a library takes from PyTorch's allocator past its probes."""
        process = self.start_with(self.library, options=("--steps", 500, "--raw", 1))
        for _ in range(2):
            want = self.go_on(process)
        tensor = self.wait_known(process.pid, want)
        self.assertEqual(tensor["requested_bytes"], want["asked"])
        self.assertEqual(tensor["requested_bytes"] + tensor["rounding_bytes"], want["allocated"] - want["kept"] * 12800)
        wait_for("those kept", lambda: self.mismatches() == want["kept"])


class SmallRequests(RequestCase):
    settings = RequestCase.settings + "\ntensor_size = 64KiB"

    def test_small_blocks_are_none_of_them(self):
        process = self.start_with(Requests.library, options=("--steps", 2000))
        for _ in range(2):
            want = self.go_on(process)
        tensor = self.wait_known(process.pid, want)
        self.assertGreater(tensor["rounding_bytes"], 0)
        self.assertEqual(tensor["requested_bytes"] + tensor["rounding_bytes"] + tensor["unknown_bytes"], want["allocated"])
        self.assertEqual(self.mismatches(), 0)


class SmallTensors(TensorCase):
    """The same where only blocks of 1 MiB and more are followed one by one."""
    settings = TensorCase.settings + "\ntensor_size = 1MiB"

    def test_only_large_blocks_are_followed(self):
        process = self.start("--steps", 20000, "--threads", 2, "--kept-bytes", 1 << 20)
        self.wait_probes()
        for _ in range(3):
            want = self.go_on(process)
            tensor = self.wait_known(process.pid, want)
        self.wait_kept(process.pid, want["kept"] << 20)
        self.assertGreater(tensor["unknown_bytes"], 0)
        self.assertLess(tensor["unknown_bytes"], 128 * 100352, "blocks of less than 100,000 bytes in 2 times 64 slots")
        self.assertGreaterEqual(tensor["peak_bytes"], want["allocated"])
        self.assertEqual(self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND kind IN ('alloc', 'free')"
                                         " AND detail = 'tensor' AND bytes < 1048576"), [{"n": 0}])
        process.communicate()
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.memory(process.pid)["tensor"]["live_bytes"], 0)


class TensorsWithinBudget(TensorCase):
    """With nothing set up they are followed in programs that this costs little; of others the sums are known."""
    settings = TensorCase.room
    budget = "1%"

    def test_one_is_followed_and_one_has_sums_only(self):
        calm, busy = self.start("--steps", 20), self.start("--steps", 20000)
        self.wait_probes()
        self.go_on(calm)
        wait_for("the busy one is left out", lambda: self.go_on(busy) and "its budget: it has sums only" in self.daemon.log())
        def right():
            want, tensor = self.go_on(busy), None
            end = time.monotonic() + 1
            while time.monotonic() < end and (tensor or {}).get("live_bytes") != want["allocated"]:
                tensor = self.memory(busy.pid).get("tensor")
            return tensor and (tensor["live_bytes"], tensor["reserved_bytes"]) == (want["allocated"], want["reserved"]) and tensor
        tensor = wait_for("its sums once it is let in again", right, 3 * tracesmith.DEADLINE)
        self.assertGreater(tensor["unknown_bytes"], 0)
        self.assertIn("tensors", self.daemon.answer("memory", "--pid", busy.pid)["loss"])
        want = self.go_on(calm)
        tensor = self.wait_known(calm.pid, want)
        self.assertEqual((tensor["live_count"], tensor["unknown_bytes"]), (want["live"], 0))
        self.assertNotIn("tensors", self.daemon.answer("memory", "--pid", calm.pid)["loss"])


class OtherNamespace(tracesmith.Case):
    standing = ()

    def test_target_in_its_own_mount_and_pid_namespace(self):
        """Its copy of the library has a path that exists for it alone, and it is gone when asked for."""
        script = ('mount -t tmpfs none /mnt && cp -a "$1" /mnt/gpu && cp "$2" /mnt/job && '
                  'LD_LIBRARY_PATH=/mnt/gpu exec /mnt/job --seconds 600 --leak-every 5 --pace-ms 5')
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "job",
             os.path.dirname(tracesmith.library()), tracesmith.workload_path("leak")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, FAKE_CUDA_TIME_SCALE="0"), start_new_session=True)
        self.addCleanup(lambda: (os.killpg(process.pid, signal.SIGKILL), process.communicate()))
        want = read_until(process, "leak")
        row = wait_for("the process", lambda: [p for p in self.daemon.query("processes") if (p["comm"], p["ppid"]) == ("job", process.pid)])[0]
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
