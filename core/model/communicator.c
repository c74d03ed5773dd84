/* Communicator: which communicators a process has, by the handles that NCCL gives them. Those of
 * one id are one communicator, whose ranks are in other processes and on other hosts.
 *
 * The id is a hash of the unique id that all ranks get. A part that is split off has one made of
 * its parent's, the color, and how many parts were split off before: all ranks of the parent split
 * it in the same order. One whose start was not seen has none. */
#include "core/model/communicator.h"

#include <errno.h>
#include <stdlib.h>

#include "core/model/model.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct communicator {
	struct list link;
	struct core_communicator row;
};

static struct map_key handle_key(uint64_t handle)
{
	return (struct map_key){ handle, 0 };
}

void communicator_init(struct communicators *communicators)
{
	list_init(&communicators->list);
}

static struct communicator *communicator_find(const struct process *process, uint64_t handle)
{
	return map_get(&process->communicators.by_handle, handle_key(handle));
}

static void communicator_free(struct core *core, struct process *process,
			      struct communicator *communicator)
{
	map_remove(&process->communicators.by_handle, handle_key(communicator->row.handle));
	list_remove(&communicator->link);
	quota_give(&core->share[CORE_SHARE_COMMUNICATORS], process->row.user, 1);
	free(communicator);
}

static void communicator_end(struct core *core, struct process *process,
			     struct communicator *communicator, uint64_t time_ns)
{
	communicator->row.ended_ns = time_ns;
	core_tell(core, &communicator->row);
	communicator_free(core, process, communicator);
}

static struct communicator *communicator_put(struct core *core, struct process *process,
					     const struct core_communicator *row)
{
	struct quota *share = &core->share[CORE_SHARE_COMMUNICATORS];
	struct communicator *communicator;

	if (row->number > COMMUNICATORS_MAX || !quota_take(share, process->row.user, 1))
		return NULL;
	communicator = malloc(sizeof(*communicator));
	if (!communicator ||
	    map_put(&process->communicators.by_handle, handle_key(row->handle), communicator) < 0) {
		quota_give(share, process->row.user, 1);
		free(communicator);
		return NULL;
	}
	communicator->row = *row;
	list_append(&process->communicators.list, &communicator->link);
	if (row->number > process->communicators.made)
		process->communicators.made = row->number;
	return communicator;
}

/* Under the next number. NULL: there are too many. */
static struct communicator *communicator_add(struct core *core, struct process *process,
					     const struct ts_event *event,
					     struct core_communicator row)
{
	struct communicator *communicator = communicator_find(process, row.handle);

	/* Its end was not seen. */
	if (communicator)
		communicator_end(core, process, communicator, event->start_ns);
	row.process = process->row.id;
	row.number = process->communicators.made + 1;
	row.device = context_of_call(core, process, 0, event->tid)->device;
	communicator = communicator_put(core, process, &row);
	if (communicator)
		core_tell(core, &communicator->row);
	else
		loss_count(core, process, LOSS_LIMIT);
	return communicator;
}

uint32_t communicator_number(struct core *core, struct process *process,
			     const struct ts_event *event)
{
	const uint64_t handle = event->api.handle;
	const struct communicator *communicator = communicator_find(process, handle);

	if (!communicator && handle)
		communicator = communicator_add(
			core, process, event,
			(struct core_communicator){ .handle = handle, .rank = -1 });
	return communicator ? communicator->row.number : 0;
}

static bool ranks_ok(int64_t rank, int64_t size)
{
	return rank >= 0 && rank < size;
}

static void communicator_started(struct core *core, struct process *process,
				 const struct ts_event *event)
{
	const struct ts_api *api = &event->api;
	const bool known = ranks_ok(api->rank, api->size);

	communicator_add(core, process, event,
			 (struct core_communicator){
				 .handle = api->handle,
				 .id = api->source,
				 .rank = known ? api->rank : -1,
				 .size = known ? (uint32_t)api->size : 0,
				 .created_ns = event->end_ns,
			 });
}

static uint64_t split_id(const struct core_communicator *parent, int32_t color)
{
	const uint64_t words[] = { parent->id, (uint32_t)color, parent->splits };

	return parent->id ? XXH3_64bits(words, sizeof(words)) : 0;
}

/* Who has no color gets none, but has split it, too. */
static void communicator_split(struct core *core, struct process *process,
			       const struct ts_event *event)
{
	const struct ts_api *api = &event->api;
	struct communicator *parent = communicator_find(process, api->source);
	struct core_communicator row = {
		.handle = api->handle,
		.rank = -1,
		.color = api->color,
		.split_key = api->key,
		.created_ns = event->end_ns,
	};

	if (parent) {
		row.id = split_id(&parent->row, api->color);
		row.parent = parent->row.id;
		parent->row.splits++;
		core_tell(core, &parent->row);
	}
	if (row.handle)
		communicator_add(core, process, event, row);
}

/* The library says what its start did not. */
static void communicator_learn(struct core *core, struct process *process,
			       const struct ts_event *event, enum effect effect)
{
	struct communicator *communicator = communicator_find(process, event->api.handle);
	const uint64_t told = event->api.bytes;
	struct core_communicator *row;

	if (!communicator || told > INT32_MAX)
		return;
	row = &communicator->row;
	if (effect == EFFECT_COMM_SIZE && told && row->size != told)
		row->size = (uint32_t)told;
	else if (effect == EFFECT_COMM_RANK && row->rank != (int32_t)told)
		row->rank = (int32_t)told;
	else
		return;
	core_tell(core, row);
}

void communicator_called(struct core *core, struct process *process, const struct ts_event *event,
			 enum effect effect)
{
	struct communicator *communicator;

	switch (effect) {
	case EFFECT_COMM_INIT:
		if (event->api.handle)
			communicator_started(core, process, event);
		break;
	case EFFECT_COMM_SPLIT:
		communicator_split(core, process, event);
		break;
	case EFFECT_COMM_END:
		communicator = communicator_find(process, event->api.handle);
		if (communicator)
			communicator_end(core, process, communicator, event->start_ns);
		break;
	default:
		communicator_learn(core, process, event, effect);
	}
}

int core_restore_communicator(struct core *core, const struct core_communicator *row)
{
	struct process *process = process_by_id(core, row->process);

	if (!process)
		return -ENOENT;
	if (!row->number || !row->handle || row->ended_ns)
		return -EINVAL;
	if (communicator_find(process, row->handle))
		return -EEXIST;
	return communicator_put(core, process, row) ? 0 : -ENOSPC;
}

void communicator_end_all(struct core *core, struct process *process, uint64_t time_ns)
{
	struct communicator *communicator;

	list_for_each(communicator, &process->communicators.list, link)
		communicator_end(core, process, communicator, time_ns);
}

void communicator_free_all(struct core *core, struct process *process)
{
	struct communicator *communicator;

	list_for_each(communicator, &process->communicators.list, link)
		communicator_free(core, process, communicator);
	map_clear(&process->communicators.by_handle);
}
