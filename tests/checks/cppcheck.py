#!/usr/bin/python3
"""cppcheck finds nothing in what the build directory ($TS_BUILD) compiles."""

import json
import os
import subprocess
import tempfile

import tree

build = os.environ["TS_BUILD"]
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
    commands = json.load(file)
# Generated sources are not ours to mend.
ours = [c for c in commands if not c["file"].startswith(build + "/")]
with tempfile.NamedTemporaryFile("w", suffix=".json") as project:
    json.dump(ours, project)
    project.flush()
    checked = subprocess.run(
        ["cppcheck", f"--project={project.name}", "--enable=warning,performance,portability",
         "--inline-suppr", "--library=posix", "--library=gnu",
         f"--suppress=*:{build}/*", "--quiet", "-j2", "--template={file}:{line}: {id}: {message}"],
        capture_output=True, text=True, check=False)
findings = checked.stderr.replace(f"{tree.ROOT}/", "").splitlines()
if checked.returncode and not findings:
    findings = [checked.stdout.strip()]
tree.finish("cppcheck", len(ours), findings)
