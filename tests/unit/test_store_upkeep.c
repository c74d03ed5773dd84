/* What the writer does beside writing: small chunks become large ones, and what is too old or too
 * much goes. */
#include <inttypes.h>
#include <sys/stat.h>

#include "core/limits.h"
#include "core/store/shares.h"
#include "tests/unit/store_fixture.h"

/* Commits until a statement gives what is wanted. */
static void wait_until(struct fixture *f, uint64_t now_ns, const char *sql, int64_t want)
{
	for (int i = 0; i < 20000; i++) {
		fixture_commit(f, now_ns + (uint64_t)i * SECOND_NS / 10);
		if (fixture_ask(f, sql) == want)
			return;
		pause_ms(1);
	}
	fail_msg("never %ld: %s: is %ld", (long)want, sql, (long)fixture_ask(f, sql));
}

/* `count` batches of a few ops on two streams, 250 ms apart. */
static void add_slow_batches(struct fixture *f, uint32_t process, uint64_t from_ns, int count)
{
	uint64_t seed = from_ns;

	for (int i = 0; i < count; i++) {
		for (int k = 0; k < 6; k++) {
			struct op op = fixture_launch(process, 1 + k % 2,
						      from_ns + (uint64_t)k * 1000, &seed);

			store_add_op(f->store, &op);
		}
		from_ns += SECOND_NS / 4;
		fixture_commit(f, from_ns);
	}
}

#define CONTENT "SELECT sum((start_ns % 1000003) * stream + handle % 1009 + stack % 7) FROM op"

static void small_chunks_become_few_with_the_same_ops(void **state)
{
	struct fixture *f = *state;
	int64_t content;

	assert_int_equal(fixture_open(f), 0);
	add_slow_batches(f, 1, 10 * SECOND_NS, 12);
	content = fixture_ask(f, CONTENT);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM chunk"), 24);
	/* The span is over an hour later. */
	wait_until(f, 3600 * SECOND_NS, "SELECT count(*) FROM chunk", 2);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 72);
	assert_int_equal(fixture_ask(f, CONTENT), content);
	assert_int_equal(fixture_ask(f, "SELECT min(ops) FROM chunk"), 36);
}

static void sixteen_of_a_size_are_merged_at_once(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	add_slow_batches(f, 1, 10 * SECOND_NS, 16);
	wait_until(f, 15 * SECOND_NS, "SELECT count(*) FROM chunk", 2);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 96);
}

/* A recorder that looks every second has seen them by then. */
static void what_came_lately_is_left_alone(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	add_slow_batches(f, 1, 10 * SECOND_NS, 20);
	for (int i = 0; i < 20; i++)
		fixture_commit(f, (16 + i / 5) * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM chunk"), 40);
	wait_until(f, 21 * SECOND_NS, "SELECT count(*) < 40 FROM chunk", 1);
}

static void chunks_know_their_commits(void **state)
{
	struct fixture *f = *state;
	int64_t first;

	assert_int_equal(fixture_open(f), 0);
	add_slow_batches(f, 1, 10 * SECOND_NS, 3);
	f->store = store_free(f->store);
	assert_int_equal(fixture_open(f), 0);
	add_slow_batches(f, 1, 11 * SECOND_NS, 13);
	assert_int_equal(fixture_ask(f, "SELECT count(DISTINCT batch) FROM chunk"), 16);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM chunk WHERE batch<>first_batch"), 0);
	assert_int_equal(fixture_ask(f, "SELECT next_batch > (SELECT max(batch) FROM chunk)"
					" FROM boot"),
			 1);
	first = fixture_ask(f, "SELECT min(batch) FROM chunk");
	wait_until(f, 25 * SECOND_NS, "SELECT count(*) FROM chunk", 2);
	assert_int_equal(fixture_ask(f, "SELECT min(first_batch) FROM chunk"), first);
	assert_true(fixture_ask(f, "SELECT min(batch) FROM chunk") >= first + 15);
}

static void chunks_of_different_streams_or_spans_stay_apart(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	add_slow_batches(f, 1, 10 * SECOND_NS, 5);
	add_slow_batches(f, 1, 1000 * SECOND_NS, 5);
	wait_until(f, 7200 * SECOND_NS, "SELECT count(*) FROM chunk", 4);
	assert_int_equal(fixture_ask(f, "SELECT max(last_ns - first_ns) < 600000000000 FROM chunk"),
			 1);
}

static void what_is_older_than_the_limit_goes(void **state)
{
	struct fixture *f = *state;

	f->config.keep_ns = 3600 * SECOND_NS;
	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 1, .pid = 5, .exit_ns = 12 * SECOND_NS });
	store_add(f->store, &(struct core_process){ .id = 2, .pid = 6 });
	store_add_stack(
		f->store,
		&(struct store_stack){ 77, 1, (struct frame[]){ FRAME(1, 1, "a", "b") }, 1, 0, 0 });
	for (uint32_t i = 1; i <= 2; i++) {
		uint64_t second = i == 1 ? 11 : 4000;

		store_add(f->store, &(struct core_rollup){ .second = second, .process = i });
		store_add(f->store, &(struct core_loss){ .start_ns = second * SECOND_NS,
							 .end_ns = second * SECOND_NS,
							 .count = 1 });
	}
	add_slow_batches(f, 1, 10 * SECOND_NS, 2);
	add_slow_batches(f, 2, 4000 * SECOND_NS, 1);
	/* What started early and has not long ended stays. */
	store_add_op(f->store, &(struct op){ .start_ns = 10 * SECOND_NS,
					     .end_ns = 3900 * SECOND_NS,
					     .process = 2,
					     .kind = OP_STATE });
	wait_until(f, 4100 * SECOND_NS, "SELECT count(*) FROM op", 7);
	wait_until(f, 4150 * SECOND_NS, "SELECT count(*) FROM process", 1);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 7);
	assert_int_equal(fixture_ask(f, "SELECT min(start_ns) FROM op WHERE kind='launch'"),
			 4000 * SECOND_NS);
	/* By then it may be condensed to its minute. */
	assert_int_equal(fixture_ask(f, "SELECT sum(second) / 60 FROM rollup"), 4000 / 60);
	assert_int_equal(fixture_ask(f, "SELECT sum(second) FROM loss"), 4000);
	assert_int_equal(fixture_ask(f, "SELECT id FROM process"), 2);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM stack"), 0);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM frame"), 0);
}

