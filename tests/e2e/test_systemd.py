"""The units under a real systemd: activation, rights, reload, restart, watchdog, a clean stop."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import tracesmith
from container import BUILD, TRACE, Container, require, run
from tracesmith import FAKE

UNITS = os.path.join(tracesmith.SOURCE, "systemd")
EXPOSURE_MAX = 1.3

CAPABILITIES = {"cap_bpf": 39, "cap_perfmon": 38, "cap_sys_ptrace": 19, "cap_dac_read_search": 2,
                "cap_checkpoint_restore": 40}


def mask(*names):
    return f"{sum(1 << CAPABILITIES[name] for name in names):016x}"


UNIT_MASK = mask(*CAPABILITIES)
OPENER_MASK = mask("cap_sys_ptrace", "cap_dac_read_search", "cap_checkpoint_restore")
BROKER_MASK = mask("cap_bpf", "cap_perfmon", "cap_dac_read_search")

SCRIPT = f"""
pid() {{ systemctl show -P MainPID tracesmithd.service; }}
journal() {{ journalctl --sync; journalctl -u tracesmithd.service; }} # all that was said before
systemd-sysusers tracesmith.conf
systemd-analyze verify --man=no /usr/lib/systemd/system/tracesmith* >/test/verify 2>&1
test ! -s /test/verify

# The first client starts the daemon.
systemctl start tracesmith-control.socket
fails systemctl is-active tracesmithd.service
tsctl version
systemctl is-active tracesmithd.service

# What it may: five capabilities (and CAP_SYS_ADMIN where the kernel has no uprobe_multi), shared out
# among its processes; it has none itself.
grep -x "Uid:.*" /proc/$(pid)/status
test "$(stat -c %U /proc/$(pid))" = tracesmith
if ! systemctl cat tracesmithd.service | grep -q CAP_SYS_ADMIN$; then
	grep -Ex "CapBnd:.{UNIT_MASK}" /proc/$(pid)/status
	for each in $(pid) $(pgrep -P $(pid)); do
		status=$(cat /proc/$each/status) || continue # has ended
		case $status in
		Name:?ts-broker*) mask={BROKER_MASK} ;;
		Name:?ts-opener* | Name:?ts-zygote*) mask={OPENER_MASK} ;;
		*) mask={mask()} ;;
		esac
		grep -Ex "CapEff:.$mask" <<<"$status"
		grep -Ex "CapPrm:.$mask" <<<"$status"
	done
	pgrep -P $(pid) -x ts-broker
	pgrep -P $(pid) -x ts-opener
fi
# Functions may be probed at their return: the trial of that passes with these rights, and is over.
tsctl status >/test/status
fails grep "probed at" /test/status
fails pgrep -x ts-trial
test "$(systemctl show -P DevicePolicy tracesmithd.service)" = closed
test "$(systemctl show -P MemoryHigh tracesmithd.service)" = $((1536 << 20))
grep -Ex "NoNewPrivs:.1" /proc/$(pid)/status
grep -Ex "Seccomp:.2" /proc/$(pid)/status

# Libraries in processes of every user may come, through a socket that systemd holds.
inject() {{ test "$(stat -c %U:%G:%a /run/tracesmith/inject.sock)" = root:root:666; }}
inject
test "$(stat -c %U:%G:%a /run/tracesmith)" = root:root:755
socket=$(awk '$5 == "0005" && $8 == "/run/tracesmith/inject.sock" {{ print $7; exit }}' \
	/proc/net/unix)
ls -l /proc/$(pid)/fd | grep -F "socket:[$socket]"
as_nobody() {{ setpriv --reuid nobody --regid nogroup --clear-groups "$@"; }}
as_nobody tsctl run -- sh -c 'test -r "$CUDA_INJECTION64_PATH"; echo "$TRACESMITH_INJECT_SOCKET"' \
	>/test/run 2>/test/run-errors
test "$(cat /test/run)" = /run/tracesmith/inject.sock
test -z "$(grep tsctl: /test/run-errors)"

