/* What tracesmith-ship is made of: values as ClickHouse reads them, what a process is part of,
 * where it left off, settings, and parcels that are the same until they have arrived. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cmocka.h>

#include "client/ship/cursor.h"
#include "client/ship/identity.h"
#include "client/ship/parcel.h"
#include "client/ship/rowbinary.h"
#include "client/ship/settings.h"
#include "client/ship/status.h"
#include "client/ship/tables.h"
#include "core/base/time.h"

static char folder_path[] = "/tmp/tracesmith-ship-XXXXXX";
static int folder;

static int make_folder(void **state)
{
	strcpy(strrchr(folder_path, '-'), "-XXXXXX");
	folder = mkdtemp(folder_path) ? open(folder_path, O_RDONLY | O_DIRECTORY) : -1;
	return folder < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "cursor", "parcel", "settings", "secret", "status" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(folder, names[i], 0);
	close(folder);
	return rmdir(folder_path); /* nothing else is left behind */
}

/* Reads RowBinary as its documentation has it. */
struct reader {
	const uint8_t *at, *end;
};

static uint64_t read_number(struct reader *reader, size_t bytes)
{
	uint64_t value = 0;

	assert_true((size_t)(reader->end - reader->at) >= bytes);
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)*reader->at++ << (8 * i);
	return value;
}

static size_t read_length(struct reader *reader)
{
	size_t value = 0, shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)read_number(reader, 1);
		value |= (size_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static void expect_text(struct reader *reader, const char *text)
{
	size_t size = read_length(reader);

	assert_int_equal(size, strlen(text));
	assert_memory_equal(reader->at, text, size);
	reader->at += size;
}

static void values_are_read_back(void **state)
{
	struct rowbinary rows = { 0 };
	struct reader reader;
	char long_text[201];

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(rowbinary_integer(&rows, ROWBINARY_U8, 200), 0);
	assert_int_equal(rowbinary_integer(&rows, ROWBINARY_I32, -2), 0);
	assert_int_equal(rowbinary_integer(&rows, ROWBINARY_U64, INT64_MIN), 0);
	assert_int_equal(rowbinary_integer(&rows, ROWBINARY_I64, -3), 0);
	/* What does not fit becomes the nearest that does. */
	assert_int_equal(rowbinary_integer(&rows, ROWBINARY_U8, 256), 0);
	assert_int_equal(rowbinary_integer(&rows, ROWBINARY_U32, -1), 0);
	assert_int_equal(rowbinary_integer(&rows, ROWBINARY_TIME, 1ll << 40), 0);
	assert_int_equal(rowbinary_text(&rows, "caf\xc3\xa9 \xf0\x9f\x9a\x80"), 0);
	assert_int_equal(rowbinary_text(&rows, NULL), 0);
	assert_int_equal(rowbinary_text(&rows, long_text), 0);
	assert_int_equal(rowbinary_lines(&rows, "one\n\nthree"), 0);
	assert_int_equal(rowbinary_lines(&rows, ""), 0);

	reader = (struct reader){ rows.data, rows.data + rows.size };
	assert_int_equal(read_number(&reader, 1), 200);
	assert_int_equal((int32_t)read_number(&reader, 4), -2);
	assert_true(read_number(&reader, 8) == 1ull << 63);
	assert_true((int64_t)read_number(&reader, 8) == -3);
	assert_int_equal(read_number(&reader, 1), 255);
	assert_int_equal(read_number(&reader, 4), 0);
	assert_int_equal(read_number(&reader, 4), UINT32_MAX);
	expect_text(&reader, "caf\xc3\xa9 \xf0\x9f\x9a\x80");
	expect_text(&reader, "");
	expect_text(&reader, long_text);
	assert_int_equal(read_length(&reader), 3);
	expect_text(&reader, "one");
	expect_text(&reader, "");
	expect_text(&reader, "three");
	assert_int_equal(read_length(&reader), 0);
	assert_ptr_equal(reader.at, reader.end);
	rowbinary_done(&rows);
}

static void a_process_is_part_of_a_job(void **state)
{
	struct identity found;

	identity_find("/system.slice/slurmstepd.scope/job_12/step_3/user/task_0",
		      "RANK=5\nWORLD_SIZE=16\nLOCAL_RANK=1\nSLURM_JOB_ID=77\nMASTER_ADDR=a",
		      &found);
	assert_string_equal(found.slurm_job, "77");
	assert_string_equal(found.slurm_step, "3");
	assert_string_equal(found.job, "77");
	assert_int_equal(found.rank, 5);
	assert_int_equal(found.local_rank, 1);
	assert_int_equal(found.world_size, 16);
	assert_string_equal(found.pod, "");

	identity_find("/kubepods.slice/kubepods-pod1b2c_3d.slice/cri-containerd-0.scope",
		      "XRANK=1\nHOSTNAME=trainer-worker-3\nPOD_NAMESPACE=ml\nRANK=x\nSLURM_PROCID=",
		      &found);
	assert_string_equal(found.pod, "trainer-worker-3");
	assert_string_equal(found.name_space, "ml");
	assert_string_equal(found.job, "trainer-worker");
	assert_int_equal(found.rank, -1);
	assert_int_equal(found.world_size, 0);

	identity_find("/user.slice",
		      "HOSTNAME=gpu1\nTORCHELASTIC_RUN_ID=none\nMASTER_ADDR=gpu1\n"
		      "MASTER_PORT=29500",
		      &found);
	assert_string_equal(found.pod, "");
	assert_string_equal(found.job, "gpu1:29500");

	identity_find("", "", &found);
	assert_string_equal(found.job, "");
	assert_int_equal(found.local_rank, -1);
}

static void the_cursor_comes_back(void **state)
{
	struct cursor cursor = { .boot_id = "73196879-ccfa-408f-baae-372fa090c46e",
				 .wall_offset_ns = -5,
				 .minute = 1860,
				 .known = 11,
				 .told_ns = 12,
				 .rows = UINT64_MAX };
	struct cursor read;

	assert_int_equal(cursor_read(folder, &read), 0);
	assert_string_equal(read.boot_id, "");
	*cursor_sum(&cursor, 1800) = (struct cursor_sum){ 1800, 99 };
	assert_int_equal(cursor_write(folder, &cursor), 0);
	assert_int_equal(cursor_read(folder, &read), 0);
	assert_memory_equal(&read, &cursor, sizeof(cursor));

	/* No room: the former one stays. */
	cursor.minute = 1920;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 10, RLIM_INFINITY }), 0);
	assert_true(cursor_write(folder, &cursor) < 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY }),
			 0);
	assert_int_equal(cursor_read(folder, &read), 0);
	assert_int_equal(read.minute, 1860);
	unlinkat(folder, "cursor.new", 0);
}

