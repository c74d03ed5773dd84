#!/usr/bin/python3
"""No file over 600 lines, no function over 80."""

import json
import subprocess

import tree

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 80


def long_files(names):
    for name in names:
        lines = (tree.ROOT / name).read_text().count("\n")
        if lines > FILE_LINES_MAX:
            yield f"{name}: {lines} lines"


def long_functions(names):
    tags = subprocess.run(
        ["ctags", "--languages=C", "--langmap=C:.c.h", "--kinds-C=f", "--fields=+ne",
         "--output-format=json", "-f", "-", "-L", "-"],
        cwd=tree.ROOT, input="\n".join(names), capture_output=True, text=True, check=True)
    for tag in map(json.loads, tags.stdout.splitlines()):
        lines = tag["end"] - tag["line"] + 1 if "end" in tag else 0
        if lines > FUNCTION_LINES_MAX:
            yield f"{tag['path']}:{tag['line']}: {tag['name']} has {lines} lines"


names = tree.files(".c", ".h")
tree.finish("sizes", len(names), [*long_files(names), *long_functions(names)])
