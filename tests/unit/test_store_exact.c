/* The store's tables of the exact tier: what is added is there, adds up, and goes in time. */
#include "daemon/limits.h"
#include "tests/unit/store_fixture.h"

static const struct core_work work = {
	.second = 5,
	.name = UINT64_MAX - 1,
	.stack_id = 0x8000000000000001,
	.process = 4,
	.stream = 3,
	.graph = 2,
	.bucket = 100,
	.kind = OP_KERNEL,
	.count = 10,
	.total_ns = 3000,
	.min_ns = 290,
	.max_ns = 310,
	.delay_ns = 70,
};

static void add_collect(struct store *store, uint32_t process, uint32_t state, uint64_t since_ns,
			uint64_t changed_ns)
{
	store_add(store,
		  &(struct core_collect){ .process = process,
					  .state = state,
					  .records = TS_RECORDS_DEFAULT,
					  .cupti_version = 130001,
					  .since_ns = since_ns,
					  .changed_ns = changed_ns,
					  .until_ns = state == TS_COLLECT_STOPPED ? changed_ns : 0,
					  .taken = 12 });
}

static void work_that_is_alike_adds_up(void **state)
{
	struct fixture *f = *state;
	struct core_work more = work;

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &work);
	more.min_ns = 280;
	more.max_ns = 305;
	more.bytes = 9;
	store_add(f->store, &more);
	more.bucket = 101;
	store_add(f->store, &more);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM work"), 2);
	assert_int_equal(
		fixture_ask(f, "SELECT (boot, second, process, device, stream, kind, detail, name,"
			       " graph, stack, bucket, count, total_ns, min_ns, max_ns, bytes,"
			       " delay_ns) = (1, 5, 4, 0, 3, 15, 0, -2, 2, -9223372036854775807,"
			       " 100, 20, 6000, 280, 310, 9, 140) FROM work WHERE bucket = 100"),
		1);
}

static void busy_times_of_a_second_add_up(void **state)
{
	struct fixture *f = *state;
	struct core_busy busy = { .second = 5,
				  .ns = 400,
				  .process = 4,
				  .device = 1,
				  .state = OP_STATE_RUNNING,
				  .kernels = 2,
				  .copies = 1 };

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &busy);
	store_add(f->store, &busy);
	busy.state = OP_STATE_SYNCING;
	busy.kernels = busy.copies = 0;
	store_add(f->store, &busy);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT ns FROM busy WHERE kernels = 2 AND copies = 1"),
			 800);
	assert_int_equal(fixture_ask(f, "SELECT ns FROM busy JOIN detail ON detail.kind = 13"
					" AND detail.id = state WHERE detail.name = 'syncing'"),
			 400);
}

/* A daemon that stops stores what it has of the last second. */
static void what_the_next_daemon_lacks_starts_within_a_second(void **state)
{
	struct fixture *f = *state;
	const struct core_collect collect = { .process = 4, .state = TS_COLLECT_STARTED };
	struct core_busy busy = { .process = 4, .state = OP_STATE_RUNNING };
	uint64_t since_ns = 0;

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &collect);
	for (busy.device = 0; busy.device < 2; busy.device++) {
		busy.ns = SECOND_NS;
		for (busy.second = 5; busy.second < 8; busy.second++)
			store_add(f->store, &busy);
	}
	fixture_commit(f, 10 * SECOND_NS);
	assert_int_equal(store_resume_collect(f->store, 4, &since_ns), 1);
	assert_int_equal(since_ns, 8 * SECOND_NS);
	for (busy.device = 0; busy.device < 2; busy.device++) {
		busy.ns = SECOND_NS / (2 + (uint64_t)busy.device);
		store_add(f->store, &busy);
	}
	fixture_commit(f, 10 * SECOND_NS + 1);
	assert_int_equal(store_resume_collect(f->store, 4, &since_ns), 1);
	assert_int_equal(since_ns, 8 * SECOND_NS + SECOND_NS / 3);
}

static void add_state(struct store *store, uint16_t flags, uint8_t state, uint64_t ns)
{
	store_add_op(store, &(struct op){ .start_ns = 5 * SECOND_NS,
					  .end_ns = 5 * SECOND_NS + ns,
					  .process = 4,
					  .stream = 3,
					  .flags = flags,
					  .kind = OP_STATE,
					  .detail = state });
}

