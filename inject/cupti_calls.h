/* cupti_calls.h: CUPTI's numbers of the driver functions that submit work: the plain form and the
 * one for per-thread default streams, 0 if there is none. Only these are watched: they match a
 * kernel, copy or set to its call. The same numbers are in daemon/library/cuda.c; a test
 * compares.
 */
#ifndef TS_CUPTI_CALLS_H
#define TS_CUPTI_CALLS_H

/* clang-format off */
#define CUPTI_CALLS(X) \
	X(cuLaunchKernel, 307, 442) \
	X(cuLaunchKernelEx, 652, 653) \
	X(cuLaunchCooperativeKernel, 477, 478) \
	X(cuGraphLaunch, 514, 515) \
	X(cuMemPrefetchAsync_v2, 716, 717) \
	X(cuMemcpy, 305, 408) \
	X(cuMemcpyHtoD_v2, 276, 397) \
	X(cuMemcpyDtoH_v2, 278, 398) \
	X(cuMemcpyDtoD_v2, 280, 399) \
	X(cuMemcpyPeer, 318, 409) \
	X(cuMemcpyAsync, 306, 418) \
	X(cuMemcpyHtoDAsync_v2, 277, 421) \
	X(cuMemcpyDtoHAsync_v2, 279, 422) \
	X(cuMemcpyDtoDAsync_v2, 281, 423) \
	X(cuMemcpyPeerAsync, 319, 426) \
	X(cuMemcpy2D_v2, 287, 405) \
	X(cuMemcpy2DUnaligned_v2, 288, 406) \
	X(cuMemcpy2DAsync_v2, 289, 424) \
	X(cuMemcpy3D_v2, 290, 407) \
	X(cuMemcpy3DAsync_v2, 291, 425) \
	X(cuMemcpy3DPeer, 320, 410) \
	X(cuMemcpy3DPeerAsync, 321, 427) \
	X(cuMemcpyDtoA_v2, 285, 400) \
	X(cuMemcpyAtoD_v2, 284, 401) \
	X(cuMemcpyHtoA_v2, 292, 402) \
	X(cuMemcpyAtoH_v2, 282, 403) \
	X(cuMemcpyAtoA_v2, 286, 404) \
	X(cuMemcpyHtoAAsync_v2, 293, 419) \
	X(cuMemcpyAtoHAsync_v2, 283, 420) \
	X(cuMemcpyBatchAsync, 776, 777) \
	X(cuMemcpyBatchAsync_v2, 796, 797) \
	X(cuMemsetD8_v2, 249, 411) \
	X(cuMemsetD8Async, 216, 428) \
	X(cuMemsetD2D8_v2, 252, 414) \
	X(cuMemsetD2D8Async, 222, 431) \
	X(cuMemsetD16_v2, 250, 412) \
	X(cuMemsetD16Async, 218, 429) \
	X(cuMemsetD2D16_v2, 253, 415) \
	X(cuMemsetD2D16Async, 224, 432) \
	X(cuMemsetD32_v2, 251, 413) \
	X(cuMemsetD32Async, 220, 430) \
	X(cuMemsetD2D32_v2, 254, 416) \
	X(cuMemsetD2D32Async, 226, 433)

/* The same of the runtime, which calls the driver. */
#define CUPTI_RUNTIME_CALLS(X) \
	X(cudaLaunchKernel_v7000, 211, 214) \
	X(cudaLaunchKernelExC_v11060, 430, 431) \
	X(cudaLaunchCooperativeKernel_v9000, 269, 270) \
	X(cudaGraphLaunch_v10000, 311, 312) \
	X(cudaMemcpyAsync_v3020, 41, 225) \
	X(cudaMemsetAsync_v3020, 51, 235) \
	X(cudaMemcpy_v3020, 31, 215) \
	X(cudaMemset_v3020, 49, 233) \
	X(cudaMemcpyPeer_v4000, 160, 0) \
	X(cudaMemcpyPeerAsync_v4000, 161, 0) \
	X(cudaMemcpy2D_v3020, 32, 216) \
	X(cudaMemcpyToArray_v3020, 33, 217) \
	X(cudaMemcpy2DToArray_v3020, 34, 218) \
	X(cudaMemcpyFromArray_v3020, 35, 219) \
	X(cudaMemcpy2DFromArray_v3020, 36, 220) \
	X(cudaMemcpyArrayToArray_v3020, 37, 221) \
	X(cudaMemcpy2DArrayToArray_v3020, 38, 222) \
	X(cudaMemcpyToSymbol_v3020, 39, 223) \
	X(cudaMemcpyFromSymbol_v3020, 40, 224) \
	X(cudaMemcpyToArrayAsync_v3020, 42, 226) \
	X(cudaMemcpyFromArrayAsync_v3020, 43, 227) \
	X(cudaMemcpy2DAsync_v3020, 44, 228) \
	X(cudaMemcpy2DToArrayAsync_v3020, 45, 229) \
	X(cudaMemcpy2DFromArrayAsync_v3020, 46, 230) \
	X(cudaMemcpyToSymbolAsync_v3020, 47, 231) \
	X(cudaMemcpyFromSymbolAsync_v3020, 48, 232) \
	X(cudaMemset2D_v3020, 50, 234) \
	X(cudaMemset2DAsync_v3020, 52, 236) \
	X(cudaMemset3D_v3020, 142, 243) \
	X(cudaMemset3DAsync_v3020, 143, 244) \
	X(cudaMemcpy3D_v3020, 144, 245) \
	X(cudaMemcpy3DAsync_v3020, 145, 246) \
	X(cudaMemcpy3DPeer_v4000, 162, 249) \
	X(cudaMemcpy3DPeerAsync_v4000, 163, 250) \
	X(cudaMemPrefetchAsync_v8000, 252, 253) \
	X(cudaMemPrefetchAsync_v12020, 449, 450) \
	X(cudaMemcpyBatchAsync_v12080, 482, 483) \
	X(cudaMemcpyBatchAsync_v13000, 509, 510)
/* clang-format on */

#endif