static void put_file(const char *name, const char *text, mode_t mode)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void a_damaged_cursor_is_told(void **state)
{
	struct cursor read;

	put_file("cursor", "boot 73196879\nminute 61\n", 0600);
	assert_int_equal(cursor_read(folder, &read), -EBADMSG);
	put_file("cursor", "minute 60\n", 0600);
	assert_int_equal(cursor_read(folder, &read), -EBADMSG);
	put_file("cursor", "boot 73196879\nminute sixty\n", 0600);
	assert_int_equal(cursor_read(folder, &read), -EBADMSG);
	/* Of a later version, more. */
	put_file("cursor", "boot 73196879\nminute 60\nmore 1\n", 0600);
	assert_int_equal(cursor_read(folder, &read), 0);
	assert_int_equal(read.minute, 60);
}

static void expect_settings(const char *text, const char *wrong)
{
	char path[128], why[SETTINGS_WHY_BYTES] = "";
	struct settings settings;
	int r;

	put_file("settings", text, 0600);
	snprintf(path, sizeof(path), "%s/settings", folder_path);
	r = settings_read(path, NULL, &settings, why);
	if (wrong) {
		assert_true(r < 0);
		if (!strstr(why, wrong))
			fail_msg("'%s' instead of '%s'", why, wrong);
	} else if (r < 0) {
		fail_msg("%s", why);
	}
	settings_done(&settings);
}

static void settings_are_checked(void **state)
{
	char text[256];

	expect_settings("url = http://a:8123 https://b/\ncompression = zstd\n", NULL);
	expect_settings("", "There is no url");
	expect_settings("url = http://:8123\n", "url needs http:// or https:// and a host");
	expect_settings("url = ftp://a\n", "url needs http:// or https:// and a host");
	expect_settings("url = http://user:password@a\n", "must not have a user");
	expect_settings("url = http://a\ndatabase = a; DROP\n", "database needs a name");
	expect_settings("url = http://a\ncompression = rar\n", "compression needs");
	expect_settings("url = http://a\nquorum = -1\n", "quorum needs");
	expect_settings("[x]\nurl = http://a\n", "There is no setting 'x.url'");
	snprintf(text, sizeof(text), "url = http://a\npassword_file = %s/secret\n", folder_path);
	expect_settings(text, "Cannot read the password in");
	put_file("secret", "word\n", 0640);
	expect_settings(text, "Others may use the password in");
	put_file("secret", "word\n", 0600);
	expect_settings(text, NULL);
}

