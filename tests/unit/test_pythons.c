/* test_pythons: who asks for the names of Python's frames gets an answer, in order, also when a
 * process's memory does not answer. The readers of processes and the helpers are doubles. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/proc/owner.h"
#include "daemon/proc/procfs.h"
#include "daemon/python/autograd.h"
#include "daemon/python/freeing.h"
#include "daemon/python/place.h"
#include "daemon/python/python.h"
#include "daemon/python/pythons.h"
#include "daemon/python/pythons_helper.h"

#define USER	   1000
#define PID	   4242
#define SILENT_PID 4243 /* its memory does not always answer */
#define PLACE	   0x310
#define FREEING	   0x1234

/* What the doubles share with the test. */
static struct world {
	bool late;   /* the helper is killed at its deadline */
	bool broken; /* it says what no helper says */
	uint32_t opened, closed;
	int error;  /* of python_open() */
	bool torch; /* the process has it */
} world;

struct python {
	uint32_t pid;
};

int python_open(uint32_t pid, struct python **ret, uint32_t *ret_version)
{
	if (world.error)
		return world.error;
	world.opened++;
	*ret = calloc(1, sizeof(**ret));
	assert_non_null(*ret);
	(*ret)->pid = pid;
	*ret_version = 0;
	return 0;
}

struct python *python_free(struct python *python)
{
	world.closed += python != NULL;
	free(python);
	return NULL;
}

const struct find *python_found(const struct python *python)
{
	return NULL;
}

void python_renew(struct python *python)
{
}

int place_find(const struct find *find, struct peek *peek, struct ts_python *ret)
{
	*ret = (struct ts_python){ .state = PLACE, .size = 1 };
	return 0;
}

int freeing_find(uint32_t pid, const struct find *find, struct peek *peek, int *ret_file,
		 uint64_t *ret_offset)
{
	if (world.torch)
		return -ENOENT;
	*ret_file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	*ret_offset = FREEING;
	return 0;
}

int autograd_find(uint32_t pid, struct peek *peek, struct ts_autograd *ret)
{
	if (!world.torch)
		return -ENOENT;
	ret->module = 1;
	return 0;
}

int procfs_started_ticks(uint32_t pid, uint64_t *ret)
{
	*ret = pid;
	return 0;
}

uint32_t procfs_living_thread(uint32_t pid)
{
	return pid;
}

uint32_t owner_of_process(uint32_t pid)
{
	return USER;
}

/* Frames are named by their code; those of 1 are hidden, those of 2 gone. */
int python_name(struct python *python, const struct ts_python_frame *frame,
		struct python_frame *ret)
{
	static const struct code code = { .function = "f", .file = "f.py" };

	if (frame->code <= 2)
		return frame->code == 1 ? 1 : -ESTALE;
	ret->code = &code;
	ret->line = (int32_t)frame->code;
	return 0;
}

/* The helper: tasks wait until the test has it do them. */
static struct helper_task *task[LIMIT_PYTHON_JOBS + 1];
static struct pythons_order order[LIMIT_PYTHON_JOBS + 1];
static size_t order_size[LIMIT_PYTHON_JOBS + 1];
static uint32_t tasks, doing;

int helpers_ask(struct helpers *helpers, struct helper_task *asked, const void *request,
		size_t size, const int *fd, uint32_t fds)
{
	assert_true(size <= sizeof(order[0]));
	memcpy(&order[tasks], request, size);
	order_size[tasks] = size;
	task[tasks++] = asked;
	return 0;
}

void helpers_cancel(struct helpers *helpers, struct helper_task *cancelled)
{
	for (uint32_t i = doing; i < tasks; i++)
		if (task[i] == cancelled)
			task[i] = NULL;
}

