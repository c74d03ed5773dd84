"""With call frame information the stacks of programs without frame pointers are whole, and equal to what the C
library finds; also where rules are learned, forgotten or missing."""
import json
import os
import struct
import subprocess
import tempfile

import tracesmith
from tracesmith import BUILD, library, wait_for

TARGET = os.path.join(BUILD, "tests/unit/unwind_target")
# Stacks that no rule or frame pointer leads out of end in their second frame behind the call.
ENDS = {"compiled-bare": 3, "unknown": 3}
PYTHON = """
import ctypes, threading
driver = ctypes.CDLL(%r)
assert driver.cuInit(0) == 0
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
def inner(n, size):
    if n:
        return max([n], key=lambda _: inner(n - 1, size))
    driver.cuCtxSetCurrent(context)
    assert driver.cuMemAlloc_v2(ctypes.byref(memory), size) == 0
    print("python", size)
inner(3, 4096)
thread = threading.Thread(target=inner, args=(2, 8192))
thread.start()
thread.join()
print("end", flush=True)
input()
"""


def truth(directory, name):
    """The return addresses that the C library found, without those of the function that looked and of its call."""
    with open(os.path.join(directory, name), "rb") as file:
        head = file.read(56)
        count = struct.unpack_from("<I", head, 48)[0]
        return struct.unpack(f"<{count}Q", file.read(8 * count))[2:]


class Unwind(tracesmith.Case):
    settings = "[probe]\nunwind = eh-frame\nstack_depth = 127"

    def start(self, *arguments):
        return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library())))

    def round(self, process, before):
        """Lets it go through all; the size of each allocation by name, when all of them are known."""
        sizes = {}
        for line in iter(process.stdout.readline, "end\n"):
            name, size = line.split()
            sizes[name] = int(size)
            before += 1
        wait_for("its stacks", lambda: self.daemon.sql(
            f"SELECT count(*) AS n FROM op WHERE pid = {process.pid} AND kind = 'alloc'"
            " AND stack IN (SELECT stack FROM frame)")[0]["n"] == before)
        process.stdin.write("\n")
        process.stdin.flush()
        return sizes, before

    def frames(self, pid, size):
        """Addresses and names of the stack of an allocation."""
        rows = self.daemon.sql("SELECT frame.address, symbol FROM frame JOIN op ON frame.stack = op.stack WHERE op.pid ="
                               f" {pid} AND op.kind = 'alloc' AND op.bytes = {size} ORDER BY depth")
        return tuple(row["address"] for row in rows), [row["symbol"] for row in rows]

    def unwound(self):
        return next(row["value"] for row in json.loads(self.daemon.ctl("status", "--json").out)["rows"]
                    if (row["section"], row["name"]) == ("unwinding", "stacks"))

    def check_trap(self, name, frames, wanted):
        if name in ENDS:
            self.assertLessEqual(len(frames), ENDS[name])
        elif name != "compiled":  # there are more than the C library finds
            self.assertEqual(frames, wanted)
        self.assertEqual(frames[:len(wanted)], wanted[:len(frames)])

    def test_stacks_are_whole(self):
        with tempfile.TemporaryDirectory(prefix="tracesmith-unwind-") as directory:
            process = self.start(TARGET, directory, library())
            rounds, count, unwound = [], 0, []
            for _ in range(5):
                sizes, count = self.round(process, count)
                rounds.append(sizes)
                unwound.append(self.unwound())
            process.stdin.close()
            self.assertEqual(process.wait(20), 0)
            self.assertEqual(unwound[-1], unwound[-2], "nothing is left to be learned")
            self.assertGreater(len(rounds[0]), 12)
            for name in rounds[0]:
                with self.subTest(name):
                    first, last = (self.frames(process.pid, sizes[name])[0][2:] for sizes in (rounds[0], rounds[-1]))
                    self.check_trap(name, last, truth(directory, name))
                    if name != "signal-stack":  # the old stack is not in the copy
                        self.assertEqual(len(first), len(last))
        process = self.start("/usr/bin/python3", "-c", PYTHON % library())
        self.round(process, 0)
        process.stdin.close()
        self.assertEqual(process.wait(20), 0)
        for size in (4096, 8192):
            _, names = self.frames(process.pid, size)
            self.assertGreater(names.count("_PyEval_EvalFrameDefault"), 1)
            self.assertEqual(names[0], "cuMemAlloc_v2")
            if size == 4096:
                self.assertEqual(names[-1], "_start")


if __name__ == "__main__":
    tracesmith.main()
