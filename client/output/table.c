/* Table: passes an answer to the writer of the requested form. */
#include "client/output/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "core/base/array.h"
#include "core/base/units.h"

static size_t terminal_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
		return size.ws_col;
	return 80;
}

static const struct table_pick picks[] = {
	{ "ps",
	  (const char *const[]){ "since_ns", "cost_low", "cost_high", "budget", "callback_cost",
				 "thread_cost", "records", "peak_bytes", NULL },
	  (const char *const[]){ "container", "inside", "cost", "lost", "errors", NULL } },
	{ "cost",
	  (const char *const[]){ "whole_low", "whole_high", "cold", "calls_per_s", "hit_ns",
				 "turned_ns", "records", "inside", NULL },
	  (const char *const[]){ "until_ns", "over", NULL } },
	{ "kernels", (const char *const[]){ NULL },
	  (const char *const[]){ "sampled", "plus_minus", "plus_minus_ns", "watched", "where",
				 NULL } },
	{ "idle", (const char *const[]){ NULL },
	  (const char *const[]){ "plus_minus_ns", "watched", NULL } },
	{ "critical-path", (const char *const[]){ NULL }, (const char *const[]){ "text", NULL } },
	{ "apis", (const char *const[]){ NULL },
	  (const char *const[]){ "plus_minus", "watched", NULL } },
	{ "list", (const char *const[]){ "columns", NULL }, (const char *const[]){ NULL } },
	{ "launches", (const char *const[]){ NULL },
	  (const char *const[]){ "plus_minus", "watched", "where", NULL } },
	{ "leaks", (const char *const[]){ NULL },
	  (const char *const[]){ "bytes_per_step", "where", NULL } },
	{ "syncs", (const char *const[]){ NULL }, (const char *const[]){ "where", NULL } },
	{ "errors", (const char *const[]){ NULL }, (const char *const[]){ "where", NULL } },
	{ "pageable", (const char *const[]){ NULL }, (const char *const[]){ "where", NULL } },
	{ "waste", (const char *const[]){ NULL },
	  (const char *const[]){ "lost_ns", "held_ns", "where", NULL } },
	{ "transfers", (const char *const[]){ NULL }, (const char *const[]){ "where", NULL } },
};

static const struct table_pick *pick_of(const char *query)
{
	for (size_t i = 0; i < ARRAY_SIZE(picks); i++)
		if (strcmp(query, picks[i].query) == 0)
			return &picks[i];
	return NULL;
}

void table_init(struct table *table, const struct options *options, const char *query,
		int64_t wall_offset_ns)
{
	*table = (struct table){
		.out = stdout,
		.notes = stderr,
		.query = query,
		.wall_offset_ns = wall_offset_ns,
		.width = terminal_width(),
		.spreadsheet = options->spreadsheet,
		.chosen = options->columns,
		.wide = options->given & OPTION(WIDE),
		.writer = options->given & OPTION(JSON)	 ? &table_json_writer
			  : options->given & OPTION(CSV) ? &table_csv_writer
							 : &table_text_writer,
	};
	table->pick = table->wide ? NULL : pick_of(query);
	table->color = table->width && !getenv("NO_COLOR");
	if (table->wide)
		table->width = 0;
}

void table_done(struct table *table)
{
	for (size_t i = 0; i < table->column_count; i++)
		free(table->column[i].name);
	free(table->column);
	free(table->place);
	table_text_free(table->text);
	*table = (struct table){ 0 };
}

static int add_column(struct table *table, const Tracesmith__V1__Columns__Column *column)
{
	struct table_column *added = &table->column[table->column_count];

	added->type = column->type;
	added->name = strdup(column->name);
	table->column_count++;
	return added->name ? 0 : -ENOMEM;
}

