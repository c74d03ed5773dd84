#!/usr/bin/python3
"""The page over a recording of ten million operations, in a headless Chromium that draws in software at 1600×900: how long
until it has painted, how long an answer of the timeline takes, and the frames while it is zoomed and moved. Needs Chromium
(apt install chromium). `page.py FILE.sbt` looks at another recording."""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.setdefault("TS_BUILD", str(ROOT / "build/release")))
os.environ.setdefault("TS_SOURCE", str(ROOT))
os.environ.setdefault("TS_FAKE", str(BUILD / "tests/fake"))
sys.path.insert(0, str(ROOT / "tests/e2e"))

import browser  # noqa: E402
import test_serve  # noqa: E402

OPS = 10_000_000
ROUNDS = 5
REST_S = 8  # more than it takes to give memory back
# Frames while something is done in each: their times, in milliseconds.
FRAMES = """
    new Promise((done) => {
        const times = [], canvas = document.querySelector('#lanes');
        let last = null, left = %d;
        const key = (name) => canvas.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
        const step = (now) => {
            if (last !== null)
                times.push(now - last);
            last = now;
            (%s)(left, key);
            left-- > 0 ? requestAnimationFrame(step) : done(times);
        };
        requestAnimationFrame(step);
    })"""
MOVES = [("zooming in and out", "(left, key) => key(left % 60 < 30 ? 's' : 'w')"), ("moving", "(left, key) => key(left % 40 < 20 ? 'a' : 'd')")]


def middle(values):
    return sorted(values)[len(values) // 2]


def recording(directory):
    """Workload W1, with the sums that a recording has."""
    plain, path = os.path.join(directory, "w1.sbt"), os.path.join(directory, "page.sbt")
    subprocess.run([BUILD / "tests/bench/bench_replay", plain, str(OPS)], check=True)
    subprocess.run([BUILD / "tsctl", "replay", plain, "--emulate", "-o", path], check=True, stdout=subprocess.DEVNULL)
    os.unlink(plain)
    return path


def held_mib(web):
    with open(f"/proc/{web.process.pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def ready(web):
    """The recording is opened at the first request."""
    start = time.monotonic()
    assert web.page("clock").status == 200
    return time.monotonic() - start


def first_paint(chromium, web):
    chromium.open(web.line)
    return chromium.js("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")


def show(what, value, unit):
    print(f"{what:44} {value:10.1f} {unit}")


def measure(path):
    web, chromium = test_serve.Web(None, path), browser.Browser()
    try:
        show("opening the recording", ready(web), "s")
        show("first paint", middle([first_paint(chromium, web) for _ in range(ROUNDS)]), "ms")
        extent = json.loads(web.page("extent").text)
        whole = extent["until"] - extent["since"]
        for name, part in (("all", 1), ("a tenth", 10), ("a thousandth", 1000)):
            took = []
            for _ in range(ROUNDS):
                start = time.monotonic()
                answer = web.page("timeline", since=extent["since"] + whole // 3, until=extent["since"] + whole // 3 + whole // part, columns=2400)
                took.append(1e3 * (time.monotonic() - start))
                assert answer.status == 200, answer.text
            show(f"timeline's answer for {name}", middle(took), f"ms, {len(answer.text) / 1e3:.0f} kB")
        chromium.js("location.hash = '#timeline'")
        chromium.wait("document.querySelector('#lanes').dataset.answers > 0")
        for name, move in MOVES:
            times = [took for _ in range(ROUNDS) for took in chromium.js(FRAMES % (240, move))]
            show(f"{name}: frames, middle", middle(times), "ms")
            show(f"{name}: frames, 99 %", sorted(times)[int(0.99 * len(times))], "ms")
            show(f"{name}: frames a second", 1e3 * len(times) / sum(times), "")
        show("tsctl serve, memory", held_mib(web), "MiB")
        assert chromium.complaints() == [], chromium.complaints()[0]
        chromium.js("location = 'about:blank'")
        time.sleep(REST_S)
        show("tsctl serve, memory once nobody asks", held_mib(web), "MiB")
    finally:
        chromium.close()
        web.process.terminate()
        web.process.wait()


def main():
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    with tempfile.TemporaryDirectory(prefix="tracesmith-page-") as directory:
        measure(recording(directory))


if __name__ == "__main__":
    main()
