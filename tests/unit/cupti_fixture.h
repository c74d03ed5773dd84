/* cupti_fixture.h: the end of link.c that the library's CUPTI side sees: what was put is kept. */
#ifndef TS_CUPTI_FIXTURE_H
#define TS_CUPTI_FIXTURE_H

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "inject/internal.h"

#define PUT_MAX 1024

/* A thread is joined a moment before the kernel has done with it. */
static inline void wait_until_gone(uint32_t tid)
{
	while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
		sched_yield();
}

static struct put {
	size_t size;
	union {
		struct ts_event event;
		struct ts_name name;
		uint8_t bytes[sizeof(struct ts_name) + TS_NAME_MAX];
	};
} put[PUT_MAX];
static size_t put_count;
static int put_refuses; /* so many puts find no room; -1: all */
static size_t put_room; /* for batches, in records */
static bool put_away;	/* nobody takes batches */
static bool put_crowded;
static unsigned put_batches, put_ends;
static uint64_t put_lost[8];
static unsigned woken;

int link_put(const void *record, size_t size)
{
	if (put_refuses) {
		put_refuses -= put_refuses > 0;
		return -ENOSPC;
	}
	assert_true(put_count < PUT_MAX && size <= sizeof(put->bytes));
	put[put_count].size = size;
	memcpy(put[put_count++].bytes, record, size);
	return 0;
}

bool link_is_crowded(void)
{
	return put_crowded;
}

int link_begin(struct link_batch *batch, uint32_t count)
{
	if (put_away)
		return -ENOTCONN;
	if (put_refuses) {
		put_refuses -= put_refuses > 0;
		return -ENOSPC;
	}
	if (count > put_room)
		return -ENOSPC;
	assert_true(put_count + count <= PUT_MAX);
	batch->at = put_count;
	put_count += count;
	put_room -= count;
	put_batches++;
	return 0;
}

void link_fill(const struct link_batch *batch, uint32_t nth, const void *record, size_t size)
{
	put[batch->at + nth].size = size;
	memcpy(put[batch->at + nth].bytes, record, size);
}

void link_end(const struct link_batch *batch)
{
	put_ends++;
}

void link_lost(enum ts_lost_reason reason, uint64_t count)
{
	put_lost[reason] += count;
}

void link_wake(void)
{
	woken++;
}

void link_tell(enum ts_library_state state, bool unloadable, const char *text)
{
}

void debug_say(const char *format, ...)
{
}

static inline void put_reset(void)
{
	put_count = 0;
	put_refuses = 0;
	put_room = SIZE_MAX;
	put_away = false;
	put_batches = put_ends = 0;
	woken = 0;
	memset(put_lost, 0, sizeof(put_lost));
}

#endif
