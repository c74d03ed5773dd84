/* File: a recording gives the answers of the store that it came from, and says what it is. */
#include "client/serve/web.h"
#include "core/base/array.h"
#include "core/store/file/file.h"
#include "tests/unit/file_fixture.h"

#define PROCESSES  4
#define STREAMS	   6
#define NAMES_MADE 8
#define STACKS	   5
#define FIRST_PID  4000000
#define OPS	   4000
#define ROWS	   400
#define SPAN_S	   (AGO_S + 250) /* of the rows; the older ones are by the minute */

static uint64_t below(uint64_t *seed, uint64_t limit)
{
	return fixture_random(seed) % limit;
}

static uint64_t some_ns(uint64_t *seed)
{
	uint64_t first = (fixture_second() + AGO_S - SPAN_S) * SECOND_NS;

	return first + below(seed, (SPAN_S - 5) * SECOND_NS);
}

static void add_things(struct store *store, uint64_t *seed)
{
	const struct frame frames[] = {
		FRAME(0x10, 0x10, "/lib/libcuda.so.1", "cuLaunchKernel"),
		FRAME(0x20, 0x20, "/opt/app", "step"),
		FRAME(0x30, 0x31, "/opt/app", NULL),
	};
	char text[32];

	for (uint32_t i = 1; i <= PROCESSES; i++) {
		const struct store_process_detail detail = { .command = "./job --x \"y\"",
							     .user = "ann",
							     .container = "c0" };

		add_process(store, i, FIRST_PID + i, i == PROCESSES ? some_ns(seed) : 0);
		store_add_process_detail(store, i, &detail);
		store_add(store, &(struct core_device){ .process = i, .name = 1 });
		store_add(store, &(struct core_collect){ .process = i,
							 .state = TS_COLLECT_STARTED,
							 .since_ns = some_ns(seed),
							 .busy_ns = 50,
							 .wall_ns = 1000 });
		store_add(store, &(struct core_pool){ .process = i,
						      .kind = CORE_POOL_OWN,
						      .address = UINT64_MAX - i,
						      .bytes = 64 * i,
						      .told_ns = some_ns(seed) });
		store_add(store, &(struct core_memory){ i, 0, MEMORY_DEVICE, i, 1, 2 * i, 0, 0 });
		add_allocation(store, i, i, 100 * i, i, MEMORY_DEVICE, some_ns(seed));
	}
	for (uint32_t i = 1; i <= STREAMS; i++)
		store_add(store, &(struct core_stream){ .id = i,
							.process = 1 + i % PROCESSES,
							.handle = 0xf000000000000000 + i,
							.created_ns = some_ns(seed) });
	for (uint64_t i = 1; i <= NAMES_MADE; i++) {
		snprintf(text, sizeof(text), "kernel \xc3\xa9 %u", (unsigned int)i);
		store_add_name(store, i, text, strlen(text));
	}
	for (uint64_t i = 1; i <= STACKS; i++)
		store_add_stack(store,
				&(struct store_stack){
					.id = i, .process = 1, .frame = frames, .count = 3 });
}

static void add_sums(struct store *store, uint64_t *seed)
{
	uint32_t process = 1 + (uint32_t)below(seed, PROCESSES);
	uint64_t second = some_ns(seed) / SECOND_NS, ns = 1 + below(seed, 1000000);
	const uint8_t kinds[] = { OP_LAUNCH, OP_ALLOC, OP_COPY, OP_SYNC };

	add_rollup(store, process, (uint16_t)(1 + below(seed, 5)), kinds[below(seed, 4)], 7,
		   (struct core_rollup){ .second = second,
					 .stream = (uint32_t)below(seed, STREAMS + 1),
					 .stack_id = below(seed, STACKS + 1),
					 .result = below(seed, 9) ? 0 : 2,
					 .detail = (uint8_t)below(seed, 3),
					 .timed = 5,
					 .total_ns = 5 * ns,
					 .min_ns = ns / 2,
					 .max_ns = 2 * ns,
					 .bytes = below(seed, 1 << 20) });
	store_add(store, &(struct core_work){ .second = second,
					      .process = process,
					      .stream = (uint32_t)below(seed, STREAMS + 1),
					      .name = 1 + below(seed, NAMES_MADE),
					      .graph = (uint32_t)below(seed, 3),
					      .stack_id = below(seed, STACKS + 1),
					      .bucket = (uint16_t)below(seed, 60),
					      .kind = below(seed, 2) ? OP_KERNEL : OP_GRAPH,
					      .count = 1 + below(seed, 3),
					      .total_ns = 3 * ns,
					      .min_ns = ns / 2,
					      .max_ns = ns,
					      .delay_ns = 10 });
	store_add(store, &(struct core_busy){ .second = second,
					      .process = process,
					      .state = (uint8_t)(1 + below(seed, 6)),
					      .kernels = (uint8_t)below(seed, 3),
					      .copies = (uint8_t)below(seed, 2),
					      .ns = ns });
	if (below(seed, 10) == 0)
		store_add(store, &(struct core_loss){ .start_ns = second * SECOND_NS,
						      .end_ns = second * SECOND_NS + 9,
						      .process = (uint32_t)below(seed, 3),
						      .reason = 1 + (uint8_t)below(seed, 28),
						      .count = 3 });
}

