/* Parcels have what the settings want of a minute, and are the same until they have arrived. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <zlib.h>

#include "client/ship/parcel.h"
#include "client/ship/tables.h"
#include "core/base/array.h"
#include "core/base/time.h"
#include "tests/unit/ship_daemon.h"
#include "tests/unit/ship_fixture.h"

/* A daemon whose answer to every query is two rows of as many values as are wanted. */
struct daemon {
	int fd;
	size_t queries;	   /* that were asked */
	size_t gone_after; /* then it is gone; 0: never */
};

static size_t values_of(const struct table *table)
{
	return tables_columns(table) - (table->flags & TABLE_IDENTITY ? 6 : 0) +
	       (table->flags & TABLE_ONCE ? 1 : 0);
}

/* Both rows are the same, but for their processes where those are given. */
static int64_t process[2];
static size_t jobs_known; /* how many of them have a known job: the first, "train-1" */

static void answer_table(int fd, uint64_t id, const struct table *table)
{
	Tracesmith__V1__Value value[TABLES_COLUMNS_MAX];

	for (size_t row = 0; row < 2; row++) {
		for (size_t i = 0; i < values_of(table); i++) {
			const char *name = table->column[i].name;

			if (name && table->column[i].type >= ROWBINARY_TEXT)
				value[i] = text_value("text");
			else if (name && strcmp(name, "process") == 0 && process[row])
				value[i] = integer_value(process[row]);
			else
				value[i] = integer_value((int64_t)i);
		}
		reply_row(fd, id, value, values_of(table));
	}
}

static void answer_jobs(int fd, uint64_t id)
{
	for (size_t row = 0; row < jobs_known; row++) {
		Tracesmith__V1__Value value[] = {
			integer_value(process[row]),
			text_value("/user.slice"),
			text_value(row ? "RANK=1" : "SLURM_JOB_ID=train-1"),
		};

		reply_row(fd, id, value, ARRAY_SIZE(value));
	}
}

static const struct table *table_of(const char *query)
{
	size_t i = 0;

	while (i < tables_count && (!tables[i].query || strcmp(tables[i].query, query) != 0))
		i++;
	assert_true(i < tables_count);
	return &tables[i];
}

static bool answer(void *data, const Tracesmith__V1__Request *request)
{
	struct daemon *daemon = data;

	if (strcmp(request->query->name, "ship-job") == 0)
		answer_jobs(daemon->fd, request->id);
	else
		answer_table(daemon->fd, request->id, table_of(request->query->name));
	reply_done(daemon->fd, request->id);
	return ++daemon->queries != daemon->gone_after;
}

static void *run_daemon(void *data)
{
	struct daemon *daemon = data;

	serve(daemon->fd, answer, daemon);
	return NULL;
}

static const struct settings settings = { .host = (char *)"host",
					  .compression = COMPRESSION_GZIP,
					  .jobs = (char *)"*" };
static const struct parcel_plan plan = {
	.settings = &settings,
	.about = { .boot = 1, .minute = 2, .after = 1 },
	.now_ns = 200,
	.boot_id = "73196879-ccfa-408f-baae-372fa090c46e",
	.wall_offset_ns = 1000000000,
	.told_ns = 300,
	.lost_from = 60,
	.lost_to = 90,
	.lost_s = 30,
	.version = "1",
	.machine = "machine",
	.clock_known = true,
	.clock_server = "server",
	.kernel = "6.1",
	.driver = "",
};

