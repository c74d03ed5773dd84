"""What the end-to-end tests share: a private daemon, the simulated GPU and its workloads.

A test is a program: it imports this, defines unittest cases and calls main(). The build is found
through TS_BUILD (see CMakeLists.txt). Nothing here sleeps for a guess: what takes time is waited
for with a deadline, and what does not come is a failure that shows the daemon's log.
"""
import atexit
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import unit

SOURCE = os.environ.get("TS_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TS_BUILD") or os.path.join(SOURCE, "build", "release")
FAKE = os.path.join(BUILD, "tests", "fake")
# How an answer ends that may be another one soon: a busy machine has no good moment of a process, has not looked at it yet,
# or has not started the one that answers.
AGAIN = ("; try again", ": try again", ": try again in a moment", ": try again in a few seconds")
DEADLINE = float(os.environ.get("TS_DEADLINE", "60"))
# 'exact': all tests of the exact tier with calls that are reported from inside.
LIGHT = os.environ.get("TS_LIGHT", "request")
SKIP = 77


def _own_driver():
    """Copies of the simulated driver under a file name that nobody else has, where there is one ('own'): who else uses CUDA on the
    host is not seen then, counted or waited for, and takes no room from those who are. Returns the name and the folder of the
    copies; no name: the daemons look for every driver."""
    if not os.environ.get("TS_DRIVER"):
        return "", FAKE
    folder = tempfile.mkdtemp(prefix="own-", dir=FAKE)
    atexit.register(shutil.rmtree, folder)
    os.chmod(folder, 0o755)
    name = f"libcuda.so.{os.path.basename(folder).removeprefix('own-')}"
    for copy in "lib", "lib2":
        os.mkdir(os.path.join(folder, copy))
        shutil.copy(os.path.join(FAKE, copy, "libcuda.so.1"), os.path.join(folder, copy, name))
        os.symlink(name, os.path.join(folder, copy, "libcuda.so.1"))
    os.symlink(os.path.join(FAKE, "lib", "libcupti.so.13"), os.path.join(folder, "lib", "libcupti.so.13"))
    return name, folder


DRIVER, DRIVERS = _own_driver()


def skip(why):
    print("skipped:", why, file=sys.stderr)
    sys.exit(SKIP)


def not_now(said):
    """Whether a refusal is one of a bad moment, and of nothing else."""
    return said.rstrip().endswith(AGAIN)


def wait_for(what, condition, seconds=DEADLINE):
    """Returns the first true value of condition(), or fails: with `what`, or what it says then."""
    end = time.monotonic() + seconds
    while True:
        # Before it is asked for the last time: we may get no processor in between.
        late = time.monotonic() > end
        value = condition()
        if value:
            return value
        if late:
            raise AssertionError(f"waited {seconds:.0f} s for {what() if callable(what) else what}: still {value!r}")
        time.sleep(0.02)


class Result:
    """What a command said."""

    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr


