/* The store's tables: what is added is there, what the previous daemon knew comes back, and files
 * that are not ours are left alone. */
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/store/page_sum.h"
#include "core/store/total.h"
#include "tests/unit/store_fixture.h"

static void a_committed_op_can_be_selected(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 1;
	struct op op = fixture_launch(7, 3, 5 * SECOND_NS, &seed);
	struct store_stats stats;

	assert_int_equal(fixture_open(f), 0);
	store_add_op(f->store, &op);
	stats = fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(stats.ops_written, 1);
	assert_int_equal(stats.chunks, 1);
	assert_true(stats.database_bytes > 0);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 1);
	assert_int_equal(fixture_ask(f, "SELECT start_ns FROM op WHERE kind='launch' AND"
					" fn='cuLaunchKernel' AND process=7 AND stream=3"),
			 5 * SECOND_NS);
}

static const struct core_process process = {
	.id = 4,
	.pid = 1234,
	.ns_pid = 12,
	.ppid = 1,
	.exit_code = EXIT_UNKNOWN,
	.uid = 1000,
	.started_ticks = 77,
	.cgroup = 99,
	.first_ns = 3 * SECOND_NS,
	.comm = "0123456789abcdef", /* without its 0 */
};

static const struct core_allocation allocation = {
	.id = 41,
	.address = 0x7f0000000000,
	.bytes = 4096,
	.process = 4,
	.handles = 1,
	.fn = 2,
	.kind = MEMORY_DEVICE,
};

static void add_process_with_belongings(struct store *store)
{
	struct core_allocation freed = allocation;

	store_add(store, &process);
	store_add_process_detail(store, 4,
				 &(struct store_process_detail){ .command = "python train.py",
								 .user = "ann\xff",
								 .container = "c0ffee" });
	store_add(store, &(struct core_stream){ .id = 8, .process = 4, .handle = 0xabc });
	store_add(store, &(struct core_stream){
				 .id = 9, .process = 4, .created_ns = 5, .destroyed_ns = 6 });
	store_add(store, &allocation);
	freed.id = 42;
	store_add(store, &freed);
	freed.gone = true;
	store_add(store, &freed);
	store_add(store, &(struct core_memory){ .process = 4,
						.kind = MEMORY_DEVICE,
						.live_bytes = 4096,
						.live_count = 1,
						.peak_bytes = 8192 });
	store_add_stack(store, &(struct store_stack){
				       0xfedcba9876543210, 4,
				       (struct frame[]){ FRAME(0x1000, 0x10, "/lib/libcuda.so.1",
							       "cuMemAlloc"),
							 FRAME(0x2000, 0, NULL, NULL) },
				       2, 0, 0 });
}

static void rows_say_what_was_added(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	add_process_with_belongings(f->store);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM process WHERE id=4 AND pid=1234 AND"
					" comm='0123456789abcdef' AND command='python train.py' AND"
					" user='ann�' AND container='c0ffee' AND cgroup IS NULL AND"
					" exit_ns IS NULL AND uid=1000"),
			 1);
	assert_int_equal(fixture_ask(f, "SELECT id FROM stream WHERE destroyed_ns IS NULL"), 8);
	assert_int_equal(fixture_ask(f, "SELECT sum(id) FROM allocation"), 41);
	assert_int_equal(fixture_ask(f, "SELECT peak_bytes FROM memory WHERE process=4"), 8192);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM frame JOIN stack ON stack.id=stack"
					" WHERE process=4 AND (depth=0 AND symbol='cuMemAlloc' OR"
					" depth=1 AND symbol IS NULL AND file IS NULL)"),
			 2);
}

