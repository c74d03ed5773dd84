/* Cuda: NVIDIA's driver API (libcuda), one row per function.
 *
 * Argument positions and structure offsets are those of cuda.h (CUDA 12 and 13; the ABI of a symbol
 * never changes, a new signature gets a new symbol). Every call of the runtime API reaches one of
 * these functions, so probing libcuda alone sees programs of both APIs, static or shared.
 */
#include "core/base/array.h"
#include "daemon/library/library.h"

/* A row is one thought: laid out by hand. */
/* clang-format off */
#define RETURN	PROBE_RETURN
#define STACK	PROBE_STACK
#define SAMPLE	PROBE_SAMPLE
#define KEEP	PROBE_KEEP
#define SPILLED PROBE_SPILLED
#define WAIT	PROBE_WAIT
#define ALWAYS	PROBE_ALWAYS

#define TO(field)		  (uint8_t) offsetof(struct ts_api, field)
#define ARG(n, field)		  { PROBE_ARG, n, 8, TO(field), 0 }
#define ARG32(n, field)		  { PROBE_ARG, n, 4, TO(field), 0 }
#define FIELD(n, offset, field)	  { PROBE_FIELD, n, 8, TO(field), offset }
#define FIELD32(n, offset, field) { PROBE_FIELD, n, 4, TO(field), offset }
/* The pointer is kept in the field from entry to return: IN must put it there. */
#define AT(n, field) { PROBE_FIELD, n, 8, TO(field), 0 }

#define IN(...)	   .slot = { __VA_ARGS__ }
#define OUT(...)   .out = { __VA_ARGS__ }
#define ALIAS(...) .alias = { __VA_ARGS__ }
/* CUPTI's numbers of the function and of its per-thread form, for functions that submit work. */
#define ACTIVITY(...) .model.activity = { __VA_ARGS__ }
#define PTSZ	   .per_thread = "_ptsz"
#define PTDS	   .per_thread = "_ptds"
#define ROW(row, symbol, op, does, what, how, ...)                                                 \
	{ .number = row,                                                                           \
	  .model.name = symbol,                                                                    \
	  .model.kind = OP_##op,                                                                   \
	  .model.effect = EFFECT_##does,                                                           \
	  .model.detail = what,                                                                    \
	  .flags = how,                                                                            \
	  __VA_ARGS__ }

/* Of cuLaunchKernel and its kin. */
#define LAUNCH_ARGS                                                                                \
	ARG(0, handle), ARG32(1, grid[0]), ARG32(2, grid[1]), ARG32(3, grid[2]),                   \
		ARG32(4, block[0]), ARG32(5, block[1]), ARG32(6, block[2]),                        \
		ARG32(7, shared_bytes), ARG(8, stream)
/* Of CUmemAllocationProp and CUmemPoolProps: the type of place, and the device. */
#define LOCATION(n) FIELD32(n, 8, value), FIELD32(n, 12, device)
/* CUDA_MEMCPY2D. */
#define COPY_2D                                                                                    \
	FIELD(0, 88, address), FIELD(0, 32, source), FIELD(0, 112, bytes), FIELD(0, 120, height)
/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER share these offsets. */
#define COPY_3D                                                                                    \
	FIELD(0, 136, address), FIELD(0, 48, source), FIELD(0, 176, bytes), FIELD(0, 184, height), \
		FIELD(0, 192, depth)

/* A return is probed for what it tells: what was made, whether it failed, or how long it took where
 * that may be long. */
