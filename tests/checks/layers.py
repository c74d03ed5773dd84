#!/usr/bin/python3
"""Every #include obeys the layers: a folder sees itself and what lies below it."""

import re

import tree

# folder: what of ours it may include (a folder, or one file), and which libraries' headers not.
MAY_INCLUDE = {
    "proto": ["proto"],
    "core": ["core", "proto"],
    "bpf": ["bpf", "proto/event.h"],
    "inject": ["inject", "proto"],
    "daemon": ["daemon", "core", "proto", "bpf/probe.h", "bpf/probe.skel.h"],
    "client": ["client", "core", "proto"],
}
# Few files see more: a recording is asked by the engine of the daemon, and what it lacks is written by it.
MAY_ALSO_INCLUDE = {
    "client/file": ["daemon/query/query.h", "daemon/query/table.h", "daemon/store/condense.h",
                    "daemon/store/reader.h", "daemon/store/schema.h", "daemon/store/sql.h",
                    "daemon/store/tables.h"],
}
PURE = ["uv.h", "sqlite3.h", "bpf/", "pthread.h", "threads.h", "sys/socket.h", "fcntl.h"]
MAY_NOT_INCLUDE = {
    "proto": ["uv.h", "sqlite3.h", "bpf/", "pthread.h"],
    "core": PURE,
    "inject": ["uv.h", "sqlite3.h", "bpf/", "protobuf-c/"],
    "client": ["bpf/"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed(name, path):
    also = [entry for begin, entries in MAY_ALSO_INCLUDE.items() if name.startswith(begin) for entry in entries]
    return any(path == entry or path.startswith(entry + "/") for entry in MAY_INCLUDE[name.split("/", 1)[0]] + also)


def check(name):
    folder = name.split("/", 1)[0]
    path = tree.ROOT / name
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, header = match.groups()
        if kind == "<":
            if header.startswith(tuple(MAY_NOT_INCLUDE.get(folder, []))):
                yield f"{name}:{number}: {folder}/ must not use <{header}>"
            continue
        beside = path.parent / header
        ours = str(beside.resolve().relative_to(tree.ROOT)) if beside.is_file() else header
        if not allowed(name, ours):
            yield f"{name}:{number}: {folder}/ must not include {ours}"


names = [n for n in tree.files(".c", ".h") if n.split("/", 1)[0] in MAY_INCLUDE]
tree.finish("layers", len(names), [f for n in names for f in check(n)])
