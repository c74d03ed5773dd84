/* test_pythons: who asks for the names of Python's frames gets an answer, in order, also when a
 * process's memory does not answer. The readers of processes are doubles. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/proc/procfs.h"
#include "daemon/python/place.h"
#include "daemon/python/python.h"
#include "daemon/python/pythons.h"

#define PID	   4242
#define SILENT_PID 4243 /* its memory does not answer until it is let go */
#define PLACE	   0x310

/* What the doubles share with the test; `lock` guards it. */
static struct world {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool silent;
	uint32_t opened, closed;
	int error; /* of python_open() */
} world = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

struct python {
	uint32_t pid;
};

int python_open(uint32_t pid, struct python **ret, uint32_t *ret_version)
{
	int error;

	pthread_mutex_lock(&world.lock);
	while (pid == SILENT_PID && world.silent)
		pthread_cond_wait(&world.changed, &world.lock);
	error = world.error;
	world.opened += !error;
	pthread_mutex_unlock(&world.lock);
	if (error)
		return error;
	*ret = calloc(1, sizeof(**ret));
	assert_non_null(*ret);
	(*ret)->pid = pid;
	*ret_version = 0;
	return 0;
}

struct python *python_free(struct python *python)
{
	pthread_mutex_lock(&world.lock);
	world.closed += python != NULL;
	pthread_mutex_unlock(&world.lock);
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

int place_find(const struct find *find, struct peek *peek, struct probe_python *ret)
{
	*ret = (struct probe_python){ .state = PLACE };
	return 0;
}

int procfs_started_ticks(uint32_t pid, uint64_t *ret)
{
	*ret = pid;
	return 0;
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

static struct office {
	uv_loop_t loop;
	struct pythons *pythons;
	uint32_t found, answers;
	struct probe_python place;
	struct {
		void *stack;
		uint32_t count;
		struct pythons_name name[4];
		char function[4][8];
	} answer[8];
} office;

static void on_found(void *data, uint32_t pid, const struct probe_python *place)
{
	office.found++;
	office.place = *place;
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
	world.silent = false;
	world.error = 0;
	world.opened = world.closed = 0;
	return uv_loop_init(&office.loop) ||
	       pythons_new(&office.loop, &callbacks, &office, &office.pythons);
}

static void let_go(void)
{
	pthread_mutex_lock(&world.lock);
	world.silent = false;
	pthread_cond_broadcast(&world.changed);
	pthread_mutex_unlock(&world.lock);
}

static void close_all(void)
{
	pythons_close(office.pythons, NULL);
	office.pythons = NULL;
	let_go();
	uv_run(&office.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&office.loop), 0);
	assert_int_equal(world.opened, world.closed);
}

static int finish(void **state)
{
	if (office.pythons)
		close_all();
	return 0;
}

static void run_until(const uint32_t *number, uint32_t least)
{
	while (*number < least)
		uv_run(&office.loop, UV_RUN_ONCE);
}

static void ask(uint32_t pid, uint64_t stack, uint64_t first, uint32_t count)
{
	struct ts_python_frame frame[4] = { 0 };

	for (uint32_t i = 0; i < count; i++)
		frame[i].code = first + i;
	assert_int_equal(pythons_ask(office.pythons, pid, frame, count, (void *)(uintptr_t)stack),
			 0);
}

static void answers_come_in_order_with_names(void **state)
{
	struct pythons_stats stats;

	ask(PID, 1, 1, 3);
	ask(PID, 2, 10, 1);
	run_until(&office.answers, 2);
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
	assert_int_equal(pythons_asked(office.pythons), pythons_answered(office.pythons));
	/* One process is opened once, and again when it was forgotten. */
	assert_int_equal(world.opened, 1);
	pythons_look(office.pythons, PID, 1);
	run_until(&office.found, 1);
	pythons_forget(office.pythons, PID);
	ask(PID, 3, 10, 1);
	run_until(&office.answers, 3);
	assert_int_equal(world.opened, 3);
	assert_int_equal(world.closed, 2);
}

static void who_cannot_be_opened_gets_no_names(void **state)
{
	world.error = -ENOENT;
	ask(PID, 1, 10, 2);
	run_until(&office.answers, 1);
	assert_int_equal(office.answer[0].count, 2);
	assert_null(office.answer[0].name[0].function);
	assert_false(office.answer[0].name[0].hidden);
}

static void memory_that_does_not_answer_holds_up_nobody_for_ever(void **state)
{
	struct pythons_stats stats;

	world.silent = true;
	ask(SILENT_PID, 1, 10, 1);
	ask(PID, 2, 10, 1);
	run_until(&office.answers, 2);
	assert_int_equal((uintptr_t)office.answer[0].stack, 1);
	assert_null(office.answer[0].name[0].function);
	assert_int_equal((uintptr_t)office.answer[1].stack, 2);
	/* The late names are thrown away, and the next ones come again. */
	let_go();
	ask(PID, 3, 10, 1);
	run_until(&office.answers, 3);
	assert_int_equal((uintptr_t)office.answer[2].stack, 3);
	assert_string_equal(office.answer[2].function[0], "f");
	pythons_stats(office.pythons, &stats);
	assert_int_equal(stats.late, 2);
	assert_int_equal(office.answers, 3);
}

static void closing_answers_what_waits_at_once(void **state)
{
	world.silent = true;
	ask(SILENT_PID, 1, 10, 1);
	ask(PID, 2, 10, 1);
	pythons_close(office.pythons, NULL);
	assert_int_equal(office.answers, 2);
	let_go();
	office.pythons = NULL;
	uv_run(&office.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&office.loop), 0);
	assert_int_equal(office.answers, 2);
	assert_int_equal(world.opened, world.closed);
}

