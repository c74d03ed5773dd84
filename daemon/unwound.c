/* Unwound: stacks that the programs could not walk, between their ring, the unwinder and the model.
 * A miss comes before its call, and nothing that follows it is read until it is answered, nor
 * anything of its process until its mappings are known; so when the call is seen, however long it
 * took, its stack is known. */
#include <errno.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/daemon_internal.h"

#define REPLACED_AGAIN_NS (100 * NS_PER_MS)

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
	_Alignas(struct ts_stack) char record[sizeof(struct ts_stack) +
					      TS_STACK_FRAMES_MAX * sizeof(uint64_t) +
					      TS_STACK_PYTHON_MAX * sizeof(struct ts_python_frame)];
	struct ts_stack *stack = (struct ts_stack *)record;

	*stack = (struct ts_stack){
		.kind = TS_EVENT_STACK,
		.frame_count = (uint16_t)unwound->count,
		.end = (uint8_t)unwound->end,
		.linked = unwound->linked,
		.python_count = (uint16_t)unwound->python_count,
		.tgid = unwound->tgid,
		.tid = unwound->tid,
		.time_ns = unwound->time_ns,
		.id = unwound->id,
	};
	memcpy(stack->frame, unwound->frame, sizeof(unwound->frame));
	memcpy(&stack->frame[TS_STACK_FRAMES_MAX], unwound->python, sizeof(unwound->python));
	core_ingest(daemon->core, &bpf, record, sizeof(record));
}

/* A stack that is cut short is no loss of the call, but answers with stacks tell. */
static void count_cut(struct daemon *daemon, const struct unwound *unwound)
{
	const struct core_loss loss = {
		.start_ns = unwound->time_ns,
		.end_ns = unwound->time_ns,
		.process = daemon_process_of(daemon, unwound->tgid, 0),
		.reason = LOSS_STACK_CUT,
		.count = 1,
	};

	core_lose(daemon->core, &loss);
}

static void on_unwound(void *data, const struct unwound *unwound)
{
	struct daemon *daemon = data;

	remember(daemon, unwound->miss_id, unwound->id);
	if (unwound->end == TS_END_MISSED)
		count_cut(daemon, unwound);
	if (probe_add_stack(daemon->probe, unwound->tgid, unwound->id))
		give_stack(daemon, unwound);
	probe_go_on(daemon->probe);
}

/* What was replaced shortly before, in the same process, by a loader that maps one file after the
 * other. */
static struct replaced *find_replaced(struct daemon *daemon, const struct maps_replaced *by)
{
	struct replaced *last = &daemon->replaced[(daemon->replaced_count - 1) % DAEMON_REPLACED];

	if (last->pid == by->pid && last->until_ns + REPLACED_AGAIN_NS > by->time_ns)
		return last;
	last = &daemon->replaced[daemon->replaced_count++ % DAEMON_REPLACED];
	*last = (struct replaced){ by->pid, by->time_ns, 0, by->start, by->end };
	return last;
}

/* From the new mapping until the programs know that the rules are void, stacks of the process may
 * have been walked by those of what was there before. */
void daemon_on_replaced(void *data, const struct maps_replaced *by)
{
	struct daemon *daemon = data;
	struct replaced *replaced;

	if (!daemon->probe || !daemon->probe_config.unwind)
		return;
	probe_forget_rules(daemon->probe, by->pid);
	exact_rules_void(daemon->exact, by->pid, by->time_ns);
	replaced = find_replaced(daemon, by);
	replaced->until_ns = daemon->replaced_ns = uv_hrtime();
	if (by->start < replaced->start)
		replaced->start = by->start;
	if (by->end > replaced->end)
		replaced->end = by->end;
}

bool daemon_is_replaced(const struct daemon *daemon, uint32_t pid, uint64_t time_ns,
			uint64_t address)
{
	if (time_ns > daemon->replaced_ns)
		return false;
	for (uint32_t i = 0; i < DAEMON_REPLACED; i++) {
		const struct replaced *replaced = &daemon->replaced[i];

		if (replaced->pid == pid && time_ns <= replaced->until_ns &&
		    (!address || (address >= replaced->start && address < replaced->end)))
			return true;
	}
	return false;
}

