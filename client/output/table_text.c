/* Table as text for people: aligned columns, units, stacks below their row, losses at the end. The
 * first TABLE_ROWS_MEASURED rows wait until the widths are known; later rows are written at once.
 * Text from other processes is printed without control characters. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/output/loss.h"
#include "client/output/table.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "proto/event.h"

#define GAP	     2
#define SHRUNK_MIN   24 /* shorter text is meaningless */
#define PICKED_MIN   8	/* if --wide shows all of it */
#define FRAMES_SHOWN 24
#define FOLDED_MIN   2 /* frames that one line stands for */

struct text_row {
	size_t count;
	char *stack; /* lines below the row */
	char *cell[];
};

struct table_text {
	size_t *width;
	bool *left_out; /* columns */
	struct text_row **row;
	size_t row_count;
	bool measured;
};

static struct text_row *row_free(struct text_row *row)
{
	if (!row)
		return NULL;
	for (size_t i = 0; i < row->count; i++)
		free(row->cell[i]);
	free(row->stack);
	free(row);
	return NULL;
}
CLEANUP_DEFINE(struct text_row, row_free)

struct table_text *table_text_free(struct table_text *text)
{
	if (!text)
		return NULL;
	for (size_t i = 0; i < text->row_count; i++)
		row_free(text->row[i]);
	free(text->row);
	free(text->width);
	free(text->left_out);
	free(text);
	return NULL;
}

static char *visible(const char *text)
{
	size_t size = strlen(text);
	char *out = malloc(3 * size + 1);

	if (out)
		utf8_visible(out, text, size);
	return out;
}

void table_losses(FILE *out, const Tracesmith__V1__Done *done)
{
	fputs(done->n_loss ? "\n" : "\nnothing lost\n", out);
	loss_write(out, done);
}

/* Columns on the screen, counting each code point as one. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

static const char *format_integer(const struct table *table, int64_t value,
				  Tracesmith__V1__Columns__Type type, char *buffer)
{
	switch (type) {
	case TRACESMITH__V1__COLUMNS__TYPE__BYTES:
		return units_bytes(buffer, value);
	case TRACESMITH__V1__COLUMNS__TYPE__BYTES_PER_SECOND:
		return units_bytes_per_second(buffer, value);
	case TRACESMITH__V1__COLUMNS__TYPE__NANOSECONDS:
		return units_nanoseconds(buffer, value);
	case TRACESMITH__V1__COLUMNS__TYPE__TIME:
		return units_time(buffer, (int64_t)((uint64_t)value + table->wall_offset_ns));
	case TRACESMITH__V1__COLUMNS__TYPE__SHARE:
		snprintf(buffer, UNITS_TEXT_SIZE, "%.*f %%", llabs(value) < 100000 ? 2 : 1,
			 (double)value / 10000);
		return buffer;
	case TRACESMITH__V1__COLUMNS__TYPE__HANDLE:
		snprintf(buffer, UNITS_TEXT_SIZE, "0x%" PRIx64, value);
		return buffer;
	default:
		snprintf(buffer, UNITS_TEXT_SIZE, "%" PRId64, value);
		return buffer;
	}
}

char *table_cell(const struct table *table, const Tracesmith__V1__Value *value,
		 Tracesmith__V1__Columns__Type type)
{
	char buffer[UNITS_TEXT_SIZE];

	switch (value->value_case) {
	case TRACESMITH__V1__VALUE__VALUE_INTEGER:
		return strdup(format_integer(table, value->integer, type, buffer));
	case TRACESMITH__V1__VALUE__VALUE_REAL:
		snprintf(buffer, sizeof(buffer), "%.6g", value->real);
		return strdup(buffer);
	case TRACESMITH__V1__VALUE__VALUE__NOT_SET:
		return strdup("-");
	default:
		return visible(table_plain(buffer, value, type));
	}
}

/* Where a stack ends that does not lead to the outermost function. */
static void write_end(FILE *file, const Tracesmith__V1__Stack *stack)
{
	static const struct {
		const char *name, *text;
	} ends[] = {
#define X(number, identifier, name, text) [number] = { name, text },
		TS_STACK_ENDS(X)
#undef X
	};

	for (size_t i = TS_END_COMPLETE + 1; i < ARRAY_SIZE(ends); i++)
		if (strcmp(stack->end, ends[i].name) == 0)
			fprintf(file, "      (ends %s)\n", ends[i].text);
	if (stack->linked)
		fputs("      (some frames are known by their frame pointers only)\n", file);
}

