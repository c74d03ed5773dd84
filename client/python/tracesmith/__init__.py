"""TraceSmith in Python: what the GPU processes of this host do.

    import tracesmith
    ts = tracesmith.connect()
    for row in ts.query("kernels", since="10s"):
        print(row["name"], row["total_ns"])

Sizes are bytes, times nanoseconds of CLOCK_MONOTONIC. Whatever goes wrong is a tracesmith.Error.
"""
from __future__ import annotations

import os
from typing import Optional, Union

from ._answer import Answer, Column, Frame, Loss, Row, Stack
from ._attach import Attachment, Detached
from ._client import Client, Item
from ._errors import (BadRequest, Cancelled, ConnectionLost, Denied, Error, Limited, NoCuda, NoDaemon, NotFound,
                      Unavailable, Warning)
from ._fleet import Fleet
from ._live import Live, Subscription
from ._range import range  # pylint: disable=redefined-builtin
from ._record import Record
from ._recording import Recording
from ._words import SOCKET, SOCKET_VARIABLE, VERSION

__version__ = VERSION
__all__ = ["Answer", "Attachment", "BadRequest", "Cancelled", "Client", "Column", "ConnectionLost", "Denied",
           "Detached", "Error", "Fleet", "Frame", "Item", "Limited", "Live", "Loss", "NoCuda", "NoDaemon", "NotFound", "Record",
           "Recording", "Row", "Stack", "Subscription", "Unavailable", "connect", "fleet", "range"]


def connect(socket: Optional[str] = None) -> Client:
    """A client of the daemon on this socket: by default the one that TRACESMITH_SOCKET names, or the usual one."""
    return Client(os.fsdecode(socket or os.environ.get(SOCKET_VARIABLE) or SOCKET))


def open(path: Union[str, "os.PathLike[str]"], *, tsctl: Optional[str] = None) -> Recording:  # pylint: disable=redefined-builtin
    """A recording (.sbt), which answers the same queries. tsctl reads it: the one in the PATH, unless it is named here
    or by TRACESMITH_TSCTL."""
    return Recording(path, tsctl)


def fleet(url: Optional[str] = None, *, password_file: Union[str, "os.PathLike[str]", None] = None,
          tsctl: Optional[str] = None) -> Fleet:
    """The hosts that ship to this ClickHouse, "https://USER@HOST:PORT/DATABASE": by default the one that
    TRACESMITH_FLEET_URL names, with the password in the file that TRACESMITH_FLEET_PASSWORD_FILE names. tsctl asks it:
    the one in the PATH, unless it is named here or by TRACESMITH_TSCTL."""
    return Fleet(url, password_file, tsctl)