{TRACE}
# With no more rights than that it attaches to a process of another user, whose files are closed to
# it, and leaves it again. (systemd-nspawn has a seccomp filter.)
setpriv --reuid nobody --regid nogroup --clear-groups env LD_LIBRARY_PATH=/opt/fake \
	/opt/fake/loop --seconds 600 --pace-ms 1 >/test/loop &
loop=$!
tsctl attach --wait=60s --seccomp --json $loop | grep -F /opt/fake/libcupti.so.13
wait_for "grep -q memfd:tracesmith /proc/$loop/maps"
tsctl detach --json $loop | grep -F '"unloaded":true'
test -z "$(grep memfd:tracesmith /proc/$loop/maps)"
kill $loop

# Metrics, by a user of its own with no rights on the host, whose token nobody else can read.
fails systemctl is-enabled tracesmith-web.service
systemctl start tracesmith-web.service
wait_for test -s /var/lib/tracesmith-web/token
test "$(stat -c %a /var/lib/private/tracesmith-web/token)" = 600
cat >/test/scrape.py <<'END'
import urllib.request
token = open("/var/lib/tracesmith-web/token").read().strip()
request = urllib.request.Request("http://127.0.0.1:9640/metrics", headers={{"Authorization": "Bearer " + token}})
print(urllib.request.urlopen(request).read().decode())
END
wait_for "python3 /test/scrape.py | grep '^tracesmith_daemon_cpu_seconds_total [0-9]'"
web=$(systemctl show -P MainPID tracesmith-web.service)
grep -Ex "CapEff:.0{{16}}" /proc/$web/status
fails grep -Ex "Uid:.0.*" /proc/$web/status
systemctl stop tracesmith-web.service
test "$(systemctl show -P ExecMainStatus tracesmith-web.service)" = 0

# Reload: the same process, new settings; with a fault it fails, with one sentence, and the old ones
# stay. Nothing but the daemon is needed for it.
settings=/etc/tracesmith/tracesmithd.conf
before=$(pid)
printf '[probe]\nlaunch_stacks = 7\n' >$settings
chmod -x /bin/kill
systemctl reload tracesmithd.service
chmod +x /bin/kill
wait_for "journalctl -u tracesmithd.service | grep -q 'Reread '"
reads() {{ journal | grep -c 'Reread '; }}
count=$(reads)
printf '[probe]\nlaunch_stacks = many\n' >$settings
fails systemctl reload tracesmithd.service
journal | grep "'many'"
tsctl version
test "$(pid)" = $before
test "$(reads)" = $count
test "$(systemctl is-active tracesmithd.service)" = active

# A restart with the fault: one failure, and whoever asks is told at once what is wrong, however often.
fails systemctl restart tracesmithd.service
test "$(systemctl show -P ExecMainStatus tracesmithd.service)" = 78
test "$(systemctl show -P NRestarts tracesmithd.service)" = 0
test "$(journal | grep -c 'status=78')" = 2 # of the reload, and this one
for i in $(seq 40); do
	fails tsctl ps 2>/test/refused
	grep "settings are invalid" /test/refused
done
for i in $(seq 40); do tsctl ps 2>/dev/null & done
wait
test "$(systemctl is-active tracesmith-control.socket)" = active
# A library that would like to come, and one that has been: neither makes it start without end.
for i in $(seq 40); do
	as_nobody python3 -c "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('/run/tracesmith/inject.sock')" 2>/dev/null || true
done
test "$(systemctl show -P NRestarts tracesmithd.service)" = 0
test -S /run/tracesmith/control.sock
# Mended: the next client has what it wants. And so it is with a restart.
: >$settings
tsctl ps
inject
printf '[probe]\nlaunch_stacks = many\n' >$settings
fails systemctl restart tracesmithd.service
: >$settings
systemctl restart tracesmithd.service
tsctl ps
inject
before=$(pid)

# Killed: soon back, with what it had stored.
kill -KILL $before
wait_for "test \\$(systemctl show -P MainPID tracesmithd.service) -gt 0 -a \\
	\\$(systemctl show -P MainPID tracesmithd.service) != $before"
