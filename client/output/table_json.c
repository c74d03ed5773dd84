/* Table as JSON: {"query":…,"rows":[{…}],"loss":{…}}, an interface (docs/queries.md). Integers are
 * in base units, times are CLOCK_MONOTONIC nanoseconds, a stack is an array of texts, innermost
 * first, and once more, as `frames`, of objects, with where it ends in a field of its own; and
 * losses are counted by reason, and said in a line, "missing". "truncated":true ends an answer with
 * more rows than the limit; "note" has remarks, if any. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "client/output/json.h"
#include "client/output/loss.h"
#include "client/output/table.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/model/frame.h"

static void write_stack(FILE *out, const Tracesmith__V1__Stack *stack)
{
	fputc('[', out);
	for (size_t i = 0; i < stack->n_frame; i++) {
		if (i)
			fputc(',', out);
		json_string(out, stack->frame[i]);
	}
	fputc(']', out);
}

static void write_known(FILE *out, const char *text)
{
	if (*text)
		json_string(out, text);
	else
		fputs("null", out);
}

static void write_frame(FILE *out, const Tracesmith__V1__Frame *frame)
{
	static const char *const kinds[] = {
#define X(number, identifier, name) [number] = name,
		FRAME_KINDS(X)
#undef X
	};

	fprintf(out, "{\"kind\":\"%s\",\"function\":",
		(size_t)frame->kind < ARRAY_SIZE(kinds) ? kinds[frame->kind] : "unknown");
	write_known(out, frame->function);
	fputs(",\"module\":", out);
	write_known(out, frame->module);
	fputs(",\"file\":", out);
	write_known(out, frame->file);
	if (frame->line)
		fprintf(out, ",\"line\":%" PRIu32, frame->line);
	else
		fputs(",\"line\":null", out);
	fprintf(out, ",\"inlined\":%s}", frame->inlined ? "true" : "false");
}

/* The frames of a stack once more, with each thing known of them on its own. */
static void write_frames(FILE *out, const Tracesmith__V1__Stack *stack)
{
	fputs(",\"frames\":[", out);
	for (size_t i = 0; i < stack->n_detail; i++) {
		if (i)
			fputc(',', out);
		write_frame(out, stack->detail[i]);
	}
	fputc(']', out);
}

static void write_end(FILE *out, const Tracesmith__V1__Stack *stack)
{
	if (stack->end[0]) {
		fputs(",\"stack_end\":", out);
		json_string(out, stack->end);
	}
	if (stack->linked)
		fputs(",\"stack_linked\":true", out);
}

static void write_value(FILE *out, const Tracesmith__V1__Value *value,
			Tracesmith__V1__Columns__Type type)
{
	char buffer[UNITS_TEXT_SIZE];

	switch (value->value_case) {
	case TRACESMITH__V1__VALUE__VALUE_INTEGER:
		fputs(table_plain(buffer, value, type), out);
		break;
	case TRACESMITH__V1__VALUE__VALUE_REAL:
		json_real(out, value->real);
		break;
	case TRACESMITH__V1__VALUE__VALUE_TEXT:
	case TRACESMITH__V1__VALUE__VALUE_BLOB:
		json_string(out, table_plain(buffer, value, type));
		break;
	case TRACESMITH__V1__VALUE__VALUE_STACK:
		write_stack(out, value->stack);
		if (value->stack->n_detail)
			write_frames(out, value->stack);
		write_end(out, value->stack);
		break;
	default:
		fputs("null", out);
	}
}

static int begin(struct table *table)
{
	fputs("{\"query\":", table->out);
	json_string(table->out, table->query);
	fputs(",\"rows\":[", table->out);
	return 0;
}

static int write_row(struct table *table, const Tracesmith__V1__Row *row)
{
	fputs(table->rows > 1 ? ",\n{" : "\n{", table->out);
	for (size_t i = 0; i < row->n_value; i++) {
		if (i)
			fputc(',', table->out);
		json_string(table->out, table->column[i].name);
		fputc(':', table->out);
		write_value(table->out, row->value[i], table->column[i].type);
	}
	fputc('}', table->out);
	return 0;
}

/* The line that people get. */
static int write_missing(FILE *out, const Tracesmith__V1__Done *done)
{
	_cleanup_(freep) char *line = NULL;
	size_t size;
	FILE *file;

	if (!done->n_loss)
		return 0;
	file = text_open(&line, &size);
	if (!file)
		return -ENOMEM;
	loss_write_line(file, done);
	if (text_close(file) < 0)
		return -ENOMEM;
	fputs(",\"missing\":", out);
	json_string(out, line);
	return 0;
}

static int end(struct table *table, const Tracesmith__V1__Done *done)
{
	fputs(table->rows ? "\n],\"loss\":{" : "],\"loss\":{", table->out);
	for (size_t i = 0; i < done->n_loss; i++) {
		if (i)
			fputc(',', table->out);
		json_string(table->out, done->loss[i]->reason);
		fprintf(table->out, ":%" PRIu64, done->loss[i]->count);
	}
	fputc('}', table->out);
	if (write_missing(table->out, done) < 0)
		return -ENOMEM;
	fputs(done->truncated ? ",\"truncated\":true" : "", table->out);
	if (done->note && done->note[0]) {
		fputs(",\"note\":", table->out);
		json_string(table->out, done->note);
	}
	fputs("}\n", table->out);
	return 0;
}

const struct table_writer table_json_writer = { begin, write_row, end };
