/* Gpu: turns a vendor's rows into what the model and the BPF programs need. */
#include "daemon/library/gpu.h"

#include <glob.h>
#include <string.h>

static uint8_t gpu_sizes(const struct gpu_function *function)
{
	static const uint8_t size[] = {
		offsetof(struct ts_api, bytes),
		offsetof(struct ts_api, height),
		offsetof(struct ts_api, depth),
	};
	uint8_t count = 0;

	for (size_t i = 0; i < PROBE_SLOTS_MAX && function->slot[i].from != PROBE_END; i++)
		count += memchr(size, function->slot[i].to, sizeof(size)) != NULL;
	return count;
}

struct function_table gpu_functions(const struct gpu_vendor *vendor)
{
	static struct function row[PROBE_FUNCTIONS_MAX];
	uint32_t count = 0;

	for (size_t i = 0; i < vendor->count; i++) {
		const struct gpu_function *function = &vendor->function[i];

		row[function->number] = function->model;
		row[function->number].sizes = gpu_sizes(function);
		if (function->number >= count)
			count = function->number + 1;
	}
	return (struct function_table){ row, count };
}

static uint8_t gpu_copy_slots(struct probe_slot *to, const struct probe_slot *from, uint8_t max)
{
	uint8_t count = 0;

	while (count < max && from[count].from != PROBE_END) {
		to[count] = from[count];
		count++;
	}
	return count;
}

/* What a launch names; its stacks are sampled by that, too. */
static uint8_t gpu_kernel_arg(const struct gpu_function *function)
{
	const struct probe_slot *slot = function->slot;

	if (function->model.kind != OP_LAUNCH)
		return 0;
	for (size_t i = 0; i < PROBE_SLOTS_MAX && slot[i].from != PROBE_END; i++)
		if (slot[i].from == PROBE_ARG && slot[i].to == offsetof(struct ts_api, handle))
			return slot[i].arg + 1;
	return 0;
}

void gpu_probe_desc(const struct gpu_function *function, struct probe_desc *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->flags = function->flags;
	ret->slot_count = gpu_copy_slots(ret->slot, function->slot, PROBE_SLOTS_MAX);
	ret->kernel_arg = gpu_kernel_arg(function);
	ret->out_count = gpu_copy_slots(ret->out, function->out, PROBE_OUTS_MAX);
}

size_t gpu_device_count(const struct gpu_vendor *vendor)
{
	size_t count = 0;
	glob_t found;

	if (glob(vendor->devices, 0, NULL, &found) == 0) {
		count = found.gl_pathc;
		globfree(&found);
	}
	return count;
}
