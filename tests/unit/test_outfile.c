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

#define NOBODY 65534

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

static void a_new_file_is_its_users_alone(void **state)
{
	struct outfile *file = write_new("trace");
	struct stat st;

	assert_int_equal(access("trace", F_OK), -1);
	assert_int_equal(outfile_commit(file), 0);
	outfile_free(file);
	assert_text("trace", "new text");
	assert_int_equal(stat("trace", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
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

static void a_file_that_is_replaced_keeps_its_mode_and_owner(void **state)
{
	bool root = geteuid() == 0;
	struct outfile *file;
	struct stat st;

	put("trace", "old");
	assert_int_equal(chmod("trace", 0640), 0);
	if (root)
		assert_int_equal(chown("trace", NOBODY, NOBODY), 0);
	file = write_new("trace");
	assert_int_equal(outfile_commit(file), 0);
	outfile_free(file);
	assert_int_equal(stat("trace", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	if (root) {
		assert_int_equal(st.st_uid, NOBODY);
		assert_int_equal(st.st_gid, NOBODY);
	}
	unlink("trace");
}

/* Only root can plant something as another user. */
static void what_others_plant_where_all_may_write_is_refused(void **state)
{
	struct outfile *file = NULL;

	if (geteuid() != 0)
		skip();
	put("own", "old");
	assert_int_equal(mkdir("shared", 0700), 0);
	assert_int_equal(chmod("shared", 01777), 0);
	assert_int_equal(symlink("../own", "shared/link"), 0);
	assert_int_equal(mkfifo("shared/pipe", 0600), 0);
	assert_int_equal(symlink("shared/link", "way"), 0);
	outfile_free(write_new("shared/link")); /* its own */
	assert_int_equal(lchown("shared/link", NOBODY, NOBODY), 0);
	assert_int_equal(lchown("shared/pipe", NOBODY, NOBODY), 0);
	assert_int_equal(outfile_open("shared/link", &file), -EPERM);
	assert_int_equal(outfile_open("shared/pipe", &file), -EPERM);
	assert_int_equal(outfile_open("way", &file), -EPERM);
	assert_null(file);
	assert_text("own", "old");
	/* Not where the kernel would follow it, too. */
	assert_int_equal(chmod("shared", 0700), 0);
	outfile_free(write_new("shared/link"));
	unlink("shared/link");
	unlink("shared/pipe");
	unlink("way");
	unlink("own");
	rmdir("shared");
}

static void links_in_a_circle_are_an_error(void **state)
{
	struct outfile *file = NULL;

	assert_int_equal(symlink("two", "one"), 0);
	assert_int_equal(symlink("one", "two"), 0);
	assert_int_equal(outfile_open("one", &file), -ELOOP);
	unlink("one");
	unlink("two");
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

static void a_link_to_an_open_pipe_is_written_to(void **state)
{
	struct outfile *file;
	char path[64], text[16] = "";
	int end[2];

	assert_int_equal(pipe(end), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", end[1]);
	assert_int_equal(symlink(path, "link"), 0);
	file = write_new("link");
	assert_int_equal(outfile_commit(file), 0);
	outfile_free(file);
	assert_int_equal(read(end[0], text, sizeof(text) - 1), 8);
	assert_string_equal(text, "new text");
	close(end[0]);
	close(end[1]);
	unlink("link");
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
		cmocka_unit_test(a_new_file_is_its_users_alone),
		cmocka_unit_test(commit_replaces_what_was_there),
		cmocka_unit_test(a_file_that_is_replaced_keeps_its_mode_and_owner),
		cmocka_unit_test(what_others_plant_where_all_may_write_is_refused),
		cmocka_unit_test(links_in_a_circle_are_an_error),
		cmocka_unit_test(without_commit_the_old_file_stays_and_nothing_else),
		cmocka_unit_test(a_link_is_followed_and_kept),
		cmocka_unit_test(a_device_is_written_to_and_not_replaced),
		cmocka_unit_test(a_link_to_an_open_pipe_is_written_to),
		cmocka_unit_test(a_full_disk_is_an_error_that_stays),
		cmocka_unit_test(a_missing_folder_is_told),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