static void begin_boot(struct fixture *f, const char *boot_id, int64_t wall_offset_ns)
{
	f->store = store_free(f->store);
	f->config.boot_id = boot_id;
	f->config.wall_offset_ns = wall_offset_ns;
	assert_int_equal(fixture_open(f), 0);
}

/* Whatever the clock says: a year ahead until somebody sets it, or of 1970. */
static void former_boots_age_while_the_host_is_up(void **state)
{
	const int64_t year_ns = 365 * 86400 * (int64_t)SECOND_NS;
	struct fixture *f = *state;

	f->config.keep_ns = 2000 * SECOND_NS;
	assert_int_equal(fixture_open(f), 0);
	add_slow_batches(f, 1, 5000 * SECOND_NS, 2);
	/* Nothing happens in it. */
	begin_boot(f, "second-boot", f->config.wall_offset_ns + year_ns);
	for (int i = 0; i <= 1000; i += 100)
		fixture_commit(f, (uint64_t)i * SECOND_NS);
	begin_boot(f, "third-boot", -year_ns);
	add_slow_batches(f, 1, 100 * SECOND_NS, 1);
	for (int i = 200; i < 1000; i += 100)
		fixture_commit(f, (uint64_t)i * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 18);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM boot"), 3);
	for (int i = 1010; i < 1040; i += 10)
		fixture_commit(f, (uint64_t)i * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 6);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM boot"), 1);
	assert_int_equal(fixture_ask(f, "SELECT boot FROM op LIMIT 1"), 3);
}

/* What cannot be compressed, so that the size is known. */
static void add_bulk_of(struct fixture *f, uint32_t process, uint64_t now_ns, uint64_t *seed)
{
	for (int i = 0; i < 16384; i++) {
		struct op op = fixture_launch(process, process, now_ns + (uint64_t)i * 1000, seed);

		op.address = fixture_random(seed);
		op.source = fixture_random(seed);
		op.correlation = fixture_random(seed);
		store_add_op(f->store, &op);
	}
	fixture_commit(f, now_ns);
}

static void add_bulk(struct fixture *f, uint64_t now_ns, uint64_t *seed)
{
	add_bulk_of(f, 1, now_ns, seed);
}

