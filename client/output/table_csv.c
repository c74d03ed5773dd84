/* Table as CSV (RFC 4180, lines end with \n): a line of names, then values in base units as in
 * JSON. The frames of a stack are joined by ';', innermost first. Losses go to the notes. */
#include <inttypes.h>

#include "client/output/csv.h"
#include "client/output/loss.h"
#include "client/output/table.h"
#include "core/base/units.h"

static int begin(struct table *table)
{
	for (size_t i = 0; i < table->column_count; i++) {
		if (i)
			fputc(',', table->out);
		csv_print(table->out, table->column[i].name, table->spreadsheet);
	}
	fputc('\n', table->out);
	return 0;
}

/* Numbers may well begin with a minus. */
static bool is_text(const Tracesmith__V1__Value *value)
{
	return value->value_case == TRACESMITH__V1__VALUE__VALUE_TEXT;
}

static int write_row(struct table *table, const Tracesmith__V1__Row *row)
{
	char buffer[UNITS_TEXT_SIZE];

	for (size_t i = 0; i < row->n_value; i++) {
		if (i)
			fputc(',', table->out);
		if (row->value[i]->value_case == TRACESMITH__V1__VALUE__VALUE_STACK)
			csv_print_list(table->out, row->value[i]->stack->frame,
				       row->value[i]->stack->n_frame, ';', table->spreadsheet);
		else
			csv_print(table->out,
				  table_plain(buffer, row->value[i], table->column[i].type),
				  table->spreadsheet && is_text(row->value[i]));
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
