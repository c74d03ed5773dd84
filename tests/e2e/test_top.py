#!/usr/bin/python3
"""tsctl top: on a terminal of any size, without a daemon, with another one, and once for scripts."""
import json
import os
import re
import signal
import subprocess
import threading

from screen import TSCTL, Screen
from tracesmith import Case, library, main, wait_for, workload


class Top(Case):
    standing = ("lib",)
    COLOUR = rb"\x1b\[(\d+;)*3[0-7]m"

    def screen(self, width=80, height=24, *arguments, **environment):
        screen = Screen(width, height, "--socket", self.daemon.socket, *arguments, **environment)
        self.addCleanup(lambda: screen.status is None and (os.kill(screen.pid, signal.SIGKILL), os.waitpid(screen.pid, 0)))
        return screen

    def start(self):
        process = workload("loop", "--threads", 1, "--seconds", 600, "--pace-ms", 2)
        self.addCleanup(self.end, process)
        wait_for("the process", lambda: self.daemon.known(process.pid))
        return process

    def test_a_screen(self):
        process = self.start()
        screen = self.screen()
        screen.wait(rf"{process.pid} .*probe .*loop")
        screen.wait(r"GPU 0 +<?\d+\.\d% ")
        screen.wait(rf"{process.pid} .*<\d+\.\d%.* \d\d+ +\d+% ")
        self.assertNotIn("CONTAINER", screen.text())
        screen.resize(250, 70)
        screen.wait("CONTAINER")
        screen.wait(str(process.pid))
        screen.resize(20, 5)
        screen.wait(r"(?s)\ATraceSmith: 1 proces\n.*PID")
        screen.resize(80, 24)
        screen.wait(str(process.pid))
        screen.type("?")
        screen.wait("choose a process")
        screen.type("?/nothing")
        screen.wait("No process matches")
        screen.type("\x1b")
        screen.wait(str(process.pid))
        screen.type("2")
        screen.wait(r"\[launches\](?s:.*)cuLaunchKernel")
        screen.type("5")
        screen.wait(r"(?s)\[streams\].*GPU 0 stream \d+ +<\d+\.\d% .*[▁-█]")
        screen.type("t")
        screen.wait(rf"{process.pid} .*probe .*loop")
        self.click(screen, "MEMORY")
        screen.wait("Sorted by memory")
        self.click(screen, "4 waits")
        screen.wait(r"\[waits\](?s:.*)cu\w+Synchronize")
        self.click(screen, "5 streams", button=65)  # the wheel moves lines, and chooses nothing
        screen.type("a")
        screen.wait(rf"Attach to process {process.pid} \(loop\)\? y/n")
        screen.type("n")
        screen.wait("q quit")
        self.assertRegex(screen.raw, self.COLOUR)
        self.replace_the_daemon(screen, process)
        screen.type("q")
        self.assertEqual(screen.wait_end(), 0)

    def click(self, screen, text, button=0):
        """With the mouse, as xterm reports it."""
        screen.wait(re.escape(text))
        row, line = next((row, line) for row, line in enumerate(screen.shown.split("\n")) if text in line)
        at = f"{button};{line.index(text) + 1};{row + 1}"
        screen.type(f"\x1b[<{at}M" + (f"\x1b[<{at}m" if button == 0 else ""))

    def replace_the_daemon(self, screen, process):
        self.daemon.stop()
        screen.wait("No daemon listens on")
        self.daemon.start()
        screen.wait(rf"{process.pid} .*probe .*loop")
        wait_for("the sentence to go", lambda: "No daemon" not in screen.text())

    def runs(self, said, process):
        """Whether it has, in the second that is told."""
        row = next((row for row in said["processes"] if row["pid"] == process.pid), None)
        device = next((row for row in said["devices"] if row["device"] == 0), None)
        return row and device and row["busy"] > 0 and row["launches_per_s"] > 1 and device["busy"] > 0 and device["copies_per_s"] > 1

    def test_sizes_of_devices_in_the_probe_tier(self):
        """Of a device in use it is what the program learned; asking for it is no use."""
        script = ("import ctypes\n"
                  f"driver = ctypes.CDLL({library()!r})\n"
                  "size, context, address = ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_uint64()\n"
                  "assert driver.cuInit(0) == 0\n"
                  "for device in range(2):\n"
                  "    assert driver.cuDeviceTotalMem_v2(ctypes.byref(size), device) == 0\n"
                  "print(size.value, flush=True)\n"
                  "assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0\n"
                  "assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0\n"
                  "input()")
        process = subprocess.Popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        size = int(process.stdout.readline())
        def told():
            said = json.loads(self.daemon.ctl("top", "--json").out)
            devices = {row["device"]: row for row in said["devices"]}
            return devices.get(0, {}).get("live_bytes") and devices
        devices = wait_for("the allocation", told)
        self.assertEqual((list(devices), devices[0]["memory_bytes"], devices[0]["live_bytes"]), ([0], size, 1 << 20))

    def test_once_and_where_there_is_no_screen(self):
        process = self.start()
        answers = {}

        def ask(name, *arguments):
            answers[name] = self.daemon.ctl("top", *arguments)
        asking = [threading.Thread(target=ask, args=each) for each in (("json", "--json"), ("once", "--once"))]
        for each in asking:
            each.start()
        dumb = self.screen(80, 24, TERM="dumb")
        self.assertEqual(dumb.wait_end(), 1)
        self.assertEqual(dumb.raw.strip(), b"tsctl: A terminal of type 'dumb' cannot show a screen: use "
                         b"'tsctl top --once', or set TERM")
        plain = self.screen(80, 24, NO_COLOR="1", LC_ALL="C")
        plain.wait(rf"{process.pid} .*loop")
        plain.type("q")
        self.assertEqual(plain.wait_end(), 0)
        self.assertNotRegex(plain.raw, self.COLOUR)
        self.assertNotRegex(plain.raw, rb"[\x80-\xff]")
        for each in asking:
            each.join()
        self.assertEqual(answers["json"].code, 0, answers["json"].err)
        said = json.loads(answers["json"].out)
        row = next(row for row in said["processes"] if row["pid"] == process.pid)
        self.assertEqual((row["comm"], row["tier"], row["busy_at_most"]), ("loop", "probe", True))
        self.assertTrue(row["busy"] <= 1 and row["live_bytes"] > 0, row)
        if not self.runs(said, process):
            wait_for("a second in which it ran", lambda: self.runs(json.loads(self.daemon.ctl("top", "--json").out), process))
        self.assertRegex(answers["once"].out, rf"(?m)^ *{process.pid} .*probe .*loop$")
        none = subprocess.run([TSCTL, "top", "--once", "--socket", "/nowhere"], capture_output=True, text=True)
        self.assertEqual(none.returncode, 1)
        self.assertRegex(none.stderr, r"\Atsctl: No daemon listens on /nowhere: .*\n\Z")
        none = subprocess.run([TSCTL, "top"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((none.returncode, none.stderr.count("\n")), (1, 1))


main()
