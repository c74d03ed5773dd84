/* Live: the processes of the model and what came of each since the last message. A process is in
 * both the list and the map, or in neither. */
#include "daemon/live/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/base/vector.h"
#include "daemon/live/internal.h"

static struct map_key key_of(uint32_t id)
{
	return (struct map_key){ id, 0 };
}

struct live *live_new(void)
{
	struct live *live = calloc(1, sizeof(*live));

	if (!live)
		return NULL;
	list_init(&live->processes);
	return live;
}

static void process_free(struct live *live, struct live_process *process)
{
	struct live_use *use;

	streams_free(live, process);
	map_remove(&live->process_by_id, key_of(process->row.id));
	list_remove(&process->link);
	list_for_each(use, &process->uses, link)
		free(use);
	free(process);
}

void live_stop(struct live *live)
{
	struct live_process *process;

	live->on = false;
	list_for_each(process, &live->processes, link)
		process_free(live, process);
	map_clear(&live->process_by_id);
	map_clear(&live->stream_by_id);
	arena_clear(&live->arena);
	free(live->gone);
	live->gone = NULL;
	live->gone_count = live->gone_room = 0;
	memset(live->lost, 0, sizeof(live->lost));
}

struct live *live_free(struct live *live)
{
	if (!live)
		return NULL;
	live_stop(live);
	free(live);
	return NULL;
}

void live_start(struct live *live, uint64_t now_ns)
{
	live->on = true;
	live->taken_ns = live->started_ns = now_ns;
}

bool live_is_on(const struct live *live)
{
	return live->on;
}

struct live_process *live_process(const struct live *live, uint32_t id)
{
	return map_get(&live->process_by_id, key_of(id));
}

/* Those of memory that the device has, as `tsctl ps` counts it. */
uint64_t live_bytes(const struct live_use *use)
{
	return use->live_bytes[MEMORY_DEVICE] + use->live_bytes[MEMORY_MANAGED] +
	       use->live_bytes[MEMORY_POOL] + use->live_bytes[MEMORY_PHYSICAL];
}

static struct live_use *use_find(struct live_process *process, int16_t device)
{
	struct live_use *use;

	list_for_each(use, &process->uses, link)
		if (use->device == device)
			return use;
	use = calloc(1, sizeof(*use));
	if (!use)
		return NULL;
	use->device = device;
	use->calls = (Tracesmith__V1__LiveReply__Calls)TRACESMITH__V1__LIVE_REPLY__CALLS__INIT;
	list_append(&process->uses, &use->link);
	return use;
}

static struct live_use *use_get(struct live_process *process, int16_t device)
{
	struct live_use *use = use_find(process, device);

	if (use)
		use->used = true;
	return use;
}

static void process_end(struct live *live, struct live_process *process)
{
	if (VECTOR_ROOM(live->gone, live->gone_room, live->gone_count + 1) == 0)
		live->gone[live->gone_count++] = process->row.id;
	process_free(live, process);
}

static void on_process(struct live *live, const struct core_process *row)
{
	struct live_process *process = live_process(live, row->id);

	if (process && row->exit_ns) {
		process_end(live, process);
		return;
	}
	if (row->exit_ns)
		return;
	if (!process) {
		process = calloc(1, sizeof(*process));
		if (!process)
			return;
		list_init(&process->uses);
		list_init(&process->streams);
		process->calls =
			(Tracesmith__V1__LiveReply__Calls)TRACESMITH__V1__LIVE_REPLY__CALLS__INIT;
		if (map_put(&live->process_by_id, key_of(row->id), process) < 0) {
			free(process);
			return;
		}
		list_append(&live->processes, &process->link);
	}
	process->row = *row;
}

static void on_memory(struct live *live, const struct core_memory *row)
{
	struct live_process *process = live_process(live, row->process);
	struct live_use *use = process ? use_get(process, row->device) : NULL;

	if (!use || row->kind > MEMORY_KIND_MAX)
		return;
	use->live_bytes[row->kind] = row->live_bytes;
	use->peak_bytes[row->kind] = row->peak_bytes;
}

