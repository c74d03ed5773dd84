"""What a query answers: rows, with what is missing from them."""
from __future__ import annotations

from collections.abc import Sequence as SequenceBase
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union, overload

from . import control_pb2 as control
from . import _show

if TYPE_CHECKING:
    import pandas

Row = Dict[str, Any]


class Column(NamedTuple):
    """`type` says what the numbers are: "integer", "bytes", "nanoseconds", "time" (of CLOCK_MONOTONIC), ..."""
    name: str
    type: str


@dataclass(frozen=True)
class Loss:
    """What was dropped, sampled or not seen in the window of an answer. `time_ns`: of losses that are periods."""
    reason: str
    count: int
    text: str
    noun: str
    time_ns: int
    said: str = ""  # what was not watched, as one clause; of losses that are periods


class Frame(NamedTuple):
    """One of a stack. What is unknown is None."""
    kind: str
    function: Optional[str]
    module: Optional[str]
    file: Optional[str]
    line: Optional[int]
    inlined: bool


class Stack(List[str]):
    """Its frames as texts, innermost first."""

    #: the same frames, with each thing known of them on its own
    frames: List[Frame]
    #: why it ends where it does; empty: at its end
    end: str
    #: frame pointers led through code without call frame information
    linked: bool

    def __init__(self, stack: control.Stack) -> None:
        super().__init__(stack.frame)
        self.frames = [Frame(control.Frame.Kind.Name(frame.kind).lower(), frame.function or None, frame.module or None,
                             frame.file or None, frame.line or None, frame.inlined) for frame in stack.detail]
        self.end = stack.end
        self.linked = stack.linked


def _value(value: control.Value, handle: bool) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "stack":
        return Stack(value.stack)
    known = getattr(value, kind)
    return known % 2 ** 64 if handle and kind == "integer" else known


class Answer(SequenceBase):  # type: ignore[type-arg]
    """The rows of a query: a sequence of dicts. What is missing from them is in `loss`, by reason, and in `losses`;
    `note` explains the answer, for example why it has no rows; `truncated` is set if the limit cut rows off."""

    def __init__(self, query: str, wall_offset_ns: int) -> None:
        self.query = query
        self.columns: List[Column] = []
        #: the rows as tuples
        self.values: List[Tuple[Any, ...]] = []
        self.losses: List[Loss] = []
        self.note = ""
        self.truncated = False
        #: add it to a time to get one of CLOCK_REALTIME
        self.wall_offset_ns = wall_offset_ns

    @property
    def names(self) -> List[str]:
        return [column.name for column in self.columns]

    @property
    def rows(self) -> List[Row]:
        return list(self)

    @property
    def loss(self) -> Dict[str, int]:
        return {loss.reason: loss.count for loss in self.losses}

    def _row(self, values: Sequence[Any]) -> Row:
        return dict(zip(self.names, values))

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> List[Row]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Row, List[Row]]:
        if isinstance(index, slice):
            return [self._row(values) for values in self.values[index]]
        return self._row(self.values[index])

    def __iter__(self) -> Iterator[Row]:
        names = self.names
        return (dict(zip(names, values)) for values in self.values)

    def pandas(self) -> "pandas.DataFrame":
        """A DataFrame, with `loss`, `note` and `truncated` in its `attrs`."""
        try:
            import pandas  # pylint: disable=import-outside-toplevel,redefined-outer-name
        except ImportError as error:
            raise ImportError("pandas is not installed: 'pip install pandas', or use the rows as they are") from error
        series = {}
        for place in range(len(self.columns)):
            values = [row[place] for row in self.values]
            known = [value for value in values if value is not None]
            kind = None if values else "object"
            # An integer stays one, also where others are unknown.
            if known and len(known) < len(values) and all(isinstance(value, int) for value in known):
                kind = "UInt64" if max(known) >= 2 ** 63 else "Int64"
            series[place] = pandas.Series(values, dtype=kind)
        frame = pandas.DataFrame(series)
        frame.columns = pandas.Index(self.names)
        frame.attrs.update(query=self.query, loss=self.loss, note=self.note, truncated=self.truncated)
        return frame

    def __repr__(self) -> str:
        return _show.text(self)

    def _repr_html_(self) -> str:
        return _show.html(self)

    # What a connection fills it with.

    def add(self, reply: control.Reply) -> None:
        kind = reply.WhichOneof("body")
        if kind == "columns":
            self.columns = [Column(column.name, control.Columns.Type.Name(column.type).lower())
                            for column in reply.columns.column]
        elif kind == "rows":
            handles = [column.type == "handle" for column in self.columns]
            self.values.extend(tuple(_value(value, handle) for value, handle in zip(row.value, handles))
                               for row in reply.rows.row)
        elif kind == "done":
            done = reply.done
            self.losses = [Loss(loss.reason, loss.count, loss.text, loss.noun, loss.time_ns, loss.said) for loss in done.loss]
            self.truncated = done.truncated
