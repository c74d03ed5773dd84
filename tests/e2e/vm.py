"""vm.py: runs a command under another kernel, one of Debian's, in QEMU (emulated: no KVM needed).

The machine's root is the host's, read-only over 9p under a layer in memory, so what is built here
runs there as it is. Kernels are fetched with apt-get, from lists of their own, and kept.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from container import CACHE, run

MIRROR = os.environ.get("TS_MIRROR", "http://deb.debian.org/debian")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
STALE = "Oops: int3"
STARTED = "the command starts"
BOOTS = 3
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host || poweroff -f
mount -t tmpfs layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work root /root
for place in proc sys dev; do mount -o move /$place /root/$place; done
mount -t tmpfs tmpfs /root/run
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
ip link set lo up
cp /command /root/run/command
echo "the command starts"
chroot /root /bin/bash -l /run/command 2>&1
echo "status of the command: $?"
poweroff -f
"""


class NoKernel(Exception):
    pass


def kernel(suite):
    """The newest kernel of a Debian suite: (vmlinuz, directory with lib/modules, version)."""
    place = CACHE / f"kernel-{suite}"
    if not place.exists():
        half = CACHE / f"kernel-{suite}.half"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        try:
            fetch(suite, half)
        except subprocess.CalledProcessError as error:
            raise NoKernel(f"no kernel of {suite} to be had") from error
        half.rename(place)
    image = next((place / "boot").glob("vmlinuz-*"))
    return image, place, image.name.removeprefix("vmlinuz-")


def fetch(suite, place):
    apt_dir = place / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt_dir / folder).mkdir(parents=True)
    (apt_dir / "sources.list").write_text(f"deb [signed-by={KEYS}] {MIRROR} {suite} main\n")
    apt = ["-o", f"Dir::Etc::SourceList={apt_dir}/sources.list", "-o", "Dir::Etc::SourceParts=-",
           "-o", "Dir::Etc::Preferences=-", "-o", "Dir::Etc::PreferencesParts=-",
           "-o", f"Dir::State::Lists={apt_dir}/lists", "-o", f"Dir::Cache={apt_dir}/cache",
           "-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=root",
           "-o", "Acquire::Retries=2"]
    run("apt-get", *apt, "-q", "update")
    meta = run("apt-cache", *apt, "depends", "linux-image-amd64")
    package = re.search(r"linux-image-[0-9]\S*", meta).group()
    run("apt-get", *apt, "-q", "download", package, cwd=place)
    run("sh", "-c", "dpkg-deb -x *.deb . && rm *.deb", cwd=place)
    shutil.rmtree(apt_dir)
    run("depmod", "-b", str(place), package.removeprefix("linux-image-"))


def initramfs(root, modules_root, version, command):
    """Writes an initramfs with what is needed to get at the host's root."""
    for folder in ("bin", "proc", "sys", "dev", "host", "layer", "root", "modules"):
        (root / folder).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    needed = []
    for module in MODULES:
        listed = run("modprobe", "-d", str(modules_root), "-S", version, "--show-depends", module)
        needed += [line.split()[1] for line in listed.splitlines() if line.startswith("insmod")]
    for number, module in enumerate(dict.fromkeys(needed)):
        plain = root / "modules" / f"{number:03}.ko"
        with open(plain, "wb") as file:
            subprocess.run(["xz", "-dc", module] if module.endswith(".xz") else ["cat", module],
                           stdout=file, check=True)
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (root / "command").write_text(command)
    image = root.with_suffix(".cpio")
    run("sh", "-c", f"find . | cpio -o -H newc --quiet >{image}", cwd=root)
    return image


def run_machine(vmlinuz, image, version, seconds, options):
    """What the console of one machine said."""
    try:
        console = subprocess.run(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
             "-m", "2048", "-nographic", "-no-reboot", "-nic", "none",
             "-kernel", vmlinuz, "-initrd", image,
             "-append", f"console=ttyS0 quiet panic=-1 mitigations=off {options}",
             "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,"
                        "multidevs=remap"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=seconds, check=False).stdout
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"{version}: not done after {seconds} s:\n"
                             f"{(late.stdout or b'').decode(errors='replace')}") from late
    return console.decode(errors="replace").replace("\r", "")


def boot(suite, command, seconds=400, options=""):
    """Runs a shell command as root under a suite's kernel, which gets more options: (exit status, output). A
    kernel that patches its own code can meet the emulator's copy of the old code and panic, while it boots, before anything of
    ours runs, or later at a breakpoint that is not there any more: then the machine is started again."""
    vmlinuz, modules_root, version = kernel(suite)
    with tempfile.TemporaryDirectory(prefix="tracesmith-vm.") as scratch:
        image = initramfs(Path(scratch) / "initramfs", modules_root, version, command)
        for _ in range(BOOTS):
            output = run_machine(vmlinuz, image, version, seconds, options)
            if "Kernel panic" not in output or (STARTED in output and STALE not in output):
                break
    status = re.search(r"status of the command: (\d+)", output)
    if not status:
        raise AssertionError(f"{version}: the machine did not get through:\n{output}")
    return int(status.group(1)), output