/* With the line of native code, which the text of the frame does not have. */
static int write_frame(FILE *file, const Tracesmith__V1__Stack *stack, size_t i)
{
	const Tracesmith__V1__Frame *detail = i < stack->n_detail ? stack->detail[i] : NULL;
	_cleanup_(freep) char *frame = visible(stack->frame[i]);
	_cleanup_(freep) char *source = NULL;
	const char *base;

	if (!frame)
		return -ENOMEM;
	fprintf(file, "      %s", frame);
	if (detail && detail->kind == TRACESMITH__V1__FRAME__KIND__NATIVE && detail->line) {
		base = strrchr(detail->file, '/');
		source = visible(base ? base + 1 : detail->file);
		if (!source)
			return -ENOMEM;
		fprintf(file, " (%s:%" PRIu32 ")", source, detail->line);
	}
	fputc('\n', file);
	return 0;
}

/* Without what started the user's code. */
static size_t frames_shown(const struct table *table, const Tracesmith__V1__Stack *stack)
{
	size_t shown = stack->n_frame;

	if (table->wide)
		return shown;
	if (stack->users && stack->users < shown && shown - stack->users >= FOLDED_MIN)
		shown = stack->users;
	return shown < FRAMES_SHOWN ? shown : FRAMES_SHOWN;
}

static int format_stack(const struct table *table, const Tracesmith__V1__Stack *stack, char **ret)
{
	size_t size = 0, shown = frames_shown(table, stack);
	_cleanup_(freep) char *out = NULL;
	FILE *file = text_open(&out, &size);
	int r = 0;

	if (!file)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < shown; i++)
		r = write_frame(file, stack, i);
	if (shown < stack->n_frame)
		fprintf(file, "      and %zu more\n", stack->n_frame - shown);
	write_end(file, stack);
	if (text_close(file) < 0 || r < 0)
		return -ENOMEM;
	free(*ret);
	*ret = TAKE(out);
	return 0;
}

static int format_row(const struct table *table, const Tracesmith__V1__Row *row,
		      struct text_row **ret)
{
	_cleanup_(row_freep) struct text_row *out =
		calloc(1, sizeof(*out) + row->n_value * sizeof(char *));
	int r = 0;

	if (!out)
		return -ENOMEM;
	out->count = row->n_value;
	for (size_t i = 0; i < row->n_value; i++) {
		if (row->value[i]->value_case == TRACESMITH__V1__VALUE__VALUE_STACK)
			r = format_stack(table, row->value[i]->stack, &out->stack);
		else if (table->column[i].type != TRACESMITH__V1__COLUMNS__TYPE__STACK)
			out->cell[i] = table_cell(table, row->value[i], table->column[i].type);
		if (r < 0 || (!out->cell[i] &&
			      table->column[i].type != TRACESMITH__V1__COLUMNS__TYPE__STACK))
			return -ENOMEM;
	}
	*ret = TAKE(out);
	return 0;
}

static bool is_text(const struct table *table, size_t i)
{
	return table->column[i].type == TRACESMITH__V1__COLUMNS__TYPE__TEXT ||
	       table->column[i].type == TRACESMITH__V1__COLUMNS__TYPE__TIME;
}

/* A stack is printed on lines of its own. */
static bool is_in_line(const struct table *table, size_t i)
{
	return !table->text->left_out[i] &&
	       table->column[i].type != TRACESMITH__V1__COLUMNS__TYPE__STACK;
}

static bool is_filled(const struct table *table, size_t i)
{
	const char *cell;

	for (size_t j = 0; j < table->text->row_count; j++) {
		cell = table->text->row[j]->cell[i];
		if (strcmp(cell, "-") != 0 && strcmp(cell, "0") != 0)
			return true;
	}
	return false;
}

static bool is_one_of(const char *name, const char *const *list)
{
	while (*list && strcmp(name, *list) != 0)
		list++;
	return *list;
}

static void pick(struct table *table)
{
	for (size_t i = 0; table->pick && i < table->column_count; i++)
		table->text->left_out[i] = is_one_of(table->column[i].name, table->pick->wide) ||
					   (is_one_of(table->column[i].name, table->pick->filled) &&
					    !is_filled(table, i));
}

static void write_cell(const struct table *table, size_t i, const char *text, bool last)
{
	size_t width = table->text->width[i], length = width_of(text), shown = 0;

	if (length > width && is_text(table, i) && (table->width || !last)) {
		for (; *text && shown + 1 < width; shown++)
			do
				fputc(*text++, table->out);
			while ((*text & 0xc0) == 0x80);
		fputs("…", table->out);
		return;
	}
	if (!is_text(table, i))
		fprintf(table->out, "%*s", (int)(width > length ? width - length : 0), "");
	fputs(text, table->out);
	if (is_text(table, i) && !last)
		fprintf(table->out, "%*s", (int)(width > length ? width - length : 0), "");
}

static size_t last_column(const struct table *table)
{
	size_t last = 0;

	for (size_t i = 0; i < table->column_count; i++)
		if (is_in_line(table, i))
			last = i;
	return last;
}

