/* Damaged pages of the store: answers do without them and say so, the writer goes on, and what
 * nothing works without is kept aside. */
#include <fcntl.h>
#include <sys/stat.h>

#include "core/store/page_sum.h"
#include "tests/unit/query_fixture.h"

#define PAGE	   4096
#define PROCESSES  3
#define ROWS	   (PROCESSES * 200) /* of sums, in some four pages */
#define CALLS	   (PROCESSES * 200 * 201 / 2)
#define ADDED	   40
#define ADDED_FROM 300 /* seconds */
#define SUMS_ROOT  "SELECT rootpage FROM sqlite_schema WHERE name = 'rollup'"

static const char *const sum_of_calls = "SELECT sum(calls) AS n FROM rollup";

static void fill(struct store *store)
{
	const struct frame frame = FRAME(0x10, 0x10, "/opt/app", "forward");

	for (uint32_t process = 1; process <= PROCESSES; process++) {
		add_process(store, process, 4000 + process, 0);
		store_add_stack(store, &(struct store_stack){ process, process, &frame, 1, 0, 0 });
		for (uint64_t s = 0; s < 200; s++)
			add_rollup(store, process, FN_LAUNCH, OP_LAUNCH, s + 1,
				   (struct core_rollup){ .second = fixture_second() + s / 4,
							 .stream = s % 4 + 1 });
		for (uint64_t i = 0; i < 60; i++)
			add_allocation(store, process * 100 + i, process, 64, process,
				       MEMORY_DEVICE, fixture_second() * SECOND_NS);
	}
}

/* What a daemon does next. The times are after those of all pages of sums, and before. */
static void go_on(struct fixture *f)
{
	for (uint32_t turn = 0; turn < 2; turn++) {
		add_process(f->store, PROCESSES + 1 + turn, 5000, 0);
		for (uint64_t i = 0; i < ADDED; i++)
			add_rollup(f->store, 2, FN_LAUNCH, OP_LAUNCH, 1,
				   (struct core_rollup){ .second = fixture_second() +
								   turn * ADDED_FROM + i,
							 .stream = 9 });
		assert_int_equal(fixture_commit(f, fixture_now_ns + turn * SECOND_NS).last_error,
				 0);
	}
}

/* The number in an answer of one row; UINT64_MAX: it is refused. */
static uint64_t ask_number(const struct fixture *f, const char *sql, bool *ret_told)
{
	struct answer_text answer = { 0 };
	const char *number;
	uint64_t value = UINT64_MAX;

	run_sql_text(f, sql, 0, 0, &answer);
	number = strstr(answer.text, "\"n\":");
	if (!answer.error && number)
		value = strtoull(number + strlen("\"n\":"), NULL, 10);
	*ret_told = strstr(answer.text, "\"damaged\":") != NULL;
	answer_text_done(&answer);
	return value;
}

static uint8_t *whole; /* the file before it is damaged */
static off_t size;

static void put_back(const struct fixture *f)
{
	char log[128];
	FILE *file = fopen(f->path, "w");

	snprintf(log, sizeof(log), "%s-wal", f->path);
	unlink(log);
	assert_int_equal(fwrite(whole, 1, (size_t)size, file), size);
	assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
	struct fixture *f;
	struct stat st;
	FILE *file;

	fixture_setup(state);
	f = *state;
	assert_int_equal(fixture_open(f), 0);
	fill(f->store);
	fixture_commit(f, fixture_now_ns);
	f->store = store_free(f->store);
	assert_int_equal(stat(f->path, &st), 0);
	size = st.st_size;
	whole = malloc((size_t)size);
	file = fopen(f->path, "r");
	assert_int_equal(fread(whole, 1, (size_t)size, file), size);
	fclose(file);
	return 0;
}

static int teardown(void **state)
{
	free(whole);
	return fixture_teardown(state);
}

/* A flipped bit in its head or its middle, or nothing left of it. */
static void damage(const struct fixture *f, uint32_t page, int how)
{
	const size_t at = (size_t)(page - 1) * PAGE, bit = how == 0 && page > 1 ? 5 : 2001;
	uint8_t bytes[PAGE] = { 0 };
	int fd = open(f->path, O_WRONLY);

	if (how < 2) {
		memcpy(bytes, whole + at, PAGE);
		bytes[bit] ^= 2;
	}
	assert_int_equal(pwrite(fd, bytes, PAGE, (off_t)at), PAGE);
	close(fd);
}

