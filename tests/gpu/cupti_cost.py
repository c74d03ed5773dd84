#!/usr/bin/env python3
"""What each part of CUPTI costs a program, without TraceSmith: one process calls CUPTI itself and switches
it between configurations in turns, in random order, with CUPTI taken out (cuptiFinalize) before and after
each. Each is held against what the same process did just before and just after it.

Three loops: a PyTorch step (as train.py's), empty kernels, empty kernels from four threads. A child process
is used for each PART: turns (the table), kinds (what each kind of record adds to kernels, copies and calls, in
many short turns), state (whether CUPTI says that another user records), after (what torch.profiler leaves
behind, and whether CUPTI can record without a subscription then), hardware (cuptiActivityEnableHWTrace).

Usage: tests/gpu/cupti_cost.py [PART…], with gcc and PyTorch. ROUNDS (8, of kinds 50), ONLY (configurations whose
name contains it). Without PyTorch (CUPTI=…/libcupti.so CUDA=…/libcuda.so.1) the step is left out.
"""
import ctypes
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time

import model

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
LIBRARY = os.environ.get("COST_LIBRARY", "/tmp/cupti-cost.so")
ROUNDS = int(os.environ.get("ROUNDS", "0"))  # 0: as many as the part wants
STEPS_S = float(os.environ.get("STEPS_S", "0.2"))
TURN_S, TURN_EMPTY, KINDS_S = 0.07, 1500, 135  # of the part kinds, and after how long there is no further round
SETTLE = 5  # steps after a switch that do not count
EMPTY, THREADS, EMPTY_EACH = int(os.environ.get("EMPTY", "12000")), 4, int(os.environ.get("EMPTY_EACH", "3000"))

KERNEL, CONCURRENT, MEMCPY, MEMCPY2, MEMSET = 3, 10, 1, 22, 2
DRIVER, RUNTIME, CONTEXT, MARKER, OVERHEAD, SYNC, MEMORY, POOL, GRAPH = 4, 5, 9, 12, 17, 38, 49, 50, 51
DRIVER_CALLS, RUNTIME_CALLS = 807, 523  # CUPTI_…_TRACE_CBID_SIZE of 13.0
LAUNCHES = [307, 442, 652, 653, 477, 478, 514, 515]  # of the driver
RUNTIME_LAUNCHES = [211, 214, 430, 431]  # cudaLaunchKernel, cudaLaunchKernelExC, and per thread
DEVICE_BUFFER, DEVICE_POOL, ZEROED, PRE_ALLOCATE, PINNED, PER_THREAD = 0, 2, 5, 6, 8, 9
WIDTH = {ZEROED: 1, PINNED: 1, PER_THREAD: 1}
with open(os.path.join(ROOT, "inject", "cupti_calls.h")) as file:
    SUBMITTING = [int(number) for pair in re.findall(r"X\(\w+, (\d+), (\d+)\)", file.read()) for number in pair
                  if int(number)]
JOINED = dict(kinds=[CONCURRENT, MEMCPY, MEMCPY2, MEMSET], subscribe="ours", calls=SUBMITTING, attributes={ZEROED: 1},
              clock=True, thread_id=True)


def joined_and(*kinds):
    return dict(JOINED, kinds=JOINED["kinds"] + list(kinds))


