"""The .deb installs in a clean Debian, is enabled, works, upgrades, and leaves nothing behind."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import tracesmith
from container import BUILD, TRACE, Container, debian, require, run

# What the system itself writes as packages come and go.
NOT_OURS = r"^/(dev|proc|run|sys|test|tmp|root|var/cache|var/lib/(dpkg|apt|systemd)|var/log|var/tmp)(/|$)|^/etc/[a-z]*-?$"

# What may be said of a package: dpkg's steps, and what Debian's helpers make for every service.
USUAL = r"^\((Reading database|Selecting previously)|^(Selecting|Preparing|Unpacking|Setting up|" \
    r"Removing|Purging|Creating (group|user)|Created symlink|Removed) "

# `quietly` is for dpkg and nothing else.
QUIETLY = f"""
quietly() {{
	"$@" >/test/said 2>&1 || {{ cat /test/said; return 1; }}
	fails grep -Ev '{USUAL}' /test/said
}}
"""

INSTALLED = """
systemctl is-enabled tracesmithd.service tracesmith-control.socket
wait_for systemctl is-active tracesmithd.service
systemctl status --no-pager tracesmithd.service
tsctl status

# Its user's files, for nobody else.
test "$(stat -c %U:%a /var/lib/tracesmith)" = tracesmith:700
test "$(stat -c %U:%G:%a /run/tracesmith/control.sock)" = root:tracesmith:660
test "$(stat -c %U:%G:%a /run/tracesmith/inject.sock)" = root:root:666

# The library is where `tsctl run` finds it, for any user, and nothing of ours is beside it.
library=$(setpriv --reuid nobody --regid nogroup --clear-groups tsctl run printenv \
	CUDA_INJECTION64_PATH)
test "$(dpkg -S "$library")" = "tracesmith: $library"
test "$(stat -c %U:%G:%a "$library")" = root:root:644
test "$(ls "$(dirname "$library")")" = libtracesmith.so

"""

GROUP = """
# Members of the group may ask, others are told what to do.
useradd -G tracesmith member
useradd stranger
setpriv --reuid member --regid member --init-groups tsctl version
setpriv --reuid member --regid member --init-groups tsctl ps
fails setpriv --reuid stranger --regid stranger --init-groups tsctl ps 2>/test/refused
grep -q "group" /test/refused
userdel member
userdel stranger
"""

REMOVED = """
# An upgrade keeps the sockets and starts the new daemon.
before=$(systemctl show -P MainPID tracesmithd.service)
quietly dpkg -i /root/tracesmith.deb
wait_for systemctl is-active tracesmithd.service
test "$before" != "$(systemctl show -P MainPID tracesmithd.service)"
tsctl version

quietly dpkg -r tracesmith
fails systemctl is-active tracesmithd.service
test ! -e /run/tracesmith/control.sock
test ! -e /run/tracesmith/inject.sock
test -e /etc/tracesmith/tracesmithd.conf
test -e /var/lib/tracesmith

quietly dpkg -i /root/tracesmith.deb
wait_for systemctl is-active tracesmithd.service
tsctl version

quietly dpkg -P tracesmith
fails getent passwd tracesmith
fails getent group tracesmith
test ! -e /run/tracesmith
fails systemctl cat tracesmithd.service
systemctl --failed --no-legend | grep tracesmith && exit 1
true
"""


def tree(root):
    listed = subprocess.run(
        f"cd '{root}' && find . -xdev | sed 's,^[.],,' | grep -Ev '{NOT_OURS}' | sort",
        shell=True, stdout=subprocess.PIPE, text=True, check=True)
    return set(listed.stdout.splitlines())


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run("cpack", "-B", f"{BUILD}/package", cwd=BUILD)
        cls.deb, cls.python, *cls.libraries = (
            run("sh", "-c", f"ls -t '{BUILD}/package/{name}'_*.deb | head -n 1").strip()
            for name in ("tracesmith", "python3-tracesmith", "libtracesmith-range1", "libtracesmith-client1",
                         "libtracesmith-dev"))

    def test_lintian_finds_nothing(self):
        found = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning", self.deb, self.python,
                                *self.libraries],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               check=False)
        self.assertEqual(found.returncode, 0, found.stdout)

    def test_documents_and_manual_pages_are_in_it(self):
        has = {line.split()[-1].removeprefix(".")
               for line in run("dpkg-deb", "--contents", self.deb).splitlines()}
        expected = {f"/usr/share/doc/tracesmith/{name}"
                    for name in ("README.md", "CHANGELOG.md", "copyright", "changelog.gz")}
        docs = Path(tracesmith.SOURCE, "docs")
        expected |= {f"/usr/share/doc/tracesmith/docs/{path.name}" for path in docs.glob("*.md")}
        expected |= {f"/usr/share/man/man{path.suffix[1:]}/{path.name}.gz"
                     for path in docs.glob("man/*.[158]")}
        expected |= {"/usr/share/man/man5/tracesmithd.conf.5.gz",
                     "/usr/share/tracesmith/control.proto",
                     "/usr/share/bash-completion/completions/tsctl",
                     "/usr/share/zsh/vendor-completions/_tsctl",
                     "/usr/share/fish/vendor_completions.d/tsctl.fish"}
        self.assertEqual(expected - has, set(), "missing in the package")

    def test_python_package_and_wheel_can_be_imported(self):
        """By a Python that sees nothing else of ours, with what they declare."""
        wheel, = Path(BUILD, "python").glob("*.whl")
        with tempfile.TemporaryDirectory() as root:
            run("dpkg-deb", "-x", self.python, root)
            unpacked = f"{root}/usr/lib/python3/dist-packages"
            for path in (unpacked, str(wheel)):
                said = subprocess.run(
                    [sys.executable, "-B", "-c", "import importlib.metadata, tracesmith\n"
                     "assert importlib.metadata.version('tracesmith') == tracesmith.__version__\n"
                     "print(tracesmith.__file__)"], cwd="/", env={"PYTHONPATH": path},
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
                self.assertTrue(said.startswith(path), said)
            with zipfile.ZipFile(wheel) as files:
                self.assertIsNone(files.testzip())
                listed = {line.split(",")[0] for line in files.read(
                    next(name for name in files.namelist() if name.endswith("/RECORD"))).decode().splitlines()}
                self.assertEqual(listed, set(files.namelist()))
                self.assertIn("tracesmith/py.typed", listed)
        self.assertIn("python3-protobuf", run("dpkg-deb", "-f", self.python, "Depends"))

    def test_clean_machine_install_use_upgrade_remove_purge(self):
        with Container(debian()) as box:
            shutil.copy(self.deb, box.root / "root/tracesmith.deb")
            box.add_fake()
            # What it depends on first, so that the difference is the package alone.
            box.chroot("apt-get -q update; apt-get -qy --no-install-recommends install "
                       "/root/tracesmith.deb; dpkg -P tracesmith")
            before = tree(box.root)
            said = box.chroot("dpkg -i /root/tracesmith.deb 2>&1")
            self.assertEqual([line for line in said.splitlines() if not re.match(USUAL, line)], [])
            self.assertGreater(len(tree(box.root) - before), 10)

            status, output = box.boot(QUIETLY + INSTALLED + TRACE + GROUP + REMOVED)
            self.assertEqual(status, 0, output)
            left = tree(box.root) - before
            self.assertEqual({path for path in left if "/systemd/system/test." not in path},
                             set(), "left behind after purge")


if __name__ == "__main__":
    require("systemd-nspawn", "debootstrap", "lintian", "cpack")
    tracesmith.main()
