/* What `tsctl fleet` says to a server and reads of it, without one: statements for three kinds of
 * servers, values in statements, answers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/fleet/fill.h"
#include "client/fleet/head.h"
#include "client/fleet/schema.h"
#include "client/fleet/source.h"
#include "client/fleet/tsv.h"
#include "core/base/cleanup.h"

static const struct source step = {
	"001-step",
	"-- What it is.\n"
	"CREATE TABLE IF NOT EXISTS work\n"
	"(\n"
	"\thost LowCardinality(String),\n"
	"\ttime DateTime('UTC') CODEC(Delta(4), LZ4),\n"
	"\tframes Array(String),\n"
	"\ttold_ns UInt64 CODEC(Delta(8), LZ4)\n"
	")\n"
	"ENGINE = ReplacingMergeTree(told_ns)\n"
	"ORDER BY (host, time)\n"
	"TTL time + INTERVAL 30 DAY\n"
	"SETTINGS non_replicated_deduplication_window = 10000;\n",
};

static const struct source later = {
	"002-later",
	"-- More of it.\n"
	"ALTER TABLE work\n"
	"\tADD COLUMN place LowCardinality(String),\n"
	"\tADD COLUMN offset_ns Int64 CODEC(Delta(8), LZ4);\n",
};

struct said {
	char text[4][1024];
	size_t count;
};

static int say(void *data, const char *statement)
{
	struct said *said = data;

	assert_true(said->count < 4);
	snprintf(said->text[said->count++], sizeof(said->text[0]), "%s", statement);
	return 0;
}

static void test_one_node_of_today(void **state)
{
	const struct schema_target target = { .database = "fleet" };
	struct said said = { 0 };

	assert_int_equal(schema_statements(&step, &target, say, &said), 0);
	assert_int_equal(said.count, 1);
	assert_string_equal(said.text[0],
			    "CREATE TABLE IF NOT EXISTS fleet.work\n(\n"
			    "\thost LowCardinality(String),\n"
			    "\ttime DateTime('UTC') CODEC(Delta(4), LZ4),\n"
			    "\tframes Array(String),\n"
			    "\ttold_ns UInt64 CODEC(Delta(8), LZ4)\n)\n"
			    "ENGINE = ReplacingMergeTree(told_ns)\nORDER BY (host, time)\n"
			    "TTL time + INTERVAL 30 DAY\n"
			    "SETTINGS non_replicated_deduplication_window = 10000\n");
}

static void test_old_cluster(void **state)
{
	const struct schema_target target = { .database = "fleet", .cluster = "gpus", .old = true };
	struct said said = { 0 };

	assert_int_equal(schema_statements(&step, &target, say, &said), 0);
	assert_int_equal(said.count, 2);
	assert_string_equal(
		said.text[0],
		"CREATE TABLE IF NOT EXISTS fleet.work_local ON CLUSTER gpus\n(\n"
		"\thost String,\n\ttime DateTime('UTC'),\n\tframes Array(String),\n\ttold_ns "
		"UInt64\n)\n"
		"ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/fleet/work', "
		"'{replica}', told_ns)\nORDER BY (host, time)\n");
	assert_non_null(strstr(said.text[1], "fleet.work ON CLUSTER gpus AS fleet.work_local"));
	assert_non_null(
		strstr(said.text[1], "Distributed(gpus, fleet, work_local, cityHash64(host))"));
}

static void test_columns_are_added(void **state)
{
	_cleanup_(schema_done) struct schema found = { 0 };
	struct schema_target target = { .database = "fleet" };
	struct said said = { 0 };

	assert_int_equal(schema_statements(&later, &target, say, &said), 0);
	assert_int_equal(said.count, 2);
	assert_string_equal(said.text[0],
			    "ALTER TABLE fleet.work ADD COLUMN place LowCardinality(String)");
	assert_string_equal(
		said.text[1],
		"ALTER TABLE fleet.work ADD COLUMN offset_ns Int64 CODEC(Delta(8), LZ4)");

	/* On a cluster without those that are there, and with the table over all nodes. */
	assert_int_equal(schema_add(&found, "work_local", "place", "String"), 0);
	target = (struct schema_target){
		.database = "fleet", .cluster = "gpus", .old = true, .found = &found
	};
	said.count = 0;
	assert_int_equal(schema_statements(&later, &target, say, &said), 0);
	assert_int_equal(said.count, 3);
	assert_string_equal(
		said.text[0],
		"ALTER TABLE fleet.work_local ON CLUSTER gpus ADD COLUMN offset_ns Int64");
	assert_string_equal(said.text[1], "DROP TABLE IF EXISTS fleet.work ON CLUSTER gpus");
	assert_non_null(
		strstr(said.text[2], "Distributed(gpus, fleet, work_local, cityHash64(host))"));
	assert_int_equal(schema_add(&found, "work_local", "offset_ns", "Int64"), 0);
	assert_int_equal(schema_add(&found, "work", "offset_ns", "Int64"), 0);
	assert_int_equal(schema_add(&found, "work", "place", "String"), 0);
	said.count = 0;
	assert_int_equal(schema_statements(&later, &target, say, &said), 0);
	assert_int_equal(said.count, 0);
}

