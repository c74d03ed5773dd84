/* test_maps_late: a process that could not be looked into in time is looked at again, as it may
 * never map anything more by which it would be noticed. The helpers are this test. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/helper/helper.h"
#include "daemon/maps/look.h"
#include "daemon/maps/maps.h"
#include "tests/unit/own_events.h"

#define GRACE_MS    20
#define DEADLINE_NS (60 * (uint64_t)NS_PER_S)
#define START	    0x10000

enum { LOOK = 3 };

struct helpers {
	struct helper_task *task; /* of a look that waits for its answer */
	uint32_t kind;		  /* of it: enum maps_look_kind */
	uint32_t asked;
};

struct world {
	uv_loop_t loop;
	struct helpers helpers;
	struct maps *maps;
	int library; /* its file */
	int found, settled, late;
	uint64_t memory; /* where the process has code without a file */
	bool closed;
};

int helpers_ask(struct helpers *helpers, struct helper_task *task, const void *request, size_t size,
		const int *fd, uint32_t fds)
{
	const struct maps_look *look = request;

	assert_int_equal(task->kind, LOOK);
	if (look->pid != (uint32_t)getpid())
		return -ECANCELED;
	helpers->kind = look->kind;
	helpers->task = task;
	helpers->asked++;
	return 0;
}

void helpers_cancel(struct helpers *helpers, struct helper_task *task)
{
	helpers->task = NULL;
}

static void on_found(void *data, struct maps_file *file, uint32_t pid)
{
	((struct world *)data)->found++;
}

static void on_gone(void *data, struct maps_file *file)
{
}

static void on_process_gone(void *data, uint32_t pid, uint64_t time_ns)
{
}

static void on_memory(void *data, uint32_t pid, uint64_t start)
{
	((struct world *)data)->memory = start;
}

static void on_late(void *data, uint32_t pid)
{
	assert_int_equal(pid, getpid());
	((struct world *)data)->late++;
}

static void on_settled(void *data, uint32_t pid)
{
	((struct world *)data)->settled++;
}

static void on_closed(void *data)
{
	((struct world *)data)->closed = true;
}

static int setup(void **state)
{
	static const struct maps_callbacks callbacks = { .library_found = on_found,
							 .library_gone = on_gone,
							 .memory = on_memory,
							 .settled = on_settled,
							 .late = on_late,
							 .process_gone = on_process_gone };
	struct world *world = calloc(1, sizeof(*world));
	const struct maps_config config = { .patterns = "libcuda.so*",
					    .ring_bytes = 64 << 10,
					    .max_processes = 4,
					    .max_mappings = 4,
					    .max_files = 4,
					    .grace_ms = GRACE_MS,
					    .helpers = &world->helpers,
					    .look_kind = LOOK,
					    .events = { .open = own_events_open } };

	log_set_level(LOG_LEVEL_ERROR);
	world->library = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(uv_loop_init(&world->loop), 0);
	assert_int_equal(maps_new(&world->loop, &config, &callbacks, world, &world->maps), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	maps_close(world->maps, on_closed);
	while (!world->closed)
		uv_run(&world->loop, UV_RUN_ONCE);
	uv_loop_close(&world->loop);
	close(world->library);
	free(world);
	return 0;
}

static void wait_asked(struct world *world, uint32_t times)
{
	const uint64_t end_ns = uv_hrtime() + DEADLINE_NS;

	/* A run that waits would do so after the timer that it is about, too, if that was late. */
	while (world->helpers.asked < times) {
		assert_true(uv_hrtime() < end_ns);
		uv_run(&world->loop, UV_RUN_NOWAIT);
		usleep(500);
	}
}

static void answer(struct world *world, int result)
{
	struct helper_task *task = TAKE(world->helpers.task);

	assert_non_null(task);
	task->done(task, result);
}

/* That it maps a driver library, and behind it memory. */
static void answer_library(struct world *world)
{
	const struct maps_record record = { .start = START,
					    .end = 2 * START,
					    .inode = 7,
					    .path = "/lib/libcuda.so.1" },
				 memory = { .start = 2 * START, .end = 3 * START, .path = "" };
	int fd = fcntl(world->library, F_DUPFD_CLOEXEC, 3);
	_Alignas(struct maps_looked) char message[512];
	struct maps_looked *looked = (struct maps_looked *)message;
	size_t size = 0;

	assert_int_equal(maps_looked_put(message, &size, sizeof(message), &record), 0);
	assert_int_equal(maps_looked_put(message, &size, sizeof(message), &memory), 0);
	looked->file = true;
	looked->fd = 0;
	looked->identity.inode = record.inode;
	world->helpers.task->message(world->helpers.task, message, size, &fd, 1);
	closep(&fd);
	answer(world, 0);
}

static void a_late_process_is_looked_at_again(void **state)
{
	struct world *world = *state;
	struct maps_file *file;
	uint64_t offset;
	struct maps_stats stats;

	assert_int_equal(maps_follow(world->maps, (uint32_t)getpid()), 0);
	for (uint32_t i = 1; i <= 3; i++) {
		wait_asked(world, i);
		assert_int_equal(world->helpers.kind, MAPS_LOOK_OPEN);
		answer(world, i % 2 ? -ETIMEDOUT : -EPIPE);
		/* Nobody waits for the next time. */
		assert_int_equal(world->settled, i);
	}
	wait_asked(world, 4);
	assert_int_equal(world->found, 0);
	answer_library(world);
	assert_int_equal(world->found, 1);
	assert_int_equal(world->memory, 2 * START); /* as at the first look */
	assert_int_equal(
		maps_resolve(world->maps, (uint32_t)getpid(), UINT64_MAX, START, &file, &offset),
		0);
	maps_stats(world->maps, &stats);
	assert_int_equal(stats.late, 3);
	assert_int_equal(world->late, 3);
}

/* Where the kernel reports mappings, nobody would search it again otherwise. */
static void the_host_is_searched_again_for_who_was_late(void **state)
{
	struct world *world = *state;
	struct maps_stats stats;

	maps_stats(world->maps, &stats);
	if (!stats.live)
		skip();
	assert_int_equal(maps_scan(world->maps), 0);
	wait_asked(world, 1);
	assert_int_equal(world->helpers.kind, MAPS_LOOK_SEARCH);
	assert_int_equal(maps_unlooked(world->maps), 1);
	answer(world, -ETIMEDOUT);
	assert_int_equal(maps_unlooked(world->maps), 1);
	wait_asked(world, 2);
	answer(world, 1);
	assert_int_equal(maps_unlooked(world->maps), 0);
	wait_asked(world, 3);
	assert_int_equal(world->helpers.kind, MAPS_LOOK_OPEN);
	answer_library(world);
	assert_int_equal(world->found, 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_late_process_is_looked_at_again, setup, teardown),
		cmocka_unit_test_setup_teardown(the_host_is_searched_again_for_who_was_late, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
