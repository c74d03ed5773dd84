"""Reads a pprof profile with Google's protobuf, as strictly as pprof's own reader, and makes plain
samples of it. https://github.com/google/pprof/blob/main/profile/profile.go (CheckValid)"""

import gzip
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

with tempfile.TemporaryDirectory() as generated:
    subprocess.run(["protoc", f"--proto_path={HERE}", f"--python_out={generated}", "profile.proto"], check=True)
    sys.path.insert(0, generated)
    import profile_pb2
    sys.path.remove(generated)


class Bad(Exception):
    """What was read is no profile."""


def by_id(rows, what):
    table = {row.id: row for row in rows}
    if 0 in table or len(table) != len(rows):
        raise Bad(f"ids of {what} are not unique, or 0")
    return table


class Profile:
    """samples: (names from the device outwards, values, labels)."""

    def __init__(self, path):
        with gzip.open(path) as file:
            self.raw = profile_pb2.Profile.FromString(file.read())
        if not self.raw.string_table or self.raw.string_table[0] != "":
            raise Bad("the first string is not empty")
        self.types = [(self.text(kind.type), self.text(kind.unit)) for kind in self.raw.sample_type]
        self.default = self.text(self.raw.default_sample_type)
        self.comments = [self.text(comment) for comment in self.raw.comment]
        self.functions = by_id(self.raw.function, "functions")
        self.mappings = by_id(self.raw.mapping, "mappings")
        self.locations = by_id(self.raw.location, "locations")
        self.samples = [self.sample(sample) for sample in self.raw.sample]

    def text(self, number):
        if not 0 <= number < len(self.raw.string_table):
            raise Bad(f"there is no string {number}")
        return self.raw.string_table[number]

    def file_of(self, location):
        return self.text(self.mappings[location.mapping_id].filename) if location.mapping_id else None

    def sample(self, sample):
        if len(sample.value) != len(self.types):
            raise Bad("a sample has not one value for each type")
        names = [self.text(self.functions[line.function_id].name)
                 for number in sample.location_id for line in self.locations[number].line]
        labels = {self.text(label.key): self.text(label.str) if label.str else label.num
                  for label in sample.label}
        return tuple(names), tuple(sample.value), labels
