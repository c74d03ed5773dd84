/* Fleet export: the operations of many processes as one Perfetto trace. Each process's are asked
 * for on their own, so that memory does not grow with their number; which collectives belong
 * together, and how far clocks are apart, is found before. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/export/export.h"
#include "client/fleet/fleet.h"
#include "client/fleet/op_row.h"
#include "client/fleet/ranks.h"
#include "client/fleet/state.h"
#include "client/fleet/statement.h"
#include "client/output/outfile.h"
#include "core/base/array.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/limits.h"

#define WINDOW_NS   (600 * (uint64_t)NS_PER_S)
#define SLACK_S	    3600 /* by which a host's own wall clock may be wrong */
#define BATCH_OPS   4096
#define LABEL_BYTES 256
#define TIE_FLOWS   (1ull << 63) /* above those of calls */
#define LOSSES_MAX  8		 /* reasons to name */

struct fleet_export {
	struct server *server;
	struct asked asked;
	struct ranks ranks;
	struct meta *meta;
	struct op_row row;
	struct outfile *file;
	struct export_run *run;
	int64_t base_ns; /* of the trace, on the timeline */
	struct op op[BATCH_OPS];
	uint64_t ops, unknown, cut;
	struct {
		const char *reason;
		uint64_t count;
	} loss[LOSSES_MAX];
};

static void export_done(struct fleet_export *x)
{
	export_free(x->run);
	op_row_done(&x->row);
	meta_free(x->meta);
	outfile_free(x->file);
	ranks_done(&x->ranks);
	asked_done(&x->asked);
	server_free(x->server);
}

static int no_memory(void)
{
	complain_memory();
	return -ENOMEM;
}

static const struct timeline_clock *clock_of(const struct fleet_export *x, const struct rank *rank)
{
	return &x->ranks.clock[rank->clock];
}

/* "±31 µs", of the clock against the reference. */
static void write_error(const struct timeline_clock *clock, char ret[LABEL_BYTES])
{
	char text[UNITS_TEXT_SIZE];

	if (clock->error_ns == TIMELINE_UNKNOWN)
		snprintf(ret, LABEL_BYTES, "clock unknown");
	else
		snprintf(ret, LABEL_BYTES, "clock ±%s", units_nanoseconds(text, clock->error_ns));
}

static int add_process(struct fleet_export *x, size_t number)
{
	const struct rank *rank = &x->ranks.rank[number];
	char label[2 * LABEL_BYTES], error[LABEL_BYTES], who[LABEL_BYTES / 2];

	write_error(clock_of(x, rank), error);
	if (rank->rank >= 0)
		snprintf(who, sizeof(who), "rank %" PRId32, rank->rank);
	else
		snprintf(who, sizeof(who), "%s", rank->comm);
	snprintf(label, sizeof(label), "%s on %s, pid %" PRIu32 ", %s", who, rank->host, rank->pid,
		 error);
	/* Hosts have the same pids; here they are those of the trace. */
	return meta_add_process(x->meta, (uint32_t)number + 1, (uint32_t)number + 1, label, NULL);
}

static int load_devices(struct fleet_export *x, const struct fill *fills)
{
	struct tsv answer;
	int r = statement_ask(x->server, "export-devices", fills, &answer);

	while (r >= 0 && (r = statement_row(x->server, &answer, 5)) == 1) {
		char **cell = answer.cell;
		size_t rank = ranks_find(&x->ranks, cell[0], cell[1], strtoll(cell[2], NULL, 10));

		if (rank != SIZE_MAX &&
		    meta_add_device(x->meta, (uint32_t)rank + 1, (int16_t)strtol(cell[3], NULL, 10),
				    cell[4]) < 0)
			return no_memory();
	}
	return r;
}

static int load_names(struct fleet_export *x, const struct fill *fills)
{
	struct tsv answer;
	int r = statement_ask(x->server, "export-names", fills, &answer);

	while (r >= 0 && (r = statement_row(x->server, &answer, 2)) == 1)
		if (meta_add_name(x->meta, strtoull(answer.cell[0], NULL, 10), answer.cell[1]) < 0)
			return no_memory();
	return r;
}

static uint32_t count_loss(struct fleet_export *x, const char *reason, uint64_t count)
{
	uint32_t i = 0;

	while (i < LOSSES_MAX - 1 && x->loss[i].reason && strcmp(x->loss[i].reason, reason) != 0)
		i++;
	if (!x->loss[i].reason)
		x->loss[i].reason = arena_text(&x->ranks.arena, reason, strlen(reason));
	x->loss[i].count += count;
	return i;
}