static void the_end_of_a_process_takes_its_allocations(void **state)
{
	struct fixture *f = *state;
	struct core_process ended = process;

	assert_int_equal(fixture_open(f), 0);
	add_process_with_belongings(f->store);
	fixture_commit(f, 6 * SECOND_NS);
	ended.exit_ns = 7 * SECOND_NS;
	ended.exit_code = 9;
	store_add(f->store, &ended);
	fixture_commit(f, 8 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM allocation"), 0);
	assert_int_equal(fixture_ask(f, "SELECT live_bytes FROM memory WHERE process=4"), 0);
	store_add_process_detail(f->store, 4, &(struct store_process_detail){ .executed = true });
	store_add_process_detail(f->store, 4, &(struct store_process_detail){ 0 });
	fixture_commit(f, 8 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT command IS NULL AND user IS NOT NULL AND"
					" container IS NOT NULL FROM process WHERE id=4"),
			 1);
	store_add_process_detail(f->store, 4,
				 &(struct store_process_detail){ .command = "python train.py" });
	store_add_process_detail(f->store, 4, &(struct store_process_detail){ 0 });
	ended.exit_code = EXIT_UNKNOWN;
	store_add(f->store, &ended);
	fixture_commit(f, 9 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM process WHERE id=4 AND exit_ns > 0"
					" AND exit_code IS NULL"),
			 1);
	ended.exit_code = 9;
	store_add(f->store, &ended);
	fixture_commit(f, 10 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT exit_code FROM process WHERE id=4 AND"
					" command='python train.py'"),
			 9);
}

static void rollups_of_the_same_calls_add_up(void **state)
{
	struct fixture *f = *state;
	struct core_rollup rollup = { .second = 5,
				      .process = 4,
				      .kind = OP_SYNC,
				      .fn = 5,
				      .device = -1,
				      .calls = 3,
				      .timed = 2,
				      .total_ns = 50,
				      .min_ns = 20,
				      .max_ns = 30,
				      .bytes = 7 };

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &rollup);
	rollup.min_ns = 10;
	store_add(f->store, &rollup);
	rollup.timed = rollup.min_ns = rollup.max_ns = rollup.total_ns = 0;
	store_add(f->store, &rollup);
	rollup.result = 2;
	store_add(f->store, &rollup);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM rollup"), 2);
	assert_int_equal(fixture_ask(f, "SELECT calls=9 AND timed=4 AND total_ns=100 AND min_ns=10"
					" AND max_ns=30 AND bytes=21 FROM rollup WHERE result=0"),
			 1);
}

/* By device and part, whatever second, stack or stream it was; a code that a program makes up is an
 * unknown error. */
static void totals_outlive_their_seconds(void **state)
{
	struct fixture *f = *state;
	struct core_rollup rollup = { .process = 4, .kind = OP_ALLOC, .device = 1, .calls = 2 };
	struct core_work work = { .process = 4,
				  .kind = OP_KERNEL,
				  .bucket = work_bucket(1500),
				  .delays = { [2] = 1, [WORK_DELAYS - 1] = 1 } };

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 4, .pid = 7 });
	for (rollup.second = work.second = 1; rollup.second < 4; rollup.second++, work.second++) {
		work.count = work.stack_id = rollup.stack_id = rollup.second;
		store_add(f->store, &rollup);
		store_add(f->store, &work);
		fixture_commit(f, rollup.second * SECOND_NS);
	}
	store_add(f->store, &(struct core_watch){ .process = 4, .part = 1, .missed = 40 });
	rollup.freed = true;
	store_add(f->store, &rollup);
	rollup.freed = false;
	rollup.result = 2;
	store_add(f->store, &rollup);
	rollup.result = 700000;
	store_add(f->store, &rollup);
	rollup.device = INT16_MAX;
	store_add(f->store, &rollup);
	fixture_commit(f, 5 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT group_concat(what || ' ' || device || ' ' || part"
					" || ' ' || count) = '1 -1 2 2,1 1 2 10,2 -1 2 2,2 1 2 4,"
					"3 -1 2 2,3 -1 999 4,5 0 10 6,6 0 0 6,10 -1 1 40,11 0 14 "
					"3,11 0 30 3' FROM total"),
			 1);
}