static uint32_t pages(void)
{
	return (uint32_t)(size / PAGE);
}

/* Pages of sums that are below the first one: without one of them, some of the sums are missing. */
static size_t find_leaves(const struct fixture *f, uint32_t *leaf, size_t room)
{
	size_t count = 0;
	bool told;

	for (uint32_t page = 1; page <= pages(); page++) {
		uint64_t calls;

		damage(f, page, 1);
		calls = ask_number(f, sum_of_calls, &told);
		assert_true(calls == UINT64_MAX || calls == CALLS || (told && calls < CALLS));
		if (calls < CALLS && count < room)
			leaf[count++] = page;
		put_back(f);
	}
	assert_in_range(count, 3, 20);
	return count;
}

static void a_page_of_sums_loses_only_itself(void **state)
{
	uint32_t leaf[20];
	uint64_t calls, lost = 0;
	size_t count = find_leaves(*state, leaf, ARRAY_SIZE(leaf));
	struct answer_text answer = { 0 };
	bool told;

	for (size_t i = 0; i < count; i++) {
		damage(*state, leaf[i], (int)i % 3);
		calls = ask_number(*state, sum_of_calls, &told);
		assert_true(told && calls < CALLS);
		lost += CALLS - calls;
		run_named(*state, &QUERY(.name = (char *)"apis"), &answer);
		assert_int_equal(answer.error, 0);
		assert_non_null(strstr(answer.text, "\"damaged\":1"));
		answer_text_done(&answer);
		put_back(*state);
	}
	/* Beside what is on it, one row above it. */
	assert_in_range(lost, CALLS - 100, CALLS + count * 200);
	/* All but two: that is as few as a page above them can have. */
	for (size_t i = 2; i < count; i++)
		damage(*state, leaf[i], (int)i % 3);
	calls = ask_number(*state, sum_of_calls, &told);
	assert_true(told && calls > 0 && calls < CALLS);
}

/* Most rows have been sent when the page is met. */
static void an_answer_goes_on_where_it_was(void **state)
{
	static const char *const rows = "SELECT second, process, stream, calls FROM rollup";
	uint32_t leaf[20];
	size_t count = find_leaves(*state, leaf, ARRAY_SIZE(leaf));
	struct answer_text right = { 0 }, answer = { 0 };
	bool told;

	run_sql_text(*state, rows, 0, 0, &right);
	for (size_t i = 0; i < count; i++) {
		char *line, *rest;

		damage(*state, leaf[i], 1);
		run_sql_text(*state, rows, 0, 0, &answer);
		assert_int_equal(answer.error, 0);
		assert_int_equal(answer.rows,
				 ask_number(*state, "SELECT count(*) AS n FROM rollup", &told));
		assert_in_range(answer.rows, 1, ROWS - 1);
		/* Each once, in order. */
		rest = right.text;
		for (line = strtok(answer.text, "\n"); line; line = strtok(NULL, "\n"))
			if (strstr(line, "second")) {
				char *end = strchr(line, '}');

				end[1] = '\0';
				rest = strstr(rest, line);
				assert_non_null(rest);
				rest++;
			}
		answer_text_done(&answer);
		put_back(*state);
	}
	answer_text_done(&right);
}

