/* Table as CSV (RFC 4180, lines end with \n): a line of names, then values in base units as in
 * JSON. The frames of a stack are joined by ';', innermost first. Losses go to the notes. */
#include <inttypes.h>
#include <string.h>

#include "client/output/loss.h"
#include "client/output/table.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

/* The inside of a quoted field. */
static void write_quoted(FILE *out, const char *text)
{
	size_t size = strlen(text);
	char bytes[UTF8_LENGTH_MAX];
	uint32_t code;

	for (size_t i = 0; i < size;) {
		i += utf8_read(text + i, size - i, &code);
		if (code == '"')
			fputc('"', out);
		fwrite(bytes, 1, utf8_write(bytes, code), out);
	}
}

static void write_text(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\r\n") && utf8_valid(text, strlen(text))) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	write_quoted(out, text);
	fputc('"', out);
}

static void write_stack(FILE *out, const Tracesmith__V1__Stack *stack)
{
	fputc('"', out);
	for (size_t i = 0; i < stack->n_frame; i++) {
		if (i)
			fputc(';', out);
		write_quoted(out, stack->frame[i]);
	}
	fputc('"', out);
}

static int begin(struct table *table)
{
	for (size_t i = 0; i < table->column_count; i++) {
		if (i)
			fputc(',', table->out);
		write_text(table->out, table->column[i].name);
	}
	fputc('\n', table->out);
	return 0;
}

static int write_row(struct table *table, const Tracesmith__V1__Row *row)
{
	char buffer[UNITS_TEXT_SIZE];

	for (size_t i = 0; i < row->n_value; i++) {
		if (i)
			fputc(',', table->out);
		if (row->value[i]->value_case == TRACESMITH__V1__VALUE__VALUE_STACK)
			write_stack(table->out, row->value[i]->stack);
		else
			write_text(table->out,
				   table_plain(buffer, row->value[i], table->column[i].type));
	}
	fputc('\n', table->out);
	return 0;
}

static int end(struct table *table, const Tracesmith__V1__Done *done)
{
	fflush(table->out);
	if (done->note && done->note[0])
		fprintf(table->notes, "tsctl: note: %s\n", done->note);
	if (done->n_loss) {
		fputs("tsctl: ", table->notes);
		loss_write(table->notes, done);
	}
	return 0;
}

const struct table_writer table_csv_writer = { begin, write_row, end };
