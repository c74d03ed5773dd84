/* test_python: stacks of other processes' Python are equal to what Python itself says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "daemon/python/merge.h"
#include "daemon/python/python.h"
#include "tests/unit/python_fixture.h"

#define DEADLINE_NS (60 * NS_PER_S)
#define PAUSE_US    1000 /* it may need the processor that we look from */
#define TEXT_ROOM   4096

static void frame_text(const struct python_frame *frame, char *text, size_t size)
{
	snprintf(text, size, "%s|%s|%d", frame->code->function, frame->code->file, frame->line);
}

static const struct python_stack *stack_of(const struct python_snapshot *snapshot, uint32_t tid,
					   bool main_interpreter)
{
	for (size_t i = 0; i < snapshot->stack_count; i++)
		if (snapshot->stack[i].tid == tid &&
		    (snapshot->stack[i].interpreter == 0) == main_interpreter)
			return &snapshot->stack[i];
	return NULL;
}

static size_t compare(const struct python_snapshot *snapshot, const struct truth_thread *truth)
{
	const struct python_stack *stack = stack_of(snapshot, truth->tid, true);
	char text[2 * TEXT_SIZE];

	assert_non_null(stack);
	assert_false(stack->moving || stack->cut || stack->broken);
	for (size_t i = 0; i < truth->count && i < stack->count; i++) {
		/* Control characters are not shown. */
		if (strchr(truth->frame[i], '\t'))
			continue;
		frame_text(&snapshot->frame[stack->first + i], text, sizeof(text));
		assert_string_equal(text, truth->frame[i]);
	}
	assert_int_equal(stack->count, truth->count);
	/* A loop was entered with the outermost frame, or what is behind it. */
	assert_true(snapshot->mark[stack->first_mark + stack->mark_count - 1] & MERGE_ENTRY);
	return truth->count;
}

static struct python *open_parked(const struct parked *parked)
{
	struct python *python = NULL;
	uint32_t version;
	int r = python_open((uint32_t)parked->pid, &python, &version);

	if (r < 0)
		fail_msg("process %d: %s; it %s", parked->pid, strerror(-r),
			 waitpid(parked->child, NULL, WNOHANG) == 0 ? "runs" : "has ended");
	return python;
}

/* Cut off where one of its threads has just ended. */
static void take_any(struct python *python, const struct parked *parked,
		     struct python_snapshot *ret)
{
	uint32_t tid[TIDS_MAX];
	size_t count = parked_tids(parked, tid);

	assert_int_equal(python_take(python, tid, count, ret), 0);
}

static void take(struct python *python, const struct parked *parked, struct python_snapshot *ret)
{
	take_any(python, parked, ret);
	assert_false(ret->cut);
}

/* Its first thread sleeps, and not only is about to. */
static bool is_asleep(const struct parked *parked)
{
	char path[64];
	long call = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", parked->pid);
	file = fopen(path, "re");
	assert_non_null(file);
	if (fscanf(file, "%ld", &call) != 1) /* "running" */
		call = -1;
	fclose(file);
	return call == SYS_clock_nanosleep;
}

/* Until its first thread has returned from saying where all are. */
static void wait_until_parked(struct python *python, const struct parked *parked)
{
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct python_snapshot snapshot;
	const struct python_frame *frame;
	const struct python_stack *first;
	bool parks = false;

	while (!parks && clock_ns(CLOCK_MONOTONIC) < end_ns) {
		take(python, parked, &snapshot);
		first = stack_of(&snapshot, (uint32_t)parked->pid, true);
		frame = first && first->count ? &snapshot.frame[first->first] : NULL;
		parks = frame && strcmp(frame->code->function, "main") == 0 && is_asleep(parked);
		python_snapshot_clear(&snapshot);
		usleep(PAUSE_US);
	}
	assert_true(parks);
}

