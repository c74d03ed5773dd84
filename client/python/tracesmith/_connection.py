"""A connection to the daemon, or to the tsctl that answers for a recording: one request at a time."""
from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from typing import Any, Callable, Iterator, Optional

from google.protobuf.message import DecodeError

from . import control_pb2 as control
from ._errors import BadRequest, ConnectionLost, Denied, Error, NoDaemon, error_of
from ._words import GROUP, PROTOCOL, REPLY_MAX, REQUEST_MAX

_PARTS = ("columns", "rows", "chunk", "changes")  # of an answer that goes on
_READ = 1 << 16


class Connection:
    """After an error in the middle of an answer it is of no more use: `free` says whether it is."""

    def __init__(self, sock: socket.socket, recording: bool, why_lost: Callable[[], Optional[str]]) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._last_id = 0
        self._why_lost = why_lost
        self._pid = os.getpid()
        self.recording = recording
        self.free = True
        try:
            hello = self.single("hello", hello=control.HelloRequest(protocol=PROTOCOL))
        except BaseException:
            self.close()
            raise
        self.version: str = hello.version
        self.boot_id: str = hello.boot_id
        self.wall_offset_ns: int = hello.wall_offset_ns
        self._now_ns: int = hello.now_ns
        self._met_ns = time.monotonic_ns()

    def now_ns(self) -> int:
        """The daemon's CLOCK_MONOTONIC; the end of a recording."""
        return self._now_ns if self.recording else self._now_ns + time.monotonic_ns() - self._met_ns

    def is_own(self) -> bool:
        """It was not inherited by a fork: what a parent asked for is not for its child to end."""
        return self._pid == os.getpid()

    def close(self) -> None:
        self.free = False
        if self.is_own():
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # also if a child has it open
        self._socket.close()

    def is_open(self) -> bool:
        """Nothing may have come while nothing was asked but the end."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            pass
        return False

    def _lost(self, what: str) -> ConnectionLost:
        return ConnectionLost(self._why_lost() or what)

    def _more(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except ConnectionResetError:
            data = b""
        except OSError as error:
            raise self._lost(f"Cannot read the daemon's answer: {error.strerror}") from None
        if not data:
            raise self._lost("The daemon closed the connection: it has ended, or nothing was read from it for long")
        self._buffer += data

    def receive(self) -> control.Reply:
        while len(self._buffer) < 4:
            self._more()
        (size,) = struct.unpack_from("<I", self._buffer)
        if size > REPLY_MAX:
            raise self._lost("The server on this socket is not tracesmithd")
        while len(self._buffer) < 4 + size:
            self._more()
        try:
            reply = control.Reply.FromString(bytes(self._buffer[4:4 + size]))
        except DecodeError:
            raise self._lost("The server on this socket is not tracesmithd") from None
        del self._buffer[:4 + size]
        if reply.WhichOneof("body") == "error":
            self.free = reply.id != 0
            raise error_of(reply.error, self.recording)
        return reply

    def send(self, **body: Any) -> None:
        self._last_id += 1
        data = control.Request(id=self._last_id, **body).SerializeToString()
        if len(data) > REQUEST_MAX:
            raise BadRequest("The request is too long")
        self.free = False
        try:
            self._socket.sendall(struct.pack("<I", len(data)) + data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have refused us: then its reason is there to read
        except OSError as error:
            raise self._lost(f"Cannot send the request: {error.strerror}") from None

    def replies(self, **body: Any) -> Iterator[control.Reply]:
        """All of one request; the last one is `done`, or the only one."""
        self.send(**body)
        while not self.free:
            reply = self.receive()
            self.free = reply.WhichOneof("body") not in _PARTS
            yield reply

    def single(self, kind: str, **body: Any) -> Any:
        """The body of an answer that is one message."""
        (reply,) = self.replies(**body)
        if reply.WhichOneof("body") != kind:
            self.free = False
            raise self._lost("The server on this socket is not tracesmithd")
        return getattr(reply, kind)


def connect_to(path: str) -> Connection:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        error: Error = NoDaemon(f"No daemon listens on {path}: start it with 'systemctl start tracesmithd', or name "
                                "its socket with socket=")
    except PermissionError:
        error = Denied(f"No permission to use {path}: run Python as root, or have root add you to the group "
                       f"'{GROUP}' (usermod -aG {GROUP} NAME) and log in again")
    except (OSError, ValueError) as reason:
        error = NoDaemon(f"Cannot connect to {path}: {reason}")
    else:
        return Connection(sock, False, lambda: None)
    sock.close()
    raise error
