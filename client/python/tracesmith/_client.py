"""The client of a running daemon."""
from __future__ import annotations

import os
from typing import List, NamedTuple, Optional, Union

from . import control_pb2 as control
from ._asker import PID_MAX, Asker, number
from ._attach import Attachment, Detached, request as attach_request
from ._connection import connect_to
from ._live import Subscription
from ._moment import Duration
from ._record import Record


class Item(NamedTuple):
    """One of the daemon's statements about itself. `number`: its value in base units, if it is one."""
    section: str
    name: str
    value: str
    number: Optional[int]
    warning: bool


class Client(Asker):
    """Of a running daemon: see connect()."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        super().__init__(lambda: connect_to(socket))

    def status(self) -> List[Item]:
        """What the daemon reports on itself."""
        reply = self._single("status", status=control.StatusRequest())
        return [Item(item.section, item.name, item.value, item.number if item.is_number else None, item.warning)
                for item in reply.item]

    def subscribe(self) -> Subscription:
        """What devices and processes do from now on: an iterator, with an item a second."""
        return Subscription(connect_to(self.socket))

    def attach(self, pid: int, *, records: Optional[str] = None, stacks: Optional[str] = None,
               budget: Union[str, float, None] = None, seccomp: bool = False, light: bool = False,
               wait: Union[bool, Duration] = False) -> Attachment:
        """Records a running process exactly, as 'tsctl attach' does: with attach(pid): ... detaches at the end.
        `wait`: until the process uses CUDA; True, or at most for this long."""
        return Attachment(self, attach_request(number(pid, "pid", PID_MAX), records, stacks, budget, seccomp, light),
                          wait)

    def detach(self, pid: int) -> Detached:
        """Ends what attach() started, and takes the library out of the process."""
        reply = self._single("detach", detach=control.DetachRequest(pid=number(pid, "pid", PID_MAX)))
        return Detached(pid, reply.stopped_ns, reply.records, reply.lost, reply.unloaded, list(reply.note))

    def record(self, path: "Union[str, os.PathLike[str]]", *, pid: Optional[int] = None,
               tsctl: Optional[str] = None) -> Record:
        """Writes what a process does from now on, or all do, to a file: with record("F.sbt", pid=...): ... ends it.
        tsctl writes it: the one in the PATH, unless it is named here or by TRACESMITH_TSCTL."""
        whom = ["--all"] if pid is None else ["--pid", str(number(pid, "pid", PID_MAX))]
        with self._connection() as connection:
            begin = connection.now_ns(), connection.wall_offset_ns
        return Record(path, self.socket, whom, begin, tsctl)

    def __enter__(self) -> "Client":
        return self

    def __repr__(self) -> str:
        return f"<tracesmith.Client of {self.socket!r}>"