static void test_expected_columns(void **state)
{
	const struct schema_target target = { .database = "fleet", .cluster = "gpus", .old = true };
	_cleanup_(schema_done) struct schema schema = { 0 };
	size_t found = 0;

	assert_int_equal(schema_expect(5, &target, &schema), 0);
	for (size_t i = 0; i < schema.count; i++) {
		const struct schema_column *column = &schema.column[i];

		assert_null(strstr(column->type, "CODEC"));
		assert_null(strstr(column->type, "LowCardinality"));
		if (strcmp(column->table, "stack_local") == 0 &&
		    strcmp(column->name, "frames") == 0) {
			assert_string_equal(column->type, "Array(String)");
			found++;
		}
		if (strcmp(column->table, "work") == 0 && strcmp(column->name, "told_ns") == 0) {
			assert_string_equal(column->type, "UInt64");
			found++;
		}
		if (strcmp(column->table, "clock_local") == 0 &&
		    strcmp(column->name, "wall_offset_ns") == 0) {
			assert_string_equal(column->type, "Int64");
			found++;
		}
	}
	assert_int_equal(found, 3);
}

static void test_values(void **state)
{
	const struct fill fills[] = {
		{ "host", "o'\\b", true },
		{ "limit", "10", false },
		{ 0 },
	};
	_cleanup_(freep) char *text = fill_in("host = :host AND a::b LIMIT :limit :limits", fills);

	assert_string_equal(text, "host = 'o\\'\\\\b' AND a::b LIMIT 10 :limits");
}

static void test_answer(void **state)
{
	char text[] = "a\tb\nString\tUInt8\nx\\ty\\\\\\n\\'\t\\N\n\t1\n";
	char cut[] = "a\tb\nString\tUInt8\nx\n", none[] = "<html>", empty[] = "";
	struct tsv tsv;

	assert_int_equal(tsv_open(&tsv, text), 0);
	assert_int_equal(tsv.columns, 2);
	assert_string_equal(tsv.type[1], "UInt8");
	assert_int_equal(tsv_next(&tsv), 1);
	assert_string_equal(tsv.cell[0], "x\ty\\\n'");
	assert_null(tsv.cell[1]);
	assert_int_equal(tsv_next(&tsv), 1);
	assert_string_equal(tsv.cell[0], "");
	assert_int_equal(tsv_next(&tsv), 0);
	assert_int_equal(tsv_open(&tsv, cut), 0);
	assert_int_equal(tsv_next(&tsv), -EPROTO);
	assert_int_equal(tsv_open(&tsv, none), -EPROTO);
	assert_int_equal(tsv_open(&tsv, empty), -EPROTO);
	assert_int_equal(tsv_open(&tsv, NULL), -EPROTO);
}

static void test_files(void **state)
{
	struct head head;
	unsigned number = 0, queries = 0;

	for (const struct source *source = source_steps; source->name; source++)
		assert_int_equal(strtoul(source->name, NULL, 10), ++number);
	assert_true(number > 0);
	for (const struct source *source = source_queries; source->name; source++) {
		assert_int_equal(head_read(source, &head), 0);
		if (head.internal)
			continue;
		queries++;
		assert_true(head.columns > 0 && head.window_ns > 0);
		assert_true(head_takes(&head, "since"));
		assert_non_null(strstr(source->text, "\nLIMIT :limit\n"));
	}
	assert_true(queries >= 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_node_of_today),
		cmocka_unit_test(test_old_cluster),
		cmocka_unit_test(test_columns_are_added),
		cmocka_unit_test(test_expected_columns),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
