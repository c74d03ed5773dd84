/* Harm: what the awkward programs of test_harm share. A program is one case of harm.c's table. It
 * says what it sees into a page that it shares with the test, in no descriptor: some have none
 * left. At three places it waits until the test lets it go on: there the test attaches, detaches
 * and looks.
 *
 * Only libc is needed, so that the same programs run on a GPU machine (tests/gpu/harm.py). */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HARM_PAGE_BYTES (64 << 10)

/* Where a program waits: after its first calls of CUDA, after more of them, and before its end. */
enum harm_place { HARM_MIDDLE = 1, HARM_LATE, HARM_LAST };

struct harm_page {
	_Atomic uint32_t at;	   /* the place that the program has reached */
	_Atomic uint32_t go;	   /* the last place that it may leave */
	_Atomic int32_t pid;	   /* the process to attach to; 0: the one that was started */
	_Atomic uint32_t skipped;  /* this machine lacks what the case is about */
	_Atomic uint64_t busy_ns;  /* time outside of the places */
	_Atomic uint32_t used;	   /* bytes of the text */
	_Atomic uint32_t failures; /* calls of the driver that failed */
	char text[HARM_PAGE_BYTES - 32];
};

struct harm_case {
	const char *name;
	void (*run)(void);
};

/* The functions of the driver that the programs call; `handle` is any of its pointers. */
typedef void *handle;
#define HARM_CUDA(X)                                                                               \
	X(cuInit, (unsigned int))                                                                  \
	X(cuDevicePrimaryCtxRetain, (handle *, int))                                               \
	X(cuDevicePrimaryCtxSetFlags_v2, (int, unsigned int))                                      \
	X(cuCtxSetCurrent, (handle))                                                               \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuModuleLoadData, (handle *, const void *))                                              \
	X(cuModuleGetFunction, (handle *, handle, const char *))                                   \
	X(cuStreamCreate, (handle *, unsigned int))                                                \
	X(cuStreamSynchronize, (handle))                                                           \
	X(cuEventCreate, (handle *, unsigned int))                                                 \
	X(cuEventRecord, (handle, handle))                                                         \
	X(cuEventQuery, (handle))                                                                  \
	X(cuMemAlloc_v2, (uint64_t *, size_t))                                                     \
	X(cuMemFree_v2, (uint64_t))                                                                \
	X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                       \
	X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                             \
	X(cuLaunchKernel, (handle, unsigned int, unsigned int, unsigned int, unsigned int,         \
			   unsigned int, unsigned int, unsigned int, handle, handle *, handle *))

struct harm_cuda {
#define X(name, arguments) int(*name) arguments;
	HARM_CUDA(X)
#undef X
};

extern struct harm_page *harm_page;
extern struct harm_cuda cuda;
extern const char *harm_driver; /* path of the library */
extern const char *harm_folder; /* of the programs and their libraries */
extern char **harm_arguments;	/* of this program */

extern const struct harm_case harm_threads[], harm_signals[], harm_processes[], harm_limits[],
	harm_loaders[], harm_blocked[], harm_filters[], harm_memory[], harm_borrowed[];

/* A line of what the program sees, which must be the same with and without tracing. */
__attribute__((format(printf, 1, 2))) void harm_say(const char *format, ...);
/* The case cannot be tried here; ends the process. */
__attribute__((format(printf, 1, 2), noreturn)) void harm_skip(const char *format, ...);
/* Waits until the test lets it go on. */
void harm_hold(enum harm_place place);
bool harm_may_leave(enum harm_place place);
/* Ends the process should the test have ended before; again in a child that stays. */
void harm_bound(void);
/* Sleeps for a moment whatever interrupts it. */
void harm_nap(unsigned int us);
uint64_t harm_now(void);
/* Fills `cuda` with the functions of a loaded driver. */
void harm_bind(void *library);
/* Loads the driver, and makes the first calls. */
void harm_load(void);
void harm_begin(void);
/* The context, a stream and a kernel for the calling thread; false: a call failed. */
bool harm_enter(void);
/* Allocates, copies there and back, launches, records, waits, so many times. What fails or comes
 * back changed is counted, and said by harm_done(). */
void harm_work(unsigned int rounds);
/* Calls that take little of the stack: launch, record, query. */
void harm_light(unsigned int rounds);
/* A kernel of 0.3 s, on a stream of its own; the stream. */
handle harm_spin(void);
/* Three times the usual work, with the places in between. */
void harm_run(void);
void harm_start(pthread_t *thread, void *(*run)(void *), void *data);
/* Waits until that thread of this process sleeps in that system call, or in any (-1); not for ever:
 * a real driver may poll instead. */
void harm_wait_in(pid_t tid, long call);