static void add_ops(struct store *store, uint64_t *seed)
{
	static const uint8_t kinds[] = { OP_LAUNCH, OP_COPY, OP_SYNC, OP_RANGE, OP_STATE };

	for (int i = 0; i < OPS / 4; i++) {
		uint64_t start_ns = some_ns(seed);
		uint8_t kind = kinds[below(seed, sizeof(kinds))];

		store_add_op(store, &(struct op){ .start_ns = start_ns,
						  .end_ns = start_ns + below(seed, 1 << 20),
						  .process = 1 + (uint32_t)below(seed, PROCESSES),
						  .stream = (uint32_t)below(seed, STREAMS + 1),
						  .kind = kind,
						  .detail = (uint8_t)below(seed, 4),
						  .name = below(seed, NAMES_MADE + 1),
						  .stack_id = below(seed, STACKS + 1),
						  .flags = OP_RETURNED,
						  .fn = (uint16_t)below(seed, 6) });
	}
}

static int setup(void **state)
{
	struct fixture *fixture;
	uint64_t seed = 0x9e3779b97f4a7c15;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	add_things(fixture->store, &seed);
	for (int i = 0; i < ROWS; i++)
		add_sums(fixture->store, &seed);
	for (int i = 0; i < 4; i++) {
		add_ops(fixture->store, &seed);
		fixture_commit(fixture, fixture_now_ns);
	}
	fixture->store = store_free(fixture->store);
	return 0;
}

/* A recording's answer comes in tsctl's words: that there is a note must be the same. */
static void cut_note(char *text)
{
	static const char note[] = "\"note\":";
	char *at = strstr(text, note);

	if (at)
		at[sizeof(note) - 1] = '\0';
}

/* How old something is differs from moment to moment. */
static void expect_same(struct answer_text *store, char *file, const char *what)
{
	mask(store->text, "oldest_ns\":");
	mask(file, "oldest_ns\":");
	cut_note(store->text);
	cut_note(file);
	if (strcmp(store->text, file))
		fail_msg("%s: the store says %s\nthe recording %s", what, store->text, file);
	answer_text_done(store);
	free(file);
}

static void compare(struct fixture *fixture, struct link *link, Tracesmith__V1__QueryRequest query)
{
	struct answer_text answer = { 0 };

	run_named(fixture, &query, &answer);
	assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__UNSPECIFIED);
	expect_same(&answer, ask_query_of(link, &query), query.name);
}

static void compare_options(struct fixture *fixture, struct link *link, const struct query *query,
			    uint64_t since_ns, uint64_t until_ns)
{
	Tracesmith__V1__QueryRequest all = QUERY(.name = (char *)query->name, .limit = 100000);

	if (query->options & QUERY_WINDOW) {
		all.since_ns = since_ns;
		all.until_ns = until_ns;
	}
	if (query->options & QUERY_MIN_AGE)
		all.min_age_ns = 1;
	compare(fixture, link, all);
	if (query->options & QUERY_BY_STACK)
		all.by = QUERY_BY_IS_STACK;
	if (query->options & QUERY_PID)
		all.pid = FIRST_PID + 2;
	if (query->options & QUERY_STREAM)
		all.stream = 3;
	compare(fixture, link, all);
}

