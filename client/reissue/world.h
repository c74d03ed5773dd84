/* world.h: the counterparts of a recording's streams, events, kernels and memory on this GPU. */
#ifndef TS_CLIENT_REPLAY_GPU_WORLD_H
#define TS_CLIENT_REPLAY_GPU_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/base/options.h"
#include "client/reissue/driver.h"
#include "client/reissue/kernel.h"
#include "client/trace/trace.h"
#include "core/base/map.h"
#include "core/plan/plan.h"

#define GPU_DEVICES_MAX 64

struct gpu_device {
	bool used;
	CUcontext context;
	CUmodule module;
	CUstream own;	     /* for things that the recording lacks */
	CUdeviceptr scratch; /* memory that copies and sets touch; its contents are meaningless */
	CUdeviceptr slots;   /* of kernels, one for each work */
	int multiprocessors;
	uint64_t need_bytes; /* of memory, at its peak */
	struct map function; /* by name id */
};

/* The stand-in for a kernel. */
struct gpu_launch {
	CUfunction function;
	struct gpu_kernel_arguments argument;
};

/* How to reissue calls of a function: NULL if they do nothing on the device. */
struct gpu_issue;
struct gpu_way {
	bool found;
	int (*issue)(struct gpu_issue *issue);
	bool async;
};

/* Page-locked memory of the recording. */
struct gpu_range {
	uint64_t begin, end;
	uint32_t process;
};

struct gpu_world {
	const struct options *options;
	struct trace trace;
	struct plan *plan;
	struct gpu_driver *driver;
	struct gpu_device device[GPU_DEVICES_MAX];
	bool *skip;			/* calls outside the selected part */
	atomic_bool *issued;		/* completed calls */
	struct gpu_launch *launch;	/* by number of the work */
	struct gpu_way *way;		/* by number of the function */
	CUstream *stream;		/* by number of the plan */
	struct map event;		/* by process and handle */
	struct map symbol;		/* names of kernels, by id: text */
	struct gpu_range *locked_range; /* by start */
	size_t locked_count;
	struct map graph;     /* by process and number */
	struct map memory;    /* currently allocated, by process and address */
	pthread_mutex_t lock; /* of memory */
	void *plain, *locked; /* host memory that copies touch */
	uint64_t scratch_bytes;
	char *text; /* of the kernels */
	/* Results. */
	uint64_t start_ns, end_ns;
	atomic_int error; /* the first, a CUresult */
	_Atomic uint64_t works, unknown;
};

/* These print errors. */
int gpu_world_load(const struct options *options, struct gpu_world *world);
/* Devices, streams, events, kernels and room for copies. */
int gpu_world_make(struct gpu_world *world);
void gpu_world_done(struct gpu_world *world);

/* The first device, for things whose device is unknown or idle. */
int gpu_world_device(const struct gpu_world *world, const struct op *op);
/* Whether host memory was page-locked in the recording, as far as known. */
bool gpu_world_is_locked(const struct gpu_world *world, uint32_t process, uint64_t address);

/* issue.c: reissues a call. Returns a CUresult. `ways` must be set. */
int gpu_issue_ways(struct gpu_world *world);
int gpu_issue(struct gpu_world *world, uint32_t call);
/* Submits a single kernel, copy or set, without waiting for it. */
int gpu_issue_work(struct gpu_world *world, const struct plan_work *work, CUstream stream);

/* graph.c: creates graphs from the nodes of their first launches. */
struct map_key gpu_graph_key(const struct gpu_world *world, uint32_t call);
int gpu_graph_make(struct gpu_world *world, uint32_t call);

/* run.c: runs all threads, from the first call to the last work. */
int gpu_run(struct gpu_world *world);

/* compare.c: compares a recording of the reissue with the original. Returns an exit status. */
int gpu_compare(const struct options *options, const char *path);

#endif
