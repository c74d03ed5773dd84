#!/usr/bin/python3
"""What an attacker of a program that reads hostile bytes has to get past is in the programs that the
build directory ($TS_BUILD) has, and in the libraries that live in others."""

import os
import subprocess

import tree

BUILD = os.environ["TS_BUILD"]
PROGRAMS = ("tracesmithd", "tsctl", "tracesmith-ship")
LIBRARIES = ("libtracesmith.so", "libtracesmith-client.so")


def readelf(name, *options):
    return subprocess.run(["readelf", "-W", *options, os.path.join(BUILD, name)], capture_output=True,
                          text=True, check=True).stdout


def missing(name):
    segments, dynamic, symbols = readelf(name, "-l"), readelf(name, "-d"), readelf(name, "--dyn-syms")
    if name in PROGRAMS and "PIE" not in dynamic:
        yield "is not position-independent (-pie)"
    if "GNU_RELRO" not in segments or "NOW" not in dynamic:
        yield "has no full RELRO (-z relro -z now)"
    stack = [line for line in segments.splitlines() if "GNU_STACK" in line]
    if len(stack) != 1 or "RWE" in stack[0]:
        yield "has an executable stack"
    if "__stack_chk_fail" not in symbols:
        yield "has no stack protector (-fstack-protector-strong)"
    if "_chk@" not in symbols.replace("__stack_chk_fail@", ""):
        yield "is not fortified (_FORTIFY_SOURCE)"


names = (*PROGRAMS, *LIBRARIES)
tree.finish("hardening", len(names), [f"{name} {what}" for name in names for what in missing(name)])