/* The pages above the damaged one are read from the log. */
static void a_page_is_left_out_of_the_log_too(void **state)
{
	struct fixture *f = *state;
	uint32_t leaf[20], lost = 0;
	size_t count = find_leaves(f, leaf, ARRAY_SIZE(leaf));
	sqlite3 *db;
	bool told;

	assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE, page_sum_vfs()),
			 SQLITE_OK);
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	assert_int_equal(sqlite3_exec(db,
				      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM"
				      " n LIMIT 400) INSERT INTO rollup SELECT boot, 1000000 + i,"
				      " process, kind, fn, detail, device, stream, result, stack,"
				      " freed, 0, timed, total_ns, min_ns, max_ns, bytes, captured"
				      " FROM n, (SELECT * FROM rollup LIMIT 1)",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(ask_number(f, sum_of_calls, &told), CALLS);
	for (size_t i = 0; i < count; i++) {
		uint64_t calls;

		damage(f, leaf[i], 1);
		calls = ask_number(f, sum_of_calls, &told);
		assert_true(calls == CALLS || (told && calls < CALLS));
		lost += calls < CALLS; /* the last one is in the log itself */
	}
	assert_in_range(lost, 2, count);
}

/* Whatever page it is: a daemon starts and writes, or says that it cannot. */
static void a_daemon_goes_on(void **state)
{
	struct fixture *f = *state;
	uint32_t refused = 0, partial = 0;
	int64_t root = fixture_ask(f, SUMS_ROOT);

	for (uint32_t page = 1; page <= pages(); page++) {
		uint64_t calls;
		bool told;
		int r;

		damage(f, page, (int)page % 3);
		r = fixture_open(f);
		if (r < 0) {
			assert_int_equal(r, -EBADMSG);
			refused++;
			put_back(f);
			continue;
		}
		go_on(f);
		f->store = store_free(f->store);
		assert_int_not_equal(ask_number(f, "SELECT count(*) AS n FROM loss", &told),
				     UINT64_MAX);
		assert_int_equal(ask_number(f, "SELECT count(*) AS n FROM process", &told),
				 PROCESSES + 2);
		calls = ask_number(f, sum_of_calls, &told);
		if (page == root)
			assert_int_equal(calls, 2 * ADDED);
		assert_true(calls == CALLS + 2 * ADDED || told);
		partial += calls > CALLS / 2 && calls < CALLS;
		put_back(f);
	}
	/* The schema's pages, and those of the tables without which nothing has a meaning. */
	assert_in_range(refused, 4, 8);
	assert_in_range(partial, 2, 20);
}

static void what_is_old_goes_despite_a_damaged_page(void **state)
{
	struct fixture *f = *state;
	uint32_t leaf[20];
	size_t count = find_leaves(f, leaf, ARRAY_SIZE(leaf));
	bool told;

	for (size_t i = 0; i < count; i += 2)
		damage(f, leaf[i], 1);
	f->config.keep_ns = 10 * SECOND_NS;
	f->config.keep_bytes = (uint64_t)size - 3 * PAGE; /* the last page is to move */
	assert_int_equal(fixture_open(f), 0);
	for (uint64_t i = 1; i < 200 && ask_number(f, "SELECT count(*) AS n FROM rollup", &told);
	     i++)
		assert_int_equal(fixture_commit(f, fixture_now_ns + i * 100 * SECOND_NS).last_error,
				 0);
	assert_int_equal(ask_number(f, "SELECT count(*) AS n FROM rollup", &told), 0);
}

static void what_cannot_be_used_is_kept_aside(void **state)
{
	struct fixture *f = *state;
	char aside[160], log[160];
	struct stat st;
	bool told;
	FILE *file;

	snprintf(aside, sizeof(aside), "%s.damaged", f->path);
	snprintf(log, sizeof(log), "%s-wal", f->path);
	damage(f, 1, 1);
	assert_int_equal(fixture_open(f), -EBADMSG);
	fclose(fopen(log, "w"));
	assert_int_equal(store_set_aside(f->path), 0);
	assert_int_equal(stat(aside, &st), 0);
	assert_int_equal(st.st_size, size);
	assert_int_not_equal(access(log, F_OK), 0);
	assert_int_equal(fixture_open(f), 0);
	go_on(f);
	f->store = store_free(f->store);
	assert_int_equal(ask_number(f, sum_of_calls, &told), 2 * ADDED);
	/* What may be anybody's stays where it is. */
	file = fopen(f->path, "w");
	fputs("SQLite format 3, but not quite: this is a text of somebody's", file);
	fclose(file);
	assert_int_equal(store_set_aside(f->path), -EBADMSG);
	assert_int_equal(access(f->path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_page_of_sums_loses_only_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(an_answer_goes_on_where_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(a_page_is_left_out_of_the_log_too, setup, teardown),
		cmocka_unit_test_setup_teardown(a_daemon_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_old_goes_despite_a_damaged_page, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_used_is_kept_aside, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
