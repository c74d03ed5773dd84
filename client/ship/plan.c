/* Plan: minute after minute of each boot that the daemon knows, the oldest first. Minutes in which
 * nothing happened are left out when there is something to catch up with. A minute whose sums have
 * grown since it was shipped, because calls returned late, is shipped again with the next one. */
#include "client/ship/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/base/vector.h"

#define MINUTE_S      60
#define LATE_S	      60  /* then it is shipped even if the daemon does not say that it wrote it */
#define CATCHING_UP_S 600 /* then empty minutes are left out */

struct boot {
	uint32_t id;
	int64_t wall_offset_ns;
	uint64_t last_ns, gpus;
	char boot_id[CURSOR_BOOT_BYTES];
};

struct boots {
	struct boot *boot;
	size_t count, room;
	uint64_t now_ns; /* of the last one, which is the current one */
};

static void boots_done(struct boots *boots)
{
	free(boots->boot);
}

struct parcel_plan plan_start(const struct settings *settings, const struct machine *machine,
			      const struct offset *offset)
{
	struct parcel_plan plan = { .settings = settings,
				    .machine = machine->id,
				    .kernel = machine->kernel,
				    .driver = machine->driver,
				    .cpus = machine->cpus,
				    .clock_server = offset->server,
				    .clock_wall_offset_ns = offset->wall_offset_ns };

	plan.clock_known = offset_estimate(offset, &plan.clock);
	return plan;
}

static int take_boot(void *data, const Tracesmith__V1__Row *row)
{
	struct boots *boots = data;
	struct boot *boot;

	if (row->n_value != 5)
		return -EPROTO;
	if (VECTOR_ROOM(boots->boot, boots->room, boots->count + 1) < 0)
		return -ENOMEM;
	boot = &boots->boot[boots->count++];
	*boot = (struct boot){
		.id = (uint32_t)source_integer(row->value[0]),
		.wall_offset_ns = source_integer(row->value[2]),
		.last_ns = (uint64_t)source_integer(row->value[3]),
		.gpus = (uint64_t)source_integer(row->value[4]),
	};
	snprintf(boot->boot_id, sizeof(boot->boot_id), "%s", source_text(row->value[1]));
	return 0;
}

static int take_number(void *data, const Tracesmith__V1__Row *row)
{
	if (row->n_value == 1)
		*(int64_t *)data = source_integer(row->value[0]);
	return row->n_value == 1 ? 0 : -EPROTO;
}

static uint64_t minute_of(uint64_t second)
{
	return second - second % MINUTE_S;
}

static struct source_about about(const struct boot *boot, uint64_t second)
{
	return (struct source_about){ .boot = boot->id, .minute = (uint32_t)(second / MINUTE_S) };
}

/* In seconds. 1: there is none. */
static int ask_minute(struct source *source, const char *query, const struct boot *boot,
		      uint64_t from, uint64_t *ret)
{
	const struct source_about asked = about(boot, from);
	int64_t minute = -1;
	int r = source_ask(source, query, &asked, take_number, &minute);

	if (r < 0)
		return r;
	if (minute < 0)
		return 1;
	*ret = MINUTE_S * (uint64_t)minute;
	return 0;
}

/* The minute of the first row from one on. */
static int first_minute(struct source *source, const struct boot *boot, uint64_t from,
			uint64_t *ret)
{
	return ask_minute(source, "ship-first", boot, from, ret);
}

static const struct boot *find_boot(const struct boots *boots, const char *boot_id)
{
	for (size_t i = 0; i < boots->count; i++)
		if (strcmp(boots->boot[i].boot_id, boot_id) == 0)
			return &boots->boot[i];
	return NULL;
}

static bool is_newest(const struct boots *boots, const struct boot *boot)
{
	return boot == &boots->boot[boots->count - 1];
}

/* With the offset with which rows of the boot were shipped before the state folder was lost: they
 * only replace each other if they have the same times. */
static int start_boot(struct source *source, struct clickhouse *server, const struct boot *boot,
		      struct cursor *cursor)
{
	uint64_t minute = minute_of(boot->last_ns / NS_PER_S);
	int64_t offset_ns = boot->wall_offset_ns;
	int r = first_minute(source, boot, 0, &minute);

