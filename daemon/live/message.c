/* Message: what came since the last one, as a reply to all who watch. It has room for
 * LIMIT_LIVE_PROCESSES processes: those that hold or do most. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/model/loss_said.h"
#include "daemon/limits.h"
#include "daemon/live/internal.h"
#include "daemon/live/live.h"

#define GROWTH_NS (10 * NS_PER_S)

typedef Tracesmith__V1__LiveReply Reply;
typedef Tracesmith__V1__LiveReply__Device Device;
typedef Tracesmith__V1__LiveReply__Process Process;
typedef Tracesmith__V1__LiveReply__Use Use;
typedef Tracesmith__V1__LiveReply__States States;
typedef Tracesmith__V1__LiveReply__Calls Calls;

static char empty[] = "";

static void *get(struct live *live, size_t count, size_t size)
{
	void *memory = arena_get(&live->arena, count * size ?: 1);

	if (memory)
		memset(memory, 0, count * size);
	return memory;
}

static const char *tier_of(const struct live_process *process)
{
	if (!process->collect || process->collect == TS_COLLECT_STOPPED)
		return process->row.light ? "light" : "probe";
	return process->collect == TS_COLLECT_PAUSED ? "paused" : "exact";
}

static void states_add(States *states, const struct live_use *use)
{
	states->idle_ns += use->ns[OP_STATE_IDLE];
	states->pending_ns += use->ns[OP_STATE_PENDING];
	states->running_ns += use->ns[OP_STATE_RUNNING];
	states->waiting_ns += use->ns[OP_STATE_WAITING];
	states->copying_ns += use->ns[OP_STATE_COPYING];
	states->syncing_ns += use->ns[OP_STATE_SYNCING];
}

static void calls_add(Calls *calls, const Calls *more)
{
	calls->count += more->count;
	calls->launches += more->launches;
	calls->copies += more->copies;
	calls->copied_bytes += more->copied_bytes;
	calls->to_device_bytes += more->to_device_bytes;
	calls->from_device_bytes += more->from_device_bytes;
	calls->waits_ns += more->waits_ns;
	calls->errors += more->errors;
}

/* Memory that is needed for a while comes and goes; what is never freed is in the least. */
static uint64_t growth_of(struct live_process *process, uint64_t bytes, uint64_t now_ns)
{
	uint64_t *minimum = process->growth.minimum;

	if (!process->growth.since_ns || bytes < process->growth.least)
		process->growth.least = bytes;
	if (!process->growth.since_ns)
		process->growth.since_ns = now_ns;
	if (now_ns - process->growth.since_ns >= (uint64_t)GROWTH_NS) {
		memmove(minimum, minimum + 1, (LIVE_MINIMA - 1) * sizeof(*minimum));
		minimum[LIVE_MINIMA - 1] = process->growth.least;
		process->growth.count += process->growth.count < LIVE_MINIMA;
		process->growth.least = bytes;
		process->growth.since_ns = now_ns;
	}
	if (process->growth.count < LIVE_MINIMA)
		return 0;
	for (int i = 1; i < LIVE_MINIMA; i++)
		if (minimum[i] <= minimum[i - 1])
			return 0;
	return (minimum[LIVE_MINIMA - 1] - minimum[0]) * 60 /
	       ((LIVE_MINIMA - 1) * (uint64_t)GROWTH_NS / (uint64_t)NS_PER_S);
}

static int uses_take(struct live *live, struct live_process *process, Process *ret)
{
	const struct live_use *use;
	size_t count = 0;

	list_for_each(use, &process->uses, link)
		count++;
	ret->use = get(live, count, sizeof(*ret->use));
	if (!ret->use)
		return -ENOMEM;
	list_for_each(use, &process->uses, link) {
		Use *one;
		States *states;

		if (!use->used)
			continue;
		one = get(live, 1, sizeof(*one));
		states = get(live, 1, sizeof(*states));
		if (!one || !states)
			return -ENOMEM;
		*one = (Use)TRACESMITH__V1__LIVE_REPLY__USE__INIT;
		*states = (States)TRACESMITH__V1__LIVE_REPLY__STATES__INIT;
		one->device = use->device;
		one->live_bytes = live_bytes(use);
		one->bounds = !use->exact;
		states_add(states, use);
		one->states = states;
		ret->use[ret->n_use++] = one;
		ret->live_bytes += one->live_bytes;
		ret->peak_bytes += use->peak_bytes[MEMORY_DEVICE] +
				   use->peak_bytes[MEMORY_MANAGED] + use->peak_bytes[MEMORY_POOL] +
				   use->peak_bytes[MEMORY_PHYSICAL];
	}
	return 0;
}

