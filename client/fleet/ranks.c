/* Ranks: processes come in the order of their ranks; each (host, boot) is one clock. */
#include "client/fleet/ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/fleet/statement.h"
#include "core/base/time.h"
#include "core/base/vector.h"
#include "core/limits.h"

#define FOREVER_NS TIMELINE_OFFSET_MAX
/* Of a clock of which nothing is known; both are within 100 ppm. */
#define DRIFT_PPB 200000

static int no_memory(void)
{
	complain_memory();
	return -ENOMEM;
}

static int64_t number(const char *cell)
{
	return cell ? strtoll(cell, NULL, 10) : 0;
}

static int64_t monotonic(const char *cell)
{
	return timeline_number(cell, 0, TIMELINE_MONOTONIC_MAX);
}

static const char *keep(struct ranks *ranks, const char *cell)
{
	return arena_text(&ranks->arena, cell ? cell : "", cell ? strlen(cell) : 0);
}

void ranks_done(struct ranks *ranks)
{
	for (size_t i = 0; i < ranks->count; i++) {
		for (size_t k = 0; k < ranks->rank[i].streams; k++)
			free((void *)ranks->rank[i].stream[k].sequence.collective);
		free(ranks->rank[i].stream);
	}
	free(ranks->rank);
	free(ranks->clock);
	free(ranks->tie);
	arena_clear(&ranks->arena);
}

size_t ranks_find(const struct ranks *ranks, const char *host, const char *boot, int64_t process)
{
	for (size_t i = 0; i < ranks->count; i++) {
		const struct rank *rank = &ranks->rank[i];

		if (rank->process == process && strcmp(rank->host, host) == 0 &&
		    strcmp(rank->boot, boot) == 0)
			return i;
	}
	return SIZE_MAX;
}

static struct timeline_clock *find_clock(const struct ranks *ranks, const char *host,
					 const char *boot)
{
	for (size_t i = 0; i < ranks->clocks; i++) {
		struct timeline_clock *clock = &ranks->clock[i];

		if (strcmp(clock->host, host) == 0 && strcmp(clock->boot, boot) == 0)
			return clock;
	}
	return NULL;
}

static int add_clock(struct ranks *ranks, struct rank *rank, int64_t wall_offset_ns)
{
	struct timeline_clock *clock = find_clock(ranks, rank->host, rank->boot);

	if (!clock) {
		if (VECTOR_ROOM(ranks->clock, ranks->clock_room, ranks->clocks + 1) < 0)
			return no_memory();
		clock = &ranks->clock[ranks->clocks++];
		*clock = (struct timeline_clock){ .host = rank->host,
						  .boot = rank->boot,
						  .offset_ns = wall_offset_ns,
						  .drift_bound_ppb = DRIFT_PPB,
						  .error_ns = TIMELINE_UNKNOWN };
	}
	rank->clock = (size_t)(clock - ranks->clock);
	return 0;
}

static int take_process(struct ranks *ranks, char **cell)
{
	struct rank rank = {
		.host = keep(ranks, cell[0]),
		.boot = keep(ranks, cell[1]),
		.process = number(cell[2]),
		.pid = (uint32_t)number(cell[3]),
		.rank = (int32_t)number(cell[4]),
		.comm = keep(ranks, cell[5]),
	};

	if (!rank.host || !rank.boot || !rank.comm ||
	    VECTOR_ROOM(ranks->rank, ranks->room, ranks->count + 1) < 0)
		return no_memory();
	ranks->rank[ranks->count++] = rank;
	return add_clock(ranks, &ranks->rank[ranks->count - 1],
			 timeline_number(cell[6], 0, TIMELINE_OFFSET_MAX));
}

int ranks_explain_none(void)
{
	complain("There are no operations in this window: 'tsctl ship window --since 30s' on the "
		 "hosts sends them");
	return -ENODATA;
}

static int explain_none(struct server *server, const struct fill *fills)
{
	struct tsv answer;
	int r = statement_ask(server, "export-known", fills, &answer);

	if (r == 0)
		r = statement_row(server, &answer, 1);
	if (r < 0)
		return r;
	if (r > 0 && number(answer.cell[0]))
		return ranks_explain_none();
	complain("No such process is known there: 'tsctl fleet query jobs' lists the jobs");
	return -ENODATA;
}

static int load_processes(struct ranks *ranks, struct server *server, const struct fill *fills)
{
	struct tsv answer;
	int r = statement_ask(server, "export-processes", fills, &answer);

	while (r >= 0 && (r = statement_row(server, &answer, 7)) == 1) {
		if (ranks->count == LIMIT_FLEET_RANKS) {
			complain("More than %d processes: ask for fewer with --host or --rank",
				 LIMIT_FLEET_RANKS);
			return -E2BIG;
		}
		r = take_process(ranks, answer.cell);
	}
	return r == 0 && !ranks->count ? explain_none(server, fills) : r;
}

