#!/usr/bin/python3
"""Runs a program as systemd/tracesmithd.service runs the daemon, without systemd: with its capabilities and limits, without new
privileges, and under its filters of system calls. What the unit closes by mounts (ProtectSystem, PrivateTmp…) is open here: a
test has its daemon's files in /tmp; test_systemd has the unit itself.

`unit.py PROGRAM ARGUMENT…` has given up its rights before (command()) and takes the rest: filters that allow no capset."""
import ctypes
import errno
import os
import platform
import re
import resource
import socket
import subprocess
import sys

HERE = os.path.abspath(__file__)
SERVICE = os.path.join(os.path.dirname(HERE), "..", "..", "systemd", "tracesmithd.service")
USER = 64999  # of no program on the host
# For CPUWeight: against the programs of another cgroup, all together, the daemon's has twice their share.
NICE = -10
HAS_UPROBE_MULTI = (6, 6)  # before, tracesmith-generator gives the unit CAP_SYS_ADMIN
LIMITS = {"LimitNOFILE": resource.RLIMIT_NOFILE, "LimitMEMLOCK": resource.RLIMIT_MEMLOCK, "LimitCORE": resource.RLIMIT_CORE,
          "LimitFSIZE": resource.RLIMIT_FSIZE}
ALLOW, ERRNO = 0x7fff0000, 0x00050000
NOT_EQUAL, MASKED_EQUAL = 1, 7
PROT_WRITE_EXEC, PROT_EXEC, SHM_EXEC = 6, 4, 0o100000
NAMESPACES = [0x00000080, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]


def settings():
    """The values of the unit by name, of each line in turn."""
    found = {}
    with open(SERVICE) as unit:
        for name, value in re.findall(r"(?m)^(\w+)=(.*)$", unit.read()):
            found.setdefault(name, []).append(value)
    return found


def capabilities(old_kernel=False):
    """On a kernel without links to many functions, or this one."""
    names = [name.removeprefix("CAP_").lower() for line in settings()["AmbientCapabilities"] for name in line.split()]
    if old_kernel or tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < HAS_UPROBE_MULTI:
        names.append("sys_admin")
    return names


def command(old_kernel=False, group=USER):
    """What comes before the command of a program that is to run so. As the unit's, its group is the one that its socket gets."""
    rights = ",".join(["-all", *("+" + name for name in capabilities(old_kernel))])
    return ["nice", "-n", str(NICE), "setpriv", f"--reuid={USER}", f"--regid={group}", "--clear-groups", f"--inh-caps={rights}",
            f"--ambient-caps={rights}", f"--bounding-set={rights}", "--no-new-privs", sys.executable, "-BIS", HERE]


def own(*paths):
    for path in paths:
        os.chown(path, USER, USER)


class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("how", ctypes.c_int), ("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


class Filter:
    """A filter of system calls: what no rule is about gets the default."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p

    def __init__(self, default):
        self.context = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(default)))

    def rule(self, action, call, *comparisons):
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # else of another architecture, or newer than the library
            listed = (Comparison * len(comparisons))(*comparisons)
            assert self.library.seccomp_rule_add_array(self.context, ctypes.c_uint32(action), number, len(listed), listed) == 0, call
        return self

    def load(self):
        assert self.library.seccomp_load(self.context) == 0
        self.library.seccomp_release(self.context)


def calls_of(groups):
    """The calls that groups (@NAME) have, as systemd knows them, and the names that are calls themselves."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True).stdout
    of = {block.split()[0]: [line.strip() for line in block.splitlines()[1:] if line.strip() and "#" not in line]
          for block in re.split(r"\n(?=@)", text) if block.startswith("@")}

    def calls(name):
        return {call for each in of[name] for call in calls(each)} if name.startswith("@") else {name}
    return {call for name in groups for call in calls(name)}


def filter_calls(unit):
    allowed = calls_of(["@default"])
    for line in unit["SystemCallFilter"]:
        listed = calls_of(line.removeprefix("~").split())
        allowed = allowed - listed if line.startswith("~") else allowed | listed
    refused = getattr(errno, unit["SystemCallErrorNumber"][-1])
    calls = Filter(ERRNO | refused)
    for call in allowed:
        calls.rule(ALLOW, call)
    return calls


def filter_arguments(unit):
    """The other lines of the unit that systemd makes filters of. Of Restrict and Lock, those that the daemon could break."""
    refused, denied = ERRNO | errno.EPERM, Filter(ALLOW)
    assert unit["RestrictAddressFamilies"] == ["AF_UNIX"] and unit["MemoryDenyWriteExecute"] == unit["RestrictNamespaces"] == ["yes"]
    denied.rule(ERRNO | errno.EAFNOSUPPORT, "socket", Comparison(0, NOT_EQUAL, socket.AF_UNIX))
    denied.rule(refused, "mmap", Comparison(2, MASKED_EQUAL, PROT_WRITE_EXEC, PROT_WRITE_EXEC))
    denied.rule(refused, "mprotect", Comparison(2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC))
    denied.rule(refused, "pkey_mprotect", Comparison(2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC))
    denied.rule(refused, "shmat", Comparison(2, MASKED_EQUAL, SHM_EXEC, SHM_EXEC))
    denied.rule(ERRNO | errno.ENOSYS, "clone3")  # its flags are in memory
    denied.rule(refused, "setns")
    for flag in NAMESPACES:
        denied.rule(refused, "clone", Comparison(0, MASKED_EQUAL, flag, flag))
        denied.rule(refused, "unshare", Comparison(0, MASKED_EQUAL, flag, flag))
    return denied


def limit(unit):
    os.umask(int(unit["UMask"][-1], 8))
    for name, which in LIMITS.items():
        value, hard = unit[name][-1], resource.getrlimit(which)[1]
        wanted = resource.RLIM_INFINITY if value == "infinity" else int(value.replace("G", "")) << (30 if "G" in value else 0)
        # Raising it is for systemd.
        lowest = min((each for each in (wanted, hard) if each != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)
        resource.setrlimit(which, (lowest, lowest))


def main():
    unit = settings()
    filters = [filter_arguments(unit), filter_calls(unit)]  # the latter allows no other
    limit(unit)
    for each in filters:
        each.load()
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