static void exact_states_that_ops_tell_of_are_left_out_where_short(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	add_state(f->store, OP_EXACT, OP_STATE_RUNNING, STORE_STATE_MIN_NS - 1);
	add_state(f->store, OP_EXACT, OP_STATE_IDLE, 1);
	add_state(f->store, OP_EXACT, OP_STATE_RUNNING, STORE_STATE_MIN_NS);
	add_state(f->store, OP_EXACT, OP_STATE_WAITING, 7);
	add_state(f->store, OP_EXACT, OP_STATE_SYNCING, 8);
	add_state(f->store, OP_BOUNDS, OP_STATE_PENDING, 9);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM state"), 4);
	assert_int_equal(fixture_ask(f, "SELECT sum(duration_ns) FROM state"), 20024);
}

static void a_gap_that_stays_open_is_one_row(void **state)
{
	struct fixture *f = *state;
	struct core_loss gap = { .start_ns = 5 * SECOND_NS + 7,
				 .end_ns = 5 * SECOND_NS + 9,
				 .process = 4,
				 .reason = LOSS_PAUSED,
				 .count = 1 };

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &gap);
	for (int i = 6; i < 90; i++) {
		gap.end_ns = i * SECOND_NS;
		gap.count = 0;
		store_add(f->store, &gap);
		fixture_commit(f, gap.end_ns);
	}
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM loss"), 1);
	assert_int_equal(fixture_ask(f, "SELECT (start_ns, end_ns, count) ="
					" (5000000007, 89000000000, 1) FROM loss"),
			 1);
}

static void a_pool_is_one_row_until_it_is_gone(void **state)
{
	struct fixture *f = *state;
	struct core_pool pool = { .process = 4,
				  .device = 1,
				  .kind = CORE_POOL_OWN,
				  .address = 0xf000000000000010,
				  .bytes = 64 << 20,
				  .used_bytes = 3 << 20,
				  .threshold_bytes = INT64_MAX,
				  .peak_bytes = 128 << 20,
				  .peak_used_bytes = 99 << 20,
				  .told_ns = 7 };

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &pool);
	pool.used_bytes = 5;
	pool.peak_bytes = pool.bytes;
	store_add(f->store, &pool);
	pool.address++;
	store_add(f->store, &pool);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT (process, device, kind, bytes, used_bytes,"
					" threshold_bytes, peak_bytes, peak_used_bytes, told_ns) ="
					" (4, 1, 1, 67108864, 5, 0x7fffffffffffffff, 134217728,"
					" 103809024, 7) FROM pool ORDER BY address LIMIT 1"),
			 1);
	pool.gone = true;
	store_add(f->store, &pool);
	store_add(f->store, &(struct core_process){ .id = 4, .pid = 9, .exit_ns = 8 });
	fixture_commit(f, 7 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM pool"), 1);
	assert_int_equal(fixture_ask(f, "SELECT (bytes, used_bytes, peak_used_bytes) ="
					" (0, 0, 103809024) FROM pool"),
			 1);
}

static void devices_have_their_uuid_as_text(void **state)
{
	struct fixture *f = *state;
	struct core_device device = { .process = 4,
				      .ordinal = 1,
				      .uuid = { 0x01, 0xab, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
						14, 0xff },
				      .memory_bytes = 150754820096,
				      .name = 77,
				      .multiprocessors = 132,
				      .clock_khz = 1980000 };

	assert_int_equal(fixture_open(f), 0);
	store_add_name(f->store, 77, "NVIDIA H200", 11);
	store_add(f->store, &device);
	store_add(f->store, &device);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f,
				     "SELECT (process, ordinal, uuid, name.text, memory_bytes,"
				     " multiprocessors, clock_khz) = (4, 1,"
				     " 'GPU-01ab0203-0405-0607-0809-0a0b0c0d0eff', 'NVIDIA H200',"
				     " 150754820096, 132, 1980000)"
				     " FROM device JOIN name ON name.id = device.name"),
			 1);
}

