/* CUPTI ABI: our own declarations of the part that the simulated libcupti implements, in two
 * layouts: FAKE_CUPTI_MAJOR 13 is that of CUDA 13.0, 12 that of CUDA 12.2 (records only grow at
 * their end). cupti_check.c holds both against NVIDIA's headers where they are. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifndef FAKE_CUPTI_MAJOR
#define FAKE_CUPTI_MAJOR 13
#endif

#define CUPTI_RECORD __attribute__((packed, aligned(8)))
#define CUPTI_NONE   UINT32_MAX /* no such stream, event or context */

enum cupti_result {
	CUPTI_OK = 0,
	CUPTI_E_INVALID_PARAMETER = 1,
	CUPTI_E_INVALID_CONTEXT = 3,
	CUPTI_E_INVALID_OPERATION = 7,
	CUPTI_E_OUT_OF_MEMORY = 8,
	CUPTI_E_PARAMETER_SIZE = 10,
	CUPTI_E_MAX_LIMIT_REACHED = 12,
	CUPTI_E_NOT_COMPATIBLE = 14,
	CUPTI_E_NOT_INITIALIZED = 15,
	CUPTI_E_QUEUE_EMPTY = 18,
	CUPTI_E_INVALID_STREAM = 20,
	CUPTI_E_INVALID_KIND = 21,
	CUPTI_E_NOT_SUPPORTED = 27,
	CUPTI_E_MULTIPLE_SUBSCRIBERS = 39,
};

enum cupti_kind {
	CUPTI_KIND_INVALID = 0,
	CUPTI_KIND_COPY = 1,
	CUPTI_KIND_SET = 2,
	CUPTI_KIND_KERNEL = 3,
	CUPTI_KIND_DRIVER = 4,
	CUPTI_KIND_RUNTIME = 5,
	CUPTI_KIND_DEVICE = 8,
	CUPTI_KIND_CONTEXT = 9,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_KIND_MARKER = 12,
	CUPTI_KIND_MARKER_DATA = 13,
	CUPTI_KIND_OVERHEAD = 17,
	CUPTI_KIND_PEER_COPY = 22,
	CUPTI_KIND_CUDA_EVENT = 36,
	CUPTI_KIND_STREAM = 37,
	CUPTI_KIND_SYNC = 38,
	CUPTI_KIND_EXTERNAL = 39,
	CUPTI_KIND_MEMORY2 = 49,
	CUPTI_KIND_POOL = 50,
	CUPTI_KIND_GRAPH_TRACE = 51,
	CUPTI_KIND_COUNT = 56,
	CUPTI_KIND_ODD = 200, /* not one of CUPTI's: what FAKE_CUPTI_ODD=unknown strews in */
};

