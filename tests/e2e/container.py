"""container.py: a throw-away overlay of a root directory, to change and to boot with a real systemd.

    with Container(lower) as box:
        box.chroot("apt-get install ...")       # before it boots
        status, output = box.boot("tsctl status")  # as a unit of the booted system; then it ends
"""

import os
import shutil
import subprocess
import tempfile
import unittest
import uuid
from pathlib import Path

from tracesmith import BUILD, FAKE, preloadable, skip

CACHE = Path(preloadable(os.environ.get("TS_CACHE", os.path.join(BUILD, "cache"))))
BOOT_SECONDS_MAX = 500
# What the kernel lets the container do beside systemd-nspawn's defaults: load and attach BPF, and
# take over a descriptor of another process.
CAPABILITIES = "CAP_BPF,CAP_PERFMON,CAP_CHECKPOINT_RESTORE"
SYSTEM_CALLS = "bpf perf_event_open pidfd_getfd"

# What every script of a test may use.
PRELUDE = """set -eux
trap '[ $? = 0 ] || journalctl -b --no-pager -u "tracesmith*" | tail -n 40' EXIT
fails() { if "$@"; then return 1; fi; } # as !, which "set -e" would not look at
wait_for() { timeout 60 bash -c "until $*; do sleep 0.1; done"; }
"""

# The daemon sees every call of a process of another user, and finds a copy of the library that only
# that user may read. (Not whose calls: the container has its own process numbers, BPF the host's.)
TRACE = """
leak() {
	exec setpriv --reuid nobody --regid nogroup --clear-groups env LD_LIBRARY_PATH=$1 \\
		/opt/fake/leak --seconds $2
}
(leak /usr/lib/x86_64-linux-gnu 0) >/test/told
calls=$(sed -nE 's/.*"cuMemAlloc_v2","calls":([0-9]+).*/\\1/p' /test/told)
wait_for "tsctl query apis --csv | grep ^cuMemAlloc_v2,alloc,$calls,"
leak /opt/fake 600 >/dev/null &
wait_for "tsctl status | grep -F /opt/fake/libcuda.so.1"
kill $!
"""

# What a unit prints is collected outside, so that it survives whatever the script does.
UNIT = """[Unit]
After={target}
[Service]
Type=oneshot
ExecStart=/bin/bash -c "bash /test/script >/test/output 2>&1; echo $$? >/test/status"
TimeoutStartSec=450
ExecStopPost=systemctl poweroff --force --no-wall
"""
TARGET = """[Unit]
Requires={target} test.service
After={target} test.service
AllowIsolate=yes
"""


def run(*command, **options):
    """Runs a command; on failure prints what it said and raises."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode:
        print(f"$ {' '.join(command)}\n{done.stdout}")
        done.check_returncode()
    return done.stdout


def require(*programs):
    """Skips where root or a program is missing."""
    if os.geteuid() != 0:
        skip("needs root")
    for program in programs:
        if not shutil.which(program):
            skip(f"needs {program} (scripts/bootstrap installs it)")


def debian():
    """A minimal Debian 12 with systemd, made once and kept."""
    root = CACHE / "debian-12"
    if not root.exists():
        half = CACHE / "debian-12.half"
        shutil.rmtree(half, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv", "bookworm",
             str(half), os.environ.get("TS_MIRROR", "http://deb.debian.org/debian")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode:
            raise unittest.SkipTest(f"debootstrap cannot make a Debian root:\n{made.stdout[-2000:]}")
        half.rename(root)
    return root


class Container:
    """`root` is the overlay; what is written to it never reaches `lower`."""

    def __init__(self, lower):
        self.lower = Path(lower)

    def __enter__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="tracesmith-container.", dir="/var/tmp"))
        self.root = self.dir / "root"
        self.root.mkdir()
        # A layer on tmpfs, because the file system below may be an overlay itself.
        layer = self.dir / "layer"
        layer.mkdir()
        try:
            run("mount", "-t", "tmpfs", "tmpfs", str(layer))
            (layer / "upper").mkdir()
            (layer / "work").mkdir()
            run("mount", "-t", "overlay", "overlay", "-o",
                f"lowerdir={self.lower},upperdir={layer}/upper,workdir={layer}/work",
                str(self.root))
        except subprocess.CalledProcessError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for mount in ("root", "layer"):
            subprocess.run(["umount", "-q", self.dir / mount], check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    def chroot(self, script):
        """Runs a script in the root, not booted, with the host's network."""
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        return run("unshare", "--mount", "--pid", "--fork", f"--root={self.root}", "--mount-proc",
                   "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                   "DEBIAN_FRONTEND=noninteractive", "/bin/bash", "-euc", script)

    def add_fake(self):
        """Puts the simulated GPU where a driver is installed, and a copy of it and a workload
        under /opt/fake, for nobody's eyes only."""
        lib = os.path.join(FAKE, "lib/libcuda.so.1")
        shutil.copy(lib, self.root / "usr/lib/x86_64-linux-gnu")
        (self.root / "opt/fake").mkdir(parents=True)
        shutil.copy(lib, self.root / "opt/fake")
        shutil.copy(os.path.join(FAKE, "workload/leak"), self.root / "opt/fake")
        run("chown", "-R", "nobody:", str(self.root / "opt/fake"))
        (self.root / "opt/fake").chmod(0o700)

    def boot(self, script, target="multi-user.target"):
        """Boots systemd, runs the script at the target, powers off: (exit status, output)."""
        test = self.root / "test"
        test.mkdir(exist_ok=True)
        (test / "script").write_text(PRELUDE + script)
        for old in ("output", "status"):
            (test / old).unlink(missing_ok=True)
        units = self.root / "etc/systemd/system"
        (units / "test.service").write_text(UNIT.format(target=target))
        (units / "test.target").write_text(TARGET.format(target=target))
        (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        # Without one it would be a first boot, which enables every unit.
        (self.root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        console = subprocess.run(
            ["unshare", "--mount", "bash", "-c",
             # systemd-nspawn wants to write in /run, which may be another container's.
             'mount -t tmpfs tmpfs /run && exec "$@"', "bash",
             "timeout", str(BOOT_SECONDS_MAX), "systemd-nspawn", "-q", "-D", str(self.root),
             "--boot", "--register=no", "--keep-unit", "--private-network", "--console=pipe",
             f"--machine=tracesmith{os.getpid()}", f"--capability={CAPABILITIES}",
             f"--system-call-filter={SYSTEM_CALLS}", "systemd.unit=test.target"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False).stdout
        output = (test / "output").read_text() if (test / "output").exists() else ""
        if not (test / "status").exists():
            raise RuntimeError(f"the container did not get through:\n{console}\n{output}")
        return int((test / "status").read_text()), output


if __name__ == "__main__":
    require("debootstrap")
    try:
        print(debian())
    except unittest.SkipTest as why:
        skip(why)
