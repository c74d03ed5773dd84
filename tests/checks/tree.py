"""The files of this source tree that are ours: tracked, or new and not ignored."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GIT = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]


def files(*suffixes):
    """Paths relative to the root of the files with one of these suffixes, sorted."""
    listed = subprocess.run(
        [*GIT, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # a source tarball
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                 if not p.relative_to(ROOT).parts[0] in ("build", ".git")]
    return sorted(n for n in set(names) if n.endswith(suffixes) and (ROOT / n).is_file())


def finish(what, count, findings):
    """Prints the findings and exits with the test's status."""
    for finding in findings:
        print(finding)
    print(f"{what}: {count} files, {len(findings)} findings")
    sys.exit(1 if findings or not count else 0)