enum {
	CUPTI_FLAG_FLUSH_FORCED = 1,
	CUPTI_FLAG_ASYNC = 1,
	CUPTI_MARKER_INSTANT = 1,
	CUPTI_MARKER_START = 2,
	CUPTI_MARKER_END = 4,
	CUPTI_COLOR_NONE = 1,
	CUPTI_COLOR_ARGB = 2,
	CUPTI_THREAD_DEFAULT = 0,
	CUPTI_THREAD_SYSTEM = 1,
	CUPTI_ATTR_PER_THREAD = 9,
	CUPTI_ATTR_COUNT = 11,
	CUPTI_MEMORY_PAGEABLE = 1,
	CUPTI_MEMORY_PINNED = 2,
	CUPTI_MEMORY_DEVICE = 3,
	CUPTI_MEMORY_MANAGED = 5,
	CUPTI_OPERATION_ALLOCATION = 1,
	CUPTI_OPERATION_RELEASE = 2,
	CUPTI_POOL_LOCAL = 1,
	CUPTI_POOL_CREATED = 1,
	CUPTI_POOL_DESTROYED = 2,
	CUPTI_POOL_TRIMMED = 3,
	CUPTI_SYNC_EVENT = 1,
	CUPTI_SYNC_STREAM_WAIT = 2,
	CUPTI_SYNC_STREAM = 3,
	CUPTI_SYNC_CONTEXT = 4,
	CUPTI_STREAM_DEFAULT = 1,
	CUPTI_STREAM_NON_BLOCKING = 2,
	CUPTI_STREAM_NULL = 3,
	CUPTI_OBJECT_PROCESS = 1,
	CUPTI_OBJECT_THREAD = 2,
	CUPTI_OVERHEAD_FLUSH = 1 << 16,
	CUPTI_OVERHEAD_RESOURCE = 3 << 16,
	CUPTI_OVERHEAD_REQUEST = 7 << 16,
	CUPTI_DOMAIN_DRIVER = 1,
	CUPTI_DOMAIN_RUNTIME = 2,
	CUPTI_DOMAIN_RESOURCE = 3,
	CUPTI_DOMAIN_SYNC = 4,
	CUPTI_DOMAIN_NVTX = 5,
	CUPTI_DOMAIN_STATE = 6,
	CUPTI_DOMAIN_COUNT = 7,
	CUPTI_RESOURCE_CONTEXT_CREATED = 1,
	CUPTI_RESOURCE_CONTEXT_DESTROYED = 2,
	CUPTI_RESOURCE_STREAM_CREATED = 3,
	CUPTI_RESOURCE_STREAM_DESTROYED = 4,
	CUPTI_RESOURCE_MODULE_LOADED = 6,
	CUPTI_RESOURCE_MODULE_UNLOADED = 7,
	CUPTI_SITE_ENTER = 0,
	CUPTI_SITE_EXIT = 1,
};

struct cupti_record {
	uint32_t kind;
} CUPTI_RECORD;

struct cupti_kernel {
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	uint32_t global_cache_requested, global_cache_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved0;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_set, carveout, padding;
	uint32_t shared_executed;
	uint64_t node;
	uint32_t shared_limit;
	uint32_t graph;
	void *policy;
	uint32_t channel, channel_type;
	uint32_t cluster[3], cluster_policy;
	uint64_t local_total_v2;
	uint32_t cluster_potential, clusters_active;
#if FAKE_CUPTI_MAJOR >= 13
	uint8_t device_launched, padding3[7];
#endif
} CUPTI_RECORD;

struct cupti_copy {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint32_t runtime_correlation, pad;
	void *reserved0;
	uint64_t node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3];
#if FAKE_CUPTI_MAJOR >= 13
	uint64_t copies;
#endif
} CUPTI_RECORD;

struct cupti_peer_copy {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t src_device, src_context, dst_device, dst_context;
	uint32_t correlation;
	void *reserved0;
	uint64_t node;
	uint32_t graph, channel, channel_type;
} CUPTI_RECORD;

struct cupti_set {
	uint32_t kind;
	uint32_t value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved0;
	uint64_t node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3];
} CUPTI_RECORD;

struct cupti_api {
	uint32_t kind;
	uint32_t cbid;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
} CUPTI_RECORD;

struct cupti_pool_config {
	uint32_t type, pad2;
	uint64_t address, release_threshold, size, used;
} CUPTI_RECORD;

struct cupti_memory {
	uint32_t kind;
	uint32_t operation, memory_kind, correlation;
	uint64_t address, bytes, timestamp, pc;
	uint32_t process, device, context, stream;
	const char *name;
	uint32_t async, pad1;
	struct cupti_pool_config pool;
#if FAKE_CUPTI_MAJOR >= 13
	const char *source;
#endif
} CUPTI_RECORD;

struct cupti_pool {
	uint32_t kind;
	uint32_t operation, type, correlation, process, device;
	size_t min_bytes;
	uint64_t address, size, release_threshold, timestamp, used;
#if FAKE_CUPTI_MAJOR >= 13
	uint8_t managed, pad[7];
#endif
} CUPTI_RECORD;

