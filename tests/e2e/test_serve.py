"""tsctl serve: its counters are those of the daemon, appear once and never fall, whoever comes and goes; Prometheus
reads them; the page shows what the daemon's queries say; who does not know the token, or asks for anything else, is told
nothing."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

import browser
import tracesmith
from tracesmith import BUILD, run, wait_for, workload

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
SAMPLE = re.compile(r'^(\w+)(\{(?:\w+="(?:[^"\\]|\\.)*",?)*\})? (\d+(?:\.\d+)?)$')


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.text = response.status, response.headers, response.read().decode()


class Web:
    """A `tsctl serve` with its address."""

    def __init__(self, daemon, *arguments, **who):
        environment = dict(os.environ, TRACESMITH_SOCKET=daemon.socket if daemon else "/nonexistent")
        self.process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "serve", "--listen", "127.0.0.1:0", *arguments],
                                        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **who)
        self.line = self.process.stdout.readline().strip()  # the page's; that of /metrics follows
        url = urllib.parse.urlsplit(self.line)
        self.port, self.query = url.port, url.query
        self.token = urllib.parse.parse_qs(url.query).get("token", [""])[0]

    def page(self, path="", **arguments):
        """What the page gets, with its files' address."""
        return self.get(f"/t/{self.token}/{path}" + ("?" + urllib.parse.urlencode(arguments) if arguments else ""), {})

    def get(self, path=None, headers=OPENMETRICS, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=tracesmith.DEADLINE)
        connection.request(method, path if path is not None else f"/metrics?{self.query}", headers=headers)
        try:
            return Answer(connection.getresponse())
        finally:
            connection.close()


def samples(text):
    """Each sample by its name with labels; fails where one is there twice, or nobody said what it is."""
    found, families, ended = {}, set(), False
    for line in text.splitlines():
        assert not ended, "something stands behind the end"
        if line.startswith("# "):
            if line.startswith("# TYPE"):
                assert line.split()[2] not in families, f"twice: {line}"
                families.add(line.split()[2])
            ended = line == "# EOF"
            continue
        match = SAMPLE.match(line)
        assert match, line
        name = match[1] + (match[2] or "")
        assert name not in found, f"twice: {line}"
        assert any(match[1] in (family, *(family + end for end in ("_total", "_bucket", "_count", "_sum", "_info")))
                   for family in families), f"of no family: {line}"
        found[name] = float(match[3])
    return found


def total(found, name, *labels):
    return sum(value for key, value in found.items()
               if key.split("{")[0] == name and all(label in key for label in labels))


