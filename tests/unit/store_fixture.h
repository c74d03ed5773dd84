/* store_fixture.h: a store in a directory of its own, and ops like those of a program. */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/store/store.h"
#include "tests/frame_of.h"

#define SECOND_NS 1000000000ull

static const struct function fixture_functions[] = {
	[1] = { .name = "cuLaunchKernel", .kind = OP_LAUNCH, .effect = EFFECT_SUBMIT, .detail = 0 },
	[2] = { .name = "cuMemAlloc_v2",
		.kind = OP_ALLOC,
		.effect = EFFECT_ALLOC,
		.detail = MEMORY_DEVICE },
	[3] = { .name = "cuMemFree_v2",
		.kind = OP_FREE,
		.effect = EFFECT_FREE,
		.detail = MEMORY_DEVICE },
	[4] = { .name = "cuMemcpyHtoD_v2",
		.kind = OP_COPY,
		.effect = EFFECT_SUBMIT_WAIT,
		.detail = COPY_HTOD },
	[5] = { .name = "cuStreamSynchronize",
		.kind = OP_SYNC,
		.effect = EFFECT_SYNC_STREAM,
		.detail = 0 },
};

struct fixture {
	char directory[64], path[96];
	struct store_config config;
	struct store *store;
};

/* Ends a story of how much fits: the same threads do the same in the shorter ones, and the thread
 * sanitizer takes most of a minute for each. */
static inline void needs_many_rows(void)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
}

static void remove_all(const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	char path[512];

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	rmdir(directory);
}

static inline int fixture_open(struct fixture *fixture)
{
	return store_open(&fixture->config, &fixture->store);
}

static inline int fixture_setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	strcpy(fixture->directory, "/tmp/ts-store-XXXXXX");
	assert_non_null(mkdtemp(fixture->directory));
	snprintf(fixture->path, sizeof(fixture->path), "%s/store.db", fixture->directory);
	fixture->config = (struct store_config){
		.path = fixture->path,
		.boot_id = "first-boot",
		.wall_offset_ns = 1000 * (int64_t)SECOND_NS,
		.functions = { fixture_functions, 6 },
	};
	*state = fixture;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	store_free(fixture->store);
	remove_all(fixture->directory);
	free(fixture);
	return 0;
}

static inline void pause_ms(unsigned int ms)
{
	const struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	nanosleep(&pause, NULL);
}

/* Waits until the writer has nothing to do, and says how that ended. */
static inline struct store_stats fixture_commit(struct fixture *fixture, uint64_t now_ns)
{
	struct store_stats stats;
	int tries = 0;

	do {
		if (tries % 20 == 0)
			store_commit(fixture->store, now_ns);
		store_stats(fixture->store, &stats);
		pause_ms(1);
		assert_true(++tries < 60000);
	} while (stats.queued_batches);
	return stats;
}

/* The one integer that a statement gives. */
static inline int64_t ask(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	int64_t value;

	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	if (sqlite3_step(stmt) != SQLITE_ROW)
		fail_msg("%s: no row: %s", sql, sqlite3_errmsg(db));
	value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

static inline int64_t fixture_ask(struct fixture *fixture, const char *sql)
{
	sqlite3 *db = NULL;
	int64_t value;

	assert_int_equal(store_reader_open(fixture->path, 0, &db), 0);
	value = ask(db, sql);
	sqlite3_close(db);
	return value;
}

static inline uint64_t fixture_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A launch as a training loop makes them. */
static inline struct op fixture_launch(uint32_t process, uint32_t stream, uint64_t start_ns,
				       uint64_t *seed)
{
	return (struct op){
		.start_ns = start_ns,
		.gpu_start_ns = start_ns,
		.gpu_end_ns = (start_ns / 1000000 + 1) * 1000000,
		.process = process,
		.stream = stream,
		.tid = process * 10,
		.fn = 1,
		.flags = OP_BOUNDS,
		.kind = OP_LAUNCH,
		.handle = 0x7f0000000000 + fixture_random(seed) % 64 * 0x340,
		.stack_id = fixture_random(seed) % 50 ? 0 : 0x9e3779b97f4a7c15 * (*seed % 30),
		.grid = { 1 + *seed % 8 * 16, 1, 1 },
		.block = { 128, 1, 1 },
	};
}

#endif
