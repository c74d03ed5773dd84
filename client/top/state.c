/* State: replies make rows. A process is in the array until a reply says that it is gone, or a
 * whole one leaves it out. */
#include "client/top/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/loss.h"
#include "core/base/cleanup.h"
#include "core/base/text.h"
#include "core/base/time.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"
#include "core/model/loss_said.h"
#include "core/model/op.h"

#define PPM 1e6
/* The states of the exact tier come two seconds late, or up to ten if a record is awaited. */
#define AGE_MAX 12

typedef Tracesmith__V1__LiveReply Live;
typedef Tracesmith__V1__LiveReply__States States;
typedef Tracesmith__V1__LiveReply__Process Said;

const char *const top_sort_names[TOP_SORTS] = {
	[TOP_BY_BUSY] = "busy",	  [TOP_BY_MEMORY] = "memory", [TOP_BY_LAUNCHES] = "launches",
	[TOP_BY_WAITS] = "waits", [TOP_BY_GROWTH] = "growth", [TOP_BY_COST] = "cost",
	[TOP_BY_PID] = "pid",	  [TOP_BY_COMM] = "comm",
};

/* Text of other programs. */
static void set_text(char out[TOP_TEXT], const char *text)
{
	char clean[3 * TOP_TEXT + 1];
	size_t length = strnlen(text, TOP_TEXT - 1), fits;

	length = utf8_visible(clean, text, length);
	for (fits = length < TOP_TEXT - 1 ? length : TOP_TEXT - 1;
	     fits > 0 && fits < length && ((uint8_t)clean[fits] & 0xc0) == 0x80; fits--)
		;
	memcpy(out, clean, fits);
	out[fits] = 0;
}

static double rate(uint64_t count, uint64_t span_ns)
{
	return span_ns ? (double)count * NS_PER_S / (double)span_ns : 0;
}

static double sum_of(const States *s)
{
	return (double)s->idle_ns + (double)s->pending_ns + (double)s->running_ns +
	       (double)s->waiting_ns + (double)s->copying_ns + (double)s->syncing_ns;
}

/* The probe tier cannot tell pending from running. */
static double busy_of(const Tracesmith__V1__LiveReply__Use *use)
{
	double sum = sum_of(use->states);

	return sum > 0 ? (double)(use->bounds ? use->states->pending_ns : use->states->running_ns) /
				 sum
		       : 0;
}

enum heard {
	HEARD_LATE,  /* what was known holds for a while */
	HEARD_NEVER, /* it was not watched: nothing is known, or kept */
	HEARD_KNOWN,
};

static void share_set(struct top_share *share, uint32_t *age, enum heard heard, bool most,
		      double value)
{
	if (heard == HEARD_KNOWN) {
		*share = (struct top_share){ true, most, value < 1 ? value : 1 };
		*age = 0;
	} else if (++*age > AGE_MAX || heard == HEARD_NEVER) {
		*share = (struct top_share){ 0 };
	}
}

static void process_busy(struct top_process *process, const Said *said)
{
	bool known = false, most = false;
	double busy = 0;

	process->uses = 0;
	for (size_t i = 0; i < said->n_use && process->uses < TOP_USES; i++) {
		const Tracesmith__V1__LiveReply__Use *use = said->use[i];
		struct top_share share = { 0 };

		/* Of launches that nobody saw there is no work either. */
		if (sum_of(use->states) > 0 && !(process->unwatched && use->bounds))
			share = (struct top_share){ true, use->bounds, busy_of(use) };
		known |= share.known;
		most |= share.most;
		busy += share.value;
		process->use[process->uses++] = (struct top_use){ use->device, share };
	}
	share_set(&process->busy, &process->busy_age,
		  known		       ? HEARD_KNOWN
		  : process->unwatched ? HEARD_NEVER
				       : HEARD_LATE,
		  most, busy);
}

static void process_calls(struct top_process *process, const Said *said, uint64_t span_ns)
{
	const Tracesmith__V1__LiveReply__Calls *calls = said->calls;
	double whole = process->windows && process->watched > 0 ? 1 / process->watched : 1;

	if (!calls)
		return;
	process->calls_per_s = rate(calls->count, span_ns);
	process->launches_per_s = rate(calls->launches, span_ns);
	process->errors_per_s = rate(calls->errors, span_ns);
	process->waits = span_ns ? (double)calls->waits_ns / (double)span_ns : 0;
	/* What a window held of a second stands for the rest of it. */
	process->launches_per_s *= whole;
	process->launches_known = !process->unwatched || (process->windows && calls->launches > 0);
}

