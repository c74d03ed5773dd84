/* Diff show: one list of columns; each section shows those that apply to it. */
#include "client/diff/show.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/table.h"
#include "core/base/array.h"
#include "core/model/loss_said.h"

#define TEXT_ROWS  12 /* per section, without --limit */
#define LOSSES_MAX 64 /* more than there are reasons */

#define S(id)	   (1u << DIFF_##id)
#define ALL	   ((1u << DIFF_SECTION_COUNT) - 1)
#define TIMED	   (S(KERNELS) | S(TRANSFERS) | S(RANGES))
#define JUDGED	   (TIMED | S(TIME) | S(WALL) | S(MEMORY))
#define COUNTED	   (TIMED | S(APIS))
#define FORM_TEXT  1
#define FORM_FLAT  2 /* JSON and CSV */
#define FORM_BOTH  (FORM_TEXT | FORM_FLAT)

enum type { UNIT, COUNT, SHARE, RATE, BYTES, TEXT }; /* UNIT: the section's */

/* A number, a text, or neither. */
struct cell {
	bool known;
	int64_t number;
	const char *text;
};

typedef struct cell cell_fn(const struct diff *diff, const struct diff_row *row, int side);

static struct cell number(double value)
{
	if (!(fabs(value) < 9e18)) /* nor NAN */
		return (struct cell){ 0 };
	return (struct cell){ true, (int64_t)(value < 0 ? value - 0.5 : value + 0.5), NULL };
}

static struct cell number_if(bool known, double value)
{
	return known ? number(value) : (struct cell){ 0 };
}

static struct cell cell_section(const struct diff *diff, const struct diff_row *row, int side)
{
	return (struct cell){ true, 0, diff_section_name(row->section) };
}

static struct cell cell_name(const struct diff *diff, const struct diff_row *row, int side)
{
	return (struct cell){ true, 0, row->name };
}

static struct cell cell_unit(const struct diff *diff, const struct diff_row *row, int side)
{
	static const char *const units[] = {
		[DIFF_NS] = "ns",
		[DIFF_BYTES] = "bytes",
		[DIFF_CALLS] = "calls",
	};

	return (struct cell){ true, 0, units[diff_section_unit(row->section)] };
}

static struct cell cell_compared(const struct diff *diff, const struct diff_row *row, int side)
{
	return (struct cell){ true, 0, diff_by_call(diff, row) ? "calls" : "totals" };
}

static struct cell cell_verdict(const struct diff *diff, const struct diff_row *row, int side)
{
	return (struct cell){ row->verdict != DIFF_NONE, 0, diff_verdict_name(row->verdict) };
}

static struct cell cell_difference(const struct diff *diff, const struct diff_row *row, int side)
{
	return number(row->difference);
}

static struct cell cell_change(const struct diff *diff, const struct diff_row *row, int side)
{
	return number(row->change * DIFF_PPM);
}

static struct cell cell_low(const struct diff *diff, const struct diff_row *row, int side)
{
	return number_if(row->confidence > 0, row->low * DIFF_PPM);
}

static struct cell cell_high(const struct diff *diff, const struct diff_row *row, int side)
{
	return number_if(row->confidence > 0, row->high * DIFF_PPM);
}

static struct cell cell_confidence(const struct diff *diff, const struct diff_row *row, int side)
{
	return number_if(row->confidence > 0, row->confidence * DIFF_PPM);
}

static struct cell cell_count(const struct diff *diff, const struct diff_row *row, int side)
{
	return number((double)row->side[side].count);
}

static struct cell cell_total(const struct diff *diff, const struct diff_row *row, int side)
{
	return number_if(row->side[side].count > 0, (double)row->side[side].total);
}

static struct cell cell_mean(const struct diff *diff, const struct diff_row *row, int side)
{
	const struct diff_side *of = &row->side[side];

	return number_if(of->count > 0, (double)of->total / (double)of->count);
}

