"""Parks threads in known places and says on stdout where they are, as Python itself sees it:
"pid PID", "thread TID", then "frame FUNCTION|FILE|LINE" for each frame, innermost first. And the lines of some code:
"code FIRST TABLE", then "range FROM TO LINE". Then "end", and it stays."""

import argparse
import ctypes
import dis
import functools
import json
import linecache
import os
import sys
import threading
import time

go = threading.Event()
ready = threading.Semaphore(0)
with_gil = ctypes.PyDLL(None)


def park():
    ready.release()
    go.wait()


def plain():
    park()


def generator():
    yield 1
    park()
    yield 2


def in_generator():
    for _ in generator():
        pass


async def inner():
    park()


async def coroutine():
    await inner()


def in_coroutine():
    try:
        coroutine().send(None)
    except StopIteration:
        pass


def in_comprehension():
    return [park() for _ in range(1)]


class Thing:
    def __init__(self):
        self.method()

    def method(self):
        (lambda: (
            park()))()


def through_c():
    sorted([2, 1], key=lambda x: park() or x)


def in_class():
    class Body:
        park()


def deep(n=60):
    if n:
        return deep(n - 1)
    park()


def näme_λ():
    park()


def in_made_up_code():
    exec(compile("\n\n\npark()", "made\tup", "exec"), {"park": park})


def asleep():
    ready.release()
    time.sleep(1000)


def cached():
    functools.lru_cache(None)(lambda: park())()


def locals_of(count=7, *rest, ratio=0.5, **more):
    text, nothing, yes = "a\nb\x1b[31m", None, True
    big, small = -(1 << 200), -12
    many, pair, table, group = [1, 2, 3], (1, 2), {"a": 1}, {1, 2, 3, 4}
    unset = 1
    del unset
    park()
    return text, nothing, yes, big, small, many, pair, table, group


def in_cell():
    captured = 42

    def user():
        return captured
    park()
    return user


def subinterpreter():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    read, write = os.pipe()
    threading.Thread(target=lambda: os.read(read, 1) and ready.release(), daemon=True).start()
    text = f"import os, time\nos.write({write}, b'x')\ntime.sleep(1000)"
    run = getattr(interpreters, "run_string", None) or interpreters.exec
    run(interpreters.create(), text)


def function(code):
    return getattr(code, "co_qualname", code.co_name)


def stack(frame):
    while frame:
        yield f"frame {function(frame.f_code)}|{frame.f_code.co_filename}|{frame.f_lineno or 0}"
        frame = frame.f_back


def ranges(code):
    if hasattr(code, "co_lines"):
        yield from ((start, end, line or 0) for start, end, line in code.co_lines())
        return
    starts = [*dis.findlinestarts(code)]
    for (start, line), (end, _) in zip(starts, [*starts[1:], (len(code.co_code), 0)]):
        yield start, end, line


def codes(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            yield from codes(const)


def tell_lines(module):
    with open(module.__file__, encoding="utf-8") as file:
        top = compile(file.read(), module.__file__, "exec")
    for code in codes(top):
        table = getattr(code, "co_linetable", None) or code.co_lnotab
        yield f"code {code.co_firstlineno} {table.hex()}"
        yield from (f"range {start} {end} {line}" for start, end, line in ranges(code))


def tell():
    print("pid", os.getpid())
    native = {thread.ident: thread.native_id for thread in threading.enumerate()}
    native[threading.get_ident()] = threading.get_native_id()  # of a child, too
    for ident, frame in sys._current_frames().items():
        print("thread", native[ident])
        frames = [*stack(frame)]
        print("\n".join(frames[1:] if ident == threading.get_ident() else frames))
    for module in (argparse, json.decoder):
        print("\n".join(tell_lines(module)))
    print("end", flush=True)
    return 1000


PARKED = ("waiter.acquire()", "time.sleep(1000)", "run(interpreters.create(), text)")


def all_parked():
    frames = sys._current_frames()
    del frames[threading.get_ident()]
    return all(linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0).strip() in PARKED
               for frame in frames.values())


PLACES = [plain, in_generator, in_coroutine, in_comprehension, Thing, through_c, in_class, deep, näme_λ,
          in_made_up_code, asleep, cached, locals_of, in_cell]


def main():
    sys.stdout.reconfigure(encoding="utf-8")
    places = [subinterpreter] if sys.argv[1] == "subinterpreter" else PLACES
    if sys.argv[1] == "fork":
        if os.fork():
            os.wait()
            return
        with_gil.prctl(1, 9)  # PR_SET_PDEATHSIG: do not outlive the parent
    for place in places:
        threading.Thread(target=place, daemon=True).start()
    for place in places:
        ready.acquire()
    while not all_parked():
        time.sleep(0.01)
    if places == [subinterpreter]:
        time.sleep(tell())  # all_parked() does not see its frames: it may still need the GIL to get to sleep
    else:
        with_gil.sleep(tell())  # and holds the GIL


main()
