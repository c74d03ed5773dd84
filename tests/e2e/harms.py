"""One awkward program (harm/) in one way of tracing it, held against the same program alone: what it says, how it ends, and
what it has at its last place: memory, descriptors, threads, mappings. For test_harm.py, and tests/gpu/harm.py on a real GPU.
"""
import json
import mmap
import os
import re
import signal
import statistics
import struct
import subprocess
import tempfile
import threading
import time

MIDDLE, LATE, LAST = 1, 2, 3
PAGE_BYTES, TEXT_AT = 64 << 10, 32
# How long a program may take from place to place, and how long a refusal that asks for another try is tried again.
DEADLINE = float(os.environ.get("TS_HARM_DEADLINE", "40"))
PATIENCE = float(os.environ.get("TS_HARM_PATIENCE", "12"))
SETTLE = 5
AGAIN = ("; try again", ": try again", ": try again in a moment", ": try again in a few seconds")
LIBC_SIGNALS = 3 << 31  # 32 and 33
MODES = ("probes", "start", "run", "attach", "light", "detach", "undo-light", "run-light", "inside")
ATTACHES = {"attach": [], "detach": [], "inside": [], "light": ["--light"], "undo-light": ["--light"]}
OURS = ("tracesmith", "fake-cupti")
# What tracing may take of a program's memory, in MiB, resident and in all: the ring (8), CUPTI and its buffers; a thread's
# stack and the 64 MiB that malloc reserves for it. What stays after a detach: CUPTI, and what malloc keeps.
MEMORY = {"probes": (4, 8), "start": (4, 8), "detach": (8, 256), "undo-light": (6, 256)}
TRACED = (96, 512)
# CUPTI cannot be unloaded, nor what it is linked with; and the kernel's page for probes.
STAYS = r"cupti|\[uprobes\]|lib(dl|pthread|rt|util|m|stdc\+\+|gcc_s)[.-]|nvperf|pcsamplingutil"
# What `tsctl run` says on a machine that is too busy to watch a program from its start.
NOT_WATCHED = r"tsctl run: calls of this program are not watched yet.*\n"
LOOK_MAX = 256  # threads that are looked at


def mask_of(text):
    """A thread's, without the two signals that are libc's own: it blocks them as well where a thread starts and ends."""
    return f"{int(text.strip() or '0', 16) & ~LIBC_SIGNALS:016x}"


class Hurt(Exception):
    pass


class Program:
    """A row of the table. `modes` leaves out what the case is not about; `varies`: what differs alone, too; `expected`: for
    a mode, or '*', the refusal or the hurt that docs/harm.md has, as a pattern."""

    def __init__(self, name, case=None, build="", env=None, prefix=(), modes=MODES, varies=(), expected=None, closed=(),
                 real=True, often=("run", "detach", "undo-light"), options=()):
        self.name, self.case, self.build, self.env = name, case or name, build, env or {}
        self.prefix, self.modes, self.varies, self.expected = list(prefix), modes, varies, expected or {}
        self.closed, self.real, self.often, self.options = closed, real, often, list(options)


def untouched(driver):
    """Whether no breakpoint is in what a process maps of it: those of a daemon go a moment after it."""
    with open(driver, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC) as mapped:
        return mapped[:] == file.read()


