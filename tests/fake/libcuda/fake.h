/* Fake: the objects of the simulated driver and what its files offer to each other.
 * Nothing in here is exported; entry.c alone exports, and no file calls an exported function.
 *
 * Locks, outermost first: context list, context, stream, engine, event, region, arena. */
#pragma once

#include "core/base/array.h"
#include "hooks.h"

#include <pthread.h>
#include <stdatomic.h>

#define likely(x)	   __builtin_expect(!!(x), 1)
#define unlikely(x)	   __builtin_expect(!!(x), 0)
#define MIN(a, b)	   ((a) < (b) ? (a) : (b))
#define MAX(a, b)	   ((a) > (b) ? (a) : (b))

#define DEVICES_MAX	   16
#define RING_OPS	   1024 /* a launch blocks when so many are pending, as on a real device */
#define CONTEXT_STACK_MAX  32
#define THREAD_STREAMS_MAX 8
#define NAME_MAX_BYTES	   512
#define CAPTURE_LAST_MAX   8 /* nodes a captured node depends on; more are joined by an empty one */
#define NEVER		   UINT64_MAX

/* --- arena.c: handles that can be told from garbage ------------------------------------- */

enum object_state {
	OBJECT_FREE,
	OBJECT_LIVE,
	OBJECT_DYING, /* destroyed by the program, still needed by queued work */
};

struct object {
	_Atomic uint32_t state;
	uint32_t next_free;
	uint64_t id; /* never reused */
};

struct arena {
	size_t object_bytes;
	size_t capacity;
	pthread_mutex_t lock;
	_Atomic(char *) base;
	_Atomic size_t used;
	uint32_t free_first, free_last, free_count;
	uint64_t next_id;
};

extern struct arena arena_contexts, arena_streams, arena_events, arena_modules, arena_functions,
	arena_libraries, arena_kernels, arena_pools, arena_graphs, arena_nodes, arena_execs;

void *arena_take(struct arena *arena);
void arena_give(struct arena *arena, void *object);
bool arena_owns(const struct arena *arena, const void *object);

static inline bool object_live(const struct object *object)
{
	return atomic_load_explicit(&object->state, memory_order_acquire) == OBJECT_LIVE;
}

/* The object behind a handle, or NULL if the handle is not one of a live object. */
#define arena_check(arena, handle)                                                                 \
	((arena_owns(arena, handle) && object_live((const void *)(handle))) ? (void *)(handle)     \
									    : NULL)

/* --- objects ---------------------------------------------------------------------------- */

struct device {
	int ordinal;
	uint64_t memory_bytes;
	_Atomic uint64_t used_bytes;
	struct pool *pool_default;
	_Atomic(struct pool *) pool_current;
	pthread_mutex_t primary_lock;
	struct context *primary, *primary_kept; /* kept: its object, while there is none */
	unsigned int primary_refs, primary_flags;
};

struct context {
	struct object object;
	struct device *device;
	unsigned int flags;
	bool primary;
	pthread_mutex_t lock; /* the list of streams */
	pthread_cond_t stream_gone;
	struct stream *streams;
	struct stream *legacy;
	_Atomic uint64_t order; /* of operations in blocking streams and the legacy one */
	_Atomic uint32_t blocking_pending; /* queued in blocking streams */
	_Atomic uint32_t pending;	   /* queued in any stream */
	_Atomic uint32_t captures;	   /* running captures that forbid the legacy stream */
	_Atomic uint32_t peers;		   /* a bit per device that may be accessed */
	struct module *modules;
	size_t limits[8];
	CUfunc_cache cache;
};

struct function {
	struct object object;
	struct module *module;	 /* NULL for a kernel of a library */
	struct context *context; /* the same */
	struct library *library;
	struct function *next;
	uint64_t fixed_ns; /* a duration that the name asks for, or 0 */
	uint32_t weight;   /* how much work a thread of it does */
	bool timed;	   /* its first argument is how many nanoseconds it takes */
	int attributes[2]; /* dynamic shared memory, carve-out */
	char name[NAME_MAX_BYTES];
};

struct copy {
	CUdeviceptr dst, src;
	size_t dst_pitch, src_pitch, dst_slice, src_slice;
	size_t width, height, depth;
};

