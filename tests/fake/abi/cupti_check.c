/* CUPTI check: what inject/cupti_abi.h declares against NVIDIA's headers. It compiles only if they
 * agree; nothing runs. Each record is compared with all its versions since CUDA 12.0. */
#include <stddef.h>

#include <cuda.h>
#include <cupti_result.h>

#include <cupti_activity.h>
#include <cupti_activity_deprecated.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>

#include "inject/cupti_abi.h"
#include "inject/cupti_calls.h"
#include "proto/event.h"

#define SAME(ours, member, theirs, field)                                                          \
	_Static_assert(offsetof(struct ours, member) == offsetof(theirs, field),                   \
		       #theirs "." #field " lies elsewhere");                                      \
	_Static_assert(sizeof(((struct ours *)0)->member) <= sizeof(((theirs *)0)->field) ||       \
			       sizeof(((struct ours *)0)->member) == 12,                           \
		       #theirs "." #field " is smaller");
#define NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs);

#define KERNEL(theirs)                                                                             \
	SAME(cupti_kernel, kind, theirs, kind)                                                     \
	SAME(cupti_kernel, registers, theirs, registersPerThread)                                  \
	SAME(cupti_kernel, start, theirs, start)                                                   \
	SAME(cupti_kernel, end, theirs, end)                                                       \
	SAME(cupti_kernel, device, theirs, deviceId)                                               \
	SAME(cupti_kernel, context, theirs, contextId)                                             \
	SAME(cupti_kernel, stream, theirs, streamId)                                               \
	SAME(cupti_kernel, grid, theirs, gridX)                                                    \
	SAME(cupti_kernel, grid[2], theirs, gridZ)                                                 \
	SAME(cupti_kernel, block, theirs, blockX)                                                  \
	SAME(cupti_kernel, block[2], theirs, blockZ)                                               \
	SAME(cupti_kernel, static_bytes, theirs, staticSharedMemory)                               \
	SAME(cupti_kernel, dynamic_bytes, theirs, dynamicSharedMemory)                             \
	SAME(cupti_kernel, local_bytes, theirs, localMemoryPerThread)                              \
	SAME(cupti_kernel, correlation, theirs, correlationId)                                     \
	SAME(cupti_kernel, name, theirs, name)                                                     \
	SAME(cupti_kernel, node, theirs, graphNodeId)                                              \
	SAME(cupti_kernel, graph, theirs, graphId)
KERNEL(CUpti_ActivityKernel7)
KERNEL(CUpti_ActivityKernel8)
KERNEL(CUpti_ActivityKernel9)
KERNEL(CUpti_ActivityKernel10)

#define COPY_BASE(ours, theirs)                                                                    \
	SAME(ours, kind, theirs, kind)                                                             \
	SAME(ours, copy_kind, theirs, copyKind)                                                    \
	SAME(ours, from, theirs, srcKind)                                                          \
	SAME(ours, to, theirs, dstKind)                                                            \
	SAME(ours, bytes, theirs, bytes)                                                           \
	SAME(ours, start, theirs, start)                                                           \
	SAME(ours, end, theirs, end)                                                               \
	SAME(ours, device, theirs, deviceId)                                                       \
	SAME(ours, context, theirs, contextId)                                                     \
	SAME(ours, stream, theirs, streamId)                                                       \
	SAME(ours, correlation, theirs, correlationId)                                             \
	SAME(ours, node, theirs, graphNodeId)                                                      \
	SAME(ours, graph, theirs, graphId)
COPY_BASE(cupti_copy, CUpti_ActivityMemcpy5)
COPY_BASE(cupti_copy, CUpti_ActivityMemcpy6)
COPY_BASE(cupti_peer_copy, CUpti_ActivityMemcpyPtoP4)
SAME(cupti_peer_copy, from_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId)

#define SET(theirs)                                                                                \
	SAME(cupti_set, value, theirs, value)                                                      \
	SAME(cupti_set, bytes, theirs, bytes)                                                      \
	SAME(cupti_set, start, theirs, start)                                                      \
	SAME(cupti_set, end, theirs, end)                                                          \
	SAME(cupti_set, device, theirs, deviceId)                                                  \
	SAME(cupti_set, context, theirs, contextId)                                                \
	SAME(cupti_set, stream, theirs, streamId)                                                  \
	SAME(cupti_set, correlation, theirs, correlationId)                                        \
	SAME(cupti_set, memory_kind, theirs, memoryKind)                                           \
	SAME(cupti_set, node, theirs, graphNodeId)                                                 \
	SAME(cupti_set, graph, theirs, graphId)
SET(CUpti_ActivityMemset4)

#define GRAPH(theirs)                                                                              \
	SAME(cupti_graph, correlation, theirs, correlationId)                                      \
	SAME(cupti_graph, start, theirs, start)                                                    \
	SAME(cupti_graph, end, theirs, end)                                                        \
	SAME(cupti_graph, device, theirs, deviceId)                                                \
	SAME(cupti_graph, graph, theirs, graphId)                                                  \
	SAME(cupti_graph, context, theirs, contextId)                                              \
	SAME(cupti_graph, stream, theirs, streamId)
GRAPH(CUpti_ActivityGraphTrace)
GRAPH(CUpti_ActivityGraphTrace2)

#define SYNC(theirs)                                                                               \
	SAME(cupti_sync, type, theirs, type)                                                       \
	SAME(cupti_sync, start, theirs, start)                                                     \
	SAME(cupti_sync, end, theirs, end)                                                         \
	SAME(cupti_sync, correlation, theirs, correlationId)                                       \
	SAME(cupti_sync, context, theirs, contextId)                                               \
	SAME(cupti_sync, stream, theirs, streamId)                                                 \
	SAME(cupti_sync, event, theirs, cudaEventId)
SYNC(CUpti_ActivitySynchronization)
SYNC(CUpti_ActivitySynchronization2)

#define MEMORY(theirs)                                                                             \
	SAME(cupti_memory, operation, theirs, memoryOperationType)                                 \
	SAME(cupti_memory, memory_kind, theirs, memoryKind)                                        \
	SAME(cupti_memory, correlation, theirs, correlationId)                                     \
	SAME(cupti_memory, address, theirs, address)                                               \
	SAME(cupti_memory, bytes, theirs, bytes)                                                   \
	SAME(cupti_memory, timestamp, theirs, timestamp)                                           \
	SAME(cupti_memory, device, theirs, deviceId)                                               \
	SAME(cupti_memory, context, theirs, contextId)                                             \
	SAME(cupti_memory, stream, theirs, streamId)                                               \
	SAME(cupti_memory, pool_type, theirs, memoryPoolConfig.memoryPoolType)                     \
	SAME(cupti_memory, pool_address, theirs, memoryPoolConfig.address)                         \
	SAME(cupti_memory, pool_threshold, theirs, memoryPoolConfig.releaseThreshold)              \
	SAME(cupti_memory, pool_size, theirs, memoryPoolConfig.pool.size)                          \
	SAME(cupti_memory, pool_used, theirs, memoryPoolConfig.utilizedSize)
MEMORY(CUpti_ActivityMemory3)
MEMORY(CUpti_ActivityMemory4)

#define POOL(theirs)                                                                               \
	SAME(cupti_pool, operation, theirs, memoryPoolOperationType)                               \
	SAME(cupti_pool, pool_type, theirs, memoryPoolType)                                        \
	SAME(cupti_pool, correlation, theirs, correlationId)                                       \
	SAME(cupti_pool, device, theirs, deviceId)                                                 \
	SAME(cupti_pool, address, theirs, address)                                                 \
	SAME(cupti_pool, size, theirs, size)                                                       \
	SAME(cupti_pool, threshold, theirs, releaseThreshold)                                      \
	SAME(cupti_pool, timestamp, theirs, timestamp)                                             \
	SAME(cupti_pool, used, theirs, utilizedSize)
POOL(CUpti_ActivityMemoryPool2)
POOL(CUpti_ActivityMemoryPool3)

#define CONTEXT(theirs)                                                                            \
	SAME(cupti_context, context, theirs, contextId)                                            \
	SAME(cupti_context, device, theirs, deviceId)                                              \
	SAME(cupti_context, null_stream, theirs, nullStreamId)
CONTEXT(CUpti_ActivityContext)
CONTEXT(CUpti_ActivityContext2)
CONTEXT(CUpti_ActivityContext3)

SAME(cupti_marker, flags, CUpti_ActivityMarker2, flags)
SAME(cupti_marker, timestamp, CUpti_ActivityMarker2, timestamp)
SAME(cupti_marker, id, CUpti_ActivityMarker2, id)
SAME(cupti_marker, object, CUpti_ActivityMarker2, objectKind)
SAME(cupti_marker, of, CUpti_ActivityMarker2, objectId)
SAME(cupti_marker, of.thread, CUpti_ActivityMarker2, objectId.pt.threadId)
SAME(cupti_marker, name, CUpti_ActivityMarker2, name)
SAME(cupti_marker, domain, CUpti_ActivityMarker2, domain)

#define OVERHEAD(theirs)                                                                           \
	SAME(cupti_overhead, overhead, theirs, overheadKind)                                       \
	SAME(cupti_overhead, object, theirs, objectKind)                                           \
	SAME(cupti_overhead, of.thread, theirs, objectId.pt.threadId)                              \
	SAME(cupti_overhead, start, theirs, start)                                                 \
	SAME(cupti_overhead, end, theirs, end)
OVERHEAD(CUpti_ActivityOverhead)
OVERHEAD(CUpti_ActivityOverhead2)
OVERHEAD(CUpti_ActivityOverhead3)
SAME(cupti_overhead, correlation, CUpti_ActivityOverhead2, correlationId)
SAME(cupti_overhead, correlation, CUpti_ActivityOverhead3, correlationId)
_Static_assert(sizeof(CUpti_ActivityOverhead) == offsetof(struct cupti_overhead, correlation),
	       "the first form ends before the correlation");

SAME(cupti_api, cbid, CUpti_ActivityAPI, cbid)
SAME(cupti_api, start, CUpti_ActivityAPI, start)
SAME(cupti_api, end, CUpti_ActivityAPI, end)
SAME(cupti_api, thread, CUpti_ActivityAPI, threadId)
SAME(cupti_api, correlation, CUpti_ActivityAPI, correlationId)
SAME(cupti_api, result, CUpti_ActivityAPI, returnValue)

SAME(cupti_call, site, CUpti_CallbackData, callbackSite)
SAME(cupti_call, result, CUpti_CallbackData, functionReturnValue)
SAME(cupti_call, correlation_data, CUpti_CallbackData, correlationData)
SAME(cupti_call, correlation, CUpti_CallbackData, correlationId)

NUMBER(CUPTI_OK, CUPTI_SUCCESS)
NUMBER(CUPTI_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED)
NUMBER(CUPTI_NOT_COMPATIBLE, CUPTI_ERROR_NOT_COMPATIBLE)
NUMBER(CUPTI_INVALID_KIND, CUPTI_ERROR_INVALID_KIND)
NUMBER(CUPTI_NO_PRIVILEGE, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
NUMBER(CUPTI_OTHER_SUBSCRIBER, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
NUMBER(CUPTI_VIRTUAL_NO_PRIVILEGE, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
NUMBER(CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY)
NUMBER(CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET)
NUMBER(CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL)
NUMBER(CUPTI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER)
NUMBER(CUPTI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME)
NUMBER(CUPTI_KIND_DEVICE, CUPTI_ACTIVITY_KIND_DEVICE)
NUMBER(CUPTI_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_CONTEXT)
NUMBER(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
NUMBER(CUPTI_KIND_MARKER, CUPTI_ACTIVITY_KIND_MARKER)
NUMBER(CUPTI_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD)
NUMBER(CUPTI_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2)
NUMBER(CUPTI_KIND_STREAM, CUPTI_ACTIVITY_KIND_STREAM)
NUMBER(CUPTI_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)
NUMBER(CUPTI_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY2)
NUMBER(CUPTI_KIND_MEMORY_POOL, CUPTI_ACTIVITY_KIND_MEMORY_POOL)
NUMBER(CUPTI_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
NUMBER(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API)
NUMBER(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API)
NUMBER(CUPTI_SITE_ENTER, CUPTI_API_ENTER)
NUMBER(CUPTI_SITE_EXIT, CUPTI_API_EXIT)
NUMBER(CUPTI_OBJECT_PROCESS, CUPTI_ACTIVITY_OBJECT_PROCESS)
NUMBER(CUPTI_OBJECT_THREAD, CUPTI_ACTIVITY_OBJECT_THREAD)
NUMBER(CUPTI_MARKER_INSTANT, CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS)
NUMBER(CUPTI_MARKER_START, CUPTI_ACTIVITY_FLAG_MARKER_START)
NUMBER(CUPTI_MARKER_END, CUPTI_ACTIVITY_FLAG_MARKER_END)
NUMBER(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)
NUMBER(CUPTI_ATTRIBUTE_ZEROED_BUFFER, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
NUMBER(CUPTI_THREAD_ID_DEFAULT, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT)
NUMBER(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
NUMBER(TS_MEMORY_PAGEABLE, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)
NUMBER(CUPTI_COPY_KIND_PEER, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP)
NUMBER(CUPTI_OVERHEAD_FLUSH, CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH)
NUMBER(CUPTI_OVERHEAD_INSTRUMENTATION, CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION)
NUMBER(CUPTI_OVERHEAD_RESOURCE, CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE)
NUMBER(CUPTI_OVERHEAD_BUFFER_REQUEST, CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST)

#define CALL(name, plain, per_thread) NUMBER(plain, CUPTI_DRIVER_TRACE_CBID_##name)
CUPTI_CALLS(CALL)
#undef CALL
#define CALL(name, plain, per_thread) NUMBER(plain, CUPTI_RUNTIME_TRACE_CBID_##name)
CUPTI_RUNTIME_CALLS(CALL)
