/* Mapping: where physical memory is mapped. It lives while the program has a handle of it or it is
 * mapped somewhere, so if it is released while mapped, an unmap frees it. */
#include "core/model/mapping.h"

#include "core/model/call.h"

static bool mapping_is_in(const struct allocation *mapping, uint64_t address, uint64_t end)
{
	return mapping->address >= address && mapping->address < end &&
	       mapping->bytes <= end - mapping->address;
}

/* Usually its start is looked up. */
static struct allocation *mapping_at(const struct call *call, uint64_t address)
{
	struct allocation *mapping =
		memory_find(call->core, call->process->row.id, MEMORY_MAPPED, address);

	if (mapping)
		return mapping;
	list_for_each(mapping, &call->process->mappings, in_context)
		if (address - mapping->address < mapping->bytes)
			return mapping;
	return NULL;
}

/* What the last one mapped is freed, unless the program still has a handle of it. The op says
 * so.
 */
static void mapping_end(struct call *call, struct allocation *mapping)
{
	struct core *core = call->core;
	struct allocation *physical = allocation_more(mapping)->physical;
	struct core_allocation row;
	struct op *op = call->op;

	memory_end(core, mapping);
	if (--allocation_more(physical)->mappings || physical->handles)
		return;
	op->detail = physical->account->kind;
	op->device = physical->account->device;
	op->handle = physical->address;
	row = memory_row_of(physical);
	rollup_add_freed(core, &row, op->start_ns);
	memory_end(core, physical);
	op->live_bytes = account_live_bytes(&call->process->accounts, op->device, op->detail);
}

void mapping_map(struct call *call)
{
	struct op *op = call->op;
	struct core_allocation row = memory_row(call);
	struct allocation *mapping =
		memory_find(call->core, op->process, MEMORY_MAPPED, row.address);
	struct allocation *physical =
		memory_find(call->core, op->process, MEMORY_PHYSICAL, op->handle);

	if (mapping)
		mapping_end(call, mapping);
	if (!physical || !row.address || !row.bytes)
		return;
	/* It is mapped as a whole, which gives the size of an imported one. */
	if (!physical->bytes)
		memory_resize(call->core, physical, row.bytes);
	op->device = row.device = physical->account->device;
	row.kind = MEMORY_MAPPED;
	row.context = 0;
	if (memory_make(call, &row, physical))
		allocation_more(physical)->mappings++;
}

/* One created after the call started is not meant. */
static bool mapping_is_meant(const struct call *call, const struct allocation *mapping,
			     uint64_t address, uint64_t end)
{
	return mapping_is_in(mapping, address, end) &&
	       allocation_end_ns(mapping) <= call->op->start_ns;
}

void mapping_unmap(struct call *call)
{
	const struct op *op = call->op;
	uint64_t at = op->address, end;
	struct allocation *mapping;

	if (__builtin_add_overflow(at, op->bytes, &end))
		return;
	while ((mapping = memory_find(call->core, op->process, MEMORY_MAPPED, at)) &&
	       mapping_is_meant(call, mapping, at, end)) {
		at += mapping->bytes;
		mapping_end(call, mapping);
	}
	if (at == end)
		return;
	/* There are gaps, which the driver allows and programs do not use. */
	list_for_each(mapping, &call->process->mappings, in_context)
		if (mapping_is_meant(call, mapping, at, end))
			mapping_end(call, mapping);
}

void mapping_retain(struct call *call)
{
	uint64_t handle = call->op->handle;
	struct allocation *mapping = mapping_at(call, call->op->address);

	if (mapping && handle)
		memory_retain(call, allocation_more(mapping)->physical, handle);
}
