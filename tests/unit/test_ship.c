/* What tracesmith-ship is made of: values as ClickHouse reads them, what a process is part of and
 * whether that is sent, where it left off, settings. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "client/ship/cursor.h"
#include "client/ship/identity.h"
#include "client/ship/jobs.h"
#include "client/ship/rowbinary.h"
#include "client/ship/settings.h"
#include "client/ship/status.h"
#include "client/ship/tables.h"
#include "tests/unit/ship_fixture.h"

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

static void jobs_fit_patterns(void **state)
{
	assert_true(jobs_fit("*", "4711"));
	assert_true(jobs_fit("*", ""));
	assert_true(jobs_fit("4711", "4711"));
	assert_false(jobs_fit("4711", "47110"));
	assert_false(jobs_fit("4711", "14711"));
	assert_false(jobs_fit("4711", ""));
	assert_true(jobs_fit("12, train-*", "train-a"));
	assert_true(jobs_fit("12|train-*", "12"));
	assert_false(jobs_fit("12 train-*", "a-train-a"));
	assert_true(jobs_fit("?0-*:29500", "é0-1:29500"));
	assert_true(jobs_fit("12 -", ""));
	assert_false(jobs_fit("-", "train-a"));
	assert_false(jobs_fit(" ", ""));
	assert_int_not_equal(jobs_mark("12 -"), jobs_mark("12 *"));
}

static void the_cursor_comes_back(void **state)
{
	struct cursor cursor = { .boot_id = "73196879-ccfa-408f-baae-372fa090c46e",
				 .wall_offset_ns = -5,
				 .minute = 1860,
				 .known = 11,
				 .told_ns = 12,
				 .summed = 1,
				 .jobs = jobs_mark("*"),
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
	char path[128], why[WHY_BYTES] = "";
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
	expect_settings("", "Missing url");
	expect_settings("url = http://:8123\n", "url needs http:// or https:// and a host");
	expect_settings("url = ftp://a\n", "url needs http:// or https:// and a host");
	expect_settings("url = http://user:password@a\n", "must not have a user");
	expect_settings("url = http://a\ndatabase = a; DROP\n", "database needs a name");
	expect_settings("url = http://a\ncompression = rar\n", "compression needs");
	expect_settings("url = http://a\nquorum = -1\n", "quorum needs");
	expect_settings("[x]\nurl = http://a\n", "Unknown setting 'x.url'");
	snprintf(text, sizeof(text), "url = http://a\npassword_file = %s/secret\n", folder_path);
	expect_settings(text, "Cannot read the password in");
	put_file("secret", "word\n", 0640);
	expect_settings(text, "Others may use the password in");
	put_file("secret", "word\n", 0600);
	expect_settings(text, NULL);
}

static void what_is_not_sent_is_a_setting(void **state)
{
	_cleanup_(freep) char *listed = NULL;
	char path[128], why[WHY_BYTES] = "", text[256];
	struct settings settings;
	size_t size;
	FILE *out;

	put_file("settings",
		 "url = http://a\nleave_out = loss stack,\n  price\njobs = 4711\n  train-*\n",
		 0600);
	snprintf(path, sizeof(path), "%s/settings", folder_path);
	assert_int_equal(settings_read(path, NULL, &settings, why), 0);
	assert_string_equal(settings.jobs, "4711 train-*");
	settings_left_out(&settings, text, sizeof(text));
	assert_string_equal(text, "stack price loss");
	settings_left_out(&settings, text, 8); /* no room */
	assert_string_equal(text, "stack p");
	settings_done(&settings);

	expect_settings("url = http://a\njobs =\n", "jobs needs a pattern");
	expect_settings("url = http://a\nleave_out = stacks\n", "leave_out knows no 'stacks'");
	expect_settings("url = http://a\nleave_out = op\n", "leave_out knows no 'op'");
	/* The list says what may be left out, and nothing else. */
	out = open_memstream(&listed, &size);
	settings_print(out);
	fclose(out);
	for (size_t i = 0; i < tables_count; i++) {
		bool may = !(tables[i].flags & (TABLE_NEEDED | TABLE_OPS));
		char *from = strstr(listed, "# What is not sent"), *found;

		snprintf(text, sizeof(text), "url = http://a\nleave_out = %s\n", tables[i].name);
		expect_settings(text, may ? NULL : "leave_out ");
		if (tables[i].flags & TABLE_NEEDED)
			expect_settings(text, "mean nothing without host, process, device and");
		found = strstr(from, tables[i].name);
		assert_int_equal(found && found < strstr(from, "#leave_out"), may);
	}
}

static void the_status_is_read_back(void **state)
{
	struct status status = {
		.url = "http://a", .trouble = "It does not", .left_out = "stack loss", .rows = 5
	};
	struct status read;
	char path[128];

	snprintf(path, sizeof(path), "%s/status", folder_path);
	assert_int_equal(status_read(path, &read), -ENOENT);
	assert_int_equal(status_write(path, &status), 0);
	assert_int_equal(status_read(path, &read), 0);
	assert_memory_equal(&read, &status, sizeof(status));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_read_back),
		cmocka_unit_test(a_process_is_part_of_a_job),
		cmocka_unit_test(jobs_fit_patterns),
		TEST(the_cursor_comes_back),
		TEST(a_damaged_cursor_is_told),
		TEST(settings_are_checked),
		TEST(what_is_not_sent_is_a_setting),
		TEST(the_status_is_read_back),
	};

	signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
