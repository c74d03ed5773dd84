"""ClickHouse for the tests of the fleet: real servers of our own on loopback, on free ports, in a temporary directory.

Cluster: Debian's 18.16 as shards of replicas, with ZooKeeper. It is old: no LowCardinality without a setting, no CODEC,
TTL, DateTime64. Node: one such server alone. Modern: ClickHouse 26.7 as a library (chdb, from npm) behind a small HTTP front.
All of it ends with the test, even with one that is killed.
"""
import atexit
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

from tracesmith import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = "/usr/sbin/clickhouse-server"
ZOOKEEPER = "/usr/share/java/zookeeper.jar"
CHDB = "chdb@3.4.0"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tracesmith", CHDB)
PASSWORD = "secret"
PR_SET_PDEATHSIG = 1

CONFIG = """<yandex>
<logger><level>warning</level><log>{directory}/log</log><errorlog>{directory}/errors</errorlog></logger>
<listen_host>{address}</listen_host>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{interserver}</interserver_http_port>
<interserver_http_host>{address}</interserver_http_host>
<path>{directory}/data/</path><tmp_path>{directory}/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size><max_connections>256</max_connections>
<timezone>UTC</timezone>
{cluster}
</yandex>
"""

# Nodes reach each other as 'inside', without a password; programs must give one.
USERS = """<yandex>
<profiles><default><max_memory_usage>4000000000</max_memory_usage></default></profiles>
<quotas><default><interval><duration>3600</duration><queries>0</queries><errors>0</errors><result_rows>0</result_rows>
<read_rows>0</read_rows><execution_time>0</execution_time></interval></default></quotas>
<users>
<default><password>{password}</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
<inside><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></inside>
</users>
</yandex>
"""


def skip(why):
    """Of this server's tests; a program without any other says so with its exit status (finish)."""
    print("skipped:", why, file=sys.stderr)
    raise unittest.SkipTest(why)


def finish():
    """In the place of unittest.main()."""
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 0 if result.testsRun else 77)


class Refused(Exception):
    """What the server said to a statement that failed."""


def free_ports(count):
    """Ports that nobody has, as far as one can know; below those that the kernel gives to any connection meanwhile."""
    ports = []
    for port in random.sample(range(10000, 32768), 20000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
            if len(ports) == count:
                return ports
    raise AssertionError(f"no {count} free ports")


def start(arguments, directory, name, **options):
    """A child that is killed when this process dies, in whatever way."""
    libc = ctypes.CDLL(None)
    with open(os.path.join(directory, name), "ab") as log:
        return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), **options)


class Server:
    """Something that speaks ClickHouse's HTTP."""

    def __init__(self, directory, address="127.0.0.1"):
        self.directory, self.process, self.address, self.port = directory, None, address, 0
        os.makedirs(directory, exist_ok=True)

    @property
    def url(self):
        return f"http://{self.address}:{self.port}"

    def ask(self, statement, password=PASSWORD, body=None, **settings):
        """The answer as text."""
        query = dict(settings, query=statement) if body is not None else settings
        request = urllib.request.Request(
            f"{self.url}/?{urllib.parse.urlencode(query)}", data=statement.encode() if body is None else body,
            headers={"X-ClickHouse-User": "default", "X-ClickHouse-Key": password})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise Refused(error.read().decode(errors="replace")) from error

    def rows(self, statement, **settings):
        return [line.split("\t") for line in self.ask(statement + " FORMAT TabSeparated", **settings).splitlines()]

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server in {self.directory} ended with {self.process.returncode}:\n{self.said()}")
        try:
            return self.ask("SELECT 1") == "1\n"
        except (OSError, Refused):
            return False

    def said(self):
        text = ""
        for name in ("out", "errors"):
            path = os.path.join(self.directory, name)
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    text += file.read()[-4000:]
        return text

    def kill(self):
        self.process.kill()
        self.process.wait()


class Debian(Server):
    """A clickhouse-server of Debian's."""

    def __init__(self, directory, cluster="", ports=None, address="127.0.0.1", prefix=()):
        super().__init__(directory, address)
        self.prefix = prefix
        self.port, self.tcp, self.interserver = ports or free_ports(3)
        self.cluster = cluster

    def start(self, prefix=()):
        for name, text in (("config.xml", CONFIG.format(directory=self.directory, address=self.address, http=self.port, tcp=self.tcp,
                                                        interserver=self.interserver, cluster=self.cluster)),
                           ("users.xml", USERS.format(password=PASSWORD))):
            with open(os.path.join(self.directory, name), "w") as file:
                file.write(text)
        self.process = start([*self.prefix, *prefix, SERVER, f"--config-file={self.directory}/config.xml"], self.directory, "out",
                             cwd=self.directory)
        return self

    def wait(self):
        wait_for("ClickHouse to answer", self.answers)
        return self


class Modern(Server):
    """ClickHouse of today in a Node of our own."""

    def start(self):
        [self.port] = free_ports(1)
        self.process = start(["node", os.path.join(HERE, "clickhouse.mjs"), CACHE, os.path.join(self.directory, "data"),
                              str(self.port), PASSWORD], self.directory, "out")
        return self

    wait = Debian.wait


