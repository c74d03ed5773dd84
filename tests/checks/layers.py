#!/usr/bin/python3
"""Every #include obeys the layers: a folder sees itself and what lies below it. And no two files need
each other, but for the circles that are known. What answers clients speaks no client's language."""

import re
from collections import defaultdict

import tree

# folder: what of ours it may include beside itself (a folder, or one file).
MAY_INCLUDE = {
    "daemon": ["core", "proto"],
    "client": ["core", "proto"],
    "proto": [],
    "bpf": ["proto/event.h", "proto/python.h", "proto/rule.h", "proto/stack_id.h"],
    "inject": ["proto", "core/base/array.h", "core/base/clock.h", "core/base/time.h"],
    "core": ["proto"],
    "core/base": [],
    "core/leak": ["core/base"],
    "core/memory": ["core/base"],
    "core/model": ["core/base", "core/leak", "core/memory", "proto"],
    "core/sbt": ["core/base", "core/model", "proto"],
    "core/plan": ["core/base", "core/model", "proto"],
    "core/replay": ["core/base", "core/model", "core/plan", "proto"],
    "core/waste": ["core/base", "core/model/op.h", "core/model/function.h"],
    "core/price": ["core/base", "core/model/core.h"],
    "core/store": ["core", "proto"],
    "core/store/file": ["core"],
    "core/store/query": ["core", "proto"],
    "daemon/library": ["core", "proto", "bpf/probe.h"],
    "daemon/proc": ["core", "daemon/helper/confine.h", "daemon/helper/spawn.h", "daemon/library", "proto"],
    "daemon/helper": ["core"],
    "daemon/maps": ["core", "daemon/broker/event.h", "daemon/helper", "daemon/library", "daemon/proc", "proto"],
    "daemon/elf": ["core"],
    "daemon/python": ["core", "daemon/elf", "daemon/helper", "daemon/maps", "daemon/proc", "bpf/probe.h", "proto"],
    "daemon/symbol": ["core", "daemon/elf", "daemon/helper", "daemon/maps", "daemon/proc", "proto"],
    "daemon/unwind": ["core", "daemon/elf", "daemon/maps", "bpf/probe.h", "proto"],
    "daemon/intake": ["core", "proto"],
    "daemon/broker": ["core", "daemon/helper/spawn.h", "daemon/helper/confine.h", "daemon/helper/own.h", "daemon/library", "proto", "bpf/probe.h",
                      "bpf/held.skel.h", "bpf/hooked.skel.h", "bpf/probe.skel.h", "bpf/task.skel.h"],
    "daemon/probe": ["core", "daemon/broker", "daemon/elf", "daemon/library", "daemon/intake", "daemon/proc", "proto", "bpf/held.h", "bpf/hooked.h", "bpf/probe.h", "bpf/probe.skel.h"],
    "daemon/price": ["core", "daemon/helper/own.h", "daemon/helper/spawn.h", "daemon/library", "daemon/probe", "daemon/proc", "proto"],
    "daemon/inject": ["core", "daemon/intake", "daemon/proc", "proto"],
    "daemon/attach": ["core", "daemon/elf", "daemon/library", "daemon/maps", "daemon/proc", "proto"],
    "daemon/query": ["core", "daemon/helper", "proto"],
    "daemon/api": ["core", "daemon/helper", "daemon/proc", "daemon/query", "proto"],
    "daemon/live": ["core", "proto"],
    "daemon/light": ["core", "daemon/attach", "daemon/library", "daemon/maps", "daemon/proc", "daemon/probe/site.h", "bpf/probe.h", "proto"],
    "daemon/native": ["core", "daemon/broker", "daemon/maps", "daemon/proc", "daemon/symbol/names.h", "daemon/unwind", "bpf/task.h", "proto"],
    "daemon/stack": ["core", "daemon/api", "daemon/helper", "daemon/library", "daemon/maps", "daemon/native", "daemon/probe/probe.h", "daemon/proc", "daemon/python", "daemon/unwind/walk.h", "proto"],
    "daemon/exact": ["core", "daemon/api", "daemon/attach", "daemon/helper", "daemon/light", "daemon/inject", "daemon/proc", "daemon/intake",
                     "daemon/probe", "proto"],
    "client/base": ["core", "proto"],
    "client/output": ["client/base", "core", "proto"],
    "client/library": ["core/base", "proto"],
    "client/link": ["client/library", "client/output", "client/base", "core", "proto"],
    "client/trace": ["client/link", "client/output", "client/base", "core", "proto"],
    "client/export": ["client/trace", "client/output", "client/base", "core", "proto"],
    "client/file": ["client/trace", "client/link", "client/base", "core", "proto"],
    "client/record": ["client/library", "client/trace", "client/link", "client/output", "client/base", "core", "proto"],
    "client/cost": ["client/link", "client/output", "client/base", "core", "proto"],
    "client/diff": ["client/link", "client/output", "client/base", "core", "proto"],
    "client/graph": ["client/export", "client/trace", "client/output", "client/base", "core", "proto"],
    "client/view": ["client/export", "client/trace", "client/link", "client/output", "client/base", "core", "proto"],
    "client/replay": ["client/record", "client/export", "client/trace", "client/link", "client/output", "client/base",
                      "core", "proto"],
    "client/reissue": ["client/trace", "client/link", "client/output", "client/base", "core", "proto"],
    "client/serve": ["client/ship/status.h", "client/graph", "client/replay", "client/trace", "client/link", "client/output", "client/base", "core", "proto"],
    "client/top": ["client/link", "client/output", "client/base", "core", "proto"],
    "client/ship": ["client/export/gzip.h", "client/library/connection.h", "client/output/out.h", "core", "proto"],
    "client/fleet": ["client/export", "client/trace", "client/output", "client/base", "core", "proto"],
    "client/python": ["client/link/wording.h", "proto"],
    "client/verbs": ["client", "core", "proto"],
}
# Whose own files (main.c, daemon.c) see all that lies in them.
WHOLE = ("daemon", "client")
# Bounds stand in one file, whoever keeps them.
ALL_SEE = {"core": ["core/limits.h"], "daemon": ["daemon/limits.h"]}
# What is pure opens no files and starts no threads, and but for base/ it gets the time as an argument.
PURE = ["sqlite3.h", "pthread.h", "threads.h", "fcntl.h"]
# Headers that a folder must not use, nor what lies in it.
MAY_NOT_USE = {
    "proto": ["uv.h", "sqlite3.h", "bpf/", "pthread.h"],
    "core": ["uv.h", "bpf/", "sys/socket.h"],
    "core/base": PURE,
    **{f"core/{part}": [*PURE, "time.h", "core/base/clock.h"] for part in ("leak", "memory", "model", "sbt", "plan", "price", "replay")},
    "inject": ["uv.h", "sqlite3.h", "bpf/", "protobuf-c/"],
    "client": ["uv.h", "bpf/"],
}
# Files that need each other. To be opened when one is worked on; none may be added to.
CIRCLES = [
    "core/model/answer core/model/busy core/model/call core/model/caller core/model/collective "
    "core/model/communicator core/model/context "
    "core/model/core core/model/correlate core/model/edges core/model/exact core/model/gpu_event "
    "core/model/gpu_pool core/model/lane core/model/loss core/model/mapping core/model/memory "
    "core/model/mempool core/model/model core/model/name core/model/process core/model/range "
    "core/model/rollup core/model/state core/model/stream core/model/sweep core/model/thread "
    "core/model/timeline core/model/track",
    "core/sbt/codec core/sbt/column core/sbt/sbt",
    "core/sbt/rows core/sbt/rows_format",
    "core/plan/build core/plan/plan",
    "core/store/retain core/store/schema core/store/store core/store/store_private core/store/writer",
    "core/store/query/answer core/store/query/query",
    "core/replay/check core/replay/check_lanes",
    "core/replay/lane core/replay/queue core/replay/replay",
    "daemon/api/api daemon/api/internal",
    "daemon/attach/attach daemon/attach/internal",
    "daemon/probe/internal daemon/probe/probe",
    "daemon/inject/inject daemon/inject/internal",
    "daemon/exact/exact daemon/exact/internal",
    "daemon/price/internal daemon/price/price",
    "daemon/maps/ask daemon/maps/file daemon/maps/image daemon/maps/maps daemon/maps/state",
]
# Whose texts go to any client, as reasons that it words: they name no program's commands and options.
NEUTRAL = ("core/", "daemon/api/", "daemon/attach/", "daemon/stack/", "daemon/exact/", "daemon/inject/")
OF_A_CLIENT = re.compile(r'"[^"]*(?:\btsctl\b|(?<![^\s"\'])--[a-z])[^"]*"')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def above(name):
    """The folders in which a file lies, the innermost first."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def allowed(name, path):
    own = next(folder for folder in above(name) if folder in MAY_INCLUDE)
    if own in WHOLE and above(path)[-1] == own:
        return True
    entries = MAY_INCLUDE[own] + ALL_SEE.get(own.split("/", 1)[0], [])
    return any(path == entry or entry in above(path) for entry in entries) or \
        next((folder for folder in above(path) if folder in MAY_INCLUDE), None) == own


def includes(name):
    path = tree.ROOT / name
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            kind, header = match.groups()
            beside = path.parent / header
            ours = kind == '"' and beside.is_file()
            yield number, kind, str(beside.resolve().relative_to(tree.ROOT)) if ours else header


def check(name):
    banned = tuple(header for folder in above(name) for header in MAY_NOT_USE.get(folder, []))
    for number, kind, header in includes(name):
        if header.startswith(banned or ("\0",)):
            yield f"{name}:{number}: {name.rsplit('/', 1)[0]}/ must not use {header}"
        if kind == '"' and not allowed(name, header):
            yield f"{name}:{number}: {name.rsplit('/', 1)[0]}/ must not include {header}"


def check_words(name):
    if not name.startswith(NEUTRAL):
        return
    for number, line in enumerate((tree.ROOT / name).read_text().splitlines(), 1):
        if OF_A_CLIENT.search(line):
            yield f"{name}:{number}: names a command or option of a client: make it a reason (control.proto)"


def unit(name):
    return name.rsplit(".", 1)[0]


def circles(names):
    """The sets of units (a .c and its .h) each of which reaches all others (Tarjan)."""
    units, needs = {unit(name) for name in names}, defaultdict(set)
    for name in names:
        needs[unit(name)] |= {unit(h) for _, kind, h in includes(name) if kind == '"'} & units - {unit(name)}
    number, low, stack, found = {}, {}, [], []

    def visit(at):
        number[at] = low[at] = len(number)
        stack.append(at)
        for to in sorted(needs[at]):
            if to not in number:
                visit(to)
            if to in stack:
                low[at] = min(low[at], low[to])
        if low[at] == number[at]:
            circle = stack[stack.index(at):]
            del stack[stack.index(at):]
            if len(circle) > 1:
                found.append(sorted(circle))

    for start in sorted(units):
        if start not in number:
            visit(start)
    return found


def new_circles(names):
    for circle in circles(names):
        print(f"circle of {len(circle)}: {' '.join(circle)}")
        if not any(set(circle) <= set(known.split()) for known in CIRCLES):
            yield f"a new circle of files: {' '.join(circle)}"


names = [n for n in tree.files(".c", ".h") if n.split("/", 1)[0] in MAY_INCLUDE]
tree.finish("layers", len(names), [*(f for n in names for f in (*check(n), *check_words(n))), *new_circles(names)])
