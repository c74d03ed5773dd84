"""Moments and durations as a caller gives them."""
from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import Union

from ._errors import BadRequest

Duration = Union[str, int, float, timedelta]
Moment = Union[str, int, float, timedelta, datetime]

_UNITS = {"ns": 1, "us": 10 ** 3, "µs": 10 ** 3, "μs": 10 ** 3, "ms": 10 ** 6, "": 10 ** 9, "s": 10 ** 9,
          "sec": 10 ** 9, "m": 60 * 10 ** 9, "min": 60 * 10 ** 9, "h": 3600 * 10 ** 9, "d": 86400 * 10 ** 9}
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?([a-zµμ]*)")
_NS_MAX = 2 ** 63 - 1


def duration_ns(value: Duration, name: str) -> int:
    """Seconds, or "10s", "5m", "2h", or a timedelta. `name`: of the argument, for the error."""
    ns = None
    if isinstance(value, timedelta):
        ns = (value // timedelta(microseconds=1)) * 1000
    elif isinstance(value, str):
        parts = _NUMBER.fullmatch(value)
        if parts and parts[2] in _UNITS:
            ns = round(float(parts[1]) * _UNITS[parts[2]])
    elif isinstance(value, (int, float)) and abs(value) < 1e12:  # which no NaN is
        ns = round(value * 10 ** 9)
    if ns is None or not 0 <= ns <= _NS_MAX:
        raise BadRequest(f"{name}= needs a duration, e.g. '10s', '5m' or a number of seconds (got {value!r})")
    return ns


def moment_ns(value: Moment, name: str, now_ns: int, wall_offset_ns: int) -> int:
    """On the daemon's clock, never 0: a duration ago, "now", or a date and time (local unless it says otherwise)."""
    when = value
    if value == "now":
        return now_ns
    if isinstance(value, str) and re.match(r"[0-9]{4}-", value):
        try:
            when = datetime.fromisoformat(value)
        except ValueError as error:
            raise BadRequest(f"{name}= needs a time, e.g. '10s' (ago), or 2024-05-31T13:00:00 (got {value!r})") from error
    if isinstance(when, datetime):
        wall = when.astimezone()
        seconds = int(wall.replace(microsecond=0).timestamp())
        ns = seconds * 10 ** 9 + wall.microsecond * 1000 - wall_offset_ns
    else:
        ns = now_ns - duration_ns(when, name)
    return max(ns, 1)


def utc(wall_ns: int) -> str:
    """A time since 1970 as tsctl takes it where TZ is UTC0."""
    seconds, ns = divmod(wall_ns, 10 ** 9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ns:09d}"