static void totals_of_ended_processes_are_those_of_nobody(void **state)
{
	struct fixture *f = *state;
	struct core_process ended = { .pid = 7, .exit_ns = SECOND_NS };
	struct core_rollup rollup = { .second = 1, .kind = OP_SYNC, .device = -1, .calls = 5 };

	assert_int_equal(fixture_open(f), 0);
	for (ended.id = rollup.process = 1; ended.id < 4; ended.id++, rollup.process++) {
		ended.exit_ns = ended.id < 3 ? SECOND_NS : 0;
		store_add(f->store, &ended);
		store_add(f->store, &rollup);
	}
	fixture_commit(f, 2 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM total"), 3);
	fixture_commit(f, 2 * SECOND_NS + TOTAL_KEPT_NS);
	for (int tries = 0; fixture_ask(f, "SELECT count(*) FROM total") > 2; tries++) {
		assert_true(tries < 60000);
		pause_ms(1);
	}
	assert_int_equal(fixture_ask(f, "SELECT count FROM total WHERE process = 0"), 10);
	assert_int_equal(fixture_ask(f, "SELECT count FROM total WHERE process = 3"), 5);
}

static void losses_of_a_second_add_up(void **state)
{
	struct fixture *f = *state;
	struct core_loss loss = { .start_ns = 5 * SECOND_NS,
				  .end_ns = 5 * SECOND_NS + 10,
				  .reason = LOSS_RING_FULL,
				  .count = 3 };

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &loss);
	loss.end_ns += 10;
	store_add(f->store, &loss);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count FROM loss JOIN loss_reason r ON r.id=reason"
					" WHERE name='ring-full' AND end_ns - start_ns = 20"),
			 6);
}

static void count_process(void *data, const struct core_process *p)
{
	assert_memory_equal(p, &process, sizeof(process));
	++*(int *)data;
}

static void a_new_daemon_goes_on_where_the_old_one_ended(void **state)
{
	struct fixture *f = *state;
	struct store_resume resume;
	int count = 0;

	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(store_resume(f->store, &resume), 0);
	assert_int_equal(resume.last_ns, 0);
	assert_int_equal(resume.next_process, 1);
	add_process_with_belongings(f->store);
	store_pending(f->store, 4 * SECOND_NS, 0);
	fixture_commit(f, 6 * SECOND_NS);
	f->store = store_free(f->store);

	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(store_resume(f->store, &resume), 0);
	assert_int_equal(resume.last_ns, 6 * SECOND_NS);
	assert_int_equal(resume.pending_ns, 4 * SECOND_NS);
	assert_int_equal(resume.next_process, 5);
	assert_int_equal(resume.next_stream, 10);
	assert_int_equal(resume.next_allocation, 43);
	assert_int_equal(store_resume_processes(f->store, count_process, &count), 0);
	assert_int_equal(count, 1);
}

static void take_op(void *data, const struct op *op)
{
}

static void take_row(void *data, enum core_row type, const void *row)
{
}

static struct core *new_core(void)
{
	struct core_config config = {
		.functions = { fixture_functions, 6 },
		.sink = { take_op, take_row },
		.max_processes = 10,
		.max_threads = 10,
		.max_streams = 10,
		.max_events = 10,
		.max_pending = 10,
		.max_rollups = 10,
		.max_waiting = 10,
		.max_names = 10,
		.max_edges = 10,
		.max_allocations = 10,
	};
	struct core *core = NULL;

	assert_int_equal(core_new(&config, &core), 0);
	return core;
}

static void a_model_gets_back_what_it_knew(void **state)
{
	struct fixture *f = *state;
	struct core_stats stats;
	struct core *core = new_core();

	assert_int_equal(fixture_open(f), 0);
	add_process_with_belongings(f->store);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(core_restore_process(core, &process), 0);
	assert_int_equal(store_resume_state(f->store, 4, core), 0);
	core_stats(core, &stats);
	assert_int_equal(stats.processes, 1);
	assert_int_equal(stats.streams, 1);
	assert_int_equal(stats.allocations, 1);
	core_free(core);
}

static void a_new_database_counts_from_its_first_id_and_an_old_one_goes_on(void **state)
{
	struct fixture *f = *state;
	struct core_process next = process;
	struct store_resume resume;

	f->config.first_id = next.id = 1000000;
	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(store_resume(f->store, &resume), 0);
	assert_int_equal(resume.next_process, 1000000);
	assert_int_equal(resume.next_oom, 1);
	store_add(f->store, &next);
	fixture_commit(f, 6 * SECOND_NS);
	assert_true(fixture_ask(f, "SELECT next_batch FROM boot") > 1000000);
	/* Later, in the same boot and in the next one. */
	for (int i = 0; i < 2; i++) {
		f->store = store_free(f->store);
		f->config.first_id = 2000000;
		assert_int_equal(fixture_open(f), 0);
		assert_int_equal(store_resume(f->store, &resume), 0);
		assert_int_equal(resume.next_process, 1000001);
		assert_true(fixture_ask(f, "SELECT max(next_batch) FROM boot") < 1000100);
		f->config.boot_id = "second-boot";
	}
}

