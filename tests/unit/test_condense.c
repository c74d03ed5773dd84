/* Condense: old seconds become minutes, and no sum changes by it. */
#include "core/store/condense.h"
#include "core/store/schema.h"
#include "core/store/sql.h"
#include "tests/unit/store_fixture.h"

#define MINUTE	6000000 /* a second in which one begins */
#define SECONDS 300

struct rows {
	struct fixture *fixture;
	sqlite3 *db;
	struct condense *condense;
};

static void add(sqlite3 *db, uint64_t second, uint32_t fn, uint64_t timed, uint64_t min_ns)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
		 "INSERT INTO rollup VALUES(1, %llu, 1, 1, %u, 0, 0, 0, 0, 0, 0, 2, %llu, %llu, "
		 "%llu,"
		 " %llu, 10, 1)",
		 (unsigned long long)second, fn, (unsigned long long)timed,
		 (unsigned long long)min_ns * 3, (unsigned long long)min_ns,
		 (unsigned long long)min_ns * 2);
	assert_int_equal(sql_exec(db, sql), 0);
}

static void add_work(sqlite3 *db, uint64_t second, uint32_t bucket)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
		 "INSERT INTO work VALUES(1, %llu, 1, 0, 1, 15, 0, 9, 0, 0, %u, 3, 300, %llu, %llu,"
		 " 8, 5); INSERT INTO busy VALUES(1, %llu, 1, 0, %u, 1, 0, 100)",
		 (unsigned long long)second, bucket, (unsigned long long)(second - MINUTE + 10),
		 (unsigned long long)(second - MINUTE + 1000), (unsigned long long)second, bucket);
	assert_int_equal(sql_exec(db, sql), 0);
}

static int setup(void **state)
{
	struct rows *rows = calloc(1, sizeof(*rows));
	void *fixture;

	fixture_setup(&fixture);
	rows->fixture = fixture;
	assert_int_equal(schema_open(rows->fixture->path, &rows->db), 0);
	for (int i = 0; i < SECONDS; i++) {
		add(rows->db, MINUTE + i, 1, 1, 100 + i);
		add(rows->db, MINUTE + i, 2, 0, 0);
		add_work(rows->db, MINUTE + i, 1 + i % 2);
	}
	assert_int_equal(condense_new(rows->db, 1, &rows->condense), 0);
	*state = rows;
	return 0;
}

static int teardown(void **state)
{
	struct rows *rows = *state;
	void *fixture = rows->fixture;

	condense_free(rows->condense);
	sqlite3_close(rows->db);
	fixture_teardown(&fixture);
	free(rows);
	return 0;
}

static void run_at(struct rows *rows, uint64_t second)
{
	int turns = 0;

	while (condense_turn(rows->condense, second * SECOND_NS))
		assert_true(++turns < 1000);
}

static void test_old_minutes_are_one_row_each_and_sums_stay(void **state)
{
	struct rows *rows = *state;

	run_at(rows, MINUTE + SECONDS); /* 120 s back lies the end of the third minute */
	assert_int_equal(ask(rows->db, "SELECT count(*) FROM rollup"), 2 * (3 + 120));
	assert_int_equal(ask(rows->db, "SELECT sum(calls) FROM rollup"), 2 * 2 * SECONDS);
	assert_int_equal(ask(rows->db, "SELECT sum(bytes) FROM rollup"), 2 * 10 * SECONDS);
	assert_int_equal(ask(rows->db, "SELECT sum(captured) FROM rollup"), 2 * SECONDS);
	assert_int_equal(ask(rows->db, "SELECT sum(timed) FROM rollup"), SECONDS);
	assert_int_equal(ask(rows->db, "SELECT min_ns FROM rollup WHERE fn=1 AND second=6000060"),
			 160);
	assert_int_equal(ask(rows->db, "SELECT max_ns FROM rollup WHERE fn=1 AND second=6000060"),
			 2 * 219);
	assert_int_equal(ask(rows->db, "SELECT min_ns FROM rollup WHERE fn=2 AND second=6000060"),
			 0);
}

static void test_work_and_busy_become_minutes_too(void **state)
{
	struct rows *rows = *state;

	run_at(rows, MINUTE + SECONDS);
	assert_int_equal(ask(rows->db, "SELECT count(*) FROM work"), 2 * 3 + 120);
	assert_int_equal(ask(rows->db, "SELECT count(*) FROM busy"), 2 * 3 + 120);
	assert_int_equal(ask(rows->db, "SELECT sum(ns) FROM busy"), 100 * SECONDS);
	assert_int_equal(ask(rows->db, "SELECT sum(ns) FROM busy WHERE second=6000060 AND state=2"),
			 100 * 30);
	assert_int_equal(ask(rows->db, "SELECT (sum(count), sum(total_ns), sum(bytes),"
				       " sum(delay_ns)) = (900, 90000, 2400, 1500) FROM work"),
			 1);
	assert_int_equal(ask(rows->db, "SELECT (count, min_ns, max_ns) = (90, 70, 1118) FROM work"
				       " WHERE second=6000060 AND bucket=1"),
			 1);
}

static void test_recent_minutes_stay(void **state)
{
	struct rows *rows = *state;

	run_at(rows, MINUTE + 60 + CONDENSE_AFTER_S - 1);
	assert_int_equal(ask(rows->db, "SELECT count(*) FROM rollup"), 2 * SECONDS);
	run_at(rows, MINUTE + 60 + CONDENSE_AFTER_S);
	assert_int_equal(ask(rows->db, "SELECT count(*) FROM rollup"), 2 * (1 + SECONDS - 60));
}

static void test_a_new_daemon_goes_on_where_the_last_one_was(void **state)
{
	struct rows *rows = *state;

	run_at(rows, MINUTE + 60 + CONDENSE_AFTER_S);
	rows->condense = condense_free(rows->condense);
	assert_int_equal(condense_new(rows->db, 1, &rows->condense), 0);
	run_at(rows, MINUTE + SECONDS);
	assert_int_equal(ask(rows->db, "SELECT count(*) FROM rollup"), 2 * (3 + 120));
	assert_int_equal(ask(rows->db, "SELECT sum(calls) FROM rollup"), 2 * 2 * SECONDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_old_minutes_are_one_row_each_and_sums_stay,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_work_and_busy_become_minutes_too, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_recent_minutes_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_new_daemon_goes_on_where_the_last_one_was,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
