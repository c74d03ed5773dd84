"""Probes that do nothing: what the kernel's trap alone costs a program, to hold ours against in place."""
import ctypes
import errno
import os
import struct

BPF, PROG_LOAD, LINK_CREATE = 321, 5, 28  # of x86-64
KPROBE, UPROBE_MULTI = 2, 48
PASSED = (b"\xf3\x0f\x1e\xfa", b"\x0f\x1f\x44\x00\x00")  # endbr64 and a nop, which the daemon's probes go behind
RETURN_0 = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)


def mapped_code(pid):
    """The driver's executable mapping: (path, start, end, offset)."""
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) > 5 and "x" in fields[1] and os.path.basename(fields[5].strip()).startswith("libcuda.so"):
                start, end = (int(each, 16) for each in fields[0].split("-"))
                return fields[5].strip(), start, end, int(fields[2], 16)
    raise SystemExit("no libcuda is mapped")


def symbols(path):
    """Names, offsets in the file and first bytes of its dynamic functions."""
    with open(path, "rb") as file:
        data = file.read()
    sections, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + n * size) for n in range(count)]
    table = next(header for header in headers if header[1] == 11)
    names = headers[table[6]][4]
    for at in range(table[4], table[4] + table[5], 24):
        name, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        if info & 15 == 2 and value:
            section = next(h for h in headers if h[3] <= value < h[3] + h[5] and h[1] == 1)
            text = data[names + name:data.index(b"\0", names + name)].decode()
            offset = value - section[3] + section[4]
            yield text, offset, data[offset:offset + 24]


def hot_functions(daemon, path):
    """Those of symbols() whose calls are frequent."""
    hot = {row["name"] for row in daemon.sql("SELECT name FROM function WHERE hot")}
    return [found for found in sorted(symbols(path)) if found[0].removesuffix("_ptsz").removesuffix("_ptds") in hot]


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    fd = ctypes.CDLL(None, use_errno=True).syscall(BPF, command, buffer, len(buffer))
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {errno.errorcode.get(ctypes.get_errno())}")
    return fd


def site(offset, code):
    for passed in PASSED:
        if code.startswith(passed):
            offset, code = offset + len(passed), code[len(passed):]
    return offset


class EmptyProbe:
    """On those functions of a process, until it is closed."""

    def __init__(self, pid, path, functions):
        code, license = ctypes.create_string_buffer(RETURN_0), ctypes.create_string_buffer(b"GPL")
        name, offsets = ctypes.create_string_buffer(path.encode()), sorted({site(*found[1:]) for found in functions})
        array = (ctypes.c_uint64 * len(offsets))(*offsets)
        program = bpf(PROG_LOAD, struct.pack("<IIQQIIQII16sII", KPROBE, 2, ctypes.addressof(code), ctypes.addressof(license),
                                             0, 0, 0, 0, 0, b"empty", 0, UPROBE_MULTI))
        try:
            self.link = bpf(LINK_CREATE, struct.pack("<IIIIQQQQIII", program, 0, UPROBE_MULTI, 0, ctypes.addressof(name),
                                                     ctypes.addressof(array), 0, 0, len(offsets), 0, pid))
        finally:
            os.close(program)

    def close(self):
        os.close(self.link)
