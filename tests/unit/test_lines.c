/* Lines: of this program, whose functions have known ones; from a file of its own for the debug
 * information; and of files that have none, or that somebody broke. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/build_id.h"
#include "daemon/elf/elf.h"
#include "daemon/limits.h"
#include "tests/unit/lines_fixture.h"

static const void *call_at;
static volatile int seen;

static __attribute__((noinline)) void remember_caller(void)
{
	call_at = __builtin_return_address(0);
	seen++;
}

enum { INNER_LINE = __LINE__ + 3, OUTER_LINE = INNER_LINE + 5 };
static inline __attribute__((always_inline)) void inner(void)
{
	remember_caller();
	seen++;
}
static __attribute__((noinline)) void outer(void)
{
	inner();
	seen++;
}

static int find_base(struct dl_phdr_info *info, size_t size, void *data)
{
	*(uint64_t *)data = info->dlpi_addr; /* the program comes first */
	return 1;
}

/* Where the return address of outer()'s call lies in our file. */
static uint64_t call_offset(void)
{
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	uint64_t base = 0, offset = 0;

	outer();
	dl_iterate_phdr(find_base, &base);
	assert_int_equal(elf_open(&elf, fd), 0);
	assert_int_equal(elf_offset(&elf, (uintptr_t)call_at - base, &offset), 0);
	return offset;
}

static void add_job(struct office *office)
{
	assert_int_equal(lines_add(office->lines, new_job(office, call_offset())), 0);
}

static void open_strange_office(struct office *office)
{
	open_office_of(office, "/dev/null", KIND_STRANGE);
}

static void expect_places(struct office *office)
{
	static const struct {
		const char *function;
		uint32_t line;
	} expected[] = { { "inner", INNER_LINE }, { "outer", OUTER_LINE } };

	assert_int_equal(office->places, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(office->function[i], expected[i].function);
		assert_int_equal(office->line[i], expected[i].line);
		assert_non_null(strstr(office->source[i], "/tests/unit/test_lines.c"));
	}
}

static void a_call_in_an_inlined_function_has_two_places(void **state)
{
	struct office office;

	open_office(&office, "/proc/self/exe");
	add_job(&office);
	add_job(&office); /* it finds what was found for the first */
	run(&office);
	assert_int_equal(office.lined, 2);
	expect_places(&office);
	close_office(&office);
}

/* This program without debug information, as `directory`/stripped, and that in a file of its own.
 */
static void strip_to(const char *debug, char stripped[PATH_MAX])
{
	char self[PATH_MAX];

	assert_non_null(realpath("/proc/self/exe", self));
	run_command("cd %s && mkdir -p $(dirname %s) && objcopy --only-keep-debug '%s' %s &&"
		    " rm -f stripped && objcopy -g --add-gnu-debuglink=%s '%s' stripped",
		    directory, debug, self, debug, debug, self);
	snprintf(stripped, PATH_MAX, "%s/stripped", directory);
}

static void expect_lines_of(const char *path, uint32_t pid, bool found)
{
	struct office office;
	struct symbol_job *job;

	open_office(&office, path);
	job = new_job(&office, call_offset());
	job->pid = pid;
	assert_int_equal(lines_add(office.lines, job), 0);
	run(&office);
	assert_int_equal(office.lined, found);
	if (found)
		expect_places(&office);
	close_office(&office);
}

static void debug_information_may_be_beside_the_file_of_the_same_build(void **state)
{
	char path[PATH_MAX];

	strip_to(".debug/stripped.debug", path);
	expect_lines_of(path, (uint32_t)getpid(), true);
	run_command("cd %s/.debug && objcopy --remove-section .note.gnu.build-id stripped.debug",
		    directory);
	expect_lines_of(path, (uint32_t)getpid(), false);
}

/* What two files have in common is moved to a third; names are all that is missing without it. */
static void what_dwz_moved_to_a_common_file_is_found(void **state)
{
	char path[PATH_MAX];

	if (system("dwz -v >/dev/null 2>&1") != 0) {
		print_message("SKIPPED: dwz is not installed\n");
		skip();
	}
	strip_to(".debug/stripped.debug", path);
	run_command("cd %s/.debug && cp stripped.debug other.debug && mkdir -p ../common &&"
		    " dwz -m ../common/both -M ../common/both stripped.debug other.debug &&"
		    " readelf -S stripped.debug | grep -q gnu_debugaltlink",
		    directory);
	expect_lines_of(path, (uint32_t)getpid(), true);
}

