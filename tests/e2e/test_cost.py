"""What a process pays is told with what the figure rests on, measured when asked, and changed by another budget, for a time
or for good."""
import ctypes
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import test_serve
import tracesmith
from tracesmith import wait_for, workload

SECONDS = 3600  # until it is ended
MILLION = 1000000
LIGHT_NS = 100  # of a call in light mode, by estimate
# Said of a program that has got no processor lately, or whose mappings nobody has had time to look at.
NOT_YET = "makes no launches|makes too few|try again in a few seconds"
PTRACE_CONT, PTRACE_SEIZE, PTRACE_INTERRUPT = 7, 0x4206, 0x4207


def read(path):
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""


def state(pid):
    """Of its first thread."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Cost(tracesmith.Case):
    settings = "[store]\nbounds_wait = 500ms\n"  # which recordings wait for at their end
    budget = "1%"

    def start(self, *arguments, **options):
        process = workload("steps", "--seconds", SECONDS, *arguments, **options)
        self.addCleanup(self.end, process)
        wait_for("its first calls", lambda: any(row["calls_per_s"] for row in self.daemon.query("cost", "--pid", process.pid)))
        return process

    def cost(self, pid, *arguments):
        result = self.daemon.ctl("cost", pid, "--json", *arguments)
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)

    def probes(self, pid):
        part, = [part for part in self.cost(pid)["parts"] if part["part"] == "probes"]
        return part

    def probe_ns(self):
        """Of a hit of a probe here, as soon as that is known."""
        rows = json.loads(self.daemon.ctl("status", "--json").out)["rows"]
        return next((row["number"] for row in rows if (row["section"], row["name"]) == ("price", "hit_ns")), 0)

    def measured(self, pid):
        """Now, or as soon as it can be."""
        def told():
            result = self.daemon.ctl("cost", pid, "--json", "--now")
            if result.code and re.search(NOT_YET, result.err):
                return None
            self.assertEqual(result.code, 0, result.err)
            return next(part for part in json.loads(result.out)["parts"] if part["part"] == "probes")
        return wait_for("a measurement", told)

    def wait_said(self, pattern, *arguments):
        """How much it calls, and so what can be said of that, changes with each second that it gets a processor."""
        said = []

        def matches():
            said[:] = [self.daemon.ctl(*arguments)]
            return re.search(pattern, said[0].out, re.MULTILINE)
        try:
            wait_for(f"'{pattern}'", matches)
        except AssertionError as error:
            raise AssertionError(f"{error}: {said[0].out}{said[0].err}") from None

    def budget_of(self, pid):
        cost = self.cost(pid)
        return cost["budget"], bool(cost["until_ns"])

    def refuse(self, code, sentence, *arguments):
        result = self.daemon.ctl(*arguments)
        self.assertEqual((result.code, result.out), (code, ""), result.err)
        self.assertRegex(result.err, f"^tsctl: .*{sentence}")
        self.assertEqual(result.err.count("\n"), 1)

    def test_measured_when_asked(self):
        process = self.start("--calls", 20)
        row = self.measured(process.pid)
        self.assertTrue(row["measured"])
        self.assertGreaterEqual(row["turns"], 12)
        self.assertLess(row["whole_low"], row["whole_high"])
        self.assertLessEqual(row["whole_low"], row["whole"])
        text = self.daemon.ctl("cost", process.pid).out
        self.assertRegex(text, r"^Process \d+ \(steps\) pays .* its budget is 1 %\n")
        self.assertRegex(text, r"\n  probes: .* measured in place, \d+ turns, .* ago\n")
        self.wait_said(r"CPU time: at least [0-9.]+ % of a core", "cost", process.pid)
        self.wait_said(r"^  stacks: .*, part of it, estimated from \d+ walks/s at ", "cost", process.pid)
        row, = self.daemon.query("ps", "--pid", process.pid)
        self.assertLess(row["cost_low"], row["cost_high"])
        self.assertIsNone(row["callback_cost"])

    def test_without_a_budget_it_is_measured_too(self):
        """Where nothing was switched off before, and nothing is afterwards."""
        process = self.start()
        self.daemon.ctl("budget", process.pid, "none")
        wait_for("all of it to be watched", lambda: self.probes(process.pid)["watched"] == MILLION)
        self.assertTrue(self.measured(process.pid)["measured"])
        wait_for("all of it to be watched again", lambda: self.probes(process.pid)["watched"] == MILLION)
        self.assertEqual(self.budget_of(process.pid), (None, False))

    def test_another_budget_holds_until_its_time_is_over(self):
        process = self.start()
        wait_for("windows", lambda: self.probes(process.pid)["watched"] < MILLION)
        said = self.daemon.ctl("budget", process.pid, "none", "--for", "1h")
        self.assertRegex(said.out, rf"^Budget of process {process.pid}: none for [^,]+, then 1 %\n$")
        wait_for("all of it to be watched", lambda: self.probes(process.pid)["watched"] == MILLION)
        self.assertEqual(self.budget_of(process.pid), (None, True))
        status = self.daemon.ctl("status").out
        self.assertIn(f"process {process.pid}", status)
        self.assertIn("budget none for another", status)
        others = self.cost(process.pid)["others"]
        self.assertTrue(all(0 < other["watched"] < MILLION for other in others), others)
        said = self.daemon.ctl("budget", process.pid, "none", "--for", "4s")
        self.assertEqual(said.out, f"Budget of process {process.pid}: none for 4.00 s, then 1 %\n")
        wait_for("the budget of the settings", lambda: self.budget_of(process.pid) == (10000, False))
        wait_for("windows again", lambda: self.probes(process.pid)["watched"] < MILLION)

    def test_a_recording_is_full(self):
        process = self.start()
        wait_for("windows", lambda: self.probes(process.pid)["watched"] < MILLION)
        path = Path(self.daemon.directory, "full.sbt")
        record = [Path(tracesmith.BUILD, "tsctl"), "--socket", self.daemon.socket, "record", "-o", path, "--pid", str(process.pid)]
        for arguments, watched in ((), True), (("--budget", "0.5%"), False):
            recorder = subprocess.Popen([*record, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(self.end, recorder)
            budget = None if watched else 5000
            wait_for("another budget", lambda: self.budget_of(process.pid) == (budget, False))
            wait_for("it to hold", lambda: (self.probes(process.pid)["watched"] == MILLION) == watched)
            recorder.send_signal(signal.SIGINT)
            self.assertEqual(recorder.wait(tracesmith.DEADLINE), 0)
            wait_for("the budget of the settings", lambda: self.budget_of(process.pid) == (10000, False))
        self.daemon.ctl("budget", process.pid, "2%")
        said = self.daemon.ctl("record", "-o", path, "--pid", process.pid, "--duration", "1s")
        self.assertEqual(said.code, 0, said.err)
        self.assertEqual(self.budget_of(process.pid), (20000, False), "what was set by hand holds")

    def test_a_budget_that_stays_and_goes(self):
        process = self.start()
        said = json.loads(self.daemon.ctl("budget", process.pid, "2.5%", "--json").out)
        self.assertEqual(said, {"pid": process.pid, "budget": 25000, "for_ns": None, "setting": 10000, "notes": []})
        self.assertEqual(self.budget_of(process.pid), (25000, False))
        self.assertEqual([row["budget"] for row in self.daemon.query("cost")
                          if (row["part"], row["pid"]) == ("probes", process.pid)], [25000])
        wait_for("what the setting would make of it", lambda: "  default " in self.daemon.ctl("cost", process.pid).out)
        self.daemon.ctl("budget", process.pid, "default")
        self.assertEqual(self.budget_of(process.pid), (10000, False))

    def test_a_budget_out_of_reach_is_told(self):
        process = self.start()
        self.daemon.ctl("budget", process.pid, "0.001%")
        wait_for("it to be told", lambda: self.probes(process.pid)["over"])
        self.wait_said("the budget is out of reach", "cost", process.pid)
        self.wait_said(r"! process \d+ +its budget of 0.001 % is out of reach", "status")

    def test_an_estimate_is_made_of_what_a_hit_costs_here(self):
        process = self.start("--calls", 1, "--pause", 5000000)
        hit_ns = wait_for("the result", self.probe_ns)
        wait_for("it to be used", lambda: self.probes(process.pid)["hit_ns"] == hit_ns)
        row = wait_for("calls", lambda: (found := self.probes(process.pid))["calls_per_s"] and found)
        self.assertFalse(row["measured"])
        self.wait_said(r"estimated from \d+ calls/s at [0-9.]+ .s$", "cost", process.pid)

    def test_who_waits_for_a_processor_pays_more(self):
        """Of the time that it has one, the same hits take more."""
        def times_the_estimate():
            part = self.probes(process.pid)
            return part["cost"] * 1000 / (part["calls_per_s"] * part["hit_ns"]) if part["calls_per_s"] else 0
        process = self.start("--work", 100000)
        self.daemon.ctl("budget", process.pid, "none")
        one = {min(os.sched_getaffinity(0))}
        for _ in range(2):
            busy = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.sched_setaffinity(0, one))
            self.addCleanup(self.end, busy)
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            os.sched_setaffinity(int(thread), one)
        wait_for("its price", lambda: times_the_estimate() > 2)
        self.assertFalse(self.probes(process.pid)["measured"])

    def test_bad_input_gets_a_sentence(self):
        process = self.start()
        for share in ("0", "0%", "100%", "101%", "5", "abc", "", "5%%", "nan%"):
            self.refuse(2, "is not a budget", "budget", process.pid, share)
        self.refuse(2, "Unknown option '-5'", "budget", process.pid, "-5%")
        self.refuse(2, "is not a budget", "budget", process.pid, "--", "-5%")
        self.refuse(2, "is not a process ID", "budget", "steps", "5%")
        self.refuse(2, "Missing argument", "budget", process.pid)
        self.refuse(2, "--for needs a duration", "budget", process.pid, "5%", "--for", "0s")
        self.refuse(2, "leave out --for", "budget", process.pid, "default", "--for", "1s")
        self.refuse(2, "--budget is for a process", "record", "-o", "x.sbt", "--all", "--budget", "1%")
        self.refuse(2, "recorded from now on", "record", "-o", "x.sbt", "--pid", 1, "--since", "1s", "--budget", "1%")
        self.refuse(1, "does not exist", "budget", 4000001, "5%")
        self.refuse(1, "has not used CUDA", "budget", 1, "5%")
        self.refuse(1, "has not used CUDA", "cost", 4000001)
        self.refuse(1, "has not used CUDA", "cost", 1, "--now")
        self.refuse(2, "is not a process ID", "cost", "steps")
        self.refuse(2, "--now measures one process", "cost", "--now")

    def test_what_cannot_be_measured_says_why(self):
        process = self.start()
        process.send_signal(signal.SIGSTOP)
        wait_for("it to stop", lambda: state(process.pid) == "T")
        self.refuse(1, "is stopped, so it has no pace", "cost", process.pid, "--now")
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        wait_for("its end", lambda: self.daemon.ended(process.pid))
        self.refuse(1, "has ended", "cost", process.pid)
        self.refuse(1, "does not exist", "cost", process.pid, "--now")

    def interrupted(self, signal_number):
        """What is told who measures a program to which this happens when the first turn is done."""
        def told():
            process = self.start("--calls", 20)
            command = [Path(tracesmith.BUILD, "tsctl"), "--socket", self.daemon.socket, "cost", str(process.pid), "--now"]
            asker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(self.end, asker)
            # Where the kernel's workers fall behind, it is left out for some seconds first.
            wait_for("a turn", lambda: asker.poll() is not None or 0 < self.probes(process.pid)["turns"] < 12,
                     3 * tracesmith.DEADLINE)
            process.send_signal(signal_number)
            out, err = asker.communicate(timeout=tracesmith.DEADLINE)
            self.end(process)
            # All turns were done, or none could be, before we got to look: with another program.
            if asker.returncode == 0 or re.search(NOT_YET, err):
                return None
            self.assertEqual((asker.returncode, out), (1, ""), err)
            return process.pid, err
        return wait_for("a measurement to be interrupted", told, 3 * tracesmith.DEADLINE)

    def test_what_happens_meanwhile_is_told(self):
        """A tracer, such as a debugger, is in nobody's way until he keeps the process; who is stopped or ends is told at once."""
        process = self.start("--calls", 20)
        libc = ctypes.CDLL(None, use_errno=True)
        self.assertEqual(libc.ptrace(PTRACE_SEIZE, process.pid, None, None), 0)
        self.assertEqual(libc.ptrace(PTRACE_INTERRUPT, process.pid, None, None), 0)
        wait_for("it to stop", lambda: state(process.pid) == "t")
        self.refuse(1, "is stopped, so it has no pace", "cost", process.pid, "--now")
        self.assertEqual(os.waitpid(process.pid, 0)[0], process.pid)
        self.assertEqual(libc.ptrace(PTRACE_CONT, process.pid, None, None), 0)
        self.assertTrue(self.measured(process.pid)["measured"])
        self.end(process)
        pid, err = self.interrupted(signal.SIGKILL)
        self.assertRegex(err, rf"^tsctl: Process {pid} (has ended|does not exist).*\n$")
        _, err = self.interrupted(signal.SIGSTOP)
        self.assertRegex(err, "is stopped, so it has no pace")


