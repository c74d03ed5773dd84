"""What programs rarely do, in both tiers and in recordings: what was only asked for is not counted, graphs in
graphs are of the graph that was launched, a process without an exit code has none."""
import json
import os
import signal
import subprocess
import threading
import time

import tracesmith
from tracesmith import BUILD, wait_for

MIB = 1 << 20
COPIES = 10 * MIB


class Odd(tracesmith.Case):
    def odd(self, *arguments, exact=False):
        command = [tracesmith.workload_path("odd"), *map(str, arguments)]
        if exact:
            command = [os.path.join(BUILD, "tsctl"), "run", "--", *command]
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), TRACESMITH_SOCKET=self.daemon.socket)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, self.daemon.log())
        self.daemon.wait_ended(process.pid)
        return process.pid, [json.loads(line) for line in out.splitlines()]

    def check_bytes(self, pid, failed_async):
        """`failed_async`: bytes of asynchronous copies whose failure cannot be known."""
        apis = self.daemon.apis(pid)
        self.assertEqual(apis["cuMemAlloc_v2"]["bytes"], 10 * MIB)
        self.assertEqual(apis["cuMemAlloc_v2"]["errors"], 3)
        self.assertEqual(apis["cuMemcpyHtoD_v2"]["bytes"], 10 * MIB)
        self.assertEqual(apis["cuMemcpyHtoDAsync_v2"]["bytes"], failed_async)
        self.assertEqual(apis["cuMemcpyHtoDAsync_v2"]["calls"], 13)
        self.assertEqual(apis["cuMemsetD8Async"]["bytes"], failed_async)
        transfers = {row["kind"]: row for row in self.daemon.query("transfers", "--pid", pid)}
        self.assertEqual((transfers["HtoD"]["calls"], transfers["HtoD"]["captured"]), (17, 10))
        self.assertEqual(transfers["HtoD"]["bytes"], 10 * MIB + failed_async)
        launches = self.daemon.query("launches", "--pid", pid)
        self.assertEqual(sum(row["captured"] for row in launches), 2)
        streams = self.daemon.query("streams", "--pid", pid)
        self.assertEqual(sum(row["bytes"] for row in streams), 10 * MIB + 2 * failed_async)
        self.assertEqual(len(streams), 2, streams)  # not those that three launches were refused on

    def test_probe_tier(self):
        pid, _ = self.odd()
        self.check_bytes(pid, 3 * COPIES)

    def check_graphs(self, rows, launches):
        """`rows`: graph, kind, node, correlation of all works."""
        nodes, graph_of = {}, {}
        for row in rows:
            if row["kind"] == "kernel":
                nodes.setdefault(row["correlation"], []).append(row["graph"])
            elif row["fn"] == "cuGraphLaunch":
                graph_of[row["correlation"]] = row["graph"]
        self.assertEqual(sorted(len(graphs) for graphs in nodes.values()), [2] * launches + [5] * launches)
        by_size = {}
        for correlation, graphs in nodes.items():
            self.assertEqual(set(graphs), {graph_of[correlation]})
            by_size.setdefault(len(graphs), set()).update(graphs)
        self.assertEqual([len(graphs) for graphs in by_size.values()], [1, 1])
        self.assertNotEqual(by_size[2], by_size[5])

    OPS = "SELECT fn, kind, graph, correlation FROM op WHERE pid = {pid} AND kind IN ('kernel', 'launch')"

    def odd_beside_a_daemon_that_stands_still(self):
        """For a while: the library waits for 2 s. On a busy machine a while may become longer; then there is none."""
        stood_s = []

        def go_on():
            self.daemon.process.send_signal(signal.SIGCONT)
            stood_s.append(time.monotonic() - begin)

        begin = time.monotonic()
        self.daemon.process.send_signal(signal.SIGSTOP)
        timer = threading.Timer(0.6, go_on)
        timer.start()
        found = self.odd(exact=True)
        timer.join()
        return found if stood_s[0] < 1 else None

    def test_exact_tier(self):
        pid, (told,) = wait_for("it to go on in time", self.odd_beside_a_daemon_that_stands_still)
        # From the first kernel on.
        wait_for("the kernels", lambda: self.daemon.sql(f"SELECT count(*) AS n FROM op WHERE pid = {pid} AND kind = 'kernel'")[0]["n"]
                 == told["launches"] * (told["inner"] + told["outer"]))
        self.check_bytes(pid, 0)
        self.assertEqual([row["launches"] for row in self.daemon.query("streams", "--pid", pid) if row["launches"]], [10])
        wait_for("the launches of the graphs", lambda: self.daemon.sql(
            f"SELECT count(*) AS n FROM op WHERE pid = {pid} AND fn = 'cuGraphLaunch' AND kind = 'launch'")[0]["n"] == 2 * told["launches"])
        self.check_graphs(self.daemon.sql(self.OPS.format(pid=pid)), told["launches"])
        graphs = self.daemon.query("graphs", "--pid", pid)
        self.assertEqual(sorted((row["launches"], row["kernels"]) for row in graphs), [(5, 10), (5, 25)])

    def test_recording(self):
        path = os.path.join(self.daemon.directory, "odd.sbt")
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), TRACESMITH_SOCKET=self.daemon.socket)
        result = subprocess.run([os.path.join(BUILD, "tsctl"), "record", "-o", path, "--", tracesmith.workload_path("odd")],
                                capture_output=True, text=True, env=environment, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.daemon.ctl("sql", "--file", path, "--json", self.OPS.replace("pid = {pid} AND ", ""))
        self.assertEqual(result.code, 0, result.err)
        self.check_graphs(json.loads(result.out)["rows"], 5)

    def test_our_own_calls_are_not_the_programs(self):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()))
        process = subprocess.Popen([tracesmith.workload_path("odd"), "--hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=environment)
        self.addCleanup(lambda: (process.stdin.close(), process.stdout.close(), process.wait()))
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        for _ in range(2):
            for verb in ("attach", "detach"):
                result = self.daemon.ctl_again(verb, process.pid)
                self.assertEqual(result.code, 0, result.err + self.daemon.log())
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait()
        self.daemon.wait_ended(process.pid)
        apis = self.daemon.apis(process.pid)
        self.assertEqual(apis["cuDevicePrimaryCtxRetain"]["calls"], 1)
        self.assertNotIn("cuDevicePrimaryCtxRelease_v2", apis)
        tids = self.daemon.sql(f"SELECT DISTINCT tid FROM op WHERE pid = {process.pid} AND fn IS NOT NULL")
        self.assertEqual(tids, [{"tid": process.pid}])

    def test_wide_texts_of_nvtx(self):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), TRACESMITH_SOCKET=self.daemon.socket)
        result = subprocess.run([os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path("nvtx"), "--wide", "--ranges", "1",
                                 "--threads", "1"], capture_output=True, text=True, env=environment, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = wait_for("the ranges", lambda: self.daemon.sql("SELECT name, start_ns, end_ns FROM op WHERE kind = 'range' AND name = 'outer'"))

        def inside():
            return self.daemon.sql(f"SELECT name, domain FROM (SELECT o.name, d.text AS domain, start_ns, end_ns FROM op o LEFT JOIN name d"
                                   f" ON d.id = o.handle WHERE kind = 'range') WHERE start_ns >= {rows[0]['start_ns']}"
                                   f" AND end_ns <= {rows[0]['end_ns']} AND name <> 'outer' ORDER BY start_ns")
        wait_for("those in it", lambda: len(inside()) >= 6)
        self.assertEqual([(row["name"], row["domain"]) for row in inside()],
                         [("größe 中 😀", None), ("ex é", None), ("in é", "Domäne"), ("known é", "Domäne"), ("started é", None),
                          ("mark é", None)])
        self.assertNotIn("before", self.daemon.answer("ranges")["loss"])

    def test_more_texts_than_the_library_keeps(self):
        """They take no kernel's name, and those that have none are counted."""
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), TRACESMITH_SOCKET=self.daemon.socket)
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path("nvtx"), "--texts", "17000",
                                    "--ranges", "2", "--threads", "1"], stdout=subprocess.PIPE, text=True, env=environment)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        self.daemon.wait_ended(process.pid)
        ranges = f"SELECT count(*) AS n, sum(name IS NULL) AS nameless FROM op WHERE pid = {process.pid} AND kind = 'range'"
        wait_for("the marks", lambda: self.daemon.sql(ranges)[0]["n"] >= 17000)
        self.assertEqual([row["name"] for row in self.daemon.query("kernels", "--pid", process.pid)], ["ranged_kernel"])
        answer = self.daemon.answer("ranges", "--pid", process.pid)
        self.assertGreaterEqual(answer["loss"]["no-name"], 17000 - 8192)
        self.assertEqual(self.daemon.sql(ranges)[0]["nameless"], answer["loss"]["no-name"])

    def test_nvtx_before_cuda(self):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), TRACESMITH_SOCKET=self.daemon.socket)
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path("nvtx"), "--first", "--ranges", "3",
                                    "--threads", "1"], stdout=subprocess.PIPE, text=True, env=environment)
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(json.loads(out.splitlines()[-1])["taken"], 1)
        self.daemon.wait_ended(process.pid)
        wait_for("the ranges", lambda: self.daemon.sql(
            f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND kind = 'range' AND name = 'step'")[0]["n"] == 3)

    def test_killed_processes_lack_their_end(self):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library()), TRACESMITH_SOCKET=self.daemon.socket)
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path("odd"), "--hold"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(lambda: (process.stdin.close(), process.stdout.close(), process.wait()))
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        process.kill()
        process.wait()
        self.daemon.wait_ended(process.pid)
        self.assertIn("last-records", self.daemon.answer("kernels", "--pid", process.pid)["loss"])
        self.assertEqual(self.daemon.query("processes", "--pid", process.pid)[0]["exit_code"], 9)

    def test_exec(self):
        """The same process, another command line; what it was is told alike in both tiers."""
        commands = []
        for exact in (False, True):
            pid, _ = self.odd("--again", "--launches", 2, exact=exact)
            rows = self.daemon.query("processes", "--pid", pid)
            commands.append([row["command"] for row in rows])
        self.assertEqual(commands[0], commands[1])
        self.assertEqual(commands[0], [f"{tracesmith.workload_path('odd')} --launches 1"])


if __name__ == "__main__":
    tracesmith.main()
