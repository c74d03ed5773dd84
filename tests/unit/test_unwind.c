/* Unwinding: stacks of programs without frame pointers, from registers and a copy of the stack,
 * held against what the C library finds. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bpf/probe.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/unwind/frames.h"
#include "daemon/unwind/walk.h"
#include "tests/unit/unwind_dump.h"

#define MAPPINGS 128

struct mapping {
	uint64_t start, end, offset;
	struct frames frames;
};

/* A process as its dump has it. */
struct process {
	struct mapping mapping[MAPPINGS];
	size_t count;
	struct unwind_dump dump;
	uint64_t filed; /* addresses whose rules were told */
};

static char directory[64];

static void run(char *const arguments[])
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execv(arguments[0], arguments);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void load_maps(struct process *process)
{
	char path[128], line[1024], name[1024];
	struct mapping m;
	FILE *file;

	snprintf(path, sizeof(path), "%s/maps", directory);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		int fd;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*2cx%*c %" SCNx64 " %*s %*s %1023[^\n]",
			   &m.start, &m.end, &m.offset, name) != 4 ||
		    name[0] != '/')
			continue;
		fd = open(name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || frames_open(&m.frames, fd) < 0)
			continue;
		assert_true(process->count < MAPPINGS);
		process->mapping[process->count++] = m;
	}
	fclose(file);
}

static struct process *process_load(const char *name)
{
	struct process *process = calloc(1, sizeof(*process));
	char path[128];
	FILE *file;

	assert_non_null(process);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s was not written", name);
	assert_int_equal(fread(&process->dump, sizeof(process->dump), 1, file), 1);
	fclose(file);
	load_maps(process);
	return process;
}

static void process_free(struct process *process)
{
	for (size_t i = 0; i < process->count; i++)
		close(process->mapping[i].frames.fd);
	free(process);
}

static int rule(void *data, uint64_t pc, bool returned, struct rule *ret)
{
	const struct process *process = data;

	pc -= returned;
	for (size_t i = 0; i < process->count; i++) {
		const struct mapping *m = &process->mapping[i];
		uint64_t address;

		if (pc < m->start || pc >= m->end)
			continue;
		if (frames_address(&m->frames, m->offset + (pc - m->start), &address) < 0)
			return -ENOENT;
		*ret = frames_rule(&m->frames, address);
		return 0;
	}
	return -ENOENT;
}

static bool word(void *data, uint64_t at, uint64_t *ret)
{
	const struct process *process = data;
	const struct unwind_dump *dump = &process->dump;
	const struct walk_copy copy = { dump->sp, dump->stack, dump->size, 0 };
	const struct walk_copy other = { dump->other, dump->other_stack, dump->other_size, 0 };

	return walk_copy_word(&copy, at, ret) || walk_copy_word(&other, at, ret);
}

static void used(void *data, uint64_t pc, bool returned, struct rule rule_used)
{
	((struct process *)data)->filed++;
}

static struct walk process_walk(struct process *process, uint64_t *frame, uint32_t max)
{
	const struct walk_source source = {
		.data = process, .rule = rule, .word = word, .used = used
	};
	const struct walk_registers at = { process->dump.pc, process->dump.sp, process->dump.bp };
	struct walk ret;

	walk(&source, at, false, frame, max, &ret);
	return ret;
}

/* The truth's first frame is another address of the same function. */
static void assert_frames(const char *name, const struct process *process, const uint64_t *frame,
			  uint32_t count)
{
	for (uint32_t i = 1; i < count && i < process->dump.frames; i++)
		if (frame[i] != process->dump.frame[i])
			fail_msg("%s: frame %u is %#" PRIx64 ", not %#" PRIx64, name, i, frame[i],
				 process->dump.frame[i]);
}

/* As long as the truth, and equal to it. `frames`: at least so many. */
static void assert_equal(const char *name, uint32_t frames, enum ts_stack_end end)
{
	struct process *process = process_load(name);
	uint64_t frame[DUMP_FRAMES];
	struct walk walked = process_walk(process, frame, DUMP_FRAMES);

	assert_frames(name, process, frame, walked.count);
	if (walked.count != process->dump.frames || walked.end != end)
		fail_msg("%s: %u of %u frames, end %d", name, walked.count, process->dump.frames,
			 walked.end);
	assert_false(walked.linked);
	assert_true(walked.count >= frames);
	assert_int_equal(process->filed, walked.count);
	process_free(process);
}