	if (r >= 0)
		r = clickhouse_wall_offset(server, boot->boot_id, &offset_ns);
	if (r < 0 && r != -ENOENT)
		return r;
	cursor_enter(cursor, boot->boot_id, offset_ns, minute);
	return 0;
}

/* The daemon keeps a boot as long as it has rows of it. What came between is told by the host's
 * wall clock, with the time for which it was off. */
static void lose_boots(int64_t left_s, const struct cursor *next, struct parcel_plan *plan)
{
	int64_t found_s = (int64_t)next->minute + next->wall_offset_ns / (int64_t)NS_PER_S;

	if (found_s <= left_s)
		return;
	plan->lost_from = plan->lost_to = next->minute;
	plan->lost_s = (uint64_t)(found_s - left_s);
}

/* If sums of the boot were sent, what comes before the oldest that are left has been deleted, and
 * all if there are none: processes stay as long as they run. */
static int find_lost(struct source *source, const struct boot *boot, const struct cursor *cursor,
		     struct parcel_plan *plan)
{
	uint64_t oldest;
	int r;

	if (!cursor->summed)
		return 0;
	r = ask_minute(source, "ship-oldest", boot, 0, &oldest);
	if (r == 1)
		oldest = boot->last_ns / NS_PER_S;
	if (r >= 0 && oldest > cursor->minute) {
		plan->lost_from = cursor->minute;
		plan->lost_to = oldest;
		plan->lost_s = oldest - cursor->minute;
	}
	return r < 0 ? r : 0;
}

static bool is_behind(const struct boots *boots, const struct boot *boot,
		      const struct cursor *cursor)
{
	return !is_newest(boots, boot) ||
	       cursor->minute + CATCHING_UP_S <= boots->now_ns / NS_PER_S;
}

/* Leaves out what is empty. 1: nothing is left of that boot. */
static int skip_empty(struct source *source, const struct boots *boots, const struct boot *boot,
		      struct cursor *cursor)
{
	uint64_t minute;
	int r;

	if (!is_behind(boots, boot, cursor))
		return 0;
	r = first_minute(source, boot, cursor->minute, &minute);
	if (r == 1 && is_newest(boots, boot)) {
		minute = minute_of(boots->now_ns / NS_PER_S - CATCHING_UP_S);
		r = 0;
	}
	if (r == 0 && minute > cursor->minute)
		cursor->minute = minute;
	return r;
}

/* `hurried`: what comes late makes it grow, so that it is shipped again. */
static bool is_over(const struct boots *boots, const struct boot *boot, uint64_t minute,
		    bool hurried)
{
	uint64_t end_ns = (minute + MINUTE_S) * NS_PER_S;

	if (!is_newest(boots, boot))
		return true;
	if (hurried)
		return boots->now_ns >= end_ns;
	return boots->now_ns >= end_ns + PLAN_SETTLED_S * NS_PER_S &&
	       (boot->last_ns >= end_ns || boots->now_ns >= end_ns + LATE_S * NS_PER_S);
}

struct summing {
	struct cursor *cursor;
	struct parcel_plan *plan;
};

/* Smaller sums are of a minute that retention takes away. */
static int take_sum(void *data, const Tracesmith__V1__Row *row)
{
	struct summing *summing = data;
	struct parcel_plan *plan = summing->plan;
	struct cursor_sum *known;
	uint64_t minute, sum;

	if (row->n_value != 2)
		return -EPROTO;
	minute = MINUTE_S * (uint64_t)source_integer(row->value[0]);
	sum = (uint64_t)source_integer(row->value[1]);
	known = cursor_sum(summing->cursor, minute);
	if (known->minute == minute && sum <= known->sum)
		return 0;
	*known = (struct cursor_sum){ minute, sum };
	if (minute / MINUTE_S != plan->about.minute && plan->again_count < PARCEL_MINUTES_MAX)
		plan->again[plan->again_count++] = (uint32_t)(minute / MINUTE_S);
	return 0;
}