LAUNCH_RECORDS = dict(driver=LAUNCHES, runtime=RUNTIME_LAUNCHES, filtered=True)
CONFIGS = {
    "kernels": {},
    "KERNEL instead of CONCURRENT": dict(kinds=[KERNEL]),
    "subscription alone": dict(kinds=[], subscribe="empty"),
    "callbacks of launches alone": dict(kinds=[], subscribe="empty", calls=LAUNCHES),
    "kernels, subscription": dict(subscribe="empty"),
    "kernels, empty callbacks": dict(subscribe="empty", calls=LAUNCHES),
    "kernels, our callbacks": dict(subscribe="ours", calls=LAUNCHES),
    "kernels, our callbacks, all": dict(subscribe="ours", calls=SUBMITTING),
    "kernels, driver records": dict(driver=LAUNCHES),
    "kernels, runtime records": dict(runtime=RUNTIME_LAUNCHES),
    "kernels, both records": dict(driver=LAUNCHES, runtime=RUNTIME_LAUNCHES),
    "kernels, copies, sets": dict(kinds=[CONCURRENT, MEMCPY, MEMCPY2, MEMSET]),
    "kernels, buffers per thread off": dict(attributes={PER_THREAD: 0}),
    "kernels, buffers per thread on": dict(attributes={PER_THREAD: 1}),
    "kernels, device buffer x 8": dict(scale={DEVICE_BUFFER: 8}),
    "kernels, device buffer / 8": dict(scale={DEVICE_BUFFER: 1 / 8}),
    "kernels, device pool x 4": dict(scale={DEVICE_POOL: 4, PRE_ALLOCATE: 4}),
    "kernels, pinned buffers": dict(attributes={PINNED: 1}),
    "kernels, zeroed buffers": dict(attributes={ZEROED: 1}),
    "kernels, our clock": dict(clock=True),
    "kernels, latency stamps": dict(latency=True),
    "kernels, then off, not out": dict(linger=True),
    "as the library does": joined_and(MEMORY, POOL, SYNC, MARKER, OVERHEAD, CONTEXT),
}
BASE = "kernels, copies, calls"
KINDS = {
    "kernels": {},
    BASE: JOINED,
    "+ synchronizations": joined_and(SYNC),
    "+ memory": joined_and(MEMORY),
    "+ pools": joined_and(POOL),
    "+ markers": joined_and(MARKER),
    "+ overhead": joined_and(OVERHEAD),
    "+ contexts": joined_and(CONTEXT),
    "+ whole graphs": joined_and(GRAPH),
    "+ memory, pools, markers, overhead, contexts": joined_and(MEMORY, POOL, MARKER, OVERHEAD, CONTEXT),
    "+ those and synchronizations": joined_and(MEMORY, POOL, MARKER, OVERHEAD, CONTEXT, SYNC),
    "kernels, records of launches": LAUNCH_RECORDS,
}


def cupti_path():
    if "CUPTI" in os.environ:
        return os.environ["CUPTI"]
    with open("/proc/self/maps") as file:
        return next(line.rstrip("\n").split(None, 5)[5] for line in file if "libcupti.so" in line)


class Seen(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
                ("kernels", "apis", "others", "callbacks", "untimed", "start_ns", "end_ns", "joined", "buffers", "bytes", "thread")]