static void process_said(struct top_process *process, const Said *said, uint64_t span_ns)
{
	process->quiet = false;
	process->pid = said->pid;
	process->ppid = said->ppid;
	process->uid = said->uid;
	set_text(process->comm, said->comm);
	set_text(process->container, said->container);
	set_text(process->tier, said->tier);
	process->live_bytes = said->live_bytes;
	process->peak_bytes = said->peak_bytes;
	process->growth_bytes = said->growth_bytes;
	process->lost += said->lost;
	process->priced = said->priced;
	process->streams_left_out = said->streams_left_out;
	process->cost = said->cost_ppm / PPM;
	process->budget = said->budget_ppm / PPM;
	process->watched = said->watched_ppm / PPM;
	process->windows = said->priced && said->watched_ppm < PPM;
	process->unwatched = process->windows || said->unwatched;
	process_busy(process, said);
	process_calls(process, said, span_ns);
}

static struct top_process *find(struct top_state *state, uint32_t id)
{
	for (size_t i = 0; i < state->processes; i++)
		if (state->process[i].id == id)
			return &state->process[i];
	return NULL;
}

static void process_drop(struct top_state *state, size_t i)
{
	state->process[i] = state->process[--state->processes];
}

static struct top_process *process_get(struct top_state *state, const Said *said, top_user_fn *user)
{
	struct top_process *process = find(state, said->id);
	char name[TOP_TEXT] = "";

	if (process)
		return process;
	if (VECTOR_ROOM(state->process, state->process_room, state->processes + 1) < 0)
		return NULL;
	process = &state->process[state->processes++];
	*process = (struct top_process){ .id = said->id };
	user(said->uid, name);
	set_text(process->user, name);
	return process;
}

/* Nothing has changed: it went on doing nothing, or as much as before to the nanosecond. */
static void process_rest(struct top_process *process)
{
	process->launches_known = !process->unwatched;
	if (process->calls_per_s <= 0)
		return;
	process->calls_per_s = process->launches_per_s = process->errors_per_s = 0;
	process->waits = 0;
}

static int processes_apply(struct top_state *state, const Live *live, top_user_fn *user)
{
	struct top_process *process;

	for (size_t i = 0; i < state->processes; i++)
		state->process[i].quiet = true;
	for (size_t i = 0; i < live->n_process; i++) {
		process = process_get(state, live->process[i], user);
		if (!process)
			return -ENOMEM;
		process_said(process, live->process[i], live->span_ns);
	}
	for (size_t i = state->processes; i-- > 0;) {
		bool gone = live->whole && state->process[i].quiet;

		for (size_t k = 0; k < live->n_gone && !gone; k++)
			gone = state->process[i].id == live->gone[k];
		if (gone)
			process_drop(state, i);
		else if (state->process[i].quiet)
			process_rest(&state->process[i]);
	}
	return 0;
}

static struct top_device *device_get(struct top_state *state,
				     const Tracesmith__V1__LiveReply__Device *said)
{
	struct top_device *device;

	for (size_t i = 0; i < state->devices; i++) {
		device = &state->device[i];
		if (device->device == said->device &&
		    (!*device->uuid || !*said->uuid || strcmp(device->uuid, said->uuid) == 0))
			return device;
	}
	if (VECTOR_ROOM(state->device, state->device_room, state->devices + 1) < 0)
		return NULL;
	device = &state->device[state->devices++];
	*device = (struct top_device){ .device = said->device };
	for (size_t i = 0; i < TOP_HISTORY; i++)
		device->history[i] = -1;
	return device;
}

/* Each process has a share of the device's time: two may run at once. */
static void device_busy(const struct top_state *state, struct top_device *device)
{
	bool known = false, most = false;
	double busy = 0;

	device->unwatched = false;
	for (size_t i = 0; i < state->processes; i++) {
		const struct top_process *process = &state->process[i];

		for (size_t k = 0; k < process->uses; k++) {
			const struct top_use *use = &process->use[k];

			if (use->device != device->device)
				continue;
			device->unwatched |= process->unwatched && !use->busy.known;
			if (!use->busy.known)
				continue;
			known = true;
			most |= use->busy.most && use->busy.value > 0;
			busy += use->busy.value;
		}
	}
	/* What the others did is not what the device did. */
	share_set(&device->busy, &device->busy_age,
		  device->unwatched ? HEARD_NEVER
		  : known	    ? HEARD_KNOWN
				    : HEARD_LATE,
		  most, busy);
}