class Page:
    """What the program says, see harm/harm.h."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="harm-page-")
        self.file.truncate(PAGE_BYTES + 4096)
        os.chmod(self.file.name, 0o666)
        self.map = mmap.mmap(self.file.fileno(), PAGE_BYTES)

    def word(self, index):
        return struct.unpack_from("I", self.map, 4 * index)[0]

    def go(self, place):
        struct.pack_into("I", self.map, 4, place)

    at = property(lambda self: self.word(0))
    pid = property(lambda self: self.word(2))
    skipped = property(lambda self: self.word(3))
    busy_ns = property(lambda self: struct.unpack_from("Q", self.map, 16)[0])

    @property
    def text(self):
        return self.map[TEXT_AT:TEXT_AT + self.word(6)].decode(errors="replace")

    def close(self):
        self.map.close()
        self.file.close()


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def fields(text):
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class Look:
    """What a process has now, seen from outside."""

    def __init__(self, pid):
        status = fields(read(f"/proc/{pid}/status"))
        self.rss_mib = int(status.get("VmRSS", "0").split()[0]) / 1024
        self.size_mib = int(status.get("VmSize", "0").split()[0]) / 1024
        self.flags = {name: status.get(name, "").strip() for name in ("Seccomp", "NoNewPrivs", "TracerPid", "SigIgn", "SigCgt",
                                                                      "ShdPnd", "Umask", "Uid")}
        # libc's own two, which it takes when the first thread is started.
        self.flags["SigCgt"] = f"{int(self.flags['SigCgt'] or '0', 16) & ~(3 << 31):x}"
        self.flags["TracerPid"] = str(self.flags["TracerPid"] != "0")
        self.fds = self._fds(pid)
        self.threads = self._threads(pid)
        self.maps = [line.split(None, 5) for line in read(f"/proc/{pid}/maps").splitlines()]

    @staticmethod
    def _fds(pid):
        found = {}
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                found[int(fd)] = re.sub(r"\d+|/tmp/[^ ]*", "", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
        return found

    @staticmethod
    def _threads(pid):
        found = []
        try:
            tids = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
        except OSError:
            return found
        for number, tid in enumerate(tids):
            if number >= LOOK_MAX:
                found.append((read(f"/proc/{pid}/task/{tid}/comm").strip(),))
                continue
            status = fields(read(f"/proc/{pid}/task/{tid}/status"))
            stat = read(f"/proc/{pid}/task/{tid}/stat").rpartition(")")[2].split()
            if status and len(stat) > 38:
                # nice, policy
                found.append((status["Name"].strip(), status.get("Cpus_allowed_list", "").strip(), stat[16], stat[38],
                              mask_of(status.get("SigBlk", "")), status.get("SigPnd", "").strip()))
        return found

    def mapped(self, executable):
        found = {}
        for line in self.maps:
            if not executable or "x" in line[1]:
                name = re.sub(r"\d+", "", line[5]) if len(line) > 5 else ""
                key = (line[1], name)
                found[key] = found.get(key, 0) + 1
        return found


class Setup:
    """Where the programs are, which driver they load, and what is in their environment. A real CUPTI has threads and
    descriptors under the program's name, and more of them after its detach."""

    def __init__(self, programs, driver, environment, simulated=True, memory=MEMORY, traced=TRACED):
        self.programs, self.driver, self.environment, self.simulated = programs, driver, environment, simulated
        self.memory, self.traced = memory, traced


class Meeting:
    """Trials that go on from MIDDLE and from LATE together: a daemon starts and stops in between."""

    def __init__(self, count):
        self.count, self.came, self.gone, self.changed = count, {MIDDLE: 0, LATE: 0}, 0, threading.Condition()

    def come(self, place, wait=True):
        with self.changed:
            self.came[place] += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: not wait or self.gone >= place)

    def wait(self, place):
        with self.changed:
            self.changed.wait_for(lambda: self.came[place] == self.count)

    def go(self, place):
        with self.changed:
            self.gone = place
            self.changed.notify_all()