class Cupti:
    """Notes what CUPTI refuses, once a call."""

    def __init__(self):
        path = cupti_path()
        self.cost = ctypes.CDLL(LIBRARY)
        self.cost.cost_empty.restype = self.cost.cost_empty_threads.restype = ctypes.c_double
        self.cost.cost_clock.restype = ctypes.c_uint64
        if self.cost.cost_open(path.encode(), os.environ.get("CUDA", "libcuda.so.1").encode()):
            raise SystemExit(f"cannot load {path}")
        self.api = ctypes.CDLL(path)
        self.seen = Seen.in_dll(self.cost, "cost_seen")
        self.refused = {}

    def call(self, name, *arguments):
        """What it returns; None: this CUPTI does not have it."""
        function = getattr(self.api, name, None)
        result = function(*arguments) if function else None
        if result != 0:
            self.refused[f"{name}({', '.join(str(a) for a in arguments if isinstance(a, int))})"] = result
        return result

    def get(self, attribute):
        value, size = ctypes.c_uint64(0), ctypes.c_size_t(WIDTH.get(attribute, 8))
        return None if self.call("cuptiActivityGetAttribute", attribute, ctypes.byref(size), ctypes.byref(value)) \
            else value.value

    def set(self, attribute, value):
        what, size = ctypes.c_uint64(int(value)), ctypes.c_size_t(WIDTH.get(attribute, 8))
        if self.call("cuptiActivitySetAttribute", attribute, ctypes.byref(size), ctypes.byref(what)):
            self.refused[f"attribute {attribute} = {int(value)}"] = "refused"

    def begin(self, kinds=(CONCURRENT,), subscribe=None, calls=(), driver=(), runtime=(), attributes=None, scale=None,
              clock=False, latency=False, thread_id=False, filtered=False, linger=False):
        self.was, self.kinds, self.driver, self.runtime, self.latency = {}, kinds, driver, runtime, latency
        wanted = dict(attributes or {})
        if subscribe:
            self.refuse("cuptiSubscribe", self.cost.cost_subscribe(int(subscribe == "ours")))
        for attribute, factor in (scale or {}).items():
            wanted[attribute] = (self.get(attribute) or 0) * factor
        for attribute, value in wanted.items():
            self.was[attribute] = self.get(attribute)
            self.set(attribute, value)
        ctypes.c_int.in_dll(self.cost, "cost_zeroed").value = int(bool(wanted.get(ZEROED)))
        if thread_id:
            self.call("cuptiSetThreadIdType", 1)
        if clock:
            self.call("cuptiActivityRegisterTimestampCallback", self.cost.cost_clock)
        if kinds or driver or runtime:
            self.call("cuptiActivityRegisterCallbacks", self.cost.cost_request, self.cost.cost_complete)
        if latency:
            self.call("cuptiActivityEnableLatencyTimestamps", 1)
        for cbid in calls:
            self.refuse("cuptiEnableCallback", self.cost.cost_callback(1, cbid))
        for kind in kinds:
            self.call("cuptiActivityEnable", kind)
        if filtered:
            self.filter()
        self.records(1)
        if linger:
            self.end()

    def filter(self):
        """By themselves the switches of single functions record nothing (13.0): so all are on, and then off."""
        self.kinds = [*self.kinds, DRIVER, RUNTIME]
        for kind in (DRIVER, RUNTIME):
            self.call("cuptiActivityEnable", kind)
        for name, calls in (("cuptiActivityEnableDriverApi", DRIVER_CALLS), ("cuptiActivityEnableRuntimeApi", RUNTIME_CALLS)):
            function = getattr(self.api, name)
            for cbid in range(1, calls):
                function(cbid, 0)

    def refuse(self, name, result):
        if result:
            self.refused[name] = result

    def records(self, on):
        for cbid in self.driver:
            self.call("cuptiActivityEnableDriverApi", cbid, on)
        for cbid in self.runtime:
            self.call("cuptiActivityEnableRuntimeApi", cbid, on)

    def end(self):
        """Off, and everything handed over; CUPTI stays in."""
        self.records(0)
        for kind in self.kinds:
            self.call("cuptiActivityDisable", kind)
        if self.latency:
            self.call("cuptiActivityEnableLatencyTimestamps", 0)
        if self.kinds or self.driver or self.runtime:
            self.call("cuptiActivityFlushAll", 1)
        for attribute, value in self.was.items():
            if value is not None:
                self.set(attribute, value)
        self.kinds, self.driver, self.runtime, self.latency, self.was = [], [], [], False, {}

    def take_out(self):
        self.end()
        self.refuse("cuptiFinalize", self.cost.cost_finalize())

    def forget(self):
        ctypes.memset(ctypes.byref(self.seen), 0, ctypes.sizeof(self.seen))


class Work:
    """The loops. Each measurement: median milliseconds of a step, nanoseconds a launch, the same of threads."""

    def __init__(self, cupti, step):
        self.cupti, self.step, self.steps = cupti, step, 0

    def measure(self, seconds=STEPS_S, empty=EMPTY, threads=EMPTY_EACH):
        took, end = [], time.monotonic() + seconds
        while self.step and (time.monotonic() < end or len(took) < 2 * SETTLE):
            begin = time.perf_counter()
            self.step()
            took.append((time.perf_counter() - begin) * 1e3)
        self.steps += len(took)
        return (statistics.median(took[SETTLE:]) if took else 0, self.cupti.cost.cost_empty(ctypes.c_uint64(empty)),
                self.cupti.cost.cost_empty_threads(ctypes.c_uint64(threads), THREADS) if threads else 0)

    @staticmethod
    def empties():
        return 1000 + EMPTY + THREADS * EMPTY_EACH


def interval(values):
    """Median, and the order statistics around it: 93 to 95 %."""
    values = sorted(values)
    cut = max(0, int((len(values) - 1.96 * len(values) ** 0.5) / 2))
    return statistics.median(values), values[cut], values[-1 - cut]