struct op {
	uint8_t kind;	   /* enum fake_op_kind */
	uint8_t copy_kind; /* enum fake_copy_kind */
	uint32_t correlation;
	uint64_t order;
	uint64_t queued_ns;
	uint64_t duration_ns;
	union {
		struct {
			struct function *function;
			uint32_t grid[3], block[3], shared_bytes;
			uint64_t asked_ns; /* of a timed function */
		} kernel;
		struct {
			struct copy shape;
			void *staging; /* freed after the copy */
		} copy;
		struct {
			CUdeviceptr dst;
			size_t pitch, width, height; /* width in elements */
			uint32_t value, element_bytes;
		} set;
		struct {
			CUhostFn fn;
			CUstreamCallback callback;
			void *user;
			CUstream handle;
		} host;
		struct {
			struct event *event;
			uint64_t generation;
		} event;
		struct {
			struct exec *exec;
		} graph;
		struct {
			CUdeviceptr ptr;
		} release;
	};
};

enum host_state {
	HOST_NONE,
	HOST_RUNNING, /* the operation at the head is with the host thread */
	HOST_DONE,
};

struct stream {
	struct object object;
	struct context *context;
	struct stream *next; /* in the context */
	uint32_t pins;	     /* by waits that must outlive a destroy; under the context's lock */
	unsigned int flags;
	int priority;
	bool legacy;
	bool unlinked; /* from the context, waiting for the last pin */

	pthread_mutex_t lock;
	pthread_cond_t moved; /* head has moved, or there is room */
	uint32_t waiters;
	struct op *ring;
	_Atomic uint64_t head, tail; /* operations completed and queued, ever */
	_Atomic uint64_t last_end_ns;
	struct capture *capture;
	struct stream *capture_next;		     /* member of the same capture */
	struct node *capture_last[CAPTURE_LAST_MAX]; /* what the next captured node depends on */
	unsigned int capture_last_count;

	/* The engine's, but in_engine, which the lock protects */
	struct stream *engine_next, *host_next;
	bool in_engine, started;
	_Atomic int host_state; /* enum host_state */
	uint64_t start_ns, end_ns;
};

struct event {
	struct object object;
	unsigned int flags;
	struct context *context;
	_Atomic uint32_t refs;		 /* queued operations, and 1 for the program */
	_Atomic uint64_t recorded, done; /* generations: asked for, reached */
	_Atomic uint64_t done_ns;
	_Atomic(struct capture *) capture; /* only whether it was last recorded while capturing */
	uint64_t capture_id;
	struct node *capture_last[CAPTURE_LAST_MAX];
	unsigned int capture_last_count;
};

/* --- driver.c --------------------------------------------------------------------------- */

enum driver_state {
	DRIVER_NEW,
	DRIVER_READY,
	DRIVER_FORKED, /* a child of an initialized process: CUDA is lost to it */
};

struct driver {
	_Atomic int state;
	int devices_count;
	struct device devices[DEVICES_MAX];
	double time_scale; /* 0: everything takes no time */
};

struct thread {
	struct context *stack[CONTEXT_STACK_MAX];
	uint64_t stack_id[CONTEXT_STACK_MAX];
	int depth;
	uint32_t correlation;
	bool in_callback;
	CUstreamCaptureMode capture_mode;
	struct {
		uint64_t stream_id;
		struct stream *stream;
	} streams[THREAD_STREAMS_MAX];
};

extern struct driver driver;
extern __thread struct thread thread __attribute__((tls_model("initial-exec")));

CUresult driver_init(unsigned int flags);
CUresult driver_version(int *version);
uint64_t driver_now(void);

/* --- hooks.c ---------------------------------------------------------------------------- */

extern _Atomic(const struct fake_hooks *) hooks_table;

#define hooks_get() atomic_load_explicit(&hooks_table, memory_order_acquire)
#define HOOK(member, ...)                                                                          \
	do {                                                                                       \
		const struct fake_hooks *_h = hooks_get();                                         \
		if (unlikely(_h) && _h->member)                                                    \
			_h->member(__VA_ARGS__);                                                   \
	} while (0)

void hooks_enter(const struct fake_hooks *hooks, struct fake_api_call *call);
void hooks_exit(const struct fake_hooks *hooks, struct fake_api_call *call);
CUresult hooks_export(const void **table, const CUuuid *id);

/* --- books.c ---------------------------------------------------------------------------- */

/* An operation ran; 0: was captured. */
void books_count(unsigned int kind);
void books_add(struct fake_books *books, enum fake_book kind, int device, uint64_t bytes);
void books_read(struct fake_books *books);

/* --- error.c, proc.c, device.c ---------------------------------------------------------- */

CUresult error_name(CUresult error, const char **name);
CUresult error_string(CUresult error, const char **sentence);
CUresult proc_find(const char *symbol, void **fn, int version, cuuint64_t flags,
		   CUdriverProcAddressQueryResult *status);
const char *proc_name(enum fake_function function);