/* Whatever the former one counted meanwhile. */
static void a_later_database_begins_beyond_a_former_one(void **state)
{
	const uint64_t now_ns = 1795840000 * SECOND_NS, minute_ns = 60 * SECOND_NS;
	const uint32_t first = store_first_id(now_ns);

	assert_true(first > 0 && first <= INT32_MAX);
	assert_true(store_first_id(now_ns + minute_ns) >= first + 60 * 29);
	/* Of a clock that nobody has set. */
	assert_true(store_first_id(minute_ns) >= 60 * 29);
}

static void another_boot_resumes_ids_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	struct store_resume resume;
	int count = 0;

	assert_int_equal(fixture_open(f), 0);
	add_process_with_belongings(f->store);
	fixture_commit(f, 6 * SECOND_NS);
	f->store = store_free(f->store);
	f->config.boot_id = "second-boot";

	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(store_resume(f->store, &resume), 0);
	assert_int_equal(resume.last_ns, 0);
	assert_int_equal(resume.next_process, 5);
	assert_int_equal(store_resume_processes(f->store, count_process, &count), 0);
	assert_int_equal(count, 0);
}

static void an_idle_store_still_says_that_it_was_there(void **state)
{
	struct fixture *f = *state;
	struct store_resume resume;

	assert_int_equal(fixture_open(f), 0);
	fixture_commit(f, 5 * SECOND_NS);
	fixture_commit(f, 60 * SECOND_NS);
	assert_int_equal(store_resume(f->store, &resume), 0);
	assert_int_equal(resume.last_ns, 60 * SECOND_NS);
}

static void write_with_sqlite(const char *path, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
					 page_sum_vfs()),
			 SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* As the first version made them: without what its second step adds. */
static void an_older_file_is_brought_up_to_date(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 1;
	struct op op = fixture_launch(4, 8, 5 * SECOND_NS, &seed);

	assert_int_equal(fixture_open(f), 0);
	add_process_with_belongings(f->store);
	store_add_op(f->store, &op);
	fixture_commit(f, 6 * SECOND_NS);
	f->store = store_free(f->store);
	write_with_sqlite(
		f->path,
		"DROP TABLE name; DROP TABLE work; DROP TABLE busy; DROP TABLE device;"
		"DROP TABLE collect; DROP TABLE collect_state;"
		"DROP TABLE pool; DROP TABLE pool_kind; DROP TABLE frame_kind; DROP TABLE setting; "
		"DROP TABLE watch; DROP TABLE total; DROP TABLE backward; DROP TABLE teller; "
		"DROP TABLE fragmentation; DROP TABLE price; DROP TABLE growth; DROP TABLE oom; "
		"DROP TABLE oom_memory; DROP TABLE communicator; DROP TABLE collective; "
		"DROP TABLE oom_stack; ALTER TABLE boot DROP COLUMN next_oom;"
		"ALTER TABLE function DROP COLUMN hot;"
		"ALTER TABLE frame DROP COLUMN kind; ALTER TABLE frame DROP COLUMN source;"
		"ALTER TABLE frame DROP COLUMN line; ALTER TABLE frame DROP COLUMN inlined;"
		"ALTER TABLE process DROP COLUMN light; ALTER TABLE process DROP COLUMN owner;"
		"ALTER TABLE process DROP COLUMN variables;"
		"DROP INDEX chunk_batch; DROP INDEX chunk_small;"
		"ALTER TABLE chunk DROP COLUMN batch;"
		"ALTER TABLE chunk DROP COLUMN first_batch;"
		"CREATE INDEX chunk_small ON chunk(boot, first_ns) WHERE ops < 4096;"
		"ALTER TABLE stack DROP COLUMN batch; ALTER TABLE stack DROP COLUMN ended;"
		"ALTER TABLE stack DROP COLUMN linked; DROP TABLE stack_end;"
		"ALTER TABLE boot DROP COLUMN next_batch;"
		"ALTER TABLE boot DROP COLUMN oldest_pending_ns;"
		"ALTER TABLE boot DROP COLUMN told_ns;"
		"ALTER TABLE function DROP COLUMN effect;"
		"ALTER TABLE rollup DROP COLUMN captured;"
		"ALTER TABLE allocation DROP COLUMN handles;"
		"ALTER TABLE allocation DROP COLUMN physical;"
		"ALTER TABLE allocation DROP COLUMN requested_bytes;"
		"ALTER TABLE memory DROP COLUMN requested_bytes;"
		"ALTER TABLE memory DROP COLUMN rounding_bytes;"
		"ALTER TABLE stream DROP COLUMN number; PRAGMA user_version = 1");
	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_stream){ .id = 10, .process = 4, .number = 7 });
	store_add(f->store, &(struct core_work){ .second = 5, .count = 1 });
	fixture_commit(f, 7 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op WHERE name IS NULL"), 1);
	assert_int_equal(fixture_ask(f, "SELECT number FROM stream WHERE id = 10"), 7);
	assert_int_equal(fixture_ask(f, "SELECT number IS NULL FROM stream WHERE id = 8"), 1);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM work"), 1);
}

