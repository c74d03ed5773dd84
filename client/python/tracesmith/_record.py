"""Records what happens meanwhile: tsctl writes the file."""
from __future__ import annotations

import os
import signal
import socket as socket_module
import subprocess
import tempfile
from typing import Any, List, Optional, Tuple

from ._errors import Error, Unavailable
from ._moment import utc
from ._recording import Recording, find_tsctl, said


class Record:
    """A recording that is being written: of all that happens from its start until stop(), or the end of `with`."""

    def __init__(self, path: Any, socket: str, whom: List[str], begin: Tuple[int, int], tsctl: Optional[str]) -> None:
        self.path: str = os.fsdecode(path)
        self._program = find_tsctl(tsctl)
        self._errors = tempfile.TemporaryFile()
        #: what tsctl had to say, once it is over
        self.notes: List[str] = []
        command = [self._program, "record", "--socket", socket, "--output", self.path, *whom,
                   "--since", utc(sum(begin)), "--duration", "eof"]
        # It ends with us, whatever happens; when we say so, even if a child of ours has the socket open, too.
        self._end, theirs = socket_module.socketpair()
        try:
            # In a session of its own: a Ctrl-C is for Python, which then ends it.
            self._process: Optional[subprocess.Popen[bytes]] = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=self._errors,
                env=dict(os.environ, TZ="UTC0"), start_new_session=True)
        except OSError as error:
            self._errors.close()
            self._end.close()
            raise Unavailable(f"Cannot run '{self._program}': {error.strerror}") from None
        finally:
            theirs.close()

    def stop(self) -> None:
        """Ends it, and waits until all that had started is in the file: up to three seconds, or more on a busy host."""
        if not self._process:
            return
        process, self._process = self._process, None
        self._end.shutdown(socket_module.SHUT_RDWR)
        self._end.close()
        try:
            process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)  # no longer than it takes to end the file
            process.wait()
            raise
        finally:
            self._errors.seek(0)
            self.notes = said(self._errors.read())
            self._errors.close()
        if process.returncode:
            raise Error(self.notes[-1] if self.notes else f"tsctl ended with exit status {process.returncode}")

    def open(self) -> Recording:
        """What was recorded."""
        self.stop()
        return Recording(self.path, self._program)

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.stop()
        except Error:
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<tracesmith.Record {self.path!r}{'' if self._process else ' (ended)'}>"