static struct cell cell_p50(const struct diff *diff, const struct diff_row *row, int side)
{
	return number_if(row->side[side].p50 > 0, (double)row->side[side].p50);
}

static struct cell cell_bytes(const struct diff *diff, const struct diff_row *row, int side)
{
	return number_if(row->section != DIFF_LOST && row->side[side].bytes > 0,
			 (double)row->side[side].bytes);
}

static struct cell cell_rate(const struct diff *diff, const struct diff_row *row, int side)
{
	const struct diff_side *of = &row->side[side];

	return number_if(of->bytes > 0 && of->total > 0,
			 (double)of->bytes * 1e9 / (double)of->total);
}

/* B's value scaled to the work of A, if the recordings differ in length. */
static struct cell cell_expected(const struct diff *diff, const struct diff_row *row, int side)
{
	return number_if(row->side[0].count > 0, row->expected);
}

static const struct {
	const char *name;
	enum type type;
	int side;
	uint32_t sections, forms;
	cell_fn *cell;
} columns[] = {
	{ "section", TEXT, 0, ALL, FORM_FLAT, cell_section },
	{ "unit", TEXT, 0, ALL, FORM_FLAT, cell_unit },
	{ "compared", TEXT, 0, ALL, FORM_FLAT, cell_compared },
	{ "difference", UNIT, 0, ALL, FORM_BOTH, cell_difference },
	{ "change", SHARE, 0, ALL, FORM_BOTH, cell_change },
	{ "low", SHARE, 0, JUDGED, FORM_BOTH, cell_low },
	{ "high", SHARE, 0, JUDGED, FORM_BOTH, cell_high },
	{ "confidence", SHARE, 0, JUDGED, FORM_FLAT, cell_confidence },
	{ "a", UNIT, 0, ALL, FORM_BOTH, cell_total },
	{ "b", UNIT, 1, ALL, FORM_BOTH, cell_total },
	{ "expected", UNIT, 0, ALL, FORM_FLAT, cell_expected },
	{ "a_count", COUNT, 0, COUNTED, FORM_BOTH, cell_count },
	{ "b_count", COUNT, 1, COUNTED, FORM_BOTH, cell_count },
	{ "a_mean", UNIT, 0, COUNTED, FORM_BOTH, cell_mean },
	{ "b_mean", UNIT, 1, COUNTED, FORM_BOTH, cell_mean },
	{ "a_p50", UNIT, 0, TIMED, FORM_BOTH, cell_p50 },
	{ "b_p50", UNIT, 1, TIMED, FORM_BOTH, cell_p50 },
	{ "a_bytes", BYTES, 0, S(TRANSFERS), FORM_BOTH, cell_bytes },
	{ "b_bytes", BYTES, 1, S(TRANSFERS), FORM_BOTH, cell_bytes },
	{ "a_rate", RATE, 0, S(TRANSFERS), FORM_BOTH, cell_rate },
	{ "b_rate", RATE, 1, S(TRANSFERS), FORM_BOTH, cell_rate },
	{ "verdict", TEXT, 0, JUDGED, FORM_BOTH, cell_verdict },
	{ "name", TEXT, 0, ALL, FORM_BOTH, cell_name },
};

#define COLUMN_COUNT ARRAY_SIZE(columns)

static Tracesmith__V1__Columns__Type type_of(enum type type, enum diff_unit unit)
{
	static const Tracesmith__V1__Columns__Type units[] = {
		[DIFF_NS] = TRACESMITH__V1__COLUMNS__TYPE__NANOSECONDS,
		[DIFF_BYTES] = TRACESMITH__V1__COLUMNS__TYPE__BYTES,
		[DIFF_CALLS] = TRACESMITH__V1__COLUMNS__TYPE__INTEGER,
	};
	static const Tracesmith__V1__Columns__Type types[] = {
		[COUNT] = TRACESMITH__V1__COLUMNS__TYPE__INTEGER,
		[SHARE] = TRACESMITH__V1__COLUMNS__TYPE__SHARE,
		[RATE] = TRACESMITH__V1__COLUMNS__TYPE__BYTES_PER_SECOND,
		[BYTES] = TRACESMITH__V1__COLUMNS__TYPE__BYTES,
		[TEXT] = TRACESMITH__V1__COLUMNS__TYPE__TEXT,
	};

	return type == UNIT ? units[unit] : types[type];
}

