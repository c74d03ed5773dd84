"""Who held what when an allocation failed, and what would have been enough."""
import contextlib
import json
import os
import re
import signal
import time
from pathlib import Path

import tracesmith
from test_cost import MemberCase
from tracesmith import wait_for, workload

MIB = 1 << 20


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def comm(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


class OomCase(tracesmith.Case):
    settings = "tensors = yes"

    def launch(self):
        self.daemon.start(prefix=["env", "TRACESMITH_PATIENCE=20"])  # a stack that is not found in time is cut

    def start(self, mib=64, **options):
        process = workload("oom", environment={"FAKE_CUDA_MEMORY_MIB": str(mib)}, **options)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def end(self, process):
        process.kill()
        process.communicate()

    def start_torch(self):
        """One whose allocator is watched from its first block on."""
        process = self.start()
        wait_for("the allocator's probes", lambda: f"'{tracesmith.FAKE}/lib10/libc10.so'" in self.daemon.log())
        return process

    def wait_reported(self, count, process):
        """What the driver did is told first, and then what became of it."""
        return wait_for(f"{count} reports", lambda: (lambda rows: len(rows) == count and all(
            row["bytes"] < 20 * MIB for row in rows) and rows)(self.list("--pid", process.pid)))

    def say(self, process, line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def list(self, *arguments):
        return self.daemon.query("oom", *arguments)

    def wait_list(self, count, *arguments):
        return wait_for(f"{count} rows", lambda: (lambda rows: len(rows) == count and rows)(self.list(*arguments)))

    def show(self, number):
        result = self.daemon.ctl("oom", "show", number, "--json")
        self.assertEqual(result.code, 0, result.err)
        told = json.loads(result.out)
        return told["oom"]["rows"][0], told["oom-held"]["rows"], told["oom-stacks"]["rows"]


class Oom(OomCase):
    def test_size(self):
        """What was held, by whom and by which stack, and how much more would have been enough."""
        process = self.start()
        for _ in range(3):
            self.assertEqual(self.say(process, f"take {16 * MIB}"), 0)
        self.assertEqual(self.say(process, f"take {32 * MIB}"), 2)
        began = time.monotonic()
        row, = self.wait_list(1, "--pid", process.pid)
        print(f"kept {time.monotonic() - began:.3f} s after the failure")
        self.assertEqual((row["bytes"], row["held_bytes"], row["own_bytes"], row["kind"], row["fn"]),
                         (32 * MIB, 48 * MIB, 48 * MIB, "device", "cuMemAlloc_v2"))
        self.assertEqual(row["outcome"], "failed")
        self.assertIsNone(row["free_bytes"], "nobody asked")
        self.assertIn("how much was free is unknown", row["enough"])
        self.assertEqual(row["stack"][0].split("+")[0], "take")
        self.assertEqual(self.say(process, "info"), 0)
        row = wait_for("what was free", lambda: [row for row in self.list() if row["free_bytes"] is not None])[0]
        self.assertEqual(row["free_bytes"], 16 * MIB)
        size, = self.daemon.sql(f"SELECT memory_bytes, uuid FROM device d JOIN process p ON p.id = d.process WHERE p.pid = {process.pid}")
        self.assertEqual((size["memory_bytes"], size["uuid"]), (64 * MIB, ""))
        self.assertEqual(self.daemon.query("devices", "--pid", process.pid), [], "no library described one")
        self.assertIn("16.0 MiB more", row["enough"])
        row, held, stacks = self.show(row["oom"])
        self.assertEqual([(h["pid"], h["kind"], h["bytes"], h["count"]) for h in held],
                         [(process.pid, "device", 48 * MIB, 3)])
        self.assertEqual(held[0]["recent_bytes"], 48 * MIB)
        self.assertEqual(sum(s["bytes"] for s in stacks), 48 * MIB)
        self.assertEqual(stacks[0]["stack"][0].split("+")[0], "take")
        text = self.daemon.ctl("oom", "show", row["oom"])
        self.assertEqual(text.code, 0, text.err)
        print(text.out)
        wait_for("a line in the log", lambda: f"tsctl oom show {row['oom']}" in self.daemon.log())

    def test_fragmentation(self):
        """Enough lies free, in pieces that are too small: told apart from a device that is too small."""
        process = self.start_torch()
        while self.say(process, f"tensor {2 * MIB}") == 0:
            pass
        first, = self.wait_reported(1, process)
        self.assertEqual((first["outcome"], first["failures"], first["bytes"]), ("failed", 2, 2 * MIB))
        self.assertEqual(first["enough"], "16.0 MiB more of the device's memory (4.00 MiB were free)")
        self.assertEqual(self.say(process, "holes"), 15)
        self.assertEqual(self.say(process, f"tensor {9 * MIB}"), 1)
        second = self.wait_reported(2, process)[0]
        self.assertEqual(second["bytes"], 9 * MIB)
        self.assertEqual(second["enough"], "16.0 MiB more of the device's memory (4.00 MiB were free), or no fragmentation: "
                         "30.0 MiB lie free in 15 pieces of at most 2.00 MiB")
        self.assertEqual((second["pieces"], second["largest_bytes"], second["fragmentation"]), (15, 2 * MIB, 800000))
        self.assertEqual(second["cached_bytes"], 30 * MIB)
        row, held, stacks = self.show(second["oom"])
        kinds = {h["kind"]: h for h in held}
        self.assertEqual(set(kinds), {"device", "tensor"})
        self.assertEqual(kinds["tensor"]["reserved_bytes"], 60 * MIB)
        self.assertEqual(kinds["device"]["bytes"], 60 * MIB)
        self.assertEqual(kinds["tensor"]["bytes"] + kinds["tensor"]["cached_bytes"], 60 * MIB)
        self.assertIn("tensor", {s["kind"] for s in stacks})
        self.assertIn("take_tensor", str([s["stack"] for s in stacks if s["kind"] == "tensor"]))
        print(self.daemon.ctl("oom", "show", second["oom"]).out)

    def recovered(self):
        """The number of a failure after which the program got its memory in the end."""
        process = self.start()
        for _ in range(3):
            self.assertEqual(self.say(process, f"tensor {20 * MIB}"), 0)
        self.say(process, "holes")
        self.say(process, "holes")
        self.assertEqual(self.say(process, f"tensor {30 * MIB}"), 0)
        row, = wait_for("the recovery", lambda: [row for row in self.list("--pid", process.pid) if row["outcome"] == "recovered"])
        self.assertEqual((row["failures"], row["bytes"]), (1, 30 * MIB))
        self.end(process)
        return row["oom"]

    def test_recovered(self):
        """What an allocator gets after it has emptied its cache never reached the program."""
        # Where it takes longer than a second, as on a busy machine, it looked like one that lasts.
        wait_for("a recovery that is no news", lambda: not re.search(rf"oom show {self.recovered()}\b", self.daemon.log()))

    def test_several_processes(self):
        others = [self.start() for _ in range(2)]
        for other in others:
            self.assertEqual(self.say(other, f"take {8 * MIB}"), 0)
        process = self.start()
        self.assertEqual(self.say(process, f"take {65 * MIB}"), 2)
        row, = self.wait_list(1)
        self.assertEqual((row["held_bytes"], row["own_bytes"]), (16 * MIB, 0))
        row, held, stacks = self.show(row["oom"])
        self.assertEqual(sorted((h["pid"], h["bytes"]) for h in held), sorted((other.pid, 8 * MIB) for other in others))
        self.assertEqual({s["pid"] for s in stacks}, {other.pid for other in others})

    def test_what_others_hold_is_waited_for(self):
        """The records of a process whose mappings are not known yet are late, and are before the failure all the same."""
        process = self.start()
        self.assertEqual(self.say(process, f"take {MIB}"), 0)
        wait_for("its stack", lambda: self.daemon.query("leaks", "--pid", process.pid))
        with self.helpers_stopped():
            other = self.start()
            self.assertEqual(self.say(other, f"take {8 * MIB}"), 0)
            self.assertEqual(self.say(process, f"take {65 * MIB}"), 2)
            time.sleep(0.2)
        row, = self.wait_list(1)
        self.assertEqual((row["held_bytes"], row["own_bytes"]), (9 * MIB, MIB))
        row, held, stacks = self.show(row["oom"])
        self.assertEqual({s["pid"] for s in stacks}, {process.pid, other.pid})

    @contextlib.contextmanager
    def helpers_stopped(self):
        """Those that look into other processes."""
        zygote, = [pid for pid in children(self.daemon.process.pid) if comm(pid) == "ts-zygote"]
        stopped = []

        def send(number, pid):
            with contextlib.suppress(ProcessLookupError):  # of one that has just ended
                os.kill(pid, number)

        def stop_all():
            """Until there is none that it made before it stopped."""
            new = [pid for pid in [zygote, *children(zygote)] if pid not in stopped]
            for pid in new:
                send(signal.SIGSTOP, pid)
            stopped.extend(new)
            return not new and " (ts-zygote) T " in Path(f"/proc/{zygote}/stat").read_text()

        try:
            wait_for("the helpers to stop", stop_all)
            yield
        finally:
            for pid in stopped:
                send(signal.SIGCONT, pid)

    def test_loop_is_bounded(self):
        """A program that fails all the time is looked at a few times in a minute; the rest is counted."""
        process = self.start()
        self.assertEqual(self.say(process, f"loop 5000 {65 * MIB}"), 2)
        rows = wait_for("all failures", lambda: (lambda rows: sum(row["failures"] for row in rows) == 5000 and rows)(self.list()))
        self.assertLessEqual(len(rows), 8)
        counts, = self.daemon.sql("SELECT (SELECT count(*) FROM oom) AS ooms, (SELECT count(*) FROM oom_memory)"
                                  " + (SELECT count(*) FROM oom_stack) AS parts")
        self.assertLessEqual(counts["ooms"], 8)
        wait_for("the log", lambda: "oom show" in self.daemon.log())
        self.assertLessEqual(self.daemon.log().count("oom show"), 9)

    def test_kept_over_a_restart_and_in_a_recording(self):
        process = self.start()
        self.say(process, f"take {8 * MIB}")
        self.assertEqual(self.say(process, f"take {65 * MIB}"), 2)
        before, = self.wait_list(1)
        recording = os.path.join(self.daemon.directory, "oom.sbt")
        result = self.daemon.ctl("record", "-o", recording, "--pid", process.pid, "--since", "1m")
        self.assertEqual(result.code, 0, result.err)
        told = json.loads(self.daemon.ctl("oom", "show", before["oom"], "--file", recording, "--json").out)
        self.assertEqual([(row["kind"], row["bytes"]) for row in told["oom-held"]["rows"]], [("device", 8 * MIB)])
        self.daemon.stop()
        self.daemon.start()
        after, = self.list()
        # Of its stack, names and lines may have come later.
        self.assertEqual(*({name: value for name, value in row.items() if name not in ("where", "frames") and not name.startswith("stack")}
                           for row in (after, before)))
        self.assertEqual(self.say(process, f"take {66 * MIB}"), 2)
        rows = self.wait_list(2)
        self.assertEqual(rows[0]["oom"], before["oom"] + 1, "numbers go on")
        self.assertEqual(self.show(rows[0]["oom"])[1][0]["bytes"], 8 * MIB)


class Nothing(tracesmith.Case):
    """Where nobody has used CUDA."""

    def test_bad_input(self):
        for arguments, code, text in ((["show", 999], 1, "no number 999"), (["show"], 2, "'tsctl oom show 3'"),
                                      (["show", "x"], 2, "'tsctl oom show 3'"), (["hide", 1], 2, "'tsctl oom show 3'"),
                                      (["show", 0], 2, "'tsctl oom show 3'"), (["show", 1 << 40], 2, "'tsctl oom show 3'")):
            result = self.daemon.ctl("oom", *arguments)
            self.assertEqual((result.code, text in result.err), (code, True), f"{arguments}: {result.err}")
        result = self.daemon.ctl("oom")
        self.assertEqual(result.code, 0)
        self.assertIn("No process has used CUDA", result.out + result.err)
        self.daemon.stop()
        result = self.daemon.ctl("oom", "show", 1)
        self.assertEqual(result.code, 1)
        self.assertIn("tracesmithd", result.err)


class OwnOnly(OomCase, MemberCase):
    """Where the settings say so, a member sees his own failures, and of who held the memory only himself."""
    settings = "tensors = yes\n[daemon]\ncontrol_group = nogroup\n[access]\nothers = own\n"

    def test_others_are_one_row(self):
        other = self.start()
        self.assertEqual(self.say(other, f"take {40 * MIB}"), 0)
        wait_for("what the other one holds", lambda: [row for row in self.daemon.query("memory", "--pid", other.pid)
                                                      if row["live_bytes"] == 40 * MIB])
        process = self.start(user="nobody", group="nogroup", extra_groups=[])
        self.assertEqual(self.say(process, f"take {8 * MIB}"), 0)
        self.assertEqual(self.say(process, f"take {65 * MIB}"), 2)
        row, = self.wait_list(1)
        self.assertEqual(self.say(other, f"take {66 * MIB}"), 2)
        self.wait_list(2)
        told = self.ctl("oom", "show", row["oom"], "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        told = json.loads(told.stdout)
        self.assertEqual([(held["pid"], held["comm"], held["bytes"]) for held in told["oom-held"]["rows"]],
                         [(process.pid, "oom", 8 * MIB), (None, "others", 40 * MIB)])
        self.assertEqual({stack["pid"] for stack in told["oom-stacks"]["rows"]}, {process.pid})
        self.assertIn("other processes hold 40.0 MiB", told["oom"]["rows"][0]["enough"])
        rows = json.loads(self.ctl("oom", "--json").stdout)["rows"]
        self.assertEqual([row["pid"] for row in rows], [process.pid])
        self.assertRegex(self.ctl("oom", "show", row["oom"] + 1).stderr, "^tsctl: There is no number")
        # To root, both are there by name.
        self.assertEqual({held["pid"] for held in self.show(row["oom"])[1]}, {process.pid, other.pid})


if __name__ == "__main__":
    tracesmith.main()
