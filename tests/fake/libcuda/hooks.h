/* Hooks: what the simulated libcupti sees of the simulated libcuda.
 * It asks cuGetExportTable for FAKE_DRIVER_UUID, gets a struct fake_driver, and installs one
 * struct fake_hooks. Every callback may be NULL. A callback that reports an operation runs
 * with locks held, so it must not call the API; api_enter and api_exit may.
 * Times are CLOCK_MONOTONIC nanoseconds. */
#pragma once

#include "cuda_abi.h"

#include <stdbool.h>

#define FAKE_DRIVER_UUID                                                                           \
	((CUuuid){ { 'f', 'a', 'k', 'e', '-', 'l', 'i', 'b', 'c', 'u', 'd', 'a', '-', '0', '0',    \
		     '1' } })

enum fake_function {
	FAKE_FN_INVALID,
#define F(since, name, need, params, args, call) FAKE_FN_##name,
#define S(since, name, need, params, args, call) FAKE_FN_##name, FAKE_FN_##name##_ptsz,
#define D(since, name, need, params, args, call) FAKE_FN_##name, FAKE_FN_##name##_ptds,
#include "api.def"
	FAKE_FN_COUNT,
};

enum fake_op_kind {
	FAKE_OP_KERNEL = 1,
	FAKE_OP_COPY,
	FAKE_OP_SET,
	FAKE_OP_HOST,
	FAKE_OP_CALLBACK,
	FAKE_OP_RECORD,
	FAKE_OP_WAIT,
	FAKE_OP_FREE,
	FAKE_OP_GRAPH,
	FAKE_OP_MARK,
};

enum fake_copy_kind {
	FAKE_COPY_ANY,
	FAKE_COPY_HTOD,
	FAKE_COPY_DTOH,
	FAKE_COPY_DTOD,
	FAKE_COPY_HTOH,
	FAKE_COPY_PTOP,
};

struct fake_api_call {
	enum fake_function function;
	const char *name;
	uint32_t correlation; /* of this call, and of every operation that it queues */
	uint32_t thread;
	CUcontext context;
	const uint64_t *args; /* the row's arguments, in order */
	unsigned int args_count;
	CUresult result; /* in api_exit */
	uint64_t user;	 /* for the hooks: what api_enter writes, api_exit finds */
	uint32_t outer;	 /* correlation of the call that a hook made this one in, or 0 */
};

struct fake_op_info {
	enum fake_op_kind kind;
	uint32_t correlation;
	uint32_t context_id, stream_id;
	int device;
	const char *name; /* kernels */
	uint32_t grid[3], block[3], shared_bytes;
	enum fake_copy_kind copy_kind;
	uint64_t bytes, value;
	uint32_t graph_id; /* of the executable graph it is a part of, or 0 */
	uint64_t node_id;
	uint64_t queued_ns, start_ns, end_ns; /* as far as they are known */
};

struct fake_hooks {
	void (*api_enter)(struct fake_api_call *call);
	void (*api_exit)(struct fake_api_call *call);
	void (*op_queued)(const struct fake_op_info *op);
	void (*op_start)(const struct fake_op_info *op);
	void (*op_end)(const struct fake_op_info *op);
	void (*module_loaded)(uint32_t context_id, CUmodule module, const void *image, size_t size);
	void (*module_unloaded)(uint32_t context_id, CUmodule module);
	void (*context_created)(CUcontext context, uint32_t context_id, int device);
	void (*context_destroyed)(CUcontext context, uint32_t context_id);
	void (*stream_created)(CUstream stream, uint32_t stream_id, uint32_t context_id);
	void (*stream_destroyed)(CUstream stream, uint32_t stream_id, uint32_t context_id);
};

/* Kinds of what a program holds. */
enum fake_book {
	FAKE_BOOK_DEVICE,
	FAKE_BOOK_MANAGED,
	FAKE_BOOK_POOL,
	FAKE_BOOK_HOST,
	FAKE_BOOK_REGISTERED,
	FAKE_BOOK_PHYSICAL,
	FAKE_BOOK_RESERVED,
	FAKE_BOOK_MAPPED,
	FAKE_BOOKS,
};

#define FAKE_BOOK_DEVICES 17 /* the last one: no device */
#define FAKE_BOOK_OPS	  16

struct fake_books {
	struct fake_book_entry {
		uint64_t bytes, count;
	} live[FAKE_BOOKS][FAKE_BOOK_DEVICES];
	uint64_t done[FAKE_BOOK_OPS]; /* operations that ran, by enum fake_op_kind; 0: captured */
};

struct fake_driver {
	size_t size;
	/* NULL takes the hooks away; the table must stay valid until the process ends. */
	void (*set_hooks)(const struct fake_hooks *hooks);
	const char *(*function_name)(enum fake_function function);
	uint64_t (*now)(void);
	/* Reports existing contexts and streams to context_created and stream_created. */
	void (*replay)(const struct fake_hooks *hooks);
	/* The id behind the handle of any live object. */
	uint64_t (*object_id)(const void *handle);
	void (*books)(struct fake_books *books);
	/* As cuDeviceGetMemPool, which would look like a call of the program. */
	CUresult (*device_pool)(CUmemoryPool *pool, CUdevice device);
	/* Takes memory of each device, for good. */
	void (*keep)(uint64_t bytes);
};
