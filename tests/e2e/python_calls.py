"""Calls the driver from known places: an allocation of its own size each, with the stack that Python itself sees.
test_python starts it with every Python there is."""
import ctypes
import json
import sys
import threading

driver = ctypes.CDLL(sys.argv[1])
with_gil = ctypes.PyDLL(sys.argv[1])
memory = ctypes.c_uint64()
size = 0
kept = []
lock = threading.Lock()


def qualified(code):
    return getattr(code, "co_qualname", code.co_name)


def allocate(call=driver.cuMemAlloc_v2):
    """The innermost frame is this one's, in the line of the call."""
    global size
    with lock:
        size += 512
        mine = size
    frame, stack = sys._getframe(), []
    while frame:
        stack.append([qualified(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    stack[0][2] += 3
    assert call(ctypes.byref(memory), mine) == 0
    print(json.dumps({"size": mine, "stack": stack}))


def plain():
    allocate()


def with_the_gil():
    allocate(with_gil.cuMemAlloc_v2)


def generator():
    yield 1
    allocate()
    yield 2


def in_generator():
    return sum(generator())


async def inner():
    allocate()


async def coroutine():
    await inner()


def in_coroutine():
    try:
        coroutine().send(None)
    except StopIteration:
        pass


class Thing:
    def __init__(self):
        self.method()

    def method(self):
        (lambda: (
            allocate()))()

    def __lt__(self, other):
        allocate()
        return True


def through_c():
    sorted(map(lambda x: allocate() or x, [2, 1]))
    sorted([Thing.__new__(Thing), Thing.__new__(Thing)])


def in_class():
    class Body:
        allocate()


def deep(n=30):
    if n:
        return deep(n - 1)
    return allocate()


def in_made_up_code():
    # One after the other, at the same address.
    for name in ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"):
        exec(compile(f"\n\ndef {name}():\n  allocate()\n{name}()", "passing", "exec"), {"allocate": allocate})
    code = compile("\n\n\nallocate()", "kept", "exec")
    exec(code, {"allocate": allocate})
    kept.append(code)


def näme_λ():
    allocate()


class Held:
    """Freed when the function has returned."""

    def __del__(self):
        allocate()


def at_the_end():
    held = Held()
    return None


PLACES = [plain, with_the_gil, in_generator, in_coroutine, Thing, through_c, in_class, deep, in_made_up_code,
          näme_λ, at_the_end]


def all_places():
    for place in PLACES:
        place()


def main():
    sys.stdout.reconfigure(encoding="utf-8")
    context = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    print("ready", flush=True)
    input()
    all_places()
    thread = threading.Thread(target=lambda: driver.cuCtxSetCurrent(context) or all_places())
    thread.start()
    thread.join()
    print("end", flush=True)
    input()


main()
