#!/usr/bin/python3
"""What a scrape of `tsctl serve` takes with a hundred processes of the simulated GPU, how large it is, and what memory the server
holds: at first, after 200 scrapes, and with 50 viewers at once that ask for the timeline and read nothing."""
import os
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from tracesmith import BUILD, Daemon, wait_for, workload  # noqa: E402

PROCESSES, SCRAPES, VIEWERS = 100, 200, 50


def held_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmRSS:\s*(\d+) kB", file.read())[1]) / 1024


def scrape(url):
    begin = time.monotonic()
    with urllib.request.urlopen(url) as answer:
        text = answer.read()
    return (time.monotonic() - begin) * 1000, len(text)


def viewers(url, token):
    peers = []
    for _ in range(VIEWERS):
        peer = socket.create_connection((url.hostname, url.port))
        peer.sendall(f"GET /t/{token}/timeline?since=-60000000000&columns=4096 HTTP/1.1\r\nHost: localhost:{url.port}\r\n\r\n".encode())
        peers.append(peer)
    return peers


def main():
    daemon = Daemon().start()
    programs = [workload("loop", "--threads", 1, "--seconds", 600, "--pace-ms", 500, stderr=subprocess.DEVNULL)
                for _ in range(PROCESSES)]
    server = subprocess.Popen([os.path.join(BUILD, "tsctl"), "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                              text=True, env=dict(os.environ, TRACESMITH_SOCKET=daemon.socket))
    try:
        wait_for("all processes", lambda: len(daemon.query("ps")) == PROCESSES)
        page = urllib.parse.urlsplit(server.stdout.readline().strip())
        metrics = f"http://127.0.0.1:{page.port}/metrics?{page.query}"
        wait_for("their calls", lambda: urllib.request.urlopen(metrics).read().count(b"tracesmith_process_info{") >= PROCESSES)
        first = held_mib(server.pid)
        took, size = zip(*(scrape(metrics) for _ in range(SCRAPES)))
        after = held_mib(server.pid)
        peers = viewers(page, urllib.parse.parse_qs(page.query)["token"][0])
        beside, _ = zip(*(scrape(metrics) for _ in range(SCRAPES // 4)))
        many = held_mib(server.pid)
        for peer in peers:
            peer.close()
    finally:
        server.terminate()
        server.wait()
        for program in programs:
            program.kill()
            program.wait()
        daemon.close()
    print(f"{PROCESSES} processes: a scrape {statistics.median(took):.1f} ms, of 100 the worst {sorted(took)[-SCRAPES // 100]:.1f} ms, "
          f"{max(size) / 1024:.0f} KiB; beside {VIEWERS} viewers {statistics.median(beside):.1f} ms")
    print(f"the server holds {first:.1f} MiB, {after:.1f} after {SCRAPES} scrapes, {many:.1f} with {VIEWERS} viewers")


main()
