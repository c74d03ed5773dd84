"""What processes can do to the daemon that watches them: nobody makes it wait, nobody makes it miss others."""
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

import tracesmith
from test_counts import by_row
from tracesmith import wait_for

KILLS = int(os.environ.get("TS_KILLS", 2))  # tests/soak/kills has more
TRIES = 20
HOLD = os.path.join(tracesmith.BUILD, "tests", "e2e", "e2e_hold")
SLOW = tracesmith.preloadable(os.path.join(tracesmith.BUILD, "tests", "e2e", "libe2e_slow.so"))


def descriptors(pid):
    """What each is, without numbers; a process that is starting may close some meanwhile."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}").split("[")[0])
        except FileNotFoundError:
            pass
    return sorted(names)


def memory(pid):
    """What attaching maps for itself."""
    with open(f"/proc/{pid}/maps") as file:
        return [line for line in file if len(line.split()) == 5 and line.split()[1] == "r-xp"]


class Held(tracesmith.Case):
    """A process holds the lock of its own memory, and says hello."""

    def hold(self, *arguments, hello=True, options=()):
        directory = tempfile.mkdtemp(prefix="tracesmith-hold-")
        self.addCleanup(os.rmdir, directory)
        process = subprocess.Popen([HOLD, *options, directory, os.path.join(self.daemon.directory, "inject.sock") if hello else "-", *map(str, arguments)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.let_go, process)
        line = process.stdout.readline()
        if not line and process.wait() == tracesmith.SKIP:
            self.skipTest("no FUSE here")
        self.assertEqual(line, "held\n")
        return process

    def let_go(self, process):
        """A signal cannot end it while a thread waits for its file system: it ends the server first."""
        if process.poll() is None and not process.stdin.closed:
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(tracesmith.DEADLINE)
        self.end(process)

    def release(self, process):
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)

    def begin(self, *arguments):
        client = subprocess.Popen([os.path.join(tracesmith.BUILD, "tsctl"), *map(str, arguments)], stderr=subprocess.PIPE, text=True,
                                  stdout=subprocess.DEVNULL, env=dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket))
        self.addCleanup(self.end, client)
        return client

    def do(self, *arguments):
        result = self.daemon.ctl_again(*arguments)
        self.assertEqual(result.code, 0, f"{arguments}: {result.err}")

    def ctl_soon(self, *arguments):
        result = self.daemon.ctl(*arguments)
        self.assertEqual(result.code, 0, f"{arguments}: {result.err}")
        return result

    def test_nobody_waits_for_it(self):
        driver = [self.hold(tracesmith.library(), hello=False) for _ in range(3)]
        held = [self.hold(), self.hold(), *driver]
        hanging = [self.begin("attach", process.pid) for process in driver]
        self.ctl_soon("status")
        other, expected = tracesmith.run("counts")
        self.ctl_soon("ps")
        self.ctl_soon("top", "--once")
        self.daemon.wait_ended(other.pid)
        apis = self.daemon.apis(other.pid)
        want = by_row(expected)
        for name in ("cuMemAlloc_v2", "cuMemFree_v2", "cuStreamSynchronize"):
            self.assertEqual(apis[name]["calls"], want[name]["calls"])
        # Names come later, and none where the mappings of a program that is gone were missed.
        wait_for("its stacks", lambda: "mapping" in (answer := self.daemon.answer("launches", "--pid", other.pid))["loss"] or
                 any("counts" in json.dumps(row) for row in answer["rows"]))
        row = self.daemon.sql(f"SELECT command FROM process WHERE pid = {other.pid}")
        self.assertIn("counts", row[0]["command"])
        wait_for("a word about it", lambda: "lets nobody look into its memory" in self.daemon.log())
        looking = self.begin("stack", held[0].pid, "--native")
        # More than two attachments of one user at a time.
        running = tracesmith.workload("loop", "--seconds", 600, "--pace-ms", 1, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, running)
        wait_for("it to use CUDA", lambda: self.daemon.known(running.pid))
        self.do("attach", running.pid)
        # Those hang as before, even if who asked for them was told so meanwhile.
        self.assertLessEqual({attach.poll() for attach in hanging}, {None, 1})
        self.do("detach", running.pid)
        # On a busy machine the helper that reads it may be too slow.
        wait_for("its stack", lambda: (told := self.daemon.ctl("stack", running.pid, "--native")).code == 0 or
                 self.assertIn("have not answered for", told.err))
        self.assertEqual(looking.wait(tracesmith.DEADLINE), 1)
        self.assertIn("its memory or its files have not answered", looking.stderr.read())
        # Its page is code, and who closes its file waits.
        held.append(self.hold(options=["--silent"]))
        wait_for("a word about the file", lambda: "is on a file system that a user serves" in self.daemon.log())
        for process in held:
            self.release(process)
        for attach in hanging:
            self.assertEqual(attach.wait(tracesmith.DEADLINE), 1)

    def test_the_daemon_ends_meanwhile(self):
        held = self.hold(tracesmith.library(), hello=False)
        self.assertEqual(self.daemon.stop(), 0)
        self.release(held)


class Mapped(Held):
    """Such a process maps a copy of the driver. The kernel lets nobody fork while it waits for one to put probes on it or
    take them off; a name that no other daemon looks for keeps theirs away."""
    libraries = "libheld.so.1"
    settings = "" if tracesmith.DRIVER else f"[probe]\nlibraries = {libraries}\n"
    standing = ()
    test_nobody_waits_for_it = test_the_daemon_ends_meanwhile = None

    def launch(self):
        """Later: probes would come before the lock is taken, or in that very moment."""
        open(self.daemon.log_path, "w").close()

    def start(self, directory):
        process = tracesmith.workload("loop", "--seconds", 600, "--pace-ms", 1, copy=directory, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def fork():
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)

    def test_probes_wait_for_it(self):
        directory = tempfile.mkdtemp(prefix="tracesmith-driver-")
        self.addCleanup(shutil.rmtree, directory)
        path = shutil.copy(tracesmith.library(), os.path.join(directory, self.libraries))
        os.symlink(path, os.path.join(directory, "libcuda.so.1"))
        held = self.hold(path, 0, hello=False)
        process = self.start(directory)
        self.daemon.start()
        wait_for("a word about it", lambda: f"Process {held.pid} keeps the lock of its memory, and maps '{path}'" in self.daemon.log())
        # Not while it is looked at again.
        wait_for("a word in the status", lambda: f"no probes yet. Process {held.pid} keeps the lock" in self.ctl_soon("status").out)
        self.fork()
        self.release(held)
        wait_for("all probes", lambda: f"functions of '{path}'" in self.daemon.log() and self.daemon.known(process.pid))
        held = self.hold(path, 0, hello=False)
        self.end(process)
        self.daemon.wait_ended(process.pid)
        self.fork()
        self.release(held)

    def test_who_keeps_the_host_from_forking_is_named(self):
        """It takes the lock when it sees the first breakpoint; the kernel is mostly not done by then. Nothing can be started meanwhile,
        and a thread of the daemon that tries to start a child stops none of the others."""
        for _ in range(TRIES):
            directory = tempfile.mkdtemp(prefix="tracesmith-driver-")
            os.chmod(directory, 0o755)
            self.addCleanup(shutil.rmtree, directory)
            child = os.path.join(directory, "child")
            self.daemon.start(["env", f"LD_PRELOAD={SLOW}", f"TS_SLOW_CHILD={child}"])
            path = shutil.copy(tracesmith.library(), os.path.join(directory, self.libraries))
            held = self.hold(path, 0, hello=False, options=["--breakpoint"])
            open(child, "w").close()
            named = f"Process {held.pid} keeps the lock of its memory while probes are put on '{path}'"
            ends = named, f"functions of '{path}'", f"Process {held.pid} keeps the lock of its memory, and maps '{path}'"
            wait_for("an end of it", lambda: any(end in self.daemon.log() for end in ends))
            self.release(held)
            wait_for("the probes", lambda: f"functions of '{path}'" in self.daemon.log())
            if named in self.daemon.log():
                return
            self.daemon.stop()  # one says only so much in a minute of files and processes of one user
        self.skipTest(f"the kernel was done each of {TRIES} times")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


class Killed(tracesmith.Case):
    """The daemon is killed in the middle of attaching, alone or with the helper that would undo it."""

    def start(self):
        process = tracesmith.workload("loop", "--seconds", 600, "--pace-ms", 1, stderr=subprocess.DEVNULL,
                                      environment={"TRACESMITH_SOCKET": self.daemon.socket})
        self.addCleanup(self.end, process)
        wait_for("it to use CUDA", lambda: self.daemon.known(process.pid))
        return process

    def kill_while_attaching(self, pid, moment, all_of_it):
        command = [os.path.join(tracesmith.BUILD, "tsctl"), "attach", str(pid)]
        attach = subprocess.Popen(command, env=dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        family = children(self.daemon.process.pid)
        moment(attach)
        for helper in sum(map(children, family), []) if all_of_it else ():
            with contextlib.suppress(ProcessLookupError):  # one that has just ended
                os.kill(helper, signal.SIGKILL)
        self.daemon.kill()
        attach.wait()

    def is_as_found(self, pid, before):
        """Or it has the library, with one connection at most: that is the next daemon's."""
        left = collections.Counter(descriptors(pid)) - collections.Counter(before)  # a program that starts closes some
        return not memory(pid) and list(left.elements()) in ([], ["socket:"] if tracesmith.ours_of(pid) else [])

    def test_nothing_is_left_behind(self):
        def halfway(attach):
            while attach.poll() is None and "/memfd:tracesmith-library (deleted)" not in descriptors(process.pid):
                pass

        def sometime(attach):
            time.sleep(random.uniform(0, 0.06))  # any moment will do

        for i in range(KILLS):
            process = self.start()
            before = descriptors(process.pid)
            self.kill_while_attaching(process.pid, halfway if i < 2 else sometime, all_of_it=i % 2)
            self.daemon.start()  # which removes what nobody else does
            wait_for("all to be undone", lambda: self.is_as_found(process.pid, before))
            self.assertIsNone(process.poll(), "the program has ended")
            self.end(process)


if __name__ == "__main__":
    tracesmith.main()
