/* File, hostile: whatever is in a file, a message says what is wrong with it, or what is right is
 * used and the answers say that something is missing. */
#include <sys/stat.h>
#include <xxhash.h>

#include "client/file/say.h"
#include "core/base/array.h"
#include "core/sbt/format.h"
#include "tests/unit/file_fixture.h"

#ifdef __SANITIZE_THREAD__ /* which makes all of it slow, and has little to see here */
#define CUTS  40
#define FLIPS 40
#else
#define CUTS  150
#define FLIPS 400
#endif
#define STORM_ROWS 40

static int setup(void **state)
{
	struct fixture *fixture;
	uint64_t seed = 7, now_ns = fixture_now_ns;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, 77, 0);
	add_rollup(fixture->store, 1, FN_LAUNCH, OP_LAUNCH, 9, (struct core_rollup){ 0 });
	for (int i = 0; i < 3000; i++) {
		struct op op = fixture_launch(1, 1 + i % 3, now_ns - 3000000 + i * 1000, &seed);

		store_add_op(fixture->store, &op);
		if (i % 500 == 0)
			fixture_commit(fixture, now_ns);
	}
	fixture_commit(fixture, now_ns);
	fixture->store = store_free(fixture->store);
	return 0;
}

static void read_all(const char *path, uint8_t **ret, size_t *ret_size)
{
	FILE *file = fopen(path, "r");
	struct stat stat;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &stat), 0);
	*ret_size = (size_t)stat.st_size;
	*ret = malloc(*ret_size);
	assert_int_equal(fread(*ret, 1, *ret_size, file), *ret_size);
	fclose(file);
}

