/* The replay request: the changes of a window, filtered, in batches, and how it ends. */
#include "core/replay/replay.h"
#include "core/store/page_sum.h"
#include "tests/unit/query_fixture.h"

#define PID   4000001u
#define T(us) (fixture_second() * SECOND_NS + (us)*1000ull)

/* What came, a line for each change with its time from the start in microseconds. */
struct told {
	char *text;
	size_t size;
	FILE *out;
	uint64_t last_ns, changes, rows, damaged_ops;
	int replies, cancel_after;
	Tracesmith__V1__Error__Code error;
	bool done;
};

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct told *told = data;

	assert_false(told->done || told->error);
	assert_int_equal(reply->id, 1);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR) {
		told->error = reply->error->code;
		fputs(reply->error->message, told->out);
		return 0;
	}
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE) {
		told->done = true;
		told->rows = reply->done->rows;
		for (size_t i = 0; i < reply->done->n_loss; i++)
			if (strcmp(reply->done->loss[i]->reason, "damaged") == 0)
				told->damaged_ops += reply->done->loss[i]->count;
		return 0;
	}
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_CHANGES);
	assert_in_range(reply->changes->n_change, 1, 512);
	told->replies++;
	for (size_t i = 0; i < reply->changes->n_change; i++) {
		const Tracesmith__V1__Changes__Change *change = reply->changes->change[i];

		assert_true(change->time_ns >= told->last_ns);
		told->last_ns = change->time_ns;
		told->changes++;
		fprintf(told->out, "%llu %u %s %lu %u %d %s-%s%s %s %s\n",
			(change->time_ns - T(0)) / 1000, change->pid,
			replay_machine_name((uint8_t)change->machine), change->op, change->stream,
			change->device, replay_state_name((uint8_t)change->from),
			replay_state_name((uint8_t)change->to), change->bounds ? " bounds" : "",
			change->kind, change->name);
	}
	return told->cancel_after && told->replies >= told->cancel_after ? -ECANCELED : 0;
}

static bool is_no_more_wanted(void *data)
{
	const struct told *told = data;

	return told->cancel_after && told->replies >= told->cancel_after;
}

static void replay(const struct fixture *fixture, Tracesmith__V1__ReplayRequest body,
		   struct told *told)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct query_job job = {
		.request = &request,
		.database = fixture->path,
		.boot_id = BOOT,
		.now_ns = fixture_now_ns,
		.send = take,
		.cancelled = is_no_more_wanted,
		.data = told,
	};

	request.id = 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_REPLAY;
	request.replay = &body;
	told->out = open_memstream(&told->text, &told->size);
	query_run(&job);
	fclose(told->out);
	if (told->done)
		assert_int_equal(told->rows, told->changes);
}

static void told_done(struct told *told)
{
	free(told->text);
	*told = (struct told){ 0 };
}

#define ASK(...)                                                                                   \
	(Tracesmith__V1__ReplayRequest)                                                            \
	{                                                                                          \
		PROTOBUF_C_MESSAGE_INIT(&tracesmith__v1__replay_request__descriptor), __VA_ARGS__  \
	}

static void expect_told(void **state, Tracesmith__V1__ReplayRequest body, const char *text)
{
	struct told told = { 0 };

	replay(*state, body, &told);
	assert_string_equal(told.text, text);
	told_done(&told);
}

static void refuse_told(void **state, Tracesmith__V1__ReplayRequest body,
			Tracesmith__V1__Error__Code code, const char *part)
{
	struct told told = { 0 };

	replay(*state, body, &told);
	assert_int_equal(told.error, code);
	assert_non_null(strstr(told.text, part));
	told_done(&told);
}

/* A kernel and a copy on one stream; of another process, on another device, a launch with bounds
 * and an allocation. */
static int setup(void **state)
{
	struct fixture *fixture;
	const struct op ops[] = {
		{ .start_ns = T(10),
		  .gpu_start_ns = T(20),
		  .gpu_end_ns = T(30),
		  .seen_ns = T(40),
		  .process = 1,
		  .stream = 7,
		  .tid = 5,
		  .fn = FN_LAUNCH,
		  .flags = OP_EXACT,
		  .kind = OP_LAUNCH,
		  .name = 9 },
		{ .start_ns = T(12),
		  .gpu_start_ns = T(30),
		  .gpu_end_ns = T(35),
		  .process = 1,
		  .stream = 7,
		  .tid = 5,
		  .fn = FN_HTOD,
		  .flags = OP_EXACT,
		  .kind = OP_COPY,
		  .detail = COPY_HTOD },
		{ .start_ns = T(14),
		  .gpu_start_ns = T(14),
		  .gpu_end_ns = T(34),
		  .process = 2,
		  .stream = 8,
		  .fn = FN_LAUNCH,
		  .flags = OP_BOUNDS,
		  .kind = OP_LAUNCH,
		  .device = 1 },
		{ .start_ns = T(15),
		  .end_ns = T(16),
		  .process = 2,
		  .fn = FN_ALLOC,
		  .kind = OP_ALLOC,
		  .device = 1,
		  .flags = OP_RETURNED },
	};

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, PID, 0);
	add_process(fixture->store, 2, PID + 1, 0);
	store_add_name(fixture->store, 9, "gemm\xff", 5);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		store_add_op(fixture->store, &ops[i]);
	fixture_commit(fixture, fixture_now_ns);
	return 0;
}

#define KERNEL " launch gemm\xef\xbf\xbd\n"
#define COPY   " copy HtoD\n"

