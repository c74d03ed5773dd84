/* maps_fixture.h: a world that maps files: real child processes, and a loop that listens. */
#ifndef TS_MAPS_FIXTURE_H
#define TS_MAPS_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "daemon/maps/maps.h"
#include "tests/unit/own_events.h"

#define LIBRARY_PAGES 3
#define GRACE_MS      50
#define DEADLINE_MS   60000
#define RING_REFUSED  (3 * 4096) /* not a power of two */

/* Of this run alone: others of it may be under way. */
static char library_name[32];
static char patterns[64];

struct world {
	uv_loop_t loop;
	struct maps *maps;
	char directory[64];
	int found, refused, gone, processes_gone;
	uint32_t refused_user;
	uint32_t found_pid, gone_pid, missed_pid;
	uint64_t mapped_ns, missed_ns; /* by `found_pid`, `missed_pid` */
	bool forked;
	struct maps_file *file; /* last one found */
	bool closed;
};

/* A child that waits for its turn. */
struct child {
	pid_t pid;
	uint64_t address; /* where it mapped the library */
	int say, hear;	  /* pipes to and from it */
};

static void on_found(void *data, struct maps_file *file, uint32_t pid)
{
	struct world *world = data;

	world->found++;
	world->found_pid = pid;
	world->file = file;
	world->mapped_ns = maps_mapped_ns(world->maps, pid, &world->forked);
}

static void on_missed(void *data, struct maps_file *file, uint32_t pid, uint64_t mapped_ns,
		      uint64_t ended_ns, bool executed)
{
	struct world *world = data;

	world->missed_pid = pid;
	world->missed_ns = mapped_ns;
	assert_true(ended_ns >= mapped_ns);
}

static void on_refused(void *data, struct maps_file *file, uint32_t pid, uint32_t user)
{
	struct world *world = data;

	world->refused++;
	world->refused_user = user;
}

static void on_gone(void *data, struct maps_file *file)
{
	struct world *world = data;

	assert_true(file->references > 0);
	world->gone++;
}

static void on_process_gone(void *data, uint32_t pid, uint64_t time_ns)
{
	struct world *world = data;

	assert_true(time_ns <= uv_hrtime());
	world->processes_gone++;
	world->gone_pid = pid;
}

static void on_maps_closed(void *data)
{
	struct world *world = data;

	world->closed = true;
}

static struct maps_config config_default(void)
{
	return (struct maps_config){
		.patterns = patterns,
		.ring_bytes = 256 << 10,
		.max_processes = 64,
		.max_mappings = 256,
		.max_files = 64,
		.grace_ms = GRACE_MS,
		.events = { .open = own_events_open },
	};
}

static void world_start(struct world *world, struct maps_config config)
{
	static const struct maps_callbacks callbacks = { .library_found = on_found,
							 .library_refused = on_refused,
							 .library_missed = on_missed,
							 .library_gone = on_gone,
							 .process_gone = on_process_gone };

	assert_int_equal(maps_new(&world->loop, &config, &callbacks, world, &world->maps), 0);
}

static int world_setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	strcpy(world->directory, "/tmp/test_maps.XXXXXX");
	assert_non_null(mkdtemp(world->directory));
	uv_loop_init(&world->loop);
	*state = world;
	return 0;
}

static int world_teardown(void **state)
{
	struct world *world = *state;
	char command[128];

	if (world->maps)
		maps_close(world->maps, on_maps_closed);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	assert_true(!world->maps || world->closed);
	snprintf(command, sizeof(command), "rm -rf '%s'", world->directory);
	assert_int_equal(system(command), 0);
	free(world);
	return 0;
}

#define WAIT_UNTIL(world, condition)                                                               \
	do {                                                                                       \
		uint64_t wait_end = uv_hrtime() + DEADLINE_MS * 1000000ull;                        \
		while (!(condition) && uv_hrtime() < wait_end) {                                   \
			uv_run(&(world)->loop, UV_RUN_NOWAIT);                                     \
			usleep(500);                                                               \
		}                                                                                  \
		assert_true(condition);                                                            \
	} while (0)

/* The library is pages that differ, so that its bytes tell it from others. */
static void write_library(const char *path, char fill)
{
	char page[4096];
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755), i;

	for (i = 0; i < LIBRARY_PAGES; i++) {
		memset(page, fill + i, sizeof(page));
		if (fd < 0 || write(fd, page, sizeof(page)) != sizeof(page))
			abort();
	}
	close(fd);
}

static void *map_file(const char *path, void *at)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *map = mmap(at, (LIBRARY_PAGES - 1) * 4096, PROT_READ | PROT_EXEC,
			 MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 4096);

	if (map == MAP_FAILED)
		abort();
	return map;
}

static char *library_path(struct world *world, const char *folder)
{
	char *path = NULL;

	if (asprintf(&path, "%s/%s", world->directory, folder) < 0)
		abort();
	mkdir(path, 0755);
	free(path);
	if (asprintf(&path, "%s/%s/%s", world->directory, folder, library_name) < 0)
		abort();
	return path;
}

static void child_hear(struct child *child)
{
	assert_int_equal(read(child->hear, &child->address, sizeof(child->address)),
			 sizeof(child->address));
}

static inline void child_say(struct child *child)
{
	assert_int_equal(write(child->say, "x", 1), 1);
}

/* Runs `body` in a child, with one pipe to tell an address and one to wait for a byte. */
static struct child child_start(void (*body)(int say, int hear, const char *path), const char *path)
{
	struct child child;
	int to[2], from[2];

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	child.pid = fork();
	if (child.pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the tests here */
		signal(SIGABRT, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		close(from[0]);
		body(from[1], to[0], path);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	child.say = to[1];
	child.hear = from[0];
	return child;
}

static void child_end(struct child *child)
{
	int status;

	/* Later children hold the pipe's end as well, so that closing it may not be enough. */
	(void)!write(child->say, "x", 1);
	close(child->say);
	close(child->hear);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_int_equal(status, 0);
}

static void tell(int say, const void *address)
{
	uint64_t value = (uintptr_t)address;

	if (write(say, &value, sizeof(value)) != sizeof(value))
		abort();
}

static void await(int hear)
{
	char c;

	if (read(hear, &c, 1) < 0)
		abort();
}

static inline void body_map(int say, int hear, const char *path)
{
	tell(say, map_file(path, NULL));
	await(hear);
}

static inline void check_resolves(struct world *world, pid_t pid, uint64_t address, char fill)
{
	struct maps_file *file;
	uint64_t offset;
	char byte;

	assert_int_equal(
		maps_resolve(world->maps, pid, uv_hrtime(), address + 4100, &file, &offset), 0);
	assert_int_equal(offset, 4096 + 4100);
	assert_true(file->fd >= 0);
	assert_int_equal(pread(file->fd, &byte, 1, offset), 1);
	assert_int_equal(byte, fill + 2);
}

#endif