class Proxy:
    """What lies between a program and a server's port: it passes bytes on, and holds them from when it sees some on, as a network does
    that is cut somewhere."""

    def __init__(self, port):
        self.to, self.hold_at, self.times = port, None, 0
        self.held, self.open = threading.Event(), threading.Event()
        self.open.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.ends = self.listener.getsockname()[1], []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def hold_from(self, part, times):
        """From when it comes for the nth time on."""
        self.hold_at, self.times = part, times

    def go_on(self):
        self.hold_at = None
        self.open.set()

    def close(self):
        self.go_on()
        for end in (self.listener, *self.ends):
            self._shut(end)
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
                self.ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(one, other, one is near), daemon=True).start()

    def _pass(self, one, other, forth):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if forth and self.hold_at and self.hold_at in data:
                    self.times -= 1
                    if not self.times:
                        self.open.clear()
                        self.held.set()
                self.open.wait()
                other.sendall(data)
        self._shut(other)
        one.close()

    @staticmethod
    def _shut(end):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class ZooKeeper:
    def __init__(self, directory, address="127.0.0.1"):
        self.directory, self.process, self.address = directory, None, address
        [self.port] = free_ports(1)
        os.makedirs(directory)

    def start(self):
        with open(os.path.join(self.directory, "zoo.cfg"), "w") as file:
            file.write(f"dataDir={self.directory}/data\nclientPort={self.port}\nclientPortAddress={self.address}\n"
                       "tickTime=500\nadmin.enableServer=false\nmaxClientCnxns=0\n")
        self.process = start(["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", ZOOKEEPER,
                              "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{self.directory}/zoo.cfg"],
                             self.directory, "out", cwd=self.directory)
        return self

    def wait(self):
        """Until it serves: a server of 18.16 that meets it before that crashes in its first statement ON CLUSTER."""
        wait_for("ZooKeeper to serve", self._serves)

    def _serves(self):
        try:
            with socket.create_connection((self.address, self.port), timeout=1) as one:
                one.sendall(b"srvr")
                return b"Mode: standalone" in one.makefile("rb").read()
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()


class Cluster:
    """`shards` × `replicas` servers, as the cluster 'fleet'; node[shard][replica]. `places`: the address of each and what is run to be there."""

    def __init__(self, shards=2, replicas=2, places=None, center="127.0.0.1"):
        self.directory = temporary()
        self.zookeeper = ZooKeeper(os.path.join(self.directory, "zookeeper"), center).start()
        places = places or [("127.0.0.1", ())] * (shards * replicas)
        ports = free_ports(3 * shards * replicas)
        self.node, named = [], ""
        for shard in range(shards):
            row = []
            named += "<shard><internal_replication>true</internal_replication>"
            for replica in range(replicas):
                at = 3 * (shard * replicas + replica)
                row.append(Debian(os.path.join(self.directory, f"node-{shard}-{replica}"), ports=ports[at:at + 3],
                                  address=places[at // 3][0], prefix=places[at // 3][1]))
                named += (f"<replica><host>{row[-1].address}</host><port>{row[-1].tcp}</port><user>inside</user></replica>")
            named += "</shard>"
            self.node.append(row)
        for shard, row in enumerate(self.node):
            for replica, node in enumerate(row):
                node.cluster = (
                    f"<remote_servers><fleet>{named}</fleet></remote_servers>"
                    f"<zookeeper><node><host>{self.zookeeper.address}</host><port>{self.zookeeper.port}</port></node>"
                    "<session_timeout_ms>10000</session_timeout_ms></zookeeper>"
                    f"<macros><shard>{shard}</shard><replica>{replica}</replica></macros>"
                    "<distributed_ddl><path>/clickhouse/ddl</path></distributed_ddl>")
        self.zookeeper.wait()
        for node in self.nodes():
            node.start()
        for node in self.nodes():
            node.wait()
        wait_for("a statement on all nodes", self._works)

    def nodes(self):
        return [node for row in self.node for node in row]

    def _works(self):
        """A server of 18.16 that loses its session with ZooKeeper on a busy machine may crash in its first statement ON CLUSTER."""
        for node in self.nodes():
            if node.process.poll() is not None:
                node.start().wait()
        try:
            self.node[0][0].ask("CREATE DATABASE IF NOT EXISTS default ON CLUSTER fleet", distributed_ddl_task_timeout=10)
            return True
        except (OSError, Refused):
            return False

    def settled(self):
        """Every replica has what another one got."""
        behind = "SELECT count() FROM system.replicas WHERE queue_size > 0 OR (log_max_index > 0 AND log_pointer <= log_max_index)"
        wait_for("the replicas to be equal", lambda: all(node.rows(behind) == [["0"]] for node in self.nodes()))


def temporary():
    directory = tempfile.mkdtemp(prefix="tracesmith-clickhouse-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def need_debian():
    for path in (SERVER, ZOOKEEPER):
        if not os.path.exists(path):
            skip(f"{path} is missing: apt install clickhouse-server zookeeper")


def need_modern():
    """chdb in the cache, fetched once; 150 MB on the way."""
    if not os.path.isdir(CACHE):
        for program in ("node", "npm"):
            if not shutil.which(program):
                skip(f"{program} is not installed")
        work = CACHE + f".{os.getpid()}"
        os.makedirs(work)
        try:
            run = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", work, CHDB],
                                 capture_output=True, text=True, check=False, timeout=500)
            if run.returncode:
                skip(f"npm cannot fetch {CHDB}: {(run.stdout + run.stderr).strip()[-300:]}")
            os.rename(work, CACHE)
        except OSError:
            if not os.path.isdir(CACHE):  # else another test was faster
                raise
        finally:
            shutil.rmtree(work, ignore_errors=True)


def cluster(shards=2, replicas=2):
    need_debian()
    return Cluster(shards, replicas)


def node():
    need_debian()
    return Debian(temporary()).start().wait()


def modern():
    need_modern()
    return Modern(temporary()).start().wait()