/* A table of the rows of some sections, in one form. */
struct sheet {
	struct table table;
	uint32_t sections, form;
};

static bool is_shown(const struct sheet *sheet, size_t i)
{
	return columns[i].sections & sheet->sections && columns[i].forms & sheet->form;
}

static int begin(struct sheet *sheet, enum diff_unit unit)
{
	Tracesmith__V1__Columns__Column column[COLUMN_COUNT], *list[COLUMN_COUNT];
	Tracesmith__V1__Columns all = TRACESMITH__V1__COLUMNS__INIT;

	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		if (!is_shown(sheet, i))
			continue;
		tracesmith__v1__columns__column__init(&column[i]);
		column[i].name = (char *)columns[i].name;
		column[i].type = type_of(columns[i].type, unit);
		list[all.n_column++] = &column[i];
	}
	all.column = list;
	return table_columns(&sheet->table, &all);
}

static int write_row(struct sheet *sheet, const struct diff *diff, const struct diff_row *row)
{
	Tracesmith__V1__Value value[COLUMN_COUNT], *list[COLUMN_COUNT];
	Tracesmith__V1__Row out = TRACESMITH__V1__ROW__INIT;

	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		struct cell cell = { 0 };

		if (!is_shown(sheet, i))
			continue;
		if (columns[i].sections & 1u << row->section)
			cell = columns[i].cell(diff, row, columns[i].side);
		tracesmith__v1__value__init(&value[i]);
		list[out.n_value++] = &value[i];
		if (!cell.known)
			continue;
		value[i].value_case = columns[i].type == TEXT
					      ? TRACESMITH__V1__VALUE__VALUE_TEXT
					      : TRACESMITH__V1__VALUE__VALUE_INTEGER;
		if (columns[i].type == TEXT)
			value[i].text = (char *)cell.text;
		else
			value[i].integer = cell.number;
	}
	out.value = list;
	return table_row(&sheet->table, &out);
}

static int write_rows(struct sheet *sheet, const struct diff *diff, uint64_t limit)
{
	uint64_t shown[DIFF_SECTION_COUNT] = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < diff->count; i++)
		if (sheet->sections & 1u << diff->row[i].section &&
		    shown[diff->row[i].section]++ < limit)
			r = write_row(sheet, diff, &diff->row[i]);
	return r;
}

/* As in other answers, for both sides together; the rows tell them apart. `said` is to be freed. */
static int list_losses(const struct diff *diff, Tracesmith__V1__Loss *loss,
		       Tracesmith__V1__Done *done)
{
	struct loss_time time;
	char *said;
	int r = 0;

	for (size_t i = 0; r == 0 && i < diff->count && done->n_loss < LOSSES_MAX; i++) {
		const struct diff_row *row = &diff->row[i];

		if (row->section != DIFF_LOST)
			continue;
		tracesmith__v1__loss__init(loss);
		loss->reason = (char *)row->name;
		loss->text = (char *)"in A and B";
		loss->count = row->side[0].total + row->side[1].total;
		time = (struct loss_time){ .reason = loss_reason_of(row->name),
					   .time_ns = row->side[0].bytes + row->side[1].bytes };
		r = loss_said(&time, &said);
		if (said)
			loss->said = said;
		loss->noun = (char *)loss_noun(time.reason);
		done->loss[done->n_loss++] = loss++;
	}
	return r;
}