struct device *device_check(CUdevice ordinal);
CUresult device_charge(struct device *device, uint64_t bytes);
void device_refund(struct device *device, uint64_t bytes);
CUresult device_get(CUdevice *device, int ordinal);
CUresult device_get_count(int *count);
CUresult device_get_name(char *name, int len, CUdevice dev);
CUresult device_get_uuid(CUuuid *uuid, CUdevice dev);
CUresult device_get_total(size_t *bytes, CUdevice dev);
CUresult device_get_attribute(int *value, CUdevice_attribute attribute, CUdevice dev);
CUresult device_get_capability(int *major, int *minor, CUdevice dev);
CUresult device_get_pci(char *id, int len, CUdevice dev);
CUresult device_find_pci(CUdevice *dev, const char *id);
CUresult device_can_access(int *can, CUdevice dev, CUdevice peer);

/* --- context.c -------------------------------------------------------------------------- */

struct context *context_check(CUcontext handle);
struct context *context_current(void);
CUresult context_new(struct context **ret, struct device *device, unsigned int flags, bool primary);
void context_delete(struct context *context);
void context_drain(struct context *context);
CUresult context_create(CUcontext *ret, unsigned int flags, CUdevice dev);
CUresult context_destroy(CUcontext handle);
CUresult context_push(CUcontext handle);
CUresult context_pop(CUcontext *ret);
CUresult context_set(CUcontext handle);
CUresult context_get(CUcontext *ret);
CUresult context_get_device(CUdevice *device, CUcontext handle);
CUresult context_get_flags(unsigned int *flags);
CUresult context_get_id(CUcontext handle, unsigned long long *id);
CUresult context_get_version(CUcontext handle, unsigned int *version);
CUresult context_sync(CUcontext handle);
CUresult context_set_limit(CUlimit limit, size_t value);
CUresult context_get_limit(size_t *value, CUlimit limit);
CUresult context_set_cache(CUfunc_cache cache);
CUresult context_get_cache(CUfunc_cache *cache);
CUresult context_get_priorities(int *least, int *greatest);
CUresult context_enable_peer(CUcontext peer, unsigned int flags);
CUresult context_disable_peer(CUcontext peer);
CUresult primary_retain(CUcontext *ret, CUdevice dev);
CUresult primary_release(CUdevice dev);
CUresult primary_reset(CUdevice dev);
CUresult primary_set_flags(CUdevice dev, unsigned int flags);
CUresult primary_get_state(CUdevice dev, unsigned int *flags, int *active);

/* --- module.c --------------------------------------------------------------------------- */

struct function *function_check(CUfunction handle);
uint64_t function_cost(const struct function *function, uint64_t blocks, uint64_t threads);
void module_unload_all(struct context *context);
CUresult module_load(CUmodule *ret, const void *image);
CUresult module_load_file(CUmodule *ret, const char *path);
CUresult module_unload(CUmodule handle);
CUresult module_get_mode(CUmoduleLoadingMode *mode);
CUresult module_get_function(CUfunction *ret, CUmodule handle, const char *name);
CUresult module_get_global(CUdeviceptr *ptr, size_t *bytes, CUmodule handle, const char *name);
CUresult library_load(CUlibrary *ret, const void *code);
CUresult library_load_file(CUlibrary *ret, const char *path);
CUresult library_unload(CUlibrary handle);
CUresult library_get_kernel(CUkernel *ret, CUlibrary handle, const char *name);
CUresult library_get_count(unsigned int *count, CUlibrary handle);
CUresult library_get_module(CUmodule *ret, CUlibrary handle);
CUresult library_get_global(CUdeviceptr *ptr, size_t *bytes, CUlibrary handle, const char *name);
CUresult kernel_get_function(CUfunction *ret, CUkernel handle);
CUresult kernel_get_library(CUlibrary *ret, CUkernel handle);
CUresult kernel_get_name(const char **name, CUkernel handle);
CUresult kernel_get_attribute(int *value, CUfunction_attribute attribute, CUkernel handle,
			      CUdevice dev);
CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel handle,
			      CUdevice dev);
CUresult function_get_name(const char **name, CUfunction handle);
CUresult function_get_module(CUmodule *ret, CUfunction handle);
CUresult function_get_attribute(int *value, CUfunction_attribute attribute, CUfunction handle);
CUresult function_set_attribute(CUfunction handle, CUfunction_attribute attribute, int value);
CUresult function_get_occupancy(int *blocks, CUfunction handle, int threads, size_t shared_bytes);
CUresult function_set_cache(CUfunction handle, CUfunc_cache cache);
CUresult function_get_param(CUfunction handle, size_t index, size_t *offset, size_t *size);
CUresult function_is_loaded(CUfunctionLoadingState *state, CUfunction handle);
CUresult function_load(CUfunction handle);

#include "fake_memory.h"
#include "fake_work.h"