/* Of a process that is shown, or of its host as a whole. */
static int add_loss(struct fleet_export *x, char **cell)
{
	int64_t process = strtoll(cell[2], NULL, 10);
	size_t rank = ranks_find(&x->ranks, cell[0], cell[1], process);
	const struct timeline_clock *clock = NULL;
	struct meta_loss loss = { .count = strtoull(cell[4], NULL, 10) };
	int64_t start_ns = timeline_number(cell[5], 0, TIMELINE_MONOTONIC_MAX);
	int64_t end_ns = timeline_number(cell[6], 0, TIMELINE_MONOTONIC_MAX);
	char name[LABEL_BYTES];

	for (size_t i = 0; process == 0 && i < x->ranks.clocks; i++)
		if (strcmp(x->ranks.clock[i].host, cell[0]) == 0 &&
		    strcmp(x->ranks.clock[i].boot, cell[1]) == 0)
			clock = &x->ranks.clock[i];
	if (rank != SIZE_MAX)
		clock = clock_of(x, &x->ranks.rank[rank]);
	if (!clock || timeline_of(clock, end_ns) < x->asked.since_s * (int64_t)NS_PER_S ||
	    timeline_of(clock, start_ns) > x->asked.until_s * (int64_t)NS_PER_S)
		return 0;
	loss.start_ns = op_row_time(clock, x->base_ns, start_ns);
	loss.end_ns = op_row_time(clock, x->base_ns, end_ns);
	loss.process = rank == SIZE_MAX ? 0 : (uint32_t)rank + 1;
	loss.reason = count_loss(x, cell[3], loss.count) + 1;
	snprintf(name, sizeof(name), "%s: %s", cell[0], cell[3]);
	return meta_add_loss(x->meta, &loss, loss.process ? cell[3] : name);
}

static int load_losses(struct fleet_export *x, const struct fill *fills)
{
	struct tsv answer;
	int r = statement_ask(x->server, "export-losses", fills, &answer);

	while (r >= 0 && (r = statement_row(x->server, &answer, 7)) == 1)
		if (add_loss(x, answer.cell) < 0)
			return no_memory();
	return r;
}

static int tie(struct fleet_export *x, size_t number, const struct rank_stream *stream, size_t i,
	       uint64_t flow)
{
	const struct rank *rank = &x->ranks.rank[number];
	const struct align_collective *one = &stream->sequence.collective[i];
	uint32_t process = (uint32_t)number + 1;
	uint32_t id = op_row_stream(&x->row, process, stream->stream);
	/* It was put on the timeline before its clock was shifted. */
	int64_t start_ns = one->start_ns + clock_of(x, rank)->shift_ns - x->base_ns;

	if (!id || meta_add_tie(x->meta, process, id, (uint64_t)start_ns, flow) < 0)
		return no_memory();
	return 0;
}

/* Each collective of the reference is a flow through all ranks that ran it. */
static int add_ties(struct fleet_export *x)
{
	struct ranks *ranks = &x->ranks;
	int r = 0;

	for (size_t t = 0; t < ranks->ties; t++) {
		const struct rank_tie *of = &ranks->tie[t];
		const struct rank_stream *one = &ranks->rank[ranks->reference].stream[of->of];
		const struct rank_stream *other = &ranks->rank[of->rank].stream[of->stream];

		for (size_t i = 0; r == 0 && i < one->sequence.count; i++) {
			int64_t k = (int64_t)i + of->shift;
			uint64_t flow = TIE_FLOWS + one->first + i;

			if (k < 0 || k >= (int64_t)other->sequence.count)
				continue;
			r = tie(x, ranks->reference, one, i, flow);
			if (r == 0)
				r = tie(x, of->rank, other, (size_t)k, flow);
		}
	}
	return r;
}

static int load(struct fleet_export *x)
{
	struct ranks *ranks = &x->ranks;
	struct fill fills[ASKED_FILLS_MAX];
	const struct rank *reference;
	int r = ranks_load(ranks, x->server, &x->asked);

	if (r < 0)
		return r;
	if (meta_new(&x->meta) < 0)
		return no_memory();
	/* The trace's times are those of the reference's own clock when the window starts. */
	reference = &ranks->rank[ranks->reference];
	x->base_ns = timeline_of(clock_of(x, reference), reference->from_ns) - reference->from_ns;
	x->meta->wall_offset_ns = x->base_ns;
	x->row.meta = x->meta;
	for (size_t i = 0; i < ranks->count; i++)
		if (add_process(x, i) < 0)
			return no_memory();
	asked_fills(&x->asked, fills);
	r = load_devices(x, fills);
	if (r == 0)
		r = load_names(x, fills);
	if (r == 0)
		r = load_losses(x, fills);
	return r < 0 ? r : add_ties(x);
}

static int write_batch(struct fleet_export *x, size_t count)
{
	int r = export_ops(x->run, x->op, count);

	x->ops += count;
	if (r < 0 && outfile_error(x->file) == 0)
		complain("Cannot write the trace: %s", strerror(-r));
	return r;
}

