/* test_scratch: temporary files of SQLite share one bound, give their room back, and leave nothing.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "daemon/query/scratch.h"

#define BYTES (8 << 20)
/* Rows in an order that must be made, of about 420 bytes. */
#define ROWS                                                                                       \
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d), "               \
	"r(k, t) AS (SELECT i * 7919 %% 100003, printf('%%.*c', 400, 'x') FROM n) "

static char directory[] = "/tmp/test_scratch.XXXXXX";
static sqlite3 *db;

/* The result of the statement, and of its last row the first column. */
static int run(const char *sql, int64_t *ret)
{
	sqlite3_stmt *stmt;
	int r;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	while ((r = sqlite3_step(stmt)) == SQLITE_ROW)
		*ret = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return r;
}

static int sort(int rows, int64_t *ret_last)
{
	char sql[512];

	snprintf(sql, sizeof(sql), ROWS "SELECT k, t FROM r ORDER BY k, t", rows);
	return run(sql, ret_last);
}

static void open_database(void)
{
	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	/* So little memory that all of it goes to the file. */
	assert_int_equal(sqlite3_exec(db, "PRAGMA cache_size = -200; PRAGMA temp_store = FILE",
				      NULL, NULL, NULL),
			 SQLITE_OK);
}

static int setup(void **state)
{
	assert_non_null(mkdtemp(directory));
	assert_int_equal(scratch_open(directory, BYTES), 0);
	open_database();
	return 0;
}

static int teardown(void **state)
{
	sqlite3_close(db);
	umount2(directory, MNT_DETACH); /* where a test has failed */
	return rmdir(directory);	/* it is empty */
}

static void what_fits_is_sorted(void **state)
{
	int64_t last = 0;

	assert_int_equal(sort(8000, &last), SQLITE_DONE);
	assert_in_range(last, 99000, 100002);
}

static void what_does_not_fit_is_refused_and_its_room_is_free_again(void **state)
{
	int64_t last = 0;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(sort(50000, &last), SQLITE_FULL);
		assert_int_equal(sort(8000, &last), SQLITE_DONE);
	}
}

/* Pages that are written, read and written again in any order. */
static void tables_for_the_moment_keep_what_is_in_them(void **state)
{
	int64_t count = 0;
	char sql[512];

	snprintf(sql, sizeof(sql),
		 ROWS "SELECT count(DISTINCT t || k) * 1000 + count(DISTINCT k %% 7) FROM r", 9000);
	assert_int_equal(run(sql, &count), SQLITE_DONE);
	assert_int_equal(count, 9000 * 1000 + 7);
	snprintf(sql, sizeof(sql), ROWS "SELECT count(DISTINCT t || k) FROM r", 60000);
	assert_int_equal(run(sql, &count), SQLITE_FULL);
}

/* One bound for all, not one for each. */
static void several_at_once_share_the_bound(void **state)
{
	int64_t count = 0;
	char sql[640];

	snprintf(sql, sizeof(sql),
		 ROWS
		 ", a AS MATERIALIZED (SELECT k, t FROM r ORDER BY t, k),"
		 " b AS MATERIALIZED (SELECT k, t FROM r ORDER BY k DESC, t),"
		 " c AS MATERIALIZED (SELECT k, t || 'y' AS t FROM r ORDER BY t, k DESC)"
		 " SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) + count(*) FROM c",
		 10000);
	assert_int_equal(run(sql, &count), SQLITE_FULL);
	assert_int_equal(sort(8000, &count), SQLITE_DONE);
}

static void temporary_tables_are_in_it_too(void **state)
{
	int64_t sum = 0;
	char sql[512];

	snprintf(sql, sizeof(sql), "CREATE TEMP TABLE t AS " ROWS "SELECT k, t FROM r", 8000);
	assert_int_equal(run(sql, &sum), SQLITE_DONE);
	assert_int_equal(run("CREATE INDEX temp.i ON t(k)", &sum), SQLITE_DONE);
	assert_int_equal(run("SELECT sum(length(t)) FROM t WHERE k >= 0", &sum), SQLITE_DONE);
	assert_int_equal(sum, 8000 * 400);
	assert_int_equal(run("DROP TABLE t", &sum), SQLITE_DONE);
}

/* As where the disk is full to the last file, or has become read-only. */
static void without_room_for_the_file_small_answers_remain(void **state)
{
	int64_t last = 0;

	if (geteuid() != 0 || mount("none", directory, "tmpfs", MS_RDONLY, NULL) < 0)
		skip();
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_int_equal(sqlite3_vfs_unregister(sqlite3_vfs_find(NULL)), SQLITE_OK);
	assert_int_equal(scratch_open(directory, BYTES), 0);
	open_database();
	assert_int_equal(sort(10, &last), SQLITE_DONE);
	assert_int_equal(sort(8000, &last), SQLITE_FULL);
	assert_int_equal(umount(directory), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_is_sorted),
		cmocka_unit_test(what_does_not_fit_is_refused_and_its_room_is_free_again),
		cmocka_unit_test(tables_for_the_moment_keep_what_is_in_them),
		cmocka_unit_test(several_at_once_share_the_bound),
		cmocka_unit_test(temporary_tables_are_in_it_too),
		cmocka_unit_test(without_room_for_the_file_small_answers_remain), /* the last */
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
