/* worker.h: a thread that unwinds one stack at a time. It reads files of other people's, which may
 * not answer: then the thread is left alone until it comes back.
 */
#ifndef TS_UNWIND_WORKER_H
#define TS_UNWIND_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "bpf/probe.h"
#include "daemon/limits.h"
#include "daemon/maps/maps.h"
#include "daemon/unwind/rules.h"
#include "daemon/unwind/unwound.h"

struct worker;

struct worker_rule {
	uint64_t key;
	struct rule rule;
};

/* Whose it is changes with worker_start() and worker_done(). */
struct worker_job {
	struct probe_miss *miss; /* with room for the largest stack */
	struct maps_span *span;	 /* with references to its files */
	uint32_t span_count;
	dev_t avoid[LIMIT_UNWIND_HUNG]; /* file systems that do not answer */
	uint32_t avoid_count;
	/* The answer. */
	struct worker_rule learned[TS_STACK_FRAMES_MAX];
	uint32_t learned_count;
	uint64_t took_ns; /* from when it was woken: until then it only waited for a CPU */
	struct unwound unwound;
};

/* `async` is told when a job is done, and after worker_end() once more when the thread is. */
int worker_new(const struct rules *rules, uv_async_t *async, struct worker **ret);
struct worker_job *worker_job(struct worker *worker);
void worker_start(struct worker *worker);
bool worker_done(const struct worker *worker);
/* The file system that it reads from, 0: none. */
dev_t worker_device(const struct worker *worker);
/* Its thread ends when it has done its job. */
void worker_end(struct worker *worker);
/* NULL if the thread has ended: then all is freed. */
struct worker *worker_free_if_ended(struct worker *worker);

#endif