/* Of a process in a root directory of its own; 0: not permitted here. */
static pid_t start_in_root(const char *root)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (geteuid() != 0)
			unshare(CLONE_NEWUSER);
		if (chroot(root) == 0 && write(ready[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid;
}

static void debug_information_may_be_in_the_root_of_the_process(void **state)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	_cleanup_(closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char path[PATH_MAX], debug[PATH_MAX] = "usr/lib/debug/.build-id/";
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t size, used;
	pid_t pid = start_in_root(directory);

	if (!pid)
		skip();
	assert_int_equal(elf_open(&elf, fd), 0);
	size = elf_build_id(&elf, id);
	assert_true(size >= 2);
	used = strlen(debug);
	for (size_t i = 0; i < size; i++)
		used += (size_t)snprintf(debug + used, sizeof(debug) - used, "%02x%s", id[i],
					 i == 0 ? "/" : "");
	snprintf(debug + used, sizeof(debug) - used, ".debug");
	strip_to(debug, path);
	expect_lines_of(path, (uint32_t)getpid(), false);
	expect_lines_of(path, (uint32_t)pid, true);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A few bytes of what libdw reads, so that it gets far. */
static void damage(const char *path, unsigned int random)
{
	_cleanup_(closep) int fd = open(path, O_RDWR | O_CLOEXEC);
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	const Elf64_Shdr *names;
	char name[8];

	assert_int_equal(elf_open(&elf, fd), 0);
	names = &elf.section[elf.header.e_shstrndx];
	for (unsigned int i = 0; i < elf.header.e_shnum; i++) {
		const Elf64_Shdr *section = &elf.section[i];

		assert_int_equal(
			elf_read(&elf, names->sh_offset + section->sh_name, name, sizeof(name)), 0);
		for (int k = 0; strncmp(name, ".debug_", 7) == 0 && k < 200; k++) {
			uint8_t byte = (uint8_t)(random >> 16);

			random = random * 1103515245 + 12345;
			assert_int_equal(pwrite(fd, &byte, 1,
						(off_t)(section->sh_offset +
							(random >> 8) % section->sh_size)),
					 1);
		}
	}
}

/* The helper that dies of it, or works for ever, takes nothing with it. */
static void broken_debug_information_is_no_news(void **state)
{
	struct office office;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/broken", directory);
	for (unsigned int seed = 1; seed <= 16; seed++) {
		run_command("cp /proc/%d/exe %s", (int)getpid(), path);
		damage(path, 7919u * seed);
		open_office(&office, path);
		office.broken = true;
		add_job(&office);
		run(&office);
		close_office(&office);
	}
}

/* Also where the file ends before its sections do. */
static void truncated_debug_information_is_no_news(void **state)
{
	struct office office;
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/truncated", directory);
	run_command("cp /proc/%d/exe %s", (int)getpid(), path);
	assert_int_equal(stat(path, &st), 0);
	for (int part = 7; part > 0; part--) {
		assert_int_equal(truncate(path, st.st_size / 8 * part), 0);
		open_office(&office, path);
		office.broken = true;
		add_job(&office);
		run(&office);
		close_office(&office);
	}
}

/* In place of the real one, by the name of the file. */
static int look_strangely(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	const struct lines_order *order = request;
	struct lines_answer answer = { .index = 0, .count = 1, .text = "3\0f\0f.c" };
	bool bad = order->path[0] == '/' && access(order->path, F_OK) == 0;

	while (strcmp(order->path, "hangs") == 0 || (bad && strstr(order->path, "hangs")))
		poll(NULL, 0, -1);
	if (strcmp(order->path, "dies") == 0 || (bad && strstr(order->path, "dies")))
		_exit(1);
	if (strcmp(order->path, "lies") == 0)
		answer = (struct lines_answer){ .index = 9, .count = UINT32_MAX };
	return helper_say(socket, &answer, offsetof(struct lines_answer, text) + 8, NULL, 0);
}

static void add_strange(struct office *office, const char *path, uint32_t user, uint64_t offset)
{
	struct symbol_job *job = new_job(office, offset);

	office->broken = true;
	snprintf(office->path, sizeof(office->path), "%s", path);
	job->user = user;
	job->frame[1].key.inode = (uint64_t)path[0];
	assert_int_equal(lines_add(office->lines, job), 0);
}

static bool is_known(struct office *office, const char *path, uint64_t offset)
{
	struct symbol_job *job = new_job(office, offset);
	bool known;

	job->frame[1].key.inode = (uint64_t)path[0];
	known = lines_fill(office->lines, job);
	symbol_job_free(job);
	return known;
}

static void who_keeps_helpers_busy_waits_for_himself(void **state)
{
	struct office office;

	open_strange_office(&office);
	for (uint64_t i = 1; i <= 100; i++)
		add_strange(&office, "hangs", 1, i);
	add_strange(&office, "fine", 2, 1);
	add_strange(&office, "fine", 2, 2);
	run_until(&office, 2);
	assert_true(is_known(&office, "fine", 1));
	assert_false(is_known(&office, "hangs", 1));
	assert_true(lines_busy(office.lines));
	close_office(&office);
}

/* Until the files that were put off are all that is waited for. */
static void run_until_parked(struct office *office)
{
	while (lines_busy(office->lines))
		uv_run(&office->loop, UV_RUN_ONCE);
}

/* The n-th pause, and not a moment less. */
static void wait_pause(struct office *office, uint32_t n)
{
	const uint64_t pause_ns = LIMIT_LINES_PAUSE_MS * NS_PER_MS << 2 * n;

	pass(office, pause_ns - 1);
	assert_false(lines_busy(office->lines));
	pass(office, 1);
	assert_true(lines_busy(office->lines));
}

/* As long as there is a file of its name. */
static void what_did_not_end_is_tried_again(void **state)
{
	static const char *const names[] = { "dies", "hangs" };
	struct office office;
	char path[PATH_MAX];

	/* Its deadline passes. */
	setenv("TRACESMITH_PATIENCE", "1", 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		run_command("touch %s", path);
		open_strange_office(&office);
		add_strange(&office, path, 1, 1);
		run_until_parked(&office);
		add_strange(&office, path, 1, 2); /* does not wait for a helper */
		run_until_parked(&office);
		assert_int_equal(office.lined, 0);
		assert_false(is_known(&office, path, 1));
		run_command("rm %s", path);
		wait_pause(&office, 0);
		run(&office);
		assert_int_equal(office.lined, 2);
		close_office(&office);
	}
	setenv("TRACESMITH_PATIENCE", "10", 1);
}

static void what_never_ends_is_tried_a_few_times(void **state)
{
	struct office office;

	open_strange_office(&office);
	add_strange(&office, "dies", 1, 1);
	for (uint32_t n = 0; n + 1 < LIMIT_LINES_TRIES; n++) {
		run_until_parked(&office);
		assert_false(is_known(&office, "dies", 2));
		wait_pause(&office, n);
	}
	run_until_parked(&office);
	assert_true(is_known(&office, "dies", 2));
	assert_int_equal(office.file.references, 1);
	assert_int_equal(office.lined, 0);
	close_office(&office);
}

static void what_waits_for_better_times_is_bounded(void **state)
{
	struct office office;

	open_strange_office(&office);
	for (uint64_t i = 1; i <= LIMIT_LINES_PARKED; i++)
		add_strange(&office, "dies", 1, i);
	run_until_parked(&office);
	assert_int_equal(office.file.references, 1 + LIMIT_LINES_PARKED / 2);
	assert_int_equal(lines_dropped(office.lines), LIMIT_LINES_PARKED / 2);
	close_office(&office);
}

static void what_a_helper_dies_of_leaves_others_alone(void **state)
{
	struct office office;

	open_strange_office(&office);
	add_strange(&office, "dies", 1, 1);
	run(&office);
	assert_int_equal(office.lined, 0);
	assert_true(is_known(&office, "dies", 2));
	add_strange(&office, "lies", 1, 1);
	run(&office);
	assert_int_equal(office.lined, 0);
	assert_false(is_known(&office, "lies", 2));
	close_office(&office);
}

static void one_user_leaves_room_for_others(void **state)
{
	struct office office;
	int taken = 0;

	open_strange_office(&office);
	snprintf(office.path, sizeof(office.path), "hangs");
	for (uint64_t i = 0; i < LIMIT_LINES_JOBS; i++)
		taken += lines_add(office.lines, new_job(&office, i)) == 0;
	assert_int_equal(taken, LIMIT_LINES_JOBS / 2);
	add_strange(&office, "fine", 2, 1);
	run_until(&office, 1);
	close_office(&office);
}

static void what_is_no_elf_file_has_no_lines(void **state)
{
	struct office office;

	open_office(&office, "/etc/passwd");
	add_job(&office);
	add_job(&office);
	run(&office);
	assert_int_equal(office.lined, 0);
	close_office(&office);
}

int main(void)
{
	static const struct spawn_role roles[] = { { "ts-helper", daemon_help } };
	static const struct helper_kind kinds[] = {
		[KIND_LINES] = { .run = lines_look, .per_user = 4, .once = true },
		[KIND_STRANGE] = { .run = look_strangely, .per_user = 4, .once = true },
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_in_an_inlined_function_has_two_places),
		cmocka_unit_test(debug_information_may_be_beside_the_file_of_the_same_build),
		cmocka_unit_test(what_dwz_moved_to_a_common_file_is_found),
		cmocka_unit_test(debug_information_may_be_in_the_root_of_the_process),
		cmocka_unit_test(broken_debug_information_is_no_news),
		cmocka_unit_test(truncated_debug_information_is_no_news),
		cmocka_unit_test(who_keeps_helpers_busy_waits_for_himself),
		cmocka_unit_test(what_did_not_end_is_tried_again),
		cmocka_unit_test(what_never_ends_is_tried_a_few_times),
		cmocka_unit_test(what_waits_for_better_times_is_bounded),
		cmocka_unit_test(what_a_helper_dies_of_leaves_others_alone),
		cmocka_unit_test(one_user_leaves_room_for_others),
		cmocka_unit_test(what_is_no_elf_file_has_no_lines),
	};

	helper_kinds(kinds, ARRAY_SIZE(kinds));
	if (spawn_start(roles, ARRAY_SIZE(roles), &zygote) < 0)
		return 1;
	return cmocka_run_group_tests(tests, setup, teardown);
}