static int write_sheet(const struct options *options, const struct diff *diff, uint32_t sections,
		       uint32_t form, uint64_t limit)
{
	Tracesmith__V1__Loss loss[LOSSES_MAX], *list[LOSSES_MAX];
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	struct sheet sheet = { .sections = sections, .form = form };
	int r;

	table_init(&sheet.table, options, "diff", 0);
	sheet.table.whole = true;
	r = begin(&sheet, form == FORM_TEXT
				  ? diff_section_unit((enum diff_section)__builtin_ctz(sections))
				  : DIFF_CALLS);
	if (r == 0)
		r = write_rows(&sheet, diff, limit);
	done.loss = list;
	if (r == 0 && form == FORM_FLAT)
		r = list_losses(diff, loss, &done);
	if (r == 0)
		r = table_end(&sheet.table, &done);
	table_done(&sheet.table);
	for (size_t i = 0; i < done.n_loss; i++)
		if (loss[i].said[0])
			free(loss[i].said);
	return r;
}

static void write_side(const struct diff_paths *side, char name)
{
	if (side->count == 1)
		printf("%c is %s", name, side->path[0]);
	else
		printf("%c is the median of %d recordings, %s to %s", name, side->count,
		       side->path[0], side->path[side->count - 1]);
}

/* Explains the intervals, if there are any. */
static void write_intervals(const struct diff *diff, const struct diff_paths side[2])
{
	bool any = false;

	for (size_t i = 0; i < diff->count; i++)
		any |= diff->row[i].confidence > 0;
	if (!any)
		return;
	if (side[0].count == 1 && side[1].count == 1)
		printf("low and high enclose the change, judging by the parts of each recording. "
		       "To cover what\nvaries from run to run, give several: 'tsctl diff A... -- "
		       "B...'.\n");
	else
		printf("low and high enclose the change, judging by how the recordings of a side "
		       "differ.\n");
}

/* Comes first, since it explains the columns. */
static void write_head(const struct diff *diff, const struct diff_paths side[2])
{
	write_side(&side[0], 'A');
	printf(", ");
	write_side(&side[1], 'B');
	printf(".\n");
	if (!diff->common || !diff->gpu[0] != !diff->gpu[1])
		printf("Nothing shows how much work each did: comparing totals.\n");
	else if (diff->alike)
		printf("Both did the same work: comparing totals.\n");
	else
		printf("B did %.3g times the work of A: comparing time per call; the difference is "
		       "the extra time of\nall calls. Rows without calls are compared with %.3g "
		       "times A's, and not judged.\n",
		       diff->ratio, diff->ratio);
	if (diff->gpu[0] == 0 && diff->gpu[1] == 0)
		printf("Neither has GPU times: these need the exact tier.\n");
	else if (diff->gpu[0] == 0 || diff->gpu[1] == 0)
		printf("%s has no GPU times.\n", side[diff->gpu[1] == 0].path[0]);
	write_intervals(diff, side);
}

static int write_text(const struct options *options, const struct diff *diff,
		      const struct diff_paths side[2])
{
	uint64_t limit = options->limit > 0 ? options->limit : TEXT_ROWS;
	size_t count[DIFF_SECTION_COUNT] = { 0 };
	int r = 0;

	for (size_t i = 0; i < diff->count; i++)
		count[diff->row[i].section]++;
	write_head(diff, side);
	for (int i = 0; r == 0 && i < DIFF_SECTION_COUNT; i++) {
		if (count[i] == 0)
			continue;
		printf("\n%s\n", diff_section_title(i));
		r = write_sheet(options, diff, 1u << i, FORM_TEXT, limit);
		if (count[i] > limit)
			printf("and %" PRIu64 " more (--limit)\n", count[i] - limit);
	}
	return r;
}

int diff_show(const struct options *options, const struct diff *diff,
	      const struct diff_paths side[2])
{
	uint64_t limit = options->limit > 0 ? options->limit : UINT64_MAX;
	int r;

	if (options->given & OPTIONS_TABLE)
		r = write_sheet(options, diff, ALL, FORM_FLAT, limit);
	else
		r = write_text(options, diff, side);
	if (r < 0)
		complain("Cannot write the comparison: %s", strerror(-r));
	return r;
}