class Auto(Cost):
    settings = "light = auto\n"
    for name in [name for name in dir(Cost) if name.startswith("test_")]:
        locals()[name] = None
    del name

    def tier(self, pid):
        return next((row["tier"] for row in self.daemon.query("ps") if row["pid"] == pid), None)

    def test_who_would_be_watched_in_windows_reports_its_calls(self):
        """By itself, and not again once somebody has detached it."""
        process = self.start("--calls", 20)
        wait_for("light mode", lambda: self.tier(process.pid) == "light", 2 * tracesmith.DEADLINE)
        # A few of them have stacks, which are in it.
        wait_for("its price", lambda: LIGHT_NS <= self.probes(process.pid)["hit_ns"] < self.probe_ns())
        self.assertEqual(self.probes(process.pid)["watched"], MILLION)
        said = self.daemon.ctl_again("detach", process.pid)
        self.assertEqual(said.code, 0, said.err)
        wait_for("windows", lambda: 0 < self.probes(process.pid)["watched"] < MILLION, 2 * tracesmith.DEADLINE)
        self.assertEqual(self.tier(process.pid), "probe")


    def test_a_filter_that_comes_later_minds_nothing(self):
        """Nobody has asked for the library, so it must not do what could end the program."""
        process = workload("filtered", "--late", "--calls", 20)
        self.addCleanup(self.end, process)
        self.assertIn("ready", process.stdout.readline())
        wait_for("light mode", lambda: self.tier(process.pid) == "light", 2 * tracesmith.DEADLINE)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertIn("filtered", process.stdout.readline())

        def calls():
            return self.daemon.apis(process.pid)["cuLaunchKernelEx"]["calls"]
        before = calls()
        wait_for("calls", lambda: process.poll() is not None or calls() > before + 2000)
        process.communicate("\n")
        self.assertEqual(process.returncode, 0)


