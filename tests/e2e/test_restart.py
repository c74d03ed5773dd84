"""The daemon is killed at any moment: the database is whole, the next one resumes, the gap is reported."""
import collections
import contextlib
import grp
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

import tracesmith
from tracesmith import run, wait_for, workload

KILLS = int(os.environ.get("TS_KILLS", 6))  # tests/soak/kills has more
PARTS_S = float(os.environ.get("TS_PARTS_S", 5))
PART_KILLS = int(os.environ.get("TS_PART_KILLS", 8))
KILLS_S = float(os.environ.get("TS_KILLS_S", "inf"))
CAP_DAC_OVERRIDE, CAP_IPC_LOCK, CAP_SYS_NICE = 1, 14, 23  # <linux/capability.h>
BPFTOOL = shutil.which("bpftool", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def integrity(path):
    out = subprocess.run(["sqlite3", path, "PRAGMA integrity_check"], capture_output=True, text=True, check=True)
    return out.stdout.strip()


class Restart(unittest.TestCase):
    def setUp(self):
        self.daemon = tracesmith.Daemon()
        self.addCleanup(self.daemon.close)

    def test_process_goes_on_after_a_kill(self):
        self.daemon.start()
        process = workload("leak", "--steps", "50")
        for line in process.stdout:
            if '"leak"' in line:
                want = json.loads(line)
                break
        wait_for("the leak", lambda: self.daemon.query("leaks", "--pid", process.pid, "--min-age", "0s"))
        wait_for("all calls", lambda: self.daemon.apis(process.pid).get("cuStreamDestroy_v2", {}).get("calls") == 2)
        before = self.daemon.query("leaks", "--pid", process.pid, "--min-age", "0s")
        self.daemon.kill()
        self.assertEqual(integrity(self.daemon.database), "ok")
        self.daemon.start()
        after = self.daemon.answer("leaks", "--pid", process.pid, "--min-age", "0s")
        self.assertEqual(self.leaks(after["rows"]), self.leaks(before))
        self.assertEqual(after["rows"][0]["bytes"], want["bytes"])
        gap = [row for row in self.daemon.query("loss") if row["reason"] == "no-daemon"]
        self.assertTrue(gap, "the time without a daemon is told")
        process.communicate("\n")
        self.daemon.wait_ended(process.pid)
        rows = self.daemon.sql(f"SELECT id FROM process WHERE pid = {process.pid}")
        self.assertEqual(len(rows), 1, "one process, one row")

    @staticmethod
    def leaks(rows):
        """With their stacks, but for inlined frames: these come with the lines, which may be found later."""
        return [(row["bytes"], row["count"], [frame["function"] for frame in row["frames"] if not frame["inlined"]]) for row in rows]

    def test_operations_that_waited_for_their_end_are_in_the_gap(self):
        self.daemon.start()
        rate = workload("rate", "--kind", "launch", "--rate", "2000", "--seconds", "600")
        self.addCleanup(rate.communicate)
        self.addCleanup(rate.kill)
        wait_for("operations", lambda: self.daemon.known(rate.pid) and self.daemon.sql(
            f"SELECT 1 FROM op WHERE kind = 'launch' AND pid = {rate.pid} LIMIT 1"))
        killed_ns = time.monotonic_ns()
        self.daemon.kill()
        self.daemon.start()
        gap = self.daemon.sql("SELECT start_ns FROM loss WHERE reason = 48 AND process = 0")[0]["start_ns"]
        # It never synchronizes, so each waits for two seconds.
        self.assertLess(gap, killed_ns - 1000000000)

    def test_process_that_ended_meanwhile(self):
        self.daemon.start()
        process = workload("leak", "--steps", "20")
        wait_for("the process", lambda: self.daemon.known(process.pid))
        self.daemon.kill()
        process.communicate("\n")
        self.daemon.start()
        wait_for("its end", lambda: self.daemon.ended(process.pid))
        self.assertEqual(self.daemon.query("leaks", "--pid", process.pid, "--min-age", "0s"), [])

    def kill_while_starting(self):
        timer = threading.Timer(random.uniform(0, 1.2), lambda: self.daemon.process and self.daemon.process.kill())
        timer.start()
        try:
            self.daemon.start()
        except AssertionError:
            self.assertEqual(self.daemon.process.poll(), -signal.SIGKILL, self.daemon.log())
        timer.join()
        self.daemon.kill()

    def committed_calls(self):
        """Of each second, from what a dead daemon left; in a copy: the next daemon is the first one that opens the log."""
        with tempfile.TemporaryDirectory() as directory:
            copy = os.path.join(directory, "copy.db")
            for end in "", "-wal":
                if os.path.exists(self.daemon.database + end):
                    shutil.copy(self.daemon.database + end, copy + end)
            self.assertEqual(integrity(copy), "ok")
            with contextlib.closing(sqlite3.connect(copy)) as db:
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'rollup'").fetchone():
                    return {}
                return dict(db.execute("SELECT second, sum(calls) FROM rollup GROUP BY second"))

    def test_killed_at_random_moments_under_load(self):
        end = time.monotonic() + KILLS_S
        rate = workload("rate", "--kind", "mixed", "--rate", "20000", "--seconds", 3600)
        self.addCleanup(lambda: (rate.kill(), rate.communicate()))
        self.daemon.start()
        wait_for("calls", lambda: self.daemon.apis(rate.pid))
        self.daemon.kill()
        calls = self.committed_calls()
        self.assertTrue(calls)
        for i in range(1, KILLS):
            if time.monotonic() > end:
                print(f"{i} of {KILLS} kills, as the time is over")
                break
            if i % 3 == 0:
                self.kill_while_starting()
            else:
                self.daemon.start()
                time.sleep(random.uniform(0.05, 0.8))
                self.daemon.kill()
            before, calls = calls, self.committed_calls()
            recent = time.monotonic() - 100  # older ones become minutes
            for second in before:
                if second > recent:
                    self.assertGreaterEqual(calls.get(second, 0), before[second], f"calls of second {second} are gone")
        self.daemon.start()
        self.assertNotIn("damaged", self.daemon.answer("loss")["loss"])
        wait_for("calls to be seen again", lambda: self.daemon.known(rate.pid))
        calls = sum(row["calls"] for row in self.daemon.query("apis", "--pid", rate.pid))
        wait_for("more calls", lambda: sum(row["calls"] for row in self.daemon.query("apis", "--pid", rate.pid)) > calls)
        self.assertEqual(self.daemon.stop(), 0)


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass


def comm(pid):
    """None: there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            state = file.read()
    except OSError:
        return None
    return None if state.rpartition(")")[2].split()[0] == "Z" else state[state.index("(") + 1:state.rindex(")")]


def children_of(pid):
    try:
        return [int(each) for each in read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def child(daemon, name):
    return next(pid for pid in children_of(daemon.process.pid) if comm(pid) == name)


def links(pid):
    """The ids of the BPF links that a process holds."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as file:
                found |= {line.split()[1] for line in file if line.startswith("link_id:")}
        except OSError:
            pass  # closed meanwhile
    return found


def link_exists(number):
    return subprocess.run([BPFTOOL, "link", "show", "id", number], capture_output=True, check=False).returncode == 0


class Planted(unittest.TestCase):
    """Somebody's code in the daemon, or in what reads for it, tries what only root may do."""

    def setUp(self):
        victim = subprocess.Popen(["sleep", "inf"])
        self.addCleanup(lambda: (victim.kill(), victim.wait()))  # when nobody traces it
        self.daemon = tracesmith.Daemon()
        self.addCleanup(self.daemon.close)
        self.path = os.path.join(self.daemon.directory, "planted")
        preloaded = tracesmith.preloadable(os.path.join(tracesmith.BUILD, "tests", "e2e", "libe2e_planted.so"))
        self.daemon.start(prefix=["env", f"LD_PRELOAD={preloaded}", f"TS_PLANTED={self.path}", f"TS_VICTIM={victim.pid}"])

    def tried(self, pid):
        os.kill(pid, signal.SIGUSR2)
        said = wait_for("all attempts", lambda: (text := read(self.path).strip("\0")).endswith("end\n") and text)
        return dict(line.split(": ") for line in said.splitlines()[:-1])

    def of(self, name):
        """A process of that name that descends from the daemon."""
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    parents[int(pid)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                pass

        def descends(pid):
            return pid == self.daemon.process.pid or (pid in parents and descends(parents[pid]))
        return next((pid for pid in parents if descends(pid) and comm(pid) == name), None)

    def test_the_daemon_may_do_nothing_of_it(self):
        tried = self.tried(self.daemon.process.pid)
        self.assertGreater(len(tried), 10)
        self.assertEqual([what for what, answer in tried.items() if answer == "done"], [])

    def test_nor_may_a_helper_that_reads_what_others_write(self):
        idle = workload("leak", "--steps", "20")

        def tried():
            self.daemon.ctl("stack", str(idle.pid))  # it stays for a while
            helper = self.of("ts-helper")
            with contextlib.suppress(ProcessLookupError):
                return helper and self.tried(helper)
        tried = wait_for("a helper", tried)
        idle.communicate("\n")
        self.assertGreater(len(tried), 10)
        self.assertEqual([what for what, answer in tried.items() if answer == "done"], [])

    def test_there_is_somebody_who_may(self):
        """So the attempts are worth something."""
        tried = self.tried(wait_for("the zygote", lambda: self.of("ts-zygote")))
        self.assertEqual({what for what, answer in tried.items() if answer == "done"}, {"read root", "trace root", "map root"})


class ByHand(unittest.TestCase):
    """Started by root, with all that root may."""

    def rights(self):
        """Of all threads of the daemon."""
        found = set()
        for task in os.listdir(f"/proc/{self.daemon.process.pid}/task"):
            text = read(f"/proc/{self.daemon.process.pid}/task/{task}/status")
            found |= {int(line.split()[1], 16) for line in text.splitlines() if re.match("Cap(Inh|Prm|Eff|Amb):", line)}
        return found - {0}

    @staticmethod
    def usual():
        """In a container, root may not raise its limits."""
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        try:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except ValueError:
            return 1 << CAP_SYS_NICE | 1 << CAP_IPC_LOCK
        resource.setrlimit(resource.RLIMIT_MEMLOCK, limit)
        return 1 << CAP_SYS_NICE

    def start(self, owner):
        self.daemon = tracesmith.Daemon("[daemon]\ncontrol_group = nogroup\n", as_root=True)  # the story
        self.addCleanup(self.daemon.close)
        os.chown(self.daemon.directory, owner, owner)
        self.daemon.start()
        self.assertEqual(os.stat(self.daemon.socket).st_gid, grp.getgrnam("nogroup").gr_gid)

    def test_it_keeps_that_to_hurry(self):
        self.start(0)
        process, _ = run("short")
        self.daemon.wait_ended(process.pid)
        self.assertEqual(self.rights(), {self.usual()})
        self.assertTrue(any(os.getpriority(os.PRIO_PROCESS, int(task)) < 0
                            for task in os.listdir(f"/proc/{self.daemon.process.pid}/task")), "nothing is in a hurry")

    def test_and_one_for_the_files_of_another_user(self):
        self.start(64999)
        self.assertEqual(self.rights(), {self.usual() | 1 << CAP_DAC_OVERRIDE})
        process, _ = run("short")
        self.daemon.wait_ended(process.pid)
        self.assertTrue(self.daemon.apis(process.pid), "answers of a process of their own")


class Broker(unittest.TestCase):
    """The process that puts probes on."""

    def setUp(self):
        self.daemon = tracesmith.Daemon().start()
        self.addCleanup(self.daemon.close)

    def test_without_it_the_daemon_ends_and_says_why(self):
        """Nor without the others whose work nobody else does."""
        for name in "ts-broker", "ts-zygote", "ts-opener":
            os.kill(child(self.daemon, name), signal.SIGKILL)
            self.assertEqual(self.daemon.process.wait(tracesmith.DEADLINE), 1)
            said = [line for line in self.daemon.log().splitlines() if f"({name}) has ended" in line]
            self.assertEqual(len(said), 1, self.daemon.log())
            self.daemon.start()
            self.daemon.query("kernels")

    def ask_on(self, process, stop, wrong):
        """Until it is over, what each part is needed for: an answer, or one sentence."""
        asks = (["stack", process.pid], ["sql", "SELECT count(*) FROM op"], ["query", "apis", "--pid", process.pid],
                ["attach", process.pid], ["detach", process.pid])
        for ask in itertools.cycle(asks):
            if stop.is_set():
                return
            said = self.daemon.ctl(*ask)
            if said.code not in (0, 1) or (said.code and len(said.err.splitlines()) != 1) or "Not enough memory" in said.err:
                wrong.append((ask, said.code, said.err))

    def kill_one(self, name):
        """One of that name, at any moment; whether there was one, and the daemon lives on."""
        zygote = child(self.daemon, "ts-zygote")
        below = [each for pid in children_of(zygote) for each in (pid, *children_of(pid))]
        found = [pid for pid in [*children_of(self.daemon.process.pid), *below] if comm(pid) == name]
        with contextlib.suppress(ProcessLookupError):
            if found:
                os.kill(random.choice(found), signal.SIGKILL)
                return True
        return False

    def check_goes_on(self, process):
        """The daemon that lives, or the next one, counts its calls; none of these died in vain."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.daemon.process.wait(0.3)
            self.assertEqual(code, 1, self.daemon.log())
            self.assertRegex(self.daemon.log(), r"\(ts-(broker|zygote|opener)\) has ended")
            self.daemon.start()
        wait_for("the process", lambda: self.daemon.known(process.pid))
        before = self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"]
        wait_for("more calls", lambda: self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"] > before)
        self.assertIsNone(process.poll(), "the program is not harmed")

    def test_each_is_killed_at_any_moment(self):
        """While it is asked for what it does. tests/soak/kills: 200 times."""
        process = workload("loop", "--seconds", "36000", "--pace-ms", "5")
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        wait_for("its calls", lambda: self.daemon.known(process.pid))
        parts, killed = ["ts-helper", "ts-zygote", "ts-query", "ts-broker", "ts-attach", "ts-opener"], collections.Counter()
        for turn in range(PART_KILLS):
            name, stop, wrong = parts[turn % len(parts)], threading.Event(), []
            asking = threading.Thread(target=self.ask_on, args=(process, stop, wrong))
            asking.start()
            try:
                time.sleep(random.uniform(0, 0.5))
                wait_for(f"a {name}", lambda name=name: self.kill_one(name))
                killed[name] += 1
            finally:
                stop.set()
                asking.join()
            self.assertEqual(wrong, [])
            self.check_goes_on(process)
        print(dict(killed))

    def kill_below(self, share):
        """Of those that the zygote started, and of theirs; returns the names of those that were there."""
        killed = set()
        for pid in children_of(child(self.daemon, "ts-zygote")):
            for each in [pid, *children_of(pid)]:
                name = comm(each)
                if name and random.random() < share:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)
                        killed.add(name)
        return killed

    def test_others_are_started_again(self):
        """Those beside the zygote, which are killed whenever they are found: what was asked of them is answered, or refused with
        a reason, and status tells."""
        process = workload("loop", "--seconds", "600", "--pace-ms", "5")
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        wait_for("its calls", lambda: self.daemon.known(process.pid))
        self.assertNotIn("_died", self.daemon.ctl("status").out)
        asks = (["stack", process.pid], ["sql", "SELECT count(*) FROM op"], ["query", "apis", "--pid", process.pid],
                ["attach", process.pid], ["detach", process.pid], ["export", "--csv", "--pid", process.pid, "-o", "-"])
        killed, until, turn = set(), time.monotonic() + PARTS_S, 0
        while time.monotonic() < until or not killed >= {"ts-helper", "ts-opener", "ts-query", "ts-attach"}:
            self.assertLess(time.monotonic(), until + 2 * tracesmith.DEADLINE, killed)
            ask = asks[turn % len(asks)]
            turn += 1
            with subprocess.Popen([os.path.join(tracesmith.BUILD, "tsctl"), *map(str, ask)], text=True, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, env=dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket)) as asking:
                time.sleep(random.uniform(0, 0.03))
                killed |= self.kill_below(0.5)
                said = asking.communicate()[1]
            self.assertIn(asking.returncode, (0, 1), (ask, said))
            self.assertTrue(asking.returncode == 0 or len(said.splitlines()) == 1, (ask, said))
            self.assertNotIn("Not enough memory", said)
            self.assertIsNone(process.poll(), (ask, said))
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log())
        before = self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"]
        wait_for("more calls", lambda: self.daemon.apis(process.pid)["cuLaunchKernel"]["calls"] > before)
        wait_for("its stacks", lambda: self.daemon.ctl("stack", process.pid).code == 0)
        status = self.daemon.ctl("status").out
        for name in "helpers_died", "queries_died":
            self.assertRegex(status, f"! {name} +[1-9][0-9]* were killed or crashed")
        check = self.daemon.ctl("status", "--check")
        self.assertEqual((check.code, check.out.split(":")[0]), (1, "WARNING"))

    def test_a_process_is_described_though_helpers_are_killed(self):
        """Its command line and its container are read once."""
        for _ in range(20):
            process = workload("leak", "--steps", "20")
            self.addCleanup(lambda process=process: (process.kill(), process.communicate()))
            until, left = time.monotonic() + 0.2, 4  # fewer than it is tried
            while left and time.monotonic() < until:
                left -= bool(self.kill_below(0.5))
            wait_for("what is known of it", lambda: self.daemon.sql(
                f"SELECT cgroup FROM process WHERE pid = {process.pid} AND cgroup IS NOT NULL"))

    def test_it_ends_with_the_daemon_and_leaves_no_probes(self):
        def stay():
            """Those that it has, but for one that measures and goes."""
            found = links(self.daemon.process.pid)
            return found if all(map(link_exists, found)) else None
        pid, held = child(self.daemon, "ts-broker"), wait_for("its links", stay)
        self.daemon.kill()
        wait_for("the broker's end", lambda: comm(pid) != "ts-broker")
        wait_for("the end of the links", lambda: not any(map(link_exists, held)))


class FullDisk(unittest.TestCase):
    def start(self):
        directory = tracesmith.tempfile.mkdtemp(prefix="tracesmith-full-")
        self.addCleanup(os.rmdir, directory)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", directory], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", directory], check=True))
        daemon = tracesmith.Daemon(directory=directory)
        self.addCleanup(lambda: daemon.process and daemon.process.poll() is None and daemon.kill())
        daemon.start()
        return daemon, os.path.join(directory, "filler")

    def calls(self, daemon, pid):
        return sum(row["calls"] for row in daemon.query("apis", "--pid", pid))

    def test_what_comes_while_the_disk_is_full_is_answered_and_written_later(self):
        daemon, filler = self.start()
        fill(filler)
        process, _ = run("short")
        wait_for("the journal to say so", lambda: "new data in memory" in daemon.log())
        wait_for("its end", lambda: any(
            row["exit_ns"] for row in daemon.query("processes", "--pid", process.pid)))
        calls = self.calls(daemon, process.pid)
        self.assertGreater(calls, 0)
        leak = workload("leak", "--steps", "20")
        wait_for("a process that runs", lambda: str(leak.pid) in daemon.ctl("ps", "-p", leak.pid).out)
        leak.communicate("\n")
        with sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True) as db:
            stored = "SELECT count(*) FROM process WHERE pid = ?"
            self.assertEqual(db.execute(stored, (process.pid,)).fetchone()[0], 0)
        # A user's statement runs in another process, does not see what is in the daemon's memory, and says so.
        answer = json.loads(daemon.ctl("sql", f"SELECT count(*) AS n FROM op WHERE pid = {process.pid}", "--json").out)
        self.assertEqual(answer["rows"][0]["n"], 0)
        self.assertRegex(answer["note"], "This answer is [1-9][0-9]* s old")
        status = daemon.ctl("status")
        self.assertIn("No space left on device", status.out)
        check = daemon.ctl("status", "--check")
        self.assertEqual(check.code, 1)
        self.assertRegex(check.out, "^WARNING: store .*cannot write: No space left on device")
        os.unlink(filler)
        wait_for("the journal to say so", lambda: "nothing was lost" in daemon.log())
        self.assertEqual(self.calls(daemon, process.pid), calls)
        self.assertEqual(daemon.log().count("new data in memory"), 1)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(integrity(daemon.database), "ok")
        with sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True) as db:
            self.assertEqual(db.execute(stored, (process.pid,)).fetchone()[0], 1)

    def test_a_full_disk_is_no_matter_for_a_busy_program(self):
        daemon, filler = self.start()
        fill(filler)
        rate = workload("rate", "--kind", "mixed", "--rate", "50000", "--stop")
        wait_for("calls", lambda: daemon.known(rate.pid) and self.calls(daemon, rate.pid) > 100000)
        rate.communicate("\n")
        self.assertEqual(daemon.ctl("status").code, 0, "it answers while the disk is full")
        self.assertIsNone(daemon.process.poll(), daemon.log())
        os.unlink(filler)
        wait_for("the journal to say so", lambda: "nothing was lost" in daemon.log())
        process, _ = run("short")
        wait_for("writing to go on", lambda: daemon.known(process.pid))
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(integrity(daemon.database), "ok")

    def test_a_daemon_that_stops_on_a_full_disk_says_what_is_lost(self):
        daemon, filler = self.start()
        fill(filler)
        process, _ = run("short")
        wait_for("the journal to say so", lambda: "new data in memory" in daemon.log())
        daemon.stop()
        self.assertRegex(daemon.log(), "Cannot write .* [1-9][0-9]* operations")
        os.unlink(filler)
        self.assertEqual(integrity(daemon.database), "ok")


if __name__ == "__main__":
    tracesmith.main()
