"""The control socket of a real daemon: tsctl's manners, a foreign client, and bad clients."""
import importlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

import tracesmith
from tracesmith import BUILD, SOURCE, run, wait_for

TSCTL = os.path.join(BUILD, "tsctl")
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


def load_protocol():
    """control.proto as Python's own protobuf reads it."""
    directory = tempfile.mkdtemp(prefix="tracesmith-proto-")
    subprocess.run(["protoc", f"--proto_path={SOURCE}/proto", f"--python_out={directory}", "control.proto"],
                   check=True)
    sys.path.insert(0, directory)
    return importlib.import_module("control_pb2")


class Foreign:
    """A client that shares no code with ours."""

    def __init__(self, daemon, protocol):
        self.protocol = protocol
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(60)
        self.socket.connect(daemon.socket)

    def send(self, **body):
        data = self.protocol.Request(id=1, **body).SerializeToString()
        self.socket.sendall(struct.pack("<I", len(data)) + data)

    def receive(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return data

    def reply(self):
        """None at the end of the connection."""
        head = self.receive(4)
        if head is None:
            return None
        return self.protocol.Reply.FromString(self.receive(struct.unpack("<I", head)[0]))

    def replies(self):
        while True:
            reply = self.reply()
            yield reply
            if reply.WhichOneof("body") in ("done", "error"):
                return


class Clients(tracesmith.Case):
    @classmethod
    def setUpClass(cls):
        cls.protocol = load_protocol()

    def connect(self):
        client = Foreign(self.daemon, self.protocol)
        self.addCleanup(client.socket.close)
        return client

    def assert_served(self):
        self.assertEqual(self.daemon.ctl("status").code, 0)

    def assert_refused(self, client, code):
        reply = client.reply()
        self.assertEqual((reply.id, reply.error.code), (0, code), reply)
        self.assertIsNone(client.reply())
        self.assert_served()

    def test_a_foreign_client_gets_what_tsctl_gets(self):
        process, _ = run("streams")
        self.daemon.wait_ended(process.pid)
        client = self.connect()
        client.send(query=self.protocol.QueryRequest(name="apis", pid=process.pid))
        replies = list(client.replies())
        names = [column.name for column in replies[0].columns.column]
        rows = [{name: getattr(value, value.WhichOneof("value")) if value.WhichOneof("value") else None
                 for name, value in zip(names, row.value)}
                for reply in replies for row in reply.rows.row]
        self.assertEqual(rows, self.daemon.query("apis", "--pid", process.pid))
        self.assertEqual(replies[-1].done.rows, len(rows))

    def test_garbage_and_huge_lengths_end_their_own_connection(self):
        for data in (b"\x10\0\0\0GET / HTTP/1.1\r\n", b"\xff\xff\xff\xff", os.urandom(100) + b"\xff" * 8):
            client = self.connect()
            client.socket.sendall(data)
            self.assert_refused(client, self.protocol.Error.BAD_REQUEST)

    def test_half_a_message_times_out(self):
        client = self.connect()
        client.socket.sendall(b"\x10\0\0\0\x08")
        self.assert_refused(client, self.protocol.Error.BAD_REQUEST)

    def test_two_hundred_idle_connections(self):
        clients = [self.connect() for _ in range(200)]
        self.assert_served()
        clients[-1].send(list=self.protocol.ListRequest())
        self.assertIn("done", [reply.WhichOneof("body") for reply in clients[-1].replies()])

    def test_a_slow_reader_holds_up_nobody_and_no_memory(self):
        slow = self.connect()
        slow.send(sql=self.protocol.SqlRequest(text=ENDLESS + "SELECT i, hex(zeroblob(40)) FROM n", limit=800000))
        for _ in range(10):
            self.assertEqual(self.daemon.sql("SELECT 1 AS one"), [{"one": 1}])
        memory = self.status("memory_bytes")
        self.assertLess(memory, 120 << 20, "80 MB of rows wait for their reader")
        self.assertEqual(sum(len(reply.rows.row) for reply in slow.replies()), 800000)

    def test_a_client_that_leaves_takes_its_query_with_it(self):
        client = self.connect()
        client.send(sql=self.protocol.SqlRequest(text=ENDLESS + "SELECT count(*) FROM n"))
        wait_for("the query to run", lambda: self.status("queries") == 1)
        client.socket.close()
        wait_for("the query to stop", lambda: self.status("queries") == 0)

    def status(self, name):
        rows = json.loads(self.daemon.ctl("status", "--json").out)["rows"]
        return [row["number"] for row in rows if row["name"] == name][0]

    def test_mistakes_get_one_sentence(self):
        for arguments, code, sentence in (
                (("query", "leak"), 1, "did you mean 'leaks'?"),
                (("query", "apis", "--pid", "1"), 1, "No process 1 has used CUDA"),
                (("query", "memory", "--since", "5s"), 1, "takes no --since"),
                (("query", "apis", "--since", "tomorrow"), 2, "'tomorrow' is no WHEN"),
                (("query",), 2, "An argument is missing"),
                (("quer", "apis"), 2, "did you mean 'query'?"),
                (("sql", "DROP TABLE process"), 1, "Only reading is allowed"),
                (("sql", "SELECT nonsense"), 1, "no such column: nonsense"),
                (("sql", ENDLESS + "SELECT count(*) FROM n", "--timeout", "100ms"), 1, "took too long"),
                (("--socket", "/nonexistent", "ps"), 1, "systemctl start tracesmithd")):
            result = self.daemon.ctl(*arguments)
            self.assertEqual(result.code, code, arguments)
            self.assertEqual(len(result.err.splitlines()), 1, result.err)
            self.assertIn(sentence, result.err)

    def test_who_has_no_rights_is_told_what_to_do(self):
        os.chmod(self.daemon.directory, 0o755)
        for mode in (0o600, 0o666):  # the file's mode keeps them out, or the daemon does
            os.chmod(self.daemon.socket, mode)
            result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", TSCTL,
                                     "--socket", self.daemon.socket, "ps"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn("group 'tracesmith'", result.stderr)

    def test_output_into_a_closed_pipe_ends_quietly(self):
        process = subprocess.Popen([TSCTL, "--socket", self.daemon.socket, "sql", ENDLESS + "SELECT i FROM n",
                                    "--limit", "1000000", "--csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"i\n")
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        process.wait(60)
        process.stderr.close()

    def test_every_verb_and_query_works_and_explains_itself(self):
        for verb in ("status", "ps", "query", "sql", "export", "version", "help"):
            result = self.daemon.ctl(verb, "--help")
            self.assertEqual(result.code, 0)
            self.assertIn("Example: tsctl " + verb, result.out)
        for query in self.daemon.query("list"):
            self.assertEqual(self.daemon.ctl("query", query["name"]).code, 0)
            self.assertEqual(self.daemon.ctl("query", query["name"], "--csv").code, 0)
            self.assertEqual(set(self.daemon.answer(query["name"])), {"query", "rows", "loss"})

    def test_the_daemon_ends_at_once_with_clients_and_queries(self):
        idle, busy = self.connect(), self.connect()
        busy.send(sql=self.protocol.SqlRequest(text=ENDLESS + "SELECT count(*) FROM n"))
        wait_for("the query to run", lambda: self.status("queries") == 1)
        begin = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertIsNone(idle.reply())
        self.assertFalse(os.path.exists(self.daemon.socket))


if __name__ == "__main__":
    tracesmith.main()