static void write_line(const struct table *table, char *const *cell)
{
	size_t last = last_column(table);
	bool first = true;

	for (size_t i = 0; i < table->column_count; i++) {
		if (!is_in_line(table, i))
			continue;
		if (!first)
			fprintf(table->out, "%*s", GAP, "");
		first = false;
		write_cell(table, i, cell ? cell[i] : table->column[i].name, i == last);
	}
	fputc('\n', table->out);
}

static void write_text_row(const struct table *table, const struct text_row *row)
{
	write_line(table, row->cell);
	if (row->stack)
		fputs(row->stack, table->out);
}

/* Times and equally short values are not cut: half a number is a wrong number. */
static bool can_shrink(const struct table *table, size_t i)
{
	return table->column[i].type == TRACESMITH__V1__COLUMNS__TYPE__TEXT &&
	       table->text->width[i] >
		       (table->pick && table->pick->wide[0] ? PICKED_MIN : SHRUNK_MIN);
}

static size_t line_width(const struct table *table)
{
	size_t total = 0;

	for (size_t i = 0; i < table->column_count; i++)
		if (is_in_line(table, i))
			total += table->text->width[i] + (total ? GAP : 0);
	return total;
}

static size_t widest_column(const struct table *table)
{
	size_t widest = table->column_count;

	for (size_t i = 0; i < table->column_count; i++)
		if (is_in_line(table, i) && can_shrink(table, i) &&
		    (widest == table->column_count ||
		     table->text->width[i] > table->text->width[widest]))
			widest = i;
	return widest;
}

/* Shrinks the widest text columns until the line fits. A table that cannot fit continues below,
 * where the last column gets the remaining room. */
static void shrink(struct table *table)
{
	size_t *width = table->text->width, last = last_column(table), whole = width[last];
	size_t total, widest, room;

	while ((total = line_width(table)) > table->width) {
		widest = widest_column(table);
		if (widest == table->column_count)
			break;
		width[widest]--;
	}
	room = (total + table->width - 1) / table->width * table->width - total;
	width[last] = whole - width[last] < room ? whole : width[last] + room;
}

static void measure(struct table *table)
{
	struct table_text *text = table->text;

	pick(table);
	for (size_t i = 0; i < table->column_count; i++) {
		text->width[i] = width_of(table->column[i].name);
		for (size_t j = 0; j < text->row_count && is_in_line(table, i); j++)
			if (width_of(text->row[j]->cell[i]) > text->width[i])
				text->width[i] = width_of(text->row[j]->cell[i]);
	}
	if (table->width)
		shrink(table);
	text->measured = true;
	if (table->color)
		fputs("\033[1m", table->out);
	write_line(table, NULL);
	if (table->color)
		fputs("\033[0m", table->out);
	for (size_t j = 0; j < text->row_count; j++) {
		write_text_row(table, text->row[j]);
		row_free(text->row[j]);
	}
	text->row_count = 0;
}

static int begin(struct table *table)
{
	table->text = calloc(1, sizeof(*table->text));
	if (!table->text)
		return -ENOMEM;
	table->text->width = calloc(table->column_count, sizeof(size_t));
	table->text->left_out = calloc(table->column_count, sizeof(bool));
	table->text->row = calloc(TABLE_ROWS_MEASURED, sizeof(struct text_row *));
	return table->text->width && table->text->left_out && table->text->row ? 0 : -ENOMEM;
}

static int write_row(struct table *table, const Tracesmith__V1__Row *row)
{
	_cleanup_(row_freep) struct text_row *out = NULL;
	struct table_text *text = table->text;
	int r = format_row(table, row, &out);

	if (r < 0)
		return r;
	if (!text->measured && text->row_count == TABLE_ROWS_MEASURED)
		measure(table);
	if (text->measured)
		write_text_row(table, out);
	else
		text->row[text->row_count++] = TAKE(out);
	return 0;
}

static int write_note(const struct table *table, const char *note)
{
	_cleanup_(freep) char *text = note && note[0] ? visible(note) : NULL;

	if (note && note[0] && !text)
		return -ENOMEM;
	if (!table->rows)
		fprintf(table->out, text ? "no rows: %s\n" : "no rows\n", text);
	else if (text)
		fprintf(table->out, "\nnote: %s\n", text);
	return 0;
}

static int end(struct table *table, const Tracesmith__V1__Done *done)
{
	if (table->rows && !table->text->measured)
		measure(table);
	if (write_note(table, done->note) < 0)
		return -ENOMEM;
	if (done->n_loss || !table->whole)
		table_losses(table->out, done);
	return 0;
}

const struct table_writer table_text_writer = { begin, write_row, end };