static struct link *record(struct fixture *fixture, uint64_t now_ns)
{
	struct link *link = NULL;
	struct made made;

	made_of_store(&made, fixture, now_ns, true);
	assert_int_equal(open_saying(made.path, "", &link), 0);
	return link;
}

static void test_every_query_answers_as_the_store_does(void **state)
{
	struct fixture *fixture = *state;
	uint64_t now_ns = fixture_now_ns, first_ns = now_ns - SPAN_S * SECOND_NS;
	_cleanup_(link_freep) struct link *link = record(fixture, now_ns);
	const uint64_t windows[][2] = {
		{ 1, now_ns - 1 },
		{ first_ns + 17 * SECOND_NS + 5, first_ns + 99 * SECOND_NS },
		{ now_ns - 90 * SECOND_NS, now_ns - 20 * SECOND_NS },
		{ now_ns - 150 * SECOND_NS, now_ns - 50 * SECOND_NS },
	};
	const struct query *query;

	assert_int_equal(link_hello(link)->now_ns, now_ns);
	assert_int_equal(link_hello(link)->wall_offset_ns, fixture->config.wall_offset_ns);
	assert_string_equal(link_hello(link)->boot_id, BOOT);
	for (size_t i = 0; (query = query_at(i)); i++)
		for (size_t k = 0; k < ARRAY_SIZE(windows); k++)
			compare_options(fixture, link, query, windows[k][0], windows[k][1]);
}

static void test_sql_sees_the_same_ops_and_tables(void **state)
{
	static const char *const statements[] = {
		"SELECT count(*), sum(start_ns % 1000) FROM op",
		"SELECT * FROM op WHERE process = 2 AND kind = 'launch' ORDER BY start_ns",
		"SELECT pid, stream, count(*) FROM op GROUP BY 1, 2",
		"SELECT * FROM state ORDER BY start_ns, stream, process",
		"SELECT boot, process, kind, first_ns, last_ns, ops, data FROM chunk ORDER BY 4, 5",
		"SELECT * FROM process",
		"SELECT * FROM rollup",
		"SELECT * FROM frame",
		"SELECT name, count(*) FROM op WHERE stream = 3 AND start_ns > 5 GROUP BY 1",
		"SELECT name, effect FROM function",
		"DELETE FROM op",
		"SELECT load_extension('x')",
		"PRAGMA query_only = 0",
		"PRAGMA table_info(process)",
		"SELECT no such column",
		"SELECT 1; SELECT 2",
	};
	struct fixture *fixture = *state;
	_cleanup_(link_freep) struct link *link = record(fixture, fixture_now_ns);

	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		struct answer_text answer = { 0 };

		run_sql_text(fixture, statements[i], 0, 0, &answer);
		expect_same(&answer, ask_sql(link, statements[i]), statements[i]);
	}
}

static void no_remark(void *data, const struct file_remark *of)
{
	fail();
}

static int cache_bytes(sqlite3 *db)
{
	int bytes, most;

	assert_int_equal(sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_USED, &bytes, &most, 0), 0);
	return bytes;
}

/* In memory, and then out of it. */
static void test_a_database_that_rests_has_all_it_had(void **state)
{
	static const char all[] = "SELECT sum(calls * second % 1009) + (SELECT count(*) FROM frame)"
				  " + (SELECT sum(count * 31) FROM loss) FROM rollup";
	_cleanup_(file_freep) struct file *file = NULL;
	const struct file_config config = { .remark = no_remark };
	int64_t before, after;
	struct made made;
	int bytes;
	sqlite3 *db;

	made_of_store(&made, *state, fixture_now_ns, true);
	assert_int_equal(file_open(made.path, &config, &file), 0);
	db = file_reader(file);
	assert_int_equal(sql_query_integer(db, all, &before), 0);
	assert_true(before > 0);
	bytes = cache_bytes(db);
	file_rest(file);
	assert_true(cache_bytes(db) > bytes / 2); /* there need be no file */
	sqlite3_set_authorizer(db, NULL, NULL);
	assert_int_equal(sql_exec(db, "PRAGMA cache_size = 60; PRAGMA query_only = 0;"
				      "CREATE TABLE more AS SELECT * FROM rollup"),
			 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sql_query_integer(db, all, &after), 0);
		assert_int_equal(before, after);
		file_rest(file);
		assert_true(cache_bytes(db) < bytes / 4);
	}
}