static void no_more_wait_than_there_is_room_for(void **state)
{
	const struct ts_python_frame frame[TS_STACK_PYTHON_MAX + 1] = { 0 };

	assert_int_equal(pythons_ask(office.pythons, PID, frame, TS_STACK_PYTHON_MAX + 1, &office),
			 -EAGAIN);
	world.silent = true;
	pythons_look(office.pythons, SILENT_PID, 1);
	for (uint32_t i = 1; i < LIMIT_PYTHON_JOBS; i++)
		pythons_look(office.pythons, SILENT_PID + i, 1);
	assert_int_equal(pythons_ask(office.pythons, PID, frame, 1, &office), -EAGAIN);
	assert_int_equal(office.answers, 0);
}

static void a_process_is_looked_at_again_now_and_then(void **state)
{
	uint64_t now_ns = NS_PER_S;

	world.error = -ENOENT;
	for (uint32_t i = 0; i < 2 * LIMIT_PYTHON_LOOKS; i++) {
		pythons_look(office.pythons, PID, now_ns);
		pythons_look(office.pythons, PID, now_ns + 1);
		/* Behind the look. */
		ask(PID, 1, 10, 1);
		run_until(&office.answers, 1);
		office.answers = 0;
		if (i == LIMIT_PYTHON_LOOKS - 2)
			world.error = 0;
		now_ns += 100 * NS_PER_S;
	}
	/* Found at the last look; it is not looked for again. */
	assert_int_equal(office.found, 1);
	assert_int_equal(office.place.state, PLACE);
	assert_int_equal(office.place.started_ticks, PID);
	/* Another program of it, that is not supported, is. */
	world.error = -EOPNOTSUPP;
	pythons_forget(office.pythons, PID);
	pythons_look(office.pythons, PID, now_ns);
	ask(PID, 1, 10, 1);
	run_until(&office.answers, 1);
	world.error = 0;
	pythons_look(office.pythons, PID, now_ns + 100 * NS_PER_S);
	assert_int_equal(office.found, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answers_come_in_order_with_names),
		TEST(who_cannot_be_opened_gets_no_names),
		TEST(memory_that_does_not_answer_holds_up_nobody_for_ever),
		TEST(closing_answers_what_waits_at_once),
		TEST(no_more_wait_than_there_is_room_for),
		TEST(a_process_is_looked_at_again_now_and_then),
	};

	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
