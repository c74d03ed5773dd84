"""verified.py: how many instructions the kernel's verifier went through for the programs of a process, and how long it took."""
import contextlib
import ctypes
import os
import struct

SYS_BPF, GET_FD_BY_ID, GET_INFO_BY_FD = 321, 13, 15
INFO_SIZE, LOADED, NAME, VERIFIED = 256, 40, 64, 216  # of struct bpf_prog_info; the last one since Linux 5.16


def bpf(command, attributes):
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(SYS_BPF, command, ctypes.create_string_buffer(attributes, 128), 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return result


def programs(pid):
    """Ids of the programs that a process or a child of its has open."""
    found = set()
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        pids = [pid, *file.read().split()]
    for place in (f"/proc/{pid}/fdinfo" for pid in pids):
        fds = []
        # Helpers come and go.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fds = os.listdir(place)
        for fd in fds:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"{place}/{fd}") as file:
                found.update(int(line.split()[1]) for line in file if line.startswith("prog_id:"))
    return found


def infos(pid):
    for program in programs(pid):
        fd = bpf(GET_FD_BY_ID, struct.pack("I", program))
        info = ctypes.create_string_buffer(INFO_SIZE)
        bpf(GET_INFO_BY_FD, struct.pack("IIQ", fd, INFO_SIZE, ctypes.addressof(info)))
        os.close(fd)
        yield info


def verified(pid):
    """Instructions by program."""
    return {info.raw[NAME:NAME + 16].split(b"\0")[0].decode(): struct.unpack_from("I", info, VERIFIED)[0] for info in infos(pid)}


def load_ms(pid):
    """From the first program's load to the last one's, which is a small one."""
    began = [struct.unpack_from("Q", info, LOADED)[0] for info in infos(pid)]
    return (max(began) - min(began)) / 1e6