static void a_newer_schema_is_refused(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	f->store = store_free(f->store);
	write_with_sqlite(f->path, "PRAGMA user_version = 999");
	assert_int_equal(fixture_open(f), -EPROTO);
	assert_null(f->store);
}

static void someone_elses_database_is_refused(void **state)
{
	struct fixture *f = *state;

	write_with_sqlite(f->path, "CREATE TABLE mine(x)");
	assert_int_equal(fixture_open(f), -EBADMSG);
}

static void a_file_that_is_no_database_is_left_as_it_is(void **state)
{
	struct fixture *f = *state;
	char line[64] = "";
	FILE *file = fopen(f->path, "w");

	for (int i = 0; i < 1000; i++)
		fputs("this is no database\n", file);
	fclose(file);
	assert_int_equal(fixture_open(f), -EBADMSG);
	file = fopen(f->path, "r");
	assert_non_null(fgets(line, sizeof(line), file));
	assert_string_equal(line, "this is no database\n");
	fclose(file);
}

static void a_directory_that_is_not_there_is_an_error(void **state)
{
	struct fixture *f = *state;

	f->config.path = "/nonexistent/store.db";
	assert_int_equal(fixture_open(f), -ENOENT);
}

static void the_file_is_not_for_everybody(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07, 0);
}

static void a_reader_can_write_nothing(void **state)
{
	static const char *const attempts[] = {
		"DELETE FROM boot",
		"PRAGMA query_only=0; DELETE FROM boot",
		"PRAGMA writable_schema=1; DELETE FROM sqlite_schema",
		"INSERT INTO op(process) VALUES(1)",
		"CREATE TABLE x(y)",
		"ATTACH '/tmp/ts-store-attached.db' AS other",
	};
	struct fixture *f = *state;
	sqlite3 *db;

	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(store_reader_open(f->path, 77, &db), 0);
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		assert_int_not_equal(sqlite3_exec(db, attempts[i], NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(ask(db, "SELECT count(*) FROM boot"), 1);
	assert_int_equal(ask(db, "SELECT now_ns()"), 77);
	sqlite3_close(db);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_committed_op_can_be_selected),
		TEST(rows_say_what_was_added),
		TEST(the_end_of_a_process_takes_its_allocations),
		TEST(rollups_of_the_same_calls_add_up),
		TEST(totals_outlive_their_seconds),
		TEST(totals_of_ended_processes_are_those_of_nobody),
		TEST(losses_of_a_second_add_up),
		TEST(a_new_daemon_goes_on_where_the_old_one_ended),
		TEST(a_model_gets_back_what_it_knew),
		TEST(a_new_database_counts_from_its_first_id_and_an_old_one_goes_on),
		TEST(a_later_database_begins_beyond_a_former_one),
		TEST(another_boot_resumes_ids_and_nothing_else),
		TEST(an_idle_store_still_says_that_it_was_there),
		TEST(an_older_file_is_brought_up_to_date),
		TEST(a_newer_schema_is_refused),
		TEST(someone_elses_database_is_refused),
		TEST(a_file_that_is_no_database_is_left_as_it_is),
		TEST(a_directory_that_is_not_there_is_an_error),
		TEST(the_file_is_not_for_everybody),
		TEST(a_reader_can_write_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