class Walks(tracesmith.Case):
    """Who has the stacks of all its calls walked by the library in it is told what that costs."""
    settings = "[probe]\nring_size = 64MiB\n"

    def parts(self, pid):
        result = self.daemon.ctl("cost", pid, "--json")
        return {part["part"]: part for part in json.loads(result.out)["parts"]} if result.code == 0 else {}

    def light(self, pid, stacks):
        said = self.daemon.ctl_again("attach", pid, "--light", "--stacks", stacks)
        self.assertEqual(said.code, 0, said.err + self.daemon.log())
        wait_for("light mode", lambda: self.daemon.query("ps", "--pid", pid)[0]["tier"] == "light")

    def hit_ns(self, pid):
        part = self.parts(pid).get("probes")
        return part and part["hit_ns"]

    def walked(self):
        rows = json.loads(self.daemon.ctl("status", "--json").out)["rows"]
        return next(row["number"] for row in rows if (row["section"], row["name"]) == ("unwinding", "inside"))

    def without_stack(self, pid, since):
        return self.daemon.sql("SELECT count(*) AS n FROM op WHERE coalesce(stack, 0) = 0 AND kind = 'launch' AND "
                               f"pid = {pid} AND start_ns > {since}")[0]["n"]

    def reread(self, setting):
        with open(self.daemon.config, "a") as file:
            file.write(f"{setting}\n")
        reread = self.daemon.log().count("Reread")
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for("the settings", lambda: self.daemon.log().count("Reread") > reread)

    def test_what_the_library_walks_is_told(self):
        process = workload("rate", "--rate", 2000, "--stop", environment={
            "TRACESMITH_INJECT_SOCKET": os.path.join(self.daemon.directory, "inject.sock")})
        self.addCleanup(self.end, process)
        pid = process.pid
        wait_for("its calls", lambda: self.parts(pid))
        self.light(pid, "all")
        part = wait_for("its walks", lambda: self.parts(pid).get("stacks-inside"))
        self.assertGreater(part["calls_per_s"], 0)
        self.assertGreater(part["hit_ns"], 0)
        self.assertEqual(part["basis"], "estimated")
        # They are in the price of a call, and not added to the price of the process.
        wait_for("walks in the price of a call", lambda: self.hit_ns(pid) >= LIGHT_NS + part["hit_ns"] // 20 * 10)
        cost = json.loads(self.daemon.ctl("cost", pid, "--json").out)
        self.assertEqual(cost["cost"], next(part["cost"] for part in cost["parts"] if part["part"] == "probes"))
        self.assertIn("tsctl attach --light --stacks none", [setting["setting"] for setting in cost["settings"]])
        self.assertRegex(self.daemon.ctl("cost", pid).out,
                         r"\n  stacks, walked by our library in the process: .*, part of it, estimated from \d+ walks/s at ")
        self.assertEqual({row["inside"] for row in self.daemon.query("cost", "--pid", pid)}, {1})
        # They do not count as hits of probes, not even against a low limit.
        self.reread("trap_limit = 0.05%")
        begin_ns, before = time.monotonic_ns(), self.walked()
        wait_for("many of them", lambda: self.walked() > before + 20000)
        self.assertEqual(self.without_stack(pid, begin_ns), 0)
        self.assertNotIn(f"process {pid}", self.daemon.ctl("status").out)
        # Those from before a stack is known are hits.
        self.reread("trap_limit = none")
        # Nothing is left of it when it is over, even if it starts anew at once.
        self.assertEqual(self.daemon.ctl_again("detach", pid).code, 0)
        self.light(pid, "none")
        wait_for("the price of its calls alone", lambda: self.hit_ns(pid) == LIGHT_NS)
        self.assertNotIn("stacks-inside", self.parts(pid))
        self.assertEqual(self.daemon.ctl_again("detach", pid).code, 0)
        self.light(pid, "all")
        wait_for("its walks", lambda: "stacks-inside" in self.parts(pid))
        self.assertEqual(self.daemon.ctl_again("detach", pid).code, 0)
        wait_for("the end of its walks", lambda: "stacks-inside" not in self.parts(pid))


class MemberCase(tracesmith.Case):
    """With a member of the group who is not root."""
    settings = "[daemon]\ncontrol_group = nogroup\n"
    budget = "1%"

    def ctl(self, *arguments):
        os.chmod(self.daemon.directory, 0o755)
        command = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups",
                   os.path.join(tracesmith.BUILD, "tsctl"), "--socket", self.daemon.socket, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class OtherUsers(MemberCase):
    """Whoever may use the daemon sees what everybody pays, and changes it for their own processes."""

    def test_the_owner_and_root_may(self):
        own = workload("steps", "--seconds", SECONDS, user="nobody", group="nogroup", extra_groups=[])
        self.addCleanup(self.end, own)
        others = workload("steps", "--seconds", SECONDS)
        self.addCleanup(self.end, others)
        for process in own, others:
            wait_for("its first calls", lambda: self.daemon.query("cost", "--pid", process.pid))
            self.assertEqual(self.ctl("cost", process.pid).returncode, 0)
        self.assertEqual(self.ctl("budget", own.pid, "5%").returncode, 0)
        for refused in ("budget", others.pid, "none"), ("cost", others.pid, "--now"):
            said = self.ctl(*refused)
            self.assertEqual(said.returncode, 1)
            self.assertRegex(said.stderr, rf"^tsctl: Process {others.pid} belongs to another user: .*\n$")
        said = self.ctl("record", "-o", "/dev/null", "--pid", others.pid, "--duration", "2s")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(said.stderr.count("as far as the budget allows"), 1, said.stderr)


class OwnOnly(MemberCase):
    """Where the settings say so, a member of the group is told nothing of the processes of others."""
    settings = "[daemon]\ncontrol_group = nogroup\n[access]\nothers = own\n"

    def told(self, *arguments):
        said = self.ctl(*arguments)
        self.assertEqual(said.returncode, 0, (arguments, said.stderr))
        return said.stdout + said.stderr

    def test_what_a_member_is_told(self):
        member = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        own = workload("steps", "--seconds", 600, "--calls", 20, "--pause", 2000000, **member)
        self.addCleanup(self.end, own)
        others = workload("rate", "--rate", 500, "--seconds", 600)
        self.addCleanup(self.end, others)
        for process in own, others:
            wait_for("its price", lambda: self.daemon.query("cost", "--pid", process.pid))
        pid = others.pid  # which may be a count of something else, too
        foreign = re.compile(rf"""^ *{pid} |[Pp]rocess {pid}\b|"pid": ?{pid}\b|"pids":"[^"]*\b{pid}\b|"rate"|workload/rate""",
                             re.MULTILINE)
        self.assertRegex(self.daemon.ctl("ps").out, foreign)
        queries = [row["name"] for row in self.daemon.query("list")]
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o777)
            file, trace = os.path.join(directory, "own.sbt"), os.path.join(directory, "own.json")
            self.told("record", "-o", file, "--all", "--since", "1h")
            self.told("export", "--chrome", "--since", "1h", "-o", trace)
            with open(trace, encoding="utf-8") as text:
                answers = {"export": text.read(), "record": self.told("sql", "--json", "--file", file, "SELECT * FROM process")}
        answers |= {verb: self.told(*verb.split()) for verb in ("ps", "top --json --once", "cost")}
        for name, text in answers.items():
            self.assertIn(str(own.pid), text, name)
        answers["status"] = self.told("status")
        answers |= {name: self.told("query", name, "--json") for name in queries}
        for name, text in answers.items():
            self.assertNotRegex(text, foreign, name)
        self.assertIn(f"Process {others.pid} has not used CUDA", self.ctl("cost", others.pid).stderr)
        self.assertRegex(self.ctl("sql", "SELECT * FROM main.process").stderr, "^tsctl: .*only your own processes.*'tsctl query'.*\n$")
        self.assertEqual(self.ctl("budget", own.pid, "5%").returncode, 0)
        web = test_serve.Web(self.daemon, **member)
        self.addCleanup(self.end, web.process)
        seen = wait_for("his lanes", lambda: (answer := json.loads(web.page("timeline", since=1).text)).get("lanes") and answer)
        self.assertEqual(list(seen["processes"].values()), [[own.pid, "steps"]])
        self.assertIn("calls", {lane["what"] for lane in seen["lanes"]})