static void check_equal(const char *executable, const char *version, const char *how)
{
	struct python_snapshot snapshot;
	struct python *python;
	struct parked parked;
	size_t frames = 0;

	assert_true(parked_start(&parked, executable, how));
	python = open_parked(&parked);
	wait_until_parked(python, &parked);
	/* Twice: new, and known already. */
	for (int i = 0; i < 2; i++) {
		frames = 0;
		take(python, &parked, &snapshot);
		assert_int_equal(snapshot.stack_count, parked.count);
		for (size_t k = 0; k < parked.count; k++)
			frames += compare(&snapshot, &parked.thread[k]);
		python_snapshot_clear(&snapshot);
	}
	print_message("Python %s (%u.%u.%u), %s: %zu threads and %zu frames are equal\n", version,
		      python_version(python) >> 24, python_version(python) >> 16 & 255,
		      python_version(python) >> 8 & 255, how, parked.count, frames);
	assert_true(parked.count > 10 && frames > 100);
	python_free(python);
	parked_stop(&parked);
}

static void check_threads(const char *python, const char *version)
{
	check_equal(python, version, "threads");
}

static void check_fork(const char *python, const char *version)
{
	check_equal(python, version, "fork");
}

static void test_stacks_are_those_that_python_says(void **state)
{
	each_python(check_threads);
}

static void test_a_child_without_exec_has_its_own_threads(void **state)
{
	each_python(check_fork);
}

static size_t from_hex(const char *hex, uint8_t *bytes, size_t room)
{
	size_t count = 0;

	for (; count < room && sscanf(hex + 2 * count, "%2hhx", &bytes[count]) == 1; count++)
		;
	return count;
}

static void check_lines(const char *executable, const char *version)
{
	static uint8_t table[65536];
	const struct find *find;
	struct parked parked;
	struct python *python;
	size_t size = 0, checked = 0;
	int first = 0, from, to, line, hex;

	assert_true(parked_start(&parked, executable, "threads"));
	python = open_parked(&parked);
	find = python_found(python);
	for (size_t i = 0; i < parked.line_count; i++) {
		hex = 0;
		if (sscanf(parked.line[i], "code %d %n", &first, &hex) == 1)
			size = from_hex(parked.line[i] + hex, table, sizeof(table));
		if (sscanf(parked.line[i], "range %d %d %d", &from, &to, &line) != 3)
			continue;
		for (int at = from; at < to; at += 2, checked++)
			assert_int_equal(lines_find(find->layout.lines, table, size, first, at),
					 line);
	}
	print_message("Python %s: %zu instructions have their lines\n", version, checked);
	assert_true(checked > 5000);
	python_free(python);
	parked_stop(&parked);
}

static void test_each_instruction_has_its_line(void **state)
{
	each_python(check_lines);
}

/* Its thread has a stack in each interpreter. */
static bool is_told_apart(const struct python_snapshot *snapshot)
{
	const struct python_stack *inner = NULL, *outer;

	for (size_t i = 0; i < snapshot->stack_count; i++)
		if (snapshot->stack[i].interpreter != 0 && snapshot->stack[i].count)
			inner = &snapshot->stack[i];
	if (!inner || snapshot->frame[inner->first].line != 3)
		return false;
	assert_int_equal(inner->count, 1);
	assert_string_equal(snapshot->frame[inner->first].code->function, "<module>");
	outer = stack_of(snapshot, inner->tid, true);
	assert_non_null(outer);
	assert_string_equal(snapshot->frame[outer->first].code->function, "subinterpreter");
	return true;
}

static void tell(const struct python_snapshot *snapshot, char *text, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < snapshot->stack_count && used < size; i++) {
		const struct python_stack *stack = &snapshot->stack[i];
		const struct python_frame *first =
			stack->count ? &snapshot->frame[stack->first] : NULL;

		used += (size_t)snprintf(
			text + used, size - used, " %u in %d: %zu%s%s%s frames, %s:%d;", stack->tid,
			(int)stack->interpreter, stack->count, stack->moving ? " moving" : "",
			stack->broken ? " broken" : "", stack->cut ? " cut" : "",
			first ? first->code->function : "", first ? first->line : 0);
	}
}

static void check_subinterpreter(const char *executable, const char *version)
{
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	struct python_snapshot snapshot;
	struct python *python;
	struct parked parked;
	char last[1024] = "";
	bool done = false;

	assert_true(parked_start(&parked, executable, "subinterpreter"));
	python = open_parked(&parked);
	while (!done && clock_ns(CLOCK_MONOTONIC) < end_ns) {
		take_any(python, &parked, &snapshot);
		done = !snapshot.cut && is_told_apart(&snapshot);
		if (!done)
			tell(&snapshot, last, sizeof(last));
		python_snapshot_clear(&snapshot);
		usleep(PAUSE_US);
	}
	if (!done)
		fail_msg("Python %s, last seen:%s", version, last);
	python_free(python);
	parked_stop(&parked);
}

