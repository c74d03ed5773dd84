/* cupti_abi.h: the small part of CUPTI's binary interface that we use, so that the build needs no
 * NVIDIA header.
 *
 * Facts only: numbers, and the fields of each record up to the last one we read, as the oldest
 * CUPTI of CUDA 12 lays them out. Records only ever grow at their end. tests/fake/abi/cupti_check.c
 * compares all of it with NVIDIA's headers.
 */
#ifndef TS_CUPTI_ABI_H
#define TS_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum cupti_result {
	CUPTI_OK = 0,
	CUPTI_LIMIT_REACHED = 12, /* no more records in the buffer */
	CUPTI_NOT_COMPATIBLE = 14,
	CUPTI_INVALID_KIND = 21,
	CUPTI_NO_PRIVILEGE = 35,
	CUPTI_OTHER_SUBSCRIBER = 39,
	CUPTI_VIRTUAL_NO_PRIVILEGE = 40,
};

/* cuptiGetVersion: small numbers up to 12.9, then 130001 for 13.0.1. */
#define CUPTI_VERSION_12_0 19
#define CUPTI_VERSION_12_6 24
#define CUPTI_VERSION_12_9 27

enum cupti_kind {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_KERNEL = 3, /* kind of the records that come along with CONCURRENT_KERNEL */
	CUPTI_KIND_DRIVER = 4,
	CUPTI_KIND_RUNTIME = 5,
	CUPTI_KIND_DEVICE = 8,
	CUPTI_KIND_CONTEXT = 9,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_KIND_MARKER = 12,
	CUPTI_KIND_OVERHEAD = 17,
	CUPTI_KIND_MEMCPY2 = 22,
	CUPTI_KIND_STREAM = 37,
	CUPTI_KIND_SYNCHRONIZATION = 38,
	CUPTI_KIND_MEMORY2 = 49,
	CUPTI_KIND_MEMORY_POOL = 50,
	CUPTI_KIND_GRAPH_TRACE = 51,
};

enum cupti_number {
	CUPTI_DOMAIN_DRIVER = 1,
	CUPTI_DOMAIN_RUNTIME = 2,
	CUPTI_SITE_ENTER = 0,
	CUPTI_SITE_EXIT = 1,
	CUPTI_OBJECT_PROCESS = 1,
	CUPTI_OBJECT_THREAD = 2,
	CUPTI_MARKER_INSTANT = 1,
	CUPTI_MARKER_START = 2,
	CUPTI_MARKER_END = 4,
	CUPTI_FLUSH_FORCED = 1,
	CUPTI_ATTRIBUTE_ZEROED_BUFFER = 5,
	CUPTI_THREAD_ID_DEFAULT = 0,
	CUPTI_THREAD_ID_SYSTEM = 1,
	CUPTI_COPY_KIND_PEER = 10,
	CUPTI_OVERHEAD_FLUSH = 1 << 16,
	CUPTI_OVERHEAD_INSTRUMENTATION = 2 << 16,
	CUPTI_OVERHEAD_RESOURCE = 3 << 16,
	CUPTI_OVERHEAD_BUFFER_REQUEST = 7 << 16,
};

struct cupti_kernel {
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	uint32_t global_cache[2];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	uint32_t grid[3], block[3];
	uint32_t static_bytes, dynamic_bytes;
	uint32_t local_bytes; /* a thread */
	uint32_t local_bytes_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, padding;
	uint32_t shared_bytes;
	uint64_t node;
	uint32_t limit_config;
	uint32_t graph;
};

struct cupti_copy {
	uint32_t kind;
	uint8_t copy_kind, from, to, flags;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t correlation, runtime_correlation;
	uint32_t padding;
	void *reserved;
	uint64_t node;
	uint32_t graph;
};

struct cupti_peer_copy {
	uint32_t kind;
	uint8_t copy_kind, from, to, flags;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t from_device, from_context, to_device, to_context;
	uint32_t correlation;
	void *reserved;
	uint64_t node;
	uint32_t graph;
};

struct cupti_set {
	uint32_t kind;
	uint32_t value;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t correlation;
	uint16_t flags, memory_kind;
	uint32_t padding;
	void *reserved;
	uint64_t node;
	uint32_t graph;
};

struct cupti_graph {
	uint32_t kind;
	uint32_t correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};

struct cupti_sync {
	uint32_t kind;
	uint32_t type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
};

