#!/usr/bin/python3
"""The client writes no SQL: it asks the store's queries by name. The files that still write some are listed;
none may be added, and one that is done leaves the list."""

import re

import tree

STILL = {
    "client/diff/ask.c",
    "client/record/sql.c", "client/replay/play.c", "client/trace/meta_load.c",
    "client/trace/trace.c", "client/verbs/info.c",
}
# What shows a user how to ask.
EXAMPLE = re.compile(r"tsctl sql ['\\\"]+SELECT")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
SQL = re.compile(r"\b(SELECT\b.|INSERT (OR|INTO)|DELETE FROM|UPDATE \w+ SET|CREATE (TABLE|INDEX|VIEW)|PRAGMA \w)")

found = {}
names = [n for n in tree.files(".c", ".h") if n.startswith("client/")]
for name in names:
    for number, line in enumerate((tree.ROOT / name).read_text().splitlines(), 1):
        if any(SQL.search(text) for text in STRING.findall(line) if not EXAMPLE.search(text)):
            found.setdefault(name, number)
findings = [f"{name}:{number}: SQL in the client: make it a query, core/store/query/NAME.sql"
            for name, number in found.items() if name not in STILL]
findings += [f"{name}: has no SQL any more, so it leaves the list in tests/checks/sql.py"
             for name in sorted(STILL - set(found))]
tree.finish("sql", len(names), findings)
