#!/usr/bin/python3
"""The C sources are formatted as .clang-format says, and no line is over 100 columns."""

import subprocess

import tree

COLUMNS_MAX = 100


def long_lines(name):
    for number, line in enumerate((tree.ROOT / name).read_text().splitlines(), 1):
        if len(line.expandtabs(8)) > COLUMNS_MAX:
            yield f"{name}:{number}: over {COLUMNS_MAX} columns"


names = tree.files(".c", ".h")
formatted = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=tree.ROOT,
                           capture_output=True, text=True, check=False)
findings = [line for line in formatted.stderr.splitlines() if ": error:" in line]
if formatted.returncode and not findings:
    findings = [formatted.stderr.strip() or "clang-format failed"]
tree.finish("format", len(names), findings + [f for n in names for f in long_lines(n)])
