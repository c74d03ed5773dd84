/* lines_fixture.h: a helper that finds lines, and what asks for them. */
#ifndef TS_LINES_FIXTURE_H
#define TS_LINES_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "daemon/daemon_internal.h"
#include "daemon/helper/helper.h"
#include "daemon/helper/spawn.h"
#include "daemon/symbol/lines.h"
#include "daemon/symbol/lines_helper.h"
#include "daemon/symbol/places.h"

enum { KIND_LINES, KIND_STRANGE };

static int zygote;
static char directory[] = "/tmp/test_lines.XXXXXX";

struct office {
	uv_loop_t loop;
	struct helpers *helpers;
	struct lines *lines;
	struct maps_file file;
	char path[PATH_MAX];
	char function[2][64], source[2][PATH_MAX];
	uint32_t line[2];
	uint32_t lined, places;
	uint64_t now_ns; /* of ticks */
	bool closed, late, broken;
};

static inline void on_lined(void *data, const struct symbol_job *job)
{
	struct office *office = data;
	const struct places_at *at = job->frame[1].places;

	office->lined++;
	if (office->broken)
		return; /* whatever it says */
	assert_int_equal(job->stack_id, 7);
	assert_null(job->frame[0].places);
	office->places = at->count;
	assert_in_range(at->count, 1, 2);
	for (size_t i = 0; i < at->count; i++) {
		snprintf(office->function[i], sizeof(office->function[i]), "%s",
			 at->place[i].function);
		snprintf(office->source[i], sizeof(office->source[i]), "%s", at->place[i].file);
		office->line[i] = at->place[i].line;
	}
}

static inline void on_closed(void *data)
{
	((struct office *)data)->closed = true;
}

static inline void on_late(uv_timer_t *timer)
{
	((struct office *)timer->data)->late = true;
}

static inline struct symbol_job *new_job(struct office *office, uint64_t offset)
{
	struct symbol_job *job = symbol_job_new(2);
	struct stat st;

	fstat(office->file.fd, &st);
	job->stack_id = 7;
	job->pid = (uint32_t)getpid();
	job->frame[1].keyed = true;
	job->frame[1].key = (struct cache_key){ .inode = st.st_ino, .offset = offset - 1 };
	job->frame[1].file = maps_file_ref(&office->file);
	return job;
}

static inline void pass(struct office *office, uint64_t ns)
{
	office->now_ns += ns;
	lines_tick(office->lines, office->now_ns);
}

static inline bool is_over(const struct office *office, uint32_t lined)
{
	return lined ? office->lined >= lined : office->file.references == 1;
}

/* Until that many jobs have got lines; 0: until all are over, after all tries, and nobody else has
 * the file. */
static inline void run_until(struct office *office, uint32_t lined)
{
	uv_timer_t timer;

	timer.data = office;
	uv_timer_init(&office->loop, &timer);
	uv_timer_start(&timer, on_late, 60000, 0);
	while (!is_over(office, lined) && !office->late) {
		uv_run(&office->loop, UV_RUN_ONCE);
		if (!lined)
			pass(office, 3600 * NS_PER_S); /* no pause is as long */
	}
	assert_false(office->late);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&office->loop, UV_RUN_NOWAIT);
}

static inline void run(struct office *office)
{
	run_until(office, 0);
}

static inline void open_office_of(struct office *office, const char *path, uint32_t kind)
{
	*office = (struct office){ .file = { .references = 1, .path = office->path } };
	snprintf(office->path, sizeof(office->path), "%s", path);
	office->file.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(office->file.fd >= 0);
	uv_loop_init(&office->loop);
	assert_int_equal(helpers_new(&office->loop, fcntl(zygote, F_DUPFD_CLOEXEC, 3),
				     (struct helper_roles){ 0 }, &office->helpers),
			 0);
	assert_int_equal(lines_new(office->helpers, kind, on_lined, office, &office->lines), 0);
}

static inline void open_office(struct office *office, const char *path)
{
	open_office_of(office, path, KIND_LINES);
}

static inline void close_office(struct office *office)
{
	lines_free(office->lines);
	helpers_close(office->helpers, on_closed, office);
	uv_run(&office->loop, UV_RUN_DEFAULT);
	assert_true(office->closed);
	assert_int_equal(uv_loop_close(&office->loop), 0);
	assert_int_equal(office->file.references, 1);
	close(office->file.fd);
}

static inline __attribute__((format(printf, 1, 2))) void run_command(const char *format, ...)
{
	char command[4 * PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	assert_int_equal(system(command), 0);
}

static inline int setup(void **state)
{
	/* What a helper is too late with is looked for again much later. */
	setenv("TRACESMITH_PATIENCE", "10", 1);
	return mkdtemp(directory) ? 0 : -1;
}

static inline int teardown(void **state)
{
	run_command("rm -r %s", directory);
	return 0;
}

#endif
