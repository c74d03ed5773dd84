#!/usr/bin/python3
"""clang warns of nothing in what the build directory ($TS_BUILD) compiles."""

import json
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import tree

BUILD = os.environ["TS_BUILD"]
# What gcc's command says of warnings that clang has no name for is passed over.
GCC_ONLY = {"-fno-ipa-icf", "-fno-schedule-insns2", "-fno-shrink-wrap"}
FLAGS = ["-fsyntax-only", "-Werror", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument"]


def warnings(entry):
    """The command with clang in the compiler's place, and nothing written."""
    words = shlex.split(entry["command"])
    while not os.path.basename(words[0]).startswith(("cc", "gcc", "clang", "x86_64")) or words[0].endswith("ccache"):
        words.pop(0)
    output = words.index("-o")
    words = [word for word in words[1:output] + words[output + 2:] if word not in GCC_ONLY]
    done = subprocess.run([CLANG, *words, *FLAGS], cwd=entry["directory"],
                          capture_output=True, text=True, check=False)
    return done.stderr.replace(f"{tree.ROOT}/", "") if done.returncode else ""


CLANG = next(name for name in ("clang", "clang-14", "clang-16", "clang-19")
             if subprocess.run(["which", name], capture_output=True, check=False).returncode == 0)
with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
    commands = json.load(file)
# Generated sources lie in the build directory and are not ours to fix.
ours = [c for c in commands if not c["file"].startswith(BUILD) and c["file"].endswith(".c")]
with ThreadPoolExecutor(os.cpu_count()) as pool:
    findings = [text for text in pool.map(warnings, ours) if text]
tree.finish("clang", len(ours), findings)
