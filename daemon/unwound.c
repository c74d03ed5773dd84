/* Unwound: stacks that the programs could not walk, between their ring, the unwinder and the model.
 * A miss comes before its call, and nothing that follows it is read until it is answered; so when
 * the call is seen, however long it took, its stack is known. */
#include <string.h>

#include "daemon/daemon_internal.h"

static struct map_key key_of(uint64_t id)
{
	return (struct map_key){ id, 0 };
}

/* A call that was lost leaves its id behind. */
static void remember(struct daemon *daemon, uint64_t miss_id, uint64_t id)
{
	if (daemon->settled.count >= LIMIT_UNWIND_CALLS)
		map_empty(&daemon->settled);
	map_put(&daemon->settled, key_of(miss_id), (void *)(uintptr_t)id);
}

static void give_stack(struct daemon *daemon, const struct unwound *unwound)
{
	static const struct core_origin bpf = { .pid = 0 };
	_Alignas(struct ts_stack) char
		record[sizeof(struct ts_stack) + TS_STACK_FRAMES_MAX * sizeof(uint64_t)];
	struct ts_stack *stack = (struct ts_stack *)record;
	size_t size = unwound->count * sizeof(stack->frame[0]);

	*stack = (struct ts_stack){
		.kind = TS_EVENT_STACK,
		.frame_count = (uint16_t)unwound->count,
		.end = (uint8_t)unwound->end,
		.linked = unwound->linked,
		.tgid = unwound->tgid,
		.tid = unwound->tid,
		.time_ns = unwound->time_ns,
		.id = unwound->id,
	};
	memcpy(stack->frame, unwound->frame, size);
	core_ingest(daemon->core, &bpf, record, sizeof(*stack) + size);
}

static void on_unwound(void *data, const struct unwound *unwound)
{
	struct daemon *daemon = data;

	remember(daemon, unwound->miss_id, unwound->id);
	if (probe_add_stack(daemon->probe, unwound->id))
		give_stack(daemon, unwound);
	probe_go_on(daemon->probe);
}

bool daemon_on_miss(void *data, const void *record, size_t size)
{
	struct daemon *daemon = data;

	return daemon->unwinder && unwinder_take(daemon->unwinder, record, size) == 0;
}

void daemon_on_replaced(void *data, uint32_t pid)
{
	struct daemon *daemon = data;

	if (daemon->probe && daemon->probe_config.unwind)
		probe_forget_rules(daemon->probe, pid);
}

bool daemon_settle(struct daemon *daemon, const struct ts_event *event, struct ts_event *ret)
{
	if (event->kind != TS_EVENT_API || !(event->flags & PROBE_EVENT_MISSED))
		return false;
	*ret = *event;
	ret->stack_id = (uintptr_t)map_remove(&daemon->settled, key_of(event->stack_id));
	ret->flags &= (uint16_t)~PROBE_EVENT_MISSED;
	if (!ret->stack_id)
		ret->flags |= TS_EVENT_STACK_LOST;
	return true;
}

int daemon_start_unwinder(struct daemon *daemon)
{
	const struct unwinder_config config = {
		.slots = probe_rules(daemon->probe),
		.mask = RULE_SLOTS - 1,
		.done = on_unwound,
		.data = daemon,
	};

	return unwinder_new(&daemon->loop, daemon->maps, &config, &daemon->unwinder);
}

void daemon_stop_unwinder(struct daemon *daemon)
{
	unwinder_close(TAKE(daemon->unwinder));
	if (daemon->probe)
		probe_go_on(daemon->probe);
}