class Calibration(tracesmith.Case):
    """What a hit costs on this host is measured in a child of the daemon, of which nothing else is seen."""
    stands = True

    def setUp(self):
        own = self.own_driver()
        self.standing = (own,) if self.stands else ()
        super().setUp()

    def status(self):
        rows = json.loads(self.daemon.ctl("status", "--json").out)["rows"]
        return {(row["section"], row["name"]): row["number"] for row in rows}

    def children(self):
        """Of any of its threads, but for those that are there as long as it is."""
        return [path for path in Path("/proc").glob("[0-9]*/status")
                if re.search(rf"^Name:\t(?!ts-(?:zygote|broker|opener)$)(?s:.*)^PPid:\t{self.daemon.process.pid}$", read(path), re.MULTILINE)]

    def test_hot_and_cold(self):
        status = wait_for("the result", lambda: (found := self.status()).get(("price", "hit_ns")) and found)
        hot, middle, cold = (status["price", name] for name in ("hit_hot_ns", "hit_ns", "hit_cold_ns"))
        self.assertTrue(0 < hot <= middle <= cold, (hot, middle, cold))
        wait_for("its events", lambda: self.status()["probes", "events"] > 1000)
        wait_for("the child to be gone", lambda: not self.children())
        self.assertEqual(self.daemon.query("processes"), [])
        self.assertEqual(self.status()["model", "processes"], 0)
        self.assertEqual(self.status()["loss", "stray_events"], 0)
        self.assert_nothing_lost(self.daemon.answer("loss"))

    def test_a_daemon_that_stops_does_not_wait(self):
        children = self.children()
        self.assertEqual(self.daemon.stop(), 0)
        # Or it waits for somebody to reap it.
        wait_for("its children to end", lambda: not any(re.search(r"^State:\t(?!Z)", read(child), re.MULTILINE) for child in children))


