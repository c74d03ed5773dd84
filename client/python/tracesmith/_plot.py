"""Pictures for notebooks: memory over time, and what streams did. What they show is computed here; matplotlib, which
need not be there for anything else, draws it."""
from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from . import _show
from . import control_pb2 as control
from ._answer import Answer
from ._errors import NotFound
from ._moment import Moment, moment_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._asker import Asker

_COLUMNS = 900
_LIVE_WINDOW = "60s"  # of a running daemon
_LANES_SHOWN = 24
_CURVES_SHOWN = 8
_ROWS_MAX = 1_000_000
_PALEST = 0.2
_LABEL = 40
_COPIES = ("copy", "set")
_COPY, _KERNEL, _BOUNDS = "tab:orange", "tab:blue", "tab:gray"

# The most that was held in a column, and what was left at its end: the texts begin with times of equal length.
_MEMORY = """SELECT process, device, detail IN ('host', 'registered') AS host, (start_ns - {since}) / {step} AS place,
    max(live_bytes) AS most, CAST(substr(max(printf('%020d', coalesce(end_ns, start_ns)) || live_bytes), 21) AS INTEGER) AS last
    FROM op WHERE {process} kind IN ('alloc', 'free') AND start_ns >= {since} AND start_ns < {until}
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


class Window(NamedTuple):
    """Divided into columns."""
    since_ns: int
    until_ns: int
    step_ns: int


class Curve(NamedTuple):
    label: str
    peak_bytes: int
    #: by column, from the first on in which something was allocated or freed
    first: int
    bytes: List[int]


class Bar(NamedTuple):
    start_ns: int
    end_ns: int
    colour: str
    #: of its time
    share: float


class Lane(NamedTuple):
    label: str
    busy_ns: int
    bars: List[Bar]


def _internal(asker: "Asker", name: str, pid: Optional[int], window: Window, columns: bool = False) -> Answer:
    """A query that only programs ask for; of columns, or of the whole window."""
    request = control.QueryRequest(name=name, pid=pid or 0, since_ns=window.since_ns, until_ns=window.until_ns,
                                   step_ns=window.step_ns if columns else 0, limit=_ROWS_MAX)
    return asker._answer(name, lambda _: {"query": request})  # pylint: disable=protected-access


def window_of(asker: "Asker", pid: Optional[int], since: Optional[Moment], until: Optional[Moment]) -> Window:
    """As given; else a recording is shown from its first operation to its last, and of a daemon the last minute."""
    with asker._connection() as connection:  # pylint: disable=protected-access
        now_ns, offset_ns, recording = connection.now_ns(), connection.wall_offset_ns, connection.recording
    until_ns = now_ns if until is None else moment_ns(until, "until", now_ns, offset_ns)
    if since is None and recording:
        extent = _internal(asker, "page-extent", pid, Window(1, until_ns + 1, 1)).rows[0]
        since_ns = extent["first_ns"] or 1
        until_ns = min(extent["last_ns"] or until_ns, until_ns)
    else:
        since_ns = moment_ns(since if since is not None else _LIVE_WINDOW, "since", now_ns, offset_ns)
    until_ns = max(until_ns + 1, since_ns + 1)
    return Window(since_ns, until_ns, max(-(-(until_ns - since_ns) // _COLUMNS), 1))


def _names(asker: "Asker", pid: Optional[int], window: Window) -> Dict[int, str]:
    rows = _internal(asker, "page-processes", pid, window)
    return {row["id"]: f"{row['comm']} ({row['pid']})" for row in rows}


def _label(text: str) -> str:
    """One line, of which matplotlib takes nothing for mathematics."""
    clean = "".join(character if character.isprintable() else "?" for character in text)
    return (clean if len(clean) <= _LABEL else clean[:_LABEL - 1] + "…").replace("$", r"\$")


def _columns(rows: List[Tuple[int, int, int]], count: int) -> Tuple[int, List[int]]:
    """Of rows of place, most and last: the first place, and how much there was in each from there on. Where nothing
    was allocated or freed it is what was left before."""
    by_place = {min(place, count - 1): (most, last) for place, most, last in rows}
    first, held, most_of = min(by_place), 0, []
    for place in range(first, count):
        most, held_then = by_place.get(place, (held, held))
        most_of.append(max(most, held))
        held = held_then
    return first, most_of


def memory(asker: "Asker", pid: Optional[int], window: Window) -> Tuple[List[Curve], Answer]:
    """The curves with the highest peaks first."""
    names = _names(asker, pid, window)
    of = f"pid = {pid:d} AND" if pid is not None else ""
    answer = asker.sql(_MEMORY.format(since=window.since_ns, until=window.until_ns, step=window.step_ns, process=of),
                       limit=_ROWS_MAX)
    groups: Dict[Tuple[int, int, int], List[Tuple[int, int, int]]] = {}
    for process, device, host, place, most, last in answer.values:
        groups.setdefault((process, -1 if host else device, host), []).append((place, most, last))
    curves = []
    for (process, device, host), rows in groups.items():
        first, held = _columns(rows, _COLUMNS)
        where = "host" if host else f"device {device}"
        curves.append(Curve(_label(f"{names.get(process, process)}, {where}"), max(held), first, held))
    return sorted(curves, key=lambda curve: -curve.peak_bytes), answer


def _bar(row: Dict[str, Any], window: Window) -> Bar:
    """Of one operation its own time, of many that of their column, as pale as it was idle."""
    start_ns, end_ns = row["start_ns"], row["end_ns"]
    if row["count"] > 1 and row["longest_ns"] < window.step_ns:
        start_ns = window.since_ns + row["place"] * window.step_ns
        end_ns = start_ns + window.step_ns
    start_ns, end_ns = max(start_ns, window.since_ns), max(min(end_ns, window.until_ns), window.since_ns)
    colour = _BOUNDS if row["bounds"] else _COPY if row["kind"] in _COPIES else _KERNEL
    return Bar(start_ns, end_ns, colour, min(row["busy_ns"] / max(end_ns - start_ns, 1), 1.0))


def lanes(asker: "Asker", pid: Optional[int], window: Window) -> Tuple[List[Lane], Answer]:
    """The busiest streams first."""
    names = _names(asker, pid, window)
    answer = _internal(asker, "page-work", pid, window, columns=True)
    groups: Dict[Tuple[int, int, int], List[Dict[str, Any]]] = {}
    for row in answer:
        groups.setdefault((row["process"], row["device"], row["lane"]), []).append(row)
    made = [Lane(_label(f"{names.get(process, process)}, device {device}, stream {stream}"),
                 sum(row["busy_ns"] for row in rows), [_bar(row, window) for row in rows])
            for (process, device, stream), rows in groups.items()]
    return sorted(made, key=lambda lane: -lane.busy_ns), answer


def _axes(given: Optional["Axes"]) -> "Axes":
    try:
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ImportError("matplotlib is not installed: 'pip install matplotlib', or 'tsctl plot' draws the same") from error
    return given if given is not None else pyplot.subplots(figsize=(11, 4), layout="constrained")[1]


def _finish(axes: "Axes", window: Window, answer: Answer, left_out: str) -> None:
    """What is missing stands above the picture."""
    remarks = ([left_out] if left_out else []) + _show.remarks(answer)
    if remarks:
        axes.set_title(_label_lines(remarks), loc="left", fontsize="small")
    axes.set_xlim(0, (window.until_ns - window.since_ns) / 1e9)
    begin = datetime.fromtimestamp((window.since_ns + answer.wall_offset_ns) / 1e9)
    axes.set_xlabel(f"seconds since {begin.isoformat(' ', 'milliseconds')}")


def _label_lines(lines: List[str]) -> str:
    return "\n".join(line.replace("$", r"\$") for line in lines)


def draw_memory(asker: "Asker", pid: Optional[int], since: Optional[Moment], until: Optional[Moment],
                given: Optional["Axes"]) -> "Axes":
    axes = _axes(given)
    window = window_of(asker, pid, since, until)
    curves, answer = memory(asker, pid, window)
    if not curves:
        raise NotFound("No memory was allocated or freed in this time: see since=")
    for curve in curves[:_CURVES_SHOWN]:
        times = [(curve.first + place) * window.step_ns / 1e9 for place in range(len(curve.bytes) + 1)]
        axes.step(times, [held / 2 ** 20 for held in curve.bytes + curve.bytes[-1:]], where="post", label=curve.label)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("MiB held")
    axes.legend(loc="upper left", fontsize="small")
    more = len(curves) - _CURVES_SHOWN
    _finish(axes, window, answer, f"{more} more, with lower peaks, are left out" if more > 0 else "")
    return axes


def draw_lanes(asker: "Asker", pid: Optional[int], since: Optional[Moment], until: Optional[Moment],
               given: Optional["Axes"]) -> "Axes":
    axes = _axes(given)
    window = window_of(asker, pid, since, until)
    found, answer = lanes(asker, pid, window)
    if not found:
        raise NotFound("No stream was used in this time: see since=")
    shown = found[:_LANES_SHOWN]
    from matplotlib.colors import to_rgba  # pylint: disable=import-outside-toplevel
    for place, lane in enumerate(shown):
        spans = [((bar.start_ns - window.since_ns) / 1e9, (bar.end_ns - bar.start_ns) / 1e9) for bar in lane.bars]
        colours = [to_rgba(bar.colour, _PALEST + (1 - _PALEST) * bar.share) for bar in lane.bars]
        axes.broken_barh(spans, (place - 0.4, 0.8), facecolors=colours)
    axes.set_yticks(range(len(shown)), [lane.label for lane in shown], fontsize="small")
    axes.set_ylim(len(shown) - 0.4, -0.6)
    more = len(found) - _LANES_SHOWN
    _finish(axes, window, answer, f"{more} streams that were used less are left out" if more > 0 else "")
    return axes
