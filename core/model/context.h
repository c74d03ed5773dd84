/* context.h: the contexts of a process, and what lives in each. */
#ifndef TS_CORE_CONTEXT_H
#define TS_CORE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"

struct call;
struct core;
struct process;

/* Ordinals of one process; more than any host has, even with partitioned devices. */
#define CONTEXT_DEVICES_MAX 128
#define CONTEXT_GONE	    UINT64_MAX /* replaces a handle: the context has ended */

struct context {
	struct list link; /* in the process */
	uint64_t handle;  /* 0: the unknown one */
	int16_t device;
	bool primary;
	bool part;	     /* a part of a device: another context has the rest, or all of it */
	struct list streams; /* struct stream, also destroyed ones with ops pending */
	struct list active;  /* those of them that have something pending */
	struct list allocations; /* struct allocation */
};

/* On a host with one device every context is on it. */
void context_init(const struct core *core, struct context *context, uint64_t handle);
/* NULL if it is unknown. */
struct context *context_find(const struct process *process, uint64_t handle);
/* Adds it if it is unknown, and its device if that is new; the unknown one at the limit. */
struct context *context_get(struct core *core, struct process *process, uint64_t handle,
			    int16_t device);
/* The context a call refers to: the named one, else the thread's current one, else the only one,
 * else the unknown one. */
struct context *context_of_call(const struct core *core, struct process *process, uint64_t handle,
				uint32_t tid);
/* Ends its streams at once, and counts what is pending on them as unbound. */
void context_end_streams(struct core *core, struct context *context, uint64_t time_ns);
/* Ordinals that no host has count as unknown. */
int16_t context_device(uint32_t ordinal);

void context_create(struct call *call);
void context_retain(struct call *call);
void context_release(struct call *call);
void context_known(struct call *call);
void context_learn_primary(struct core *core, struct process *process, uint64_t handle,
			   int16_t device);
void context_set(struct call *call);
void context_push(struct call *call);
void context_pop(struct call *call);
void context_destroy(struct call *call);
void context_reset_primary(struct call *call);

#endif