static const struct library_function cuda_function[] = {
	/* Launches. Their return is not probed, so errors of launches are not seen here. */
	ROW(1, "cuLaunchKernel", LAUNCH, SUBMIT, 0, SAMPLE | SPILLED, IN(LAUNCH_ARGS), PTSZ,
	    ACTIVITY(307, 442)),
	ROW(2, "cuLaunchKernelEx", LAUNCH, SUBMIT, 0, SAMPLE,
	    IN(ARG(1, handle), FIELD(0, 0, grid[0]), FIELD(0, 8, grid[2]), FIELD(0, 16, block[1]),
	       FIELD32(0, 24, shared_bytes), FIELD(0, 32, stream)),
	    PTSZ, ACTIVITY(652, 653)),
	ROW(3, "cuLaunchCooperativeKernel", LAUNCH, SUBMIT, 0, SAMPLE | SPILLED, IN(LAUNCH_ARGS),
	    PTSZ, ACTIVITY(477, 478)),
	ROW(4, "cuGraphLaunch", LAUNCH, SUBMIT, 0, SAMPLE, IN(ARG(0, handle), ARG(1, stream)),
	    PTSZ, ACTIVITY(514, 515), .model.graph = true),
	ROW(5, "cuLaunchHostFunc", LAUNCH, SUBMIT, 0, SAMPLE, IN(ARG(1, handle), ARG(0, stream)),
	    PTSZ),

	/* Memory that is held until it is freed. */
	ROW(10, "cuMemAlloc_v2", ALLOC, ALLOC, MEMORY_DEVICE, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes)), OUT(AT(0, address))),
	ROW(11, "cuMemAllocPitch_v2", ALLOC, ALLOC, MEMORY_DEVICE, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes), ARG(3, height)), OUT(AT(0, address), AT(1, bytes))),
	ROW(12, "cuMemAllocManaged", ALLOC, ALLOC, MEMORY_MANAGED, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes)), OUT(AT(0, address))),
	ROW(13, "cuMemAllocAsync", ALLOC, ALLOC, MEMORY_POOL, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes), ARG(2, stream)), OUT(AT(0, address)), PTSZ),
	ROW(14, "cuMemAllocFromPoolAsync", ALLOC, ALLOC, MEMORY_POOL, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes), ARG(2, handle), ARG(3, stream)),
	    OUT(AT(0, address)), PTSZ),
	ROW(15, "cuMemHostAlloc", ALLOC, ALLOC, MEMORY_HOST, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes), ARG32(2, flags)), OUT(AT(0, address))),
	ROW(16, "cuMemAllocHost_v2", ALLOC, ALLOC, MEMORY_HOST, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes)), OUT(AT(0, address))),
	ROW(17, "cuMemHostRegister_v2", ALLOC, ALLOC, MEMORY_REGISTERED, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes), ARG32(2, flags)), ALIAS("cuMemHostRegister")),
	ROW(18, "cuMemCreate", ALLOC, ALLOC_ON, MEMORY_PHYSICAL, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes), LOCATION(2)), OUT(AT(0, address))),
	ROW(19, "cuMemAddressReserve", ALLOC, ALLOC, MEMORY_RESERVED, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, bytes)), OUT(AT(0, address))),
	/* Memory of another process. */
	ROW(20, "cuMemImportFromShareableHandle", ALLOC, IMPORT, MEMORY_IMPORTED_PHYSICAL,
	    RETURN | STACK | KEEP, IN(ARG(0, address)), OUT(AT(0, address))),
	ROW(21, "cuIpcOpenMemHandle_v2", ALLOC, IMPORT, MEMORY_IMPORTED, RETURN | STACK | KEEP,
	    IN(ARG(0, address)), OUT(AT(0, address)), ALIAS("cuIpcOpenMemHandle")),
	ROW(22, "cuMemPoolImportPointer", ALLOC, IMPORT, MEMORY_IMPORTED, RETURN | STACK | KEEP,
	    IN(ARG(0, address), ARG(1, handle)), OUT(AT(0, address))),
	ROW(23, "cuExternalMemoryGetMappedBuffer", ALLOC, IMPORT, MEMORY_IMPORTED,
	    RETURN | STACK | KEEP, IN(ARG(0, address), FIELD(2, 8, bytes)), OUT(AT(0, address))),
	ROW(30, "cuMemFree_v2", FREE, FREE, MEMORY_DEVICE, RETURN | KEEP, IN(ARG(0, address))),
	ROW(31, "cuMemFreeAsync", FREE, FREE, MEMORY_POOL, RETURN | KEEP,
	    IN(ARG(0, address), ARG(1, stream)), PTSZ),
	ROW(32, "cuMemFreeHost", FREE, FREE, MEMORY_HOST, RETURN | KEEP, IN(ARG(0, address))),
	ROW(33, "cuMemHostUnregister", FREE, FREE, MEMORY_REGISTERED, RETURN | KEEP,
	    IN(ARG(0, address))),
	ROW(34, "cuMemRelease", FREE, FREE, MEMORY_PHYSICAL, RETURN | KEEP, IN(ARG(0, address))),
	ROW(35, "cuMemAddressFree", FREE, FREE, MEMORY_RESERVED, RETURN | KEEP,
	    IN(ARG(0, address), ARG(1, bytes))),
	ROW(36, "cuIpcCloseMemHandle", FREE, FREE, MEMORY_IMPORTED, RETURN | KEEP,
	    IN(ARG(0, address))),

	/* Memory management that holds nothing itself. */
	ROW(40, "cuMemMap", MEMORY, MAP, 0, RETURN | KEEP,
	    IN(ARG(0, address), ARG(1, bytes), ARG(3, handle))),
	ROW(41, "cuMemUnmap", MEMORY, UNMAP, 0, RETURN | KEEP, IN(ARG(0, address), ARG(1, bytes))),
	ROW(42, "cuMemSetAccess", MEMORY, NONE, 0, RETURN, IN(ARG(0, address), ARG(1, bytes))),
	ROW(43, "cuMemPoolCreate", MEMORY, POOL_KNOWN, 0, RETURN | KEEP,
	    IN(ARG(0, handle), LOCATION(1)), OUT(AT(0, handle))),
	ROW(44, "cuMemPoolDestroy", MEMORY, POOL_DESTROY, 0, RETURN | KEEP, IN(ARG(0, handle))),
	ROW(45, "cuMemPoolTrimTo", MEMORY, NONE, 0, RETURN, IN(ARG(0, handle), ARG(1, bytes))),
	ROW(46, "cuMemPrefetchAsync_v2", MEMORY, SUBMIT, 0, 0,
	    IN(ARG(0, address), ARG(1, bytes), ARG(4, stream)), PTSZ, ACTIVITY(716, 717)),
	ROW(47, "cuMemRetainAllocationHandle", MEMORY, HANDLE_RETAIN, 0, RETURN | KEEP,
	    IN(ARG(0, handle), ARG(1, address)), OUT(AT(0, handle))),
	ROW(48, "cuDeviceGetDefaultMemPool", MEMORY, POOL_KNOWN, 0, RETURN | KEEP,
	    IN(ARG(0, handle), ARG32(1, device)), OUT(AT(0, handle))),
	ROW(49, "cuDeviceGetMemPool", MEMORY, POOL_KNOWN, 0, RETURN | KEEP,
	    IN(ARG(0, handle), ARG32(1, device)), OUT(AT(0, handle))),
	/* Asked by who has failed to get memory: what is free, and what there is. */
	ROW(37, "cuMemGetInfo_v2", MEMORY, ROOM, 0, RETURN, IN(ARG(0, address), ARG(1, handle)),
	    OUT(AT(0, address), AT(1, handle))),
	/* Asked by the runtime API at its first look at a device. */
	ROW(38, "cuDeviceTotalMem_v2", MEMORY, DEVICE_SIZE, 0, RETURN,
	    IN(ARG(0, address), ARG32(1, device)), OUT(AT(0, address))),

	/* Copies. The return of synchronous ones is probed for their time. */
	ROW(50, "cuMemcpy", COPY, SUBMIT_WAIT, COPY_UNKNOWN, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes)), PTDS, ACTIVITY(305, 408)),
	ROW(51, "cuMemcpyHtoD_v2", COPY, SUBMIT_WAIT, COPY_HTOD, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes)), PTDS, ACTIVITY(276, 397)),
	ROW(52, "cuMemcpyDtoH_v2", COPY, SUBMIT_WAIT, COPY_DTOH, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes)), PTDS, ACTIVITY(278, 398)),
	ROW(53, "cuMemcpyDtoD_v2", COPY, SUBMIT, COPY_DTOD, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes)), PTDS, ACTIVITY(280, 399)),
	ROW(54, "cuMemcpyPeer", COPY, SUBMIT_WAIT, COPY_PTOP, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG(2, source), ARG(4, bytes)), PTDS, ACTIVITY(318, 409)),
	ROW(55, "cuMemcpyAsync", COPY, SUBMIT, COPY_UNKNOWN, SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes), ARG(3, stream)), PTSZ,
	    ACTIVITY(306, 418)),
	ROW(56, "cuMemcpyHtoDAsync_v2", COPY, SUBMIT, COPY_HTOD, SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes), ARG(3, stream)), PTSZ,
	    ACTIVITY(277, 421)),
	ROW(57, "cuMemcpyDtoHAsync_v2", COPY, SUBMIT, COPY_DTOH, SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes), ARG(3, stream)), PTSZ,
	    ACTIVITY(279, 422)),
	ROW(58, "cuMemcpyDtoDAsync_v2", COPY, SUBMIT, COPY_DTOD, SAMPLE,
	    IN(ARG(0, address), ARG(1, source), ARG(2, bytes), ARG(3, stream)), PTSZ,
	    ACTIVITY(281, 423)),
	ROW(59, "cuMemcpyPeerAsync", COPY, SUBMIT, COPY_PTOP, SAMPLE,
	    IN(ARG(0, address), ARG(2, source), ARG(4, bytes), ARG(5, stream)), PTSZ,
	    ACTIVITY(319, 426)),
	ROW(60, "cuMemcpy2D_v2", COPY, SUBMIT_WAIT, COPY_UNKNOWN, RETURN | SAMPLE,
	    IN(COPY_2D), PTDS, ACTIVITY(287, 405)),
	ROW(61, "cuMemcpy2DUnaligned_v2", COPY, SUBMIT_WAIT, COPY_UNKNOWN, RETURN | SAMPLE,
	    IN(COPY_2D), PTDS, ACTIVITY(288, 406)),
	ROW(62, "cuMemcpy2DAsync_v2", COPY, SUBMIT, COPY_UNKNOWN, SAMPLE,
	    IN(COPY_2D, ARG(1, stream)), PTSZ, ACTIVITY(289, 424)),
	ROW(63, "cuMemcpy3D_v2", COPY, SUBMIT_WAIT, COPY_UNKNOWN, RETURN | SAMPLE,
	    IN(COPY_3D), PTDS,
	    ACTIVITY(290, 407)),
	ROW(64, "cuMemcpy3DAsync_v2", COPY, SUBMIT, COPY_UNKNOWN, SAMPLE,
	    IN(COPY_3D, ARG(1, stream)), PTSZ, ACTIVITY(291, 425)),
	ROW(65, "cuMemcpy3DPeer", COPY, SUBMIT_WAIT, COPY_PTOP, RETURN | SAMPLE, IN(COPY_3D), PTDS,
	    ACTIVITY(320, 410)),
	ROW(66, "cuMemcpy3DPeerAsync", COPY, SUBMIT, COPY_PTOP, SAMPLE, IN(COPY_3D, ARG(1, stream)),
	    PTSZ, ACTIVITY(321, 427)),
	ROW(67, "cuMemcpyDtoA_v2", COPY, SUBMIT, COPY_DTOD, RETURN | SAMPLE,
	    IN(ARG(0, handle), ARG(2, source), ARG(3, bytes)), PTDS, ACTIVITY(285, 400)),
	ROW(68, "cuMemcpyAtoD_v2", COPY, SUBMIT, COPY_DTOD, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG(1, handle), ARG(3, bytes)), PTDS, ACTIVITY(284, 401)),
	ROW(69, "cuMemcpyHtoA_v2", COPY, SUBMIT_WAIT, COPY_HTOD, RETURN | SAMPLE,
	    IN(ARG(0, handle), ARG(2, source), ARG(3, bytes)), PTDS, ACTIVITY(292, 402)),
	ROW(70, "cuMemcpyAtoH_v2", COPY, SUBMIT_WAIT, COPY_DTOH, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG(1, handle), ARG(3, bytes)), PTDS, ACTIVITY(282, 403)),
	ROW(71, "cuMemcpyAtoA_v2", COPY, SUBMIT, COPY_DTOD, RETURN | SAMPLE,
	    IN(ARG(0, handle), ARG(4, bytes)), PTDS, ACTIVITY(286, 404)),
	ROW(72, "cuMemcpyHtoAAsync_v2", COPY, SUBMIT, COPY_HTOD, SAMPLE,
	    IN(ARG(0, handle), ARG(2, source), ARG(3, bytes), ARG(4, stream)), PTSZ,
	    ACTIVITY(293, 419)),
	ROW(73, "cuMemcpyAtoHAsync_v2", COPY, SUBMIT, COPY_DTOH, SAMPLE,
	    IN(ARG(0, address), ARG(1, handle), ARG(3, bytes), ARG(4, stream)), PTSZ,
	    ACTIVITY(283, 420)),
	ROW(74, "cuMemcpyBatchAsync", COPY, SUBMIT, COPY_UNKNOWN, SAMPLE, IN(), PTSZ,
	    ACTIVITY(776, 777)),
	ROW(75, "cuMemcpyBatchAsync_v2", COPY, SUBMIT, COPY_UNKNOWN, SAMPLE | SPILLED,
	    IN(ARG(7, stream)), PTSZ, ACTIVITY(796, 797)),

	/* Sets. The size is in elements; the model multiplies. */
	ROW(80, "cuMemsetD8_v2", SET, SUBMIT, 1, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG32(1, source), ARG(2, bytes)), PTDS, ACTIVITY(249, 411)),
	ROW(81, "cuMemsetD8Async", SET, SUBMIT, 1, SAMPLE,
	    IN(ARG(0, address), ARG32(1, source), ARG(2, bytes), ARG(3, stream)), PTSZ,
	    ACTIVITY(216, 428)),
	ROW(82, "cuMemsetD2D8_v2", SET, SUBMIT, 1, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG32(2, source), ARG(3, bytes), ARG(4, height)), PTDS,
	    ACTIVITY(252, 414)),
	ROW(83, "cuMemsetD2D8Async", SET, SUBMIT, 1, SAMPLE,
	    IN(ARG(0, address), ARG32(2, source), ARG(3, bytes), ARG(4, height), ARG(5, stream)),
	    PTSZ, ACTIVITY(222, 431)),
	ROW(84, "cuMemsetD16_v2", SET, SUBMIT, 2, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG32(1, source), ARG(2, bytes)), PTDS, ACTIVITY(250, 412)),
	ROW(85, "cuMemsetD16Async", SET, SUBMIT, 2, SAMPLE,
	    IN(ARG(0, address), ARG32(1, source), ARG(2, bytes), ARG(3, stream)), PTSZ,
	    ACTIVITY(218, 429)),
	ROW(86, "cuMemsetD2D16_v2", SET, SUBMIT, 2, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG32(2, source), ARG(3, bytes), ARG(4, height)), PTDS,
	    ACTIVITY(253, 415)),
	ROW(87, "cuMemsetD2D16Async", SET, SUBMIT, 2, SAMPLE,
	    IN(ARG(0, address), ARG32(2, source), ARG(3, bytes), ARG(4, height), ARG(5, stream)),
	    PTSZ, ACTIVITY(224, 432)),
	ROW(88, "cuMemsetD32_v2", SET, SUBMIT, 4, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG32(1, source), ARG(2, bytes)), PTDS, ACTIVITY(251, 413)),
	ROW(89, "cuMemsetD32Async", SET, SUBMIT, 4, SAMPLE,
	    IN(ARG(0, address), ARG32(1, source), ARG(2, bytes), ARG(3, stream)), PTSZ,
	    ACTIVITY(220, 430)),
	ROW(90, "cuMemsetD2D32_v2", SET, SUBMIT, 4, RETURN | SAMPLE,
	    IN(ARG(0, address), ARG32(2, source), ARG(3, bytes), ARG(4, height)), PTDS,
	    ACTIVITY(254, 416)),
	ROW(91, "cuMemsetD2D32Async", SET, SUBMIT, 4, SAMPLE,
	    IN(ARG(0, address), ARG32(2, source), ARG(3, bytes), ARG(4, height), ARG(5, stream)),
	    PTSZ, ACTIVITY(226, 433)),

	/* Synchronization: the host waits. */
	ROW(100, "cuStreamSynchronize", SYNC, SYNC_STREAM, 0, RETURN | SAMPLE | WAIT,
	    IN(ARG(0, stream)), PTSZ),
	ROW(101, "cuCtxSynchronize", SYNC, SYNC_CONTEXT, 0, RETURN | SAMPLE | WAIT, IN()),
	ROW(102, "cuCtxSynchronize_v2", SYNC, SYNC_CONTEXT, 0, RETURN | SAMPLE | WAIT,
	    IN(ARG(0, context))),
	ROW(103, "cuEventSynchronize", SYNC, SYNC_EVENT, 0, RETURN | SAMPLE | WAIT,
	    IN(ARG(0, handle))), 
	/* Events. */
	ROW(110, "cuEventCreate", EVENT, EVENT_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, handle), ARG32(1, flags)), OUT(AT(0, handle))),
	ROW(111, "cuEventDestroy_v2", EVENT, EVENT_DESTROY, 0, ALWAYS, IN(ARG(0, handle)),
	    ALIAS("cuEventDestroy")),
	ROW(112, "cuEventRecord", EVENT, EVENT_RECORD, 0, 0, IN(ARG(0, handle), ARG(1, stream)),
	    PTSZ),
	ROW(113, "cuEventRecordWithFlags", EVENT, EVENT_RECORD, 0, 0,
	    IN(ARG(0, handle), ARG(1, stream), ARG32(2, flags)), PTSZ),
	ROW(114, "cuEventQuery", EVENT, NONE, 0, 0, IN(ARG(0, handle))),
	ROW(115, "cuEventElapsedTime", EVENT, NONE, 0, 0, IN(ARG(1, handle))),
	ROW(116, "cuEventElapsedTime_v2", EVENT, NONE, 0, 0, IN(ARG(1, handle))),
	ROW(117, "cuIpcOpenEventHandle", EVENT, EVENT_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, handle)), OUT(AT(0, handle))),
	ROW(118, "cuEventCreateFromEGLSync", EVENT, EVENT_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, handle)), OUT(AT(0, handle))),

	/* Streams. */
	ROW(120, "cuStreamCreate", STREAM, STREAM_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, stream), ARG32(1, flags)), OUT(AT(0, stream))),
	ROW(121, "cuStreamCreateWithPriority", STREAM, STREAM_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, stream), ARG32(1, flags)), OUT(AT(0, stream))),
	ROW(122, "cuStreamDestroy_v2", STREAM, STREAM_DESTROY, 0, RETURN | KEEP,
	    IN(ARG(0, stream)), ALIAS("cuStreamDestroy")),
	ROW(123, "cuStreamWaitEvent", STREAM, STREAM_WAIT, 0, 0,
	    IN(ARG(0, stream), ARG(1, handle), ARG32(2, flags)), PTSZ),
	ROW(124, "cuStreamQuery", STREAM, NONE, 0, 0, IN(ARG(0, stream)), PTSZ),
	ROW(125, "cuStreamAddCallback", STREAM, SUBMIT, 0, 0, IN(ARG(0, stream), ARG(1, handle)),
	    PTSZ),
	ROW(126, "cuStreamWaitValue32_v2", STREAM, SUBMIT, 0, 0,
	    IN(ARG(0, stream), ARG(1, address), ARG(2, source)), PTSZ),
	ROW(127, "cuStreamWaitValue64_v2", STREAM, SUBMIT, 0, 0,
	    IN(ARG(0, stream), ARG(1, address), ARG(2, source)), PTSZ),
	ROW(128, "cuStreamWriteValue32_v2", STREAM, SUBMIT, 0, 0,
	    IN(ARG(0, stream), ARG(1, address), ARG(2, source)), PTSZ),
	ROW(129, "cuStreamWriteValue64_v2", STREAM, SUBMIT, 0, 0,
	    IN(ARG(0, stream), ARG(1, address), ARG(2, source)), PTSZ),

	ROW(130, "cuGreenCtxStreamCreate", STREAM, STREAM_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, stream), ARG32(2, flags)), OUT(AT(0, stream))),

	/* Capture and graphs. */
	ROW(140, "cuStreamBeginCapture_v2", GRAPH, CAPTURE_BEGIN, 0, RETURN | KEEP,
	    IN(ARG(0, stream)), PTSZ),
	ROW(141, "cuStreamBeginCaptureToGraph", GRAPH, CAPTURE_BEGIN, 0, RETURN | KEEP,
	    IN(ARG(0, stream), ARG(1, handle)), PTSZ),
	ROW(142, "cuStreamEndCapture", GRAPH, CAPTURE_END, 0, RETURN | KEEP,
	    IN(ARG(0, stream), ARG(1, handle)), OUT(AT(1, handle)), PTSZ),
	ROW(143, "cuGraphCreate", GRAPH, NONE, 0, ALWAYS, IN()),
	ROW(144, "cuGraphDestroy", GRAPH, NONE, 0, ALWAYS, IN(ARG(0, handle))),
	ROW(145, "cuGraphInstantiateWithFlags", GRAPH, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle))),
	ROW(146, "cuGraphInstantiateWithParams", GRAPH, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle)), PTSZ),
	ROW(147, "cuGraphInstantiate_v2", GRAPH, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle)), ALIAS("cuGraphInstantiate")),
	ROW(148, "cuGraphExecDestroy", GRAPH, NONE, 0, RETURN, IN(ARG(0, handle))),
	ROW(149, "cuGraphUpload", GRAPH, SUBMIT, 0, 0, IN(ARG(0, handle), ARG(1, stream)), PTSZ),
	ROW(150, "cuGraphExecUpdate_v2", GRAPH, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source))),

	/* Contexts. */
	ROW(160, "cuCtxCreate_v2", CONTEXT, CONTEXT_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, context), ARG32(2, device)), OUT(AT(0, context)), ALIAS("cuCtxCreate")),
	ROW(161, "cuCtxCreate_v3", CONTEXT, CONTEXT_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, context), ARG32(4, device)), OUT(AT(0, context))),
	ROW(162, "cuCtxCreate_v4", CONTEXT, CONTEXT_CREATE, 0, RETURN | KEEP,
	    IN(ARG(0, context), ARG32(3, device)), OUT(AT(0, context))),
	ROW(163, "cuCtxDestroy_v2", CONTEXT, CONTEXT_DESTROY, 0, RETURN | KEEP,
	    IN(ARG(0, context)), ALIAS("cuCtxDestroy")),
	ROW(164, "cuCtxSetCurrent", CONTEXT, CONTEXT_SET, 0, KEEP, IN(ARG(0, context))),
	ROW(165, "cuCtxPushCurrent_v2", CONTEXT, CONTEXT_PUSH, 0, KEEP, IN(ARG(0, context)),
	    ALIAS("cuCtxPushCurrent")),
	ROW(166, "cuCtxPopCurrent_v2", CONTEXT, CONTEXT_POP, 0, KEEP, IN(),
	    ALIAS("cuCtxPopCurrent")),
	ROW(167, "cuDevicePrimaryCtxRetain", CONTEXT, CONTEXT_RETAIN, 0, RETURN | KEEP,
	    IN(ARG(0, context), ARG32(1, device)), OUT(AT(0, context))),
	ROW(168, "cuDevicePrimaryCtxRelease_v2", CONTEXT, PRIMARY_RELEASE, 0, RETURN | KEEP,
	    IN(ARG32(0, device)), ALIAS("cuDevicePrimaryCtxRelease")),
	ROW(169, "cuDevicePrimaryCtxReset_v2", CONTEXT, PRIMARY_RESET, 0, RETURN | KEEP,
	    IN(ARG32(0, device)), ALIAS("cuDevicePrimaryCtxReset")),
	ROW(170, "cuCtxFromGreenCtx", CONTEXT, CONTEXT_KNOWN, 0, RETURN | KEEP,
	    IN(ARG(0, context)), OUT(AT(0, context))),

	/* Modules and libraries. */
	ROW(180, "cuModuleLoad", MODULE, NONE, 0, RETURN, IN(ARG(0, handle), ARG(1, source)),
	    OUT(AT(0, handle))),
	ROW(181, "cuModuleLoadData", MODULE, NONE, 0, RETURN, IN(ARG(0, handle), ARG(1, source)),
	    OUT(AT(0, handle))),
	ROW(182, "cuModuleLoadDataEx", MODULE, NONE, 0, RETURN, IN(ARG(0, handle), ARG(1, source)),
	    OUT(AT(0, handle))),
	ROW(183, "cuModuleLoadFatBinary", MODULE, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle))),
	ROW(184, "cuModuleUnload", MODULE, NONE, 0, RETURN, IN(ARG(0, handle))),
	ROW(185, "cuLibraryLoadData", MODULE, NONE, 0, RETURN, IN(ARG(0, handle), ARG(1, source)),
	    OUT(AT(0, handle))),
	ROW(186, "cuLibraryLoadFromFile", MODULE, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle))),
	ROW(187, "cuLibraryUnload", MODULE, NONE, 0, RETURN, IN(ARG(0, handle))),
	/* Here code is loaded that was not when its module or library was (lazy loading). */
	ROW(188, "cuModuleGetFunction", MODULE, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle))),
	ROW(189, "cuLibraryGetKernel", MODULE, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle))),
	ROW(190, "cuKernelGetFunction", MODULE, NONE, 0, RETURN,
	    IN(ARG(0, handle), ARG(1, source)), OUT(AT(0, handle))),

	/* Initialization. */
	ROW(200, "cuInit", INIT, INIT, 0, RETURN | KEEP, IN(ARG32(0, flags))),
};
/* clang-format on */

const struct library_row library_cuda = {
	.name = "cuda",
	.files = "libcuda.so*",
	/* Of distributions, NVIDIA's installers, and container images. */
	.places = "/usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/lib/aarch64-linux-gnu/libcuda.so.1 "
		  "/usr/lib64/libcuda.so.1 /usr/lib/libcuda.so.1 "
		  "/usr/local/nvidia/lib*/libcuda.so.1 /usr/local/cuda*/compat/libcuda.so.1 "
		  "/usr/lib/wsl/lib/libcuda.so.1 /run/opengl-driver/lib/libcuda.so.1",
	.devices = "/dev/nvidia[0-9]*",
	.gap = LOSS_GAP,
	.function = cuda_function,
	.count = ARRAY_SIZE(cuda_function),
};