class Page(unittest.TestCase):
    """The page of a recording, for which no daemon is needed."""

    def web(self, *names):
        paths = [os.path.join(tracesmith.SOURCE, "tests/data", name) for name in names or ("exact.sbt",)]
        self.path, web = paths[0], Web(None, *paths)
        self.addCleanup(self.end, web)
        self.assertTrue(web.port, web.line)
        return web

    def end(self, web):
        web.process.terminate()
        self.assertEqual(web.process.communicate(timeout=tracesmith.DEADLINE)[1], "")
        self.assertEqual(web.process.returncode, 0)

    def answer(self, web, path, **arguments):
        answer = web.page(path, **arguments)
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/json"), answer.text)
        self.assertLessEqual(len(answer.text), 200000)
        return json.loads(answer.text)

    def test_files_lead_nowhere_else(self):
        web = self.web()
        to_page = web.get(f"/?{web.query}", {})
        self.assertEqual((to_page.status, to_page.headers["Location"]), (303, f"/t/{web.token}/"))
        size = 0
        for name, kind in (("", "text/html"), ("style.css", "text/css"), ("main.js", "text/javascript")):
            answer = web.page(name)
            self.assertEqual((answer.status, answer.headers["Content-Type"].split(";")[0]), (200, kind), name)
            self.assertIn("default-src 'none'; script-src 'self'", answer.headers["Content-Security-Policy"])
            self.assertEqual((answer.headers["Referrer-Policy"], answer.headers["X-Content-Type-Options"]), ("no-referrer", "nosniff"))
            with open(os.path.join(tracesmith.SOURCE, "client/web", name or "index.html")) as file:
                self.assertEqual(answer.text, file.read(), name)
        names = os.listdir(os.path.join(tracesmith.SOURCE, "client/web"))
        for name in names:
            text = web.page(name).text
            self.assertIsNone(re.search(r"(https?:)?//\w+\.\w", text), f"{name} names another host")
            size += len(text)
        self.assertLess(size, 150000)
        for path in ("../main.js", "..%2f..%2fetc/passwd", "/etc/passwd", "main.js/", "nothing", "query", "metrics"):
            self.assertEqual(web.page(path).status, 404, path)
        self.assertEqual(web.get(f"/t/{web.token}/", {}, method="POST").status, 405)
        self.assertEqual(web.get().status, 404, "a recording has no metrics")

    def test_queries_are_those_of_tsctl(self):
        web = self.web()
        for name, arguments, options in (("kernels", {"limit": 3}, ("--limit", "3")), ("idle", {"device": 1}, ("--device", "1")),
                                         ("syncs", {"pid": 5508, "by": 3}, ("--pid", "5508", "--by", "line")),
                                         ("kernels", {"name": "tick|scale", "sort": "-count"}, ("--name", "tick|scale", "--sort=-count"))):
            told = subprocess.run([os.path.join(BUILD, "tsctl"), "query", name, "--file", self.path, "--json", *options],
                                  capture_output=True, text=True, check=True)
            answer = self.answer(web, f"query/{name}", **arguments)
            self.assertTrue(answer["rows"], name)
            self.assertEqual(answer, json.loads(told.stdout), name)
        for path, arguments, status, why in (
                ("query/nothing", {}, 404, "query list"), ("query/", {}, 404, ""), ("query/kernels", {"limit": "x"}, 400, "'limit' must be"),
                ("query/kernels", {"pid": -1}, 400, "'pid' must be"), ("query/kernels", {"pid": 1 << 40}, 400, "'pid' must be"),
                ("query/kernels", {"since": "now"}, 400, "'since' must be"), ("query/kernels", {"min_age_ns": 5}, 400, ""),
                ("query/<script>", {}, 404, "")):
            answer = web.page(path, **arguments)
            self.assertEqual((answer.status, answer.headers["Content-Type"]), (status, "application/json"), (path, answer.text))
            self.assertIn(why, json.loads(answer.text)["error"])
        clock = self.answer(web, "clock")
        self.assertEqual(clock["file"], self.path)
        since = clock["now_ns"] - 1
        self.assertEqual(self.answer(web, "query/states", since=since, until=since)["rows"], [])

    SPAN = ("start", "length", "name", "count", "value")

    def lanes(self, answer, what):
        """By id and device, the lanes of one kind, with the operations of each as dictionaries."""
        found = {}
        for lane in answer["lanes"]:
            if lane["what"] == what:
                numbers = lane["spans"]
                spans = [dict(zip(self.SPAN, numbers[i:i + 5])) for i in range(0, len(numbers), 5)]
                for span in spans:
                    span["name"] = answer["names"][span["name"]]
                found[lane["id"], lane["device"]] = spans
        return found

    def op(self, web, what, **arguments):
        """What is shown of the operation that a lane has at a moment."""
        rows = self.answer(web, f"query/page-op-{what}", process=1, **arguments)["rows"]
        return rows[0] if rows else None

    def test_timeline_has_what_happened(self):
        web = self.web()
        extent = self.answer(web, "extent")
        since, until = extent["since"], extent["until"] + 1

        def sql(text):
            told = subprocess.run([os.path.join(BUILD, "tsctl"), "sql", "--file", self.path, "--json", text],
                                  capture_output=True, text=True, check=True)
            return json.loads(told.stdout)["rows"]

        work = sql("SELECT stream, device, gpu_start_ns AS start, gpu_end_ns AS ended, name FROM op WHERE gpu_end_ns > 0")
        calls = sql("SELECT tid, count(*) AS n FROM op WHERE (end_ns > 0 OR kind = 'launch') AND tid > 0 AND flags & 256 = 0"
                    " AND kind NOT IN ('range', 'overhead') GROUP BY tid")
        for columns in (1, 7, 300, 4096):
            answer = self.answer(web, "timeline", since=since, until=until, columns=columns)
            self.assertFalse(answer["cut"] or answer["coarse"])
            unit, shown = answer["unit_ns"], self.lanes(answer, "work")
            self.assertEqual(sum(span["count"] for spans in shown.values() for span in spans), len(work))
            for op in work:  # something covers each, to a column
                at, to = (op["start"] - since) / unit, (op["ended"] - since) / unit
                self.assertTrue(any(span["start"] <= at + 9 and to <= span["start"] + span["length"] + 9
                                    for span in shown[op["stream"], op["device"]]), (columns, op))
            self.assertEqual({tid: sum(span["count"] for span in spans) for (tid, _), spans in self.lanes(answer, "calls").items()},
                             {row["tid"]: row["n"] for row in calls})
            self.assertEqual(answer["processes"], {"1": [5508, "exact"]})
            self.assertEqual([loss[0] for loss in answer["losses"]], ["stack-sampled"])
            self.assertRegex(answer["missing"], r"^lost: \d+ stacks \(stack-sampled\)")
        ends = sorted(op["ended"] - 1 for op in work)
        self.assert_sums(web, sql, ends[len(ends) // 4], ends[len(ends) * 3 // 4])
        # From near, each is itself.
        op = next(op for op in work if op["name"] == "scale")
        answer = self.answer(web, "timeline", since=op["start"] - 20, until=op["ended"] + 20, columns=400, pid=5508)
        span = next(span for span in self.lanes(answer, "work")[op["stream"], op["device"]] if span["name"] == ["kernel", "scale"])
        self.assertEqual(span["count"], 1)
        self.assertAlmostEqual(span["start"] * answer["unit_ns"], 20, delta=answer["unit_ns"] + 1)
        self.assertAlmostEqual(span["length"] * answer["unit_ns"], op["ended"] - op["start"], delta=2 * answer["unit_ns"] + 1)
        found = self.op(web, "work", stream=op["stream"], since=(op["start"] + op["ended"]) // 2)
        self.assertEqual((found["name"], found["fn"], found["gpu_start_ns"], found["gpu_ns"]),
                         ("scale", "cuLaunchKernel", op["start"], op["ended"] - op["start"]))
        by_call = self.op(web, "calls", tid=found["tid"], since=found["start_ns"], step_ns=100)
        self.assertEqual((by_call["gpu_start_ns"], by_call["stack"]), (op["start"], found["stack"]))
        self.assertIsNone(self.op(web, "work", stream=op["stream"], since=5))
        for path, arguments, status in (
                ("timeline", {"since": 5, "until": 5}, 400), ("timeline", {"columns": 0}, 400), ("timeline", {"columns": 5000}, 400),
                ("timeline", {"pid": "1;DROP"}, 400), ("timeline", {"pid": 1}, 404), ("timeline", {"since": 1 << 70}, 400),
                ("query/page-op-work", {"stream": "1)"}, 400), ("query/page-op-work", {"tid": 5}, 400)):
            answer = web.page(path, **arguments)
            self.assertEqual((answer.status, "error" in json.loads(answer.text)), (status, True), (path, arguments, answer.text))

    def assert_sums(self, web, sql, since, until):
        """What was done in a window, to the nanosecond: also what started before it or ended after it, as far as it lies in it."""
        wanted = {}

        def add(text, start, ended):
            for op in sql(text):
                if op[start] < until and op[ended] > since:
                    count, total = wanted.get((op["kind"], op["name"]), (0, 0))
                    wanted[op["kind"], op["name"]] = (count + 1, total + min(op[ended], until) - max(op[start], since))
        add("SELECT 'state' AS kind, detail AS name, start_ns, end_ns FROM op WHERE kind = 'state' AND stream = 0", "start_ns", "end_ns")
        add("SELECT 'call' AS kind, fn AS name, start_ns, end_ns FROM op WHERE end_ns > 0 AND tid > 0 AND flags & 256 = 0"
            " AND kind NOT IN ('range', 'overhead')", "start_ns", "end_ns")
        add("SELECT iif(kind = 'launch', 'kernel', kind) AS kind, coalesce(name, detail, fn) AS name, gpu_start_ns, gpu_end_ns FROM op"
            " WHERE gpu_end_ns > 0 AND exact AND kind IN ('launch', 'kernel', 'copy', 'set')", "gpu_start_ns", "gpu_end_ns")
        found = {}
        for row in self.answer(web, "query/page-sum", since=since, until=until, limit=400)["rows"]:
            count, total = found.get((row["kind"], row["name"]), (0, 0))
            found[row["kind"], row["name"]] = (count + row["count"], total + row["ns"])
        self.assertLessEqual({"state", "call", "kernel"}, {kind for kind, _ in wanted})
        self.assertEqual(found, wanted)

    def test_addresses_are_those_of_allocations(self):
        web = self.web()
        told = subprocess.run([os.path.join(BUILD, "tsctl"), "sql", "--file", self.path, "--json",
                               "SELECT kind, coalesce(end_ns, start_ns) AS done, start_ns, bytes, address, device, stack FROM op WHERE result = 0"
                               " AND kind IN ('alloc', 'free') AND detail = 'device' ORDER BY start_ns"], capture_output=True, text=True, check=True)
        extent = self.answer(web, "extent")
        answer = self.answer(web, "addresses", since=extent["since"], until=extent["until"])
        wanted, made = [], {}
        for op in json.loads(told.stdout)["rows"]:
            if op["kind"] == "alloc":
                made[op["device"], op["address"]] = op
            else:
                alloc = made.pop((op["device"], op["address"]))
                wanted.append((op["device"], op["address"], op["bytes"], alloc["done"], op["start_ns"], str(alloc["stack"])))
        self.assertTrue(wanted)
        self.assertEqual((made, answer["left_out"]), ({}, 0), "all of it was freed")
        found = []
        for panel in answer["panels"]:
            self.assertEqual((answer["processes"][str(panel["process"])][0], panel["tensors"], panel["blocks_left_out"], panel["failed"]), (5508, False, 0, []))
            bands = [(int(address), below) for address, below in panel["bands"]]
            for i in range(0, len(panel["blocks"]), 5):
                start, end, place, size, path = panel["blocks"][i:i + 5]
                self.assertLessEqual(place + size, panel["bytes"])
                base, below = max(band for band in bands if band[1] <= place)
                found.append((panel["device"], base + place - below, size, start, end, panel["stacks"][path]["path"]))
                self.assertTrue(panel["stacks"][path]["stack"])
        self.assertEqual(sorted(each[:3] + each[5:] for each in found), sorted(each[:3] + each[5:] for each in wanted))
        for (*_, start, end, _), (*_, made_ns, freed_ns, _) in zip(sorted(found, key=lambda each: (each[:3], each[3])), sorted(wanted, key=lambda each: (each[:3], each[3]))):
            for unit, ns in ((start, made_ns), (end, freed_ns)):
                self.assertAlmostEqual(extent["since"] + unit * answer["unit_ns"], ns, delta=answer["unit_ns"])
        for arguments in ({"since": 5, "until": 5}, {"pid": -1}, {"since": "x"}):
            self.assertEqual(web.page("addresses", **arguments).status, 400, arguments)

    def test_memory_is_what_allocations_and_frees_left(self):
        web = self.web()
        told = subprocess.run([os.path.join(BUILD, "tsctl"), "sql", "--file", self.path, "--json",
                               "SELECT kind, coalesce(end_ns, start_ns) AS done, start_ns, bytes, address, stack FROM op"
                               " WHERE kind IN ('alloc', 'free') AND detail = 'device' ORDER BY start_ns"],
                              capture_output=True, text=True, check=True)
        events, path = [], {}
        for op in json.loads(told.stdout)["rows"]:
            if op["kind"] == "alloc":
                path[op["address"]] = op["stack"]
            sign, at = (1, op["done"]) if op["kind"] == "alloc" else (-1, op["start_ns"])
            events.append((at, path[op["address"]], sign * op["bytes"], sign))
        events.sort()
        extent = self.answer(web, "extent")
        for by in ("path", "process"):
            for at in (extent["since"], *(event[0] + 1 for event in events)):
                wanted = {}
                for _, stack, size, number in (event for event in events if event[0] < at):
                    key = str(stack if by == "path" else 0)
                    held, n = wanted.get(key, (0, 0))
                    wanted[key] = (held + size, n + number)
                answer = self.answer(web, "memory", since=at, until=at + 1, columns=1, by=by)
                self.assertEqual({layer["path"]: (layer["bytes"][0], layer["count"]) for layer in answer["layers"]},
                                 {key: held for key, held in wanted.items() if held[0]}, (by, at))
        most = max(sum(event[2] for event in events[:i]) for i in range(len(events)))
        answer = self.answer(web, "memory", since=extent["since"], until=extent["until"], columns=7)
        self.assertEqual((answer["most"], max(map(sum, zip(*(layer["bytes"] for layer in answer["layers"]))))), (most, most))
        for arguments in ({"since": 5, "until": 5}, {"columns": 0}, {"columns": 401}, {"by": "x"}):
            self.assertEqual(web.page("memory", **arguments).status, 400, arguments)

    def test_flame_graph_adds_up_along_stacks(self):
        web = self.web()
        for of, name, column, leaf, options in (("gpu", "kernels", "total_ns", "name", ("--by-stack",)), ("waits", "syncs", "total_ns", "fn", ()),
                                                ("launches", "launches", "calls", "fn", ())):
            told = subprocess.run([os.path.join(BUILD, "tsctl"), "query", name, "--file", self.path, "--json", "--limit", "0", *options],
                                  capture_output=True, text=True, check=True)
            wanted = {}
            for row in json.loads(told.stdout)["rows"]:
                path = (f"{row['pid']} {row['comm']}", *reversed(row["stack"] or ["(no stack)"]), row[leaf])
                for depth in range(1, len(path) + 1 if row[column] else 0):
                    prefix = tuple(text[:120] for text in path[:depth])
                    wanted[prefix] = wanted.get(prefix, 0) + row[column]
            answer, found, path = self.answer(web, "flame", of=of), {}, []
            for i in range(0, len(answer["nodes"]), 3):
                depth, place, value = answer["nodes"][i:i + 3]
                path = [*path[:depth], answer["names"][place]]
                found[tuple(path)] = value
            self.assertTrue(wanted)
            self.assertEqual(found, wanted, of)
            self.assertEqual(answer["total"], sum(value for path, value in wanted.items() if len(path) == 1))
        self.assertEqual(web.page("flame", of="x").status, 400)

    def beside(self, edges, item, forward):
        """The next operations behind the marks on the way."""
        found, seen, going = set(), {item}, [item]
        while going:
            here = going.pop()
            for edge in edges:
                near, far = (edge["from"], edge["to"]) if forward else (edge["to"], edge["from"])
                if near != here or far in seen or edge["why"] in ("thread", "submit"):
                    continue
                seen.add(far)
                if self.items[far].get("kind") == "mark" and far[0] == "w":
                    going.append(far)
                else:
                    found.add(far)
        return found

    def test_waits_are_those_of_the_graph(self):
        web = self.web()
        graph = json.loads(subprocess.run([os.path.join(BUILD, "tsctl"), "graph", self.path, "--json"], capture_output=True,
                                          text=True, check=True).stdout)
        self.items = {f"{kind[0]}{item[kind]}": item for kind in ("call", "work") for item in graph[kind + "s"]}
        lane = {**{("w", each["stream"]): each["id"] for each in graph["streams"]},
                **{("c", each["thread"]): each["tid"] for each in graph["threads"]}}

        def said(key):
            item, start = self.items[key], graph["begin_ns"]
            return ({"w": "work", "c": "calls"}[key[0]], lane[key[0], item["stream" if key[0] == "w" else "thread"]],
                    start + item["start_ns"], start + item["end_ns"], item["name"])

        extent, whys = self.answer(web, "extent"), set()
        keys = [key for key, item in self.items.items() if item.get("kind") != "mark" and item["start_ns"] < item["end_ns"]]
        waiting = {edge[end] for edge in graph["edges"] if edge["why"] in ("event", "wait") for end in ("from", "to")} & set(keys)
        for key in {*keys[::9], *waiting}:
            what, of, start, *_ = said(key)
            answer = self.answer(web, "waits", pid=5508, what=what, id=of, at=start, since=extent["since"], until=extent["until"] + 1)
            for side in ("before", "after"):
                wanted = {said(each) for each in self.beside(graph["edges"], key, side == "after")}
                self.assertEqual({tuple(item[name] for name in ("what", "id", "start", "end", "name")) for item in answer[side]},
                                 wanted, (key, side))
                whys |= {item["why"] for item in answer[side]}
        self.assertLessEqual({"stream", "event", "wait"}, whys)
        for arguments, status in (({"what": "x"}, 400), ({"pid": 0}, 400), ({"id": -5}, 400), ({"id": 99999}, 404), ({"at": "x"}, 400),
                                  ({"pid": 1}, 404), ({"since": 5, "until": 5}, 400)):
            asked = {"pid": 5508, "what": "work", "id": 1, "at": extent["since"], "since": extent["since"], **arguments}
            self.assertEqual(web.page("waits", **asked).status, status, arguments)

    def test_predictions_are_those_of_replay(self):
        web = self.web()
        for options, arguments in (({"scale": "host:0.5"}, ("--scale", "host:0.5")), ({"no-sync": "on", "streams": "1"}, ("--no-sync", "--streams", "1")),
                                   ({"drop": "kernel", "launch-latency": "0"}, ("--drop", "kernel", "--launch-latency", "0"))):
            told = json.loads(subprocess.run([os.path.join(BUILD, "tsctl"), "replay", self.path, "--json", *arguments],
                                             capture_output=True, text=True, check=True).stdout)
            answer = self.answer(web, "whatif", since=1, **options)
            self.assertEqual((answer["recorded_ns"], answer["predicted_ns"]), (told["recorded"]["makespan_ns"], told["predicted"]["makespan_ns"]))
            self.assertEqual(answer["changes"], [[change["option"], change["changed"]] for change in told["changes"]])
            self.assertEqual(answer["busy_ns"], [told[side]["busy_ns"] for side in ("recorded", "predicted")])
        # All work is on both sides, in its streams, which a change may have made fewer.
        answer = self.answer(web, "whatif", since=1, streams=1)
        ops = [sum(lane["ops"] for lane in answer[side]["lanes"]) for side in ("recorded", "predicted")]
        rows = json.loads(subprocess.run([os.path.join(BUILD, "tsctl"), "sql", "--file", self.path, "--json",
                                          "SELECT stream, count(*) AS n FROM op WHERE exact AND gpu_end_ns > 0 GROUP BY stream"],
                                         capture_output=True, text=True, check=True).stdout)["rows"]
        self.assertEqual({lane["id"]: lane["ops"] for lane in answer["recorded"]["lanes"]}, {row["stream"]: row["n"] for row in rows})
        self.assertEqual(ops[1], ops[0])
        self.assertLess(len(answer["predicted"]["lanes"]), len(answer["recorded"]["lanes"]))
        for arguments, status in (({"scale": "kernel"}, 400), ({"streams": "x"}, 400), ({"columns": 0}, 400), ({"pid": 1}, 404),
                                  ({"scale": "kernel=nothing:2"}, 404)):
            self.assertEqual(web.page("whatif", since=1, **arguments).status, status, arguments)

    def test_a_second_recording_is_asked_beside_the_first(self):
        web = self.web("exact.sbt", "nvtx.sbt")
        first, second = (self.answer(web, "query/ranges", **which) for which in ({}, {"recording": 2}))
        self.assertEqual(first["rows"], [])
        self.assertTrue(second["rows"])
        self.assertTrue(self.answer(web, "clock")["other"].endswith("nvtx.sbt"))
        self.assertNotEqual(self.answer(web, "flame", of="launches"), self.answer(web, "flame", of="launches", recording=2))
        alone = self.web()
        self.assertEqual(self.answer(alone, "query/ranges", recording=2)["rows"], [])

    def wild(self):
        """A recording with a hundred thousand streams, impossible times, and markup for names."""
        directory = tempfile.mkdtemp(prefix="tracesmith-wild-")
        self.addCleanup(shutil.rmtree, directory)
        path = os.path.join(directory, "wild.sbt")
        subprocess.run([os.path.join(BUILD, "tests/tools/wild_sbt"), path], check=True)
        return path

    def test_a_wild_recording_is_cut_and_says_so(self):
        web = self.web(self.wild())
        extent = self.answer(web, "extent")
        self.assertTrue(extent["cut"])
        self.assertTrue(0 < extent["since"] < extent["until"] < 1 << 62, extent)
        year = 366 * 24 * 3600 * 10**9
        for since, until in ((extent["until"] - 10**9, extent["until"]), (1, year)):
            answer = self.answer(web, "timeline", since=since, until=until, columns=4096)
            self.assertGreater(answer["ops"], 100000)
            self.assertGreater(answer["left_out"], 199000, "streams and threads")
            self.assertTrue(answer["more_losses"])
            for lane in answer["lanes"]:
                self.assertEqual((len(lane["spans"]) % 5, min(lane["spans"]) >= 0), (0, True), lane)
                for i in range(0, len(lane["spans"]), 5):
                    self.assertLessEqual(lane["spans"][i] + lane["spans"][i + 1], 8 * 4096 + 1, lane)
        self.assertTrue(self.answer(web, "query/processes", since=1, limit=200)["truncated"])
        self.assertTrue(self.answer(web, "memory", since=extent["since"], columns=400, by="process")["layers"])
        layers = self.answer(web, "memory", since=extent["since"], columns=400, by="path")["layers"]
        self.assertTrue(any(frame.endswith("vv…") for layer in layers for frame in layer["stack"]))
        for of in ("gpu", "launches", "memory", "leaks", "waits"):
            self.answer(web, "flame", of=of, since=1)
        self.assert_nobody_waits_for_others(web)
        if browser.WANTED:
            self.assert_every_view(web)

    VIEWERS = 50

    def assert_nobody_waits_for_others(self, web):
        """Half of the viewers stop: they read nothing of an answer, or send half a request."""
        paths = ["timeline.js", "query/kernels?limit=1000&since=1", "query/loss?since=1", "extent"]
        wanted, deaf = [web.page(path).text for path in paths], self.VIEWERS
        self.assertGreater(len(wanted[1]), 150000, "what nobody reads must not fit into the socket")
        request = f"GET /t/{web.token}/{paths[1]} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for i in range(2 * deaf):  # two connections each that are deaf, and two that say no more
            peer = socket.socket()
            self.addCleanup(peer.close)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            peer.connect(("127.0.0.1", web.port))
            peer.sendall(request if i < deaf else request[:-9])
        wait_for("all to be stuck", lambda: self.unread(web) >= deaf)
        with concurrent.futures.ThreadPoolExecutor(self.VIEWERS // 2) as pool:
            for answers in pool.map(lambda _: [web.page(path) for path in paths], range(self.VIEWERS // 2)):
                self.assertEqual([answer.status for answer in answers], [200] * len(paths))
                self.assertEqual([answer.text for answer in answers], wanted)

    def test_half_requests_without_the_token_shut_nobody_out(self):
        """They say a little more again and again, and come again when they are shut."""
        web, over = self.web(), threading.Event()

        def half():
            peer = socket.create_connection(("127.0.0.1", web.port), tracesmith.DEADLINE)
            peer.sendall(b"GET / HTTP/1.1\r\nX: ")
            peer.setblocking(False)
            return peer

        def go_on(peer):
            with contextlib.suppress(OSError):
                peer.send(b"x")
                if not select.select([peer], [], [], 0)[0]:
                    return peer
            peer.close()
            return half()

        def storm(peers):
            while not over.is_set():
                peers[:] = [go_on(peer) for peer in peers]
            for peer in peers:
                peer.close()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            storms = [pool.submit(storm, [half() for _ in range(45)]) for _ in range(4)]
            try:
                answers = [web.page("extent") for _ in range(20)]
            finally:
                over.set()
        self.assertEqual([answer.status for answer in answers], [200] * 20)
        for each in storms:
            each.result()

    def unread(self, web):
        """On how many connections the server has sent what nobody reads, of those too that it has given up by now."""
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in file][1:]
        return sum(row[1].endswith(f":{web.port:04X}") and int(row[4].split(":")[0], 16) > 0 for row in rows)

    def test_in_a_browser(self):
        if not browser.WANTED:
            self.skipTest("set TS_BROWSER=1 (with chromium installed) to open the page in a browser")
        web, chromium = self.web("exact.sbt", "nvtx.sbt"), browser.Browser()
        self.addCleanup(chromium.close)
        chromium.open(web.line)
        self.assertNotIn("token", chromium.js("location.search"))
        shown = chromium.js("document.body.innerText")
        for text in ("Why devices idle", "Simulated GPU 0", "tick_ns1", "cuStreamSynchronize", "stack-sampled"):
            self.assertIn(text, shown)
        self.assertTrue(chromium.js("document.querySelector('#trouble').hidden"))
        chromium.js("document.querySelector('#whatif-scale').value = 'host:0.1'; document.querySelector('.whatif button').click()")
        chromium.wait("document.querySelector('#predicted').innerText.includes('times as fast')")
        self.assertGreater(self.colours(chromium, "#whatif"), 3, "nothing is drawn")
        light = chromium.js("getComputedStyle(document.body).backgroundColor")
        chromium.js("document.querySelector('#theme').click()")
        self.assertNotEqual(chromium.js("getComputedStyle(document.body).backgroundColor"), light)
        chromium.js("location.hash = '#timeline'")
        chromium.wait("document.querySelector('#lanes').dataset.answers > 0")
        self.assertGreater(self.colours(chromium), 3, "nothing is drawn")
        before = chromium.js("document.querySelector('main').innerText")
        for _ in range(12):
            chromium.key("w")
        chromium.wait(f"document.querySelector('main').innerText !== {json.dumps(before)}")
        chromium.key("f")
        chromium.wait(f"document.querySelector('main').innerText === {json.dumps(before)}")
        for y in range(100, 800, 6):  # cuInit takes nearly all of the time
            chromium.move(400, y)
            if chromium.js("document.querySelector('#lanes').title").startswith("cuInit"):
                chromium.click(400, y)
                break
        self.assertEqual(chromium.wait("document.querySelector('#details h2').innerText"), "cuInit")
        self.assert_arrows(web, chromium)
        chromium.js("location.hash = '#memory'")
        chromium.wait("document.querySelector('#held').dataset.painted > 0")
        chromium.click(1100, 300)  # nothing is held any more
        self.assertEqual(chromium.wait("document.querySelector('#details h2').innerText.startsWith('At ')"), True)
        column = chromium.js(f"(canvas => {{{self.FILLED}}})(document.querySelector('#held'))")
        self.assertGreaterEqual(column, 0, "nothing is drawn")
        chromium.click(column + 1, 300)
        chromium.wait("document.querySelector('#details').innerText.includes('64 KiB · work')")
        self.assert_map(chromium)
        chromium.js("location.hash = '#flame'")
        chromium.wait("document.querySelector('#flame').dataset.painted > 0")
        self.assertGreater(self.colours(chromium, "#flame"), 3, "nothing is drawn")
        self.assertIn("→", chromium.wait("document.querySelector('#said').innerText"))
        chromium.js("document.querySelector('#against').value = document.querySelector('#against option').value;"
                    "document.querySelector('#against').dispatchEvent(new Event('change'))")
        chromium.wait("!document.querySelector('#said').innerText.includes('→')")
        chromium.move(400, 110)
        chromium.wait("document.querySelector('#said').innerText.includes('of all')")
        self.assert_compared(chromium)
        self.assert_names_are_text(chromium)
        self.assertEqual(chromium.complaints(), [])
        self.assert_asked(chromium, web)

    def assert_every_view(self, web):
        """Each shows something, says what it leaves out, takes no name for markup, and stays small enough to move in."""
        chromium = browser.Browser()
        self.addCleanup(chromium.close)
        chromium.open(web.line)
        self.assert_text(chromium)
        chromium.wait("document.querySelector('#process').textContent.includes('<script>')")
        self.assertIn("and more", chromium.js("document.querySelector('#process').textContent"))
        chromium.js("document.querySelector('.whatif button').click()")
        chromium.wait("document.querySelector('#predicted').innerText.includes('streams are left out')")
        chromium.js("location.hash = '#timeline'")
        chromium.wait("document.querySelector('#lanes').dataset.answers > 0")
        said = chromium.js("document.querySelector('main').innerText")
        for part in ("lanes are left out", "operations with impossible times", "and more"):
            self.assertIn(part, said)
        self.assertGreater(self.colours(chromium), 3, "nothing is drawn")
        for key, times in (("s", 200), ("a", 300), ("d", 900), ("f", 1), ("w", 20)):  # out of all bounds, and back
            answers = chromium.js("document.querySelector('#lanes').dataset.answers")
            chromium.js(f"for (let i = 0; i < {times}; i++) document.querySelector('#lanes').dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))")
            chromium.wait(f"document.querySelector('#lanes').dataset.answers > {answers}")
        self.assertIn("operations", chromium.js("document.querySelector('main').innerText"))
        self.assert_text(chromium)
        for view, canvas in (("memory", "held"), ("flame", "flame")):
            chromium.js(f"location.hash = '#{view}'")
            chromium.wait(f"document.querySelector('#{canvas}').dataset.painted > 0")
            self.assertGreater(self.colours(chromium, f"#{canvas}"), 3, "nothing is drawn")
            self.assert_text(chromium)
        self.assertEqual(chromium.complaints(), [])
        self.assert_asked(chromium, web)

    def assert_text(self, chromium):
        self.assertEqual(chromium.js("document.querySelectorAll('body script, body img, body svg, body b').length"), 0)
        self.assertEqual(chromium.js("document.title"), "TraceSmith")
        self.assertLess(chromium.js("document.querySelectorAll('*').length"), 5000)
        self.assertTrue(chromium.js("document.querySelector('#trouble').hidden"), chromium.js("document.querySelector('#trouble').textContent"))

    def assert_asked(self, chromium, web):
        for url in chromium.asked():
            self.assertTrue(url == "about:blank" or url.startswith(("data:", f"http://127.0.0.1:{web.port}/")), url)

    def assert_arrows(self, web, chromium):
        """From what a thread waited for, when one looks at its wait from near."""
        extent = self.answer(web, "extent")
        told = subprocess.run([os.path.join(BUILD, "tsctl"), "sql", "--file", self.path, "--json", "SELECT start_ns, end_ns FROM op"
                               " WHERE fn = 'cuStreamSynchronize' ORDER BY start_ns LIMIT 1"], capture_output=True, text=True, check=True)
        sync = json.loads(told.stdout)["rows"][0]
        part = ((sync["start_ns"] + sync["end_ns"]) / 2 - extent["since"]) / (extent["until"] - extent["since"])
        box = chromium.js("(({ left, top, width }) => ({ left, top, width }))(document.querySelector('#lanes').getBoundingClientRect())")
        x = box["left"] + 190 + part * (box["width"] - 190)
        answers = chromium.js("document.querySelector('#lanes').dataset.answers")
        chromium.move(x, 300)
        for _ in range(35):  # 1.25 times each
            chromium.key("w")
        chromium.wait(f"document.querySelector('#lanes').dataset.answers > {answers}")

        def hit():
            for y in range(100, 800, 12):
                chromium.move(x, y)
                if chromium.js("document.querySelector('#lanes').title").startswith("cuStreamSynchronize"):
                    chromium.click(x, y)
                    return True
            return False
        wait_for("the call", hit)
        chromium.wait("document.querySelector('#details').innerText.includes('It waited for')")
        self.assertIn("memcpy DtoH", chromium.js("document.querySelector('#details').innerText"))
        chromium.wait("document.querySelector('#lanes').dataset.arrows > 0")
        chromium.js("""
            window.unsearched = document.querySelector('#lanes').toDataURL();
            document.querySelector('#search').value = 'memcpy';
            document.querySelector('#search').dispatchEvent(new Event('input'));""")
        chromium.wait("document.querySelector('#lanes').toDataURL() !== unsearched")

    def assert_map(self, chromium):
        """Blocks at their addresses, and who allocated one."""
        chromium.js("(select => { select.selectedIndex = 2; select.dispatchEvent(new Event('change')); })(document.querySelector('#by'))")
        chromium.wait("document.querySelector('#details').innerText.includes('Who holds it')")
        column = chromium.wait(f"(canvas => {{{self.FILLED}}})(document.querySelector('#held'))")
        box = chromium.js("(({ left, top, height }) => ({ left, top, height }))(document.querySelector('#held').getBoundingClientRect())")

        def hit():
            for y in range(30, int(box["height"]) - 30, 10):
                chromium.click(box["left"] + column + 1, box["top"] + y)
                if "0x" in chromium.js("document.querySelector('#details').innerText"):
                    return True
            return False
        wait_for("a block", hit)
        told = chromium.js("document.querySelector('#details').innerText")
        self.assertRegex(told, r"(?s)64 KiB.*0x[0-9a-f]{6,}.*work")

    def assert_compared(self, chromium):
        """A flame graph with the one of the time before, and those of two times that were marked: the older one first."""
        chromium.js("location.hash = '#timeline'")
        chromium.wait("document.querySelector('#lanes').dataset.answers > 0")
        for x in (400, 900):
            chromium.js("document.querySelector('#details').replaceChildren()")
            chromium.drag(x, x + 300, 300)
            chromium.wait("document.querySelector('#details h2')?.innerText.match(/^[\\d.,]+ [mµn]?s$/)")
        chromium.js("""
            window.unstubbed = fetch;
            window.windows = [];
            const older = { total: 100, names: ['7 program', 'same', 'gone'], nodes: [0, 0, 100, 1, 1, 60, 1, 2, 40] };
            const newer = { total: 150, names: ['8 program', 'same', 'new'], nodes: [0, 0, 150, 1, 1, 20, 1, 2, 130] };
            window.fetch = async (url, options) => {
                if (!String(url).includes('/flame?'))
                    return unstubbed(url, options);
                const asked = new URL(url).searchParams, since = Number(asked.get('since')), until = Number(asked.get('until'));
                windows.push([since, until]);
                const first = since === -2e10 || (since > 0 && windows.length % 2);
                return new Response(JSON.stringify({ ...(first ? older : newer), cut: false, note: '' }), { headers: { 'Content-Type': 'application/json' } });
            };
            document.querySelector('#window').value = 10;
            document.querySelector('#window').dispatchEvent(new Event('change'));
            location.hash = '#flame';""")
        for against in ("before", "marked"):
            # What the window's change has asked for may still come.
            choice = {"before": "same time before", "marked": "was marked"}[against]
            chromium.wait(f"[...document.querySelectorAll('#against option')].some((option) => option.text.includes('{choice}'))")
            chromium.js(f"""
                windows.length = 0;
                document.querySelector('#against').selectedIndex = [...document.querySelectorAll('#against option')].findIndex((option) => option.text.includes('{choice}'));
                document.querySelector('#against').dispatchEvent(new Event('change'));""")
            chromium.wait("document.querySelector('#said').innerText.startsWith('100 ns → 150 ns (+50')")
            first, second = chromium.js("windows.slice(0, 2)")
            if against == "before":
                self.assertEqual((first, second), ([-2e10, -1e10], [-1e10, 0]))
            else:
                self.assertLess(first[0], first[1])
                self.assertLess(first[1], second[0])
            box = chromium.js("(({ left, top, width }) => ({ left, top, width }))(document.querySelector('#flame').getBoundingClientRect())")
            for part, wanted in ((40, "same: 60 ns → 20 ns (−66"), (100, "gone: 40 ns → 0 ns (gone)"), (200, "new: 0 ns → 130 ns (new)")):
                chromium.move(box["left"] + box["width"] * part / 250, box["top"] + 45)
                chromium.wait(f"document.querySelector('#said').innerText.startsWith('{wanted}')")
            red, blue = chromium.js(f"""(canvas => {{
                const copy = new OffscreenCanvas(canvas.width, 54).getContext('2d', {{ willReadFrequently: true }});
                copy.drawImage(canvas, 0, 0);
                return [200, 100].map((part) => [...copy.getImageData(Math.round({box["width"]} * part / 250), 37, 1, 1).data]);
            }})(document.querySelector('#flame'))""")
            self.assertGreater(red[0], red[2] + 50)
            self.assertGreater(blue[2], blue[0] + 50)
        chromium.js("window.fetch = unstubbed")

    def assert_names_are_text(self, chromium):
        """In every view, where programs and functions have markup for a name."""
        chromium.js("""
            const real = fetch;
            window.fetch = async (...asked) => {
                const answer = await real(...asked), text = await answer.text();
                const evil = text.replace(/(?<!"what":)"(exact|work|nvtx|tick_ns1)"/g, '"<script>$1</script><img src=x onerror=document.title=1>"');
                return new Response(evil, { status: answer.status, headers: answer.headers });
            };""")
        for view, shown in (("overview", "main"), ("timeline", "#process"), ("memory", "#details"), ("flame", "#process")):
            rounds = chromium.js("document.documentElement.dataset.rounds")
            chromium.js(f"location.hash = '#{view}'")
            chromium.wait(f"document.documentElement.dataset.rounds > {rounds}")
            if shown != "#process":
                chromium.wait(f"document.querySelector('{shown}').textContent.includes('<script>')")
            self.assertEqual(chromium.js("document.querySelectorAll('body script, body img').length"), 0, view)

    def colours(self, chromium, canvas="#lanes"):
        """How many there are on a canvas."""
        return chromium.js(f"(canvas => {{{self.COUNT}}})(document.querySelector('{canvas}'))")

    # The first column of a canvas with a colour.
    FILLED = """
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const { data, width } = copy.getImageData(0, 0, canvas.width, canvas.height);
            for (let x = 82; x < width; x++)
                for (let i = 4 * x; i < data.length; i += 4 * width)
                    if (data[i + 3] === 255 && Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 30)
                        return x;
            return -1;"""
    COUNT = """
            const picture = canvas.getContext('2d');
            const data = picture.getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
            for (let i = 0; i < data.length; i += 4)
                seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
            return seen.size;"""


class Serve(tracesmith.Case):
    settings = "tensors = yes"

    def launch(self):
        self.daemon.start(prefix=["env", "TRACESMITH_PATIENCE=20"])  # a stack that is not found in time is cut

    def web(self, *arguments):
        web = Web(self.daemon, *arguments)
        self.addCleanup(self.end, web.process)
        self.assertTrue(web.port, web.line or web.process.stderr.read())
        return web

    def recorded(self, *command):
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(tracesmith.library()),
                       "FAKE_CUDA_TIME_SCALE": "1", "TRACESMITH_SOCKET": self.daemon.socket}
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path(command[0]), *map(str, command[1:])],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, process)
        return process

    def exact(self, *arguments):
        """A recorded program that has done its work and waits; what it did."""
        process = self.recorded("exact", "--hold", *arguments)
        process.stdin.write("\n")
        process.stdin.flush()
        line = next(line for line in process.stdout if line.startswith("{") and "kernels" in line)
        return process, json.loads(line)

    def holders(self, web, process):
        """What is held now: bytes, allocations, and whether that is where the leak is. A stack that could not be walked to its
        end is a code path of its own."""
        layers = json.loads(web.page("memory", pid=process.pid, since=-1000000, columns=1).text).get("layers", [])
        return (sum(layer["bytes"][0] for layer in layers), sum(layer["count"] for layer in layers),
                any("leaky_cache_insert" in frame for layer in layers for frame in layer.get("stack", [])))

    def test_counters_are_right_and_never_fall(self):
        odd, _ = run("odd", "--launches", "5")  # whose calls fail; it is over when we come
        self.daemon.wait_ended(odd.pid)
        web = self.web()
        ask = self.prometheus(web)
        before = samples(web.get().text)
        rounds = []

        def look():
            rounds.append(samples(web.get().text))
            return rounds[-1]

        process, told = self.exact()
        own = f'pid="{process.pid}"'
        kernels = sum(told["kernels"].values())
        wait_for("all kernels", lambda: total(look(), "tracesmith_kernel_seconds_count", own) == kernels)
        calls = self.daemon.apis(process.pid)
        wait_for("all calls", lambda: total(look(), "tracesmith_calls_total", own) == sum(row["calls"] for row in calls.values()))
        found = rounds[-1]
        launches = sum(row["calls"] for fn, row in calls.items() if re.match("cu(Graph)?Launch", fn))
        self.assertEqual(total(found, "tracesmith_launches_total", own), launches)
        self.assertEqual(total(found, "tracesmith_kernel_seconds_count", own), kernels)
        row = {row["name"]: row["total_ns"] for row in self.daemon.query("kernels", "--pid", process.pid, "--limit", 0)}
        self.assertAlmostEqual(total(found, "tracesmith_kernel_seconds_sum", own), sum(row.values()) / 1e9, 6)
        self.assertEqual(total(found, "tracesmith_kernel_seconds_bucket", own, 'le="+Inf"'), kernels)
        delays = ("SELECT count(*) AS count, sum(gpu_start_ns - start_ns) AS ns, sum(gpu_start_ns - start_ns < 4194304) AS soon FROM op"
                  f" WHERE pid = {process.pid} AND kind = 'launch' AND gpu_start_ns > 0")
        delayed = total(found, "tracesmith_launch_delay_seconds_count", own)
        start = wait_for(f"{delayed} launches to be stored", lambda: (start := self.daemon.sql(delays)[0])["count"] == delayed and start)
        self.assertEqual([total(found, "tracesmith_launch_delay_seconds_bucket", own, f'le="{edge}"') for edge in ("0.004194304", "+Inf")],
                         [start["soon"], start["count"]])
        self.assertAlmostEqual(total(found, "tracesmith_launch_delay_seconds_sum", own), start["ns"] / 1e9, 6)
        wait_for("states", lambda: total(look(), "tracesmith_state_seconds_total", own, 'state="running"') > 0)
        self.assertGreater(total(rounds[-1], "tracesmith_busy_seconds_total", own), 0)
        self.assertEqual(total(found, "tracesmith_process_info", own, 'tier="exact"'), 1)
        memory = sum(row["live_bytes"] for row in self.daemon.query("memory", "--pid", process.pid))
        self.assertEqual(total(found, "tracesmith_memory_live_bytes", own), memory)
        wait_for("the timeline", lambda: {"work", "calls", "states"} <= {lane["what"] for lane in json.loads(
            web.page("timeline", since=-600000000000, pid=process.pid).text)["lanes"]})
        classic = web.get(headers={"Accept": "text/plain"})
        self.assertIn("version=0.0.4", classic.headers["Content-Type"])
        if ask:
            self.assert_prometheus(ask, classic, own, kernels)
        # One that nobody has seen alive, and one that ends while it is looked at.
        short = workload("rate", "--kind", "launch", "--count", "500")
        short.communicate()
        process.communicate("\n")
        for pid in (short.pid, process.pid):
            self.daemon.wait_ended(pid)
        wanted = total(before, "tracesmith_launches_total") + launches + 500
        wait_for("the calls of the short one", lambda: total(look(), "tracesmith_launches_total") >= wanted)
        found = rounds[-1]
        self.assertEqual(total(found, "tracesmith_launches_total"), wanted)
        self.assertEqual(total(found, "tracesmith_kernel_seconds_count", own), kernels, "the last counts are gone")
        self.assertEqual(total(found, "tracesmith_memory_live_bytes", own), 0)
        for one, next_one in zip(rounds, rounds[1:]):
            for name, value in one.items():
                if re.match(r"\w+_(total|count|sum|bucket)\b", name):
                    self.assertLessEqual(value, next_one[name], name)
        leak = workload("leak")
        self.addCleanup(self.end, leak)
        wait_for("what it leaked", lambda: self.holders(web, leak) == (20 * 12345, 20, True))
        leak.communicate("\n")
        wait_for("nobody to hold it", lambda: self.holders(web, leak) == (0, 0, False))
        if ask:
            self.assert_dashboards(web, ask)

    def test_nobody_else_is_told_anything_and_a_daemon_may_go_and_come(self):
        web = self.web()
        wrong = "0" * len(web.token)
        for path in ("/metrics", "/", "/nothing", "/metrics?token=", f"/metrics?token={wrong}", f"/?token={web.token}0",
                     "/main.js", "/t/", "/t//", f"/t/{wrong}/", f"/t/{web.token}", f"/t/{web.token}0/main.js",
                     f"/t/{wrong}/query/ps", f"/t/{'x' * 5000}/", f"/t/x/{web.token}/"):
            answer = web.get(path)
            self.assertEqual((answer.status, answer.text), (401, "Unauthorized\n"), path)
        self.assertEqual(web.get("/metrics", {"Authorization": f"Bearer {wrong}"}).status, 401)
        self.assertEqual(web.get("/metrics", {"Authorization": f"Bearer {web.token}"}).status, 200)
        for host in ("evil.example", f"evil.example:{web.port}", "127.0.0.1.evil.example", ""):
            answer = web.get(headers={"Host": host})
            self.assertEqual((answer.status, answer.text), (403, "Forbidden\n"), host)
        self.assertEqual(web.get(headers={"Host": f"localhost:{web.port}"}).status, 200)
        for path in ("/../../etc/passwd", "/metrics/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/metrics/"):
            self.assertEqual(web.get(f"{path}?{web.query}").status, 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertEqual(web.get(method=method).status, 405, method)
        for headers in ({"X": "x" * 100000}, {f"X{i}": "x" for i in range(20000)}):
            self.assertIn(self.huge(web, headers), (None, 413, 431))
        self.assertIn(self.huge(web, {}, "/metrics?" + "x" * 100000), (None, 413, 414, 431))
        self.assert_tls()
        self.assert_comes_back(web)

    def huge(self, web, headers, path=None):
        """None: it hung up."""
        try:
            return web.get(path, headers).status
        except (ConnectionError, http.client.HTTPException):
            return None

    def assert_comes_back(self, web):
        """A daemon that is away is said to be, until it is back; the page says so, too."""
        self.assertEqual(web.get().status, 200)
        chromium = browser.WANTED and browser.Browser()
        if chromium:
            self.addCleanup(chromium.close)
            chromium.open(web.line)
            chromium.wait("document.querySelector('#trouble').hidden")
        self.daemon.stop()
        if chromium:
            chromium.wait("!document.querySelector('#trouble').hidden && document.querySelector('#trouble').innerText.includes('No daemon listens')")
        answer = web.get()
        self.assertEqual(answer.status, 503)
        self.assertIn("No daemon listens on", answer.text)
        answer = web.page("query/ps")
        self.assertEqual(answer.status, 503)
        self.assertIn("No daemon listens on", json.loads(answer.text)["error"])
        self.assertEqual(web.page().status, 200, "the page itself is there")
        self.daemon.start()
        if chromium:
            chromium.wait("document.querySelector('#trouble').hidden")
        self.assertEqual(web.get().status, 200)
        self.assertEqual(json.loads(web.page("query/ps", limit=5).text)["query"], "ps")
        web.process.terminate()
        self.assertEqual(web.process.wait(tracesmith.DEADLINE), 0)
        self.assertEqual(web.process.stderr.read(), "")

    def assert_tls(self):
        directory = tempfile.mkdtemp(prefix="tracesmith-tls-")
        self.addCleanup(shutil.rmtree, directory)
        pem, token = tracesmith.certificate(directory, "gpu1"), os.path.join(directory, "token")
        web = self.web("--tls", pem, "--token", token)
        self.assertTrue(web.line.startswith("https://") and not web.token, web.line)
        self.assertEqual(os.stat(token).st_mode & 0o777, 0o600)
        context = ssl.create_default_context(cafile=pem + ".crt")
        with socket.create_connection(("127.0.0.1", web.port)) as plain:
            with context.wrap_socket(plain, server_hostname="gpu1.example") as secure, open(token) as file:
                secure.sendall(f"GET /metrics HTTP/1.1\r\nHost: gpu1.example\r\nConnection: close\r\n"
                               f"Authorization: Bearer {file.read().strip()}\r\n\r\n".encode())
                self.assertTrue(secure.recv(100).startswith(b"HTTP/1.1 200 "))
        os.chmod(token, 0o644)
        for arguments, why in ((("--listen", "0.0.0.0:0"), "give a certificate"), (("--tls", token), "must have a certificate"),
                               (("--tls", "/nowhere"), "Cannot read /nowhere"), (("--token", token), "Others can read"),
                               (("--listen", "127.0.0.1:70000"), "--listen needs"), (("--listen", f"{web.port}"), "Cannot listen")):
            result = self.daemon.ctl("serve", *arguments)
            self.assertEqual((result.code, result.out), (1, ""), arguments)
            self.assertIn(why, result.err)

    def prometheus(self, web):
        """One that reads from now on, as a function that asks it; None: it is not installed."""
        if not shutil.which("prometheus") or not shutil.which("promtool"):
            print("skipped: Prometheus is not installed", file=sys.stderr)
            return None
        directory = tempfile.mkdtemp(prefix="tracesmith-prometheus-")
        self.addCleanup(shutil.rmtree, directory)
        config = os.path.join(directory, "prometheus.yml")
        with open(config, "w") as file:
            file.write("scrape_configs:\n- job_name: tracesmith\n  scrape_interval: 1s\n  scrape_timeout: 1s\n"
                       f"  authorization: {{credentials: '{web.token}'}}\n"
                       f"  static_configs: [{{targets: ['127.0.0.1:{web.port}']}}]\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                                    f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, process)

        def ask(query):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=tracesmith.DEADLINE)
            try:
                connection.request("GET", "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
                result = json.load(connection.getresponse())["data"]["result"]
                return float(result[0]["value"][1]) if result else None
            except (ConnectionError, KeyError, ValueError):
                return None
            finally:
                connection.close()
        return ask

    def assert_prometheus(self, ask, classic, own, kernels):
        lint = subprocess.run(["promtool", "check", "metrics"], input=classic.text, capture_output=True, text=True)
        self.assertEqual((lint.returncode, lint.stdout, lint.stderr), (0, "", ""))
        wait_for("Prometheus to read it", lambda: ask(f"sum(tracesmith_kernel_seconds_count{{{own}}})") == kernels)
        # One that a busy host has kept waiting for a second has read nothing in that second.
        for query, least in (("up", 1), (f'count(tracesmith_process_info{{{own},comm="exact"}})', 1),
                             (f"histogram_quantile(0.5, sum by (le) (tracesmith_kernel_seconds_bucket{{{own}}}))", 1e-9),
                             ("tracesmith_daemon_cpu_seconds_total", 1e-9)):
            wait_for(query, lambda query=query, least=least: (ask(query) or 0) >= least)

    def assert_dashboards(self, web, ask):
        """Each panel shows something, now that there is something to show in all of them."""
        short = workload("oom", environment={"FAKE_CUDA_MEMORY_MIB": "64"})
        tensors = workload("tensors", "--steps", 500, "--board", 512)
        pooled = self.recorded("leak", "--steps", 100000, "--pace-ms", 5)
        for process in (short, tensors):
            self.addCleanup(self.end, process)
            process.stdout.readline()
        short.stdin.write(f"take {128 << 20}\n")
        short.stdin.flush()

        def on():
            tensors.stdin.write("\n")
            tensors.stdin.flush()
            return json.loads(tensors.stdout.readline())
        wait_for("the allocator's probes", lambda: on() and self.daemon.query("pools", "--pid", tensors.pid))
        want = on()
        wait_for("what the allocator has", lambda: [total(found, f"tracesmith_allocator_{name}_bytes", f'pid="{tensors.pid}"') for name in ("reserved", "used")]
                 == [want["reserved"], want["allocated"]] if (found := samples(web.get().text)) else None)
        named = " ".join(self.queries())
        text = wait_for("all metrics", lambda: (text := web.get(headers={"Accept": "text/plain"}).text) and
                        self.absent(text, named) <= self.UNSEEN and text)
        found = samples(text)
        self.assertEqual(total(found, "tracesmith_out_of_memory_total", f'pid="{short.pid}"'), 1)
        self.assertGreater(total(found, "tracesmith_fragmentation_ratio", f'pid="{tensors.pid}"', 'pool="small"'), 0)
        for query in self.queries():
            query = re.sub(r"\$(instance|container|comm)\b", ".*", query.replace("$__rate_interval", "10s"))
            query = re.sub(r',reason!~"[^"]*"', "", query)  # there need be no such losses
            if not self.absent(text, query):
                wait_for(query, lambda query=query: ask(query) is not None)
        for process in (short, tensors, pooled):
            self.end(process)

    def queries(self):
        """What the dashboards ask Prometheus."""
        for name in ("fleet", "host", "job"):
            with open(os.path.join(tracesmith.SOURCE, f"systemd/grafana/{name}.json")) as file:
                for panel in json.load(file)["panels"]:
                    yield from (target["expr"] for target in panel["targets"])

    # Of a price that was measured in place, which takes half a minute; all others are there.
    UNSEEN = {"tracesmith_price_upper_ratio"}

    def absent(self, text, queries):
        names = set(re.findall(r"tracesmith_\w+", queries))
        return {name for name in names if f"\n{name}{{" not in text and f"\n{name} " not in text}


if __name__ == "__main__":
    tracesmith.main()
