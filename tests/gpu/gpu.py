"""What the scripts of this folder share: a private daemon, programs that print samples, checks, and
the comparison of a running program with something switched on and off in it, several times in turn,
since two runs differ by more than what is measured.

Logs and traces go to $OUT, or a temporary directory.
"""
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("OUT") or tempfile.mkdtemp(prefix="tracesmith-gpu-")
ROUNDS = int(os.environ.get("ROUNDS", "5"))
PHASE_S = float(os.environ.get("PHASE_S", "1.5"))
failures = []


def build(arguments):
    return os.path.abspath(arguments[1] if len(arguments) > 1 else os.path.join(HERE, "..", "..", "build", "release"))


def check(what, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    if not condition:
        failures.append(what)
    return condition


def machine():
    found = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                           text=True)
    return f"{found.stdout.strip()} kernel {os.uname().release}"


def wait_for(what, condition, seconds=20):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds} s for {what}; see {OUT}/daemon.log")
        time.sleep(0.05)


def run(main):
    """Runs main() of a script that needs PyTorch, or another program in its place; ends with a line that tells how it went."""
    name, began = os.path.basename(sys.argv[0]), time.monotonic()
    if "PROGRAM" not in os.environ and not importlib.util.find_spec("torch"):
        print(f"{name}: not run: no PyTorch")
        sys.exit(77)
    try:
        main()
    except (SystemExit, Exception) as error:  # a thread that reads what a program prints must not hold us
        if not isinstance(error, SystemExit):
            traceback.print_exc()
        failures.append(str(error) or type(error).__name__)
    for daemon in Daemon.running:
        daemon.kill()
    print(f"{name}: {'FAILED: ' + ', '.join(failures) if failures else 'all checks passed'}; {time.monotonic() - began:.0f} s; "
          f"logs in {OUT}", flush=True)
    os._exit(bool(failures))  # a thread may still read what a program prints


class Daemon:
    """Without a budget, unless the settings name one: the scripts compare exact counts."""

    running = []

    def __init__(self, programs, settings="", **environment):
        self.programs = programs
        self.directory = tempfile.mkdtemp(prefix="tracesmith-gpu-")
        self.socket = os.path.join(self.directory, "control.sock")
        config = os.path.join(self.directory, "conf")
        with open(config, "w") as file:
            file.write(settings if "budget" in settings else
                       f"{settings}\n[probe]\nbudget = none\ntrap_limit = none\n")
        self.log = open(os.path.join(OUT, "daemon.log"), "a")
        self.process = subprocess.Popen(
            [os.path.join(programs, "tracesmithd"), "--config", config, "--socket", self.socket, "--state-dir",
             self.directory], stdout=self.log, stderr=self.log, env=dict(os.environ, **environment))
        Daemon.running.append(self.process)
        wait_for("the daemon", lambda: self.process.poll() is None and self.ctl("status")[0] == 0)

    def command(self, *arguments):
        return [os.path.join(self.programs, "tsctl"), "--socket", self.socket, *map(str, arguments)]

    def ctl(self, *arguments):
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def show(self, *arguments):
        print("$ tsctl", *arguments)
        code, out, err = self.ctl(*arguments)
        print(out + err, flush=True)
        return code

    def query(self, name, *arguments):
        code, out, _ = self.ctl("query", name, "--json", *arguments)
        return json.loads(out) if code == 0 else {"rows": [], "loss": {}}

    def sql(self, text):
        code, out, err = self.ctl("sql", "--json", text)
        if code:
            raise SystemExit(f"{text}: {err}")
        return json.loads(out)["rows"]

    def configure(self, settings):
        with open(os.path.join(self.directory, "conf"), "w") as file:
            file.write(settings)
        self.process.send_signal(signal.SIGHUP)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        Daemon.running.remove(self.process)


def compile_cuda(name, *options):
    """PROGRAMS: a folder that has them already."""
    made = os.path.join(os.environ.get("PROGRAMS", ""), name)
    if "PROGRAMS" in os.environ and os.access(made, os.X_OK):
        return made
    out = os.path.join(tempfile.gettempdir(), f"{name}-{os.getpid()}" + "".join(options).replace(" ", ""))
    subprocess.run(["nvcc", "-arch=native", "-o", out, os.path.join(HERE, name + ".cu"), *options], check=True)
    return out


class Program:
    """A program that prints lines of a time, a value and perhaps more, and comments after a #."""

    def __init__(self, *command, samples=20, **options):
        self.samples, self.rest, self.comments = [], [], []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        wait_for("the program to begin", lambda: len(self.samples) >= samples or self.process.poll() is not None, 120)

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("#"):
                self.comments.append(line[1:].strip())
                continue
            begin, value, *rest = line.split()
            self.samples.append((float(begin), float(value)))
            self.rest.append(rest)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def stop(self):
        self.say("")
        self.process.stdin.close()
        code = self.process.wait(60)
        self.reader.join()
        return code


def median_between(program, begin, end):
    inside = [value for at, value in program.samples if begin <= at < end]
    return statistics.median(inside) if inside else 0


def compare(title, unit, program, phases, rounds=ROUNDS):
    """`phases`: name to a pair of functions, on and off. Each is held against what the program did just
    before and just after, with everything off."""
    def measure():
        time.sleep(0.3)
        begin = time.monotonic()
        time.sleep(PHASE_S)
        return begin, time.monotonic() - 0.1

    spans, base = {name: [] for name in phases}, [measure()]
    for _ in range(rounds):
        for name, (on, off) in phases.items():
            on()
            span = measure()
            off()
            base.append(measure())
            spans[name].append((span, base[-2], base[-1]))
    print(f"\n{title} ({unit}), {rounds} rounds of {PHASE_S} s\n{'':28} {'median':>10} {'ratio':>7}  ratio of each round to off before and after it")
    off = statistics.median(median_between(program, *span) for span in base)
    print(f"{'off':28} {off:10.4f} {1:7.3f}")
    result = {}
    for name, found in spans.items():
        mine = [median_between(program, *span) for span, _, _ in found]
        its = [(median_between(program, *before) + median_between(program, *after)) / 2 for _, before, after in found]
        ratios = [a / b for a, b in zip(mine, its) if a and b]
        result[name] = statistics.median(ratios) if ratios else 0
        print(f"{name:28} {statistics.median(mine):10.4f} {result[name]:7.3f}  " + " ".join(f"{ratio:.3f}" for ratio in ratios),
              flush=True)
    return result