static void test_changes_come_in_order_with_what_they_are_of(void **state)
{
	expect_told(
		state, ASK(.pid = PID),
		"10 4000001 op 1 7 0 idle-pending" KERNEL "10 4000001 stream 0 7 0 idle-pending  \n"
		"10 4000001 device 0 0 0 idle-pending  \n"
		"12 4000001 op 2 7 0 idle-pending" COPY "20 4000001 op 1 7 0 pending-running" KERNEL
		"20 4000001 stream 0 7 0 pending-running  \n"
		"20 4000001 device 0 0 0 pending-running  \n"
		"30 4000001 op 2 7 0 pending-running" COPY
		"30 4000001 op 1 7 0 running-waiting" KERNEL
		"35 4000001 op 2 7 0 running-finished" COPY
		"35 4000001 stream 0 7 0 running-idle  \n"
		"35 4000001 device 0 0 0 running-idle  \n"
		"40 4000001 op 1 7 0 waiting-finished" KERNEL);
}

static void test_filters_choose_what_is_told(void **state)
{
	expect_told(state, ASK(.stream = 8),
		    "14 4000002 op 3 8 1 idle-pending launch cuLaunchKernel\n"
		    "14 4000002 stream 0 8 1 idle-pending  \n"
		    "34 4000002 op 3 8 1 pending-finished bounds launch cuLaunchKernel\n"
		    "34 4000002 stream 0 8 1 pending-idle  \n");
	expect_told(state,
		    ASK(.pid = PID + 1, .until_ns = T(34),
			.device_given_case = TRACESMITH__V1__REPLAY_REQUEST__DEVICE_GIVEN_DEVICE,
			.device = 1),
		    "14 4000002 op 1 8 1 idle-pending launch cuLaunchKernel\n"
		    "14 4000002 stream 0 8 1 idle-pending  \n"
		    "14 4000002 device 0 0 1 idle-pending  \n"
		    "15 4000002 op 2 0 1 idle-pending alloc cuMemAlloc_v2\n"
		    "16 4000002 op 2 0 1 pending-finished alloc cuMemAlloc_v2\n");
	expect_told(state, ASK(.stream = 99), "");
}

static void test_a_window_begins_with_what_is_under_way(void **state)
{
	expect_told(state, ASK(.pid = PID, .since_ns = T(25), .until_ns = T(31)),
		    "25 4000001 op 1 7 0 idle-running" KERNEL
		    "25 4000001 op 2 7 0 idle-pending" COPY
		    "25 4000001 stream 0 7 0 idle-running  \n"
		    "25 4000001 device 0 0 0 idle-running  \n"
		    "30 4000001 op 2 7 0 pending-running" COPY
		    "30 4000001 op 1 7 0 running-waiting" KERNEL);
	expect_told(state, ASK(.since_ns = T(50)), "");
}

static void test_mistakes_are_answered(void **state)
{
	refuse_told(state, ASK(.pid = 1), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
		    "Process 1 has not used CUDA");
	refuse_told(state, ASK(.since_ns = 2, .until_ns = 1),
		    TRACESMITH__V1__ERROR__CODE__BAD_REQUEST, "The window ends before it starts");
}

/* Many, with many names: batches are bounded, and one that nobody wants any more is the last. */
static void test_a_long_replay_comes_in_batches_and_can_be_cancelled(void **state)
{
	enum { COUNT = 5000 };
	struct fixture *fixture;
	struct told told = { 0 };
	char name[2000];
	void *other;

	fixture_setup(&other);
	fixture = other;
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, PID, 0);
	memset(name, 'k', sizeof(name));
	for (uint32_t i = 0; i < COUNT; i++) {
		struct op op = { .start_ns = T(10 * i),
				 .gpu_start_ns = T(10 * i + 1),
				 .gpu_end_ns = T(10 * i + 15),
				 .process = 1,
				 .stream = 1 + i % 3,
				 .fn = FN_LAUNCH,
				 .flags = OP_EXACT,
				 .kind = OP_LAUNCH,
				 .name = 1 + i % 1000 };

		if (i < 1000)
			store_add_name(fixture->store, 1 + i, name, 1000 + i);
		store_add_op(fixture->store, &op);
	}
	fixture_commit(fixture, fixture_now_ns);
	replay(fixture, ASK(.stream = 2), &told);
	assert_true(told.done);
	assert_int_equal(told.changes, (COUNT + 1) / 3 * 6);
	assert_true(told.replies > 60);
	told_done(&told);
	told.cancel_after = 2;
	replay(fixture, ASK(.stream = 2), &told);
	assert_false(told.done || told.error);
	assert_int_equal(told.replies, 2);
	told_done(&told);
	fixture_teardown(&other);
}

static void test_a_damaged_chunk_is_counted(void **state)
{
	struct fixture *fixture = *state;
	struct told told = { 0 };
	sqlite3 *db;

	fixture->store = store_free(fixture->store);
	assert_int_equal(sqlite3_open_v2(fixture->path, &db, SQLITE_OPEN_READWRITE, page_sum_vfs()),
			 SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "UPDATE chunk SET data = zeroblob(100)", NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);
	replay(fixture, ASK(.pid = PID), &told);
	assert_true(told.done);
	assert_int_equal(told.changes, 0);
	assert_true(told.damaged_ops > 0);
	told_done(&told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes_come_in_order_with_what_they_are_of),
		cmocka_unit_test(test_filters_choose_what_is_told),
		cmocka_unit_test(test_a_window_begins_with_what_is_under_way),
		cmocka_unit_test(test_mistakes_are_answered),
		cmocka_unit_test(test_a_long_replay_comes_in_batches_and_can_be_cancelled),
		cmocka_unit_test(test_a_damaged_chunk_is_counted),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