static int write_rank(struct fleet_export *x, size_t number)
{
	const struct rank *rank = &x->ranks.rank[number];
	struct ranks_fills fills;
	struct tsv answer;
	size_t count = 0;
	uint64_t rows = 0;
	int r;

	ranks_fills(rank, &x->asked, &fills);
	r = statement_ask(x->server, "export-ops", fills.fill, &answer);
	while (r >= 0 && (r = statement_row(x->server, &answer, OP_ROW_COLUMNS)) == 1) {
		if (rows++ == LIMIT_QUERY_ROWS) {
			x->cut++;
			r = 0;
			break;
		}
		r = op_row_read(&x->row, (uint32_t)number + 1, clock_of(x, rank), x->base_ns,
				answer.cell, &x->op[count]);
		x->unknown += r > 0;
		count += r == 0;
		if (r < 0)
			return no_memory();
		if (count == BATCH_OPS) {
			r = write_batch(x, count);
			count = 0;
		}
	}
	return r == 0 && count ? write_batch(x, count) : r;
}

static int write_all(struct fleet_export *x)
{
	struct out_sink sink = outfile_sink(x->file);
	int r = export_new(&export_perfetto, x->meta, &sink, &x->run);

	if (r < 0)
		return no_memory();
	for (size_t i = 0; r == 0 && i < x->ranks.count; i++)
		r = write_rank(x, i);
	if (r == 0) {
		r = export_end(x->run);
		if (r < 0 && outfile_error(x->file) == 0)
			complain("Cannot write the trace: %s", strerror(-r));
	}
	return r;
}

/* What the reader cannot see in the file. */
static void show_clocks(const struct fleet_export *x)
{
	const struct ranks *ranks = &x->ranks;
	const struct rank *reference = &ranks->rank[ranks->reference];
	const struct timeline_clock *worst = NULL;
	char text[UNITS_TEXT_SIZE];
	size_t unknown = 0, tied = 0;

	for (size_t i = 0; i < ranks->clocks; i++) {
		const struct timeline_clock *clock = &ranks->clock[i];

		unknown += clock->error_ns == TIMELINE_UNKNOWN;
		tied += clock->tied && i != reference->clock;
		if (clock->error_ns != TIMELINE_UNKNOWN &&
		    (!worst || clock->error_ns > worst->error_ns))
			worst = clock;
	}
	if (worst && worst->error_ns > 0)
		complain("The clocks of the other hosts are within %s of that of %s (%zu by "
			 "collectives, %zu by the server); the worst is that of %s",
			 units_nanoseconds(text, worst->error_ns), reference->host, tied,
			 ranks->clocks - 1 - unknown - tied, worst->host);
	if (unknown)
		complain("%zu of %zu clocks cannot be compared with that of %s: their times are "
			 "those of the hosts' own wall clocks, or of other servers'",
			 unknown, ranks->clocks, reference->host);
}

static void show_end(const struct fleet_export *x)
{
	char size[UNITS_TEXT_SIZE];
	uint64_t losses = 0;

	complain("%" PRIu64 " operations of %zu processes on %zu hosts, %s", x->ops, x->ranks.count,
		 x->ranks.clocks, units_bytes(size, (int64_t)outfile_size(x->file)));
	show_clocks(x);
	for (size_t i = 0; i < LOSSES_MAX && x->loss[i].reason; i++)
		losses += x->loss[i].count;
	if (losses)
		complain("Missing there: %" PRIu64 " (%s%s)", losses, x->loss[0].reason,
			 x->loss[1].reason ? " and others" : "");
	if (x->cut)
		complain("%" PRIu64 " processes have more than %d operations, of which the rest is "
			 "left out: ask for less",
			 x->cut, LIMIT_QUERY_ROWS);
	if (x->unknown)
		complain("%" PRIu64 " operations are of kinds that this tsctl does not know: take "
			 "a newer one",
			 x->unknown);
}

static int check(const struct options *options)
{
	if (!(options->given & OPTION(PERFETTO)) || !options->output) {
		complain("Give --perfetto and -o FILE");
		return -EINVAL;
	}
	if (strcmp(options->output, "-") == 0 && isatty(STDOUT_FILENO)) {
		complain("This format is binary: give -o FILE, or redirect it to a file or a pipe");
		return -EINVAL;
	}
	return 0;
}

static int run(struct fleet_export *x, const struct options *options)
{
	int r;

	if (x->server->number >= STATE_MODERN)
		x->server->settings = STATE_SELECT_SETTINGS;
	r = load(x);
	if (r < 0)
		return r;
	r = outfile_open(options->output, &x->file);
	if (r == 0)
		r = write_all(x);
	if (r == 0 && !x->ops)
		r = ranks_explain_none();
	if (r == 0)
		r = outfile_commit(x->file);
	if (r < 0 && x->file && outfile_error(x->file) != 0)
		complain("Cannot write '%s': %s", options->output,
			 strerror(-outfile_error(x->file)));
	if (r == 0)
		show_end(x);
	return r;
}

int fleet_export(const struct options *options)
{
	_cleanup_(freep) struct fleet_export *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return complain_memory();
	if (check(options) < 0)
		return EXIT_USAGE;
	r = asked_set(&x->asked, options, WINDOW_NS, SLACK_S, LIMIT_QUERY_ROWS + 1);
	if (r == 0)
		r = state_open(options, &x->server);
	if (r == -EINVAL) {
		export_done(x);
		return EXIT_USAGE;
	}
	if (r == 0)
		r = run(x, options);
	export_done(x);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