static void device_waits(struct top_device *device, const States *states)
{
	static const struct {
		const char *name, *why;
	} text[] = {
#define X(number, identifier, name, place, what) [number] = { name, what },
		OP_STATES(X)
#undef X
	};
	const uint64_t ns[] = {
		[OP_STATE_IDLE] = states->idle_ns,	 [OP_STATE_WAITING] = states->waiting_ns,
		[OP_STATE_PENDING] = states->pending_ns, [OP_STATE_COPYING] = states->copying_ns,
		[OP_STATE_SYNCING] = states->syncing_ns,
	};
	size_t most = 0;

	for (size_t i = 1; i < sizeof(ns) / sizeof(*ns); i++)
		if (ns[i] > ns[most] && (!device->busy.most || i != OP_STATE_PENDING))
			most = i;
	if (!most)
		return;
	device->state = text[most].name;
	device->why = text[most].why;
	device->state_share = (double)ns[most] / sum_of(states);
}

static int devices_apply(struct top_state *state, const Live *live)
{
	for (size_t i = 0; i < live->n_device; i++) {
		const Tracesmith__V1__LiveReply__Device *said = live->device[i];
		struct top_device *device = device_get(state, said);

		if (!device)
			return -ENOMEM;
		snprintf(device->uuid, sizeof(device->uuid), "%s", said->uuid);
		device->memory_bytes = said->memory_bytes;
		device->live_bytes = said->live_bytes;
		device->processes = said->processes;
		device_busy(state, device);
		if (device->unwatched)
			device->state = NULL;
		else if (said->states && sum_of(said->states) > 0)
			device_waits(device, said->states);
		if (said->calls) {
			device->copies_per_s = rate(said->calls->copies, live->span_ns);
			device->in_per_s = rate(said->calls->to_device_bytes, live->span_ns);
			device->out_per_s = rate(said->calls->from_device_bytes, live->span_ns);
		}
		memmove(device->history, device->history + 1,
			sizeof(device->history) - sizeof(*device->history));
		device->history[TOP_HISTORY - 1] = device->busy.known ? device->busy.value : -1;
	}
	for (size_t i = state->devices; i-- > 0;) {
		bool said = false;

		for (size_t k = 0; k < live->n_device && !said; k++)
			said = state->device[i].device == live->device[k]->device;
		if (!said)
			memmove(&state->device[i], &state->device[i + 1],
				(--state->devices - i) * sizeof(*state->device));
	}
	return 0;
}

static bool is_sane(const Live *live)
{
	for (size_t i = 0; i < live->n_process; i++)
		for (size_t k = 0; k < live->process[i]->n_use; k++)
			if (!live->process[i]->use[k]->states)
				return false;
	return true;
}

static void losses_apply(struct top_state *state, const Live *live)
{
	for (size_t i = 0; i < live->n_loss; i++) {
		const Tracesmith__V1__Loss *loss = live->loss[i];
		enum loss_reason reason = loss_reason_of(loss->reason);
		struct top_loss *sum = &state->loss[reason];

		sum->count += loss->count;
		sum->time_ns += loss->time_ns;
		if (!reason)
			set_text(state->loss_name, loss->reason);
		if (!loss->said[0] && !loss->time_ns)
			state->lost += loss->count;
	}
}

int top_apply(struct top_state *state, const Live *live, top_user_fn *user)
{
	int r;

	if (!is_sane(live))
		return -EPROTO;
	r = processes_apply(state, live, user);
	if (r == 0)
		r = devices_apply(state, live);
	if (r == 0)
		r = lanes_apply(&state->lanes, live);
	if (r < 0)
		return r;
	state->replies++;
	state->span_ns = live->span_ns;
	state->left_out = live->left_out;
	losses_apply(state, live);
	return 0;
}

char *top_missing(const struct top_state *state)
{
	Tracesmith__V1__Loss loss[LOSS_REASON_MAX + 1], *losses[LOSS_REASON_MAX + 1];
	Tracesmith__V1__Done done = { .loss = losses };
	_cleanup_(freep) char *text = NULL;
	struct loss_time time;
	size_t size;
	int r = 0;
	FILE *out = text_open(&text, &size);

	if (!out) {
		complain_memory();
		return NULL;
	}
	for (int i = 0; r == 0 && i <= LOSS_REASON_MAX; i++) {
		Tracesmith__V1__Loss *next = losses[done.n_loss] = &loss[done.n_loss];

		if (!state->loss[i].count && !state->loss[i].time_ns)
			continue;
		tracesmith__v1__loss__init(next);
		next->reason =
			i ? (char *)loss_name((enum loss_reason)i) : (char *)state->loss_name;
		next->noun = (char *)loss_noun((enum loss_reason)i);
		next->count = state->loss[i].count;
		time = (struct loss_time){ .reason = (enum loss_reason)i,
					   .time_ns = state->loss[i].time_ns };
		r = loss_said(&time, &next->said);
		done.n_loss++;
	}
	if (r == 0)
		loss_write_line(out, &done);
	for (size_t i = 0; i < done.n_loss; i++)
		free(loss[i].said);
	if (text_close(out) == 0 && r == 0)
		return TAKE(text);
	complain_memory();
	return NULL;
}

