/* The record request: each op comes once through polls and merges, of each table what is new, and
 * what came too late is counted. */
#include "core/sbt/file.h"
#include "core/sbt/rows.h"
#include "core/sbt/sbt.h"
#include "tests/unit/query_fixture.h"

#define TABLES_MAX 32
#define NOW_S	   (fixture_now_ns / SECOND_NS)

/* What a recorder has been told so far. */
struct recorder {
	Tracesmith__V1__RecordCursor cursor;
	bool begun;
	uint64_t ops, sum, chunks; /* sum of start times */
	struct {
		char name[SBT_ROW_NAME_MAX + 1];
		uint64_t rows; /* of the last answer */
	} table[TABLES_MAX];
	uint64_t behind;
	int break_after; /* chunks, 0: never */
	char error[256];
};

static uint64_t *rows_of(struct recorder *recorder, const char *name)
{
	int i = 0;

	while (recorder->table[i].name[0] && strcmp(recorder->table[i].name, name) != 0)
		assert_true(++i < TABLES_MAX);
	snprintf(recorder->table[i].name, sizeof(recorder->table[i].name), "%s", name);
	return &recorder->table[i].rows;
}

static void take_rows(struct recorder *recorder, const Tracesmith__V1__Chunk *chunk)
{
	_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;

	assert_int_equal(sbt_view_new(chunk->data.data, chunk->data.len, &view), 0);
	*rows_of(recorder, sbt_view_table(view)) += sbt_view_row_count(view);
}

static void take_ops(struct recorder *recorder, const Tracesmith__V1__Chunk *chunk)
{
	static struct op op[SBT_OPS_MAX];
	struct sbt_codec *codec;
	struct sbt_info info;

	assert_int_equal(sbt_codec_new(&codec), 0);
	assert_int_equal(
		sbt_decode(codec, chunk->data.data, chunk->data.len, SBT_ALL_COLUMNS, op, &info),
		0);
	sbt_codec_free(codec);
	for (uint32_t i = 0; i < info.count; i++)
		recorder->sum += op[i].start_ns;
	recorder->ops += info.count;
	recorder->chunks++;
	recorder->cursor.batch = chunk->batch;
	recorder->cursor.chunk = chunk->id;
}

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct recorder *recorder = data;
	const Tracesmith__V1__Done *done = reply->done;

	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_CHUNK:
		if (reply->chunk->type == SBT_BLOCK_ROWS)
			take_rows(recorder, reply->chunk);
		else if (recorder->break_after && recorder->break_after-- == 1)
			return -ECANCELED;
		else
			take_ops(recorder, reply->chunk);
		break;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		recorder->cursor.batch = done->cursor->batch;
		recorder->cursor.chunk = done->cursor->chunk;
		recorder->cursor.told_ns = done->cursor->told_ns;
		recorder->begun = true;
		for (size_t i = 0; i < done->n_loss; i++)
			if (strcmp(done->loss[i]->reason, "behind") == 0)
				recorder->behind += done->loss[i]->count;
		break;
	case TRACESMITH__V1__REPLY__BODY_ERROR:
		snprintf(recorder->error, sizeof(recorder->error), "%s", reply->error->message);
		break;
	default:
		fail();
	}
	return 0;
}

static bool never(void *data)
{
	return false;
}

#define RECORD(...)                                                                                \
	(Tracesmith__V1__RecordRequest)                                                            \
	{                                                                                          \
		PROTOBUF_C_MESSAGE_INIT(&tracesmith__v1__record_request__descriptor), __VA_ARGS__  \
	}

static void ask_for(struct fixture *f, struct recorder *recorder,
		    Tracesmith__V1__RecordRequest body)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct query_job job = {
		.request = &request,
		.database = f->path,
		.boot_id = BOOT,
		.now_ns = fixture_now_ns,
		.send = take,
		.cancelled = never,
		.data = recorder,
	};

	for (int i = 0; i < TABLES_MAX; i++)
		recorder->table[i].rows = 0;
	if (recorder->begun)
		body.cursor = &recorder->cursor;
	request.id = 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_RECORD;
	request.record = &body;
	query_run(&job);
}

/* So far what the recorder has is what the store has. */
static void expect_all(struct fixture *f, const struct recorder *recorder)
{
	assert_int_equal(recorder->ops, fixture_ask(f, "SELECT count(*) FROM op"));
	assert_int_equal(recorder->sum, fixture_ask(f, "SELECT sum(start_ns) FROM op"));
}

static struct recorder *setup(struct fixture *f)
{
	static struct recorder recorder;

	recorder = (struct recorder){ 0 };
	tracesmith__v1__record_cursor__init(&recorder.cursor);
	assert_int_equal(fixture_open(f), 0);
	for (uint32_t i = 1; i <= 2; i++) {
		add_process(f->store, i, 1000 + i, 0);
		store_add(f->store, &(struct core_stream){ .id = i, .process = i });
	}
	return &recorder;
}

