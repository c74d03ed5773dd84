/* Who sees only his own processes: no answer has anything of another's, and his own are as ever. */
#include "core/sbt/file.h"
#include "core/sbt/rows.h"
#include "tests/unit/query_fixture.h"

/* Everything of the other process has `secret` in its name, or this number. */
#define OTHER_PID  "5551234"
#define OWN_PID	   "4000000"
#define OWNER	   1000
#define OTHER	   1001
#define OWN_STACK  1ull
#define STACK(id)  ((id) == 1 ? OWN_STACK : 0x8000000000000002ull)
#define NAME(id)   ((id)*10 + 1)
#define RANGE(id)  ((id)*10 + 2)
#define DEVICE(id) ((id)*10 + 3)

static void add_text(struct store *store, uint64_t id, const char *whose, const char *what)
{
	char text[64];

	snprintf(text, sizeof(text), "%s_%s", whose, what);
	store_add_name(store, id, text, strlen(text));
}

static void add_identity(struct store *store, uint32_t id, uint32_t pid, uint32_t uid,
			 const char *whose)
{
	struct core_process process = {
		.id = id,
		.pid = pid,
		.uid = uid,
		.user = uid,
		.first_ns = fixture_second() * SECOND_NS,
	};
	const struct store_process_detail detail = {
		.command = whose, .user = whose, .cgroup = whose, .container = whose
	};

	snprintf(process.comm, sizeof(process.comm), "%s", whose);
	store_add(store, &process);
	store_add_process_detail(store, id, &detail);
	add_text(store, NAME(id), whose, "kernel");
	add_text(store, RANGE(id), whose, "range");
	add_text(store, DEVICE(id), whose, "device");
}

static void add_stack(struct store *store, uint32_t id, const char *whose)
{
	const struct frame frames[] = { FRAME(0x10, 0x10, "/lib/libcuda.so.1", "cuMemAlloc_v2"),
					{ .address = 0x20,
					  .offset = 0x20,
					  .module = whose,
					  .function = whose,
					  .file = whose,
					  .line = 7 } };

	store_add_stack(store, &(struct store_stack){ STACK(id), id, frames, 2, 0, 0 });
}

static void add_sums(struct store *store, uint32_t id)
{
	const uint64_t second = fixture_second();

	add_rollup(store, id, FN_LAUNCH, OP_LAUNCH, 10, (struct core_rollup){ .stream = id });
	add_rollup(store, id, FN_SYNC, OP_SYNC, 3,
		   (struct core_rollup){ .timed = 3, .total_ns = 9, .stack_id = STACK(id) });
	add_rollup(store, id, FN_HTOD, OP_COPY, 4,
		   (struct core_rollup){ .detail = COPY_HTOD, .bytes = 99, .timed = 4 });
	add_rollup(store, id, FN_ALLOC, OP_ALLOC, 2,
		   (struct core_rollup){ .result = 2, .stack_id = STACK(id) });
	store_add(store, &(struct core_work){ .second = second,
					      .process = id,
					      .kind = OP_KERNEL,
					      .name = NAME(id),
					      .stream = id,
					      .stack_id = STACK(id),
					      .count = 5,
					      .total_ns = 500,
					      .graph = 7 });
	store_add(store, &(struct core_work){ .second = second,
					      .process = id,
					      .kind = OP_GRAPH,
					      .graph = 7,
					      .detail = WORK_GRAPH_PARTS,
					      .count = 1,
					      .total_ns = 50 });
	store_add(store,
		  &(struct core_busy){
			  .second = second, .ns = 7, .process = id, .state = OP_STATE_IDLE });
	store_add(store, &(struct core_communicator){ .process = id, .number = 1, .handle = id });
	store_add(store, &(struct core_collective){ .second = second,
						    .process = id,
						    .communicator = 1,
						    .operation = COLLECTIVE_ALL_REDUCE,
						    .calls = 1,
						    .runs = 1,
						    .timed = 1,
						    .total_ns = 10 });
	store_add(store, &(struct core_watch){ .second = second,
					       .process = id,
					       .windows = 1,
					       .watched_ns = 1000,
					       .all_ns = 2000,
					       .missed = 5 });
}

static void add_things(struct store *store, uint32_t id)
{
	const uint64_t now_ns = fixture_now_ns;
	struct core_loss loss = { .process = id, .reason = LOSS_RING_FULL, .count = 1000 * id };

	store_add(store, &(struct core_stream){ .id = id, .process = id, .handle = 0xa0 + id });
	store_add(store, &(struct core_device){ .process = id, .name = DEVICE(id) });
	store_add(store, &(struct core_memory){ id, 0, MEMORY_DEVICE, 300, 3, 400, 0, 0 });
	store_add(store, &(struct core_pool){ .process = id, .address = 0xa000 * id, .bytes = 64 });
	store_add(store, &(struct core_price){ .process = id, .cost_ppm = 10, .told_ns = now_ns });
	store_add(store, &(struct core_collect){ .process = id,
						 .state = TS_COLLECT_CHANGED,
						 .records = TS_RECORDS_ALL,
						 .since_ns = fixture_second() * SECOND_NS });
	add_allocation(store, id, id, 100, STACK(id), MEMORY_DEVICE, now_ns - 90 * SECOND_NS);
	loss.start_ns = loss.end_ns = fixture_second() * SECOND_NS;
	store_add(store, &loss);
}

