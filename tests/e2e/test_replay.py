"""The state machines, played again: what tsctl and the API tell is the same, from the daemon and from a
recording, and is what the store has; at a pace it takes the time that it should."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import tracesmith
from foreign import Client, control
from tracesmith import BUILD, wait_for

# What a device does in more detail, as a replay tells it.
SAME = {"copying": "running", "syncing": "idle"}
EDGE_NS = 5000
STEP_MS = 10
WINDOW = ("--since", "10m")


class Replay(tracesmith.Case):
    # Whatever a program does while the daemon does not get to run has room.
    settings = "[exact]\nring_records = 131072\n[probe]\nring_size = 64MiB\n"

    def program(self, name, *arguments, exact=False):
        """Runs a workload to its end, and waits until all that it did is stored; its pid."""
        command = [os.path.join(BUILD, "tsctl"), "run", "--"] if exact else []
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()),
                           FAKE_CUDA_TIME_SCALE="1", TRACESMITH_SOCKET=self.daemon.socket)
        process = subprocess.Popen([*command, tracesmith.workload_path(name), *map(str, arguments)], env=environment,
                                   stdout=subprocess.PIPE, text=True)
        out, _ = process.communicate(timeout=120)
        self.daemon.wait_ended(process.pid)
        known = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        calls = sum(row["calls"] for row in rows if row.get("fn") in known)
        wait_for(f"{calls} ops", lambda: self.ops(process.pid) >= calls)
        return process.pid

    def ops(self, pid):
        return self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE pid = {pid} AND fn IS NOT NULL AND node = 0")[0]["n"]

    def replay(self, *arguments, code=0):
        result = self.daemon.ctl("replay", *arguments)
        self.assertEqual(result.code, code, result.err)
        return result

    def played(self, *arguments):
        """The changes that --json tells, without the object at its end."""
        lines = self.replay("--json", *arguments).out.splitlines()
        end = json.loads(lines.pop())
        self.assertEqual(end["changes"], len(lines))
        self.assertIn("loss", end)
        return [json.loads(line) for line in lines]

    def asked(self, **request):
        """The same from the API."""
        client = Client(self.daemon.socket)
        replies = client.ask(id=1, replay=control.ReplayRequest(**request))
        client.socket.close()
        self.assertEqual(replies[-1].WhichOneof("body"), "done")
        changes = []
        for change in [change for reply in replies for change in reply.changes.change]:
            row = {"time_ns": change.time_ns, "machine": control.Changes.Machine.Name(change.machine).lower(),
                   "pid": change.pid, "stream": change.stream, "device": change.device,
                   "from": getattr(change, "from"), "to": change.to}
            for side in ("from", "to"):
                row[side] = control.Changes.State.Name(row[side]).lower()
            if change.op:
                row.update(op=change.op, kind=change.kind, name=change.name, tid=change.tid)
            if change.bounds:
                row["bounds"] = True
            changes.append(row)
        self.assertEqual(replies[-1].done.rows, len(changes))
        return changes

    def record(self, path, *arguments):
        result = self.daemon.ctl("record", "-o", path, *WINDOW, *arguments)
        self.assertEqual(result.code, 0, result.err)

    def assert_as_stored(self, pid, changes, exact):
        """A stored interval of 20 us or more is one in which the machine is in that state, but for its ends: calls
        of two threads come in the order in which they got their place in the ring, not in that of their times.
        Before recording starts it has bounds, though there may be exact times by now; and of the first step of
        the program the model may learn too late of which stream a record is."""
        compared = {}
        begin_ns = min(change["time_ns"] for change in changes if change["machine"] == "stream") + 3 * STEP_MS * 1000000
        for row in self.daemon.sql("SELECT stream, device, detail, start_ns, end_ns FROM op WHERE kind = 'state'"
                                   f" AND pid = {pid} AND duration_ns >= 20000 AND exact = {exact:d} AND start_ns > {begin_ns}"):
            machine, wanted = ("stream" if row["stream"] else "device"), SAME.get(row["detail"], row["detail"])
            now, states = "idle", set()
            for change in changes:
                if change["machine"] != machine or change["stream"] != row["stream"] or \
                        machine == "device" and change["device"] != row["device"]:
                    continue
                if change["time_ns"] >= row["end_ns"] - EDGE_NS:
                    break
                if change["time_ns"] > row["start_ns"] + EDGE_NS:
                    states.add(now)
                now = change["to"]
            self.assertEqual(states | {now}, {wanted}, row)
            compared[wanted] = compared.get(wanted, 0) + 1
        return compared

    def test_changes_are_those_of_the_store_and_of_recordings(self):
        exact = self.program("streams", "--steps", 20, "--pace-ms", STEP_MS, exact=True)
        probe = self.program("streams", "--steps", 20, "--pace-ms", STEP_MS)
        path = os.path.join(self.daemon.directory, "all.sbt")
        self.record(path, "--all")
        for pid, states in ((exact, {"idle", "running", "waiting"}), (probe, {"idle", "pending"})):
            changes = self.played("--pid", pid, *WINDOW)
            self.assertEqual(changes, sorted(changes, key=lambda change: change["time_ns"]))
            self.assertEqual(changes, self.asked(pid=pid), "the API tells something else")
            self.assertEqual(changes, self.played("--pid", pid, path), "the recording tells something else")
            compared = self.assert_as_stored(pid, changes, pid == exact)
            self.assertLessEqual(states, set(compared), compared)
            self.check_ops(pid, changes)
        self.check_filters(exact)
        self.check_files(path)

    def check_ops(self, pid, changes):
        """Each op starts at idle and ends finished, and work on the device ran at its times."""
        last, ran = {}, {}
        for change in changes:
            if change["machine"] != "op":
                continue
            self.assertEqual(change["from"], last.get(change["op"], "idle"))
            last[change["op"]] = change["to"]
            if change["to"] == "running" or change["from"] == "running":
                ran.setdefault(change["op"], []).append(change["time_ns"])
        self.assertEqual(set(last.values()), {"finished"})
        stored = self.daemon.sql(f"SELECT gpu_start_ns, gpu_end_ns FROM op WHERE pid = {pid} AND exact"
                                 " AND kind IN ('launch', 'copy', 'set', 'kernel')")
        self.assertEqual(sorted(map(tuple, ran.values())), sorted((row["gpu_start_ns"], row["gpu_end_ns"]) for row in stored))

    def check_filters(self, pid):
        all_of_it = self.played("--pid", pid, *WINDOW)
        stream = next(change["stream"] for change in all_of_it if change["machine"] == "stream")
        wanted = [change for change in all_of_it if change["stream"] == stream]
        self.assertEqual(self.played("--pid", pid, "--stream", stream, *WINDOW), wanted)
        self.assertEqual(self.asked(pid=pid, stream=stream), wanted)
        wanted = [change for change in all_of_it if change["device"] == 1]
        self.assertTrue(wanted)
        self.assertEqual(self.played("--pid", pid, "--device", 1, *WINDOW), wanted)
        self.assertEqual(self.asked(pid=pid, device=1), wanted)
        wanted = [change for change in all_of_it if change["machine"] == "op" and "gemm" in change["name"]]
        self.assertTrue(wanted)
        self.assertEqual(self.played("--pid", pid, "--kernel", "gemm_f16", *WINDOW), wanted)
        self.assertIn("Nothing to play", self.replay("--pid", pid, "--kernel", "no_such", *WINDOW).err)
        times = [change["time_ns"] for change in all_of_it]
        since, until = times[len(times) // 3], times[len(times) // 2]
        wanted = [change for change in all_of_it if since < change["time_ns"] < until]
        self.assertTrue(wanted)
        part = self.asked(pid=pid, since_ns=since, until_ns=until)
        for rows in (wanted, part):
            for row in rows:
                row.pop("op", None)
        self.assertEqual([change for change in part if change["time_ns"] > since], wanted)

    def check_files(self, path):
        first = self.replay("--json", path).out
        self.assertEqual(self.replay("--json", path).out, first, "a second time it is something else")
        self.assertEqual(self.replay("--json", path, "--speed", 20).out, first)
        lines = self.replay(path, "--from", "0.01", "--to", "0.05").out.splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertGreaterEqual(float(line.split()[0]), 0.01)
            self.assertLess(float(line.split()[0]), 0.05)
        cut = path + ".cut"
        with open(path, "rb") as whole, open(cut, "wb") as file:
            file.write(whole.read(os.path.getsize(path) * 2 // 3))
        result = self.daemon.ctl("replay", "--json", cut)
        self.assertEqual(result.code, 0, result.err)
        self.assertTrue(result.err, "nothing is said of the end that is missing")

    def test_pace(self):
        pid = self.program("rate", "--rate", 100, "--count", 100)
        arguments = ("replay", "--pid", pid, *WINDOW)
        changes = self.played(*arguments[1:])
        span_s = (changes[-1]["time_ns"] - changes[0]["time_ns"]) / 1e9
        self.assertGreater(span_s, 0.8)
        for speed in (10, 2):
            begin = time.monotonic()
            self.assertEqual(self.played("--speed", speed, *arguments[1:]), changes)
            self.assertGreaterEqual(time.monotonic() - begin, span_s / speed)
        self.check_lines_come_when_they_are_due(arguments, changes)
        self.check_lanes(arguments, span_s)

    def check_lines_come_when_they_are_due(self, arguments, changes):
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        begin, speed, few = time.monotonic(), 0.05, len(changes) // 12
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), *map(str, arguments), "--json", "--speed", str(speed)],
                                   env=environment, stdout=subprocess.PIPE, text=True)
        late = []
        for line in process.stdout:
            row = json.loads(line)
            if "time_ns" in row:
                late.append(time.monotonic() - (row["time_ns"] - changes[0]["time_ns"]) / 1e9 / speed)
            if len(late) == few:
                process.send_signal(signal.SIGINT)
        process.stdout.close()
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0, "Ctrl-C is an end like another")
        self.assertGreaterEqual(len(late), few)
        self.assertLess(len(late), len(changes))
        self.assertGreaterEqual(min(late), begin, "a line came before its time")

    def check_lanes(self, arguments, span_s):
        """On a terminal: a line for each stream, drawn again and again, until 'q'."""
        environment = dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)
        master, slave = pty.openpty()
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), *map(str, arguments), "--speed", "0.02"],
                                   env=environment, stdin=slave, stdout=slave)
        os.close(slave)
        shown = self.read_terminal(master, lambda shown: shown.count(b"\033[3A") >= 10)
        self.assertEqual(process.wait(tracesmith.DEADLINE), 0)
        self.assertIn(b" at 0.02x ", shown)
        self.assertIn(b"GPU 0 stream ", shown)
        self.assertLess(float(re.findall(rb"([0-9]+\.[0-9]{6}) s", shown)[-1]), 0.9 * span_s, "'q' did not end it")

    def read_terminal(self, master, enough=lambda shown: False):
        """All that is shown until the program ends; it is told to once there is enough."""
        shown, told, end = b"", False, time.monotonic() + tracesmith.DEADLINE
        while time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536)
                except OSError:
                    break
            if not told and enough(shown):
                told = os.write(master, b"q") > 0
        os.close(master)
        return shown

    def on_terminal(self, columns, *arguments):
        """What is shown on a terminal of so many columns, and the exit status."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), *map(str, arguments)], stdin=slave, stdout=slave,
                                   stderr=subprocess.PIPE, env=dict(environment, TRACESMITH_SOCKET=self.daemon.socket))
        os.close(slave)
        shown = self.read_terminal(master)
        said = process.stderr.read().decode()
        process.stderr.close()
        shown = re.sub(r"\033\[[0-9]*([A-Za-z])", lambda code: "\f" if code[1] == "A" else "", shown.decode())
        return process.wait(tracesmith.DEADLINE), re.split(r"[\r\n\f]+", shown), said

    def test_lanes_fit_the_terminal(self):
        path = os.path.join(self.daemon.directory, "lanes.sbt")
        self.program("streams", "--threads", 2, "--steps", 20, exact=True)
        self.record(path, "--all")
        for columns in (20, 33, 39, 40, 41, 60, 69, 70, 71, 80, 132):
            for arguments in (["replay", path, "--speed", "max"], ["view", path, "--lanes"]):
                code, lines, said = self.on_terminal(columns, *arguments)
                self.assertEqual((code, said), (0, ""))
                lanes = [line for line in lines if re.search(r"stream [0-9]|^[0-9]+:[0-9]+ ", line)]
                self.assertGreaterEqual(len(lanes), 4)
                self.assertLessEqual(max(map(len, lanes)), columns, lanes)
                legends = [line for line in lines if line.startswith(". idle  ")]
                self.assertEqual(bool(legends), arguments[0] == "replay")
                self.assertLess(max(map(len, legends), default=0), columns)
        for arguments in (["replay", path], ["view", path, "--lanes"]):
            code, _, said = self.on_terminal(12, *arguments)
            self.assertEqual(code, 2)
            self.assertIn("Lanes need 20 columns, and this terminal has 12", said)

    def test_the_clock_does_not_run_ahead(self):
        path = os.path.join(self.daemon.directory, "clock.sbt")
        self.program("rate", "--rate", 40000, "--seconds", 2, exact=True)
        self.record(path, "--all")
        length = self.daemon.sql("SELECT (max(last_ns) - min(first_ns)) / 1e9 AS s FROM chunk")[0]["s"]
        code, lines, _ = self.on_terminal(80, "replay", path, "--speed", 1000)
        self.assertEqual(code, 0)
        times = [float(line.split()[0]) for line in lines if re.match(r" *[0-9]+\.[0-9]{6} s", line)]
        self.assertGreater(len(times), 1)
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1], length + 1)

    def test_long_replays_are_stopped(self):
        pid = self.program("rate", "--rate", 40000, "--count", 40000, exact=True)
        wait_for("ops", lambda: self.ops(pid) > 20000)
        client = Client(self.daemon.socket)
        client.send(id=1, replay=control.ReplayRequest(pid=pid))
        client.reply()
        client.send(id=2, cancel=control.CancelRequest(request=1))
        ends = {reply.id: reply for _ in range(2) for reply in client.replies()}
        client.socket.close()
        self.assertEqual(ends[1].error.code, control.Error.CANCELLED)
        self.assertEqual(ends[2].WhichOneof("body"), "done")
        # Who reads no more is no end of the world.
        process = subprocess.run(f"'{BUILD}/tsctl' replay --since 10m | head -n 5", shell=True, capture_output=True, text=True,
                                 env=dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket), timeout=60)
        self.assertEqual(len(process.stdout.splitlines()), 5)
        self.assertEqual(process.stderr, "")

    def test_mistakes(self):
        def refused(part, *arguments):
            self.assertIn(part, self.replay(*arguments, code=2).err)

        refused("Invalid --kernel", "--kernel", "(")
        refused("does not go with playing", "--tolerance", "5%")
        refused("does not go with --check", "--check", "--speed", "2", "a.sbt")
        refused("does not go with --emulate", "--emulate", "--kernel", "gemm", "a.sbt")
        refused("Give one recording", "a.sbt", "b.sbt")
        refused("--speed", "--speed", "0")
        refused("--speed", "--speed", "fast")
        self.assertIn("none.sbt", self.replay("none.sbt", code=1).err)
        self.assertIn("Process 1 has not used CUDA", self.replay("--pid", 1, code=1).err)
        nothing = json.loads(self.replay("--json").out)
        nothing["loss"].pop("mapping", None)  # of others, as in assert_nothing_lost()
        self.assertEqual(nothing, {"changes": 0, "loss": {}})
        self.daemon.stop()
        self.assertIn("No daemon listens", self.replay(code=1).err)


if __name__ == "__main__":
    tracesmith.main()