static void test_subinterpreters_are_told_apart(void **state)
{
	each_python(check_subinterpreter);
}

static int append_local(void *data, const char *name, const char *value)
{
	char *text = data;
	size_t length = strlen(text);

	snprintf(text + length, TEXT_ROOM - length, "%s=%s;", name, value);
	return 0;
}

static void locals_of(struct python *python, const struct python_snapshot *snapshot,
		      const char *function, char text[TEXT_ROOM])
{
	for (size_t i = 0; i < snapshot->frame_count; i++) {
		const struct python_frame *frame = &snapshot->frame[i];

		if (strcmp(frame->code->function, function) != 0)
			continue;
		text[0] = '\0';
		assert_int_equal(python_locals(python, frame, append_local, text), 0);
		return;
	}
	fail_msg("no frame of %s", function);
}

static void check_locals(const char *executable, const char *version)
{
	struct python_snapshot snapshot;
	struct python *python;
	struct parked parked;
	char text[TEXT_ROOM];

	assert_true(parked_start(&parked, executable, "threads"));
	python = open_parked(&parked);
	wait_until_parked(python, &parked);
	take(python, &parked, &snapshot);
	locals_of(python, &snapshot, "locals_of", text);
	assert_string_equal(text, "count=7;ratio=0.5;rest=tuple of 0;more=dict of 0;"
				  "text=\"a\ufffdb\ufffd[31m\";nothing=None;yes=True;"
				  "big=negative int of 210 bits;small=-12;many=list of 3;"
				  "pair=tuple of 2;table=dict of 1;group=set of 4;");
	locals_of(python, &snapshot, "in_cell", text);
	/* Up to 3.10 what is shared with an inner function is no local of the frame. */
	assert_string_equal(text, python_version(python) >> 16 < 0x030b
					  ? "user=<function>;"
					  : "user=<function>;captured=42;");
	python_snapshot_clear(&snapshot);
	python_free(python);
	parked_stop(&parked);
}

static void test_locals_are_told_in_a_few_words(void **state)
{
	each_python(check_locals);
}

static void test_processes_without_a_python_that_is_known(void **state)
{
	struct python *python = NULL;
	uint32_t version;
	glob_t found;
	pid_t child;

	assert_int_equal(python_open((uint32_t)getpid(), &python, &version), -ENOENT);
	child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	assert_int_equal(python_open((uint32_t)child, &python, &version), -ESRCH);
	for (int minor = 7; minor <= 8; minor++) {
		char pattern[64];
		struct parked parked;
		int out[2];

		snprintf(pattern, sizeof(pattern), "/root/.pyenv/versions/3.%d.*/bin/python3.%d",
			 minor, minor);
		if (glob(pattern, 0, NULL, &found) != 0)
			continue;
		assert_int_equal(pipe(out), 0);
		parked.child = fork();
		if (parked.child == 0) {
			dup2(out[1], STDOUT_FILENO);
			execl(found.gl_pathv[0], "python", "-c",
			      "import time; print(1, flush=True); time.sleep(1000)", NULL);
			_exit(127);
		}
		assert_int_equal(read(out[0], pattern, 1), 1);
		assert_int_equal(python_open((uint32_t)parked.child, &python, &version),
				 -EOPNOTSUPP);
		assert_int_equal(version, 0);
		kill(parked.child, SIGKILL);
		waitpid(parked.child, NULL, 0);
		close(out[0]);
		close(out[1]);
		globfree(&found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks_are_those_that_python_says),
		cmocka_unit_test(test_a_child_without_exec_has_its_own_threads),
		cmocka_unit_test(test_each_instruction_has_its_line),
		cmocka_unit_test(test_subinterpreters_are_told_apart),
		cmocka_unit_test(test_locals_are_told_in_a_few_words),
		cmocka_unit_test(test_processes_without_a_python_that_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