def figure(values, form):
    middle, low, high = interval(values)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def training():
    """A step as train.py's, launch-bound, and what is needed to profile it. None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None, None
    return model.training(torch), torch


def context():
    """Without PyTorch: a context by the driver alone."""
    cuda, handle = ctypes.CDLL(os.environ.get("CUDA", "libcuda.so.1")), ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0) or cuda.cuCtxSetCurrent(handle):
        raise SystemExit("no context")


def clock_of(seen, since, until):
    """Which clock the stamps of kernels are from: (CLOCK_MONOTONIC, CLOCK_REALTIME) before and after."""
    if not seen.start_ns:
        return "no stamps"
    for name, begin, end in zip(("monotonic", "wall"), since, until):
        if begin - 10**7 <= seen.start_ns and seen.end_ns <= end + 10**7:
            return name
    return f"odd: {seen.start_ns} to {seen.end_ns} beside {since} to {until}"


def clocks():
    return time.monotonic_ns(), time.time_ns()


def turns():
    step, _ = training()
    if not step:
        context()
    cupti = Cupti()
    work = Work(cupti, step)
    names = [name for name in CONFIGS if os.environ.get("ONLY", "") in name]
    rounds = ROUNDS or 8
    never = [work.measure() for _ in range(rounds)]
    version = ctypes.c_uint32()
    cupti.call("cuptiGetVersion", ctypes.byref(version))
    print(f"CUPTI {version.value}; default attributes: "
          f"{ {a: cupti.get(a) for a in (DEVICE_BUFFER, DEVICE_POOL, ZEROED, PRE_ALLOCATE, PINNED, PER_THREAD)} }", flush=True)
    cupti.begin()
    cupti.take_out()
    found, told, off = {name: [] for name in names}, {}, [work.measure()]
    for turn in range(rounds):
        random.shuffle(names)
        for name in names:
            cupti.forget()
            steps, since, begun = work.steps, clocks(), time.perf_counter()
            cupti.begin(**CONFIGS[name])
            on_ms = (time.perf_counter() - begun) * 1e3
            result = work.measure()
            begun = time.perf_counter()
            cupti.take_out()
            off_ms = (time.perf_counter() - begun) * 1e3
            clock = clock_of(cupti.seen, since, clocks())
            cupti.cost.cost_join()
            off.append(work.measure())
            found[name].append([(r, (a + b) / 2) for r, a, b in zip(result, off[-2], off[-1])])
            s, steps = cupti.seen, work.steps - steps
            told[name] = (f"kernels {s.kernels} (empty ones {Work.empties()}, {(s.kernels - Work.empties()) / max(steps, 1):.1f} a "
                          f"step), api {s.apis} joined {s.joined}, other {s.others}, untimed {s.untimed}, {clock}, "
                          f"{s.buffers} buffers, on {on_ms:.1f} ms, out {off_ms:.1f} ms")
        print(f"round {turn + 1} of {rounds}", flush=True)
    print("refused:", cupti.refused)
    print(f"never in: step {figure([n[0] for n in never], '.3f')} ms, empty {figure([n[1] for n in never], '.0f')} ns, "
          f"{THREADS} threads {figure([n[2] for n in never], '.0f')} ns")
    print(f"out:      step {figure([n[0] for n in off], '.3f')} ms, empty {figure([n[1] for n in off], '.0f')} ns, "
          f"{THREADS} threads {figure([n[2] for n in off], '.0f')} ns")
    print(f"{'':34} {'step':>28} {'empty: ns more':>30} {'threads: ns more':>32}")
    for name in CONFIGS:
        if found.get(name):
            step_of, empty, threads = zip(*found[name])
            share = figure([100 * (a / b - 1) for a, b in step_of], "+.1f") + " %" if work.step else "-"
            print(f"{name:34} {share:>28} {figure([a - b for a, b in empty], '+.0f'):>30} "
                  f"{figure([a - b for a, b in threads], '+.0f'):>32}")
    for name in CONFIGS:
        if name in told:
            print(f"{name:34} {told[name]}")
    print("hardware trace with a context:", cupti.call("cuptiActivityEnableHWTrace", 1), flush=True)


def kinds():
    """Many short turns: a step varies by 10 % from one to the next, so only their number helps."""
    step, _ = training()
    if not step:
        context()
    cupti = Cupti()
    work = Work(cupti, step)
    names = [name for name in KINDS if os.environ.get("ONLY", "") in name]

    def measure():
        return work.measure(TURN_S, TURN_EMPTY, 0)

    cupti.begin()
    cupti.take_out()
    found, seen, off, end = {name: [] for name in names}, {name: [0] * 4 for name in names}, [measure()], time.monotonic() + KINDS_S
    for _ in range(ROUNDS or 50):
        random.shuffle(names)
        for name in names:
            cupti.forget()
            cupti.begin(**KINDS[name])
            result = measure()
            cupti.take_out()
            cupti.cost.cost_join()
            s = cupti.seen
            seen[name] = [a + b for a, b in zip(seen[name], (s.kernels, s.apis, s.joined, s.others))]
            off.append(measure())
            found[name].append([100 * (2 * r / (a + b) - 1) if a else 0 for r, a, b in zip(result, off[-2], off[-1])])
        if time.monotonic() > end:
            break
    print(f"{len(found[names[0]])} rounds; refused: {cupti.refused}")
    print(f"out: step {figure([n[0] for n in off], '.3f')} ms, empty {figure([n[1] for n in off], '.0f')} ns")
    print(f"{'':46} {'step':>28} {'more than ' + BASE:>34} {'empty':>28}  kernels, APIs, joined, others")
    for name in KINDS:
        if name in found:
            steps, empty = zip(*[turn[:2] for turn in found[name]])
            base = [turn[0] for turn in found.get(BASE, found[name])]
            more = [(100 + a) / (100 + b) * 100 - 100 for a, b in zip(steps, base)]
            print(f"{name:46} {figure(steps, '+.1f') + ' %':>28} {figure(more, '+.1f') + ' %':>34} {figure(empty, '+.1f') + ' %':>28}"
                  f"  {', '.join(map(str, seen[name]))}", flush=True)


def state():
    """What CUPTI answers to a kind that excludes another, while another user records and while it does not."""
    step, torch = training()
    if not step:
        context()
    cupti = Cupti()

    def answers():
        found = [cupti.call("cuptiActivityEnable", KERNEL), cupti.call("cuptiActivityDisable", KERNEL)]
        return f"KERNEL on {found[0]}, off {found[1]}"

    print(f"nobody records: {answers()}")
    for kind in (CONCURRENT, KERNEL):
        cupti.call("cuptiActivityEnable", kind)
        print(f"kind {kind} is on: {answers()}; again {cupti.call('cuptiActivityEnable', kind)}; "
              f"CONCURRENT_KERNEL {cupti.call('cuptiActivityEnable', CONCURRENT)}")
        for off in (CONCURRENT, KERNEL):
            cupti.call("cuptiActivityDisable", off)
    if not step:
        return
    from torch.profiler import ProfilerActivity, profile

    def profiled(ask):
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for turn in range(20):
                if ask and turn == 10:
                    print(f"torch.profiler records: {answers()}")
                step()
        events = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        print(f"profiled{', asked meanwhile' if ask else ''}: {len(events)} events; then {answers()}", flush=True)

    for ask in (False, True, False):
        profiled(ask)
    work = Work(cupti, step)
    for title, config in (("records of launches", LAUNCH_RECORDS), ("the same, our clock and thread ids", dict(LAUNCH_RECORDS, clock=True,
                                                                                               thread_id=True))):
        cupti.forget()
        steps = work.steps
        cupti.begin(**config)
        work.measure(empty=1000, threads=0)
        cupti.end()
        cupti.cost.cost_join()
        s = cupti.seen
        print(f"idle, no subscription, kernels and {title}: kernels {s.kernels} in {work.steps - steps} steps, APIs {s.apis}, joined "
              f"{s.joined}, thread {s.thread:#x} (ours {threading.get_native_id():#x}, pthread {threading.get_ident():#x})", flush=True)
        profiled(False)
    print("refused:", cupti.refused, flush=True)


def after():
    """torch.profiler is used once and leaves its subscription behind."""
    step, torch = training()
    if not step:
        print("needs PyTorch")
        return
    from torch.profiler import ProfilerActivity, profile

    def profiled():
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(20):
                step()
        events = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        return len(events), sum(e.time_range.elapsed_us() for e in events)

    def meanwhile():
        with profile(activities=[ProfilerActivity.CUDA]):
            return work.measure()

    cupti = Cupti()
    work = Work(cupti, step)
    never = [work.measure() for _ in range(4)]
    print(f"never: step {figure([n[0] for n in never], '.3f')} ms, empty {figure([n[1] for n in never], '.0f')} ns")
    print("profiled:", profiled())
    idle, alone, records, during = [], [], [], []
    for turn in range(4):
        during.append(meanwhile())
        idle.append(work.measure())
        print(f"subscribe answers {cupti.cost.cost_subscribe(0)}; buffers per thread {cupti.get(PER_THREAD)}")
        cupti.cost.cost_unsubscribe()
        for title, config, into in (("kernels", dict(clock=True), alone),
                                    ("kernels, both records", dict(clock=True, driver=LAUNCHES, runtime=RUNTIME_LAUNCHES), records)):
            cupti.forget()
            steps, since = work.steps, clocks()
            cupti.begin(**config)
            into.append(work.measure())
            cupti.end()
            clock = clock_of(cupti.seen, since, clocks())
            cupti.cost.cost_join()
            s = cupti.seen
            print(f"{title}: kernels {s.kernels} (empty ones {Work.empties()}, {(s.kernels - Work.empties()) / (work.steps - steps):.1f} "
                  f"a step), api {s.apis} joined {s.joined}, untimed {s.untimed}, {clock}")
        print("profiled again:", profiled(), flush=True)
    for title, values in (("while torch.profiler records", during), ("idle after it", idle), ("kernels", alone),
                          ("kernels, both records", records)):
        print(f"{title:28} step {figure([v[0] for v in values], '.3f')} ms, empty {figure([v[1] for v in values], '.0f')} ns")
    print("refused:", cupti.refused, flush=True)


def hardware():
    """It must be asked before there is a context, and so in a process of its own."""
    os.environ.setdefault("CUPTI", subprocess.run(
        "ls -d /usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1[0-9] /usr/local/cuda*/lib64/libcupti.so.1[0-9] 2>/dev/null | head -1",
        shell=True, capture_output=True, text=True).stdout.strip() or "libcupti.so.13")
    cupti = Cupti()
    answer = cupti.call("cuptiActivityEnableHWTrace", 1)
    print(f"hardware trace before the context: {answer}", flush=True)
    context()
    work = Work(cupti, None)
    off = [work.measure() for _ in range(4)]
    since = clocks()
    cupti.begin(clock=True)
    on = [work.measure() for _ in range(4)]
    cupti.end()
    s = cupti.seen
    print(f"empty: off {figure([v[1] for v in off], '.0f')} ns, with kernel records {figure([v[1] for v in on], '.0f')} ns; "
          f"kernels {s.kernels} of {4 * Work.empties()}, untimed {s.untimed}, {clock_of(s, since, clocks())}; refused {cupti.refused}",
          flush=True)


PARTS = {"turns": turns, "kinds": kinds, "state": state, "after": after, "hardware": hardware}


def main():
    if os.environ.get("COST_PART"):
        PARTS[os.environ["COST_PART"]]()
        return 0
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-I", ROOT, "-o", LIBRARY,
                    os.path.join(HERE, "cupti_cost.c"), "-lpthread", "-ldl"], check=True)
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                         text=True).stdout.strip() if "CUPTI" not in os.environ else "simulated", flush=True)
    failed = 0
    for part in sys.argv[1:] or PARTS:
        print(f"== {part}", flush=True)
        begin = time.monotonic()
        code = subprocess.run([sys.executable, __file__], env=dict(os.environ, COST_PART=part)).returncode
        print(f"== {part}: {time.monotonic() - begin:.0f} s, {'ok' if code == 0 else f'FAIL ({code})'}", flush=True)
        failed += code != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
