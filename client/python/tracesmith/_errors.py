"""What goes wrong, each with one sentence that says what to do about it."""
from __future__ import annotations

import re
from typing import Dict, Iterable, List, Optional, Type

from . import control_pb2 as control
from ._words import WORDS

_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)")
_OPTIONAL = re.compile(r"\[([^\]]*)\]")
_PLACE = re.compile(r"\{([1-9])\}")


class Error(Exception):
    """Base of all errors of this package. `reason` is the daemon's name for it (a Remark.Reason of
    control.proto), or None, and `arguments` what it concerns."""

    def __init__(self, message: str, reason: Optional[str] = None, arguments: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.arguments: List[str] = list(arguments)


class NoDaemon(Error):
    """Nothing listens on the socket."""


class ConnectionLost(Error):
    """The daemon ended, or closed the connection."""


class Denied(Error):
    """No permission, for the socket or for a process."""


class BadRequest(Error, ValueError):
    """The request is invalid."""


class NotFound(Error, LookupError):
    """No such query or process."""


class NoCuda(Error):
    """The process does not use CUDA (yet)."""


class Limited(Error):
    """Too much was asked for, or too slow."""


class Unavailable(Error):
    """The daemon, or a recording, cannot do it now."""


class Cancelled(Error):
    """The request was cancelled."""


class Warning(UserWarning):  # pylint: disable=redefined-builtin
    """Notes on a recording, or on a process when tracing attaches to it."""


_CLASSES: Dict[int, Type[Error]] = {
    control.Error.BAD_REQUEST: BadRequest,
    control.Error.NOT_FOUND: NotFound,
    control.Error.DENIED: Denied,
    control.Error.LIMIT: Limited,
    control.Error.UNAVAILABLE: Unavailable,
    control.Error.CANCELLED: Cancelled,
    control.Error.NO_CUDA: NoCuda,
}


def fill(pattern: str, arguments: List[str]) -> str:
    """{1} is the first argument; what stands in brackets is left out if one in it is missing."""
    def argument(place: "re.Match[str]") -> str:
        number = int(place[1])
        return arguments[number - 1] if number <= len(arguments) else ""

    def optional(part: "re.Match[str]") -> str:
        return part[1] if all(argument(place) for place in _PLACE.finditer(part[1])) else ""

    return _PLACE.sub(argument, _OPTIONAL.sub(optional, pattern))


def _argument_of(option: "re.Match[str]") -> str:
    """An option of tsctl is an argument here."""
    return "tracesmith.open()" if option[1] == "file" else option[1].replace("-", "_") + "="


def _word(remark: control.Remark, recording: bool) -> str:
    words = WORDS.get(remark.reason)
    if not words:
        return remark.text
    text, of_recording, _ = words
    pattern = of_recording if recording and of_recording else text
    return fill(_OPTION.sub(_argument_of, pattern), list(remark.argument))


def wording(remarks: Iterable[control.Remark], text: str, recording: bool) -> str:
    """The remarks as one sentence; `text` if there are none."""
    return "; ".join(_word(remark, recording) for remark in remarks) or text


def error_of(error: control.Error, recording: bool) -> Error:
    """The exception for an error of the daemon's."""
    message = wording(error.remark, error.message, recording)
    first = error.remark[0] if error.remark else None
    known = first is not None and first.reason in control.Remark.Reason.values()
    return _CLASSES.get(error.code, Error)(
        message, control.Remark.Reason.Name(first.reason) if known else None, first.argument if first else ())
