"""Queries as methods, of the daemon or of a recording. By several threads, if need be, and after a fork."""
from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Union

from . import _plot
from . import control_pb2 as control
from ._answer import Answer
from ._connection import Connection
from ._errors import BadRequest, wording
from ._moment import Duration, Moment, duration_ns, moment_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BY = ("stack", "stream", "line", "function", "module", "op")  # QueryRequest.by, from 1 on
_IDLE_MAX = 4  # connections
PID_MAX = 2 ** 31 - 1


def number(value: Any, name: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadRequest(f"{name}= needs a number from 0 to {most} (got {value!r})")
    return value


def _pid(pid: Optional[int]) -> Optional[int]:
    return None if pid is None else number(pid, "pid", PID_MAX)


def given_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"{name}= needs a text (got {value!r})")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{name}= needs a text that can be written as UTF-8 (got {value!r})") from None
    return value


class Asker:
    """Asks the daemon, or a recording: see Client and Recording."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect: Optional[Callable[[], Connection]] = connect
        self._idle: List[Connection] = []
        self._pid = os.getpid()
        self._lock = threading.Lock()
        with self._connection():
            pass  # so that what is wrong is known now

    def _take(self) -> Connection:
        if not self._connect:
            raise BadRequest("It was closed")
        if self._pid != os.getpid():  # after a fork, in which another thread may have held it
            self._pid, self._lock = os.getpid(), threading.Lock()
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if not connection:
                return self._connect()
            if connection.is_own() and connection.is_open():
                return connection
            connection.close()  # the daemon was restarted, or needs room

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        connection = self._take()
        try:
            yield connection
        finally:
            with self._lock:
                keep = connection.free and self._connect and len(self._idle) < _IDLE_MAX
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def close(self) -> None:
        """Closes its connections; it cannot be used any more."""
        self._connect = None
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _single(self, kind: str, **body: Any) -> Any:
        with self._connection() as connection:
            return connection.single(kind, **body)

    def _answer(self, name: str, make: Callable[[Connection], Dict[str, Any]]) -> Answer:
        with self._connection() as connection:
            answer = Answer(name, connection.wall_offset_ns)
            for reply in connection.replies(**make(connection)):
                answer.add(reply)
            answer.note = wording(reply.done.remark, reply.done.note, connection.recording)
            return answer

    def query(self, query: str, *, pid: Optional[int] = None, user: Union[str, int, None] = None,
              name: Optional[str] = None, since: Optional[Moment] = None, until: Optional[Moment] = None,
              limit: Optional[int] = None, sort: Optional[str] = None, by: Optional[str] = None,
              min_age: Optional[Duration] = None, stream: Optional[int] = None,
              device: Optional[int] = None, after: Optional[int] = None, all: bool = False) -> Answer:
        """Runs one of the queries that queries() lists. The arguments are the options of 'tsctl query'; which of them
        a query takes is in its row there."""
        request = control.QueryRequest(name=given_text(query, "query"))
        if pid is not None:
            request.pid = number(pid, "pid", PID_MAX)
        if user is not None:
            request.user = given_text(str(user), "user")
        if name is not None:
            request.match = given_text(name, "name")
        if limit is not None:
            request.limit = number(limit, "limit", 2 ** 63 - 1)
        if sort is not None:
            request.sort = given_text(sort, "sort")
        if by is not None:
            if by not in _BY:
                raise BadRequest(f"by= needs {', '.join(_BY[:-1])} or {_BY[-1]} (got {by!r})")
            request.by = _BY.index(by) + 1
        if min_age is not None:
            request.min_age_ns = max(duration_ns(min_age, "min_age"), 1)
        if stream is not None:
            request.stream = number(stream, "stream", 2 ** 32 - 1)
        if device is not None:
            request.device = number(device, "device", 2 ** 32 - 1)
        request.all = bool(all)
        if after is not None:
            request.after = number(after, "after", 2 ** 63 - 1)

        def make(connection: Connection) -> Dict[str, Any]:
            now = connection.now_ns(), connection.wall_offset_ns
            if since is not None:
                request.since_ns = moment_ns(since, "since", *now)
            if until is not None:
                request.until_ns = moment_ns(until, "until", *now)
            return {"query": request}

        return self._answer(query, make)

    def queries(self) -> Answer:
        """All queries, with what each takes."""
        return self._answer("list", lambda _: {"list": control.ListRequest()})

    def sql(self, text: str, *, limit: Optional[int] = None, timeout: Optional[Duration] = None) -> Answer:
        """Runs one SELECT: docs/tables.md has the tables."""
        if not given_text(text, "text").strip(" \t\r\n;"):
            raise BadRequest("Missing statement: sql('SELECT ...')")
        request = control.SqlRequest(text=text)
        if limit is not None:
            request.limit = number(limit, "limit", 2 ** 63 - 1)
        if timeout is not None:
            request.timeout_ns = duration_ns(timeout, "timeout")
        return self._answer("sql", lambda _: {"sql": request})

    def plot_memory(self, *, pid: Optional[int] = None, since: Optional[Moment] = None, until: Optional[Moment] = None,
                    axes: Optional["Axes"] = None) -> "Axes":
        """Draws the memory that processes held on each device, with matplotlib. Without a window: of a daemon the last
        minute, all of a recording. What is missing stands above."""
        return _plot.draw_memory(self, _pid(pid), since, until, axes)

    def plot_lanes(self, *, pid: Optional[int] = None, since: Optional[Moment] = None, until: Optional[Moment] = None,
                   axes: Optional["Axes"] = None) -> "Axes":
        """Draws when streams ran kernels (blue), copies and sets (orange), and the bounds between which the probe tier
        knows that something ran (gray). Where many share a column, it is the paler, the less of its time was used."""
        return _plot.draw_lanes(self, _pid(pid), since, until, axes)

    @property
    def version(self) -> str:
        """Of the daemon; of the tsctl that reads a recording."""
        with self._connection() as connection:
            return connection.version

    def now_ns(self) -> int:
        """The time now, as it is in answers: CLOCK_MONOTONIC. The end of a recording."""
        with self._connection() as connection:
            return connection.now_ns()
