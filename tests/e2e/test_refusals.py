"""What the two programs say and with which exit status: one sentence for what cannot be done, and help that is true."""
import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest

import tracesmith
from foreign import ENDLESS
from screen import Screen
from tracesmith import BUILD, wait_for, workload

NOBODY = 65534
# What a busy host may lose with no program there.
BUSY = r"loss mappings_lost: .*|.* could wait no longer .*"


def program(name, *arguments, **options):
    return tracesmith.Result(subprocess.run([os.path.join(BUILD, name), *map(str, arguments)], capture_output=True,
                                            text=True, timeout=60, **options))


def as_nobody(name, *arguments):
    return program(name, *arguments, user=NOBODY, group=NOBODY, extra_groups=[])


class Case(tracesmith.Case):
    def refused(self, result, code, *words):
        self.assertEqual(result.code, code, result.err)
        self.assertEqual(result.out, "")
        self.assertEqual(len(result.err.strip().splitlines()), 1, result.err)
        for word in words:
            self.assertIn(word, result.err)


class Sentences(Case):
    def test_usage(self):
        for arguments, word in (
                (["nonsense"], "Unknown command"), (["quer", "apis"], "did you mean 'query'?"),
                (["query"], "Missing argument"), (["sql"], "Missing argument"),
                (["status", "extra"], "Too many arguments"), (["query", "apis", "--pid", "x"], "--pid needs a process ID"),
                (["query", "apis", "--since", "yesterday"], "--since needs a time, e.g. 10s"),
                (["query", "leaks", "--min-age", "2GB"], "--min-age needs a duration, e.g. 500ms"),
                (["view", "--kernel", "a{1,255}{1,255}{1,255}"], "expands to more than 1000"),
                (["replay", "--kernel", ".{0,32767}"], "expands to more than 1000"), (["view", "--kernel", "(a*)*\\1"], "back references"),
                (["replay", "--emulate", "--scale", "kernel=a{1,255}{1,255}:2", "x.sbt"], "expands to more than 1000"),
                (["ps", "--json", "--csv"], "exclude each other"), (["export", "--perfetto"], "-o FILE"),
                (["report", "4711"], "Missing output file"), (["report", "0", "-o", "-"], "not a process ID"),
                (["plot", "idle", "-o", "-"], "give busy, memory or memory-map"), (["plot", "busy"], "Missing output file"),
                (["plot", "busy", "--follow", "-o", "-"], "--follow"),
                (["report", "7", "--pid", "8", "-o", "-"], "Give one process")):
            self.refused(self.daemon.ctl(*arguments), 2, word)

    def test_queries_that_make_no_sense(self):
        self.refused(self.daemon.ctl("query", "leak"), 2, "did you mean 'leaks'?")
        self.refused(self.daemon.ctl("query", "nosuch"), 2, "Unknown query 'nosuch': 'tsctl query list'")
        self.refused(self.daemon.ctl("query", "memory", "--since", "5s"), 2, "takes no --since")
        self.refused(self.daemon.ctl("query", "processes", "--stream", "99"), 2, "takes no --stream")
        self.refused(self.daemon.ctl("query", "apis", "--since", "1s", "--until", "2s"), 2, "ends before it starts")
        self.assertRegex(self.daemon.ctl("query", "list").out, r"\bleaks .* --limit .*--pid .*--min-age --device\b")
        for nothing in ("", " ", ";", "\n"):
            self.refused(self.daemon.ctl("sql", nothing), 2, "statement")

    def test_a_check_for_monitoring(self):
        """One line on standard output, and the exit status of a Nagios plugin."""
        result = self.daemon.ctl("status", "--check")
        may = rf"^WARNING: (lost: [0-9]+ \(mapping\).*|{BUSY})\n$"
        self.assertRegex(result.out, r"^OK: tracesmithd .* is running, .*\n$" if result.code == 0 else may)
        now_ns = self.daemon.sql("SELECT now_ns() n")[0]["n"]
        self.daemon.stop()
        result = self.daemon.ctl("status", "--check")
        self.assertEqual((result.code, result.out), (2, "CRITICAL: tracesmithd does not answer\n"))
        with tracesmith.edited(self.daemon.database) as db:
            db.execute("INSERT INTO loss(boot, second, process, reason, start_ns, end_ns, count) VALUES"
                       f" ((SELECT max(id) FROM boot), 1, 0, 1, {now_ns}, {now_ns}, 24000000)")
        self.daemon.start()
        result = self.daemon.ctl("status", "--check")
        self.assertEqual(result.code, 1, result.out)
        self.assertRegex(result.out, rf"^WARNING: (lost: 24000000 \(ring-full\) in the last 10 minutes|{BUSY})"
                         r"(, and [0-9]+ more)?; see .*\n$")
        self.refused(self.daemon.ctl("status", "--check", "--json"), 2, "one line")

    def test_process_that_is_not_known(self):
        """No such process, or one that does not use CUDA."""
        for pid in ("999999", "1", str(os.getpid())):
            for query in ("apis", "leaks", "memory", "states"):
                self.refused(self.daemon.ctl("query", query, "--pid", pid), 1, f"Process {pid} has not used CUDA")
        self.refused(self.daemon.ctl("export", "--perfetto", "--pid", "999999", "-o", "/dev/null"), 1, "999999")
        self.refused(self.daemon.ctl("report", "999999", "-o", "/dev/null"), 1, "999999")

    def test_sql_that_may_not(self):
        for text, word in (("DELETE FROM process", "Only reading is allowed"), ("DROP TABLE process", "Only reading is allowed"),
                           ("ATTACH '/etc/passwd' AS p", "Only reading"), ("PRAGMA journal_mode = delete", "Only reading"),
                           ("SELECT load_extension('x')", "not authorized"), ("SELECT 1; SELECT 2", "Only one statement"),
                           ("SELEC 1", "syntax error"), ("SELECT nonsense", "no such column: nonsense"),
                           ("SELECT * FROM nowhere", "no such table: nowhere")):
            self.refused(self.daemon.ctl("sql", text), 1, word)
        self.assertEqual(self.daemon.ctl("sql", "SELECT 1").code, 0)

    def test_sql_that_never_ends_is_ended(self):
        begin = time.monotonic()
        result = self.daemon.ctl("sql", "--timeout", "100ms", ENDLESS + "SELECT count(*) FROM n")
        self.refused(result, 1, "took too long", "start_ns")
        self.assertNotIn("--since", result.err, "what sql does not take")
        self.assertLess(time.monotonic() - begin, tracesmith.DEADLINE)

    def test_no_daemon(self):
        self.refused(program("tsctl", "status", "--socket", "/tmp/no-such-tracesmith.sock"), 1,
                     "/tmp/no-such-tracesmith.sock", "systemctl start tracesmithd")

    def test_user_without_the_rights(self):
        os.chmod(self.daemon.directory, 0o755)
        for mode in (0o600, 0o666):  # the file's mode keeps them out, or the daemon does
            os.chmod(self.daemon.socket, mode)
            for verb in ("status", "ps"):
                self.refused(as_nobody("tsctl", verb, "--socket", self.daemon.socket), 1, "group 'tracesmith'")

    def test_output_into_a_closed_pipe_ends_quietly(self):
        for arguments, first in ((["sql", ENDLESS + "SELECT i FROM n", "--limit", "1000000", "--csv"], "i\n"),
                                 (["query", "list", "--csv"], "name,text,options\n")):
            with subprocess.Popen([os.path.join(BUILD, "tsctl"), "--socket", self.daemon.socket, *arguments], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                self.assertEqual(process.stdout.readline(), first)
                process.stdout.close()
                said = process.stderr.read()
                self.assertTrue(said == "" or re.fullmatch("tsctl: note: This answer is .* s old: [^\n]*\n", said), said)


class Help(Case):
    def verbs(self):
        return re.findall(r"^  ([a-z]+) ", self.daemon.ctl("help").out, re.MULTILINE)

    def test_every_example_works(self):
        process = workload("leak")
        self.addCleanup(process.communicate, "\n")
        wait_for("the workload", lambda: self.daemon.known(process.pid))
        busy = workload("rate", "--rate", "500", "--seconds", "600")  # what is recorded for a time has something
        self.addCleanup(lambda: (busy.kill(), busy.communicate()))
        wait_for("the other workload", lambda: self.daemon.known(busy.pid))
        steps = workload("steps", "--seconds", "600", "--calls", "20", "--pause", "2000000")  # has a pace to measure
        self.addCleanup(lambda: (steps.kill(), steps.communicate()))
        wait_for("the third", lambda: self.daemon.known(steps.pid))
        greedy = workload("oom", environment={"FAKE_CUDA_MEMORY_MIB": "16"})
        self.addCleanup(greedy.communicate)
        for mib in (32, 64, 128):  # more than the device has
            greedy.stdin.write(f"take {mib << 20}\n")
        greedy.stdin.flush()
        wait_for("the third failure", lambda: len(self.daemon.query("oom")) == 3)
        pids = {"record": busy.pid, "cost": steps.pid}
        with open(os.path.join(self.daemon.directory, "train.py"), "w") as file:
            file.write("import os, subprocess\n"  # of `tsctl run` and `record`
                       f"environment = dict(os.environ, LD_LIBRARY_PATH={os.path.dirname(tracesmith.library())!r})\n"
                       f"subprocess.run([{tracesmith.workload_path('short')!r}], env=environment, check=True)\n")
        wait_for("what is longer than the examples", lambda: self.daemon.sql(
            "SELECT now_ns() - min(first_ns) > 2200000000 AS long FROM chunk")[0]["long"])
        names = ("run", "before", "after", "a1", "a2", "a3", "b1", "b2", "b3")
        for name in names:
            self.assertEqual(self.daemon.ctl("record", "-o", f"{name}.sbt", "--all", "--since", "1h", cwd=self.daemon.directory).code, 0)
        for verb in self.verbs():
            result = self.daemon.ctl(verb, "--help")
            examples = re.findall(r"^Example: .*'tsctl (.*)'$" if verb == "answer" else
                                  r"^Example: tsctl (.*)$", result.out, re.MULTILINE)
            self.assertEqual(result.code, 0)
            self.assertTrue(examples, verb)
            for example in examples:
                with self.subTest(example=example):
                    example = example.replace("4711", str(pids.get(verb, process.pid))).replace("--duration 10s", "--duration 1s").replace("alice", "root")
                    # The workload has no times on the GPU.
                    example = example.replace("--svg", "--chrome").replace(" --fail-over 5%", "")
                    self.example(verb, shlex.split(example.split(" | ")[0]))

    def example(self, verb, arguments):
        if verb == "serve":
            self.served(arguments)
            return
        if verb == "answer":
            self.answered(arguments)
            return
        if arguments == ["top"]:
            screen = Screen(80, 24, TRACESMITH_SOCKET=self.daemon.socket)
            screen.wait("q quit")
            screen.type("q")
            self.assertEqual(screen.wait_end(), 0)
            return
        if verb in ("fleet", "ship"):
            self.without_server(arguments)
            return
        def example():
            """What it says once it is served: on a busy machine a process may have no good moment for seconds."""
            result = self.daemon.ctl(*arguments, cwd=self.daemon.directory)
            late = result.err.rstrip().endswith(tracesmith.AGAIN) or "have not answered for" in result.err
            return None if result.code and late else result

        result = wait_for(shlex.join(arguments), example)
        self.assertEqual((result.code, arguments[0]), (0, verb), result.err)
        if verb == "export":
            self.assertGreater(os.path.getsize(os.path.join(self.daemon.directory, arguments[-1])), 0)
        elif not {"--min-age", "kernels", "--kernel"} & set(arguments):  # nothing is as old as that here, and none ran since
            self.assertNotIn("no rows", result.out)
        if "--json" in arguments and verb == "query":
            self.assertTrue(json.loads(result.out)["rows"])

    def without_server(self, arguments):
        """It is understood; what comes then is told by test_fleet and test_ship, which have a server."""
        password = os.path.join(self.daemon.directory, "password")
        with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("secret\n")
        nobody = "http://127.0.0.1:1"
        arguments = [{"http://ch1:8123": nobody, "~/.fleet": password}.get(each, each) for each in arguments]
        if arguments[0] == "fleet" and nobody not in arguments:
            arguments += ["--url", nobody]
        said = {("ship", "status"): "start the shipper", ("ship", "window"): "/etc/tracesmith/ship.conf"}
        self.refused(self.daemon.ctl(*arguments), 1, said.get(tuple(arguments[:2]), nobody))

    def answered(self, arguments):
        """Until the other end is closed."""
        ours, theirs = socket.socketpair()
        with theirs, subprocess.Popen([os.path.join(BUILD, "tsctl"), *arguments], stdin=theirs, cwd=self.daemon.directory) as process:
            ours.close()
            self.assertEqual(process.wait(tracesmith.DEADLINE), 0)

    def served(self, arguments):
        """It serves until it is told to end; at a port of its own, with files that are there."""
        files = {"/etc/tracesmith/web-token": os.path.join(self.daemon.directory, "token"),
                 "/etc/ssl/private/gpu1.pem": os.path.join(self.daemon.directory, "gpu1.pem")}
        given = [files.get(word, word) for word in arguments]
        if "--tls" in given:
            tracesmith.certificate(self.daemon.directory, "gpu1")
        with subprocess.Popen([os.path.join(BUILD, "tsctl"), *given, "--listen", "127.0.0.1:0"], text=True, cwd=self.daemon.directory,
                              env=dict(os.environ, TRACESMITH_SOCKET=self.daemon.socket), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            said = process.stdout.readline()
            process.terminate()
            self.assertEqual((process.wait(tracesmith.DEADLINE), process.stderr.read()), (0, ""))
            self.assertTrue(said.startswith("http"))
            self.assertEqual("/metrics" in process.stdout.read(), not any(argument.endswith(".sbt") for argument in arguments))

    def test_every_query_works(self):
        listed = self.daemon.query("list")
        self.assertIn("leaks", [query["name"] for query in listed])
        for query in listed:
            self.assertEqual(self.daemon.ctl("query", query["name"]).code, 0)
            self.assertEqual(self.daemon.ctl("query", query["name"], "--csv").code, 0)
            answer = self.daemon.answer(query["name"])
            # Who has no rows says why; of other programs of the host something may be missing.
            keys = {"query", "rows", "loss"} | (set() if answer["rows"] else {"note"}) | ({"missing"} & set(answer) if answer["loss"] else set())
            self.assertEqual(set(answer), keys, answer)
        self.assertNotIn("lost", self.daemon.ctl("query", "list").out)

    def test_what_the_limit_cut_is_told(self):
        for limit, told in ((1, {"truncated": True}), (2, {})):
            result = self.daemon.ctl("sql", "--json", "--limit", limit, "SELECT 1 AS n UNION SELECT 2")
            answer = json.loads(result.out)
            self.assertEqual({key: answer[key] for key in answer if key == "truncated"}, told)
            self.assertEqual(len(answer["rows"]), limit)
            self.assertEqual("showing the first" in result.err, bool(told))


class SecondDaemon(Case):
    def test_on_the_state_directory(self):
        second = program("tracesmithd", "--config", self.daemon.config, "--socket", "/tmp/tracesmith-second.sock",
                         "--state-dir", self.daemon.directory)
        self.assertEqual(second.code, 1)
        self.assertIn(f"Another tracesmithd uses '{self.daemon.directory}'", second.err)

    def test_on_the_socket(self):
        other = tracesmith.tempfile.mkdtemp()
        self.addCleanup(tracesmith.shutil.rmtree, other)
        second = program("tracesmithd", "--config", self.daemon.config, "--socket", self.daemon.socket, "--state-dir",
                         other)
        self.assertEqual(second.code, 1)
        self.assertIn(self.daemon.socket, second.err)
        self.assertEqual(self.daemon.ctl("status").code, 0, "the first one goes on")


class DaemonRefuses(unittest.TestCase):
    def test_a_clock_that_is_not_the_hosts(self):
        state = tracesmith.tempfile.mkdtemp()
        self.addCleanup(tracesmith.shutil.rmtree, state)
        result = subprocess.run(["unshare", "-T", "--monotonic", "86400", os.path.join(tracesmith.BUILD, "tracesmithd"),
                                 "--socket", f"{state}/control.sock", "--state-dir", state], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn("time namespace", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_settings(self):
        with tracesmith.tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("[probe]\nring_size = many\n")
            file.flush()
            result = program("tracesmithd", "--config", file.name, "--check-config")
            self.assertEqual(result.code, 78)
            self.assertIn("ring_size", result.err)
        self.assertEqual(program("tracesmithd", "--config", "/nonexistent.conf").code, 78)

    def test_settings_that_cannot_be(self):
        for text, said in (("[probe]\nbudget = 0%\n", "'0%' is out of range for 'budget' in [probe]"),
                           ("[exact]\nbudget = 100%\n", "'100%' is out of range"),
                           ("[probe]\nbudget = -3%\n", "'-3%' is invalid"),
                           ("[daemon]\ncontrol_group = nosuch\n", "unknown group 'nosuch'"),
                           ("[filter]\ncgroups = /tmp\n", "'/tmp' is not a cgroup"),
                           ("[filter]\ncgroups = no/such\n", "'no/such' is not a cgroup"),
                           ("[filter]\nuids = nobody nosuch\n", "unknown user 'nosuch'")):
            with tracesmith.tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
                file.write(text)
                file.flush()
                result = program("tracesmithd", "--config", file.name, "--check-config")
                self.assertEqual(result.code, 78)
                self.assertIn(said, result.err)
                self.assertEqual(len(result.err.splitlines()), 1, result.err)

    def test_reload_of_another_process(self):
        """It would die of the signal."""
        process = subprocess.Popen(["sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        result = program("tracesmithd", "--config", "/dev/null", "--reload", str(process.pid))
        self.assertEqual(result.code, 1)
        self.assertIn(f"Process '{process.pid}' is not a running tracesmithd", result.err)
        self.assertIsNone(process.poll())

    def test_without_the_rights(self):
        directory = tracesmith.tempfile.mkdtemp()
        self.addCleanup(tracesmith.shutil.rmtree, directory)
        os.chown(directory, NOBODY, -1)
        result = as_nobody("tracesmithd", "--state-dir", directory, "--socket", directory + "/s")
        self.assertEqual(result.code, 1)
        self.assertIn("root", result.err)

    def test_a_folder_of_standing_libraries_that_is_closed_to_it(self):
        driver = tempfile.mkdtemp(prefix="tracesmith-driver-")
        self.addCleanup(shutil.rmtree, driver)
        daemon = tracesmith.Daemon(driver=tracesmith.copy_library(driver), standing=(driver,)).start()
        self.addCleanup(daemon.close)
        self.assertIn(f"'{os.path.realpath(tracesmith.library(driver))}' is closed to tracesmithd", daemon.log())
        process, _ = tracesmith.run("counts", copy=driver)
        wait_for("it to be known all the same", lambda: daemon.known(process.pid))

    def test_damaged_database(self):
        daemon = tracesmith.Daemon()
        self.addCleanup(daemon.close)
        with open(daemon.database, "wb") as file:
            file.write(os.urandom(100000))
        result = program("tracesmithd", "--config", daemon.config, "--socket", daemon.socket, "--state-dir",
                         daemon.directory)
        self.assertEqual(result.code, 1)
        self.assertIn(daemon.database, result.err)
        self.assertEqual(os.path.getsize(daemon.database), 100000, "it is left as it is")

    def damage(self, daemon, find):
        """A page that a statement finds."""
        with contextlib.closing(sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)) as database:
            page, = database.execute(find).fetchone()
        with open(daemon.database, "r+b") as file:
            file.seek((page - 1) * 4096 + 8)
            file.write(b"\xff" * 64)

    def test_database_of_ours_that_is_damaged(self):
        daemon = tracesmith.Daemon()
        self.addCleanup(daemon.close)
        daemon.start()
        process, _ = tracesmith.run("counts")
        daemon.wait_ended(process.pid)
        calls = sum(row["calls"] for row in daemon.query("apis"))
        daemon.stop()
        # One page of sums loses only itself, in each process that answers.
        self.damage(daemon, "SELECT pageno FROM dbstat WHERE name = 'rollup' AND pagetype = 'leaf' AND path <> '/'")
        daemon.start()
        answer = daemon.answer("apis")
        self.assertGreaterEqual(answer["loss"].get("damaged", 0), 1)
        self.assertTrue(0 < sum(row["calls"] for row in answer["rows"]) < calls)
        self.assertGreater(daemon.sql("SELECT count(*) AS n FROM rollup")[0]["n"], 100)
        daemon.stop()
        # The first one is that of all.
        self.damage(daemon, "SELECT rootpage FROM sqlite_schema WHERE name = 'rollup'")
        daemon.start()
        wait_for("the damage to be told", lambda: "damaged" in daemon.answer("apis")["loss"])
        self.assertEqual(daemon.query("apis"), [])
        daemon.stop()
        self.damage(daemon, "SELECT rootpage FROM sqlite_schema WHERE name = 'boot'")
        daemon.start()
        self.assertEqual(daemon.log().count("and a new one is made"), 1)
        self.assertTrue(os.path.exists(daemon.database + ".damaged"))
        answer = daemon.answer("apis")
        self.assertEqual((answer["rows"], answer["loss"]), ([], {"set-aside": 1}))
        self.assertIn("what was before is in tracesmith.db.damaged", answer["note"])
        self.assertIn("tracesmith.db.damaged", daemon.ctl("query", "apis", "--pid", process.pid).err)
        said = f"set_aside +{daemon.database}.damaged has what was before"
        self.assertRegex(daemon.ctl("status").out, f"! {said}")
        check = daemon.ctl("status", "--check")
        self.assertEqual(check.code, 1)
        self.assertRegex(check.out, f"^WARNING: store set_aside: {daemon.database}.damaged")
        # It stays a loss, and whoever has moved it away has seen it.
        os.unlink(daemon.database + ".damaged")
        daemon.stop()
        daemon.start()
        self.assertNotIn("set_aside", daemon.ctl("status").out)
        self.assertEqual(daemon.answer("loss")["loss"]["set-aside"], 1)


if __name__ == "__main__":
    tracesmith.main()