static void names_are_demangled_and_valid_and_bounded(void **state)
{
	struct fixture *f = *state;
	char longest[2 * TS_NAME_MAX], *at;

	assert_int_equal(fixture_open(f), 0);
	store_add_name(f->store, 1, "_Z3addPfi and what is behind", 9);
	store_add_name(f->store, 2,
		       "a\xff"
		       "b",
		       3);
	store_add_name(f->store, 3, "", 0);
	store_add_name(f->store, 4, "cut\0off", 7);
	memset(longest, 'x', sizeof(longest));
	store_add_name(f->store, 5, longest, sizeof(longest));
	/* Stands for an endless text. */
	memcpy(longest, "_Z1fI", 5);
	for (size_t i = 5; i + 12 < TS_NAME_MAX; i += 12)
		memcpy(longest + i, "St4pairIS0_S0", 12);
	store_add_name(f->store, 6, longest, TS_NAME_MAX);
	/* An argument of 40 letters, over and over, and a last one that tells it from others. */
	at = longest + sprintf(longest, "_Z1fI40k%039d", 0);
	for (int i = 0; i < 60; i++)
		at += sprintf(at, "S0_");
	sprintf(at, "4lastEvv");
	store_add_name(f->store, 7, longest, strlen(longest));
	/* The first that had an id keeps it. */
	store_add_name(f->store, 1, "other", 5);
	fixture_commit(f, 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT (text, symbol) = ('add(float*, int)', '_Z3addPfi')"
					" FROM name WHERE id = 1"),
			 1);
	assert_int_equal(fixture_ask(f, "SELECT text = 'a\xef\xbf\xbd' || 'b' FROM name WHERE id ="
					" 2"),
			 1);
	assert_int_equal(fixture_ask(f, "SELECT text = '' FROM name WHERE id = 3"), 1);
	assert_int_equal(fixture_ask(f, "SELECT text = 'cut' FROM name WHERE id = 4"), 1);
	assert_int_equal(fixture_ask(f, "SELECT length(text) FROM name WHERE id = 5"), TS_NAME_MAX);
	assert_int_equal(fixture_ask(f, "SELECT length(text) < 4096 FROM name WHERE id = 6"), 1);
	assert_int_equal(fixture_ask(f,
				     "SELECT length(text) > 2000 AND text LIKE 'void f<k%, last>()'"
				     " FROM name WHERE id = 7"),
			 1);
}

static void add_names_of(struct fixture *f, uint32_t process, uint64_t first, uint64_t last)
{
	struct core_name name = { .process = process };
	char text[32];

	for (name.id = first; name.id <= last; name.id++) {
		name.length = (size_t)snprintf(text, sizeof(text), "name %d", (int)name.id);
		name.text = text;
		store_add(f->store, &name);
	}
}

static void add_numbered_names(struct fixture *f, uint64_t first, uint64_t last)
{
	add_names_of(f, 0, first, last);
}

#define LIMITED                                                                                    \
	"SELECT coalesce(sum(count), 0) FROM loss JOIN loss_reason r ON r.id = reason"             \
	" WHERE r.name = 'limit'"

