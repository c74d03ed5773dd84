/* Outfile: whole, or absent. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/output/outfile.h"

static char folder[] = "/tmp/test_outfile.XXXXXX";

static int enter(void **state)
{
	return !mkdtemp(folder) || chdir(folder) < 0;
}

static int leave(void **state)
{
	return chdir("/") < 0 || rmdir(folder) < 0; /* fails if anything was left behind */
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void assert_text(const char *path, const char *text)
{
	char buffer[64] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	buffer[fread(buffer, 1, sizeof(buffer) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(buffer, text);
}

static struct outfile *write_new(const char *path)
{
	struct outfile *file = NULL;
	struct out_sink sink;

	assert_int_equal(outfile_open(path, &file), 0);
	sink = outfile_sink(file);
	assert_int_equal(sink.write(sink.data, "new ", 4), 0);
	assert_int_equal(sink.write(sink.data, "text", 4), 0);
	assert_int_equal(outfile_size(file), 8);
	return file;
}

static void commit_gives_the_file_its_name_and_usual_mode(void **state)
{
	mode_t mask = umask(027);
	struct outfile *file = write_new("trace");
	struct stat st;

	assert_int_equal(access("trace", F_OK), -1);
	assert_int_equal(outfile_commit(file), 0);
	outfile_free(file);
	assert_text("trace", "new text");
	assert_int_equal(stat("trace", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	umask(mask);
	unlink("trace");
}

static void commit_replaces_what_was_there(void **state)
{
	struct outfile *file;

	put("trace", "old");
	file = write_new("trace");
	assert_text("trace", "old");
	assert_int_equal(outfile_commit(file), 0);
	outfile_free(file);
	assert_text("trace", "new text");
	unlink("trace");
}

static void without_commit_the_old_file_stays_and_nothing_else(void **state)
{
	put("trace", "old");
	outfile_free(write_new("trace"));
	assert_text("trace", "old");
	unlink("trace");
	outfile_free(write_new("other"));
	assert_int_equal(access("other", F_OK), -1);
}

static void a_link_is_followed_and_kept(void **state)
{
	struct outfile *file;
	struct stat st;

	put("trace", "old");
	assert_int_equal(symlink("trace", "link"), 0);
	file = write_new("link");
	assert_int_equal(outfile_commit(file), 0);
	outfile_free(file);
	assert_text("trace", "new text");
	assert_int_equal(lstat("link", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	unlink("link");
	unlink("trace");
}

static void a_device_is_written_to_and_not_replaced(void **state)
{
	struct outfile *file = write_new("/dev/null");
	struct stat st;

	assert_int_equal(outfile_commit(file), 0);
	outfile_free(file);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
}

static void a_full_disk_is_an_error_that_stays(void **state)
{
	struct outfile *file = NULL;
	struct out_sink sink;

	assert_int_equal(outfile_open("/dev/full", &file), 0);
	sink = outfile_sink(file);
	assert_int_equal(sink.write(sink.data, "x", 1), -ENOSPC);
	assert_int_equal(outfile_error(file), -ENOSPC);
	assert_int_equal(outfile_commit(file), -ENOSPC);
	outfile_free(file);
}

static void a_missing_folder_is_told(void **state)
{
	struct outfile *file = NULL;

	assert_int_equal(outfile_open("none/trace", &file), -ENOENT);
	assert_null(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commit_gives_the_file_its_name_and_usual_mode),
		cmocka_unit_test(commit_replaces_what_was_there),
		cmocka_unit_test(without_commit_the_old_file_stays_and_nothing_else),
		cmocka_unit_test(a_link_is_followed_and_kept),
		cmocka_unit_test(a_device_is_written_to_and_not_replaced),
		cmocka_unit_test(a_full_disk_is_an_error_that_stays),
		cmocka_unit_test(a_missing_folder_is_told),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