class Daemon:
    """A tracesmithd of our own, with its socket and database in a directory of its own, which has the rights that
    the unit gives it. Most tests count exactly what programs that do nothing else call, so it has no budget and no
    bound unless asked for."""

    def __init__(self, settings="", directory=None, standing=("lib",), budget="none", trap_limit="none", libraries="",
                 driver=DRIVER, as_root=False):
        self.directory = directory or tempfile.mkdtemp(prefix="tracesmith-test-")
        self.socket = os.path.join(self.directory, "control.sock")
        self.database = os.path.join(self.directory, "tracesmith.db")
        self.log_path = os.path.join(self.directory, "log")
        self.config = os.path.join(self.directory, "tracesmithd.conf")
        copies = " ".join(pattern(library(name)) for name in standing)
        with open(self.config, "w") as file:
            file.write(f"[probe]\nlight = {LIGHT}\n{settings}\n[probe]\nbudget = {budget}\n"
                       f"trap_limit = {trap_limit}\nstanding = {copies}\n")
            if driver:
                file.write(f"libraries = {driver} {libraries}\n")
        group = re.search("control_group = (.*)", settings)
        self.rights = () if as_root else unit.command("attach = perf" in settings, group[1] if group else unit.USER)
        if not as_root:
            unit.own(self.directory, self.config)
        self.process = None

    def start(self, prefix=()):
        log = open(self.log_path, "a")
        self.process = subprocess.Popen(
            [*self.rights, *prefix, os.path.join(BUILD, "tracesmithd"), "--config", self.config, "--socket", self.socket,
             "--state-dir", self.directory], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        wait_for("the daemon to answer", self._answers)
        return self

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.process.returncode}:\n{self.log()}")
        return os.path.exists(self.socket) and self.ctl("status").code == 0

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def ctl(self, *arguments, **options):
        environment = dict(os.environ, TRACESMITH_SOCKET=self.socket)
        return Result(subprocess.run([os.path.join(BUILD, "tsctl"), *map(str, arguments)], env=environment,
                                     capture_output=True, text=True, timeout=300, **options))

    def ctl_again(self, *arguments):
        """For what needs a good moment of another process: on a busy machine none may come for seconds, and it says so. Then
        what was started is taken back first."""
        result = None

        def is_over():
            nonlocal result
            result = self.ctl(*arguments)
            return not (result.code and not_now(result.err))
        wait_for(lambda: f"a good moment to {arguments[0]}: {result.err}", is_over)
        return result

    def answer(self, name, *arguments):
        """The whole JSON object of a query; no rows where the process is not known (yet)."""
        return self._of_now(lambda: self._answer(name, *arguments))

    def _of_now(self, ask):
        """What the daemon answers once it has everything that came before: on a busy machine it may be of a second ago, and says so."""
        def answer():
            told = ask()
            return None if told is None or "s old: what happened" in told.get("note", "") else told
        return wait_for("an answer as of now", answer)

    def _answer(self, name, *arguments):
        result = self.ctl("query", name, "--json", *arguments)
        if result.code == 1 and "has not used CUDA" in result.err:
            return {"query": name, "rows": [], "loss": {}}
        if result.code and not_now(result.err):
            return None
        if result.code:
            raise AssertionError(f"query {name} {arguments}: exit {result.code}: {result.err}\n{self.log()}")
        return json.loads(result.out)

    def query(self, name, *arguments):
        return self.answer(name, *arguments)["rows"]

    def sql(self, text, *options):
        def ask():
            result = self.ctl("sql", "--json", *options, text)
            if result.code and not_now(result.err):
                return None
            if result.code:
                raise AssertionError(f"sql {text}: exit {result.code}: {result.err}")
            return json.loads(result.out)
        return self._of_now(ask)["rows"]

    def apis(self, pid):
        """Calls of a process by function."""
        return {row["fn"]: row for row in self.query("apis", "--pid", pid)}

    def known(self, pid):
        return self.ctl("query", "apis", "--pid", str(pid), "--json").code == 0

    def ended(self, pid):
        """Whether the daemon has stored the end of a process, and with it the sums of its calls (the ops
        themselves may take longer where many wait for the writer)."""
        return self.sql(f"SELECT 1 FROM process WHERE pid = {pid} AND exit_ns > 0")

    def wait_ended(self, pid):
        wait_for(f"the end of process {pid} to be stored", lambda: self.ended(pid))

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE)
        return self.process.returncode if self.process else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        try:
            code = self.stop()
        finally:
            if self.process and self.process.poll() is None:
                self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        return code


def certificate(directory, name, of=None, days=2):
    """A file with a key and its certificate, which is also alone in FILE.crt; with negative `days` it has expired."""
    pem = os.path.join(directory, f"{name}.pem")
    for arguments in (["req", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out", pem + ".csr", "-subj", f"/CN={name}.example"],
                      ["x509", "-req", "-in", pem + ".csr", "-signkey", pem, "-days", str(days), "-out", pem + ".crt", "-extfile", "-"]):
        subprocess.run(["openssl", *arguments], input=f"subjectAltName={of or f'DNS:{name}.example'}", text=True, check=True, capture_output=True)
    with open(pem, "a") as file, open(pem + ".crt") as public:
        file.write(public.read())
    return pem


@contextlib.contextmanager
def edited(database):
    """A connection that changes a daemon's database while it is stopped. The pages that it changed have no checksums then."""
    with open(database, "rb") as file:
        before = file.read()
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        yield db
    with open(database, "r+b") as file:
        after = file.read()
        for page in range(0, len(after), 4096):
            if after[page:page + 4096] != before[page:page + 4096]:
                file.seek(page + 4088)
                file.write(bytes(8))


def library(copy="lib"):
    return os.path.join(DRIVERS, copy, "libcuda.so.1")


def pattern(path):
    """Its file alone, in a setting of patterns that are separated by spaces."""
    return os.path.realpath(path).replace(" ", "?")


def ours_of(pid):
    """Its mappings of files of ours, which have our name; the folder that they were built in may have it as well."""
    with open(f"/proc/{pid}/maps") as maps:
        return [line for line in maps if "tracesmith" in os.path.basename(line)]


def code_mapped(pid, path):
    """Where it has executable mappings of a file: (start, end, offset in the file)."""
    found = []
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            place, access, offset, _, _, *name = line.rstrip("\n").split(None, 5)  # a name may have spaces
            if name and "x" in access and os.path.realpath(name[0]) == os.path.realpath(path):
                start, end = (int(each, 16) for each in place.split("-"))
                found.append((start, end, int(offset, 16)))
    return found


def driver_directory(prefix="tracesmith-driver-"):
    """For a copy of the driver that the daemon is to find by itself; the caller removes it."""
    directory = tempfile.mkdtemp(prefix=prefix)
    os.chmod(directory, 0o755)
    return directory


def write_library(directory, content):
    """Another driver there, of the file name that the daemon looks for."""
    name, path = os.path.basename(os.path.realpath(library())), os.path.join(directory, "libcuda.so.1")
    with open(os.path.join(directory, name), "wb") as file:
        file.write(content)
    if not os.path.exists(path):
        os.symlink(name, path)
    return path


def copy_library(directory):
    """A driver there, of a file name that nobody else has: only its own programs use it. Returns the name."""
    name = f"libcuda.so.{os.path.basename(directory).rpartition('-')[2]}"
    shutil.copy(library(), os.path.join(directory, name))
    os.symlink(name, os.path.join(directory, "libcuda.so.1"))
    return name


_short = {}


def preloadable(path):
    """The same file or folder by a path that LD_PRELOAD, debootstrap and modprobe take, in which there is no space and no colon."""
    if not any(character in path for character in " :\t"):
        return path
    folder = BUILD if path.startswith(BUILD + os.sep) else os.path.dirname(path)
    if folder not in _short:
        directory = tempfile.mkdtemp(prefix="tracesmith-link-")
        os.chmod(directory, 0o755)
        atexit.register(shutil.rmtree, directory)
        _short[folder] = os.path.join(directory, "build")
        os.symlink(folder, _short[folder])
    return _short[folder] + path[len(folder):]


def workload_path(name):
    return os.path.join(FAKE, "workload", name)


def workload(name, *arguments, copy="lib", environment=None, **options):
    """Starts a workload, with its output in a pipe."""
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library(copy)), FAKE_CUDA_TIME_SCALE="0")
    env.update(environment or {})
    return subprocess.Popen([workload_path(name), *map(str, arguments)], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, **options)


