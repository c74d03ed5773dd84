"""Users who take all they can get of what the daemon has: another one's programs are counted and recorded completely."""
import grp
import json
import os
import shutil
import subprocess
import tempfile
import time

import tracesmith
from foreign import Client, control
from test_counts import by_row
from tracesmith import BUILD, DRIVER, run, wait_for

GREEDY = (54321, 54322, 54323, 54324)
COPIES = 64  # the daemon's limit
PLACES = 1024
GROUP = "games"
# tests/soak/storm asks more often, and has a limit.
ASKS, USERS, EACH = (int(os.environ.get(f"TS_STORM_{name}", usual)) for name, usual in (("ASKS", 100), ("USERS", 40), ("EACH", 15)))
LATE_MS = float(os.environ.get("TS_STORM_LATE_MS", "inf"))

# Maps each file as code, and keeps so many connections to the socket that say nothing.
GUEST = """
import mmap, os, select, socket, sys
path, count, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
kept = [mmap.mmap(os.open(name, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
        for name in files]
def connection():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect(path)
    return one
connections = [connection() for _ in range(count)]
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    for closed in select.select(connections, [], [], 0)[0] if connections else []:
        connections[connections.index(closed)] = connection()
        closed.close()
"""


# As many users, who each keep so many connections to each socket, and come again at once when one is closed.
STORM = """
import itertools, os, select, socket, sys
group, users, count, sockets = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
os.setgroups([group])
os.setegid(group)
kept, waits = {}, select.epoll()
def connect(uid, path):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if "inject" in path else socket.SOCK_STREAM)
    os.seteuid(uid)
    one.connect(path)
    os.seteuid(0)
    kept[one.fileno()] = one, uid, path
    waits.register(one, select.EPOLLIN | select.EPOLLHUP)
for uid, path, _ in itertools.product(range(60001, 60001 + users), sockets, range(count)):
    connect(uid, path)
print("ready", flush=True)
again = 0
while True:
    for number, _ in waits.poll():
        one, uid, path = kept.pop(number)
        one.close()
        connect(uid, path)
        again += 1
        if again == 1000:
            print("again", flush=True)
"""


