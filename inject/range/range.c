/* Range: spans of a program, told to whoever watches it: by calling functions that do nothing, on
 * which the daemon has its probes (daemon/library/range.c). Keeps only the numbers of what a thread
 * has open, so as to tell when the thread ends before they do. Uses libc alone; never blocks. */
#include "inject/range/range.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "proto/event.h"

#define EXPORT __attribute__((visibility("default")))
/* An instruction without effect: the kernel skips it where there is a probe. Not the one of five
 * bytes, of which Linux 6.18 makes a call that kills the child of a fork. */
#define PROBED	  EXPORT __attribute__((naked, noinline))
#define NOTHING() __asm__("nop\n\tret")

/* What is open further out than these is cut at the end of the process, not of its thread. */
#define OPEN_MAX 16

static const char cut_mark[] = "\xe2\x80\xa6"; /* an ellipsis */

struct open {
	uint64_t number[OPEN_MAX]; /* the outermost first */
	uint32_t count;
	bool watched; /* the thread's end is */
};

static _Thread_local struct open open;
static uint64_t last;		/* number */
static uint64_t last_of_parent; /* of the process that this one is a fork of */

/* For destructors of C++'s thread-local variables; keeps this library loaded until they have run.
 * Libraries of C without it do not report the end of a thread. */
extern int __cxa_thread_atexit_impl(void (*end)(void *), void *object, void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

PROBED void tracesmith_probe_begin(uint64_t number, const char name[TS_RANGE_NAME_SIZE]);
PROBED void tracesmith_probe_end(uint64_t number);
PROBED void tracesmith_probe_cut(uint64_t number);

void tracesmith_probe_begin(uint64_t number, const char name[TS_RANGE_NAME_SIZE])
{
	NOTHING();
}

void tracesmith_probe_end(uint64_t number)
{
	NOTHING();
}

void tracesmith_probe_cut(uint64_t number)
{
	NOTHING();
}

/* The child has none of its parent's spans, whatever it ends. */
static void on_fork(void)
{
	open.count = 0;
	last_of_parent = last;
}

__attribute__((constructor)) static void start(void)
{
	pthread_atfork(NULL, NULL, on_fork);
}

static void on_thread_end(void *data)
{
	while (open.count)
		tracesmith_probe_cut(open.number[--open.count]);
	open.watched = false;
}

static void open_add(uint64_t number)
{
	if (!open.watched && __cxa_thread_atexit_impl)
		open.watched = !__cxa_thread_atexit_impl(on_thread_end, NULL, &__dso_handle);
	if (open.count == OPEN_MAX) {
		memmove(open.number, open.number + 1, sizeof(open.number) - sizeof(number));
		open.count--;
	}
	open.number[open.count++] = number;
}

/* Mostly the last one; none if another thread started it. */
static void open_remove(uint64_t number)
{
	for (uint32_t i = open.count; i-- > 0;) {
		if (open.number[i] != number)
			continue;
		open.count--;
		memmove(open.number + i, open.number + i + 1, (open.count - i) * sizeof(number));
		return;
	}
}

static void name_copy(char to[TS_RANGE_NAME_SIZE], const char *name)
{
	size_t length = strnlen(name, TS_RANGE_NAME_SIZE + 1);

	if (length <= TS_RANGE_NAME_SIZE) {
		memcpy(to, name, length);
		memset(to + length, 0, TS_RANGE_NAME_SIZE - length);
		return;
	}
	length = TS_RANGE_NAME_SIZE - (sizeof(cut_mark) - 1);
	while (length && (name[length] & 0xc0) == 0x80) /* within a character */
		length--;
	memset(to, 0, TS_RANGE_NAME_SIZE);
	memcpy(to, name, length);
	memcpy(to + length, cut_mark, sizeof(cut_mark) - 1);
}

EXPORT uint64_t tracesmith_range_begin(const char *name)
{
	uint64_t number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	char copy[TS_RANGE_NAME_SIZE];

	name_copy(copy, name ? name : "");
	open_add(number);
	tracesmith_probe_begin(number, copy);
	return number;
}

EXPORT void tracesmith_range_end(uint64_t number)
{
	if (number <= last_of_parent)
		return;
	open_remove(number);
	tracesmith_probe_end(number);
}