/* Of several rows the one counts that bounds best in the middle of the window. */
static int take_row(struct ranks *ranks, char **cell, int64_t middle_ns)
{
	struct timeline_clock *clock = find_clock(ranks, cell[0], cell[1]);
	struct timeline_clock row = {
		.at_ns = monotonic(cell[3]),
		.offset_ns = timeline_number(cell[4], 0, TIMELINE_OFFSET_MAX),
		.drift_ppb = timeline_number(cell[5], -TIMELINE_DRIFT_MAX, TIMELINE_DRIFT_MAX),
		.bound_ns = timeline_number(cell[6], 0, TIMELINE_OFFSET_MAX),
		.drift_bound_ppb = timeline_number(cell[7], 0, TIMELINE_DRIFT_MAX),
		.error_ns = TIMELINE_UNKNOWN,
	};
	int64_t at_ns = timeline_back(&row, middle_ns);

	if (!clock || (clock->server && timeline_bound(clock, timeline_back(clock, middle_ns)) <=
						timeline_bound(&row, at_ns)))
		return 0;
	row.host = clock->host;
	row.boot = clock->boot;
	row.server = clock->server && strcmp(clock->server, cell[2]) == 0 ? clock->server
									  : keep(ranks, cell[2]);
	*clock = row;
	return row.server ? 0 : no_memory();
}

static int load_clocks(struct ranks *ranks, struct server *server, const struct asked *asked,
		       const struct fill *fills)
{
	int64_t middle_ns = (asked->since_s + asked->until_s) / 2 * (int64_t)NS_PER_S;
	struct tsv answer;
	int r = statement_ask(server, "export-clocks", fills, &answer);

	while (r >= 0 && (r = statement_row(server, &answer, 8)) == 1)
		r = take_row(ranks, answer.cell, middle_ns);
	for (size_t i = 0; i < ranks->count; i++) {
		struct rank *rank = &ranks->rank[i];
		const struct timeline_clock *clock = &ranks->clock[rank->clock];

		rank->from_ns = timeline_back(clock, asked->since_s * (int64_t)NS_PER_S);
		rank->to_ns = timeline_back(clock, asked->until_s * (int64_t)NS_PER_S);
		if (rank->from_ns < 0)
			rank->from_ns = 0;
		if (rank->to_ns < 0)
			rank->to_ns = 0;
	}
	return r;
}

void ranks_fills(const struct rank *rank, const struct asked *asked, struct ranks_fills *ret)
{
	struct fill *fill = ret->fill;

	snprintf(ret->process, sizeof(ret->process), "%" PRId64, rank->process);
	snprintf(ret->from, sizeof(ret->from), "%" PRId64, rank->from_ns);
	snprintf(ret->to, sizeof(ret->to), "%" PRId64, rank->to_ns);
	*fill++ = (struct fill){ "host", rank->host, true };
	*fill++ = (struct fill){ "boot", rank->boot, true };
	*fill++ = (struct fill){ "process", ret->process, false };
	*fill++ = (struct fill){ "from", ret->from, false };
	*fill++ = (struct fill){ "to", ret->to, false };
	asked_fills(asked, fill);
}

static struct rank_stream *stream_of(struct rank *rank, int64_t stream)
{
	struct rank_stream *last = rank->streams ? &rank->stream[rank->streams - 1] : NULL;

	if (last && last->stream == stream)
		return last;
	if (VECTOR_ROOM(rank->stream, rank->room, rank->streams + 1) < 0)
		return NULL;
	last = &rank->stream[rank->streams++];
	*last = (struct rank_stream){ .stream = stream };
	return last;
}

static int take_collective(struct ranks *ranks, struct rank *rank, size_t *room, char **cell)
{
	const struct timeline_clock *clock = &ranks->clock[rank->clock];
	size_t before = rank->streams;
	struct rank_stream *stream = stream_of(rank, number(cell[0]));
	struct align_collective *list, one = {
		.name = cell[1] ? strtoull(cell[1], NULL, 10) : 0,
		.start_ns = timeline_of(clock, monotonic(cell[2])),
		.end_ns = timeline_of(clock, monotonic(cell[3])),
	};

	if (!stream)
		return no_memory();
	if (rank->streams != before)
		*room = 0;
	list = (struct align_collective *)stream->sequence.collective;
	if (VECTOR_ROOM(list, *room, stream->sequence.count + 1) < 0)
		return no_memory();
	list[stream->sequence.count++] = one;
	stream->sequence.collective = list;
	return 0;
}

static int load_collectives(struct ranks *ranks, struct server *server, const struct asked *asked)
{
	struct ranks_fills fills;
	struct tsv answer;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ranks->count; i++) {
		size_t room = 0;

		ranks_fills(&ranks->rank[i], asked, &fills);
		r = statement_ask(server, "export-collectives", fills.fill, &answer);
		while (r >= 0 && (r = statement_row(server, &answer, 4)) == 1)
			r = take_collective(ranks, &ranks->rank[i], &room, answer.cell);
	}
	return r;
}

/* The first one whose clock is known and that has collectives; of those without a clock the
 * first. */
