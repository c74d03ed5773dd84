"""A terminal for `tsctl top`, and what it shows."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios

from tracesmith import BUILD, wait_for

TSCTL = os.path.join(BUILD, "tsctl")
SEQUENCE = re.compile(rb"\x1b\[([?>]?)([0-9;]*)([@-~])|\x1b[()][0A-Z]|\x1b[=>78M]|\x1b\][^\x07]*\x07")


class Screen:
    """What a program shows on a terminal: enough of xterm for what ncurses sends."""

    def __init__(self, width, height, *arguments, **environment):
        self.raw = b""
        self.size = (width, height)
        self.clear()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", **environment})
            self._tell(0)
            os.execv(TSCTL, ["tsctl", "top", *arguments])
        self._tell(self.fd)
        self.rest = b""
        self.status = None

    def _tell(self, fd):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", self.size[1], self.size[0], 0, 0))

    def clear(self):
        self.cell = [[" "] * self.size[0] for _ in range(self.size[1])]
        self.row = self.column = 0
        self.region = (0, self.size[1])  # that scrolls

    def scroll(self, top, lines):
        """Up; down if there are fewer than none."""
        bottom = self.region[1]
        blank = [[" "] * self.size[0] for _ in range(min(abs(lines), bottom - top))]
        if lines > 0:
            self.cell[top:bottom] = self.cell[top + len(blank):bottom] + blank
        else:
            self.cell[top:bottom] = blank + self.cell[top:bottom - len(blank)]

    def resize(self, width, height):
        self.size = (width, height)
        self.clear()
        self._tell(self.fd)
        os.kill(self.pid, signal.SIGWINCH)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                _, status = os.waitpid(self.pid, 0)
                self.status = os.waitstatus_to_exitcode(status)
                os.close(self.fd)
                return
            self.raw += data
            self.feed(data)

    def text(self):
        if self.status is None:
            self.read()
        return "\n".join("".join(row).rstrip() for row in self.cell)

    def wait(self, text):
        """Until it shows that; what it showed then is in `shown`."""
        def is_there():
            self.shown = self.text()
            return re.search(text, self.shown)

        try:
            wait_for(repr(text), is_there)
        except AssertionError as error:
            raise AssertionError(f"{error} on the screen:\n{self.shown}") from None

    def wait_end(self):
        wait_for("its end", lambda: self.text() is not None and self.status is not None)
        return self.status

    def feed(self, data):
        data = self.rest + data
        while data:
            if data[0] == 0x1b:
                found = SEQUENCE.match(data)
                if not found:
                    break
                self.steer(found)
                data = data[found.end():]
                continue
            length = 1 if data[0] < 0x80 else 2 if data[0] < 0xe0 else 3 if data[0] < 0xf0 else 4
            if len(data) < length:
                break
            self.put(data[:length].decode())
            data = data[length:]
        self.rest = data

    def put(self, what):
        if what == "\r":
            self.column = 0
        elif what == "\n":
            if self.row == self.region[1] - 1:
                self.scroll(self.region[0], 1)
            else:
                self.row = min(self.row + 1, self.size[1] - 1)
        elif what == "\t":
            self.column = min((self.column // 8 + 1) * 8, self.size[0] - 1)
        elif what == "\b":
            self.column = max(self.column - 1, 0)
        elif what >= " ":
            if self.row < self.size[1] and self.column < self.size[0]:
                self.cell[self.row][self.column] = what
                self.last = what
            self.column += 1

    def steer(self, found):
        if found.group() == b"\x1bM" and self.row == self.region[0]:
            self.scroll(self.row, -1)
        elif found.group() == b"\x1bM":
            self.row -= 1
        if found.group(3) is None or found.group(1):
            return
        number = [int(n or 0) for n in found.group(2).split(b";")]
        first, kind = number[0], found.group(3).decode()
        row, column = min(self.row, self.size[1] - 1), min(self.column, self.size[0] - 1)
        if kind == "H":
            self.row = max(first, 1) - 1
            self.column = max(number[1] if len(number) > 1 else 1, 1) - 1
        elif kind == "d":
            self.row = max(first, 1) - 1
        elif kind == "G":
            self.column = max(first, 1) - 1
        elif kind in "ABCD":
            down, right = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}[kind]
            self.row, self.column = self.row + down * max(first, 1), self.column + right * max(first, 1)
        elif kind == "J":
            for at in range(0 if first == 2 else row, self.size[1]):
                begin = column if at == row and first == 0 else 0
                self.cell[at][begin:] = [" "] * (self.size[0] - begin)
        elif kind == "K":
            begin, end = (column, self.size[0]) if first == 0 else (0, column + 1)
            self.cell[row][begin:end] = [" "] * (end - begin)
        elif kind == "X":
            end = min(column + first, self.size[0])
            self.cell[row][column:end] = [" "] * (end - column)
        elif kind == "P":
            line = self.cell[row]
            line[column:] = line[column + first:] + [" "] * min(first, self.size[0] - column)
        elif kind == "@":
            self.cell[row][column:column] = [" "] * max(first, 1)
            del self.cell[row][self.size[0]:]
        elif kind == "b":
            for _ in range(first):
                self.put(self.last)
        elif kind in "LMST":
            lines = max(first, 1)
            self.scroll(row if kind in "LM" else self.region[0], lines if kind in "MS" else -lines)
        elif kind == "r":
            self.region = (max(first, 1) - 1, number[1] if len(number) > 1 and number[1] else self.size[1])
            self.row = self.column = 0
        elif kind == "Z":
            self.column = (self.column - 1) // 8 * 8