def run(name, *arguments, **options):
    """Runs a workload to its end; its pid and the JSON objects that it printed."""
    process = workload(name, *arguments, **options)
    out, _ = process.communicate(timeout=120)
    return process, [json.loads(line) for line in out.splitlines() if line.startswith("{")]


class Case(unittest.TestCase):
    """A test with a daemon that is stopped, cleanly, at its end."""
    settings = ""
    driver = DRIVER
    libraries = ""  # beside the driver
    standing = ("lib",)
    budget = "none"
    trap_limit = "none"
    as_root = False  # True needs a reason

    def setUp(self):
        self.daemon = Daemon(self.settings, standing=self.standing, budget=self.budget, trap_limit=self.trap_limit,
                             libraries=self.libraries, driver=self.driver, as_root=self.as_root)
        self.addCleanup(self._close)
        self.launch()

    def launch(self):
        self.daemon.start()

    def _close(self):
        result = self._outcome.result
        failed = any(self in (test, getattr(test, "test_case", None)) for test, _ in result.failures + result.errors)
        log = self.daemon.log()
        code = self.daemon.close()
        if failed or code:
            print(f"--- the daemon ended with {code}; its log:\n{log}", file=sys.stderr)
        if not failed and self.daemon.process:
            self.assertEqual(code, 0, "the daemon did not end cleanly")
            self.assertNotIn("Broken invariant", log)
            self.assertNotIn("The broker refuses", log)

    def leave(self):
        """In place of `_close`, for probes that are perf events: a kernel that has uprobe_multi takes 0.1 s to let go
        of each, which is not waited for. They are on a copy of the driver that nobody else uses (`own_copy`)."""
        self.daemon.process.kill()
        shutil.rmtree(self.daemon.directory)

    def own_copy(self):
        directory = driver_directory()
        self.addCleanup(shutil.rmtree, directory)
        with open(library(), "rb") as file:
            write_library(directory, file.read())
        self.standing = (directory,)

    def own_driver(self):
        """A driver of a file name that nobody else has, so that a table of the whole host has only what the test started."""
        directory = driver_directory()
        self.addCleanup(shutil.rmtree, directory)
        self.driver = copy_library(directory)
        return directory

    def end(self, process):
        """Kills it if it still runs, and closes its pipes."""
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def assert_nothing_lost(self, answer, allowed=()):
        """`allowed`: what a program does by itself, like freeing what was never allocated. Of answers with
        stacks, records of mappings can be lost when the whole host starts programs faster than we get to
        run (as it does while tests run); they are read from /proc then. And stacks are cut where we do not
        get to run in time to find the rules by which they are walked, and missing where a mapping changed
        that we had no time to look at."""
        if answer["query"] in ("launches", "leaks", "syncs", "errors", "waste", "loss"):
            allowed = ("mapping", "stack", "stack-cut", *allowed)
        self.assertEqual({reason: n for reason, n in answer["loss"].items() if reason not in allowed}, {},
                         "something was lost")


def main():
    if os.geteuid() != 0:
        skip("needs root for BPF")
    if not os.path.exists(library()):
        skip(f"no simulated GPU in {FAKE}")
    unittest.main(verbosity=2)
