"""The awkward programs of test_harm and tests/gpu/harm.py: how each is started, and what docs/harm.md says that it suffers.
The programs themselves are cases of harm/*.c, of the same name where none is given."""
from harms import ATTACHES, MODES, Program

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# Each program is always run, attached to and left in these; in the others if it is about them.
USUAL = ("run", "detach", "undo-light")
PROBES, ENDS, INSIDE = (*USUAL, "probes", "start"), (*USUAL, "attach", "light"), (*USUAL, "inside")
LIGHT = (*USUAL, "light", "run-light", "inside")
# Where code of ours is put near the driver's, and those where all threads are stopped for it at once.
JUMPS, STOPS_ALL = ("light", "undo-light", "run-light", "inside"), ("light", "undo-light", "inside")


def of(modes, pattern):
    """What is expected in each of them."""
    return dict.fromkeys(modes, pattern)


FILTER = of(ATTACHES, "has a seccomp filter")
LEFT = ("detach", "undo-light")  # from which nothing is to stay
# A thread sits in a call that would return half done, if all were stopped: named, with what to wait for.
HALF_DONE = {**of(STOPS_ALL, "would end half done"), "run-light": "stays with the probes"}
# There is no libcupti beside the program, or one of another driver.
NO_CUPTI = of(("attach", "detach", "inside"), "CUPTI|libcupti")
# What cannot be borrowed, or from where no thread can be started: (attach, detach).
BORROWED = {kind: of(("attach", "detach"), pattern) for kind, pattern in {
    "handler": "No thread of process .* was free", "files": "No thread of process .* was free", "root": "could not load the library",
    "deadline": "could not start in process"}.items()}

