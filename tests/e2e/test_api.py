"""The protobuf API, spoken by a client that is not ours: Python's protobuf over a plain socket."""
import socket
import struct
import subprocess
import sys
import tempfile

import tracesmith
from tracesmith import SOURCE, run

GENERATED = tempfile.TemporaryDirectory()
subprocess.run(["protoc", f"--proto_path={SOURCE}/proto", f"--python_out={GENERATED.name}", "control.proto"], check=True)
sys.path.insert(0, GENERATED.name)
import control_pb2 as control  # noqa: E402


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)

    def send(self, request):
        data = request.SerializeToString()
        self.socket.sendall(struct.pack("<I", len(data)) + data)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def receive(self):
        (size,) = struct.unpack("<I", self.exactly(4))
        reply = control.Reply()
        reply.ParseFromString(self.exactly(size))
        return reply

    def ask(self, request):
        """All replies of one request."""
        self.send(request)
        replies = []
        while not replies or replies[-1].WhichOneof("body") not in ("done", "error", "hello", "status"):
            replies.append(self.receive())
            assert replies[-1].id == request.id
        return replies


class Api(tracesmith.Case):
    def setUp(self):
        super().setUp()
        self.client = Client(self.daemon.socket)
        self.addCleanup(self.client.socket.close)

    def test_hello(self):
        reply = self.client.ask(control.Request(id=1, hello=control.HelloRequest(protocol=1)))[0]
        with open("/proc/sys/kernel/random/boot_id") as file:
            self.assertEqual(reply.hello.boot_id, file.read().strip())
        self.assertGreater(reply.hello.now_ns, 0)

    def test_query_with_columns_rows_and_loss(self):
        process, expected = run("short")
        self.daemon.wait_ended(process.pid)
        replies = self.client.ask(control.Request(id=7, query=control.QueryRequest(name="apis", pid=process.pid)))
        self.assertEqual(replies[-1].WhichOneof("body"), "done")
        names = [column.name for reply in replies for column in reply.columns.column]
        rows = [[value for value in row.value] for reply in replies for row in reply.rows.row]
        self.assertEqual(replies[-1].done.rows, len(rows))
        calls = {row[names.index("fn")].text: row[names.index("calls")].integer for row in rows}
        want = {row["fn"]: row["calls"] for row in expected if row.get("fn") in calls}
        self.assertEqual(calls, want)

    def test_several_requests_under_way(self):
        for number in range(1, 11):
            self.client.send(control.Request(id=number, sql=control.SqlRequest(text=f"SELECT {number}")))
        answers, open_requests = {}, set(range(1, 11))
        while open_requests:
            reply = self.client.receive()
            for row in reply.rows.row:
                answers[reply.id] = row.value[0].integer
            if reply.WhichOneof("body") in ("done", "error"):
                open_requests.remove(reply.id)
        self.assertEqual(answers, {number: number for number in range(1, 11)})

    def test_errors_have_a_code_and_a_sentence(self):
        reply = self.client.ask(control.Request(id=3, query=control.QueryRequest(name="nonsense")))[-1]
        self.assertEqual(reply.error.code, control.Error.NOT_FOUND)
        self.assertTrue(reply.error.message)
        reply = self.client.ask(control.Request(id=4))[-1]
        self.assertEqual(reply.error.code, control.Error.BAD_REQUEST)

    def test_cancel(self):
        text = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
        self.client.send(control.Request(id=5, sql=control.SqlRequest(text=text)))
        self.client.send(control.Request(id=6, cancel=control.CancelRequest(request=5)))
        ends = {}
        while set(ends) != {5, 6}:
            reply = self.client.receive()
            if reply.WhichOneof("body") in ("done", "error"):
                ends[reply.id] = reply
        self.assertEqual(ends[5].error.code, control.Error.CANCELLED)
        self.assertEqual(ends[6].WhichOneof("body"), "done")


if __name__ == "__main__":
    tracesmith.main()