class Trial:
    """One run of a program."""

    def __init__(self, setup, program, mode, daemon=None, alone=None, meeting=None):
        self.meeting, self.met = meeting, 0
        self.setup, self.program, self.mode, self.daemon, self.alone = setup, program, mode, daemon, alone
        self.page, self.looks, self.refused, self.hurts, self.code = Page(), {}, "", [], None
        self.out, self.took_s = "", 0
        self.process = None

    def run(self):
        begin = time.monotonic()
        try:
            self._start()
            self._pass()
        except Hurt as error:
            self.hurts.append(str(error))
        finally:
            self._end()
        self.took_s = time.monotonic() - begin
        return self

    def _start(self):
        program, setup = self.program, self.setup
        command = [os.path.join(setup.programs, "e2e_harm" + program.build), program.case, self.page.file.name, setup.driver]
        if self.mode.startswith("run"):
            light = ["--light"] if self.mode == "run-light" else []
            command = [*self.daemon.run_command(), *light, "--", *command]
        environment = dict(setup.environment)
        for name, value in program.env.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value.replace("{}", setup.programs)
        self.output = tempfile.TemporaryFile()
        closed = "".join(f" {fd}>&-" for fd in program.closed)
        if closed:
            command = ["sh", "-c", f'exec "$@"{closed}', "sh", *command]
        self.process = subprocess.Popen([*program.prefix, *command], env=environment, stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=self.output, start_new_session=True)

    def _reach(self, place):
        end = time.monotonic() + DEADLINE
        while self.page.at < place:
            late = time.monotonic() > end
            code = self.process.poll()
            if code is not None and not self.page.pid:
                if self.page.skipped:
                    return False
                if self.page.at < place:
                    raise Hurt(f"ended with {name_of(code)} before place {place}")
            if late and self.page.at < place:
                raise Hurt(f"hung on the way to place {place}")
            time.sleep(0.005)
        return True

    @property
    def pid(self):
        return self.page.pid or self.process.pid

    def _pass(self):
        if not self._reach(MIDDLE):
            return
        if self.mode in ATTACHES:
            self.refused = self._ask("attach", "--json", *ATTACHES[self.mode], *self.program.options)
        elif self.mode == "run-light":
            self._wait_light()
        self._meet(MIDDLE)
        self.page.go(MIDDLE)
        if not self._reach(LATE):
            return
        self._meet(LATE)
        if self.mode in ("detach", "undo-light") and not self.refused:
            said = self._ask("detach")
            if said:
                self.hurts.append(f"detach: {said}")
        self.page.go(LATE)
        if not self._reach(LAST):
            return
        self.looks[LAST] = self._settled()
        self.page.go(LAST)

    def _meet(self, place, wait=True):
        if self.meeting and self.met < place:
            self.met = place
            self.meeting.come(place, wait)

    def _settled(self):
        """What it has once nothing of ours is on its way out, if it is to go, and no thread just starts."""
        end = time.monotonic() + (SETTLE if is_to_go(self) else 1)
        while True:
            look = Look(self.pid)
            same = self.alone is None or not list(judge_looks(self.alone.looks.get(LAST), look, self))
            if same or time.monotonic() > end:
                return look
            time.sleep(0.05)

    def _wait_light(self):
        """Under run it comes a moment after the program's start, or not at all, silently."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            _, out, _ = self.daemon.ctl("ps", "--json")
            if any(row["pid"] == self.pid and row["tier"] == "light" for row in json.loads(out or '{"rows": []}')["rows"]):
                return
            time.sleep(0.1)
        self.refused = "run --light stays with the probes"

    def _ask(self, verb, *options):
        """'' once it is done; or the refusal."""
        end = time.monotonic() + PATIENCE
        while True:
            code, out, err = self.daemon.ctl(verb, self.pid, *options)
            if code == 0 and self.mode == "inside" and not json.loads(out)["light_functions"]:
                return "not inside: " + "; ".join(json.loads(out)["notes"])
            if code == 0 or (verb == "attach" and "already" in err):
                return ""
            if not err.rstrip().endswith(AGAIN) or time.monotonic() > end:
                return err.strip().removeprefix("tsctl: ")

    def _end(self):
        for place in MIDDLE, LATE:
            self._meet(place, wait=False)
        if self.process:
            try:
                self.process.wait(0.1 if self.hurts and self.page.at < LAST else DEADLINE)
            except subprocess.TimeoutExpired:
                if not self.hurts:
                    self.hurts.append("hung at its end")
            self._kill()
            self.code = self.process.wait()
            self.output.seek(0)
            out = self.output.read().decode(errors="replace").replace(self.page.file.name, "PAGE")
            self.out = re.sub(NOT_WATCHED, "", out)
            self.output.close()
        self.text, self.busy_ns, self.skipped = self.page.text, self.page.busy_ns, self.page.skipped
        self.page.close()

    def _kill(self):
        """What the program has started as well: it leads a session, or has the page mapped."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if self.page.pid and self.page.file.name in read(f"/proc/{self.page.pid}/maps"):
            end = time.monotonic() + (0 if self.hurts else DEADLINE)
            while self.page.file.name in read(f"/proc/{self.page.pid}/maps"):
                if time.monotonic() > end:
                    os.kill(self.page.pid, signal.SIGKILL)
                    break
                time.sleep(0.01)


def name_of(code):
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"status {code}"