static int fill(struct source *source, const struct boots *boots, const struct boot *boot,
		struct cursor *cursor, struct parcel_plan *plan)
{
	uint64_t now_ns = is_newest(boots, boot) ? boots->now_ns : boot->last_ns;
	uint64_t end_s = cursor->minute + MINUTE_S;
	struct summing summing = { cursor, plan };
	int r;

	plan->about = about(boot, cursor->minute);
	plan->current = is_newest(boots, boot);
	plan->now_ns = now_ns;
	plan->gpus = (int64_t)boot->gpus;
	memcpy(plan->boot_id, boot->boot_id, sizeof(plan->boot_id));
	plan->wall_offset_ns = cursor->wall_offset_ns;
	plan->told_ns = now_ns > cursor->told_ns ? now_ns : cursor->told_ns + 1;
	plan->lag_s = now_ns / NS_PER_S > end_s ? now_ns / NS_PER_S - end_s : 0;
	r = source_ask(source, "ship-sums", &plan->about, take_sum, &summing);
	plan->about.after = (int64_t)cursor->known;
	return r < 0 ? r : 0;
}

static int next_of(struct source *source, struct clickhouse *server, const struct boots *boots,
		   struct cursor *cursor, bool open, struct parcel_plan *plan)
{
	const struct boot *boot = find_boot(boots, cursor->boot_id);
	int64_t left_s = (int64_t)cursor->minute + cursor->wall_offset_ns / (int64_t)NS_PER_S;
	bool lost = !boot && cursor->summed;
	int r = 0;

	if (!boot) {
		boot = boots->boot;
		r = start_boot(source, server, boot, cursor);
	} else if (is_behind(boots, boot, cursor)) {
		r = find_lost(source, boot, cursor, plan);
	}
	if (r == 0)
		r = skip_empty(source, boots, boot, cursor);
	while (r == 1) {
		boot++;
		r = start_boot(source, server, boot, cursor);
		plan->lost_from = plan->lost_to = cursor->minute; /* of another boot */
		if (r == 0)
			r = skip_empty(source, boots, boot, cursor);
	}
	if (r < 0)
		return r;
	if (lost)
		lose_boots(left_s, cursor, plan);
	plan->open = !is_over(boots, boot, cursor->minute, open);
	if (plan->open && (!open || cursor->minute > boots->now_ns / NS_PER_S))
		return PLAN_WAIT;
	return fill(source, boots, boot, cursor, plan);
}

int plan_next(struct source *source, struct clickhouse *server, struct cursor *cursor, bool open,
	      struct parcel_plan *ret)
{
	_cleanup_(boots_done) struct boots boots = { 0 };
	const struct source_about all = { 0 };
	int r = source_ask(source, "ship-boots", &all, take_boot, &boots);

	if (r < 0)
		return r;
	boots.now_ns = source_now_ns(source);
	return boots.count ? next_of(source, server, &boots, cursor, open, ret) : PLAN_WAIT;
}

int plan_window(struct source *source, struct clickhouse *server, uint64_t length_ns,
		struct parcel_plan *ret)
{
	_cleanup_(boots_done) struct boots boots = { 0 };
	const struct source_about all = { 0 };
	const struct boot *boot;
	uint32_t minute;
	int r = source_ask(source, "ship-boots", &all, take_boot, &boots);

	if (r < 0 || !boots.count)
		return r < 0 ? r : PLAN_WAIT;
	boot = &boots.boot[boots.count - 1];
	ret->now_ns = ret->told_ns = ret->until_ns = source_now_ns(source);
	ret->since_ns = length_ns < ret->now_ns ? ret->now_ns - length_ns : 0;
	ret->about = about(boot, ret->now_ns / NS_PER_S);
	minute = about(boot, ret->since_ns / NS_PER_S).minute;
	while (minute < ret->about.minute && ret->again_count < PARCEL_MINUTES_MAX)
		ret->again[ret->again_count++] = minute++;
	ret->current = true;
	ret->gpus = (int64_t)boot->gpus;
	memcpy(ret->boot_id, boot->boot_id, sizeof(ret->boot_id));
	ret->wall_offset_ns = boot->wall_offset_ns;
	r = clickhouse_wall_offset(server, ret->boot_id, &ret->wall_offset_ns);
	ret->host_known = r == 0;
	return r == -ENOENT ? 0 : r;
}