static void the_file_stays_below_its_limit(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 5, now_ns = 1000 * SECOND_NS, most = 0;
	struct stat st;
	struct store_stats stats;

	needs_many_rows();
	f->config.keep_bytes = 24 << 20;
	assert_int_equal(fixture_open(f), 0);
	for (int i = 0; i < 200; i++, now_ns += 3 * SECOND_NS) {
		add_bulk(f, now_ns, &seed);
		store_stats(f->store, &stats);
		most = stats.database_bytes > most ? stats.database_bytes : most;
		fixture_commit(f, now_ns + SECOND_NS);
	}
	assert_true(stats.chunk_bytes > 3 * f->config.keep_bytes);
	/* Between two looks at it a little more may come. */
	assert_true(most < f->config.keep_bytes + (8 << 20));
	assert_int_equal(fixture_ask(f, "SELECT max(start_ns) FROM op") / (int64_t)SECOND_NS,
			 now_ns / SECOND_NS - 3);
	assert_true(fixture_ask(f, "SELECT count(*) FROM op") > 16384 * 20);
	f->store = store_free(f->store);
	assert_int_equal(stat(f->path, &st), 0);
	assert_true((uint64_t)st.st_size <= f->config.keep_bytes + (4 << 20));
}

/* What a user has for years stays, whatever another one adds in a minute; and the latter keeps
 * what is newest. */
static void one_users_ops_do_not_push_out_anothers(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 5, now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	needs_many_rows();
	f->config.keep_bytes = 24 << 20;
	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 1, .pid = 5, .uid = 7, .user = 7 });
	store_add(f->store, &(struct core_process){ .id = 2, .pid = 6, .uid = 100001, .user = 8 });
	store_add(f->store, &(struct core_process){ .id = 3, .pid = 7, .uid = 100002, .user = 8 });
	for (int i = 0; i < 4; i++, now_ns += 3 * SECOND_NS)
		add_bulk_of(f, 1, now_ns, &seed);
	for (int i = 0; i < 150; i++, now_ns += 3 * SECOND_NS) {
		add_bulk_of(f, 2 + i % 2, now_ns, &seed);
		fixture_commit(f, now_ns + SECOND_NS);
	}
	store_stats(f->store, &stats);
	assert_true(stats.chunk_bytes > 2 * f->config.keep_bytes);
	assert_true(stats.database_bytes < f->config.keep_bytes + (8 << 20));
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op WHERE process = 1"), 4 * 16384);
	assert_true(fixture_ask(f, "SELECT count(*) FROM op WHERE process > 1") > 16384);
	assert_true(fixture_ask(f, "SELECT min(start_ns) FROM op WHERE process > 1") >
		    (int64_t)(1030 * SECOND_NS));
	assert_int_equal(fixture_ask(f, "SELECT max(start_ns) FROM op") / (int64_t)SECOND_NS,
			 now_ns / SECOND_NS - 3);
}

/* Of the user with the most: those that came to nothing, then the oldest, with all their parts. */
static void one_users_autopsies_do_not_push_out_anothers(void **state)
{
	struct fixture *f = *state;
	const uint32_t count = LIMIT_STORE_OOMS + 50;

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 1, .pid = 5, .uid = 7, .user = 7 });
	store_add(f->store, &(struct core_process){ .id = 2, .pid = 6, .uid = 8, .user = 8 });
	for (uint32_t i = 1; i <= count; i++) {
		uint32_t process = i <= 3 ? 1 : 2;

		store_add(f->store,
			  &(struct core_oom_memory){ .oom = i, .process = process, .kind = 1 });
		store_add(f->store, &(struct core_oom_memory){ .oom = i, .process = 1, .kind = 2 });
		store_add(f->store, &(struct core_oom_stack){ .oom = i, .process = process });
		store_add(f->store, &(struct core_oom){ .id = i,
							.process = process,
							.recovered_ns = i % 10 == 0 ? i : 0 });
	}
	fixture_commit(f, SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM oom"), LIMIT_STORE_OOMS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM oom WHERE process = 1"), 3);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM oom WHERE recovered_ns"), 0);
	assert_int_equal(fixture_ask(f, "SELECT max(id) FROM oom"), count);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM oom_memory"), 2 * LIMIT_STORE_OOMS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM oom_stack"), LIMIT_STORE_OOMS);
	assert_int_equal(fixture_ask(f, "SELECT next_oom FROM boot"), count + 1);
}

