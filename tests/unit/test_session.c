/* Session: a connection of the client library, whose other side has already said all that it will.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "client/library/session.h"

typedef Tracesmith__V1__LiveReply live_message;
typedef Tracesmith__V1__LiveReply__Process process_message;

struct other {
	struct tracesmith *ts;
	int fd; /* theirs */
	uint64_t id;
};

static void say(struct other *other, Tracesmith__V1__Reply *reply)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;

	reply->id = other->id;
	assert_int_equal(ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &data, &size), 0);
	assert_int_equal(send(other->fd, data, size, MSG_NOSIGNAL), size);
}

static void say_live(struct other *other, live_message *live)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	reply.body_case = TRACESMITH__V1__REPLY__BODY_LIVE;
	reply.live = live;
	say(other, &reply);
}

/* Connected, with the hello. */
static int setup(void **state)
{
	struct other *other = calloc(1, sizeof(*other));
	Tracesmith__V1__HelloReply hello = TRACESMITH__V1__HELLO_REPLY__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	int fd[2], room = 8 << 20;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	other->fd = fd[1];
	other->ts = tracesmith_new();
	other->id = 1;
	hello.now_ns = 100;
	hello.version = "7.8";
	reply.body_case = TRACESMITH__V1__REPLY__BODY_HELLO;
	reply.hello = &hello;
	say(other, &reply);
	assert_int_equal(session_open(other->ts, fd[0], 0), 0);
	assert_string_equal(tracesmith_version(other->ts), "7.8");
	assert_true(tracesmith_now_ns(other->ts) >= 100);
	other->id = 2;
	*state = other;
	return 0;
}

static int teardown(void **state)
{
	struct other *other = *state;

	tracesmith_free(other->ts);
	close(other->fd);
	free(other);
	return 0;
}

static int64_t cell_of(const struct tracesmith_answer *answer, size_t row, const char *column)
{
	struct tracesmith_cell cell;

	for (size_t i = 0; i < tracesmith_answer_columns(answer); i++)
		if (strcmp(tracesmith_answer_column(answer, i, NULL), column) == 0) {
			tracesmith_answer_cell(answer, row, i, &cell);
			return cell.integer;
		}
	fail_msg("there is no column %s", column);
	return 0;
}

static struct tracesmith_answer *next(struct other *other, enum tracesmith_live what)
{
	struct tracesmith_answer *answer;

	assert_int_equal(tracesmith_next(other->ts), 0);
	assert_int_equal(tracesmith_live(other->ts, what, &answer), 0);
	return answer;
}

/* Who is left out has done nothing, who is gone is no more. */
static void messages_of_a_subscription_add_up(void **state)
{
	struct other *other = *state;
	live_message first = TRACESMITH__V1__LIVE_REPLY__INIT, second = first, third = first;
	process_message busy = TRACESMITH__V1__LIVE_REPLY__PROCESS__INIT, idle = busy, later = busy;
	process_message *both[] = { &busy, &idle }, *one[] = { &later };
	Tracesmith__V1__LiveReply__Calls calls = TRACESMITH__V1__LIVE_REPLY__CALLS__INIT;
	Tracesmith__V1__LiveReply__States states = TRACESMITH__V1__LIVE_REPLY__STATES__INIT;
	Tracesmith__V1__LiveReply__Use use = TRACESMITH__V1__LIVE_REPLY__USE__INIT,
				       *uses[] = { &use };
	struct tracesmith_answer *answer;
	uint32_t gone[] = { 2, 77 };

	calls.count = 4;
	states.running_ns = 3;
	use.states = &states;
	busy.id = 1;
	busy.pid = 7;
	busy.calls = &calls;
	busy.lost = 5;
	busy.live_bytes = 6;
	busy.use = uses;
	busy.n_use = 1;
	idle.id = 2;
	later.id = 3;
	first.whole = third.whole = true;
	first.process = both;
	first.n_process = 2;
	second.process = one;
	second.n_process = 1;
	second.gone = gone;
	second.n_gone = 2;
	say_live(other, &first);
	say_live(other, &second);
	say_live(other, &third);

	assert_int_equal(tracesmith_next(other->ts), TRACESMITH_BAD_REQUEST);
	assert_int_equal(tracesmith_subscribe(other->ts), 0);
	answer = next(other, TRACESMITH_PROCESSES);
	assert_int_equal(tracesmith_answer_rows(answer), 2);
	assert_int_equal(cell_of(answer, 0, "calls.count"), 4);
	tracesmith_answer_free(answer);
	assert_int_equal(tracesmith_live(other->ts, TRACESMITH_USES, &answer), 0);
	assert_int_equal(cell_of(answer, 0, "process"), 1);
	assert_int_equal(cell_of(answer, 0, "states.running_ns"), 3);
	tracesmith_answer_free(answer);

	answer = next(other, TRACESMITH_PROCESSES);
	assert_int_equal(tracesmith_answer_rows(answer), 2);
	assert_int_equal(cell_of(answer, 0, "pid"), 7);
	assert_int_equal(cell_of(answer, 0, "calls.count"), 0);
	assert_int_equal(cell_of(answer, 0, "lost"), 0);
	assert_int_equal(cell_of(answer, 0, "live_bytes"), 6);
	assert_int_equal(cell_of(answer, 1, "id"), 3);
	tracesmith_answer_free(answer);
	assert_int_equal(tracesmith_live(other->ts, TRACESMITH_USES, &answer), 0);
	assert_int_equal(cell_of(answer, 0, "states.running_ns"), 0);
	tracesmith_answer_free(answer);

	answer = next(other, TRACESMITH_PROCESSES);
	assert_int_equal(tracesmith_answer_rows(answer), 0);
	tracesmith_answer_free(answer);
	assert_int_equal(tracesmith_live(other->ts, 99, &answer), TRACESMITH_BAD_REQUEST);
}