static void add_ops(struct store *store, uint32_t id)
{
	const uint64_t at_ns = fixture_second() * SECOND_NS;
	struct op op = { .process = id,
			 .stream = id,
			 .kind = OP_LAUNCH,
			 .fn = FN_LAUNCH,
			 .flags = OP_EXACT,
			 .name = NAME(id),
			 .stack_id = STACK(id),
			 .start_ns = at_ns,
			 .end_ns = at_ns + 10,
			 .gpu_start_ns = at_ns + 20,
			 .gpu_end_ns = at_ns + 90 };

	store_add_op(store, &op);
	op = (struct op){ .process = id, .kind = OP_RANGE, .name = RANGE(id), .device = -1 };
	op.start_ns = at_ns;
	op.end_ns = at_ns + 200;
	store_add_op(store, &op);
}

static int setup(void **state)
{
	static const char *const whose[] = { NULL, "mine", "secret" };
	struct fixture *fixture;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	for (uint32_t id = 1; id <= 2; id++) {
		add_identity(fixture->store, id, id == 1 ? 4000000 : 5551234,
			     id == 1 ? OWNER : OTHER, whose[id]);
		add_stack(fixture->store, id, whose[id]);
		add_sums(fixture->store, id);
		add_things(fixture->store, id);
		add_ops(fixture->store, id);
	}
	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	return 0;
}

static int teardown(void **state)
{
	fixture_owner = 0;
	return fixture_teardown(state);
}

static bool has_secret(const char *text)
{
	return strstr(text, "secret") || strstr(text, OTHER_PID);
}

static void put(void **state, const struct query *query, uint32_t by, struct answer_text *answer)
{
	Tracesmith__V1__QueryRequest request = QUERY(.name = (char *)query->name, .by = by);

	if (query->options & QUERY_WINDOW)
		request.since_ns = 1;
	if (query->options & QUERY_MIN_AGE)
		request.min_age_ns = 1;
	if (query->options & QUERY_STEP)
		request.step_ns = fixture_now_ns;
	run_named(*state, &request, answer);
}

static uint32_t split_of(const struct query *query, int which)
{
	const uint32_t by[] = {
		QUERY_BY_NOTHING,
		query->options & QUERY_BY_STACK ? QUERY_BY_IS_STACK : QUERY_BY_NOTHING,
		query->options & QUERY_BY_PLACE ? QUERY_BY_IS_LINE : QUERY_BY_NOTHING,
	};

	return by[which];
}

/* Each query, also those for programs: the same request as one who sees all and as each user. */
static void no_query_has_anything_of_another(void **state)
{
	const struct query *query;
	uint32_t telling = 0, own = 0;

	for (size_t i = 0; (query = query_at_all(i)); i++) {
		for (int which = 0; which < 3; which++) {
			struct answer_text all = { 0 }, mine = { 0 }, none = { 0 };
			uint32_t by = split_of(query, which);

			fixture_owner = 0;
			put(state, query, by, &all);
			fixture_owner = OWNER;
			put(state, query, by, &mine);
			fixture_owner = OTHER + 1;
			put(state, query, by, &none);
			if (has_secret(mine.text) || has_secret(none.text) ||
			    strstr(none.text, "mine") || mine.error != all.error)
				fail_msg("query %s, split %u: %s\n%s", query->name, by, mine.text,
					 none.text);
			telling += has_secret(all.text);
			own += strstr(mine.text, "mine") || strstr(mine.text, OWN_PID);
			answer_text_done(&all);
			answer_text_done(&mine);
			answer_text_done(&none);
		}
	}
	assert_in_range(telling, 40, 200); /* or the rows above are none that queries show */
	assert_int_equal(own, telling);
}

static void losses_are_his_own_and_those_of_nobody(void **state)
{
	struct answer_text answer = { 0 };
	Tracesmith__V1__QueryRequest query = QUERY(.name = "apis", .since_ns = 1);

	fixture_owner = OWNER;
	run_named(*state, &query, &answer);
	assert_non_null(strstr(answer.text, "\"loss\":{\"ring-full\":1000}"));
	answer_text_done(&answer);
}

static void another_process_is_not_even_known(void **state)
{
	fixture_owner = OWNER;
	refuse(state, QUERY(.name = "apis", .pid = 5551234), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "Process 5551234 has not used CUDA");
	refuse(state, QUERY(.name = "apis", .user = "1001"), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "No process of user '1001'");
}

static void sql_is_refused_with_what_to_use_instead(void **state)
{
	struct answer_text answer = { 0 };

	fixture_owner = OWNER;
	run_sql_text(*state, "SELECT comm FROM main.process", 0, 0, &answer);
	assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__DENIED);
	assert_non_null(strstr(answer.text, "use the queries"));
	answer_text_done(&answer);
}

