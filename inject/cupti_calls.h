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
/* clang-format on */

#endif