static void write_all(const char *path, const void *data, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

/* Nothing that is asked ends the program; what was said is at most a line or two of ours. */
static void storm(struct link *link)
{
	const struct query *query;

	for (size_t i = 0; (query = query_at(i)); i++) {
		Tracesmith__V1__QueryRequest request = QUERY(.name = (char *)query->name);

		if (query->options & QUERY_WINDOW)
			request.since_ns = 1;
		free(ask_query_of(link, &request));
		if (query->options & QUERY_BY_STACK) {
			request.by = QUERY_BY_IS_STACK;
			free(ask_query_of(link, &request));
		}
	}
	free(ask_sql(link, "SELECT * FROM op"));
	free(ask_sql(link, "SELECT * FROM frame, recording, chunk"));
}

static void expect_sentences(const char *said)
{
	for (const char *line = said; *line; line = strchr(line, '\n') + 1) {
		assert_memory_equal(line, "tsctl: ", 7);
		assert_non_null(strchr(line, '\n'));
	}
}

static int try_open(const char *path, struct link **ret)
{
	struct options options = { .file = path, .files = &file_serve };
	const char *said;
	int r;

	*ret = NULL;
	said_begin();
	r = link_open(&options, ret);
	said = said_end();
	expect_sentences(said);
	assert_true(r == 0 || *said);
	return r;
}

static void test_a_file_that_was_cut_off_is_never_called_whole(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(freep) uint8_t *data = NULL;
	struct link *link;
	struct made made;
	size_t size;

	made_of_store(&made, fixture, fixture_now_ns, true);
	read_all(made.path, &data, &size);
	for (size_t i = 0; i < CUTS; i++) {
		/* The last bytes and the first are the ones to look at. */
		size_t left = i < 50 ? size - 1 - i : i < 100 ? i - 50 : i * size / CUTS;

		write_all(made.path, data, left);
		if (try_open(made.path, &link) < 0) {
			assert_true(left < SBT_FILE_HEAD);
			continue;
		}
		assert_true(left >= SBT_FILE_HEAD);
		expect_sql(link, "SELECT 1", "\"loss\":{\"cut-off\":1}");
		expect_sql(link, "SELECT count(*) FROM op", "\"cut-off\":1");
		expect_sql(link, "SELECT value FROM recording WHERE key = 'file_state'", "cut off");
		link_free(link);
	}
}

static void test_what_is_whole_of_a_cut_off_file_is_used(void **state)
{
	struct fixture *fixture = *state;
	char expected[256];
	struct link *link;
	struct stat stat;
	struct made made;

	made_of_store(&made, fixture, fixture_now_ns, false);
	snprintf(expected, sizeof(expected),
		 "tsctl: '%s' has no end: its writer was stopped, or is still writing\n",
		 made.path);
	assert_int_equal(open_saying(made.path, expected, &link), 0);
	expect_sql(link, "SELECT count(*) AS n FROM op", "\"n\":3000}");
	link_free(link);
	assert_int_equal(lstat(made.path, &stat), 0);
	assert_int_equal(truncate(made.path, stat.st_size - 3), 0);
	assert_int_equal(try_open(made.path, &link), 0);
	expect_sql(link, "SELECT count(*) AS n FROM op", "\"n\":3000}");
	link_free(link);
}

static void test_a_byte_that_changed_is_noticed_or_of_no_matter(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(freep) uint8_t *data = NULL;
	uint64_t seed = 99;
	struct made made;
	size_t size;

	made_of_store(&made, fixture, fixture_now_ns, true);
	read_all(made.path, &data, &size);
	for (int i = 0; i < FLIPS; i++) {
		size_t at = i < 24 ? (size_t)i : fixture_random(&seed) % size;
		struct link *link;

		data[at] ^= 1 << i % 8;
		write_all(made.path, data, size);
		if (try_open(made.path, &link) == 0) {
			if (i % 8 == 0)
				storm(link);
			free(ask_sql(link, "SELECT count(*), sum(handle) FROM op"));
			link_free(link);
		}
		data[at] ^= 1 << i % 8;
	}
}

static void test_a_damaged_chunk_loses_only_itself(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(freep) uint8_t *data = NULL;
	struct made made;
	size_t size;
	char *text, expected[64];
	int lost;

	made_of_store(&made, fixture, fixture_now_ns, true);
	read_all(made.path, &data, &size);
	assert_int_equal(try_open(made.path, &link), 0);
	text = ask_sql(link, "SELECT offset FROM file_block ORDER BY id LIMIT 1 OFFSET 1");
	data[atoll(strstr(text, "\"offset\":") + 9) + 100] ^= 4;
	free(text);
	write_all(made.path, data, size);
	text = ask_sql(link, "SELECT ops AS n FROM file_block ORDER BY id LIMIT 1 OFFSET 1");
	lost = atoi(strstr(text, "\"n\":") + 4);
	free(text);
	assert_in_range(lost, 1, 2999);
	snprintf(expected, sizeof(expected), "\"loss\":{\"damaged\":%d}", lost);
	/* Read twice, it is lost once. */
	expect_sql(link, "SELECT sum(a.handle) FROM op a, op b WHERE b.start_ns < 1", expected);
	expect_sql(link, "SELECT 1", expected);
	expect_sql(link, "SELECT value FROM recording WHERE key = 'file_state'", "damaged");
	snprintf(expected, sizeof(expected), "\"n\":%d}", 3000 - lost);
	expect_sql(link, "SELECT count(handle) AS n FROM op", expected);
}

static void test_a_file_that_shrinks_while_it_is_read_ends_no_program(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(link_freep) struct link *link = NULL;
	struct made made;

	made_of_store(&made, fixture, fixture_now_ns, true);
	assert_int_equal(try_open(made.path, &link), 0);
	assert_int_equal(truncate(made.path, 100), 0);
	expect_sql(link, "SELECT sum(handle) FROM op", "The recording cannot be read: ");
	expect_sql(link, "SELECT pid FROM process", "\"pid\":77");
}

static void refuse_saying(const char *path, const char *expected)
{
	struct link *link;

	assert_true(open_saying(path, expected, &link) < 0);
}

/* `said` is a literal with a place for the path. */
#define refuse_file(path, said)                                                                    \
	do {                                                                                       \
		char expected_[512];                                                               \
                                                                                                   \
		snprintf(expected_, sizeof(expected_), said, path);                                \
		refuse_saying(path, expected_);                                                    \
	} while (0)

static void test_what_is_no_recording_is_said(void **state)
{
	struct fixture *fixture = *state;
	struct sbt_file_head head = { .version = SBT_FILE_VERSION + 1 };
	char path[128];

	snprintf(path, sizeof(path), "%s/x", fixture->directory);
	refuse_file(path, "tsctl: Cannot open '%s': No such file or directory\n");
	refuse_file(fixture->directory, "tsctl: '%s' is not a recording: it is a directory\n");
	refuse_file("/dev/null", "tsctl: '%s' is not a recording: it is not a regular file\n");
	write_all(path, "", 0);
	refuse_file(path,
		    "tsctl: '%s' is truncated within its first bytes: nothing can be read from"
		    " it\n");
	write_all(path, "SELECT 1; this is a text of some length, no recording\n", 54);
	refuse_file(path, "tsctl: '%s' is not an .sbt file\n");
	refuse_file(fixture->path, "tsctl: '%s' is not an .sbt file\n");
	memcpy(head.magic, SBT_FILE_MAGIC, SBT_MAGIC_SIZE);
	head.checksum = XXH3_64bits(&head, offsetof(struct sbt_file_head, checksum));
	write_all(path, &head, sizeof(head));
	refuse_file(path, "tsctl: '%s' has a newer format version: update tsctl\n");
}

static void test_every_remark_has_words_and_names_the_file(void **state)
{
	/* Neither is a pattern. */
	char path[] = "[x]{2}.sbt";
	struct file_remark remark = { .error = -EIO, .byte = 24, .name = "{1}" };

	(void)state;
	for (remark.reason = FILE_NO_MEMORY; remark.reason < FILE_REASON_COUNT; remark.reason++) {
		const char *said;

		said_begin();
		say_remark(path, &remark);
		said = said_end();
		if (remark.reason == FILE_NO_MEMORY)
			assert_string_equal(said, "tsctl: Not enough memory\n");
		else
			assert_non_null(strstr(said, path));
		assert_null(strstr(said, "more")); /* there are no others */
	}
	remark.reason = FILE_BAD_TEXT;
	said_begin();
	say_remark(path, &remark);
	assert_string_equal(said_end(),
			    "tsctl: '[x]{2}.sbt' is damaged at byte 24: '{1}' is text\n");
}

static void test_a_pipe_is_not_waited_for(void **state)
{
	struct fixture *fixture = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/pipe", fixture->directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	refuse_file(path, "tsctl: '%s' is not a recording: it is not a regular file\n");
}

static void test_unknown_tables_and_columns_are_left_out_and_said(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	char expected[256];
	struct made made;

	made_begin(&made, *state);
	made_row(&made, "boot", NAMES("id", "boot_id", "wall_offset_ns", "mood"), INTEGER(1),
		 TEXT(BOOT), INTEGER(0), TEXT("good"));
	made_row(&made, "weather", NAMES("rain"), INTEGER(1));
	made_row(&made, "weather", NAMES("rain"), INTEGER(2));
	made_row(&made, "chunk", NAMES("id"), INTEGER(1));
	made_row(&made, "sqlite_schema", NAMES("sql"), TEXT("x"));
	made_end(&made, true);
	snprintf(expected, sizeof(expected),
		 "tsctl: '%s' has 'boot.mood' and 3 more, which this tsctl does not know: update "
		 "tsctl\n",
		 made.path);
	assert_int_equal(open_saying(made.path, expected, &link), 0);
	expect_sql(link, "SELECT boot_id FROM boot", BOOT);
}

/* What follows from it in this version is in another column of the same number. */
static void test_columns_of_an_older_version_are_known(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct made made;

	made_begin(&made, *state);
	made_row(&made, "boot", NAMES("id", "boot_id", "wall_offset_ns"), INTEGER(1), TEXT(BOOT),
		 INTEGER(0));
	made_row(&made, "watch",
		 NAMES("boot", "second", "process", "part", "missed_missed", "missed_ms", "ms_ms"),
		 INTEGER(1), INTEGER(2), INTEGER(3), INTEGER(0), INTEGER(1600), INTEGER(7),
		 INTEGER(8));
	made_end(&made, true);
	assert_int_equal(open_saying(made.path, "", &link), 0);
	expect_sql(link, "SELECT error2 FROM watch", "1600");
}

#define expect_nonsense(fixture, what, table, names, ...)                                          \
	do {                                                                                       \
		char expected_[256];                                                               \
		struct link *link_;                                                                \
		struct made made_;                                                                 \
                                                                                                   \
		made_begin(&made_, fixture);                                                       \
		made_row(&made_, table, names, __VA_ARGS__);                                       \
		made_end(&made_, true);                                                            \
		snprintf(expected_, sizeof(expected_), "tsctl: '%s' is damaged at byte 24: %s\n",  \
			 made_.path, what);                                                        \
		assert_true(open_saying(made_.path, expected_, &link_) < 0);                       \
	} while (0)

static void test_rows_that_make_no_sense_are_said(void **state)
{
	expect_nonsense(*state, "'process.pid' is text", "process", NAMES("id", "boot", "pid"),
			INTEGER(1), INTEGER(1), TEXT("x"));
	expect_nonsense(*state, "'process.comm' is a number", "process",
			NAMES("id", "boot", "pid", "comm"), INTEGER(1), INTEGER(1), INTEGER(1),
			INTEGER(1));
	expect_nonsense(*state, "a row of 'process' is incomplete", "process", NAMES("id", "boot"),
			INTEGER(1), INTEGER(1));
	expect_nonsense(*state, "a row of 'recording' is incomplete", "recording", NAMES("value"),
			INTEGER(1));
}

static struct sbt_value odd_value(const char *type, uint64_t *seed)
{
	static const int64_t odd[] = {
		INT64_MIN, INT64_MAX, -1, 0, 1, 2, 3, 1000000000, UINT32_MAX, INT64_MAX / 2,
	};
	static const char *const texts[] = {
		"", "\033[31mred", "kernel", "\xf0\x9f\x92\xa9", "a\nb\tc", "state", "%s%n",
	};

	if (fixture_random(seed) % 8 == 0)
		return NOTHING;
	if (!strcmp(type, "TEXT")) {
		const char *text = texts[fixture_random(seed) % (ARRAY_SIZE(texts))];

		return TEXT(text);
	}
	return INTEGER(odd[fixture_random(seed) % (ARRAY_SIZE(odd))]);
}

/* Rows of odd values in all columns of a table; those that must have a value have one. */
static void add_odd_rows(struct made *made, sqlite3 *db, const char *table, uint64_t *seed)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	struct sbt_value value[SBT_ROW_COLUMNS_MAX];
	const char *names[SBT_ROW_COLUMNS_MAX], *type;
	int count, filled, key;
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
	assert_int_equal(sql_prepare(db, sql, &stmt), 0);
	count = sqlite3_column_count(stmt);
	for (int i = 0; i < count; i++)
		names[i] = sqlite3_column_name(stmt, i);
	assert_int_equal(sbt_rows_begin(made->rows, table, names, (size_t)count), 0);
	for (int row = 0; row < STORM_ROWS; row++) {
		for (int i = 0; i < count; i++) {
			sqlite3_table_column_metadata(db, NULL, table, names[i], &type, NULL,
						      &filled, &key, NULL);
			do
				value[i] = odd_value(type, seed);
			while ((filled || key) && value[i].type == SBT_NULL);
			/* Else nothing would belong to the boot that is asked. */
			if (!strcmp(names[i], "boot") || !strcmp(names[i], "process") ||
			    !strcmp(names[i], "second"))
				value[i] = INTEGER(1 + row % 3);
		}
		assert_int_equal(sbt_rows_add(made->rows, value), 0);
	}
	made_block(made);
}

