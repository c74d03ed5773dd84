"""A client of the protobuf API that shares no code with ours: Python's protobuf over a plain socket."""
import socket
import struct
import subprocess
import sys
import tempfile

from tracesmith import SOURCE

GENERATED = tempfile.TemporaryDirectory()
subprocess.run(["protoc", f"--proto_path={SOURCE}/proto", f"--python_out={GENERATED.name}", "control.proto"], check=True)
sys.path.insert(0, GENERATED.name)
import control_pb2 as control  # noqa: E402

# The start of a statement that never ends by itself.
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(120)

    def send(self, **request):
        data = control.Request(**request).SerializeToString()
        self.socket.sendall(struct.pack("<I", len(data)) + data)

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return data

    def reply(self):
        """The next one; None at the end of the connection."""
        head = self._exactly(4)
        return control.Reply.FromString(self._exactly(*struct.unpack("<I", head))) if head else None

    def replies(self):
        """Up to the last one of a request."""
        body = None
        while body not in ("done", "error", "hello", "status"):
            reply = self.reply()
            assert reply, f"the daemon hung up, last it said {body}"
            body = reply.WhichOneof("body")
            yield reply

    def ask(self, **request):
        """All replies of one request, the only one under way."""
        self.send(**request)
        replies = list(self.replies())
        assert {reply.id for reply in replies} == {request["id"]}
        return replies
