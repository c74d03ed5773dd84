/* Checksums of the store: whatever bit of the database flips, an answer is the right one, or tells
 * the loss, or is an error that says so. */
#include <endian.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/limits.h"
#include "core/store/page_sum.h"
#include "core/store/schema.h"
#include "tests/unit/query_fixture.h"

#define OPS	  40000
#define PROCESSES 8
#ifdef __SANITIZE_THREAD__ /* which is slow, and the threads are the same whatever bit it is */
#define FLIPS 60
#else
#define FLIPS 160
#endif
#define TURNS	      10 /* of 200 s each */
#define ANSWERS_MAX   16

#define PAGE_COUNT_AT 28 /* in SQLite's header */

/* Chunks of ops, sums, names and stacks: a few hundred pages. */
static void fill(struct store *store)
{
	const struct frame frame = FRAME(0x10, 0x10, "/opt/app", "forward");
	uint64_t seed = 7;

	for (uint32_t process = 1; process <= PROCESSES; process++) {
		add_process(store, process, 4000 + process, 0);
		store_add_stack(store, &(struct store_stack){ process, process, &frame, 1, 0, 0 });
		for (uint64_t s = 0; s < 60; s++)
			add_rollup(store, process, FN_LAUNCH, OP_LAUNCH, s + 1,
				   (struct core_rollup){ .second = fixture_second() + s,
							 .stack_id = process });
		for (uint64_t i = 0; i < 50; i++)
			add_allocation(store, process * 100 + i, process, 64, process,
				       MEMORY_DEVICE, fixture_second() * SECOND_NS);
	}
	for (uint64_t i = 0; i < OPS; i++)
		store_add_op(store, &(struct op){
					    .start_ns = fixture_second() * SECOND_NS + i * 1000,
					    .end_ns = fixture_second() * SECOND_NS + i * 1000 + 500,
					    .process = 1 + i % PROCESSES,
					    .stream = 1 + i % PROCESSES,
					    .kind = OP_LAUNCH,
					    .fn = FN_LAUNCH,
					    .bytes = fixture_random(&seed),
				    });
}

static const char *const statements[] = {
	"SELECT sum(bytes % 1000003), count(*) n FROM op",
	"SELECT count(*), sum(calls * second), sum(stack) FROM rollup",
	"SELECT count(*), sum(start_ns % 1000003) n FROM op WHERE process = 3",
	"SELECT count(*), sum(address + bytes), min(process) FROM allocation",
	"SELECT group_concat(comm || pid) FROM process",
	"SELECT group_concat(symbol) FROM frame",
	"SELECT count(*) FROM chunk WHERE process = 5 AND kind > 0",
	"SELECT count(*) FROM rollup WHERE boot = 1 AND process = 2",
};

static void ask_all(const struct fixture *fixture, struct answer_text *answer)
{
	static const char *const names[] = { "apis", "launches", "leaks", "ps" };
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
		run_sql_text(fixture, statements[i], 0, 0, &answer[count++]);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		run_named(fixture, &QUERY(.name = (char *)names[i]), &answer[count++]);
	assert_true(count <= ANSWERS_MAX);
}

static void flip(const char *path, off_t at, int bit)
{
	int fd = open(path, O_RDWR);
	unsigned char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= (unsigned char)(1 << bit);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

struct story {
	struct fixture *fixture;
	off_t size;
};

static void make(struct fixture *fixture, struct story *story)
{
	struct stat st;

	assert_int_equal(fixture_open(fixture), 0);
	fill(fixture->store);
	fixture_commit(fixture, fixture_now_ns);
	fixture->store = store_free(fixture->store);
	assert_int_equal(stat(fixture->path, &st), 0);
	*story = (struct story){ fixture, st.st_size };
}

static void no_flipped_bit_is_silently_wrong(void **state)
{
	struct answer_text right[ANSWERS_MAX] = { 0 }, now[ANSWERS_MAX] = { 0 };
	int same = 0, told = 0, refused = 0;
	struct story story;
	uint64_t seed = 4711;

	make(*state, &story);
	ask_all(story.fixture, right);
	for (int i = 0; i < FLIPS; i++) {
		off_t at = (off_t)(fixture_random(&seed) % (uint64_t)story.size);
		int bit = (int)(fixture_random(&seed) % 8);

		/* The header, and then all over. */
		at = i < 40 ? i * 5 / 2 : at;
		flip(story.fixture->path, at, bit);
		ask_all(story.fixture, now);
		for (size_t k = 0; k < ANSWERS_MAX && right[k].text; k++) {
			if (now[k].error)
				refused++;
			else if (strstr(now[k].text, "\"damaged\""))
				told++;
			else if (++same && strcmp(now[k].text, right[k].text))
				fail_msg("bit %d of byte %ld:\n%s%s", bit, (long)at, now[k].text,
					 right[k].text);
			answer_text_done(&now[k]);
		}
		flip(story.fixture->path, at, bit);
	}
	assert_true(same > 0 && told > 0 && refused > 0);
	for (size_t k = 0; k < ANSWERS_MAX && right[k].text; k++)
		answer_text_done(&right[k]);
}

static int64_t integer(const char *path, const char *vfs, const char *sql)
{
	sqlite3 *db = NULL;
	int64_t value;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, vfs), SQLITE_OK);
	value = ask(db, sql);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	return value;
}