static void test_values_may_be_anything(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	uint64_t seed = 5;

	assert_int_equal(store_reader_open(fixture->path, 0, &db), 0);
	for (int i = 0; i < 12; i++) {
		struct link *link;
		struct made made;

		made_begin(&made, fixture);
		made_chunks(&made, db);
		for (size_t k = 0; k < ARRAY_SIZE(made_tables); k++) {
			if (k % 4 == (size_t)i % 4 || (i % 3 && strstr(made_tables[k], "kind")))
				made_table(&made, db, made_tables[k]);
			else
				add_odd_rows(&made, db, made_tables[k], &seed);
		}
		made_row(&made, "boot", NAMES("id", "boot_id", "wall_offset_ns"), INTEGER(1),
			 TEXT(BOOT), odd_value("", &seed).type ? INTEGER(INT64_MAX) : INTEGER(0));
		made_fact(&made, "boot_id", i % 3 ? TEXT(BOOT) : odd_value("TEXT", &seed));
		made_fact(&made, "until_ns", odd_value(i % 2 ? "TEXT" : "INTEGER", &seed));
		made_fact(&made, "since_ns", odd_value("INTEGER", &seed));
		made_fact(&made, "told_ns", odd_value("INTEGER", &seed));
		made_fact(&made, "wall_offset_ns", odd_value("INTEGER", &seed));
		made_end(&made, i % 2);
		if (try_open(made.path, &link) < 0)
			continue;
		storm(link);
		link_free(link);
	}
}