/* The texts of all rows of a recording. */
struct recorded {
	char *text;
	size_t size;
	uint64_t chunks;
	FILE *file;
	bool done;
};

static void take_rows(struct recorded *recorded, const Tracesmith__V1__Chunk *chunk)
{
	_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;
	const struct sbt_value *value;

	assert_int_equal(sbt_view_new(chunk->data.data, chunk->data.len, &view), 0);
	while ((value = sbt_view_next(view)))
		for (size_t i = 0; i < sbt_view_column_count(view); i++)
			if (value[i].type == SBT_TEXT)
				fprintf(recorded->file, "%s\n", value[i].text);
}

static int take_recorded(void *data, const Tracesmith__V1__Reply *reply)
{
	struct recorded *recorded = data;

	assert_int_not_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ERROR);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_CHANGES)
		for (size_t i = 0; i < reply->changes->n_change; i++)
			fprintf(recorded->file, "%u %s\n", reply->changes->change[i]->pid,
				reply->changes->change[i]->name);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK) {
		if (reply->chunk->type == SBT_BLOCK_ROWS)
			take_rows(recorded, reply->chunk);
		else
			recorded->chunks++;
	}
	recorded->done |= reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE;
	return 0;
}

static bool never(void *data)
{
	return false;
}

static void ask_for(const struct fixture *fixture, Tracesmith__V1__Request *request,
		    struct recorded *recorded)
{
	const struct query_job job = {
		.request = request,
		.database = fixture->path,
		.boot_id = BOOT,
		.now_ns = fixture_now_ns,
		.own = fixture_owner,
		.owner = fixture_owner,
		.send = take_recorded,
		.cancelled = never,
		.data = recorded,
	};

	request->id = 1;
	*recorded = (struct recorded){ 0 };
	recorded->file = open_memstream(&recorded->text, &recorded->size);
	query_run(&job);
	fclose(recorded->file);
	assert_true(recorded->done);
}

static void record(const struct fixture *fixture, bool again, struct recorded *recorded)
{
	Tracesmith__V1__RecordRequest record = TRACESMITH__V1__RECORD_REQUEST__INIT;
	Tracesmith__V1__RecordCursor cursor = TRACESMITH__V1__RECORD_CURSOR__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	cursor.told_ns = 1;
	record.cursor = again ? &cursor : NULL;
	record.last = true;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_RECORD;
	request.record = &record;
	ask_for(fixture, &request, recorded);
}

static void a_recording_has_his_own(void **state)
{
	struct recorded recorded;
	uint64_t all;

	for (int again = 0; again < 2; again++) {
		fixture_owner = 0;
		record(*state, again, &recorded);
		assert_non_null(strstr(recorded.text, "secret_kernel"));
		assert_non_null(strstr(recorded.text, "mine_range"));
		free(recorded.text);
		all = recorded.chunks;
		fixture_owner = OWNER;
		record(*state, again, &recorded);
		assert_int_equal(2 * recorded.chunks, all);
		assert_null(strstr(recorded.text, "secret"));
		assert_non_null(strstr(recorded.text, "mine_kernel"));
		assert_non_null(strstr(recorded.text, "mine_range"));
		assert_non_null(strstr(recorded.text, "mine_device"));
		free(recorded.text);
	}
}

static void a_trace_has_his_own(void **state)
{
	Tracesmith__V1__ExportRequest export = TRACESMITH__V1__EXPORT_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct recorded recorded;

	request.body_case = TRACESMITH__V1__REQUEST__BODY_EXPORT;
	request.export = &export;
	fixture_owner = 0;
	ask_for(*state, &request, &recorded);
	assert_int_equal(recorded.chunks, 4);
	free(recorded.text);
	fixture_owner = OWNER;
	ask_for(*state, &request, &recorded);
	assert_int_equal(recorded.chunks, 2);
	free(recorded.text);
}

static void a_replay_has_his_own(void **state)
{
	Tracesmith__V1__ReplayRequest replay = TRACESMITH__V1__REPLAY_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct recorded recorded;

	request.body_case = TRACESMITH__V1__REQUEST__BODY_REPLAY;
	request.replay = &replay;
	replay.since_ns = 1;
	fixture_owner = 0;
	ask_for(*state, &request, &recorded);
	assert_true(has_secret(recorded.text));
	free(recorded.text);
	fixture_owner = OWNER;
	ask_for(*state, &request, &recorded);
	assert_false(has_secret(recorded.text));
	assert_non_null(strstr(recorded.text, "mine_kernel"));
	free(recorded.text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(no_query_has_anything_of_another),
		TEST(losses_are_his_own_and_those_of_nobody),
		TEST(another_process_is_not_even_known),
		TEST(sql_is_refused_with_what_to_use_instead),
		TEST(a_recording_has_his_own),
		TEST(a_trace_has_his_own),
		TEST(a_replay_has_his_own),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