class Filtered(Calibration):
    """Filters are for others."""
    settings = "[filter]\npids = 1\n"


class OneByOne(Calibration):
    """With a perf event; without a library, whose events would take long to go."""
    settings = "[probe]\nattach = perf\n"
    stands = False


class WithoutLinks(tracesmith.Case):
    """A kernel before 6.6, as far as the daemon knows."""
    settings = "[probe]\nattach = perf\n"
    budget = "1%"
    _close = tracesmith.Case.leave

    def setUp(self):
        self.own_copy()
        super().setUp()

    def test_everything_is_watched_and_this_is_told(self):
        process = workload("steps", "--seconds", SECONDS, copy=self.standing[0])
        self.addCleanup(self.end, process)
        wait_for("its first calls", lambda: self.daemon.query("cost", "--pid", process.pid))
        self.assertRegex(self.daemon.ctl("status").out, "! windows +This kernel has no links to single processes")
        check = self.daemon.ctl("status", "--check")
        self.assertEqual(check.code, 0, check.out)
        said = self.daemon.ctl("budget", process.pid, "1%")
        self.assertIn("Note: This kernel has no links", said.out)
        said = self.daemon.ctl("cost", process.pid, "--now")
        self.assertEqual(said.code, 1)
        self.assertRegex(said.err, "^tsctl: This kernel has no links to single processes .*\n$")
        self.assertIn("estimated from", self.daemon.ctl("cost", process.pid).out)


if __name__ == "__main__":
    tracesmith.main()