static void a_smaller_limit_shrinks_the_file(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 5, now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	assert_int_equal(fixture_open(f), 0);
	for (int i = 0; i < 60; i++, now_ns += SECOND_NS)
		add_bulk(f, now_ns, &seed);
	f->store = store_free(f->store);
	f->config.keep_bytes = 8 << 20;
	assert_int_equal(fixture_open(f), 0);
	for (int i = 0; i < 20000; i++, now_ns += SECOND_NS) {
		stats = fixture_commit(f, now_ns);
		if (stats.database_bytes <= f->config.keep_bytes)
			break;
		pause_ms(1);
	}
	assert_true(stats.database_bytes <= f->config.keep_bytes);
	assert_true(fixture_ask(f, "SELECT count(*) FROM op") > 0);
}

static void add_large_batch(struct fixture *f, uint64_t now_ns)
{
	uint64_t seed = now_ns;

	for (uint64_t i = 0; i < 50000; i++) {
		struct op op = fixture_launch(1, 1, now_ns + i * 1000, &seed);

		op.address = fixture_random(&seed); /* cannot be compressed */
		store_add_op(f->store, &op);
	}
}

static int64_t file_bytes(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* A reader in a transaction sees one state, and the log it holds goes once it is done. */
static void a_long_reader_keeps_the_log_only_while_it_reads(void **state)
{
	struct fixture *f = *state;
	uint64_t now_ns = 1000 * SECOND_NS;
	struct store_stats stats;
	char log[128];
	sqlite3 *db;

	f->config.keep_bytes = 64 << 20; /* so the log may have 8 MiB */
	snprintf(log, sizeof(log), "%s-wal", f->path);
	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(store_reader_open(f->path, 0, &db), 0);
	assert_int_equal(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(ask(db, "SELECT count(*) FROM op"), 0);
	for (int i = 0; i < 40; i++) {
		add_large_batch(f, now_ns);
		stats = fixture_commit(f, now_ns += SECOND_NS / 4);
	}
	assert_true(stats.database_bytes > 16 << 20);
	assert_int_equal(ask(db, "SELECT count(*) FROM op"), 0);
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	assert_int_equal(ask(db, "SELECT count(*) FROM op"), stats.ops_written);
	assert_true(file_bytes(log) > 8 << 20);
	for (int i = 0; file_bytes(log) > 8 << 20; i++) {
		fixture_commit(f, now_ns += SECOND_NS);
		assert_true(i < 5000);
		pause_ms(1);
	}
	sqlite3_close(db);
}

/* Who has most is looked at while the database may have gigabytes. */
static void shares_are_read_without_the_data(void **state)
{
	struct fixture *f = *state;
	struct shares *shares;
	int64_t before, most;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db,
			     "PRAGMA temp_store = MEMORY; PRAGMA synchronous = OFF;"
			     "CREATE TABLE process(id INTEGER PRIMARY KEY, uid, owner);"
			     "CREATE TABLE chunk(id INTEGER PRIMARY KEY, boot, process, first_ns,"
			     " data); INSERT INTO process VALUES(1, 1, 1), (2, 2, 2);"
			     "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 64)"
			     "INSERT INTO chunk SELECT i, 1, 1 + (i > 40), i, zeroblob(1 << 20)"
			     " FROM n",
			     NULL, NULL, NULL),
		SQLITE_OK);
	assert_int_equal(shares_new(db, &shares), 0);
	before = sqlite3_memory_used();
	sqlite3_memory_highwater(1);
	assert_int_equal(shares_delete(shares, 1, 64 << 20, 3), 1);
	most = sqlite3_memory_highwater(0);
	assert_true(before > 0);
	if (most - before > 4 << 20)
		fail_msg("it took %" PRId64 " bytes", most - before);
	assert_int_equal(ask(db, "SELECT count(*) FROM chunk WHERE process = 1"), 37);
	assert_int_equal(ask(db, "SELECT count(*) FROM chunk WHERE process = 2"), 24);
	shares_free(shares);
	sqlite3_close(db);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_users_autopsies_do_not_push_out_anothers),
		TEST(small_chunks_become_few_with_the_same_ops),
		TEST(sixteen_of_a_size_are_merged_at_once),
		TEST(what_came_lately_is_left_alone),
		TEST(chunks_know_their_commits),
		TEST(chunks_of_different_streams_or_spans_stay_apart),
		TEST(what_is_older_than_the_limit_goes),
		TEST(former_boots_age_while_the_host_is_up),
		TEST(the_file_stays_below_its_limit),
		TEST(one_users_ops_do_not_push_out_anothers),
		TEST(shares_are_read_without_the_data),
		TEST(a_smaller_limit_shrinks_the_file),
		TEST(a_long_reader_keeps_the_log_only_while_it_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