static void the_oldest_names_make_room_but_not_those_of_kernels(void **state)
{
	struct fixture *f = *state;
	struct core_work row = work;

	assert_int_equal(fixture_open(f), 0);
	add_numbered_names(f, 1, 10);
	row.name = 3;
	store_add(f->store, &row);
	store_add(f->store, &(struct core_device){ .process = 4, .name = 5 });
	fixture_commit(f, 6 * SECOND_NS);
	add_numbered_names(f, 11, LIMIT_STORE_NAMES);
	fixture_commit(f, 7 * SECOND_NS);
	assert_int_equal(fixture_ask(f, LIMITED), 0);
	add_numbered_names(f, LIMIT_STORE_NAMES + 1, LIMIT_STORE_NAMES + 5);
	fixture_commit(f, 8 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM name"), LIMIT_STORE_NAMES - 4096 + 5);
	assert_int_equal(fixture_ask(f, "SELECT sum(id) FROM name WHERE id <= 10"), 3 + 5);
	assert_int_equal(fixture_ask(f, LIMITED), 4096);
}

static void names_of_kernels_beyond_the_limit_are_counted(void **state)
{
	struct fixture *f = *state;
	struct core_work row = work;

	needs_many_rows();
	assert_int_equal(fixture_open(f), 0);
	add_numbered_names(f, 1, LIMIT_STORE_NAMES);
	for (row.name = 1; row.name <= LIMIT_STORE_NAMES; row.name++)
		store_add(f->store, &row);
	fixture_commit(f, 6 * SECOND_NS);
	add_numbered_names(f, LIMIT_STORE_NAMES + 1, LIMIT_STORE_NAMES + 5);
	fixture_commit(f, 7 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT max(id) FROM name"), LIMIT_STORE_NAMES);
	assert_int_equal(fixture_ask(f, LIMITED), 5);
}

#define LIMITED_OF                                                                                 \
	"SELECT coalesce(sum(count), 0) FROM loss JOIN loss_reason r ON r.id = reason"             \
	" WHERE r.name = 'limit' AND process = "

static void add_two_users(struct fixture *f)
{
	store_add(f->store, &(struct core_process){ .id = 4, .pid = 40, .user = 1000 });
	store_add(f->store, &(struct core_process){ .id = 5, .pid = 50, .user = 1001 });
}

static void a_user_who_fills_the_names_loses_his_own(void **state)
{
	struct fixture *f = *state;

	needs_many_rows();
	assert_int_equal(fixture_open(f), 0);
	add_two_users(f);
	/* One that both told, and one that is only the other's, are older than all else. */
	add_names_of(f, 4, 1, 1);
	add_names_of(f, 5, 1, 2);
	fixture_commit(f, 6 * SECOND_NS);
	add_names_of(f, 4, 3, LIMIT_STORE_NAMES + 5);
	fixture_commit(f, 7 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM name WHERE id IN (1, 2)"), 2);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM teller WHERE user = 1001"), 2);
	assert_int_equal(
		fixture_ask(f, "SELECT count(*) FROM teller WHERE user = 1000 AND name < 3"), 0);
	assert_int_equal(fixture_ask(f, "SELECT min(id) FROM name WHERE id > 2"), 3 + 4095);
	assert_int_equal(fixture_ask(f, LIMITED_OF "4"), 4095);
	assert_int_equal(fixture_ask(f, LIMITED), 4095);
}

static void names_of_his_kernels_make_room_for_another_user(void **state)
{
	struct fixture *f = *state;
	struct core_work row = work;

	needs_many_rows();
	assert_int_equal(fixture_open(f), 0);
	add_two_users(f);
	add_names_of(f, 4, 1, LIMIT_STORE_NAMES);
	for (row.name = 1; row.name <= LIMIT_STORE_NAMES + 1; row.name++)
		store_add(f->store, &row);
	fixture_commit(f, 6 * SECOND_NS);
	/* Not for his own, which he is told. */
	add_names_of(f, 4, LIMIT_STORE_NAMES + 1, LIMIT_STORE_NAMES + 1);
	fixture_commit(f, 7 * SECOND_NS);
	assert_int_equal(fixture_ask(f, LIMITED_OF "4"), 1);
	add_names_of(f, 5, LIMIT_STORE_NAMES + 1, LIMIT_STORE_NAMES + 2);
	fixture_commit(f, 8 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT max(id) FROM name"), LIMIT_STORE_NAMES + 2);
	assert_int_equal(fixture_ask(f, "SELECT min(id) FROM name"), 1 + 4096);
	assert_int_equal(fixture_ask(f, LIMITED_OF "4"), 1 + 4096);
	assert_int_equal(fixture_ask(f, LIMITED_OF "5"), 0);
}

static void a_collection_ends_with_stop_or_process(void **state)
{
	struct fixture *f = *state;
	struct core_process process = { .id = 4, .pid = 40 };

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &process);
	store_add(f->store, &(struct core_process){ .id = 5, .pid = 50 });
	add_collect(f->store, 4, TS_COLLECT_STARTED, 100, 100);
	add_collect(f->store, 5, TS_COLLECT_STARTED, 100, 100);
	add_collect(f->store, 5, TS_COLLECT_STOPPED, 100, 300);
	fixture_commit(f, SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM collect WHERE process = 4"
					" AND until_ns IS NULL AND taken = 12 AND since_ns = 100"),
			 1);
	assert_int_equal(fixture_ask(f, "SELECT until_ns FROM collect WHERE process = 5"), 300);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM collect JOIN collect_state s"
					" ON s.id = state WHERE s.name = 'stopped'"),
			 1);
	/* Again, and then the process ends. A last word that comes late changes nothing. */
	add_collect(f->store, 5, TS_COLLECT_STARTED, 400, 400);
	process.exit_ns = 500;
	store_add(f->store, &process);
	add_collect(f->store, 4, TS_COLLECT_PAUSED, 100, 490);
	fixture_commit(f, 2 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT until_ns FROM collect WHERE process = 4"), 500);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM collect WHERE process = 5"
					" AND until_ns IS NULL AND since_ns = 400"),
			 1);
}

static void a_restart_keeps_all_and_closes_what_was_open(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 4, .pid = 40 });
	store_add_name(f->store, 1, "kernel", 6);
	store_add(f->store, &work);
	add_collect(f->store, 4, TS_COLLECT_STARTED, 100, 100);
	fixture_commit(f, 6 * SECOND_NS);
	f->store = store_free(f->store);
	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(fixture_ask(f, "SELECT until_ns FROM collect"), 6 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT count FROM work"), 10);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM name"), 1);
	/* The library has come again. */
	add_collect(f->store, 4, TS_COLLECT_STARTED, 7 * SECOND_NS, 7 * SECOND_NS);
	fixture_commit(f, 8 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT until_ns IS NULL FROM collect"), 1);
}

