#!/usr/bin/python3
"""cppcheck finds nothing in the product, as the build directory ($TS_BUILD) compiles it."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import tree

FOLDERS = ("proto", "core", "inject", "daemon", "client")
# Macros that it has to know to make sense of a file.
HEADERS = ["sys/queue.h", "bpf/libbpf_common.h"]
SUPPRESSED = [
    # It knows nothing of __attribute__((cleanup)). The address sanitizer looks for leaks.
    "memleak", "resourceLeak",
    # readdir_r is deprecated; users and groups are asked for by the loop's thread alone.
    "readdirCalled", "getpwuidCalled", "getgrnamCalled",
    # Arithmetic in gcc and clang: the sign of a zigzag number.
    "shiftTooManyBitsSigned:core/sbt/column.c",
    # A length of 0 asks getsockopt for the size.
    "nullPointer:daemon/api/peer.c",
    # Nobody wants to know the address of who connects.
    "nullPointer:daemon/inject/inject.c",
    # Written by a call among the same arguments, before it is read.
    "legacyUninitvar:client/output/json.c",
]
BUILD = os.environ["TS_BUILD"]


def header(name):
    folders = (Path("/usr/include"), *Path("/usr/include").glob("*-linux-gnu"))
    return next(str(folder / name) for folder in folders if (folder / name).exists())


with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
    commands = json.load(file)
# Generated sources are in the build directory and not ours to fix.
ours = [c for c in commands if c["file"].startswith(tuple(f"{tree.ROOT}/{f}/" for f in FOLDERS))]
with tempfile.NamedTemporaryFile("w", suffix=".json") as project:
    json.dump(ours, project)
    project.flush()
    checked = subprocess.run(
        ["cppcheck", f"--project={project.name}", "--enable=warning,performance,portability",
         "--inline-suppr", "--library=posix", "--library=gnu", "--quiet", "-j2",
         "--template={file}:{line}: {id}: {message}",
         *(f"--include={header(name)}" for name in HEADERS),
         f"--suppress=*:{BUILD}/*",
         *(f"--suppress={s.replace(':', f':{tree.ROOT}/')}" for s in SUPPRESSED)],
        capture_output=True, text=True, check=False)
findings = checked.stderr.replace(f"{tree.ROOT}/", "").splitlines()
if checked.returncode and not findings:
    findings = [checked.stdout.strip()]
tree.finish("cppcheck", len(ours), findings)