/* Of operations, if `ret` is given. */
static int make_of(const struct parcel_plan *of, size_t gone_after, struct parcel **ret)
{
	struct daemon daemon = { .gone_after = gone_after };
	struct source source = { .open = true };
	pthread_t thread;
	int pair[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	daemon.fd = pair[1];
	connection_init(&source.connection, pair[0]);
	assert_int_equal(pthread_create(&thread, NULL, run_daemon, &daemon), 0);
	r = ret ? parcel_make_unnamed(-1, &source, of, ret) : parcel_make(folder, &source, of);
	source_close(&source);
	pthread_join(thread, NULL);
	return r;
}

static int make(size_t gone_after)
{
	return make_of(&plan, gone_after, NULL);
}

static size_t unzip(const uint8_t *data, size_t size, uint8_t *ret, size_t room)
{
	z_stream stream = { .next_in = (Bytef *)data,
			    .avail_in = (uInt)size,
			    .next_out = ret,
			    .avail_out = (uInt)room };

	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	inflateEnd(&stream);
	return room - stream.avail_out;
}

static void expect_lost(struct reader *reader)
{
	expect_text(reader, "host");
	expect_text(reader, "73196879-ccfa-408f-baae-372fa090c46e");
	assert_int_equal(read_number(reader, 8), 300);
	assert_int_equal(read_number(reader, 8), 0);  /* process */
	assert_int_equal(read_number(reader, 4), 61); /* time */
	assert_int_equal(read_number(reader, 4), 60); /* second */
	expect_text(reader, "retention");
	assert_int_equal(read_number(reader, 8), 30); /* count */
	assert_true(read_number(reader, 8) == 60000000000);
	assert_true(read_number(reader, 8) == 90000000000);
}

static void expect_row(struct reader *reader, const struct table *table)
{
	expect_text(reader, "host");
	expect_text(reader, "73196879-ccfa-408f-baae-372fa090c46e");
	assert_int_equal(read_number(reader, 8), 300);
	for (size_t i = 0; i < tables_columns(table); i++) {
		static const size_t bytes[] = {
#define X(identifier, name, size) [ROWBINARY_##identifier] = size,
			ROWBINARY_TYPES(X)
#undef X
		};
		enum rowbinary_type type = table->column[i].type;

		if (type == ROWBINARY_LINES)
			assert_int_equal(read_length(reader), 1);
		if (type >= ROWBINARY_TEXT)
			expect_text(reader, "text");
		else
			assert_int_equal(read_number(reader, bytes[type]),
					 type == ROWBINARY_TIME ? 1 : i);
	}
}

static void expect_blocks(struct parcel *parcel, bool ops)
{
	struct parcel_block block;
	uint8_t packed[4096], plain[8192];

	for (size_t i = 0; i < tables_count; i++) {
		struct reader reader = { .at = plain };
		bool lost = strcmp(tables[i].name, "loss") == 0;
		uint32_t flags = tables[i].flags;

		if (ops ? !(flags & (TABLE_OPS | TABLE_WITH_OPS)) : flags & TABLE_OPS)
			continue;
		assert_int_equal(parcel_next(parcel, &block), 1);
		assert_string_equal(block.table, tables[i].name);
		assert_int_equal(block.rows, !tables[i].query ? 1 : lost ? 3 : 2);
		assert_int_equal(pread(parcel->fd, packed, block.bytes, (off_t)block.offset),
				 block.bytes);
		reader.end = plain + unzip(packed, block.bytes, plain, sizeof(plain));
		if (!tables[i].query || tables[i].flags & TABLE_IDENTITY)
			continue;
		expect_row(&reader, &tables[i]);
		expect_row(&reader, &tables[i]);
		if (lost)
			expect_lost(&reader);
		assert_ptr_equal(reader.at, reader.end);
	}
	assert_int_equal(parcel_next(parcel, &block), 0);
}

static void a_parcel_has_all_rows(void **state)
{
	struct parcel *parcel;

	assert_int_equal(parcel_open(folder, &parcel), 1);
	assert_int_equal(make(0), 0);
	assert_int_equal(parcel_open(folder, &parcel), 0);
	assert_int_equal(parcel->minute, 120);
	assert_int_equal(parcel->next, 180);
	assert_int_equal(parcel->newest, 5); /* what the row says */
	assert_int_equal(parcel->lost_s, 30);
	assert_int_equal(parcel->blocks, tables_count - 1);
	expect_blocks(parcel, false);
	parcel_free(parcel);
	parcel_remove(folder);
	assert_int_equal(parcel_open(folder, &parcel), 1);
}

/* Of a boot of which nothing was sent before, nothing was lost. */
static void a_parcel_of_another_boot_starts_anew(void **state)
{
	struct cursor former = { .boot_id = "former", .known = 7, .summed = 3, .rows = 9 };
	struct cursor same = { .summed = 3 };
	struct parcel *parcel;

	*cursor_sum(&former, 60) = *cursor_sum(&same, 60) = (struct cursor_sum){ 60, 5 };
	memcpy(same.boot_id, plan.boot_id, sizeof(same.boot_id));
	assert_int_equal(make(0), 0);
	assert_int_equal(parcel_open(folder, &parcel), 0);
	parcel_move(parcel, &former);
	parcel_move(parcel, &same);
	assert_string_equal(former.boot_id, plan.boot_id);
	assert_int_equal(former.minute, 180);
	assert_int_equal(former.known, parcel->newest);
	assert_int_equal(former.rows, 9 + parcel->rows);
	assert_int_equal(former.summed, 0);
	assert_int_equal(cursor_sum(&former, 60)->sum, 0);
	assert_int_equal(same.minute, 180);
	assert_int_equal(same.summed, 3);
	assert_int_equal(cursor_sum(&same, 60)->sum, 5);
	parcel_free(parcel);
}

static void a_window_has_operations(void **state)
{
	struct parcel_plan of = plan;
	struct parcel *parcel;

	of.again_count = 0;
	of.since_ns = 7 * NS_PER_S;
	of.until_ns = 10 * NS_PER_S;
	assert_int_equal(make_of(&of, 0, &parcel), 0);
	expect_blocks(parcel, true);
	parcel_free(parcel);
	assert_true(make_of(&of, 2, &parcel) < 0);
	assert_int_equal(parcel_open(folder, &parcel), 1); /* it has no name */
}

/* Rows of each table in a parcel of a minute, or of operations. */
static void count_rows(const char *jobs, uint32_t left_out, bool ops, uint32_t *ret,
		       uint64_t *ret_newest)
{
	struct settings some = settings;
	struct parcel_plan of = plan;
	struct parcel_block block;
	struct parcel *parcel;

	some.jobs = (char *)jobs;
	some.left_out = left_out;
	of.settings = &some;
	of.until_ns = ops ? NS_PER_S : 0;
	assert_int_equal(make_of(&of, 0, ops ? &parcel : NULL), 0);
	if (!ops)
		assert_int_equal(parcel_open(folder, &parcel), 0);
	memset(ret, 0, tables_count * sizeof(*ret));
	while (parcel_next(parcel, &block) == 1)
		ret[tables_find(block.table, strlen(block.table)) - tables] = block.rows;
	*ret_newest = parcel->newest;
	parcel_free(parcel);
}

static void what_is_left_out_is_not_sent(void **state)
{
	uint32_t rows[32], stack = tables_bit(tables_find("stack", 5));
	uint64_t newest;

	count_rows("*", stack | tables_bit(tables_find("loss", 4)), false, rows, &newest);
	for (size_t i = 0; i < tables_count; i++)
		if (strcmp(tables[i].name, "stack") == 0 || strcmp(tables[i].name, "loss") == 0)
			assert_int_equal(rows[i], 0);
		else if (!(tables[i].flags & TABLE_OPS))
			assert_true(rows[i] > 0);
	/* Stacks that are left out now are those from which it goes on later. */
	assert_int_equal(newest, plan.about.after);
}

static void only_some_jobs_are_sent(void **state)
{
	uint32_t rows[32];
	uint64_t newest;

	process[0] = 70;
	process[1] = 80;
	jobs_known = 2;
	for (int ops = 0; ops < 2; ops++) {
		count_rows("other train-?", 0, ops, rows, &newest);
		for (size_t i = 0; i < tables_count; i++) {
			bool lost = strcmp(tables[i].name, "loss") == 0;
			uint32_t flags = tables[i].flags;

			/* What the host itself has lost is told, too. */
			if (ops ? flags & (TABLE_OPS | TABLE_WITH_OPS) : !(flags & TABLE_OPS))
				assert_int_equal(rows[i], lost ? 2 : 1);
			else
				assert_int_equal(rows[i], 0);
		}
	}
	count_rows("- train-1", 0, false, rows, &newest);
	assert_int_equal(rows[0], 2);
	count_rows("train", 0, false, rows, &newest);
	assert_int_equal(rows[0], 0);
	assert_int_equal(newest, 5);
	/* Of a process that the daemon has not looked at yet, stacks come again. */
	jobs_known = 1;
	count_rows("train-1", 0, false, rows, &newest);
	assert_int_equal(rows[0], 1);
	assert_int_equal(newest, 4);
	process[0] = process[1] = 0;
}

static size_t read_parcel(uint8_t *data, size_t size)
{
	int fd = openat(folder, "parcel", O_RDONLY);
	ssize_t n = read(fd, data, size);

	close(fd);
	assert_true(n > 0);
	return (size_t)n;
}

static void a_parcel_is_whole_or_not_there(void **state)
{
	static uint8_t first[65536], second[65536];
	size_t size;

	assert_true(make(5) < 0); /* the daemon ends in the middle */
	assert_int_equal(faccessat(folder, "parcel", F_OK, 0), -1);
	assert_int_equal(make(0), 0);
	size = read_parcel(first, sizeof(first));
	/* The same rows are the same bytes. */
	assert_int_equal(make(0), 0);
	assert_int_equal(read_parcel(second, sizeof(second)), size);
	assert_memory_equal(first, second, size);
	/* The disk is full: what was there stays. */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 512, RLIM_INFINITY }), 0);
	assert_true(make(0) < 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY }),
			 0);
	assert_int_equal(read_parcel(second, sizeof(second)), size);
	assert_memory_equal(first, second, size);
}

static void a_damaged_parcel_is_told(void **state)
{
	struct parcel_block block;
	struct parcel *parcel;

	put_file("parcel", "TSPARCL1", 0600);
	assert_int_equal(parcel_open(folder, &parcel), -EBADMSG);
	assert_int_equal(make(0), 0);
	assert_int_equal(truncate(strcat(strcpy((char[128]){ 0 }, folder_path), "/parcel"), 300),
			 0);
	assert_int_equal(parcel_open(folder, &parcel), 0);
	for (int r = 1; r == 1;) {
		r = parcel_next(parcel, &block);
		assert_int_not_equal(r, 0);
		if (r < 0)
			assert_int_equal(r, -EBADMSG);
	}
	parcel_free(parcel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_parcel_has_all_rows),	TEST(a_parcel_of_another_boot_starts_anew),
		TEST(a_window_has_operations),	TEST(what_is_left_out_is_not_sent),
		TEST(only_some_jobs_are_sent),	TEST(a_parcel_is_whole_or_not_there),
		TEST(a_damaged_parcel_is_told),
	};

	signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