void top_forget(struct top_state *state)
{
	while (state->processes)
		process_drop(state, 0);
	for (size_t i = 0; i < state->devices; i++) {
		state->device[i].busy = (struct top_share){ 0 };
		state->device[i].state = NULL;
	}
	lanes_clear(&state->lanes);
	state->replies = 0;
}

void top_clear(struct top_state *state)
{
	top_forget(state);
	free(state->process);
	free(state->device);
	*state = (struct top_state){ 0 };
}

static double sort_value(const struct top_process *process, enum top_sort sort)
{
	const double value[TOP_SORTS] = {
		[TOP_BY_BUSY] = process->busy.value,
		[TOP_BY_MEMORY] = (double)process->live_bytes,
		[TOP_BY_LAUNCHES] = process->launches_per_s,
		[TOP_BY_WAITS] = process->waits,
		[TOP_BY_GROWTH] = (double)process->growth_bytes,
		[TOP_BY_COST] = process->cost,
		[TOP_BY_PID] = -(double)process->pid,
	};

	return value[sort];
}

static int compare(const void *a, const void *b, void *sort)
{
	const struct top_process *first = a, *second = b;
	const int by = *(const int *)sort;
	const double x = sort_value(first, (enum top_sort)(by / 2));
	const double y = sort_value(second, (enum top_sort)(by / 2));
	int order = (x < y) - (x > y);

	if (by / 2 == TOP_BY_COMM)
		order = strcmp(first->comm, second->comm);
	if (by % 2)
		order = -order;
	return order ?: (first->pid > second->pid) - (first->pid < second->pid);
}

void top_order(struct top_state *state, enum top_sort sort, bool reverse)
{
	int by = 2 * (int)sort + reverse;

	for (size_t i = 0; i < state->processes; i++)
		state->process[i].depth = 0;
	if (state->processes)
		qsort_r(state->process, state->processes, sizeof(*state->process), compare, &by);
}

#define NO_PARENT SIZE_MAX

struct tree {
	const struct top_process *from;
	struct top_process *to;
	size_t count, placed;
	size_t *parent; /* of each, where it is in `from` */
	bool *is_placed;
};

static size_t parent_of(const struct tree *tree, uint32_t ppid)
{
	for (size_t i = 0; i < tree->count && ppid; i++)
		if (tree->from[i].pid == ppid)
			return i;
	return NO_PARENT;
}

/* One with all below it. Pids are used again and may form a ring: nobody is placed twice. */
static void place(struct tree *tree, size_t which, uint32_t depth)
{
	if (tree->is_placed[which])
		return;
	tree->is_placed[which] = true;
	tree->to[tree->placed] = tree->from[which];
	tree->to[tree->placed++].depth = depth;
	for (size_t i = 0; i < tree->count; i++)
		if (tree->parent[i] == which)
			place(tree, i, depth + 1);
}

int top_tree(struct top_state *state)
{
	_cleanup_(freep) struct top_process *to = calloc(state->processes + 1, sizeof(*to));
	_cleanup_(freep) size_t *parent = calloc(state->processes + 1, sizeof(*parent));
	_cleanup_(freep) bool *is_placed = calloc(state->processes + 1, sizeof(*is_placed));
	struct tree tree = { state->process, to, state->processes, 0, parent, is_placed };

	if (!to || !parent || !is_placed)
		return -ENOMEM;
	for (size_t i = 0; i < tree.count; i++)
		parent[i] = parent_of(&tree, tree.from[i].ppid);
	for (size_t i = 0; i < tree.count; i++)
		if (parent[i] == NO_PARENT)
			place(&tree, i, 0);
	for (size_t i = 0; i < tree.count; i++)
		place(&tree, i, 0);
	free(state->process);
	state->process = TAKE(to);
	state->process_room = state->processes + 1;
	return 0;
}

bool top_matches(const struct top_process *process, const char *text)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", process->pid);
	return strcasestr(process->comm, text) || strcasestr(process->user, text) ||
	       strcasestr(process->container, text) || strcasestr(process->tier, text) ||
	       strstr(pid, text);
}
