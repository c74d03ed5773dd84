"""Spans that a program marks: calls of functions that do nothing, on which the daemon has its probes."""
from __future__ import annotations

import ctypes
import functools
import inspect
import os
from typing import Any, Callable, List, Optional, Tuple, TypeVar, cast

_LIBRARY = "libtracesmith-range.so.1"
_BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), _LIBRARY)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _load() -> Tuple[Callable[[bytes], int], Callable[[int], None]]:
    """The system's library, on which the probes are before anybody calls it; else our own. Without one ranges do
    nothing."""
    for path in _LIBRARY, _BESIDE:
        try:
            library = ctypes.PyDLL(path)  # its calls are shorter than to release the GIL
            begin, end = library.tracesmith_range_begin, library.tracesmith_range_end
        except (OSError, AttributeError):
            continue
        begin.argtypes, begin.restype = (ctypes.c_char_p,), ctypes.c_uint64
        end.argtypes, end.restype = (ctypes.c_uint64,), None
        return begin, end
    return lambda name: 0, lambda number: None


_begin, _end = _load()


class range:  # pylint: disable=invalid-name,redefined-builtin
    """Marks a span of the calling thread: `with tracesmith.range("step"):`, or as a decorator of a function, whose
    calls are marked then, until they have returned, been awaited or been iterated over.

    It is shown like a range of NVTX, in every process that is traced, and costs next to nothing where none is. Of the
    name, the first 72 bytes are kept."""
    __slots__ = ("_name", "_open")

    def __init__(self, name: str) -> None:
        self._name = name.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
        self._open: Optional[List[int]] = None

    def __enter__(self) -> range:
        number = _begin(self._name)
        if self._open is None:
            self._open = [number]
        else:
            self._open.append(number)
        return self

    def __exit__(self, *_: object) -> None:
        if self._open:
            _end(self._open.pop())

    def __call__(self, function: _Function) -> _Function:
        name, asked = self._name, cast(Any, function)

        def plain(*arguments: Any, **options: Any) -> Any:
            number = _begin(name)
            try:
                return asked(*arguments, **options)
            finally:
                _end(number)

        async def awaited(*arguments: Any, **options: Any) -> Any:
            number = _begin(name)
            try:
                return await asked(*arguments, **options)
            finally:
                _end(number)

        def iterated(*arguments: Any, **options: Any) -> Any:
            number = _begin(name)
            try:
                return (yield from asked(*arguments, **options))
            finally:
                _end(number)

        if inspect.iscoroutinefunction(function):
            marked: Any = awaited
        else:
            marked = iterated if inspect.isgeneratorfunction(function) else plain
        return cast(_Function, functools.wraps(function)(marked))
