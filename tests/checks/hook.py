#!/usr/bin/python3
"""What runs in the program's own calls, in light mode, is libtracesmith.so's hook and all it calls.
The registers for vectors and floating point are the program's there, and a function of another
library may use them, be interposed or not yet be bound: so the hook has none of either, but for the
few calls that are known to be harmless. A thread's seccomp filter may kill for any system call that
the program itself does not make: the hook makes one, which every program makes."""

import os
import re
import subprocess
import sys

BUILD = os.environ["TS_BUILD"]
LIBRARY = os.path.join(BUILD, "libtracesmith.so")
HOOK = "tracesmith_light"
CALLED = {"clock_gettime", "__stack_chk_fail"}  # the clock is the vDSO's
# An unoptimized build, which nobody runs, calls these for what is elsewhere one instruction or two.
COPIES = {"memcpy", "memset"}
# rt_sigprocmask, its number as it stands right before it.
SYSTEM_CALL = re.compile(r"^(syscall|sysenter|int\s+\$0x80)\b")
NUMBER = re.compile(r"^mov\s+\$0xe,%eax$")
# The walk calls the interpreter's Py_IsInitialized(): it reads a variable.
INDIRECT = {"walk_python": 1}
# What must be among it, or it is not the hook that was looked at.
PARTS = {"walk_call", "walk_python", "walk_role", "walk_keep", "walk_path_find", "light_copy", "link_begin"}

FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
TARGET = re.compile(r"^(?:bnd )?(call|j\w+)\s+[0-9a-f]+ <([^>+]+)(\+0x[0-9a-f]+)?>")
VECTOR = re.compile(r"%([xyz]?mm\d+|st\b|k[0-7]\b)|^(f\w+|emms|vzeroupper)\b")
INDIRECTLY = re.compile(r"^(?:bnd |notrack )?(call|jmp)\s+\*")


def functions():
    """The instructions of each function, by its name. The compiler's parts have the same."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", LIBRARY], capture_output=True,
                          text=True, check=True).stdout
    found, instructions = {}, None
    for line in text.splitlines():
        head = FUNCTION.match(line)
        if head:
            instructions = found.setdefault(head[1], [])
        elif instructions is not None and "\t" in line:
            instructions.append(line.split("\t", 1)[1].strip())
    return found


def is_optimized():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
        return "CMAKE_BUILD_TYPE:STRING=Debug\n" not in cache


def is_sanitized():
    symbols = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True).stdout
    return "__asan_" in symbols or "__tsan_" in symbols


def look(code, name, harmless):
    """What a function has that it may not have, and which others it leads to."""
    findings, leads, indirect, before = [], set(), 0, ""
    for instruction in code[name]:
        target = TARGET.match(instruction)
        if SYSTEM_CALL.match(instruction) and not NUMBER.match(before):
            findings.append(f"{name}: a system call after '{before}'")
        before = instruction
        if VECTOR.search(instruction):
            findings.append(f"{name}: {instruction}")
        indirect += bool(INDIRECTLY.match(instruction))
        if not target or target[2] == name:
            continue
        if target[2].endswith("@plt"):
            if target[2].removesuffix("@plt") not in harmless:
                findings.append(f"{name} calls {target[2]}")
        elif target[2] not in code:
            findings.append(f"{name} leads to {target[2]}, of which nothing is known")
        else:
            leads.add(target[2])
    # Compilers make jump tables of a switch.
    if indirect > INDIRECT.get(name.split(".")[0], 0):
        findings.append(f"{name} has {indirect} calls or jumps to who knows where")
    return findings, leads


if is_sanitized():
    print("hook: with a sanitizer, any code calls it")
    sys.exit(77)
allowed = CALLED if is_optimized() else CALLED | COPIES
instructions_of = functions()
todo, seen, wrong = [HOOK], set(), []
while todo:
    function = todo.pop()
    if function in seen:
        continue
    seen.add(function)
    new, called = look(instructions_of, function, allowed)
    wrong += new
    todo += called
wrong += [f"{part} is not called" for part in sorted(PARTS - seen)]
for finding in wrong:
    print(finding)
print(f"hook: {len(seen)} functions, {len(wrong)} findings")
sys.exit(1 if wrong else 0)
