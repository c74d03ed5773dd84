"""Launches from known places: each has a width of its own, and the stack that Python itself sees. For each number that it
reads it goes as often through all places, and says how many launches that were; at its end it launches LAST times twice, and
says from where. test_walk starts it with every Python there is; `thread` as the last argument: all else is done in another
thread than the main one."""
import asyncio
import atexit
import ctypes
import json
import sys
import threading

CALLS = 10  # of a place, each time
LAST = 1000
PASSING = 20  # rounds with code that is made anew each time, as each stack with that is a new one
driver = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
launch, launch_with_gil = driver.cuLaunchKernel, ctypes.PyDLL(sys.argv[1]).cuLaunchKernel
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
stacks = {}
context = ctypes.c_void_p()
made = 0


def qualified(code):
    return getattr(code, "co_qualname", code.co_name)


def call(width, function=launch):
    """The innermost frame is this one's, in the line of the call."""
    global made
    if width not in stacks:
        frame, stack = sys._getframe(), []
        while frame:
            stack.append([qualified(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
            frame = frame.f_back
        stack[0][2] = call.__code__.co_firstlineno + 12
        stacks[width] = stack
    made += CALLS
    for _ in range(CALLS):
        function(None, width, 1, 1, 1, 1, 1, 0, None, None, None)


def plain():
    call(1)


def with_the_gil():
    call(2, launch_with_gil)


def generator():
    yield 1
    call(3)
    yield 2


def in_generator():
    return sum(generator())


async def inner():
    await asyncio.sleep(0)
    call(4)


async def outer():
    await asyncio.gather(inner())


def in_coroutine():
    loop.run_until_complete(outer())


def compare(a, b):
    call(5)
    return 0


def in_callback():
    libc.qsort((ctypes.c_int * 2)(2, 1), 2, 4, COMPARE(compare))


def deep(n):
    if n:
        return deep(n - 1)
    return call(6)


def deep_in_python():
    deep(100)


def deep_through_c(n):
    if n:
        return max([n], key=lambda _: deep_through_c(n - 1) or 0)
    return call(7)


def deep_in_both():
    deep_through_c(45)


def in_passing_code():
    """One after the other, at the same address."""
    for width in range(11, 15):
        exec(compile(f"\n\ndef passing_{width}():\n  call({width})\npassing_{width}()", "passing", "exec"), {"call": call})


class Thing:
    def __lt__(self, other):
        call(8)
        return True


def in_sort():
    sorted([Thing(), Thing()])


PLACES = [plain, with_the_gil, in_generator, in_coroutine, in_callback, deep_in_python, deep_in_both, in_passing_code, in_sort]


def at_exit():
    """While the interpreter still is one, and often enough to be known."""
    for _ in range(LAST // CALLS):
        call(9)
    print(json.dumps({9: stacks[9], 10: [[qualified(Last.__del__.__code__), Last.__del__.__code__.co_filename, Last.__del__.__code__.co_firstlineno + 2]]}))


class Last:
    """Freed when it is not any more."""

    def __del__(self, launch=launch):
        for _ in range(LAST):
            launch(None, 10, 1, 1, 1, 1, 1, 0, None, None, None)


def rounds():
    driver.cuCtxSetCurrent(context)
    for line in sys.stdin:
        before = made
        for number in range(int(line)):
            for place in PLACES:
                if place != in_passing_code or number < PASSING:
                    place()
        print(json.dumps({"calls": made - before, "stacks": stacks}), flush=True)


assert driver.cuInit(0) == 0
assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
loop = asyncio.new_event_loop()
atexit.register(at_exit)
last = Last()
print("ready", flush=True)
if sys.argv[-1] == "thread":
    thread = threading.Thread(target=rounds)
    thread.start()
    thread.join()
else:
    rounds()