struct cupti_memory {
	uint32_t kind;
	uint32_t operation, memory_kind;
	uint32_t correlation;
	uint64_t address, bytes, timestamp, pc;
	uint32_t process, device, context, stream;
	const char *name;
	uint32_t is_async, padding;
	uint32_t pool_type, pool_padding;
	uint64_t pool_address, pool_threshold;
	uint64_t pool_size; /* pool of this process; otherwise of another process */
	uint64_t pool_used;
};

struct cupti_pool {
	uint32_t kind;
	uint32_t operation, pool_type;
	uint32_t correlation, process, device;
	uint64_t keep_bytes;
	uint64_t address, size, threshold, timestamp, used;
};

struct cupti_context {
	uint32_t kind;
	uint32_t context, device;
	uint16_t api, null_stream;
};

/* What a marker or an overhead belongs to; the thread if object is CUPTI_OBJECT_THREAD. */
struct cupti_object {
	uint32_t process, thread, stream;
};

struct cupti_marker {
	uint32_t kind;
	uint32_t flags;
	uint64_t timestamp;
	uint32_t id;
	uint32_t object;
	struct cupti_object of;
	uint32_t padding;
	const char *name;
	const char *domain;
};

struct cupti_overhead {
	uint32_t kind;
	uint32_t overhead;
	uint32_t object;
	struct cupti_object of;
	uint64_t start, end;
	uint32_t correlation; /* from CUDA 12.2 on */
	uint32_t reserved;
};

/* A call of the driver or of the runtime. */
struct cupti_api {
	uint32_t kind;
	uint32_t cbid;
	uint64_t start, end;
	uint32_t process, thread;
	uint32_t correlation;
	uint32_t result;
};

/* Passed to a callback of the driver domain. */
struct cupti_call {
	uint32_t site;
	const char *function;
	const void *parameters;
	const void *result; /* at EXIT: points to the function's return value, a CUresult */
	const char *symbol;
	void *context;
	uint32_t context_id;
	uint64_t *correlation_data; /* the subscriber's, kept from ENTER to EXIT */
	uint32_t correlation;
};

typedef void cupti_request_fn(uint8_t **buffer, size_t *size, size_t *records);
typedef void cupti_complete_fn(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			       size_t valid);
typedef void cupti_callback_fn(void *data, uint32_t domain, uint32_t cbid, const void *call);
typedef uint64_t cupti_clock_fn(void);

/* required, field, symbol, parameters: all return enum cupti_result, but nvtx_inject, which returns
 * 1 for success, as NVTX wants it */
#define CUPTI_FUNCTIONS(X)                                                                         \
	X(1, get_version, cuptiGetVersion, (uint32_t *))                                           \
	X(1, subscribe, cuptiSubscribe, (void **, cupti_callback_fn *, void *))                    \
	X(1, unsubscribe, cuptiUnsubscribe, (void *))                                              \
	X(1, enable_callback, cuptiEnableCallback, (uint32_t, void *, uint32_t, uint32_t))         \
	X(1, enable, cuptiActivityEnable, (uint32_t))                                              \
	X(1, disable, cuptiActivityDisable, (uint32_t))                                            \
	X(1, register_callbacks, cuptiActivityRegisterCallbacks,                                   \
	  (cupti_request_fn *, cupti_complete_fn *))                                               \
	X(1, flush_all, cuptiActivityFlushAll, (uint32_t))                                         \
	X(1, next_record, cuptiActivityGetNextRecord, (uint8_t *, size_t, void **))                \
	X(0, dropped, cuptiActivityGetNumDroppedRecords, (void *, uint32_t, size_t *))             \
	X(0, enable_driver_call, cuptiActivityEnableDriverApi, (uint32_t, uint8_t))                \
	X(0, enable_runtime_call, cuptiActivityEnableRuntimeApi, (uint32_t, uint8_t))              \
	X(0, callback_name, cuptiGetCallbackName, (uint32_t, uint32_t, const char **))             \
	X(0, set_attribute, cuptiActivitySetAttribute, (uint32_t, size_t *, void *))               \
	X(0, set_thread_id_type, cuptiSetThreadIdType, (uint32_t))                                 \
	X(0, get_thread_id_type, cuptiGetThreadIdType, (uint32_t *))                               \
	X(0, register_clock, cuptiActivityRegisterTimestampCallback, (cupti_clock_fn *))           \
	X(0, finalize, cuptiFinalize, (void))                                                      \
	X(0, context_id, cuptiGetContextId, (void *, uint32_t *))                                  \
	X(0, stream_id, cuptiGetStreamIdEx, (void *, void *, uint8_t, uint32_t *))                 \
	X(0, nvtx_inject, InitializeInjectionNvtx2, (void *))

#endif
