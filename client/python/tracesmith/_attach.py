"""The exact tier, for a process that already runs."""
from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Union

from . import control_pb2 as control
from ._errors import BadRequest, Error, NoCuda
from ._moment import Duration, duration_ns
from ._words import BUDGET_NONE, RECORDS, RECORDS_DEFAULT, STACKS

if TYPE_CHECKING:
    from ._client import Client

_RETRY_S = 0.2
_GONE = ("PROCESS_ENDED", "NO_PROCESS", "ZOMBIE", "PROGRAM_CHANGED", "PID_REUSED", "NOT_ATTACHED", "LIBRARY_GONE")


class Detached(NamedTuple):
    """What was recorded while the library was in the process. `unloaded`: it is out of it again."""
    pid: int
    stopped_ns: int
    records: int
    lost: int
    unloaded: bool
    notes: List[str]


def records_of(text: str) -> int:
    """Names of records, separated by commas; +name and -name change the default."""
    wanted = RECORDS_DEFAULT if text[:1] in ("+", "-") else 0
    for part in text.split(","):
        name = part.lstrip("+-") if len(part.lstrip("+-")) >= len(part) - 1 else ""
        bits = {"all": sum(RECORDS.values()), "default": RECORDS_DEFAULT}.get(name, RECORDS.get(name))
        if bits is None:
            raise BadRequest(f"records= needs names of {', '.join(RECORDS)}, or 'all' (got {text!r})")
        wanted = wanted & ~bits if part.startswith("-") else wanted | bits
    if not wanted:
        raise BadRequest(f"records= leaves nothing to record (got {text!r})")
    return wanted


def budget_of(value: Union[str, float]) -> int:
    """A share of a process's speed, in parts per million: "3%", 0.03, or "none"."""
    if value == "none":
        return BUDGET_NONE
    share = None
    if isinstance(value, str):
        percent = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?%", value)
        share = float(percent[1]) / 100 if percent else None
    elif isinstance(value, float):
        share = value
    if share is None or not 0 < share < 1:
        raise BadRequest(f"budget= needs a share above 0 and below 1, as '3%' or 0.03, or 'none' (got {value!r})")
    return max(round(share * 1e6), 1)


def request(pid: int, records: Optional[str], stacks: Optional[str], budget: Union[str, float, None],
            seccomp: bool, light: bool) -> control.AttachRequest:
    asked = control.AttachRequest(pid=pid, seccomp=seccomp, light=light)
    if records is not None:
        asked.records = records_of(records)
    if stacks is not None:
        if stacks not in STACKS:
            raise BadRequest(f"stacks= needs none, sampled or all (got {stacks!r})")
        asked.stacks = STACKS[stacks]
    if budget is not None:
        asked.budget_ppm = budget_of(budget)
    return asked


class Attachment:
    """A process with the library in it. As a context manager it detaches at its end."""

    def __init__(self, client: "Client", asked: control.AttachRequest, wait: Union[bool, Duration]) -> None:
        self._client = client
        self.pid: int = asked.pid
        self.detached: Optional[Detached] = None
        reply = self._ask(asked, wait)
        #: the longest time a thread of the process was stopped
        self.stopped_ns: int = reply.stopped_ns
        #: from the request until recording started
        self.ready_ns: int = reply.ready_ns
        #: the libcupti in use; empty: none (yet)
        self.library: str = reply.library
        self.records: List[str] = [name for name, bit in RECORDS.items() if reply.records & bit]
        self.stacks: str = {number: name for name, number in STACKS.items()}.get(reply.stacks, "")
        #: a share; None: no limit
        self.budget: Optional[float] = reply.budget_ppm / 1e6 if reply.budget_ppm else None
        #: in light mode: functions that report their calls from inside
        self.functions: int = reply.functions
        self.notes: List[str] = list(reply.note)

    def _ask(self, asked: control.AttachRequest, wait: Union[bool, Duration]) -> Any:
        until = None if wait is True else time.monotonic_ns() + (duration_ns(wait, "wait") if wait else 0)
        while True:
            try:
                return self._client._single("attach", attach=asked)  # pylint: disable=protected-access
            except NoCuda:
                if until is not None and time.monotonic_ns() >= until:
                    raise
            time.sleep(_RETRY_S)

    def detach(self) -> Detached:
        """Takes the library out again; a second time it changes nothing."""
        if not self.detached:
            self.detached = self._client.detach(self.pid)
        return self.detached

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.detach()
        except Error as error:
            # A process that has ended needs no detaching, and what went wrong inside matters more.
            if kind is None and error.reason not in _GONE:
                raise

    def __repr__(self) -> str:
        return f"<tracesmith.Attachment {self.pid}{' (detached)' if self.detached else ''}>"
