#!/usr/bin/python3
"""What viewers of `tsctl top` cost the daemon, in CPU time of a core per viewer: a daemon of its own with busy processes
of the simulated GPU, the same with and without viewers, several times in turn. And what a frame costs the viewer, on a
terminal of 250 by 70, with the streams of a process below a tree of all."""
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from screen import Screen  # noqa: E402
from tracesmith import Daemon, wait_for, workload  # noqa: E402

PROCESSES, VIEWERS, TURN_S, TURNS, FRAMES = 20, 60, 4, 4, 400
SUBSCRIBE = bytes([0x08, 1, 0x82, 0x01, 0])  # Request { id = 1, subscribe = {} }


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def turn(daemon, viewers):
    peers = []
    for _ in range(viewers):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(daemon.socket)
        peer.sendall(struct.pack("<I", len(SUBSCRIBE)) + SUBSCRIBE)
        peer.setblocking(False)
        peers.append(peer)
    before, begin, received = cpu_s(daemon.process.pid), time.monotonic(), 0
    while time.monotonic() < begin + TURN_S:
        time.sleep(0.2)
        for peer in peers:
            try:
                received += len(peer.recv(1 << 20))
            except BlockingIOError:
                pass
    used, passed = cpu_s(daemon.process.pid) - before, time.monotonic() - begin
    for peer in peers:
        peer.close()
    return used / passed, received / passed / max(viewers, 1)


def frame_s(daemon):
    """Each key draws all of it anew, in the other order."""
    screen = Screen(250, 70, "--socket", daemon.socket)
    try:
        screen.wait("CONTAINER")
        screen.type("t5")
        screen.wait(r"GPU 0 stream")
        before = cpu_s(screen.pid)
        for _ in range(FRAMES):
            seen = len(screen.raw)
            screen.type("r")
            wait_for("a frame", lambda seen=seen: screen.read() or len(screen.raw) > seen)
        return (cpu_s(screen.pid) - before) / FRAMES
    finally:
        screen.type("q")
        screen.wait_end()


def main():
    daemon = Daemon().start()
    programs = [workload("loop", "--threads", 1, "--seconds", 600, "--pace-ms", 500, stderr=subprocess.DEVNULL)
                for _ in range(PROCESSES)]
    try:
        wait_for("all processes", lambda: len(daemon.query("ps")) == PROCESSES)
        frame = frame_s(daemon)
        rows = [(turn(daemon, 0)[0], turn(daemon, 1)[0], turn(daemon, VIEWERS)) for _ in range(TURNS)]
    finally:
        for program in programs:
            program.kill()
            program.wait()
        daemon.close()
    none, one = (statistics.median(row[i] for row in rows) for i in (0, 1))
    many = statistics.median(row[2][0] for row in rows)
    print(f"{PROCESSES} processes: no viewer {none:.2%} of a core, one {one:.2%}, {VIEWERS} viewers {many:.2%}: "
          f"{(many - none) / VIEWERS:.3%} per viewer, {rows[0][2][1]:.0f} bytes/s each")
    print(f"{frame * 1000:.2f} ms of CPU time a frame of 250 x 70, mean of {FRAMES}")


main()