int helper_say(int socket, const void *data, size_t size, const int *fd, uint32_t fds)
{
	int given = fds ? dup(fd[0]) : -1;
	char *copy = malloc(size);

	assert_non_null(copy);
	memcpy(copy, data, size);
	if (world.broken)
		memset(copy, 0x55, size);
	/* Every end of it: the reader stays inside of it, also where it is cut. */
	for (size_t cut = 0; world.broken && cut < size; cut++) {
		char *part = malloc(cut + 1);

		assert_non_null(part);
		memcpy(part, data, cut);
		task[doing]->message(task[doing], part, cut, NULL, 0);
		free(part);
	}
	task[doing]->message(task[doing], copy, size, &given, fds);
	closep(&given);
	free(copy);
	return 0;
}

static void help(void)
{
	for (; doing < tasks; doing++) {
		int r = -ETIMEDOUT;

		if (!world.late)
			r = pythons_help(-1, &order[doing], order_size[doing], NULL, 0);
		task[doing]->done(task[doing], r);
	}
	tasks = doing = 0;
}

static struct office {
	struct pythons *pythons;
	uint32_t found, answers;
	struct ts_python place;
	int file;
	uint64_t freeing;
	struct {
		void *stack;
		uint32_t count;
		struct pythons_name name[4];
		char function[4][8];
	} answer[8];
} office;

static void on_found(void *data, struct pythons_found *found)
{
	assert_int_equal(found->user, USER);
	office.found++;
	office.place = found->place;
	office.file = found->file;
	office.freeing = found->freeing;
}

static void on_named(void *data, void *stack, const struct ts_python_frame *frame,
		     struct pythons_name *name, uint32_t count)
{
	uint32_t at = office.answers++;

	assert_ptr_equal(data, &office);
	assert_true(at < 8 && count <= 4);
	office.answer[at].stack = stack;
	office.answer[at].count = count;
	for (uint32_t i = 0; i < count; i++) {
		office.answer[at].name[i] = name[i];
		if (name[i].function)
			strcpy(office.answer[at].function[i], name[i].function);
	}
}

static int prepare(void **state)
{
	static const struct pythons_callbacks callbacks = { on_found, on_named };

	memset(&office, 0, sizeof(office));
	world = (struct world){ 0 };
	tasks = doing = 0;
	return pythons_new(NULL, 0, &callbacks, &office, &office.pythons);
}

static int finish(void **state)
{
	office.pythons = pythons_free(office.pythons);
	return 0;
}

static int try(uint32_t pid, uint64_t stack, uint64_t first, uint32_t count)
{
	struct ts_python_frame frame[4] = { 0 };

	for (uint32_t i = 0; i < count; i++)
		frame[i].code = first + i;
	return pythons_ask(office.pythons, pid, USER, frame, count, (void *)(uintptr_t)stack);
}

static void ask(uint32_t pid, uint64_t stack, uint64_t first, uint32_t count)
{
	assert_int_equal(try(pid, stack, first, count), 0);
}

static void answers_come_in_order_with_names(void **state)
{
	struct pythons_stats stats;
	uint32_t opened;

	pythons_look(office.pythons, PID, 1);
	help();
	assert_int_equal(office.found, 1);
	assert_true(office.file >= 0);
	assert_int_equal(office.freeing, FREEING);
	opened = world.opened;
	ask(PID, 1, 1, 3);
	ask(PID, 2, 10, 1);
	assert_int_equal(pythons_answered(office.pythons), 0);
	help();
	assert_int_equal((uintptr_t)office.answer[0].stack, 1);
	assert_int_equal(office.answer[0].count, 3);
	assert_true(office.answer[0].name[0].hidden);
	assert_null(office.answer[0].name[1].function);
	assert_false(office.answer[0].name[1].hidden);
	assert_string_equal(office.answer[0].function[2], "f");
	assert_int_equal(office.answer[0].name[2].line, 3);
	assert_int_equal((uintptr_t)office.answer[1].stack, 2);
	assert_int_equal(office.answer[1].name[0].line, 10);
	pythons_stats(office.pythons, &stats);
	assert_int_equal(stats.named, 3);
	assert_int_equal(stats.gone, 1);
	assert_int_equal(pythons_asked(office.pythons), 2);
	assert_int_equal(pythons_answered(office.pythons), 2);
	/* It was opened for the look, and is again for another program. */
	assert_int_equal(world.opened, opened);
	pythons_forget(office.pythons, PID);
	pythons_look(office.pythons, PID, 1);
	help();
	assert_int_equal(world.opened, opened + 1);
	ask(PID, 3, 10, 1);
	help();
	assert_int_equal(office.answers, 3);
	assert_int_equal(world.opened, opened + 1);
}

