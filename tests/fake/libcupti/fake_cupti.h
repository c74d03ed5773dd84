/* Fake CUPTI: what the files of the simulated libcupti offer to each other.
 * Nothing in here is exported. Locks, outermost first: the driver's, delivery, cupti.lock.
 * bufferRequested is called with the driver's locks and ours held, as the real one does; so a
 * client that calls CUPTI while it holds a lock its bufferRequested takes hangs here too. */
#pragma once

#include "cupti_abi.h"

#include "core/base/array.h"
#include "tests/fake/libcuda/hooks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FRAMES_MAX    8
#define CBID_COUNT    1024
#define EXTERNAL_MAX  8
#define EXTERNAL_DEEP 16

struct buffer {
	struct buffer *next;
	uint8_t *data;
	size_t size, used, records, records_max;
	uint32_t unfinished; /* records whose operation the GPU has not ended */
	uint64_t ready_ns;   /* not to be delivered before */
};

/* A call that a thread is in. */
struct frame {
	struct fake_api_call *call;
	uint64_t start_ns, user;
	uint32_t cbid;
	bool exiting;
};

/* Whose buffer it is: a thread of the program, or the device's, which is for what no thread did. */
struct owner {
	struct owner *next;
	struct buffer *buffer;
	uint32_t thread, handle;
	bool gone; /* its thread has ended */
	bool busy; /* in a callback, or in a call that we made: nothing of it is recorded */
	unsigned int depth;
	struct frame frames[FRAMES_MAX];
	unsigned int external_depth[EXTERNAL_MAX];
	uint64_t external[EXTERNAL_MAX][EXTERNAL_DEEP];
};

enum odd_clock { ODD_CLOCK_TAKEN, ODD_CLOCK_NONE, ODD_CLOCK_DEAF, ODD_CLOCK_ALIEN };

struct odd {
	enum odd_clock clock;
	bool zero, reversed, duplicate, shuffle, unknown, gone;
	uint64_t late_ns, drop, slow_ns, loaded_ns, kernel_ns;
	uint64_t kernels, records, seed;
};

struct cupti {
	uint32_t version, process;
	_Atomic bool forked, attached, gone;
	_Atomic uint32_t inside; /* calls that threads are in */
	_Atomic bool graphs;	 /* were launched while attached */
	_Atomic bool set_up;	 /* by the first call that needs CUPTI's own state */
	const struct fake_driver *driver;
	void *libcuda;

	pthread_mutex_t lock;
	cupti_request_fn request;
	cupti_complete_fn complete;
	struct owner *owners, device;
	struct buffer *closed, **closed_end; /* full, or taken from their owner by a flush */
	_Atomic bool kinds[CUPTI_KIND_COUNT];
	_Atomic bool driver_calls[CBID_COUNT];
	_Atomic uint64_t dropped;
	uint8_t per_thread;
	uint64_t attributes[CUPTI_ATTR_COUNT];
	_Atomic uint32_t thread_type;
	bool late_flush; /* everything is disabled: what is left comes a while after */
	uint32_t period_ms;
	_Atomic bool all_syncs;
	struct odd odd;

	pthread_mutex_t delivery;
};

extern struct cupti cupti;

/* entry.c */
void cupti_begin(const char *function);
__attribute__((noreturn, format(printf, 1, 2))) void cupti_abort(const char *format, ...);
void cupti_overhead(uint32_t kind, uint64_t start_ns, uint64_t end_ns);

/* attach.c */
int cupti_attach(void);
void *attach_symbol(const char *name);
/* The process ends, and CUPTI before the client. */
void attach_gone(void);

/* clock.c; ns are CLOCK_MONOTONIC, stamps what the client's clock says */
uint64_t clock_ns(void);
uint64_t clock_stamp(uint64_t ns);
void clock_register(cupti_time_fn time);

/* owner.c */
struct owner *owner_self(void);
uint32_t owner_thread(const struct owner *owner);
/* Frees those whose threads have ended; with the lock held. */
void owners_sweep(void);

/* buffer.c; with the lock held where it is not said otherwise */
/* Zeroed room for a record in the owner's buffer, or NULL: it is counted as dropped. */
void *buffer_take(struct owner *owner, size_t bytes, struct buffer **where);
/* The same for a record that is complete as soon as it is copied; without the lock. */
void buffer_put(struct owner *owner, const void *record, size_t bytes);
void buffer_finish(struct buffer *buffer);
/* Hands over what is complete, on this thread and without the lock. partial: buffers with room
 * left, too; forced: unfinished ones as well; now: without the wait that FAKE_CUPTI_ODD asks for.
 */
void buffers_deliver(bool partial, bool forced, bool now);
uint64_t buffers_next(void);
size_t record_bytes(uint32_t kind);

/* worker.c */
void worker_start(void);
void worker_stop(void);
void worker_kick(void);

/* record.c */
bool kind_enabled(uint32_t kind, uint32_t context_id);
bool kind_context(uint32_t context_id, uint32_t kind, bool enable);
bool kinds_any(void);
void record_queued(const struct fake_op_info *op);
void record_end(const struct fake_op_info *op);
/* The buffer goes away with records in it that are not finished. */
void records_forget(const struct buffer *buffer);
void records_clear(void);
const char *name_keep(const char *name);

/* call.c */
void call_enter(struct fake_api_call *call);
void call_exit(struct fake_api_call *call);
const struct frame *call_current(void);

/* memory.c */
void memory_call(struct owner *owner, const struct frame *frame);
uint8_t memory_kind(uint64_t address, uint32_t *device, bool host);

/* sync.c */
void sync_call(struct owner *owner, const struct frame *frame);

/* resource.c */
extern const struct fake_hooks resource_replay;
void resource_context_created(CUcontext context, uint32_t context_id, int device);
void resource_context_destroyed(CUcontext context, uint32_t context_id);
void resource_stream_created(CUstream stream, uint32_t stream_id, uint32_t context_id);
void resource_stream_destroyed(CUstream stream, uint32_t stream_id, uint32_t context_id);
void resource_module_loaded(uint32_t context_id, CUmodule module, const void *image, size_t bytes);
void resource_module_unloaded(uint32_t context_id, CUmodule module);
bool resource_context(const void *context, uint32_t *id, uint32_t *device);
uint32_t resource_stream(const void *stream, uint32_t context_id);
void resource_enabled(uint32_t kind);
void resource_dump(uint32_t kind);
void resource_driver_ready(void);
void resource_forget(void);

/* callback.c */
bool callback_wanted(uint32_t domain, uint32_t id);
void callback_call(struct owner *owner, uint32_t domain, uint32_t id, const void *data);
void callback_forget(void);

/* odd.c */
void odd_read(struct odd *odd);
void odd_spin(uint64_t ns);
void odd_shuffle_records(struct buffer *buffer);
void odd_shuffle_buffers(struct buffer **list);
/* What is odd about the next record that is put into a buffer; with the lock held. */
bool odd_drops(void);
bool odd_unknown(void);
/* Of a kernel that ended. True: it comes twice. */
bool odd_kernel(uint64_t *start, uint64_t *end);