def first_difference(alone, traced):
    left, right = alone.splitlines(), traced.splitlines()
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else "(nothing)"
        two = right[number] if number < len(right) else "(nothing)"
        if one != two:
            return f"says '{two}', alone '{one}'"
    return ""


def counted(items):
    found = {}
    for item in items:
        found[item] = found.get(item, 0) + 1
    return found


def more(left, right):
    """What `left` has more of than `right`."""
    return sorted(str(key) for key, count in left.items() if count > right.get(key, 0))


def judge_threads(alone, traced, left, simulated):
    short = len(alone.threads) > LOOK_MAX - 16  # not all of them were looked at closely
    theirs = counted(thread[:1] if short else thread for thread in traced.threads if thread[0] not in OURS)
    mine = counted(thread[:1] if short else thread for thread in alone.threads if thread[0] not in OURS)
    if more(mine, theirs) or (simulated and more(theirs, mine)):
        yield f"threads: {more(theirs, mine)[:2]}, alone {more(mine, theirs)[:2]}"
    added = [thread for thread in traced.threads if thread[0] in OURS]
    if left and added:
        yield f"a thread stays: {added[0][0]}"
    for thread in added:
        if thread[3:4] and thread[3] != "0":
            yield f"a thread of ours inherits policy {thread[3]}"
        first = traced.threads[0][1:2]
        if thread[1:2] and thread[1:2] != first and re.fullmatch(r"\d+", thread[1]):
            yield f"a thread of ours inherits the CPU {thread[1]}"


def judge_memory(alone, traced, setup, mode):
    rss_mib, size_mib = setup.memory.get(mode, setup.traced)
    if traced.rss_mib - alone.rss_mib > rss_mib:
        yield f"memory: {traced.rss_mib - alone.rss_mib:+.1f} MiB"
    if traced.size_mib - alone.size_mib > size_mib:
        yield f"address space: {traced.size_mib - alone.size_mib:+.0f} MiB"


def judge_maps(alone, traced, left):
    gone = more(alone.mapped(True), traced.mapped(True))
    if gone:
        yield f"executable mappings are gone: {gone[:2]}"
    if not left:
        return
    added = [key for key in more(traced.mapped(True), alone.mapped(True)) if not re.search(STAYS, key)]
    if added:
        yield f"executable mappings stay: {added[:2]}"
    ours = more({key: n for key, n in traced.mapped(False).items() if "tracesmith" in os.path.basename(key[1]) and "cupti" not in key[1]}, {})
    if ours:
        yield f"mappings of ours stay: {ours[:2]}"


def judge(alone, traced):
    """What differs, each a sentence."""
    varies, found = traced.program.varies, list(traced.hurts)
    if traced.code != alone.code and not found:
        found.append(f"ends with {name_of(traced.code)}, alone {name_of(alone.code)}")
    if traced.text != alone.text and "text" not in varies and not traced.hurts:
        found.append(first_difference(alone.text, traced.text))
    if traced.out != alone.out:
        found.append(f"prints {traced.out[-120:]!r}")
    return found + list(judge_looks(alone.looks.get(LAST), traced.looks.get(LAST), traced))


def is_to_go(traced):
    """Nothing of ours may be in it: it was left, or refused, which is as if nobody had tried."""
    return traced.mode in ("probes", "start", "detach", "undo-light") or (traced.refused and traced.mode in ("attach", "light"))


def judge_looks(one, two, traced):
    if not one or not two:
        return
    varies, left = traced.program.varies, is_to_go(traced)
    if one.flags != two.flags and "status" not in varies:
        yield f"status: {[(k, v, one.flags[k]) for k, v in two.flags.items() if v != one.flags[k]]}"
    if "threads" not in varies:
        yield from judge_threads(one, two, left, traced.setup.simulated)
    if "memory" not in varies:
        yield from judge_memory(one, two, traced.setup, traced.mode)
    # A real driver opens its own in another order where CUPTI comes with cuInit.
    if "fds" not in varies and (traced.setup.simulated or traced.mode != "run"):
        lost = {fd: name for fd, name in one.fds.items() if two.fds.get(fd) != name}
        added = {fd: name for fd, name in two.fds.items() if fd not in one.fds}
        if lost:
            yield f"descriptors are others: {lost}, now {[two.fds.get(fd) for fd in lost]}"
        if left and added and (traced.setup.simulated or any("tracesmith" in os.path.basename(name) for name in added.values())):
            yield f"descriptors stay: {added}"
    if "maps" not in varies:
        yield from judge_maps(one, two, left)