static void of_an_unknown_process_nothing_is_kept(void **state)
{
	uint32_t opened = world.opened;

	ask(PID, 1, 10, 1);
	ask(PID, 2, 10, 1);
	help();
	assert_int_equal(office.answers, 2);
	assert_string_equal(office.answer[1].function[0], "f");
	assert_int_equal(world.opened, opened + 2);
}

static void who_cannot_be_opened_gets_no_names(void **state)
{
	world.error = -ENOENT;
	ask(PID + 1, 1, 10, 2);
	help();
	assert_int_equal(office.answer[0].count, 2);
	assert_null(office.answer[0].name[0].function);
	assert_false(office.answer[0].name[0].hidden);
}

static void memory_that_does_not_answer_is_left_alone(void **state)
{
	struct pythons_stats stats;

	pythons_look(office.pythons, SILENT_PID, 1);
	pythons_look(office.pythons, PID, 1);
	help();
	world.late = true;
	ask(SILENT_PID, 1, 10, 1);
	ask(PID, 2, 10, 1);
	help();
	assert_int_equal(office.answers, 2);
	assert_int_equal((uintptr_t)office.answer[0].stack, 1);
	assert_null(office.answer[0].name[0].function);
	pythons_stats(office.pythons, &stats);
	assert_int_equal(stats.late, 2);
	assert_int_equal(stats.gone, 0);
	world.late = false;
	assert_int_equal(try(SILENT_PID, 3, 10, 1), -EAGAIN);
	/* Another program may behave. */
	pythons_forget(office.pythons, SILENT_PID);
	ask(SILENT_PID, 3, 10, 1);
	help();
	assert_string_equal(office.answer[2].function[0], "f");
}

static void who_only_waits_is_not_left_alone(void **state)
{
	pythons_look(office.pythons, SILENT_PID, 1);
	pythons_look(office.pythons, PID, 1);
	help();
	ask(SILENT_PID, 1, 10, 1);
	ask(PID, 2, 10, 1);
	/* As the helpers do: those that wait behind it are late first. */
	task[1]->done(task[1], -ETIMEDOUT);
	assert_int_equal(pythons_answered(office.pythons), 0);
	task[0]->done(task[0], -ETIMEDOUT);
	tasks = 0;
	assert_int_equal(pythons_answered(office.pythons), 2);
	assert_int_equal(try(SILENT_PID, 3, 10, 1), -EAGAIN);
	ask(PID, 3, 10, 1);
	help();
	assert_string_equal(office.answer[2].function[0], "f");
}

static void a_broken_helper_breaks_nothing(void **state)
{
	world.broken = true;
	ask(PID, 1, 1, 4);
	help();
	assert_int_equal(office.answers, 1);
	pythons_look(office.pythons, PID, 1);
	help();
}

static void closing_answers_what_waits_at_once(void **state)
{
	ask(SILENT_PID, 1, 10, 1);
	pythons_look(office.pythons, PID, 1);
	ask(PID, 2, 10, 1);
	office.pythons = pythons_free(office.pythons);
	assert_int_equal(office.answers, 2);
	for (uint32_t i = 0; i < tasks; i++)
		assert_null(task[i]);
}