class Shares(tracesmith.Case):
    # Whatever a program does while the daemon does not get to run has room.
    settings = f"[daemon]\ncontrol_group = {GROUP}\n[probe]\nring_size = 64MiB\n[exact]\nring_records = 131072\n"

    def guest(self, uid, count, files=()):
        process = subprocess.Popen(
            ["/usr/bin/python3", "-c", GUEST, os.path.join(self.daemon.directory, "inject.sock"), str(count), *files],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=uid, group=uid, extra_groups=[])
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")

    def copies(self, count):
        """Files of the driver's name that hold its place and are none, so that no probes are put on and taken off."""
        directory = tempfile.mkdtemp(prefix="tracesmith-copies-")
        self.addCleanup(shutil.rmtree, directory)
        os.chmod(directory, 0o755)
        paths = []
        for i in range(count):
            os.mkdir(os.path.join(directory, str(i)))
            paths.append(os.path.join(directory, str(i), DRIVER or "libcuda.so.1"))
            with open(paths[-1], "wb") as file:
                file.write(b"\x7fELF".ljust(4096, b"\0"))
        return paths

    def refused(self):
        status = json.loads(self.daemon.ctl("status", "--json").out)
        return next((item["number"] for item in status["rows"]
                     if (item["section"], item["name"]) == ("libraries", "refused")), 0)

    def check_counts(self, environment):
        """A program with a driver of its own, which needs a slot."""
        process, told = run("counts", environment=environment)
        self.daemon.wait_ended(process.pid)
        answer = self.daemon.answer("apis", "--pid", process.pid)
        probed = {row["name"] for row in self.daemon.sql("SELECT name FROM function")}
        self.assertEqual({row["fn"]: row["calls"] for row in answer["rows"]},
                         {name: row["calls"] for name, row in by_row(told).items() if name in probed})
        self.assert_nothing_lost(answer)

    def check_exact(self, environment):
        process = subprocess.Popen([os.path.join(BUILD, "tsctl"), "run", "--", tracesmith.workload_path("exact"), "--hold"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, **environment, "TRACESMITH_SOCKET": self.daemon.socket})
        self.addCleanup(self.end, process)
        wait_for("collection to begin", lambda: any(row["pid"] == process.pid and row["tier"] == "exact"
                                                    for row in self.daemon.query("ps")))
        out, _ = process.communicate("\n\n", timeout=120)
        told = next(json.loads(line) for line in out.splitlines() if line.startswith("{") and "kernels" in json.loads(line))
        self.daemon.wait_ended(process.pid)
        count = f"SELECT count(*) AS n FROM op WHERE exact AND pid = {process.pid} AND kind IN ('launch', 'kernel')"
        wait_for("all kernels", lambda: self.daemon.sql(count)[0]["n"] >= sum(told["kernels"].values()))
        self.assertEqual(self.daemon.sql(count)[0]["n"], sum(told["kernels"].values()))

    def ask_ps(self):
        """The seconds that it takes an honest client, which comes for this, to have its answer."""
        began = time.monotonic()
        client = Client(self.daemon.socket)
        replies = client.ask(id=1, query=control.QueryRequest(name="ps"))
        took = time.monotonic() - began
        client.socket.close()
        self.assertEqual(replies[-1].WhichOneof("body"), "done", replies[-1])
        return took

    def test_storm_of_many_users(self):
        os.chmod(self.daemon.directory, 0o755)
        storm = subprocess.Popen(
            ["/usr/bin/python3", "-c", STORM, str(grp.getgrnam(GROUP).gr_gid), str(USERS), str(EACH),
             *(os.path.join(self.daemon.directory, name) for name in ("control.sock", "inject.sock"))],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, storm)
        self.assertEqual(storm.stdout.readline(), "ready\n")
        self.assertEqual(storm.stdout.readline(), "again\n", "connections are closed, and come again")
        self.assertEqual(self.daemon.ctl("query", "ps").code, 0)
        took = sorted(self.ask_ps() for _ in range(ASKS))
        median, late = took[ASKS // 2] * 1e3, took[ASKS * 99 // 100] * 1e3
        print(f"{ASKS} times ps in the storm: median {median:.1f} ms, 99th percentile {late:.1f} ms, longest {took[-1] * 1e3:.1f} ms")
        self.assertLess(late, LATE_MS)
        self.check_exact({"LD_LIBRARY_PATH": os.path.dirname(tracesmith.library()), "FAKE_CUDA_TIME_SCALE": "0"})

    def test_what_others_fill_is_there_for_an_honest_user(self):
        os.chmod(self.daemon.directory, 0o755)  # inject.sock is open to all
        files = self.copies(COPIES)
        for i in range(0, COPIES, 8):
            self.guest(GREEDY[0], 0, files[i:i + 8])
        for uid in GREEDY:
            self.guest(uid, PLACES // len(GREEDY) + 10)
        wait_for("copies to be refused", lambda: self.refused() >= COPIES // 2)
        directory = tempfile.mkdtemp(prefix="tracesmith-driver-")
        self.addCleanup(shutil.rmtree, directory)
        shutil.copy(os.path.realpath(tracesmith.library()), directory)
        name = os.path.join(directory, "libcuda.so.1")
        if not os.path.exists(name):
            os.symlink(os.path.basename(os.path.realpath(tracesmith.library())), name)
        os.symlink(os.path.join(tracesmith.FAKE, "lib", "libcupti.so.13"), os.path.join(directory, "libcupti.so.13"))
        # Who comes first waits for the probes; this is about those who come then.
        self.guest(0, 0, [name])
        wait_for("probes on the honest user's copy", lambda: f"functions of '{directory}" in self.daemon.log())
        environment = {"LD_LIBRARY_PATH": directory, "FAKE_CUDA_TIME_SCALE": "0"}
        self.check_counts(environment)
        self.check_exact(environment)
        self.assertGreaterEqual(self.refused(), COPIES // 2)
        self.assertRegex(self.daemon.ctl("status").out, rf"refused_to .*user {GREEDY[0]}: \d+ copies, the last ")
        # Eight copies each; those that are refused have no probes for as long as they live.
        wait_for("those who are not watched to be told", lambda: self.daemon.sql(
            "SELECT count(DISTINCT p.id) AS n FROM loss l JOIN loss_reason r ON r.id = l.reason JOIN process p ON p.id = l.process "
            f"WHERE r.name = 'gap' AND p.uid = {GREEDY[0]}")[0]["n"] >= COPIES // 2 // 8)
        self.assertIn("as one user may: not tracing it", self.daemon.log())


if __name__ == "__main__":
    tracesmith.main()