static void more_processes_than_there_are_end_it(void **state)
{
	struct other *other = *state;
	static process_message process[1000];
	process_message *all[1000];
	live_message live = TRACESMITH__V1__LIVE_REPLY__INIT;
	uint32_t id = 0;
	int r = 0;

	live.process = all;
	live.n_process = 1000;
	assert_int_equal(tracesmith_subscribe(other->ts), 0);
	for (int turn = 0; turn < 20 && r == 0; turn++) {
		for (size_t i = 0; i < live.n_process; i++) {
			tracesmith__v1__live_reply__process__init(&process[i]);
			process[i].id = ++id;
			all[i] = &process[i];
		}
		say_live(other, &live);
		r = tracesmith_next(other->ts);
	}
	assert_int_equal(r, TRACESMITH_CONNECTION_LOST);
	assert_int_equal(tracesmith_fd(other->ts), -1);
}

static void another_reply_ends_a_subscription(void **state)
{
	struct other *other = *state;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	struct tracesmith_answer *answer = NULL;

	assert_int_equal(tracesmith_subscribe(other->ts), 0);
	say(other, &reply);
	assert_int_equal(tracesmith_next(other->ts), TRACESMITH_CONNECTION_LOST);
	assert_string_equal(tracesmith_message(other->ts),
			    "The server on this socket is not tracesmithd");
	assert_int_equal(tracesmith_live(other->ts, TRACESMITH_DEVICES, &answer),
			 TRACESMITH_BAD_REQUEST);
	assert_null(answer);
}

/* It neither asks on its parent's connection nor ends it. */
static void a_child_leaves_its_parents_connection_alone(void **state)
{
	struct other *other = *state;
	live_message live = TRACESMITH__V1__LIVE_REPLY__INIT;
	int status;
	pid_t child;

	assert_int_equal(tracesmith_subscribe(other->ts), 0);
	say_live(other, &live);
	child = fork();
	if (child == 0) {
		int r = tracesmith_next(other->ts);

		tracesmith_free(other->ts);
		_exit(r == TRACESMITH_BAD_REQUEST ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(tracesmith_next(other->ts), 0);
}

static void nothing_is_taken_for_an_object(void **state)
{
	struct tracesmith_answer *answer = NULL;

	tracesmith_free(NULL);
	tracesmith_set_timeout(NULL, 1);
	assert_int_equal(tracesmith_connect(NULL, "/x"), TRACESMITH_BAD_REQUEST);
	assert_int_equal(tracesmith_open(NULL, "/x", NULL), TRACESMITH_BAD_REQUEST);
	assert_int_equal(tracesmith_sql(NULL, "SELECT 1", 0, 0, &answer), TRACESMITH_BAD_REQUEST);
	assert_int_equal(tracesmith_subscribe(NULL), TRACESMITH_BAD_REQUEST);
	assert_int_equal(tracesmith_next(NULL), TRACESMITH_BAD_REQUEST);
	assert_int_equal(tracesmith_fd(NULL), -1);
	assert_int_equal(tracesmith_now_ns(NULL), 0);
	assert_string_equal(tracesmith_version(NULL), "");
	assert_non_null(tracesmith_message(NULL));
	assert_null(answer);
}

static Tracesmith__V1__Request__BodyCase heard(struct other *other, struct ts_frame_reader *reader)
{
	Tracesmith__V1__Request *request;
	Tracesmith__V1__Request__BodyCase kind;
	const uint8_t *data;
	size_t size, room;
	ssize_t n;
	void *to;

	while (ts_frame_reader_next(reader, &data, &size) == 0) {
		to = ts_frame_reader_room(reader, &room);
		n = recv(other->fd, to, room, 0);
		assert_true(n > 0);
		ts_frame_reader_fill(reader, (size_t)n);
	}
	request = tracesmith__v1__request__unpack(NULL, size, data);
	assert_non_null(request);
	kind = request->body_case;
	tracesmith__v1__request__free_unpacked(request, NULL);
	return kind;
}

static void a_request_is_what_its_body_is(void **state)
{
	const ProtobufCMessageDescriptor *kinds = &tracesmith__v1__request__descriptor;
	struct ts_frame_reader reader = { .max = TS_FRAME_REQUEST_MAX };
	struct other *other = *state;
	union {
		ProtobufCMessage base;
		char room[512];
	} body;

	assert_int_equal(heard(other, &reader), TRACESMITH__V1__REQUEST__BODY_HELLO);
	for (unsigned i = 0; i < kinds->n_fields; i++) {
		const ProtobufCFieldDescriptor *kind = &kinds->fields[i];
		const ProtobufCMessageDescriptor *of = kind->descriptor;

		if (kind->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		assert_true(of->sizeof_message <= sizeof(body));
		protobuf_c_message_init(of, &body);
		assert_int_equal(connection_send(&other->ts->connection, &body.base), 0);
		assert_int_equal(heard(other, &reader), kind->id);
	}
	ts_frame_reader_done(&reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(messages_of_a_subscription_add_up, setup, teardown),
		cmocka_unit_test_setup_teardown(more_processes_than_there_are_end_it, setup,
						teardown),
		cmocka_unit_test_setup_teardown(another_reply_ends_a_subscription, setup, teardown),
		cmocka_unit_test_setup_teardown(a_child_leaves_its_parents_connection_alone, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_request_is_what_its_body_is, setup, teardown),
		cmocka_unit_test(nothing_is_taken_for_an_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