#define expect_query(link, query, part)                                                            \
	do {                                                                                       \
		Tracesmith__V1__QueryRequest request_ = QUERY(.name = (char *)(query));            \
		_cleanup_(freep) char *text_ = ask_query_of(link, &request_);                      \
                                                                                                   \
		if (!strstr(text_, part))                                                          \
			fail_msg("'%s' is not in the answer to %s: %s", part, query, text_);       \
	} while (0)

/* Two rows, each as large as a number can be. */
static void test_sums_that_are_too_large_are_said(void **state)
{
	static const char *const said = "The recording has impossibly large values";
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(sqlite3_closep) sqlite3 *db = NULL;
	struct fixture *fixture = *state;
	struct made made;

	assert_int_equal(store_reader_open(fixture->path, 0, &db), 0);
	made_begin(&made, fixture);
	made_fact(&made, "boot_id", TEXT(BOOT));
	made_fact(&made, "until_ns", INTEGER(fixture_now_ns));
	for (size_t i = 0; i < ARRAY_SIZE(made_tables); i++)
		if (strcmp(made_tables[i], "rollup") && strcmp(made_tables[i], "work"))
			made_table(&made, db, made_tables[i]);
	for (int i = 0; i < 2; i++) {
		made_row(&made, "rollup",
			 NAMES("boot", "second", "process", "kind", "fn", "calls", "detail",
			       "device", "stream", "result", "stack", "freed"),
			 INTEGER(1), INTEGER(fixture_second()), INTEGER(1), INTEGER(OP_LAUNCH),
			 INTEGER(FN_LAUNCH), INTEGER(INT64_MAX), INTEGER(0), INTEGER(0), INTEGER(i),
			 INTEGER(0), INTEGER(0), INTEGER(0));
		made_row(&made, "work",
			 NAMES("boot", "second", "process", "device", "stream", "kind", "detail",
			       "name", "graph", "stack", "bucket", "count", "total_ns", "min_ns",
			       "max_ns", "bytes", "delay_ns"),
			 INTEGER(1), INTEGER(fixture_second()), INTEGER(1), INTEGER(0), INTEGER(i),
			 INTEGER(OP_KERNEL), INTEGER(0), INTEGER(1), INTEGER(0), INTEGER(0),
			 INTEGER(50 + i), INTEGER(INT64_MAX), INTEGER(INT64_MAX), INTEGER(1),
			 INTEGER(1), INTEGER(0), INTEGER(0));
	}
	made_end(&made, true);
	assert_int_equal(try_open(made.path, &link), 0);
	expect_query(link, "processes", said);
	expect_query(link, "kernels", said);
	/* Who wrote the sum is told what SQLite says of it. */
	expect_sql(link, "SELECT sum(calls) FROM rollup", "The statement failed: integer overflow");
	expect_sql(link, "SELECT count(*) AS n FROM rollup", "\"n\":2}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file_that_was_cut_off_is_never_called_whole),
		cmocka_unit_test(test_what_is_whole_of_a_cut_off_file_is_used),
		cmocka_unit_test(test_a_byte_that_changed_is_noticed_or_of_no_matter),
		cmocka_unit_test(test_a_damaged_chunk_loses_only_itself),
		cmocka_unit_test(test_a_file_that_shrinks_while_it_is_read_ends_no_program),
		cmocka_unit_test(test_what_is_no_recording_is_said),
		cmocka_unit_test(test_every_remark_has_words_and_names_the_file),
		cmocka_unit_test(test_a_pipe_is_not_waited_for),
		cmocka_unit_test(test_unknown_tables_and_columns_are_left_out_and_said),
		cmocka_unit_test(test_columns_of_an_older_version_are_known),
		cmocka_unit_test(test_rows_that_make_no_sense_are_said),
		cmocka_unit_test(test_sums_that_are_too_large_are_said),
		cmocka_unit_test(test_values_may_be_anything),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
