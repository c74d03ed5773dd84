"""The dependency graph of a program of the simulated GPU: who waited for whom is what the program asked
for, and the critical path has no holes; from the daemon and from a recording alike."""
import json
import os
import shutil
import subprocess
import unittest
import xml.dom.minidom

import tracesmith
from tracesmith import BUILD

STEPS, THREADS = 20, 2


class Graph(tracesmith.Case):
    def environment(self):
        return dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(tracesmith.library("lib")),
                    FAKE_CUDA_TIME_SCALE="1", TRACESMITH_SOCKET=self.daemon.socket)

    def record(self, name, *arguments):
        path = os.path.join(self.daemon.directory, f"{name}.sbt")
        result = subprocess.run([os.path.join(BUILD, "tsctl"), "record", "-o", path, "--",
                                 tracesmith.workload_path(name), *map(str, arguments)],
                                env=self.environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr + self.daemon.log())
        return path

    def graph(self, *arguments):
        result = self.daemon.ctl("graph", *arguments, "--json")
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)

    def assert_whole(self, graph):
        """What always holds: what ends before, what starts after, and a path without holes."""
        node = {f"c{n}": call for n, call in enumerate(graph["calls"])}
        node.update({f"w{n}": work for n, work in enumerate(graph["works"])})
        for edge in graph["edges"]:
            before, after = node[edge["from"]], node[edge["to"]]
            if edge["why"] == "submit":
                self.assertLessEqual(before["start_ns"], after["start_ns"], edge)
            elif edge["to"][0] == "c" and edge["why"] != "thread":
                self.assertLessEqual(before["end_ns"], after["end_ns"], edge)
            elif edge["why"] != "stream":  # of which one may begin early
                self.assertLessEqual(before["end_ns"], after["start_ns"], edge)
        at = 0
        for piece in graph["path"]:
            self.assertEqual(piece["start_ns"], at)
            at = piece["end_ns"]
            if piece["what"] == "work":
                self.assertEqual(node[piece["of"]]["slack_ns"], 0)
        self.assertEqual(at, graph["duration_ns"])

    def edges(self, graph, why):
        return [(edge["from"], edge["to"]) for edge in graph["edges"] if edge["why"] == why]

    def test_streams_wait_for_events(self):
        path = self.record("streams", "--threads", THREADS, "--steps", STEPS)
        graph = self.graph(path)
        self.assert_whole(graph)
        self.assertEqual(graph["contradicted"], 0)
        works = graph["works"]
        kernels = [work for work in works if work["kind"] == "kernel"]
        self.assertGreaterEqual(len(kernels), THREADS * STEPS)
        self.assertEqual([work for work in kernels if work.get("untimed") or work.get("no_call")], [])
        # Each wait for an event of another stream has its record, on that stream.
        events = self.edges(graph, "event")
        self.assertGreaterEqual(len(events), THREADS * STEPS)
        for before, after in events:
            before, after = works[int(before[1:])], works[int(after[1:])]
            self.assertEqual((before["name"], after["name"]), ("event", "wait for an event"))
            self.assertNotEqual(before["stream"], after["stream"])
        # Each step is waited for by its thread.
        self.assertGreaterEqual(len({after for _, after in self.edges(graph, "wait")}), THREADS * STEPS)
        from_daemon = self.graph("--pid", self.pid(path), "--since", "1h")
        self.assertEqual(len(from_daemon["works"]), len(works))
        self.assertEqual(from_daemon["edges"], graph["edges"])

    def pid(self, path):
        result = self.daemon.ctl("sql", "--json", "--file", path, "SELECT pid FROM process")
        return json.loads(result.out)["rows"][0]["pid"]

    def test_nodes_of_a_graph_are_between_their_neighbours(self):
        graph = self.graph(self.record("exact", "--threads", 1, "--rounds", 3, "--nodes", 4))
        self.assert_whole(graph)
        begins = [n for n, work in enumerate(graph["works"]) if work["name"] == "graph starts"]
        ends = [n for n, work in enumerate(graph["works"]) if work["name"] == "graph ends"]
        self.assertTrue(begins)
        self.assertEqual(len(begins), len(ends))
        inside = ("graph", "stream")
        for begin, end in zip(begins, ends):
            works = {f"w{n}" for n in range(begin, end + 1)}
            names = [graph["works"][n]["name"] for n in range(begin + 1, end)]
            self.assertEqual(names.count("in_graph"), 4)
            for node in (f"w{n}" for n in range(begin + 1, end)):
                before = {edge["from"] for edge in graph["edges"] if edge["to"] == node and edge["why"] in inside}
                after = {edge["to"] for edge in graph["edges"] if edge["from"] == node and edge["why"] in inside}
                self.assertTrue(before and after, node)
                self.assertLessEqual(before | after, works)

    def test_critical_path_adds_up(self):
        path = self.record("streams", "--threads", 1, "--steps", STEPS)
        graph = self.graph(path)
        result = self.daemon.ctl("query", "critical-path", "--json", "--file", path, "--limit", "1000")
        self.assertEqual(result.code, 0, result.err)
        rows = json.loads(result.out)["rows"]
        self.assertEqual(sum(row["total_ns"] for row in rows), graph["duration_ns"])
        on_path = sum(piece["end_ns"] - piece["start_ns"] for piece in graph["path"] if piece["what"] == "work")
        ran = ("kernel", "copy", "set", "graph", "work")
        self.assertEqual(sum(row["total_ns"] for row in rows if row["what"] in ran), on_path)
        self.assertEqual(sum(row["idle_ns"] for row in rows if row["what"] in ran), 0)
        same = self.daemon.query("critical-path", "--pid", self.pid(path), "--since", "1h", "--limit", "1000")
        self.assertEqual(same, rows)
        by_stack = json.loads(self.daemon.ctl("query", "critical-path", "--json", "--file", path, "--by-stack",
                                              "--limit", "1000").out)["rows"]
        self.assertEqual(sum(row["total_ns"] for row in by_stack), graph["duration_ns"])
        summed = self.daemon.ctl("sql", "SELECT sum(ns) AS ns FROM critical_path((SELECT max(id) FROM boot), 0, now_ns(), NULL)",
                                 "--json", "--file", path)
        self.assertEqual(json.loads(summed.out)["rows"], [{"ns": graph["duration_ns"]}], summed.err)

    def test_dot_is_what_graphviz_reads(self):
        path = self.record("streams", "--threads", 1, "--steps", 2)
        result = self.daemon.ctl("graph", path, "--dot")
        self.assertEqual(result.code, 0, result.err)
        self.assertTrue(result.out.startswith("digraph plan {"))
        self.assertTrue(result.out.endswith("}\n"))
        out = os.path.join(self.daemon.directory, "graph.dot")
        self.assertEqual(self.daemon.ctl("graph", path, "--dot", "-o", out).code, 0)
        with open(out) as file:
            self.assertEqual(file.read(), result.out)
        if not shutil.which("dot"):
            self.skipTest("Graphviz is not installed")
        svg = subprocess.run(["dot", "-Tsvg"], input=result.out, capture_output=True, text=True, timeout=100)
        self.assertEqual((svg.returncode, svg.stderr), (0, ""))
        graph = self.graph(path)
        titles = [title.firstChild.data for title in xml.dom.minidom.parseString(svg.stdout).getElementsByTagName("title")]
        nodes = [title for title in titles if title[1:].isdigit()]
        self.assertEqual(len(nodes), len(graph["calls"]) + len(graph["works"]))
        self.assertEqual(len([title for title in titles if "->" in title]), len(graph["edges"]))

    def test_what_cannot_be_is_refused(self):
        path = self.record("streams", "--threads", 2, "--steps", 200)
        result = self.daemon.ctl("graph", path, "--dot")
        self.assertEqual(result.code, 1)
        self.assertIn("narrow it with --from", result.err)
        self.assertEqual(self.daemon.ctl("graph", path).code, 2)
        self.assertEqual(self.daemon.ctl("graph", path, "--dot", "--json").code, 2)
        size = os.path.getsize(path)
        other = os.path.join(self.daemon.directory, "link.sbt")
        os.link(path, other)
        for output in (path, other):
            result = self.daemon.ctl("graph", path, "--json", "-o", output)
            self.assertEqual(result.code, 2)
            self.assertIn("is the recording itself", result.err)
        self.assertEqual(os.path.getsize(path), size)
        whole = self.graph(path)
        begin_us = whole["works"][len(whole["works"]) // 2]["start_ns"] // 1000
        part = self.graph(path, "--from", f"{begin_us}us", "--to", f"{begin_us + 1000}us")
        self.assertTrue(part["works"])
        self.assertLess(len(part["works"]), len(whole["works"]))
        result = self.daemon.ctl("graph", path, "--json", "--from", "60ms", "--to", "50ms")
        self.assertEqual(result.code, 1)
        self.assertIn("--from and --to", result.err)


if __name__ == "__main__":
    tracesmith.main()