static Process *process_take(struct live *live, struct live_process *process, uint64_t now_ns)
{
	Process *ret = get(live, 1, sizeof(*ret));

	if (!ret)
		return NULL;
	*ret = (Process)TRACESMITH__V1__LIVE_REPLY__PROCESS__INIT;
	ret->id = process->row.id;
	ret->pid = process->row.pid;
	ret->ppid = process->row.ppid;
	ret->uid = process->row.uid;
	ret->owner = process->row.user;
	ret->comm = process->row.comm;
	ret->container = process->container;
	ret->tier = (char *)tier_of(process);
	ret->calls = &process->taken;
	ret->lost = process->lost;
	ret->unwatched = process->unwatched;
	ret->priced = process->priced;
	ret->cost_ppm = process->cost_ppm;
	ret->budget_ppm = process->budget_ppm;
	ret->watched_ppm = process->watched_ppm;
	process->taken = process->calls;
	if (uses_take(live, process, ret) < 0 || streams_take(live, process, ret) < 0)
		return NULL;
	ret->growth_bytes = growth_of(process, ret->live_bytes, now_ns);
	return ret;
}

static Device *device_get(struct live *live, Reply *reply, const struct live_use *use)
{
	static const char digits[] = "0123456789abcdef";
	char uuid[2 * sizeof(use->row.uuid) + 1] = "";
	Device *device;

	for (size_t i = 0; use->told && i < sizeof(use->row.uuid); i++) {
		uuid[2 * i] = digits[use->row.uuid[i] >> 4];
		uuid[2 * i + 1] = digits[use->row.uuid[i] & 15];
	}
	for (size_t i = 0; i < reply->n_device; i++) {
		device = reply->device[i];
		if (device->device == use->device &&
		    (!*uuid || !*device->uuid || strcmp(device->uuid, uuid) == 0)) {
			if (*uuid && !*device->uuid)
				device->uuid =
					arena_text(&live->arena, uuid, strlen(uuid)) ?: empty;
			return device;
		}
	}
	if (reply->n_device == LIMIT_LIVE_DEVICES)
		return NULL;
	device = get(live, 1, sizeof(*device));
	if (!device)
		return NULL;
	*device = (Device)TRACESMITH__V1__LIVE_REPLY__DEVICE__INIT;
	device->states = get(live, 1, sizeof(*device->states));
	device->calls = get(live, 1, sizeof(*device->calls));
	if (!device->states || !device->calls)
		return NULL;
	*device->states = (States)TRACESMITH__V1__LIVE_REPLY__STATES__INIT;
	*device->calls = (Calls)TRACESMITH__V1__LIVE_REPLY__CALLS__INIT;
	device->device = use->device;
	device->uuid = arena_text(&live->arena, uuid, strlen(uuid)) ?: empty;
	reply->device[reply->n_device++] = device;
	return device;
}

static void device_add(struct live *live, Reply *reply, const struct live_use *use)
{
	Device *device = use->device == DEVICE_UNKNOWN && !live_bytes(use) && !use->calls.launches
				 ? NULL
				 : device_get(live, reply, use);

	if (!device)
		return;
	if (use->row.memory_bytes)
		device->memory_bytes = use->row.memory_bytes;
	device->live_bytes += live_bytes(use);
	device->processes++;
	device->bounds |= !use->exact;
	states_add(device->states, use);
	calls_add(device->calls, &use->calls);
}

static int by_device(const void *a, const void *b)
{
	const Device *const *first = a, *const *second = b;
	int order = ((*first)->device > (*second)->device) - ((*first)->device < (*second)->device);

	return order ?: strcmp((*first)->uuid, (*second)->uuid);
}

static int by_weight(const void *a, const void *b)
{
	const struct live_process *const *first = a, *const *second = b;

	if ((*first)->weight != (*second)->weight)
		return (*first)->weight < (*second)->weight ? 1 : -1;
	return (*first)->row.id < (*second)->row.id ? -1 : 1;
}

/* Who does something comes before who only holds something. */
static uint64_t weight_of(const struct live_process *process)
{
	const struct live_use *use;
	uint64_t bytes = 0;

	list_for_each(use, &process->uses, link)
		bytes += live_bytes(use);
	return (process->calls.count << 32) + (bytes >> 20);
}

static void start_again(struct live *live, struct live_process *process)
{
	struct live_use *use;

	process->calls = (Calls)TRACESMITH__V1__LIVE_REPLY__CALLS__INIT;
	process->lost = 0;
	process->unwatched = false;
	streams_start_again(live, process);
	list_for_each(use, &process->uses, link) {
		memset(use->ns, 0, sizeof(use->ns));
		use->calls = process->calls;
	}
}

/* Whether it says something else than the last time. An idle device is idle for a little more or
 * less than a second. */
static bool has_changed(struct live_process *process, Process *said)
{
	uint64_t idle[LIMIT_LIVE_DEVICES];
	_cleanup_(freep) uint8_t *bytes = NULL;
	struct map_key key = { 0 };
	bool changed;

	for (size_t i = 0; i < said->n_use && i < LIMIT_LIVE_DEVICES; i++) {
		idle[i] = said->use[i]->states->idle_ns;
		said->use[i]->states->idle_ns = 0;
	}
	bytes = malloc(protobuf_c_message_get_packed_size(&said->base) + 1);
	if (bytes)
		key = map_key_of(bytes, protobuf_c_message_pack(&said->base, bytes), 0);
	for (size_t i = 0; i < said->n_use && i < LIMIT_LIVE_DEVICES; i++)
		said->use[i]->states->idle_ns = idle[i];
	changed = !bytes || key.a != process->told.a || key.b != process->told.b;
	process->told = key;
	return changed;
}

