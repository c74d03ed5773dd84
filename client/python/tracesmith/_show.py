"""Answers for people: a table of text, and one of HTML for notebooks."""
from __future__ import annotations

from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from ._answer import Answer

_ROWS_TEXT = 20
_ROWS_HTML = 60
_CELL_TEXT = 48
_DURATIONS = ((86400e9, "d"), (3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES = ((2.0 ** 40, "TiB"), (2.0 ** 30, "GiB"), (2.0 ** 20, "MiB"), (2.0 ** 10, "KiB"))


def _scaled(value: float, units: Any, least: str) -> str:
    for size, name in units:
        if abs(value) >= size:
            return f"{value / size:#.3g} {name}".replace(". ", " ")
    return f"{value:.0f} {least}"


def value_text(value: Any, kind: str, wall_offset_ns: int) -> str:
    """As tsctl shows it. `kind`: the type of its column."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return "\n".join(value)
    if isinstance(value, (int, float)):
        if kind == "nanoseconds":
            return _scaled(value, _DURATIONS, "ns")
        if kind == "bytes":
            return _scaled(value, _SIZES, "B")
        if kind == "bytes_per_second":
            return _scaled(value, _SIZES, "B") + "/s"
        if kind == "share":
            return f"{value / 1e4:.3g} %"
        if kind == "handle":
            return f"{value:#x}"
        if kind == "time":
            return datetime.fromtimestamp((value + wall_offset_ns) / 1e9).isoformat(" ", "milliseconds")
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _cells(answer: "Answer", most: int) -> List[List[str]]:
    return [[value_text(value, column.type, answer.wall_offset_ns) for value, column in zip(values, answer.columns)]
            for values in answer.values[:most]]


def _remarks(answer: "Answer", most: int) -> List[str]:
    remarks = []
    if len(answer) > most:
        remarks.append(f"{len(answer) - most} more rows")
    if answer.truncated:
        remarks.append(f"These are the first {len(answer)} rows: raise limit=")
    if answer.note:
        remarks.append(answer.note)
    remarks.extend(loss.said or f"Missing: {loss.count} {loss.noun or 'event'}{'' if loss.count == 1 else 's'} ({loss.text})"
                   for loss in answer.losses)
    return remarks


def remarks(answer: "Answer") -> List[str]:
    """What is missing from all of its rows."""
    return _remarks(answer, len(answer))


def _is_number(kind: str) -> bool:
    return kind not in ("text", "stack")


def _cut(text: str) -> str:
    """One line of printable characters: names are other programs' bytes."""
    line = "".join(character if character.isprintable() else "?" for character in text.replace("\n", " < "))
    return line if len(line) <= _CELL_TEXT else line[:_CELL_TEXT - 1] + "…"


def text(answer: "Answer") -> str:
    """For a prompt of Python."""
    rows = [[_cut(cell) for cell in row] for row in [answer.names, *_cells(answer, _ROWS_TEXT)]]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) if _is_number(column.type) else cell.ljust(width)
                       for cell, width, column in zip(row, widths, answer.columns)).rstrip() for row in rows]
    return "\n".join(lines + _remarks(answer, _ROWS_TEXT))


def html(answer: "Answer") -> str:
    """For a notebook. All text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in answer.names)
    rows = []
    for row in _cells(answer, _ROWS_HTML):
        rows.append("".join(
            f"<td style='text-align:{'right' if _is_number(column.type) else 'left'};white-space:pre'>{escape(cell)}</td>"
            for cell, column in zip(row, answer.columns)))
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in _remarks(answer, _ROWS_HTML))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{remarks}"
