"""A recording: tsctl answers for it, on a socket that it gets as its standard input."""
from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import warnings
from typing import Any, List, Optional

from ._asker import Asker
from ._connection import Connection
from ._errors import ConnectionLost, Unavailable, Warning

_PREFIX = "tsctl: "


def find_tsctl(program: Optional[str]) -> str:
    found = program or os.environ.get("TRACESMITH_TSCTL") or shutil.which("tsctl")
    if not found:
        raise Unavailable("Cannot find tsctl, which reads and writes recordings: install tracesmith, or name the "
                          "program with tsctl= or TRACESMITH_TSCTL")
    return found


def said(text: bytes) -> List[str]:
    """The sentences that tsctl has printed."""
    return [line[len(_PREFIX):] if line.startswith(_PREFIX) else line
            for line in text.decode(errors="replace").splitlines()]


class _Reader:
    """One tsctl with its recording, as long as the connection."""

    def __init__(self, program: str, path: str, sock: socket.socket) -> None:
        self._errors = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen([program, "answer", "--", path], stdin=sock.fileno(), stdout=subprocess.DEVNULL,
                                            stderr=self._errors)
        except OSError as error:
            self._errors.close()
            raise Unavailable(f"Cannot run '{program}': {error.strerror}") from None

    def said(self) -> List[str]:
        self._errors.seek(0)
        return said(self._errors.read())

    def why_lost(self) -> str:
        self.process.wait()
        sentences = self.said()
        return sentences[-1] if sentences else f"tsctl ended with exit status {self.process.returncode}"

    def end(self) -> None:
        self.process.wait()
        self._errors.close()


class _FileConnection(Connection):
    def __init__(self, program: str, path: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._reader = _Reader(program, path, theirs)
            except BaseException:
                ours.close()
                raise
        try:
            super().__init__(ours, True, self._reader.why_lost)
        except ConnectionLost as error:
            raise Unavailable(str(error)) from None
        for sentence in self._reader.said():
            warnings.warn(sentence, Warning, stacklevel=6)

    def close(self) -> None:
        super().close()
        if self.is_own():
            self._reader.end()


class Recording(Asker):
    """Answers the queries of a client from a file: see open()."""

    def __init__(self, path: Any, tsctl: Optional[str] = None) -> None:
        program, self.path = find_tsctl(tsctl), os.fsdecode(path)
        super().__init__(lambda: _FileConnection(program, self.path))

    def __enter__(self) -> "Recording":
        return self

    def __repr__(self) -> str:
        return f"<tracesmith.Recording {self.path!r}>"