static void no_more_wait_than_a_user_has_room_for(void **state)
{
	const struct ts_python_frame frame[TS_STACK_PYTHON_MAX + 1] = { 0 };

	assert_int_equal(
		pythons_ask(office.pythons, PID, USER, frame, TS_STACK_PYTHON_MAX + 1, &office),
		-EAGAIN);
	for (uint32_t i = 0; i < LIMIT_PYTHON_JOBS; i++)
		pythons_look(office.pythons, SILENT_PID + i, 1);
	assert_int_equal(tasks, LIMIT_PYTHON_JOBS / 2);
	assert_int_equal(try(PID, 1, 10, 1), -EAGAIN);
	/* Somebody else has some left. */
	assert_int_equal(pythons_ask(office.pythons, PID, USER + 1, frame, 1, &office), 0);
	office.pythons = pythons_free(office.pythons);
	assert_int_equal(office.answers, 1);
}

static void a_process_is_looked_at_again_now_and_then(void **state)
{
	uint64_t now_ns = NS_PER_S;

	world.error = -ENOENT;
	for (uint32_t i = 0; i < 2 * LIMIT_PYTHON_LOOKS; i++) {
		pythons_look(office.pythons, PID, now_ns);
		pythons_look(office.pythons, PID, now_ns + 1);
		assert_int_equal(tasks, i <= LIMIT_PYTHON_LOOKS);
		help();
		if (i == LIMIT_PYTHON_LOOKS - 2)
			world.error = 0;
		now_ns += 100 * NS_PER_S;
	}
	/* Found at the last but one look; the last is for PyTorch. */
	assert_int_equal(office.found, 1);
	assert_int_equal(office.place.state, PLACE);
	assert_int_equal(office.place.started_ticks, PID);
	/* Another program of it, that is not supported, is. */
	world.error = -EOPNOTSUPP;
	pythons_forget(office.pythons, PID);
	pythons_look(office.pythons, PID, now_ns);
	assert_int_equal(tasks, 1);
	help();
	world.error = 0;
	pythons_look(office.pythons, PID, now_ns + 100 * NS_PER_S);
	assert_int_equal(tasks, 0);
	assert_int_equal(office.found, 1);
}

static void a_program_without_python_may_have_pytorch(void **state)
{
	world.error = -ENOENT;
	world.torch = true;
	pythons_look(office.pythons, PID, NS_PER_S);
	help();
	assert_int_equal(office.found, 1);
	assert_int_equal(office.place.autograd.module, 1);
	assert_int_equal(office.place.size, 0);
	/* Python may come later. */
	world.error = 0;
	pythons_look(office.pythons, PID, 100 * NS_PER_S);
	help();
	assert_int_equal(office.found, 2);
	assert_int_equal(office.place.state, PLACE);
	pythons_look(office.pythons, PID, 200 * NS_PER_S);
	assert_int_equal(tasks, 0);
}

static void pytorch_may_come_after_python(void **state)
{
	struct pythons_stats stats;

	pythons_look(office.pythons, PID, NS_PER_S);
	help();
	assert_int_equal(office.found, 1);
	assert_int_equal(office.place.autograd.module, 0);
	/* Nothing new is not told. */
	pythons_look(office.pythons, PID, 100 * NS_PER_S);
	help();
	assert_int_equal(office.found, 1);
	world.torch = true;
	pythons_look(office.pythons, PID, 200 * NS_PER_S);
	help();
	assert_int_equal(office.found, 2);
	assert_int_equal(office.place.state, PLACE);
	assert_int_equal(office.place.autograd.module, 1);
	pythons_look(office.pythons, PID, 300 * NS_PER_S);
	assert_int_equal(tasks, 0);
	pythons_stats(office.pythons, &stats);
	assert_int_equal(stats.found, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answers_come_in_order_with_names),
		TEST(of_an_unknown_process_nothing_is_kept),
		TEST(who_cannot_be_opened_gets_no_names),
		TEST(memory_that_does_not_answer_is_left_alone),
		TEST(who_only_waits_is_not_left_alone),
		TEST(a_broken_helper_breaks_nothing),
		TEST(closing_answers_what_waits_at_once),
		TEST(no_more_wait_than_a_user_has_room_for),
		TEST(a_process_is_looked_at_again_now_and_then),
		TEST(a_program_without_python_may_have_pytorch),
		TEST(pytorch_may_come_after_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
