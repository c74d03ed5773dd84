/* world.h: what a recording's streams, events, kernels and memory are on this GPU. */
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
	CUstream own;	     /* for what is not in the recording */
	CUdeviceptr scratch; /* what copies and sets touch: their contents mean nothing */
	CUdeviceptr slots;   /* of kernels, one for each work */
	int multiprocessors;
	uint64_t need_bytes; /* of memory, at the most at one time */
	struct map function; /* by name id */
};

/* What stands in for a kernel. */
struct gpu_launch {
	CUfunction function;
	struct gpu_kernel_arguments argument;
};

/* How calls of a function are done again: by nothing, if they do nothing on the device. */
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
	bool *skip;			/* calls that are not a part of it */
	atomic_bool *issued;		/* calls that are done with */
	struct gpu_launch *launch;	/* by number of the work */
	struct gpu_way *way;		/* by number of the function */
	CUstream *stream;		/* by number of the plan */
	struct map event;		/* by process and handle */
	struct map symbol;		/* names of kernels, by id: text */
	struct gpu_range *locked_range; /* by begin */
	size_t locked_count;
	struct map graph;     /* by process and number */
	struct map memory;    /* what is allocated now, by process and address */
	pthread_mutex_t lock; /* of memory */
	void *plain, *locked; /* host memory that copies touch */
	uint64_t scratch_bytes;
	char *text; /* of the kernels */
	/* What came of it. */
	uint64_t start_ns, end_ns;
	atomic_int error; /* the first, a CUresult */
	_Atomic uint64_t works, unknown;
};

/* These say on stderr what is wrong. */
int gpu_world_load(const struct options *options, struct gpu_world *world);
/* Devices, streams, events, kernels and room for copies. */
int gpu_world_make(struct gpu_world *world);
void gpu_world_done(struct gpu_world *world);

/* Of what is known of no device, or of one where nothing ran, the first. */
int gpu_world_device(const struct gpu_world *world, const struct op *op);
/* Whether host memory was page-locked when it was recorded, as far as is known. */
bool gpu_world_is_locked(const struct gpu_world *world, uint32_t process, uint64_t address);

/* issue.c: does what a call did. Returns a CUresult. The ways have to be there. */
int gpu_issue_ways(struct gpu_world *world);
int gpu_issue(struct gpu_world *world, uint32_t call);
/* A kernel, copy or set by itself, without waiting for it. */
int gpu_issue_work(struct gpu_world *world, const struct plan_work *work, CUstream stream);

/* graph.c: graphs, each as the nodes of its first launch ran. */
struct map_key gpu_graph_key(const struct gpu_world *world, uint32_t call);
int gpu_graph_make(struct gpu_world *world, uint32_t call);

/* run.c: all threads, from the first call to the last work. */
int gpu_run(struct gpu_world *world);

/* compare.c: what a recording of the replay says of it. Returns an exit status. */
int gpu_compare(const struct options *options, const char *path);

#endif