class Verdict:
    """A cell of the table."""

    def __init__(self, alone, traced):
        self.program, self.mode, self.traced, self.alone = traced.program, traced.mode, traced, alone
        self.hurts, self.refused = judge(alone, traced), traced.refused
        self.ratio = traced.busy_ns / alone.busy_ns if alone.busy_ns and traced.busy_ns else 0
        expected = self.program.expected.get(self.mode) or self.program.expected.get("*") or ""
        said = "; ".join(self.hurts)
        self.skipped = bool(traced.skipped or alone.skipped)
        self.unexpected = []
        if self.skipped:
            self.word = "skipped"
            return
        if alone.hurts and not traced.setup.simulated:
            self.word, self.hurts, self.refused = "skipped", [f"alone it {hurt}" for hurt in alone.hurts], ""
            return
        self.unexpected += [f"alone it {hurt}" for hurt in alone.hurts]
        if self.refused and not (expected and re.search(expected, self.refused)):
            self.unexpected.append(f"refused: {self.refused}")
        if self.hurts and not (expected and re.search(expected, said)):
            self.unexpected += self.hurts
        self.word = "HURT" if self.hurts else "refused" if self.refused else "ok"

    @property
    def added(self):
        """What it has more than alone, in figures."""
        one, two = self.alone.looks.get(LAST), self.traced.looks.get(LAST)
        if not one or not two:
            return ()
        return (two.rss_mib - one.rss_mib, two.size_mib - one.size_mib, len(two.threads) - len(one.threads),
                len(two.fds) - len(one.fds), len(two.maps) - len(one.maps), self.ratio)

    @property
    def why(self):
        if self.skipped:
            return self.traced.text.strip()
        return "; ".join([*(f"alone it {hurt}" for hurt in self.alone.hurts), *self.hurts, *([f"refused: {self.refused}"] if self.refused else [])])


def counts(verdicts):
    """Of how many trials of each program how many were hurt or refused, for docs/harm.md."""
    lines = [""]
    for name in dict.fromkeys(verdict.program.name for verdict in verdicts):
        words = counted(verdict.word for verdict in verdicts if verdict.program.name == name)
        if set(words) != {"ok"}:
            lines.append(f"{name}: " + ", ".join(f"{count} {word}" for word, count in sorted(words.items())))
    lines.append(f"all: {len(verdicts)} trials: " + ", ".join(
        f"{count} {word}" for word, count in sorted(counted(verdict.word for verdict in verdicts).items())))
    return "\n".join(lines)


def times(verdicts):
    """Each program's medians, in each mode."""
    cells = {}
    for verdict in verdicts:
        if verdict.added:
            cells.setdefault((verdict.program.name, verdict.mode), []).append(verdict.added)
    lines = [""]
    for (name, mode), added in cells.items():
        rss, size, threads, fds, maps, ratio = (statistics.median(each) for each in zip(*added))
        lines.append(f"{name} × {mode}: {rss:+.1f} MiB resident, {size:+.0f} MiB of addresses, {threads:+.0f} threads, {fds:+.0f} "
                     f"descriptors, {maps:+.0f} mappings, {ratio:.2f} times as long")
    return "\n".join(lines)


def table(verdicts, modes):
    """The table, and below it what each cell that is not ok means."""
    names = list(dict.fromkeys(verdict.program.name for verdict in verdicts))
    cells = {(verdict.program.name, verdict.mode): verdict for verdict in verdicts}
    width = max(map(len, names))
    lines = [f"{'program':{width}} " + " ".join(f"{mode:>10}" for mode in modes)]
    for name in names:
        words = [(cells[name, mode].word + ("!" if cells[name, mode].unexpected else "")) if (name, mode) in cells else "-"
                 for mode in modes]
        lines.append(f"{name:{width}} " + " ".join(f"{word:>10}" for word in words))
    lines.append("")
    for verdict in verdicts:
        if verdict.why:
            lines.append(f"{verdict.program.name} × {verdict.mode}{' !' if verdict.unexpected else ''}: {verdict.why}")
    return "\n".join(lines)
