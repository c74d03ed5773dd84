#!/usr/bin/python3
"""Programs that were built with libtracesmith-client work with the one that the build directory ($TS_BUILD) has:
abidiff finds nothing but what tests/data has of it. `abi.py --write` takes a new function over."""

import os
import shutil
import subprocess
import sys
import tempfile

import tree

LIBRARY = os.path.join(os.environ["TS_BUILD"], "libtracesmith-client.so")
HEADERS = tree.ROOT / "client/library"
KEPT = tree.ROOT / "tests/data/libtracesmith-client.abi"
DUMP = ("abidw", "--headers-dir", HEADERS, "--drop-private-types", "--drop-undefined-syms", "--exported-interfaces-only",
        "--no-elf-needed", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-write-default-sizes",
        "--type-id-style", "hash", LIBRARY, "--out-file")
ERROR = 3  # of abidiff's exit status, as its manual has it


def difference():
    """Between dumps: of a dump and a library, abidiff leaves out what it thinks private in either."""
    with tempfile.NamedTemporaryFile(suffix=".abi") as dump:
        subprocess.run([*DUMP, dump.name], check=True)
        found = subprocess.run(["abidiff", KEPT, dump.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               check=False)
    if found.returncode & ERROR:
        yield f"abidiff failed: {found.stdout}"
    elif found.returncode:
        yield (f"{found.stdout}The library is not that of {KEPT.name}. Programs go on with added functions: run abi.py --write. "
               "What they would break of gets another name, or all of it SOVERSION 2.")


if not shutil.which("abidiff"):
    print("skipped: there is no abidiff (apt install abigail-tools)")
    sys.exit(77)
if sys.argv[1:] == ["--write"]:
    sys.exit(subprocess.run([*DUMP, KEPT], check=False).returncode)
tree.finish("abi", 1, list(difference()))