void daemon_miss_settled(struct daemon *daemon, uint32_t pid)
{
	if (daemon->hung.pid == pid)
		daemon->hung.pid = 0;
	if (daemon->probe)
		probe_go_on_with(daemon->probe, pid);
}

static bool is_hung(const struct daemon *daemon, uint32_t pid)
{
	return pid == daemon->hung.pid &&
	       uv_hrtime() - daemon->hung.since_ns < LIMIT_MAPS_LOOK_MS * NS_PER_MS;
}

/* A stack that is older than a mapping cannot be walked by what is mapped now. */
enum probe_missed daemon_on_miss(void *data, const void *record, size_t size, bool in_vain)
{
	const struct probe_miss *miss = record;
	struct daemon *daemon = data;
	bool late;
	int r;

	if (!daemon->unwinder || size < PROBE_MISS_LEAN)
		return PROBE_MISS_DONE;
	maps_catch_up(daemon->maps);
	late = daemon_is_replaced(daemon, miss->tgid, miss->time_ns, 0) ||
	       is_hung(daemon, miss->tgid);
	r = unwinder_take(daemon->unwinder, record, size, late);
	if (r == -EAGAIN && !in_vain)
		return PROBE_MISS_WAITS;
	if (r == -EAGAIN) {
		daemon->hung = (struct hung){ miss->tgid, uv_hrtime() };
		r = unwinder_take(daemon->unwinder, record, size, true);
	}
	return r == 0 ? PROBE_MISS_ASKED : PROBE_MISS_DONE;
}

/* What the kernel has reported up to a turn is known before the calls of that turn. */
void daemon_on_turn(void *data)
{
	struct daemon *daemon = data;

	if (daemon->maps && daemon->probe_config.unwind)
		maps_catch_up(daemon->maps);
}

static bool is_doubtful(const struct daemon *daemon, const struct ts_event *event)
{
	if (event->start_ns > daemon->replaced_ns)
		return false;
	for (uint32_t i = 0; i < DAEMON_REPLACED; i++) {
		const struct replaced *replaced = &daemon->replaced[i];

		if (replaced->pid == event->tgid && event->start_ns >= replaced->since_ns &&
		    event->start_ns <= replaced->until_ns)
			return true;
	}
	return false;
}

bool daemon_settle(struct daemon *daemon, const struct ts_event *event, struct ts_event *ret)
{
	bool missed = event->flags & PROBE_EVENT_MISSED;

	if (event->kind != TS_EVENT_API || !event->stack_id ||
	    (!missed && !is_doubtful(daemon, event)))
		return false;
	*ret = *event;
	ret->stack_id = 0;
	if (missed)
		ret->stack_id = (uintptr_t)map_remove(&daemon->settled, key_of(event->stack_id));
	if (is_doubtful(daemon, event))
		ret->stack_id = 0;
	ret->flags &= (uint16_t)~PROBE_EVENT_MISSED;
	if (!ret->stack_id)
		ret->flags |= TS_EVENT_STACK_LOST;
	return true;
}

void daemon_choose_unwind(struct daemon *daemon, struct probe_config *config)
{
	struct maps_stats maps;

	maps_stats(daemon->maps, &maps);
	if (!config->unwind || maps.live)
		return;
	log_warning("Walking stacks by frame pointers: without perf events changes of a process's "
		    "mappings are seen too late");
	config->unwind = false;
}

int daemon_start_unwinder(struct daemon *daemon)
{
	const struct unwinder_config config = {
		.slots = probe_rules(daemon->probe),
		.mask = probe_rule_mask(daemon->probe),
		.done = on_unwound,
		.data = daemon,
	};

	return unwinder_new(&daemon->loop, daemon->maps, &config, &daemon->unwinder);
}

void daemon_stop_unwinder(struct daemon *daemon)
{
	unwinder_close(TAKE(daemon->unwinder), NULL);
	if (daemon->probe)
		probe_wait_no_longer(daemon->probe);
}
