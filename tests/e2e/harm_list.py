"""The awkward programs of test_harm and tests/gpu/harm.py."""
from harms import MODES, Program

PROGRAMS = [
    Program("plain"),
    Program("small-stacks"),
    Program("big-stacks"),
    Program("crowd"),
    Program("short-threads", varies=("threads", "memory")),
    Program("cancel"),
    Program("cancel-between"),
    Program("thread-exit"),
    Program("first-thread-ends"),
    Program("coroutines"),
    Program("longjmp"),
    Program("setjmp"),
    Program("robust"),
    Program("real-time"),
    Program("real-time-all"),
    Program("idle-class"),
]