/* A program asks for the size of devices that it does not use, too. */
static void on_device(struct live *live, const struct core_device *row)
{
	static const uint8_t unknown[sizeof(row->uuid)];
	struct live_process *process = live_process(live, row->process);
	bool told = memcmp(row->uuid, unknown, sizeof(unknown)) != 0;
	struct live_use *use = process ? use_find(process, row->ordinal) : NULL;

	if (!use || (use->told && !told))
		return;
	use->told = told;
	use->used |= told;
	use->row = *row;
}

static void on_busy(struct live *live, const struct core_busy *row)
{
	struct live_process *process = live_process(live, row->process);
	struct live_use *use = process ? use_get(process, row->device) : NULL;

	if (!use || row->state > OP_STATE_MAX)
		return;
	use->exact = true;
	use->ns[row->state] += row->ns;
}

static void on_collect(struct live *live, const struct core_collect *row)
{
	struct live_process *process = live_process(live, row->process);

	if (process)
		process->collect = row->until_ns ? 0 : row->state;
}

static void add_calls(Tracesmith__V1__LiveReply__Calls *calls, const struct core_rollup *row)
{
	const uint64_t done = row->calls - row->captured;

	calls->count += row->calls;
	calls->errors += row->result ? row->calls : 0;
	if (row->kind == OP_LAUNCH)
		calls->launches += done;
	if (row->kind == OP_SYNC)
		calls->waits_ns += row->total_ns;
	if (row->kind != OP_COPY)
		return;
	calls->copies += done;
	calls->copied_bytes += row->bytes;
	if (row->detail == COPY_HTOD)
		calls->to_device_bytes += row->bytes;
	if (row->detail == COPY_DTOH)
		calls->from_device_bytes += row->bytes;
}

static void on_rollup(struct live *live, const struct core_rollup *row)
{
	struct live_process *process = live_process(live, row->process);
	struct live_use *use;

	if (!process || row->freed)
		return;
	add_calls(&process->calls, row);
	use = use_find(process, row->device);
	if (!use)
		return;
	use->used |= row->kind != OP_MEMORY; /* which asks for sizes */
	add_calls(&use->calls, row);
}

/* Whether calls are among what was not seen, since the last message. */
static bool hides_calls(const struct live *live, const struct core_loss *row)
{
	static const uint8_t misses[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, alarm, misses, ...) [number] = LOSS_MISSES_##misses,
		LOSS_REASONS(X)
#undef X
	};

	return row->end_ns > live->taken_ns && (misses[row->reason] == LOSS_MISSES_CALLS ||
						misses[row->reason] == LOSS_MISSES_WORK);
}

static void unwatch(const struct live *live, uint32_t id)
{
	struct live_process *process;

	list_for_each(process, &live->processes, link)
		if (!id || process->row.id == id)
			process->unwatched = true;
}

static void lose_time(const struct live *live, struct live_loss *loss, const struct core_loss *row)
{
	uint64_t from_ns = row->start_ns;

	if (from_ns < live->started_ns)
		from_ns = live->started_ns;
	if (from_ns < loss->seen_ns)
		from_ns = loss->seen_ns;
	if (row->end_ns <= from_ns)
		return;
	loss->time_ns += row->end_ns - from_ns;
	loss->seen_ns = row->end_ns;
}

static void on_loss(struct live *live, const struct core_loss *row)
{
	static const uint8_t counts[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, ...) [number] = LOSS_COUNTS_##counts,
		LOSS_REASONS(X)
#undef X
	};
	struct live_process *process = live_process(live, row->process);

	if (row->reason > LOSS_REASON_MAX || counts[row->reason] == LOSS_COUNTS_NOTE)
		return;
	live->lost[row->reason].count += row->count;
	if (counts[row->reason] == LOSS_COUNTS_PERIOD && hides_calls(live, row))
		unwatch(live, row->process);
	if (counts[row->reason] == LOSS_COUNTS_PERIOD)
		lose_time(live, &live->lost[row->reason], row);
	else if (process)
		process->lost += row->count;
}