tsctl query apis --json | grep cuMemAlloc_v2
inject

# Stuck: the watchdog ends it, and it is back.
mkdir -p /run/systemd/system/tracesmithd.service.d
printf '[Service]\\nWatchdogSec=3s\\n' >/run/systemd/system/tracesmithd.service.d/test.conf
systemctl daemon-reload
systemctl restart tracesmithd.service
sleep 4 # longer than the limit: it is fed
systemctl is-active tracesmithd.service
before=$(pid)
kill -STOP $before
wait_for "test \\$(systemctl show -P NRestarts tracesmithd.service) -gt 0"
wait_for systemctl is-active tracesmithd.service
tsctl version

# A start that fails for another reason is tried again without haste and without end.
database=/var/lib/tracesmith/tracesmith.db
systemctl stop tracesmithd.service
mkdir /test/aside
mv $database* /test/aside
echo "no database" >$database
chown tracesmith: $database
begin=$(cut -d. -f1 /proc/uptime)
fails systemctl start tracesmithd.service
wait_for "test \\$(systemctl show -P NRestarts tracesmithd.service) -gt 1"
test $(($(cut -d. -f1 /proc/uptime) - begin)) -ge 8
journal | grep "is not a database of tracesmithd"
test "$(systemctl is-active tracesmith-control.socket)" = active
rm $database
mv /test/aside/* /var/lib/tracesmith
wait_for systemctl is-active tracesmithd.service
tsctl query apis --json | grep cuMemAlloc_v2
inject

systemctl stop tracesmithd.service
test "$(systemctl show -P Result tracesmithd.service)" = success
test -S /run/tracesmith/control.sock

# Stopped is stopped: a library that would like to come cannot start the daemon.
wait_for 'test ! -e /run/tracesmith/inject.sock' # closed with the service, a moment later
as_nobody tsctl run true 2>/test/run-errors
grep "tsctl: .*/run/tracesmith/inject.sock" /test/run-errors
test "$(systemctl is-active tracesmithd.service)" = inactive
tsctl version
inject
"""


class Units(unittest.TestCase):
    def test_exposure_is_low(self):
        for unit, most in (("tracesmithd", EXPOSURE_MAX), ("tracesmith-web", 2.5), ("tracesmith-ship", 2.5)):
            out = run("systemd-analyze", "security", "--offline=true", os.path.join(UNITS, f"{unit}.service"))
            exposure = float(re.search(r"exposure level .*: ([0-9.]+)", out).group(1))
            self.assertLessEqual(exposure, most, out)

    def test_generator_gives_a_right_only_where_the_kernel_needs_it(self):
        for release, needed in {"5.15.0-1-amd64": True, "6.1.0-50-amd64": True, "6.5.13": True,
                                "6.6.0": False, "6.12.95+deb12-amd64": False,
                                "7.0-rc1": False, "10.2.3": False}.items():
            with tempfile.TemporaryDirectory() as place:
                with open(f"{place}/uname", "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\necho {release}\n")
                os.chmod(f"{place}/uname", 0o755)
                subprocess.run([f"{UNITS}/tracesmith-generator", place], check=True,
                               env={"PATH": f"{place}:/usr/bin:/bin"})
                made = f"{place}/tracesmithd.service.d/50-sys-admin.conf"
                self.assertEqual(os.path.exists(made), needed, release)

    def test_life_under_systemd(self):
        with Container("/") as box:
            run("cmake", "--install", BUILD, "--prefix", "/usr",
                env={**os.environ, "DESTDIR": str(box.root)})
            box.add_fake()
            for name in "lib/libcupti.so.13", "workload/loop":
                shutil.copy(os.path.join(FAKE, name), box.root / "opt/fake")
            run("chown", "-R", "nobody:", str(box.root / "opt/fake"))
            status, output = box.boot(SCRIPT, target="basic.target")
            self.assertEqual(status, 0, output)


if __name__ == "__main__":
    require("systemd-nspawn", "systemd-analyze", "cmake")
    tracesmith.main()