static uint64_t random_seed = 11;

/* `count` ops of each of two processes, then a commit at `now_ns`. */
static void add_ops(struct fixture *f, uint64_t count, uint64_t now_ns)
{
	for (uint64_t i = 0; i < count; i++) {
		for (uint32_t process = 1; process <= 2; process++) {
			struct op op =
				fixture_launch(process, process, now_ns - 1000 + i, &random_seed);

			store_add_op(f->store, &op);
		}
	}
	fixture_commit(f, now_ns);
}

static void each_op_comes_once_through_merges(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);
	uint64_t begin_ns = (NOW_S - 65) * SECOND_NS;

	for (uint64_t i = 0; i < 240; i++) {
		add_ops(f, 2, begin_ns + i * SECOND_NS / 4);
		if (i % 4 == 0)
			ask_for(f, recorder, RECORD(.since_ns = 1));
	}
	ask_for(f, recorder, RECORD(.since_ns = 1, .last = true));
	assert_true(fixture_ask(f, "SELECT count(*) FROM chunk WHERE batch <> first_batch") > 2);
	assert_int_equal(recorder->behind, 0);
	expect_all(f, recorder);
}

static void what_was_merged_meanwhile_is_counted(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);
	uint64_t begin_ns = (NOW_S - 65) * SECOND_NS;

	add_ops(f, 2, begin_ns);
	ask_for(f, recorder, RECORD(.since_ns = 1));
	for (uint64_t i = 1; i < 240; i++)
		add_ops(f, 2, begin_ns + i * SECOND_NS / 4);
	ask_for(f, recorder, RECORD(.since_ns = 1));
	assert_true(recorder->behind > 0);
	assert_int_equal(recorder->ops + recorder->behind - 4,
			 fixture_ask(f, "SELECT count(*) FROM op"));
}

static void an_answer_that_broke_off_goes_on_where_it_was(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);
	uint64_t begin_ns = fixture_second() * SECOND_NS;

	ask_for(f, recorder, RECORD(.since_ns = 1));
	for (uint64_t i = 0; i < 10; i++)
		add_ops(f, 3, begin_ns + i * 1000000);
	for (int i = 1; i <= 4; i++) {
		recorder->break_after = i;
		ask_for(f, recorder, RECORD(.since_ns = 1));
	}
	recorder->break_after = 0;
	ask_for(f, recorder, RECORD(.since_ns = 1));
	assert_int_equal(recorder->chunks, 20);
	expect_all(f, recorder);
}

/* A question may wait for its turn: what is stored meanwhile is in the answer, or in the next one.
 */
static void what_came_while_the_question_waited_is_not_skipped(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);

	add_ops(f, 3, fixture_now_ns - SECOND_NS);
	ask_for(f, recorder, RECORD(.since_ns = 1));
	add_ops(f, 3, fixture_now_ns + SECOND_NS / 10);
	ask_for(f, recorder, RECORD(.since_ns = 1, .until_ns = fixture_now_ns + SECOND_NS));
	ask_for(f, recorder, RECORD(.since_ns = 1));
	expect_all(f, recorder);
}

static void the_past_of_a_process_joins_in(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);
	uint64_t begin_ns = fixture_second() * SECOND_NS, before;
	uint32_t first = 1001, both[] = { 1001, 1002 };

	add_ops(f, 5, begin_ns);
	ask_for(f, recorder, RECORD(.since_ns = 1, .n_pid = 1, .pid = &first));
	add_ops(f, 5, begin_ns + 1000);
	before = recorder->cursor.batch + 1;
	recorder->begun = false;
	ask_for(f, recorder,
		RECORD(.since_ns = 1, .n_pid = 1, .pid = &both[1], .before_batch = before));
	assert_int_equal(recorder->ops, 10);
	assert_int_equal(recorder->cursor.batch, before - 1);
	ask_for(f, recorder, RECORD(.since_ns = 1, .n_pid = 2, .pid = both));
	expect_all(f, recorder);
}