PROGRAMS = [
    Program("plain", often=MODES),
    # Threads and stacks
    Program("small-stacks", often=INSIDE),
    Program("big-stacks"),
    Program("tls-248", case="plain", build="_tls248"),
    Program("tls-1010", case="plain", build="_tls1010", often=LIGHT),
    # libc keeps the stack of the thread that we had for the program's next one.
    Program("tls-4096", case="plain", build="_tls4096", expected=of(LEFT, "memory: ")),
    Program("crowd", often=PROBES),
    # One that just ends has no descriptors left.
    Program("short-threads", varies=("threads", "memory"), expected=of(ATTACHES, "its threads do not share them"), often=INSIDE),
    Program("thread-exit", often=ENDS),
    Program("first-thread-ends",
            expected={**of(ATTACHES, "has ended and waits for its parent"), "run-light": "stays with the probes"}),
    Program("cancel", expected={"*": "held for ever"}, often=PROBES),
    Program("cancel-between", often=INSIDE),
    Program("coroutines", often=(*PROBES, "inside")),
    Program("setjmp", often=PROBES),
    # CUPTI keeps what a call began, so that none may be left by a jump; CUDA allows it for none.
    Program("longjmp", modes=("probes", "start", "light", "undo-light", "run-light"), often=("probes", "undo-light"), real=False),
    Program("robust"),
    Program("real-time", often=INSIDE, expected=HALF_DONE),
    Program("real-time-all"),
    Program("idle-class"),
    # The thread that is borrowed
    *[Program(f"borrowed-{kind}", expected=BORROWED.get(kind), modes=("start", "run", "attach", "detach"), often=("detach",))
      for kind in ("small-stack", "coroutine", "handler", "files", "root", "user", "deadline", "busy")],
    # Signals and registers
    Program("profiled"),
    Program("alternate-stack", real=False),  # a real driver has threads of its own, which take signals, too
    Program("interrupted", varies=("status",)),
    Program("long-nap"),
    Program("faults"),
    Program("traps", often=PROBES),
    Program("sigwait"),
    Program("any-thread", often=INSIDE, real=False),
    Program("registers", expected=HALF_DONE),
    Program("rounding"),
    # Calls that are not restarted
    *[Program(f"in-{call}") for call in (
        "epoll", "poll", "select", "read", "recv", "semop", "msgrcv", "inotify", "sigtimedwait",
        "io-getevents", "accept", "flock", "userfault")],
    *[Program(f"in-{call}", expected=HALF_DONE) for call in ("write", "io-uring", "vfork")],
    # Processes
    Program("fork-server", modes=tuple(mode for mode in MODES if mode != "run-light")),
    Program("fork-after", often=(*ENDS, "inside")),
    Program("spawner", varies=("fds",)),
    Program("exec-later", often=(*ENDS, "run-light")),
    Program("daemon"),
    Program("namespaces"),
    Program("memfd-noexec"),
    Program("other-user"),
    Program("not-dumpable"),
    Program("no-new-rights"),
    Program("changed-root", expected=of(ATTACHES, "has no /proc in its root")),
    Program("guarded", expected={**of(ATTACHES, "is traced by process"), "run-light": "stays with the probes"}),
    Program("checkpointed"),
    Program("stopped", expected=of(ATTACHES, "is stopped")),
    Program("at-exit", often=ENDS),
    Program("quick-end", often=ENDS),
    Program("aborts", often=ENDS),
    Program("exit-elsewhere", often=ENDS),
    # Limits, descriptors and environment
    # A real driver fails in one call or another.
    Program("no-descriptors", real=False, expected=of(ATTACHES, "Too many open files")),
    # A real driver needs its own.
    Program("close-all", often=ENDS, real=False, expected=of(LEFT, "no longer carries the library|is not attached")),
    Program("lowest-descriptor", real=False),
    Program("no-streams", closed=(0, 1, 2), real=False),
    Program("little-space", expected=of(("attach", "detach", "inside"), "MiB left of its address space")),
    Program("no-threads", expected=of(ATTACHES, "Resource temporarily unavailable")),
    Program("locked-memory", expected=of(ATTACHES, "could not load the library|MiB left of its memory that may be locked")),
    Program("overwritten-title"),
    Program("no-environment"),
    Program("bare-environment", case="plain", prefix=("env", "-i"), expected=NO_CUPTI, real=False),
    Program("huge-environment", case="plain", env={f"HUGE{i}": "x" * 120000 for i in range(8)}),
    Program("no-library-path", case="plain", env={"LD_LIBRARY_PATH": None}, expected=NO_CUPTI),
    Program("same-addresses", case="plain", prefix=("setarch", "-R")),
    Program("endless-stack", case="plain", prefix=("sh", "-c", 'ulimit -s unlimited; exec "$@"', "sh")),
    Program("no-new-code", expected=of(JUMPS, "forbids to make some|stays with the probes"), often=LIGHT),
    # Filters
    Program("filter-errno", expected=FILTER, often=(*USUAL, "run-light")),
    Program("filter-kill", expected=FILTER, often=(*PROBES, "run-light")),
    Program("filter-late", expected=FILTER, often=(*USUAL, "run-light")),
    Program("filter-later", often=LIGHT),
    Program("filter-sandbox", often=(*ENDS, "run-light"), expected=of(LEFT, "mappings of ours stay")),
    Program("filter-thread", expected=of(ATTACHES, "seccomp"), often=LIGHT),
    Program("filter-thread-later", often=LIGHT),
    Program("strict-thread", expected=of(ATTACHES, "seccomp"), often=LIGHT),
    Program("shadow-stack", build="_cet"),
    # The loader, and what is preloaded
    Program("constructor", often=(*USUAL, "run-light")),
    Program("loads-and-unloads"),
    Program("reload"),
    Program("other-namespace"),
    Program("busy-loader", varies=("maps", "fds"), often=INSIDE),
    Program("walks-modules"),
    Program("nvtx-first"),
    Program("nvtx-later"),
    Program("nvtx-last"),
    Program("nvtx-only", modes=tuple(mode for mode in MODES if mode != "run-light"), expected=of(ATTACHES, "does not use CUDA")),
    Program("auditor", case="plain", env={"LD_AUDIT": "{}/libe2e_harm_audit.so"}),
    Program("tunables", case="allocator",
            env={"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0:glibc.malloc.perturb=165"}),
    Program("shim", case="allocator", env={"LD_PRELOAD": "{}/libe2e_harm_shim.so"}),
    Program("jemalloc", case="allocator", env={"LD_PRELOAD": f"{LIBRARIES}/libjemalloc.so.2"}, real=False),
    Program("tcmalloc", case="allocator", env={"LD_PRELOAD": f"{LIBRARIES}/libtcmalloc_minimal.so.4"}, real=False),
    # The simulated driver is built without: its leaks and races are not what is looked for.
    Program("asan", case="allocator", build="_asan", env={"ASAN_OPTIONS": "detect_leaks=0"}, varies=("memory",), real=False),
    Program("tsan", case="allocator", build="_tsan", env={"TSAN_OPTIONS": "report_bugs=0"}, varies=("memory",), real=False,
            expected=of(ATTACHES, "is built with ThreadSanitizer")),
    # Code and memory
    Program("makes-code", often=INSIDE),
    Program("checks-code", expected={"*": "its first byte: cc|the driver's code: other"}, often=PROBES),
    Program("runs-a-copy", expected={"*": "SIGTRAP"}, often=PROBES),
    Program("hooks-the-driver", often=PROBES,
            expected=of(JUMPS, "has changed the driver's code|stays with the probes")),
    Program("counts-itself", expected=of(MODES[2:], "says 'descriptors"), often=ENDS),
]
