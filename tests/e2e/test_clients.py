"""Bad clients of the control socket: the daemon is patient with them as far as it harms nobody else."""
import concurrent.futures
import json
import os
import socket
import struct

import tracesmith
from foreign import ENDLESS, Client, control
from tracesmith import run, wait_for

GARBAGE = (b"\x10\0\0\0GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096, os.urandom(100) + b"\xff" * 8,
           struct.pack("<I", 0xffffffff), struct.pack("<I", 1 << 30), struct.pack("<I", 8) + b"\xff" * 8,
           struct.pack("<I", 0))


class Clients(tracesmith.Case):
    def connect(self):
        client = Client(self.daemon.socket)
        self.addCleanup(client.socket.close)
        return client

    def status(self, name):
        rows = json.loads(self.daemon.ctl("status", "--json").out)["rows"]
        return [row["number"] for row in rows if row["name"] == name][0]

    def assert_served(self):
        """Others are."""
        self.assertEqual(self.daemon.ctl("query", "processes").code, 0)

    def assert_refused(self, client):
        """The daemon says what it has to say and hangs up."""
        reply = client.reply()
        self.assertEqual((reply.id, reply.error.code), (0, control.Error.BAD_REQUEST), reply)
        self.assertIsNone(client.reply())

    def test_garbage_and_huge_lengths_end_their_own_connection(self):
        for leaves in (False, True):
            for data in GARBAGE:
                client = self.connect()
                client.socket.sendall(data)
                if leaves:
                    client.socket.shutdown(socket.SHUT_WR)
                self.assert_refused(client)
        self.assert_served()

    def test_half_messages_time_out(self):
        clients = [self.connect() for _ in range(10)]
        for client in clients:
            client.socket.sendall(struct.pack("<I", 100) + b"\x08half")
        self.assert_served()
        for client in clients:
            self.assert_refused(client)

    def test_two_hundred_idle_connections_leave_room(self):
        clients = [self.connect() for _ in range(200)]
        self.assert_served()
        self.assertEqual(clients[-1].ask(id=1, list=control.ListRequest())[-1].WhichOneof("body"), "done")
        for client in clients:
            client.socket.close()
        self.assert_served()

    def test_slow_readers_hold_up_nobody_and_no_memory(self):
        """One of made-up rows, and one of operations that are read from the store."""
        program, said = run("rate", "--kind", "mixed", "--count", "200000")
        self.daemon.wait_ended(program.pid)
        ops = self.daemon.sql("SELECT total(ops) AS n FROM chunk")[0]["n"]
        lost = self.daemon.sql("SELECT total(count) AS n FROM loss")[0]["n"]
        self.assertGreaterEqual(ops + lost, said[-1]["calls"])
        self.assertGreater(ops, 20000, "too few to fill a socket")
        before = self.status("memory_bytes")
        made, stored = self.connect(), self.connect()
        made.send(id=1, sql=control.SqlRequest(text=ENDLESS + "SELECT i, hex(zeroblob(40)) FROM n", limit=800000))
        stored.send(id=1, sql=control.SqlRequest(text="SELECT * FROM op", limit=1000000))
        wait_for("both to run", lambda: self.status("queries") == 2)
        clients, read = (made, stored), [0, 0]
        for _ in range(3):
            self.assert_served()
            self.assertEqual(self.daemon.sql("SELECT 1 AS one"), [{"one": 1}])
            # Who reads nothing for half a minute counts as gone.
            read = [rows + len(client.reply().rows.row) for rows, client in zip(read, clients)]
        # One of the others may be about to go.
        wait_for("these two alone to run", lambda: self.status("queries") == 2)
        self.assertLess(self.status("memory_bytes") - before, 40 << 20, "the rows wait for their reader")
        # Both at once, for the same reason.
        with concurrent.futures.ThreadPoolExecutor() as threads:
            rest = list(threads.map(lambda client: list(client.replies()), clients))
        made, stored = (rows + sum(len(reply.rows.row) for reply in replies) for rows, replies in zip(read, rest))
        self.assertEqual(made, 800000, rest[0][-1])
        self.assertGreaterEqual(stored, ops, rest[1][-1])

    def test_a_client_that_leaves_takes_its_query_with_it(self):
        client = self.connect()
        client.send(id=1, sql=control.SqlRequest(text=ENDLESS + "SELECT count(*) FROM n"))
        wait_for("the query to run", lambda: self.status("queries") == 1)
        client.socket.close()
        wait_for("the query to stop", lambda: self.status("queries") == 0)

    def test_the_daemon_ends_at_once_with_clients_and_queries(self):
        idle, busy = self.connect(), self.connect()
        busy.send(id=1, sql=control.SqlRequest(text=ENDLESS + "SELECT count(*) FROM n"))
        wait_for("the query to run", lambda: self.status("queries") == 1)
        self.assertEqual(self.daemon.stop(), 0)
        self.assertNotIn("without waiting any longer", self.daemon.log())
        self.assertIsNone(idle.reply())
        self.assertFalse(os.path.exists(self.daemon.socket))


if __name__ == "__main__":
    tracesmith.main()