static void rows_are_told_when_they_are_new(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);
	uint64_t begin_ns = (NOW_S - 30) * SECOND_NS;
	struct frame frame = { .address = 1, .function = "main" };

	store_add_name(f->store, 77, "_Z6reducePKfPfi", 15);
	store_add_stack(f->store, &(struct store_stack){
					  .id = 5, .process = 1, .frame = &frame, .count = 1 });
	add_rollup(f->store, 1, 1, OP_LAUNCH, 3, (struct core_rollup){ .second = NOW_S - 40 });
	add_ops(f, 1, begin_ns);
	ask_for(f, recorder, RECORD(.since_ns = 1));
	assert_int_equal(*rows_of(recorder, "process"), 2);
	assert_int_equal(*rows_of(recorder, "name"), 1);
	assert_int_equal(*rows_of(recorder, "frame"), 1);
	assert_int_equal(*rows_of(recorder, "function"), 5);
	assert_int_equal(*rows_of(recorder, "rollup"), 0);
	assert_int_equal(*rows_of(recorder, "memory"), 0);

	store_add_name(f->store, 78, "other", 5);
	store_add_stack(f->store, &(struct store_stack){
					  .id = 6, .process = 2, .frame = &frame, .count = 1 });
	store_add_stack(f->store, &(struct store_stack){
					  .id = 7, .process = 2, .frame = &frame, .count = 1 });
	add_rollup(f->store, 2, 1, OP_LAUNCH, 3, (struct core_rollup){ .second = NOW_S - 25 });
	fixture_commit(f, begin_ns + 20 * SECOND_NS);
	ask_for(f, recorder, RECORD(.since_ns = 1));
	assert_int_equal(*rows_of(recorder, "name"), 1);
	assert_int_equal(*rows_of(recorder, "stack"), 2);
	assert_int_equal(*rows_of(recorder, "function"), 0);
	assert_int_equal(*rows_of(recorder, "rollup"), 2);

	ask_for(f, recorder, RECORD(.since_ns = 1));
	assert_int_equal(*rows_of(recorder, "name"), 0);
	assert_int_equal(*rows_of(recorder, "stack"), 0);
	assert_int_equal(*rows_of(recorder, "rollup"), 0);
	assert_int_equal(*rows_of(recorder, "boot"), 1);
}

static void rows_of_others_are_left_out(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);
	struct frame frame = { .address = 1, .function = "main" };
	uint32_t pid = 1002;

	for (uint32_t i = 1; i <= 2; i++) {
		store_add_stack(f->store,
				&(struct store_stack){
					.id = 5 + i, .process = i, .frame = &frame, .count = 1 });
		add_rollup(f->store, i, 1, OP_LAUNCH, 3, (struct core_rollup){ 0 });
		add_allocation(f->store, i, i, 64, 0, 1, 5);
	}
	for (uint32_t i = 0; i <= 2; i++)
		store_add(f->store, &(struct core_loss){ .process = i,
							 .reason = LOSS_STACK,
							 .start_ns = 5,
							 .end_ns = 6,
							 .count = 1 });
	add_ops(f, 1, fixture_second() * SECOND_NS);
	ask_for(f, recorder, RECORD(.since_ns = 1, .n_pid = 1, .pid = &pid, .last = true));
	assert_int_equal(recorder->ops, 1);
	assert_int_equal(*rows_of(recorder, "process"), 1);
	assert_int_equal(*rows_of(recorder, "stream"), 1);
	assert_int_equal(*rows_of(recorder, "frame"), 1);
	assert_int_equal(*rows_of(recorder, "rollup"), 1);
	assert_int_equal(*rows_of(recorder, "allocation"), 1);
	assert_int_equal(*rows_of(recorder, "loss"), 2);
}

static void nonsense_is_refused(void **state)
{
	struct fixture *f = *state;
	struct recorder *recorder = setup(f);
	uint32_t pid = 7, many[4097] = { 0 };

	fixture_commit(f, 1000);
	ask_for(f, recorder, RECORD(.n_pid = 1, .pid = &pid));
	assert_non_null(strstr(recorder->error, "Process 7 has not used CUDA"));
	ask_for(f, recorder, RECORD(.since_ns = 9, .until_ns = 8));
	assert_non_null(strstr(recorder->error, "ends before it starts"));
	ask_for(f, recorder, RECORD(.n_pid = 4097, .pid = many));
	assert_non_null(strstr(recorder->error, "Too many processes"));
	assert_false(recorder->begun);
	/* Any cursor will do: it says what is not wanted. */
	recorder->begun = true;
	recorder->cursor = (Tracesmith__V1__RecordCursor){
		PROTOBUF_C_MESSAGE_INIT(&tracesmith__v1__record_cursor__descriptor), UINT64_MAX,
		UINT64_MAX, UINT64_MAX
	};
	recorder->error[0] = '\0';
	ask_for(f, recorder, RECORD(.since_ns = UINT64_MAX, .before_batch = UINT64_MAX));
	assert_string_equal(recorder->error, "");
	assert_int_equal(recorder->ops, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_op_comes_once_through_merges),
		TEST(what_was_merged_meanwhile_is_counted),
		TEST(an_answer_that_broke_off_goes_on_where_it_was),
		TEST(what_came_while_the_question_waited_is_not_skipped),
		TEST(the_past_of_a_process_joins_in),
		TEST(rows_are_told_when_they_are_new),
		TEST(rows_of_others_are_left_out),
		TEST(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