static int choose(struct table *table, const Tracesmith__V1__Columns *columns, const char *name,
		  size_t size)
{
	size_t i = 0;

	while (i < columns->n_column && (strncmp(columns->column[i]->name, name, size) != 0 ||
					 columns->column[i]->name[size]))
		i++;
	if (i == columns->n_column || table->column_count == TABLE_COLUMNS_MAX) {
		complain("%s has no column '%.*s': see --json for their names", table->query,
			 (int)size, name);
		return -EINVAL;
	}
	table->place[table->column_count] = (uint16_t)i;
	return add_column(table, columns->column[i]);
}

static int choose_all(struct table *table, const Tracesmith__V1__Columns *columns)
{
	int r = 0;

	table->pick = NULL; /* what is asked for is shown */
	table->place = calloc(TABLE_COLUMNS_MAX, sizeof(*table->place));
	if (!table->place)
		return -ENOMEM;
	for (const char *name = table->chosen; name && r == 0;) {
		size_t size = strcspn(name, ",");

		r = choose(table, columns, name, size);
		name = name[size] ? name + size + 1 : NULL;
	}
	return r;
}

int table_columns(struct table *table, const Tracesmith__V1__Columns *columns)
{
	int r = 0;

	if (table->column || !columns->n_column || columns->n_column > TABLE_COLUMNS_MAX)
		return -EPROTO;
	table->row_size = columns->n_column;
	table->column = calloc(TABLE_COLUMNS_MAX, sizeof(*table->column));
	if (!table->column)
		return -ENOMEM;
	if (table->chosen)
		r = choose_all(table, columns);
	for (size_t i = 0; r == 0 && !table->chosen && i < columns->n_column; i++)
		r = add_column(table, columns->column[i]);
	return r < 0 ? r : table->writer->begin(table);
}

int table_row(struct table *table, const Tracesmith__V1__Row *row)
{
	Tracesmith__V1__Value *value[TABLE_COLUMNS_MAX];
	Tracesmith__V1__Row shown = *row;

	if (!table->column || row->n_value != table->row_size)
		return -EPROTO;
	table->rows++;
	if (!table->place)
		return table->writer->row(table, row);
	for (size_t i = 0; i < table->column_count; i++)
		value[i] = row->value[table->place[i]];
	shown.n_value = table->column_count;
	shown.value = value;
	return table->writer->row(table, &shown);
}

int table_end(struct table *table, const Tracesmith__V1__Done *done)
{
	int r;

	if (!table->column)
		return -EPROTO;
	r = table->writer->end(table, done);
	if (r == 0 && done->truncated && table->notes) {
		fflush(table->out);
		fprintf(table->notes, "tsctl: showing the first %" PRIu64 " rows: raise --limit\n",
			table->rows);
	}
	return r;
}

static const char *hex(const ProtobufCBinaryData *blob, char *buffer)
{
	size_t size = blob->len < 16 ? blob->len : 16;

	for (size_t i = 0; i < size; i++)
		sprintf(buffer + 2 * i, "%02x", blob->data[i]);
	strcpy(buffer + 2 * size, blob->len > size ? "..." : "");
	return buffer;
}

const char *table_plain(char *buffer, const Tracesmith__V1__Value *value,
			Tracesmith__V1__Columns__Type type)
{
	switch (value->value_case) {
	case TRACESMITH__V1__VALUE__VALUE_INTEGER:
		snprintf(buffer, UNITS_TEXT_SIZE,
			 type == TRACESMITH__V1__COLUMNS__TYPE__HANDLE ? "%" PRIu64 : "%" PRId64,
			 value->integer);
		return buffer;
	case TRACESMITH__V1__VALUE__VALUE_REAL:
		snprintf(buffer, UNITS_TEXT_SIZE, "%.17g", value->real);
		return buffer;
	case TRACESMITH__V1__VALUE__VALUE_TEXT:
		return value->text;
	case TRACESMITH__V1__VALUE__VALUE_BLOB:
		return hex(&value->blob, buffer);
	default:
		return "";
	}
}
