#!/usr/bin/python3
"""The client writes no SQL of the store: it asks its queries by name."""

import re

import tree

# What shows a user how to ask.
EXAMPLE = re.compile(r"tsctl (?:fleet )?sql ['\\\"]+SELECT")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
SQL = re.compile(r"\b(SELECT\b.|INSERT (OR|INTO)|DELETE FROM|UPDATE \w+ SET|CREATE (TABLE|INDEX|VIEW)|PRAGMA \w)")

# What it says to ClickHouse is another matter.
CLICKHOUSE = ("client/ship/clickhouse.c",)

names = [n for n in tree.files(".c", ".h") if n.startswith("client/") and n not in CLICKHOUSE]
findings = []
for name in names:
    for number, line in enumerate((tree.ROOT / name).read_text().splitlines(), 1):
        if any(SQL.search(text) for text in STRING.findall(line) if not EXAMPLE.search(text)):
            findings.append(f"{name}:{number}: SQL in the client: make it a query, core/store/query/NAME.sql")
tree.finish("sql", len(names), findings)