static size_t choose_reference(const struct ranks *ranks)
{
	for (size_t i = 0; i < ranks->count; i++) {
		const struct rank *rank = &ranks->rank[i];

		for (size_t k = 0; ranks->clock[rank->clock].server && k < rank->streams; k++)
			if (rank->stream[k].sequence.count >= ALIGN_FEWEST)
				return i;
	}
	for (size_t i = 0; i < ranks->count; i++)
		if (ranks->clock[ranks->rank[i].clock].server)
			return i;
	return 0;
}

/* What the server's clock says, for all of the window. */
static struct align_offset of_server(const struct ranks *ranks, const struct rank *rank)
{
	const struct rank *reference = &ranks->rank[ranks->reference];
	const struct timeline_clock *one = &ranks->clock[reference->clock];
	const struct timeline_clock *other = &ranks->clock[rank->clock];
	int64_t one_ns, other_ns;

	if (one == other)
		return (struct align_offset){ 0 };
	if (!one->server || !other->server || strcmp(one->server, other->server) != 0)
		return (struct align_offset){ .low_ns = -FOREVER_NS, .high_ns = FOREVER_NS };
	one_ns = timeline_bound(one, reference->from_ns);
	if (timeline_bound(one, reference->to_ns) > one_ns)
		one_ns = timeline_bound(one, reference->to_ns);
	other_ns = timeline_bound(other, rank->from_ns);
	if (timeline_bound(other, rank->to_ns) > other_ns)
		other_ns = timeline_bound(other, rank->to_ns);
	return (struct align_offset){ .low_ns = -one_ns - other_ns, .high_ns = one_ns + other_ns };
}

static int add_tie(struct ranks *ranks, const struct rank_tie *tie)
{
	if (VECTOR_ROOM(ranks->tie, ranks->tie_room, ranks->ties + 1) < 0)
		return no_memory();
	ranks->tie[ranks->ties++] = *tie;
	return 0;
}

static int tie_rank(struct ranks *ranks, size_t number, struct align_offset *known)
{
	struct rank *reference = &ranks->rank[ranks->reference], *rank = &ranks->rank[number];
	struct timeline_clock *clock = &ranks->clock[rank->clock];
	int64_t drift_ppb = clock->drift_bound_ppb + ranks->clock[reference->clock].drift_bound_ppb;

	if (rank->clock == reference->clock)
		drift_ppb = 0;
	for (size_t of = 0; of < reference->streams; of++) {
		for (size_t i = 0; i < rank->streams; i++) {
			struct rank_tie tie = { .rank = number, .stream = i, .of = of };
			int r = align_sequences(&reference->stream[of].sequence,
						&rank->stream[i].sequence, drift_ppb, known,
						&tie.shift);

			if (r == ALIGN_FOUND)
				r = add_tie(ranks, &tie);
			if (r < 0)
				return r == -ENOMEM ? r : no_memory();
			clock->tied |= r == ALIGN_FOUND;
		}
	}
	return 0;
}

static void settle(struct timeline_clock *clock, const struct align_offset *known)
{
	int64_t middle_ns = clock->tied ? known->median_ns : 0;
	int64_t below_ns = middle_ns - known->low_ns, above_ns = known->high_ns - middle_ns;

	clock->error_ns = below_ns > above_ns ? below_ns : above_ns;
	if (clock->error_ns >= FOREVER_NS / 2)
		clock->error_ns = TIMELINE_UNKNOWN;
	clock->shift_ns = -middle_ns;
}

/* Clock by clock: all ranks of a host say something of one. */
static int align(struct ranks *ranks)
{
	size_t reference;
	int r = 0;

	ranks->reference = choose_reference(ranks);
	reference = ranks->rank[ranks->reference].clock;
	for (size_t i = 0; i < ranks->rank[ranks->reference].streams; i++) {
		struct rank_stream *stream = &ranks->rank[ranks->reference].stream[i];

		stream->first = ranks->collectives + 1;
		ranks->collectives += stream->sequence.count;
	}
	for (size_t c = 0; r == 0 && c < ranks->clocks; c++) {
		struct align_offset known = { 0 };
		bool any = false;

		for (size_t i = 0; r == 0 && i < ranks->count; i++) {
			if (ranks->rank[i].clock != c)
				continue;
			if (!any)
				known = of_server(ranks, &ranks->rank[i]);
			any = true;
			if (i != ranks->reference)
				r = tie_rank(ranks, i, &known);
		}
		if (c == reference)
			ranks->clock[c].error_ns = 0;
		else if (any)
			settle(&ranks->clock[c], &known);
	}
	return r;
}

int ranks_load(struct ranks *ranks, struct server *server, const struct asked *asked)
{
	struct fill fills[ASKED_FILLS_MAX];
	int r;

	asked_fills(asked, fills);
	r = load_processes(ranks, server, fills);
	if (r == 0)
		r = load_clocks(ranks, server, asked, fills);
	if (r == 0)
		r = load_collectives(ranks, server, asked);
	return r < 0 ? r : align(ranks);
}