/* The chunks of an answer, one after the other. */
struct chunks {
	size_t count, size;
	uint64_t last_ns, sum;
};

static void add_chunk(struct chunks *chunks, const Tracesmith__V1__Chunk *chunk)
{
	assert_true(chunk->done_ns >= chunks->last_ns);
	chunks->last_ns = chunk->done_ns;
	chunks->count++;
	chunks->size += chunk->data.len;
	for (size_t i = 0; i < chunk->data.len; i++)
		chunks->sum = chunks->sum * 31 + chunk->data.data[i];
}

static int take_export(void *data, const Tracesmith__V1__Reply *reply)
{
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK)
		add_chunk(data, reply->chunk);
	return 0;
}

static bool never(void *data)
{
	return false;
}

static void export_link(struct link *link, const ProtobufCMessage *body, struct chunks *chunks)
{
	int more;

	assert_int_equal(link_send(link, body), 0);
	do {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		more = link_next(link, &reply);
		assert_true(more >= 0);
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK)
			add_chunk(chunks, reply->chunk);
	} while (more);
}

static void test_exports_are_the_same_bytes_in_the_same_order(void **state)
{
	struct fixture *fixture = *state;
	uint64_t now_ns = fixture_now_ns;
	_cleanup_(link_freep) struct link *link = record(fixture, now_ns);
	Tracesmith__V1__ExportRequest body = TRACESMITH__V1__EXPORT_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct query_job job = { .request = &request,
				 .database = fixture->path,
				 .boot_id = BOOT,
				 .now_ns = fixture_now_ns,
				 .send = take_export,
				 .cancelled = never };

	request.body_case = TRACESMITH__V1__REQUEST__BODY_EXPORT;
	request.export = &body;
	for (int i = 0; i < 4; i++) {
		struct chunks store = { 0 }, file = { 0 };

		body.pid = i & 1 ? FIRST_PID + 1 : 0;
		body.since_ns = i & 2 ? now_ns - 100 * SECOND_NS : 1;
		body.until_ns = now_ns - 60 * SECOND_NS;
		job.data = &store;
		query_run(&job);
		export_link(link, &body.base, &file);
		assert_true(store.count > 10);
		assert_memory_equal(&store, &file, sizeof(store));
	}
}

/* What finds chunks by an index in the store does so here; an export sorts nothing. */
static void test_chunks_are_found_by_their_indices(void **state)
{
	static const char *const plans[][3] = {
		{ "boot = 1 AND first_ns <= 5 AND last_ns >= 3 ORDER BY first_ns, last_ns",
		  "INDEX chunk_time (boot=? AND first_ns<?)",
		  "INDEX file_block_time (first_ns<?)" },
		{ "process = 3 AND kind = 1", "INDEX chunk_process (process=? AND kind=?)",
		  "INDEX file_block_process (process=? AND kind=?)" },
		{ "stream = 3", "INDEX chunk_stream (stream=?)",
		  "INDEX file_block_stream (stream=?)" },
	};
	struct fixture *fixture = *state;
	_cleanup_(link_freep) struct link *link = record(fixture, fixture_now_ns);

	for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
		struct answer_text answer = { 0 };
		char sql[256];
		char *file;

		snprintf(sql, sizeof(sql),
			 "EXPLAIN QUERY PLAN SELECT first_ns, data FROM chunk"
			 " WHERE %s",
			 plans[i][0]);
		run_sql_text(fixture, sql, 0, 0, &answer);
		file = ask_sql(link, sql);
		assert_non_null(strstr(answer.text, plans[i][1]));
		assert_non_null(strstr(file, plans[i][2]));
		assert_null(strstr(answer.text, "TEMP B-TREE"));
		assert_null(strstr(file, "TEMP B-TREE"));
		answer_text_done(&answer);
		free(file);
	}
}

