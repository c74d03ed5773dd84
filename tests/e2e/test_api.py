"""The protobuf API, spoken by a client that is not ours."""
import tracesmith
import unit
from foreign import ENDLESS, Client, control
from tracesmith import run


def value_of(value):
    which = value.WhichOneof("value")
    return getattr(value, which) if which else None


class Api(tracesmith.Case):
    def setUp(self):
        super().setUp()
        self.client = Client(self.daemon.socket)
        self.addCleanup(self.client.socket.close)

    def test_the_daemon_has_what_its_unit_gives_it(self):
        """And not all rights, as when root starts it: this is what the tests run."""
        with open(f"/proc/{self.daemon.process.pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
        self.assertEqual(status["Uid"].split(), 4 * [str(unit.USER)])
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertEqual(int(status["CapBnd"], 16).bit_count(), len(unit.capabilities()))

    def test_hello(self):
        reply = self.client.ask(id=1, hello=control.HelloRequest(protocol=1))[0]
        with open("/proc/sys/kernel/random/boot_id") as file:
            self.assertEqual(reply.hello.boot_id, file.read().strip())
        self.assertGreater(reply.hello.now_ns, 0)

    def test_query_gives_what_happened_and_what_tsctl_shows(self):
        process, expected = run("short")
        self.daemon.wait_ended(process.pid)
        replies = self.client.ask(id=7, query=control.QueryRequest(name="apis", pid=process.pid))
        names = [column.name for reply in replies for column in reply.columns.column]
        rows = [dict(zip(names, map(value_of, row.value))) for reply in replies for row in reply.rows.row]
        self.assertEqual(replies[-1].WhichOneof("body"), "done")
        self.assertEqual(replies[-1].done.rows, len(rows))
        calls = {row["fn"]: row["calls"] for row in rows}
        self.assertEqual(calls, {row["fn"]: row["calls"] for row in expected if row.get("fn") in calls})
        self.assertEqual(rows, self.daemon.query("apis", "--pid", process.pid))

    def test_several_requests_under_way(self):
        for number in range(1, 11):
            self.client.send(id=number, sql=control.SqlRequest(text=f"SELECT {number}"))
        answers, under_way = {}, set(range(1, 11))
        while under_way:
            reply = self.client.reply()
            for row in reply.rows.row:
                answers[reply.id] = row.value[0].integer
            if reply.WhichOneof("body") in ("done", "error"):
                under_way.remove(reply.id)
        self.assertEqual(answers, {number: number for number in range(1, 11)})

    def test_errors_have_a_code_and_a_sentence(self):
        error = self.client.ask(id=3, query=control.QueryRequest(name="nonsense"))[-1].error
        self.assertEqual(error.code, control.Error.NOT_FOUND)
        self.assertTrue(error.message)
        self.assertEqual(self.client.ask(id=4)[-1].error.code, control.Error.BAD_REQUEST)

    def test_cancel(self):
        self.client.send(id=5, sql=control.SqlRequest(text=ENDLESS + "SELECT max(i) FROM n"))
        self.client.send(id=6, cancel=control.CancelRequest(request=5))
        ends = {reply.id: reply for _ in range(2) for reply in self.client.replies()}
        self.assertEqual(ends[5].error.code, control.Error.CANCELLED)
        self.assertEqual(ends[6].WhichOneof("body"), "done")


if __name__ == "__main__":
    tracesmith.main()