/* How many pages have a checksum. */
static int summed_pages(const struct story *story)
{
	int fd = open(story->fixture->path, O_RDONLY), count = 0;
	uint64_t sum;

	for (off_t at = 4096; at <= story->size; at += 4096) {
		assert_int_equal(pread(fd, &sum, sizeof(sum), at - 8), sizeof(sum));
		count += sum != 0;
	}
	close(fd);
	return count;
}

static void pages_that_others_take_from_the_log_are_believed(void **state)
{
	struct fixture *f = *state;
	struct story story;
	char log[128];
	sqlite3 *db;
	int before;

	make(f, &story);
	before = summed_pages(&story);
	assert_int_equal(before, story.size / 4096);
	/* As if killed: the log stays, and another program moves it to the file. */
	snprintf(log, sizeof(log), "%s-wal", f->path);
	assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE, page_sum_vfs()),
			 SQLITE_OK);
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	assert_int_equal(sqlite3_exec(db, "UPDATE rollup SET calls = 1", NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(access(log, F_OK), 0);
	assert_true(integer(f->path, NULL, "SELECT sum(calls) FROM rollup") > 0);
	assert_int_not_equal(access(log, F_OK), 0);
	assert_in_range(summed_pages(&story), 1, before - 1);
	assert_int_equal(fixture_ask(f, "SELECT sum(calls) FROM rollup"), PROCESSES * 60);
}

/* Whether the database says then that a page of all time so far was damaged. */
static bool commit_and_look(struct fixture *f, uint64_t after_s)
{
	fixture_commit(f, fixture_now_ns + after_s * SECOND_NS);
	return fixture_ask(f, "SELECT count(*) FROM loss WHERE reason = 31 AND start_ns = 0"
			      " AND count > 0");
}

static void put_back(const struct story *story, const char *bytes)
{
	char log[128];
	int fd = open(story->fixture->path, O_WRONLY | O_TRUNC);

	assert_int_equal(write(fd, bytes, (size_t)story->size), story->size);
	close(fd);
	snprintf(log, sizeof(log), "%s-wal", story->fixture->path);
	unlink(log);
	snprintf(log, sizeof(log), "%s-shm", story->fixture->path);
	unlink(log);
}

static char *take(const struct story *story)
{
	char *bytes = malloc((size_t)story->size);
	int fd = open(story->fixture->path, O_RDONLY);

	assert_int_equal(read(fd, bytes, (size_t)story->size), story->size);
	close(fd);
	return bytes;
}

/* Upkeep meets the damage: it makes minutes of seconds, passes on the totals of who has ended, and
 * merges. */
static void no_flipped_bit_stops_the_writer(void **state)
{
	struct fixture *f = *state;
	int written = 0, refused = 0;
	struct story story;
	uint64_t seed = 11;
	char *bytes;

	make(f, &story);
	bytes = take(&story);
	for (int i = 0; i < FLIPS; i++) {
		off_t at = (off_t)(fixture_random(&seed) % (uint64_t)story.size);
		bool last = false;

		put_back(&story, bytes);
		flip(f->path, at, i % 8);
		if (fixture_open(f) < 0) {
			refused++;
			continue;
		}
		for (uint64_t k = 1; k <= TURNS; k++) {
			add_rollup(f->store, 99, FN_LAUNCH, OP_LAUNCH, 1,
				   (struct core_rollup){ .second = fixture_second() + 200 * k });
			fixture_commit(f, fixture_now_ns + 200 * k * SECOND_NS);
		}
		last = fixture_ask(f,
				   "SELECT count(*) FROM rollup WHERE process = 99 AND second > "
				   "(SELECT max(second) FROM rollup WHERE process < 9) + 1500") > 0;
		f->store = store_free(f->store);
		if (!last)
			fail_msg("bit %d of byte %ld (page %ld) stops it", i % 8, (long)at,
				 (long)(at / 4096 + 1));
		written++;
	}
	free(bytes);
	assert_true(written > 10 * refused);
}

/* The pages are of chunks, whose deletion needs all but their last ones. */
static void a_damaged_page_stops_no_retention(void **state)
{
	struct fixture *f = *state;
	struct story story;
	struct answer_text answer = { 0 };
	bool of_chunk, told = false;
	int found = 0;

	make(f, &story);
	for (off_t at = 20 * 4096 + 2000; found < 8 && at < story.size; at += 4096) {
		flip(f->path, at, 1);
		run_sql_text(f, "SELECT sum(bytes % 7) FROM op", 0, 0, &answer);
		of_chunk = !answer.error && strstr(answer.text, "\"damaged\"");
		found += of_chunk;
		if (!of_chunk)
			flip(f->path, at, 1);
		answer_text_done(&answer);
	}
	assert_int_equal(found, 8);
	f->config.keep_ns = 10 * SECOND_NS;
	assert_int_equal(fixture_open(f), 0);
	for (int i = 1; i < 1000 && fixture_ask(f, "SELECT count(*) FROM chunk"); i++)
		told |= commit_and_look(f, (uint64_t)i * 100);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM chunk"), 0);
	/* Told with the commit after it was found, and old with the next but one. */
	told |= commit_and_look(f, 200000);
	told |= commit_and_look(f, 200001);
	assert_true(told);
}

static void a_former_database_gets_its_checksums(void **state)
{
	struct fixture *f = *state;
	struct store_stats stats;
	sqlite3 *old;

	assert_int_equal(sqlite3_open(f->path, &old), SQLITE_OK);
	assert_int_equal(schema_make_version(old, 10), 0);
	assert_int_equal(sqlite3_exec(old,
				      "PRAGMA journal_mode = WAL;"
				      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM"
				      " n LIMIT 100) INSERT INTO name SELECT i,"
				      " hex(randomblob(500)), '', 1, 1 FROM n",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(old);
	assert_int_equal(fixture_open(f), 0);
	store_stats(f->store, &stats);
	assert_true(stats.summed);
	f->store = store_free(f->store);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM name"), 100);
	assert_int_equal(sqlite3_open_v2(f->path, &old, SQLITE_OPEN_READONLY, page_sum_vfs()),
			 SQLITE_OK);
	assert_int_equal(page_sum_is_reserved(old), 1);
	sqlite3_close(old);
}

/* A former one of more than 2 GiB, most of which is a hole. */
static void a_large_former_database_stays_without_and_says_so(void **state)
{
	const uint32_t pages = LIMIT_STORE_REWRITTEN_PAGES + 1, told = htobe32(pages);
	struct fixture *f = *state;
	struct store_stats stats;
	sqlite3 *old;
	int fd;

	assert_int_equal(sqlite3_open(f->path, &old), SQLITE_OK);
	assert_int_equal(schema_make_version(old, 10), 0);
	sqlite3_close(old);
	fd = open(f->path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, &told, sizeof(told), PAGE_COUNT_AT), sizeof(told));
	assert_int_equal(ftruncate(fd, (off_t)pages * 4096), 0);
	close(fd);
	assert_int_equal(fixture_open(f), 0);
	store_stats(f->store, &stats);
	assert_false(stats.summed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_flipped_bit_is_silently_wrong, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(pages_that_others_take_from_the_log_are_believed,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(no_flipped_bit_stops_the_writer, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_damaged_page_stops_no_retention, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_former_database_gets_its_checksums, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(a_large_former_database_stays_without_and_says_so,
						fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