static void test_now_is_the_end_of_the_recording(void **state)
{
	struct fixture *fixture = *state;
	uint64_t now_ns = fixture_now_ns - 77;
	_cleanup_(link_freep) struct link *link = record(fixture, now_ns);
	const struct moment moment = { .ago = true, .ns = 5 };
	const struct moment far = web_moment(link, INT64_MAX - 1); /* of any request */
	char number[32];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)now_ns);
	expect_sql(link, "SELECT now_ns()", number);
	assert_int_equal(link_time(link, &moment), now_ns - 5);
	assert_int_equal(link_time(link, &far), INT64_MAX - 1);
	expect_sql(link, "SELECT value FROM recording WHERE key = 'until_ns'", number);
	expect_sql(link, "SELECT value FROM recording WHERE key = 'file_state'", "\"whole\"");
	expect_sql(link, "SELECT value FROM recording WHERE key = 'boot_id'", BOOT);
}

/* Calls of the last ten seconds, of a row that started in another second of their minute. */
static char *ask_minute(struct fixture *fixture, uint64_t told_ns)
{
	_cleanup_(link_freep) struct link *link = NULL;
	Tracesmith__V1__QueryRequest query = QUERY(.name = "apis", .since_ns = 630 * SECOND_NS);
	struct made made;

	made_begin(&made, fixture);
	made_row(&made, "boot", NAMES("id", "boot_id", "wall_offset_ns"), INTEGER(1), TEXT(BOOT),
		 INTEGER(0));
	made_row(&made, "rollup",
		 NAMES("boot", "second", "process", "kind", "fn", "detail", "device", "stream",
		       "result", "stack", "freed", "calls"),
		 INTEGER(1), INTEGER(600), INTEGER(1), INTEGER(OP_LAUNCH), INTEGER(1), INTEGER(0),
		 INTEGER(0), INTEGER(0), INTEGER(0), INTEGER(0), INTEGER(0), INTEGER(42));
	made_fact(&made, "until_ns", INTEGER(640 * SECOND_NS));
	made_fact(&made, "told_ns", INTEGER(1));
	made_fact(&made, "told_ns", INTEGER(told_ns)); /* the later row of a key holds */
	made_end(&made, true);
	assert_int_equal(open_saying(made.path, "", &link), 0);
	return ask_query_of(link, &query);
}

/* They are by the minute where they were old when they were told, however long before that the
 * recording ends. */
static void test_sums_are_as_old_as_when_they_were_told(void **state)
{
	_cleanup_(freep) char *fresh = ask_minute(*state, 640 * SECOND_NS);
	_cleanup_(freep) char *old = ask_minute(*state, 900 * SECOND_NS);

	assert_null(strstr(fresh, "\"calls\":42"));
	assert_non_null(strstr(old, "\"calls\":42"));
}

static void test_what_needs_the_daemon_is_refused(void **state)
{
	_cleanup_(link_freep) struct link *link = record(*state, fixture_now_ns);
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

	said_begin();
	assert_int_equal(link_send(link, &status.base), 0);
	assert_true(link_next(link, &reply) < 0);
	assert_string_equal(said_end(), "tsctl: A recording cannot answer this: ask the daemon, "
					"without --file\n");
	expect_sql(link, "SELECT 1 AS x", "\"x\":1");
}

static void test_a_refused_statement_leaves_no_refusal_behind(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(link_freep) struct link *link = record(fixture, fixture_now_ns);

	expect_sql(link, "PRAGMA query_only = 0", "Only reading is allowed");
	compare(fixture, link, QUERY(.name = "kernels", .since_ns = 1, .until_ns = fixture_now_ns));
}

static void test_a_link_closes_while_an_answer_is_under_way(void **state)
{
	struct link *link = record(*state, fixture_now_ns);
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;

	sql.text = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
		   " SELECT count(*) FROM n";
	assert_int_equal(link_send(link, &sql.base), 0);
	link_free(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_query_answers_as_the_store_does),
		cmocka_unit_test(test_sql_sees_the_same_ops_and_tables),
		cmocka_unit_test(test_a_database_that_rests_has_all_it_had),
		cmocka_unit_test(test_exports_are_the_same_bytes_in_the_same_order),
		cmocka_unit_test(test_chunks_are_found_by_their_indices),
		cmocka_unit_test(test_now_is_the_end_of_the_recording),
		cmocka_unit_test(test_sums_are_as_old_as_when_they_were_told),
		cmocka_unit_test(test_what_needs_the_daemon_is_refused),
		cmocka_unit_test(test_a_refused_statement_leaves_no_refusal_behind),
		cmocka_unit_test(test_a_link_closes_while_an_answer_is_under_way),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