void live_row(void *data, enum core_row type, const void *row)
{
	struct live *live = data;

	if (!live->on)
		return;
	switch (type) {
	case CORE_ROW_PROCESS:
		on_process(live, row);
		break;
	case CORE_ROW_MEMORY:
		on_memory(live, row);
		break;
	case CORE_ROW_DEVICE:
		on_device(live, row);
		break;
	case CORE_ROW_BUSY:
		on_busy(live, row);
		break;
	case CORE_ROW_COLLECT:
		on_collect(live, row);
		break;
	case CORE_ROW_ROLLUP:
		on_rollup(live, row);
		break;
	case CORE_ROW_LOSS:
		on_loss(live, row);
		break;
	default:
		break;
	}
}

/* Without records: the device was in this state up to then, from where the last one ended. */
static void use_mark(struct live *live, struct live_use *use, uint8_t state, uint64_t since_ns,
		     uint64_t until_ns)
{
	uint64_t from_ns = use->marked_ns > since_ns ? use->marked_ns : since_ns;

	if (from_ns < live->taken_ns && !use->marked_ns)
		from_ns = live->taken_ns;
	if (until_ns <= from_ns || state > OP_STATE_MAX)
		return;
	use->ns[state] += until_ns - from_ns;
	use->marked_ns = until_ns;
}

static void stream_op(struct live *live, const struct op *op)
{
	const struct core_doing doing = {
		.process = op->process,
		.stream = op->stream,
		.device = op->device,
		.state = op->detail,
		.exact = op->flags & OP_EXACT,
		.since_ns = op->start_ns,
		.until_ns = op->end_ns,
	};

	if (op->detail != OP_STATE_IDLE)
		live_stream(live, &doing);
}

void live_op(struct live *live, const struct op *op)
{
	struct live_process *process;
	struct live_use *use;

	if (!live->on || op->kind != OP_STATE)
		return;
	if (op->stream)
		stream_op(live, op);
	if (op->stream || op->flags & OP_EXACT)
		return;
	process = live_process(live, op->process);
	use = process ? use_get(process, op->device) : NULL;
	if (!use)
		return;
	use->exact = false;
	use_mark(live, use, op->detail, op->start_ns, op->end_ns);
}

void live_doing(struct live *live, const struct core_doing *doing, uint64_t now_ns)
{
	struct live_process *process = live_process(live, doing->process);
	struct live_use *use = process ? use_get(process, doing->device) : NULL;

	if (!use)
		return;
	use->exact = doing->exact;
	if (!doing->exact)
		use_mark(live, use, doing->state, doing->since_ns, now_ns);
	else
		use->marked_ns = now_ns;
}

static struct live_process *by_pid(const struct live *live, uint32_t pid)
{
	struct live_process *process;

	list_for_each(process, &live->processes, link)
		if (process->row.pid == pid)
			return process;
	return NULL;
}

void live_price(struct live *live, uint32_t id, const struct live_price *price)
{
	struct live_process *process = live_process(live, id);

	if (!process)
		return;
	process->cost_ppm = price->cost_ppm;
	process->budget_ppm = price->budget_ppm;
	process->watched_ppm = price->watched_ppm;
	process->priced = true;
}

uint32_t live_unknown(const struct live *live)
{
	struct live_process *process;

	list_for_each(process, &live->processes, link)
		if (!process->described)
			return process->row.pid;
	return 0;
}

void live_describe(struct live *live, uint32_t pid, const char *container)
{
	struct live_process *process = by_pid(live, pid);

	if (!process)
		return;
	process->described = true;
	strncpy(process->container, container, sizeof(process->container) - 1);
}