struct cupti_device {
	uint32_t kind, flags;
	uint64_t bandwidth, memory_bytes;
	uint32_t constant_bytes, l2_bytes, warp, core_clock, copy_engines, multiprocessors;
	uint32_t ipc, warps_max, blocks_max, shared_sm_max, registers_sm_max, registers_block_max;
	uint32_t shared_block_max, threads_block_max, block_max[3], grid_max[3];
	uint32_t capability_major, capability_minor;
	uint32_t id, ecc;
	uint8_t uuid[16];
	const char *name;
	uint8_t visible, mig, reserved[6];
	uint32_t gpu_instance, compute_instance;
	uint8_t mig_uuid[16];
#if FAKE_CUPTI_MAJOR >= 13
	uint32_t numa, numa_id;
#endif
} CUPTI_RECORD;

struct cupti_context {
	uint32_t kind;
	uint32_t context, device;
	uint16_t api, null_stream;
#if FAKE_CUPTI_MAJOR >= 13
	uint32_t parent;
	uint8_t green, padding;
	uint16_t multiprocessors;
	uint32_t cig_mode, padding2;
#endif
} CUPTI_RECORD;

struct cupti_stream {
	uint32_t kind;
	uint32_t context, stream, priority, flag, correlation;
} CUPTI_RECORD;

struct cupti_sync {
	uint32_t kind;
	uint32_t type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
#if FAKE_CUPTI_MAJOR >= 13
	uint64_t event_sync;
	uint32_t result, pad;
#endif
} CUPTI_RECORD;

struct cupti_event {
	uint32_t kind;
	uint32_t correlation, context, stream, event, pad;
#if FAKE_CUPTI_MAJOR >= 13
	uint32_t device, pad2;
	void *reserved0;
	uint64_t timestamp, event_sync;
#endif
} CUPTI_RECORD;

union cupti_object {
	struct {
		uint32_t process, thread;
	} pt;
	struct {
		uint32_t device, context, stream;
	} dcs;
};

struct cupti_overhead {
	uint32_t kind;
	uint32_t overhead_kind, object_kind;
	union cupti_object object;
	uint64_t start, end;
	uint32_t correlation, reserved0;
#if FAKE_CUPTI_MAJOR >= 13
	void *data;
#endif
} CUPTI_RECORD;

struct cupti_marker {
	uint32_t kind;
	uint32_t flags;
	uint64_t timestamp;
	uint32_t id, object_kind;
	union cupti_object object;
	uint32_t pad;
	const char *name, *domain;
} CUPTI_RECORD;

struct cupti_marker_data {
	uint32_t kind;
	uint32_t flags, id, payload_kind;
	uint64_t payload;
	uint32_t color, category;
#if FAKE_CUPTI_MAJOR >= 13
	uint32_t domain, padding;
#endif
} CUPTI_RECORD;

struct cupti_external {
	uint32_t kind;
	uint32_t external_kind;
	uint64_t external;
	uint32_t correlation, reserved;
} CUPTI_RECORD;

struct cupti_graph_trace {
	uint32_t kind;
	uint32_t correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
	void *reserved;
#if FAKE_CUPTI_MAJOR >= 13
	uint32_t end_device, end_context;
#endif
};

struct cupti_callback {
	uint32_t site;
	const char *name;
	const void *params;
	void *result;
	const char *symbol;
	void *context;
	uint32_t context_id;
	uint64_t *data;
	uint32_t correlation;
};

struct cupti_resource {
	void *context;
	void *stream;
	void *descriptor;
};

struct cupti_module {
	uint32_t id;
	size_t bytes;
	const char *image;
};

struct cupti_subscriber_params {
	size_t size;
	const char *name;
	char *old_name;
	size_t old_size;
};

typedef void (*cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *records_max);
typedef void (*cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
				  size_t valid);
typedef uint64_t (*cupti_time_fn)(void);
typedef void (*cupti_callback_fn)(void *user, uint32_t domain, uint32_t id, const void *data);

/* The functions, one row each: R(name, (parameters)) in both libraries, N only in the newer. */
#ifndef CUPTI_NO_FUNCTIONS
#define R(name, params) int name params;
#define N(name, params) int name params;
#include "cupti_api.def"
#endif