static void stacks_of_traps_are_whole(void **state)
{
	static const struct {
		const char *name;
		uint32_t frames;
	} rows[] = {
		{ "plain", 5 },	   { "signal", 8 },  { "signal-stack", 8 }, { "fault", 7 },
		{ "variable", 5 }, { "aligned", 5 }, { "large", 5 },	    { "callback", 6 },
		{ "thread", 5 },   { "deep", 65 },   { "longjmp", 5 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_equal(rows[i].name, rows[i].frames, TS_END_COMPLETE);
	/* The C library's start of a coroutine has no rule. */
	assert_equal("coroutine", 4, TS_END_NO_RULE);
}

static void a_stack_that_was_not_copied_ends_there(void **state)
{
	struct process *process = process_load("signal-stack");
	uint64_t frame[DUMP_FRAMES];
	struct walk walked;

	process->dump.other_size = 0;
	walked = process_walk(process, frame, DUMP_FRAMES);
	assert_frames("signal-stack", process, frame, walked.count);
	assert_int_equal(walked.end, TS_END_UNREADABLE);
	assert_in_range(walked.count, 4, process->dump.frames - 1);
	process->dump.size = 100;
	walked = process_walk(process, frame, DUMP_FRAMES);
	assert_int_equal(walked.end, TS_END_UNREADABLE);
	process_free(process);
}

static void a_walk_has_no_more_frames_than_there_is_room_for(void **state)
{
	struct process *process = process_load("deep");
	uint64_t frame[20];
	struct walk walked = process_walk(process, frame, ARRAY_SIZE(frame));

	assert_int_equal(walked.count, ARRAY_SIZE(frame));
	assert_int_equal(walked.end, TS_END_DEPTH);
	assert_frames("deep", process, frame, walked.count);
	process_free(process);
}

/* From what is compiled at run time frame pointers lead on, and the stack says so. */
static void frame_pointers_lead_out_of_compiled_code(void **state)
{
	struct process *process = process_load("compiled");
	uint64_t frame[DUMP_FRAMES];
	struct walk walked = process_walk(process, frame, DUMP_FRAMES);

	assert_int_equal(walked.end, TS_END_COMPLETE);
	assert_true(walked.linked);
	assert_true(walked.count >= 7);
	process_free(process);
}

static void without_a_rule_or_a_frame_pointer_a_stack_ends(void **state)
{
	static const struct {
		const char *name;
		enum ts_stack_end end;
	} rows[] = { { "compiled-bare", TS_END_NO_MAPPING }, { "unknown", TS_END_NO_RULE } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct process *process = process_load(rows[i].name);
		uint64_t frame[DUMP_FRAMES];
		struct walk walked = process_walk(process, frame, DUMP_FRAMES);

		assert_int_equal(walked.end, rows[i].end);
		assert_int_equal(walked.count, 3);
		assert_false(walked.linked);
		process_free(process);
	}
}

/* Through the interpreter and libffi. */
static void stacks_of_python_are_whole(void **state)
{
	char script[512];
	char *const arguments[] = { "/usr/bin/python3", "-c", script, NULL };

	if (access(arguments[0], X_OK) != 0)
		skip();
	snprintf(script, sizeof(script),
		 "import ctypes\n"
		 "dump = ctypes.CDLL('%s').unwind_dump\n"
		 "def inner(n):\n"
		 "    return dump(b'%s', b'python', ctypes.c_uint64(0)) if n == 0 else max([n], "
		 "key=lambda _: inner(n - 1)) and 0\n"
		 "exit(inner(3))\n",
		 UNWIND_DUMP, directory);
	run(arguments);
	assert_equal("python", 20, TS_END_COMPLETE);
}

/* Whatever the stack holds, the walk ends, within its memory. */
static void a_stack_of_anything_does_no_harm(void **state)
{
	struct process *process = process_load("deep");
	uint64_t frame[DUMP_FRAMES];
	uint32_t seed = 1;

	for (int round = 0; round < 2000; round++) {
		for (size_t i = 0; i < 64; i++) {
			seed = seed * 1664525 + 1013904223;
			process->dump.stack[seed >> 8 & 2047] = (uint8_t)(seed >> 24);
		}
		assert_in_range(process_walk(process, frame, DUMP_FRAMES).count, 1, DUMP_FRAMES);
	}
	process_free(process);
}

static int setup(void **state)
{
	char *const arguments[] = { UNWIND_TARGET, directory, NULL };

	strcpy(directory, "/tmp/test_unwind.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	run(arguments);
	return 0;
}

static int teardown(void **state)
{
	char *const arguments[] = { "/bin/rm", "-r", directory, NULL };

	run(arguments);
	return 0;
}

static void a_page_that_is_missing_has_no_words(void **state)
{
	static const uint8_t bytes[3 * PROBE_MISS_PAGE] = { [PROBE_MISS_PAGE - 1] = 1,
							    [2 * PROBE_MISS_PAGE] = 2 };
	const struct walk_copy copy = { 0x10000, bytes, sizeof(bytes), 1 << 1 };
	uint64_t word;

	assert_true(walk_copy_word(&copy, 0x10ff8, &word));
	assert_int_equal(word, 1ull << 56);
	assert_false(walk_copy_word(&copy, 0x10ffc, &word));
	assert_false(walk_copy_word(&copy, 0x11000, &word));
	assert_false(walk_copy_word(&copy, 0x11ff8, &word));
	assert_true(walk_copy_word(&copy, 0x12000, &word));
	assert_int_equal(word, 2);
	assert_false(walk_copy_word(&copy, 0x13000, &word));
	assert_false(walk_copy_word(&copy, 0xfff8, &word));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_of_traps_are_whole),
		cmocka_unit_test(a_stack_that_was_not_copied_ends_there),
		cmocka_unit_test(a_walk_has_no_more_frames_than_there_is_room_for),
		cmocka_unit_test(frame_pointers_lead_out_of_compiled_code),
		cmocka_unit_test(without_a_rule_or_a_frame_pointer_a_stack_ends),
		cmocka_unit_test(a_stack_of_anything_does_no_harm),
		cmocka_unit_test(stacks_of_python_are_whole), /* its mappings replace the others' */
		cmocka_unit_test(a_page_that_is_missing_has_no_words),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
