/* Torch: PyTorch's libc10, whose allocators of device memory report each block that they give out
 * or take back to one exported function, whether or not a profiler runs.
 *
 * Other arguments make another symbol, so the names say that these are the known ones: the block,
 * its size (negative: taken back), what is allocated and what is reserved after that, and the
 * device: its type in the low byte, its number in the next. It is called with the allocator's lock
 * held, so the reports of a device are in order. Another one gets to know that there was no memory,
 * after the allocator has given back what it could: what was asked for, and the same sums.
 */
#include "core/base/array.h"
#include "daemon/library/library.h"

#define TO(field)  (uint8_t) offsetof(struct ts_api, field)
#define DEVICE_ARG 5
#define CUDA	   1 /* c10::DeviceType */

static const struct library_function torch_function[] = {
	{ .number = 310,
	  .model.name = "c10::reportMemoryUsageToProfiler",
	  .model.kind = OP_ALLOC,
	  .model.effect = EFFECT_TENSOR,
	  .model.detail = MEMORY_TENSOR,
	  .flags = PROBE_STACK | PROBE_ALWAYS | PROBE_REPORT,
	  .device_type = CUDA,
	  .alias = { "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
		     "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE" },
	  .slot = { { PROBE_ARG, 0, 8, TO(address), 0 },
		    { PROBE_ARG, 1, 8, TO(bytes), 0 },
		    { PROBE_ARG, 2, 8, TO(source), 0 },
		    { PROBE_ARG, 3, 8, TO(handle), 0 },
		    { PROBE_ARG, DEVICE_ARG - 1, 4, TO(device), 0 },
		    { PROBE_ARG, PROBE_ARG_SELF, 8, TO(flags), 0 } } },
	{ .number = 319,
	  .model.name = "c10::reportOutOfMemoryToProfiler",
	  .model.kind = OP_MEMORY,
	  .model.effect = EFFECT_OOM,
	  .model.detail = CUDA, /* of other devices there are few, and the model leaves them out */
	  .flags = PROBE_STACK | PROBE_ALWAYS,
	  .alias = { "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
		     "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE" },
	  .slot = { { PROBE_ARG, 0, 8, TO(bytes), 0 },
		    { PROBE_ARG, 1, 8, TO(source), 0 },
		    { PROBE_ARG, 2, 8, TO(handle), 0 },
		    { PROBE_ARG, DEVICE_ARG - 2, 4, TO(device), 0 } } },
};

/* Of the allocator's own probes (USDT, since 2.2), which a thread passes after it has let go of
 * that lock. They say nothing that the reports do not, but for what was asked for: so the one where
 * blocks are given out is enough. */
static const struct library_function torch_cuda_note[] = {
	{ .number = 320,
	  .model.name = "pytorch:malloc",
	  .model.kind = OP_MEMORY,
	  .model.effect = EFFECT_REQUESTED,
	  .flags = PROBE_ALWAYS | PROBE_REPORT | PROBE_NOTE,
	  .slot = { { PROBE_ARG, 0, 8, TO(address), 0 },
		    { PROBE_ARG, 1, 4, TO(device), 0 },
		    { PROBE_ARG, 2, 8, TO(bytes), 0 } } },
};

const struct library_row library_torch_cuda = {
	.name = "torch-cuda",
	.files = "libc10_cuda.so*",
	.places = "",
	.by_choice = true,
	.gap = LOSS_GAP_TORCH,
	.function = torch_cuda_note,
	.count = ARRAY_SIZE(torch_cuda_note),
};

const struct library_row library_torch = {
	.name = "torch",
	.files = "libc10.so*",
	.places = "",
	.by_choice = true,
	.gap = LOSS_GAP_TORCH,
	.function = torch_function,
	.count = ARRAY_SIZE(torch_function),
};