/* Commits until a statement gives what is wanted. */
static void wait_until(struct fixture *f, uint64_t now_ns, const char *sql, int64_t want)
{
	for (int i = 0; i < 20000; i++) {
		fixture_commit(f, now_ns + (uint64_t)i * SECOND_NS / 1000);
		if (fixture_ask(f, sql) == want)
			return;
		pause_ms(1);
	}
	fail_msg("never %ld: %s: is %ld", (long)want, sql, (long)fixture_ask(f, sql));
}

static void what_is_older_than_the_limit_goes(void **state)
{
	struct fixture *f = *state;
	struct core_work later = work;
	struct core_busy busy = { .second = 5, .ns = 400, .process = 4 };

	f->config.keep_ns = 3600 * SECOND_NS;
	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 4, .pid = 5, .exit_ns = 12 * SECOND_NS });
	store_add(f->store, &(struct core_process){ .id = 5, .pid = 6 });
	store_add(f->store, &(struct core_device){ .process = 4 });
	store_add(f->store, &(struct core_device){ .process = 5 });
	add_collect(f->store, 4, TS_COLLECT_STARTED, SECOND_NS, SECOND_NS);
	store_add_name(f->store, 1, "of the one that has ended", 25);
	fixture_commit(f, 3 * SECOND_NS);
	add_collect(f->store, 5, TS_COLLECT_STARTED, 5 * SECOND_NS, 5 * SECOND_NS);
	store_add_name(f->store, 2, "of one that runs", 16);
	store_add(f->store, &work);
	store_add(f->store, &busy);
	fixture_commit(f, 6 * SECOND_NS);
	later.second = busy.second = 4000;
	store_add(f->store, &later);
	store_add(f->store, &busy);
	wait_until(f, 4100 * SECOND_NS,
		   "SELECT (SELECT count(*) FROM work) * 100 +"
		   " (SELECT count(*) FROM busy) * 10 + (SELECT count(*) FROM process)",
		   111);
	wait_until(f, 4150 * SECOND_NS, "SELECT count(*) FROM name", 1);
	assert_int_equal(fixture_ask(f, "SELECT sum(second) / 60 FROM work"), 4000 / 60);
	assert_int_equal(fixture_ask(f, "SELECT sum(second) / 60 FROM busy"), 4000 / 60);
	assert_int_equal(fixture_ask(f, "SELECT id FROM name"), 2);
	assert_int_equal(fixture_ask(f, "SELECT sum(process) FROM collect"), 5);
	assert_int_equal(fixture_ask(f, "SELECT sum(process) FROM device"), 5);
}

static void work_alone_keeps_the_file_below_its_limit(void **state)
{
	struct fixture *f = *state;
	struct core_work row = work;
	struct store_stats stats;

	needs_many_rows();
	f->config.keep_bytes = 8 << 20;
	assert_int_equal(fixture_open(f), 0);
	for (uint64_t second = 1000; second < 1200; second++) {
		row.second = second;
		for (uint64_t i = 0; i < 2000; i++) {
			row.name = i * 0x9e3779b97f4a7c15;
			store_add(f->store, &row);
		}
		stats = fixture_commit(f, second * SECOND_NS);
	}
	/* 400,000 rows of some 60 bytes came. */
	assert_true(stats.database_bytes < f->config.keep_bytes + (6 << 20));
	assert_int_equal(fixture_ask(f, "SELECT max(second) FROM work"), 1199);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(work_that_is_alike_adds_up),
		TEST(busy_times_of_a_second_add_up),
		TEST(what_the_next_daemon_lacks_starts_within_a_second),
		TEST(exact_states_that_ops_tell_of_are_left_out_where_short),
		TEST(a_gap_that_stays_open_is_one_row),
		TEST(a_pool_is_one_row_until_it_is_gone),
		TEST(devices_have_their_uuid_as_text),
		TEST(names_are_demangled_and_valid_and_bounded),
		TEST(the_oldest_names_make_room_but_not_those_of_kernels),
		TEST(names_of_kernels_beyond_the_limit_are_counted),
		TEST(a_user_who_fills_the_names_loses_his_own),
		TEST(names_of_his_kernels_make_room_for_another_user),
		TEST(a_collection_ends_with_stop_or_process),
		TEST(a_restart_keeps_all_and_closes_what_was_open),
		TEST(what_is_older_than_the_limit_goes),
		TEST(work_alone_keeps_the_file_below_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
