#!/usr/bin/python3
"""wheel.py FOLDER WHEEL FILE...: packs files of a folder into a wheel, the same one whenever it is made. What is in
FOLDER/*.dist-info is among the files; the list of all with their hashes is added to it."""
import base64
import hashlib
import sys
import zipfile
from pathlib import Path

STAMP = (1980, 1, 1, 0, 0, 0)
MODE = 0o100644 << 16


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def add(wheel, name, data):
    entry = zipfile.ZipInfo(name, STAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = MODE
    wheel.writestr(entry, data)


def main(folder, path, *files):
    names = sorted(str(Path(file).relative_to(folder)) for file in files)
    (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    lines = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name in names:
            data = Path(folder, name).read_bytes()
            lines.append(record_line(name, data))
            add(wheel, name, data)
        add(wheel, f"{info}/RECORD", "".join([*lines, f"{info}/RECORD,,\n"]))


main(*sys.argv[1:])