static void the_status_is_read_back(void **state)
{
	struct status status = { .url = "http://a", .trouble = "It does not", .rows = 5 }, read;
	char path[128];

	snprintf(path, sizeof(path), "%s/status", folder_path);
	assert_int_equal(status_read(path, &read), -ENOENT);
	assert_int_equal(status_write(path, &status), 0);
	assert_int_equal(status_read(path, &read), 0);
	assert_memory_equal(&read, &status, sizeof(status));
}

/* A daemon whose answer to every query is two rows of as many values as are wanted. */
struct daemon {
	int fd;
	size_t queries;	   /* that were asked */
	size_t gone_after; /* then it is gone; 0: never */
};

static void reply(const struct daemon *daemon, uint64_t id, Tracesmith__V1__Reply *message)
{
	uint8_t *data;
	size_t size;

	message->id = id;
	assert_int_equal(ts_frame_pack(&message->base, TS_FRAME_REPLY_MAX, &data, &size), 0);
	assert_int_equal(send(daemon->fd, data, size, MSG_NOSIGNAL), size);
	free(data);
}

static size_t values_of(const struct table *table)
{
	return tables_columns(table) - (table->flags & TABLE_IDENTITY ? 6 : 0) +
	       (table->flags & TABLE_ONCE ? 1 : 0);
}

static void answer(struct daemon *daemon, uint64_t id, const struct table *table)
{
	Tracesmith__V1__Reply message = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Rows rows = TRACESMITH__V1__ROWS__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	Tracesmith__V1__Value value[TABLES_COLUMNS_MAX], *values[TABLES_COLUMNS_MAX];
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT, *both[] = { &row, &row };

	for (size_t i = 0; i < values_of(table); i++) {
		bool text = table->column[i].name && table->column[i].type >= ROWBINARY_TEXT;

		tracesmith__v1__value__init(&value[i]);
		value[i].value_case = text ? TRACESMITH__V1__VALUE__VALUE_TEXT
					   : TRACESMITH__V1__VALUE__VALUE_INTEGER;
		if (text)
			value[i].text = (char *)"text";
		else
			value[i].integer = (int64_t)i;
		values[i] = &value[i];
	}
	row.n_value = values_of(table);
	row.value = values;
	rows.n_row = 2;
	rows.row = both;
	message.body_case = TRACESMITH__V1__REPLY__BODY_ROWS;
	message.rows = &rows;
	reply(daemon, id, &message);
	message.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	message.done = &done;
	reply(daemon, id, &message);
}

static const struct table *table_of(const char *query)
{
	size_t i = 0;

	while (i < tables_count && (!tables[i].query || strcmp(tables[i].query, query) != 0))
		i++;
	assert_true(i < tables_count);
	return &tables[i];
}

static void *run_daemon(void *data)
{
	struct ts_frame_reader reader = { .max = TS_FRAME_REQUEST_MAX };
	struct daemon *daemon = data;
	const uint8_t *bytes;
	size_t size;
	ssize_t n = 1;

	while (n > 0 && (!daemon->gone_after || daemon->queries < daemon->gone_after)) {
		Tracesmith__V1__Request *request;
		void *room = ts_frame_reader_room(&reader, &size);

		n = recv(daemon->fd, room, size, 0);
		ts_frame_reader_fill(&reader, n > 0 ? (size_t)n : 0);
		if (ts_frame_reader_next(&reader, &bytes, &size) != 1)
			continue;
		request = tracesmith__v1__request__unpack(NULL, size, bytes);
		assert_non_null(request);
		answer(daemon, request->id, table_of(request->query->name));
		daemon->queries++;
		tracesmith__v1__request__free_unpacked(request, NULL);
	}
	ts_frame_reader_done(&reader);
	close(daemon->fd);
	return NULL;
}

static const struct settings settings = { .host = (char *)"host", .compression = COMPRESSION_GZIP };
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
		cmocka_unit_test(values_are_read_back),
		cmocka_unit_test(a_process_is_part_of_a_job),
		TEST(the_cursor_comes_back),
		TEST(a_damaged_cursor_is_told),
		TEST(settings_are_checked),
		TEST(the_status_is_read_back),
		TEST(a_parcel_has_all_rows),
		TEST(a_window_has_operations),
		TEST(a_parcel_is_whole_or_not_there),
		TEST(a_damaged_parcel_is_told),
	};

	signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
