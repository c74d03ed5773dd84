"""The .sbt format: a reader that was written from docs/sbt.md finds in a recording what ours finds,
in whole, cut off and damaged ones."""

import os
import subprocess
import sys
import tempfile
import unittest

try:
    import sbt_read
except ModuleNotFoundError as missing:
    print(f"skipped: {missing}; scripts/bootstrap installs it")
    sys.exit(77)

MAKE_SBT = sys.argv.pop(1)
SBT_READ = os.path.join(os.path.dirname(os.path.realpath(__file__)), "sbt_read.py")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


class Sbt(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile(suffix=".sbt", delete=False) as file:
            self.path = file.name
        self.addCleanup(os.unlink, self.path)
        subprocess.run([MAKE_SBT, "make", self.path], check=True)
        with open(self.path, "rb") as file:
            self.bytes = file.read()

    def write(self, data):
        with open(self.path, "wb") as file:
            file.write(data)

    def assert_same(self, state):
        ours = output(MAKE_SBT, "dump", self.path)
        theirs = output(sys.executable, "-B", SBT_READ, self.path)
        self.assertEqual(ours.splitlines()[-1], f'["{state}"]')
        self.assertTrue(ours == theirs, "the readers differ")
        return ours.count("\n")

    def test_both_readers_find_the_same(self):
        self.assertGreater(self.assert_same("whole"), 6000)

    def test_every_encoding_is_in_it(self):
        used, values = set(), sbt_read.column_values

        def remember(number, encoding, *rest):
            used.add(encoding)
            return values(number, encoding, *rest)

        sbt_read.column_values = remember
        self.addCleanup(setattr, sbt_read, "column_values", values)
        with open(os.devnull, "w", encoding="utf-8") as nothing:
            before, sys.stdout = sys.stdout, nothing
            self.addCleanup(setattr, sys, "stdout", before)
            sbt_read.main(self.path)
        self.assertEqual(used, set(range(1, 9)))

    def test_cut_off(self):
        lines = set()
        for size in range(len(self.bytes) - 1, 24, -len(self.bytes) // 23):
            self.write(self.bytes[:size])
            lines.add(self.assert_same("cut"))
        self.assertGreater(len(lines), 5)

    def test_damaged_without_an_index(self):
        middle = len(self.bytes) // 2
        changed = bytes([self.bytes[middle] ^ 1])
        self.write(self.bytes[:middle] + changed + self.bytes[middle + 1:-1])
        self.assertGreater(self.assert_same("damaged"), 100)


if __name__ == "__main__":
    unittest.main()
