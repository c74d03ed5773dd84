/* Look: tells what the model holds now, and changes nothing of it. */
#include "core/model/device.h"
#include "core/model/model.h"

struct core_memory memory_sums_of(const struct account *account)
{
	return (struct core_memory){
		.process = account->process,
		.device = account->device,
		.kind = account->kind,
		.live_bytes = account->live_bytes,
		.live_count = account->live_count,
		.peak_bytes = account->peak_bytes,
		.requested_bytes = account->requested_bytes,
		.rounding_bytes = account->rounding_bytes,
	};
}

static void look_process(const struct process *process, core_row_fn *row, void *data)
{
	const struct device_size *size;
	const struct account *account;

	row(data, CORE_ROW_PROCESS, &process->row);
	list_for_each(account, &process->accounts, link) {
		const struct core_memory sums = memory_sums_of(account);

		row(data, CORE_ROW_MEMORY, &sums);
	}
	list_for_each(size, &process->sizes, link) {
		const struct core_device device = {
			.process = process->row.id,
			.ordinal = size->ordinal,
			.memory_bytes = size->bytes,
		};

		row(data, CORE_ROW_DEVICE, &device);
	}
	if (process->exact)
		exact_look(process->exact, row, data);
}

void core_look(const struct core *core, core_row_fn *row, void *data)
{
	const struct process *process;

	list_for_each(process, &core->processes, link)
		look_process(process, row, data);
}

void core_look_devices(const struct core *core,
		       void (*device)(void *data, const struct core_doing *doing), void *data)
{
	const struct process *process;
	const struct device *one;

	list_for_each(process, &core->processes, link) {
		list_for_each(one, &process->devices, link) {
			const struct core_doing doing = {
				.process = process->row.id,
				.device = one->state.device,
				.state = one->state.now,
				.exact = one->state.settled_ns,
				.since_ns = one->state.since_ns,
			};

			if (doing.state != STATE_NONE)
				device(data, &doing);
		}
	}
}

void core_look_streams(const struct core *core, uint64_t now_ns,
		       void (*stream)(void *data, const struct core_doing *doing), void *data)
{
	const struct state *state;

	list_for_each(state, &core->states, link) {
		const struct core_doing doing = {
			.process = state->process,
			.stream = state->stream,
			.device = state->device,
			.state = state->now,
			.exact = state->settled_ns,
			.since_ns = state->since_ns,
			.until_ns = state->settled_ns ? *state->settled_ns : now_ns,
		};

		if (state->stream && state->now != OP_STATE_IDLE)
			stream(data, &doing);
	}
}

uint64_t core_used_ns(const struct core *core, uint32_t pid)
{
	const struct process *process = process_by_pid(core, pid);

	return process ? process->used_ns : 0;
}

void core_stats(const struct core *core, struct core_stats *ret)
{
	const struct exact *exact;

	*ret = core->stats;
	ret->processes = core->process_by_id.count;
	ret->streams = core->stream_by_id.count;
	ret->allocations = core->allocation_by_address.count;
	ret->pending = core->pending_pool.used;
	ret->waiting = core->waiting;
	ret->edges = core->edges;
	ret->oldest_pending_ns = timeline_oldest_ns(core);
	ret->ending = 0;
	list_for_each(exact, &core->exacts, link)
		ret->ending += exact->ended_ns != 0;
}
