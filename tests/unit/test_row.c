/* The tables' descriptions: what is made from them is what the steps make of an older database. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/store/row_sql.h"
#include "core/store/schema.h"
#include "core/store/sql.h"

#define VERSIONS 26

/* All that SQLite knows of tables and indexes but their text. */
static const char shape_text[] =
	"SELECT group_concat(line, char(10)) FROM (SELECT s.name || ' ' || l.wr || ' ' || x.cid ||"
	" ' ' || x.name || ' ' || x.type || ' ' || x.\"notnull\" || ' ' ||"
	" coalesce(x.dflt_value, '-') || ' ' || x.pk AS line"
	" FROM sqlite_schema s JOIN pragma_table_list(s.name) l JOIN pragma_table_xinfo(s.name) x"
	" WHERE s.type = 'table' UNION ALL SELECT s.name || ' ' || i.name || ' ' || i.\"unique\" ||"
	" i.partial || i.origin || ' ' || x.seqno || ' ' || coalesce(x.name, '-') ||"
	" substr(coalesce(d.sql, ''), instr(coalesce(d.sql, ''), ')'))"
	" FROM sqlite_schema s JOIN pragma_index_list(s.name) i JOIN pragma_index_info(i.name) x"
	" LEFT JOIN sqlite_schema d ON d.name = i.name WHERE s.type = 'table'"
	" ORDER BY 1)";

static char *shape_of(sqlite3 *db)
{
	sqlite3_stmt *stmt = NULL;
	char *shape;

	assert_int_equal(sql_prepare(db, shape_text, &stmt), 0);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	shape = strdup((const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	return shape;
}

static void steps_make_what_is_described(void **state)
{
	sqlite3 *made = NULL, *stepped = NULL;
	char *as_made, *as_stepped;

	assert_int_equal(sqlite3_open(":memory:", &made), SQLITE_OK);
	assert_int_equal(sqlite3_open(":memory:", &stepped), SQLITE_OK);
	assert_int_equal(schema_make(made), 0);
	assert_int_equal(schema_make_version(stepped, VERSIONS + 1), -EINVAL);
	assert_int_equal(schema_make_version(stepped, VERSIONS), 0);
	as_made = shape_of(made);
	as_stepped = shape_of(stepped);
	assert_true(strstr(as_made, "rollup") && strstr(as_made, "WHERE ops < 4096"));
	assert_string_equal(as_made, as_stepped);
	free(as_made);
	free(as_stepped);
	sqlite3_close(made);
	sqlite3_close(stepped);
}

static void every_former_version_is_brought_up_to_date(void **state)
{
	char path[64];

	for (int version = 1; version <= VERSIONS; version++) {
		sqlite3 *old = NULL, *new = NULL, *made = NULL;
		char *as_new, *as_made;

		snprintf(path, sizeof(path), "/tmp/test_row.%d", getpid());
		assert_int_equal(sqlite3_open(path, &old), SQLITE_OK);
		assert_int_equal(schema_make_version(old, version), 0);
		sqlite3_close(old);
		assert_int_equal(schema_open(path, &new), 0);
		assert_int_equal(sqlite3_open(":memory:", &made), SQLITE_OK);
		assert_int_equal(schema_make(made), 0);
		as_new = shape_of(new);
		as_made = shape_of(made);
		assert_string_equal(as_new, as_made);
		free(as_new);
		free(as_made);
		sqlite3_close(made);
		sqlite3_close(new);
		unlink(path);
	}
}

static int64_t number_of(sqlite3 *db, const char *text)
{
	sqlite3_stmt *stmt = NULL;
	int64_t number;

	assert_int_equal(sql_prepare(db, text, &stmt), 0);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	number = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return number;
}

/* How far it may be off followed from the squares of what each window missed, and still does. */
static void an_estimate_of_a_former_version_has_an_error(void **state)
{
	sqlite3 *db = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/test_row.%d", getpid());
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(schema_make_version(db, 24), 0);
	assert_int_equal(sqlite3_exec(db,
				      "INSERT INTO watch (boot, second, process, part, missed,"
				      " missed_missed, missed_ms, ms_ms)"
				      " VALUES (1, 2, 3, 0, 40, 1600, 7, 8)",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(schema_open(path, &db), 0);
	assert_int_equal(number_of(db, "SELECT error2 FROM watch WHERE missed = 40"), 1600);
	sqlite3_close(db);
	unlink(path);
}

static void each_type_of_row_but_names_has_a_table(void **state)
{
	for (int type = 0; type < CORE_ROW_COUNT; type++)
		assert_int_equal(row_table_of((enum core_row)type) != NULL, type != CORE_ROW_NAME);
	assert_null(row_table_find("nosuch"));
	assert_string_equal(row_table_find("busy")->name, "busy");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_make_what_is_described),
		cmocka_unit_test(every_former_version_is_brought_up_to_date),
		cmocka_unit_test(an_estimate_of_a_former_version_has_an_error),
		cmocka_unit_test(each_type_of_row_but_names_has_a_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