/* What was not watched, as the answers of queries say it. */
static int say_missing(struct live *live, enum loss_reason reason, Tracesmith__V1__Loss *loss)
{
	const struct loss_time time = { reason, live->lost[reason].time_ns, 0, 0 };
	_cleanup_(freep) char *said = NULL;
	int r = loss_said(&time, &said);
	size_t size;

	if (!said)
		return r;
	size = strlen(said) + 1;
	loss->said = get(live, size, 1);
	if (!loss->said)
		return -ENOMEM;
	memcpy(loss->said, said, size);
	return 0;
}

static int losses_take(struct live *live, Reply *reply)
{
	static const struct {
		const char *name, *text, *noun;
	} reasons[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, alarm, misses, noun, name, text)                             \
	[number] = { name, text, noun },
		LOSS_REASONS(X)
#undef X
	};

	reply->loss = get(live, LOSS_REASON_MAX, sizeof(*reply->loss));
	if (!reply->loss)
		return -ENOMEM;
	for (int i = 1; i <= LOSS_REASON_MAX; i++) {
		Tracesmith__V1__Loss *loss;

		if (!live->lost[i].count && !live->lost[i].time_ns)
			continue;
		loss = get(live, 1, sizeof(*loss));
		if (!loss)
			return -ENOMEM;
		*loss = (Tracesmith__V1__Loss)TRACESMITH__V1__LOSS__INIT;
		loss->reason = (char *)reasons[i].name;
		loss->text = (char *)reasons[i].text;
		loss->noun = (char *)reasons[i].noun;
		loss->count = live->lost[i].count;
		loss->time_ns = live->lost[i].time_ns;
		if (say_missing(live, (enum loss_reason)i, loss) < 0)
			return -ENOMEM;
		reply->loss[reply->n_loss++] = loss;
	}
	return 0;
}

static void losses_start_again(struct live *live)
{
	for (int i = 1; i <= LOSS_REASON_MAX; i++)
		live->lost[i].count = live->lost[i].time_ns = 0;
}

/* All of them, those with most weight first. */
static struct live_process **sorted(struct live *live, size_t *ret_count)
{
	struct live_process **all = get(live, live->process_by_id.count, sizeof(*all));
	struct live_process *process;
	size_t count = 0;

	if (!all)
		return NULL;
	list_for_each(process, &live->processes, link) {
		process->weight = weight_of(process);
		all[count++] = process;
	}
	qsort(all, count, sizeof(*all), by_weight);
	*ret_count = count;
	return all;
}

static int processes_take(struct live *live, uint64_t now_ns, Reply *whole, Reply *changed)
{
	const struct live_use *use;
	struct live_process **all;
	size_t count = 0;

	all = sorted(live, &count);
	whole->process = get(live, LIMIT_LIVE_PROCESSES, sizeof(*whole->process));
	changed->process = get(live, LIMIT_LIVE_PROCESSES, sizeof(*changed->process));
	whole->device = get(live, LIMIT_LIVE_DEVICES, sizeof(*whole->device));
	if (!all || !whole->process || !changed->process || !whole->device)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		Process *one;

		list_for_each(use, &all[i]->uses, link)
			if (use->used)
				device_add(live, whole, use);
		if (i < LIMIT_LIVE_PROCESSES) {
			one = process_take(live, all[i], now_ns);
			if (!one)
				return -ENOMEM;
			whole->process[whole->n_process++] = one;
			if (has_changed(all[i], one))
				changed->process[changed->n_process++] = one;
		}
		start_again(live, all[i]);
	}
	whole->left_out = (uint32_t)(count - whole->n_process);
	qsort(whole->device, whole->n_device, sizeof(*whole->device), by_device);
	return 0;
}

int live_take(struct live *live, uint64_t now_ns, struct live_message *ret)
{
	Reply *whole, *changed;
	int r;

	arena_clear(&live->arena);
	whole = get(live, 1, sizeof(*whole));
	changed = get(live, 1, sizeof(*changed));
	if (!whole || !changed)
		return -ENOMEM;
	*whole = *changed = (Reply)TRACESMITH__V1__LIVE_REPLY__INIT;
	r = processes_take(live, now_ns, whole, changed);
	if (r == 0)
		r = losses_take(live, whole);
	if (r < 0)
		return r;
	whole->whole = true;
	whole->time_ns = changed->time_ns = now_ns;
	whole->span_ns = changed->span_ns = now_ns - live->taken_ns;
	whole->n_gone = changed->n_gone = live->gone_count;
	whole->gone = changed->gone = live->gone;
	changed->left_out = whole->left_out;
	changed->n_device = whole->n_device;
	changed->device = whole->device;
	changed->n_loss = whole->n_loss;
	changed->loss = whole->loss;
	live->gone_count = 0; /* the array stays */
	live->taken_ns = now_ns;
	losses_start_again(live);
	*ret = (struct live_message){ whole, changed };
	return 0;
}
