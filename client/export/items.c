/* Items: one line each for people, one row each for programs. */
#include "client/export/items.h"

#include <stdio.h>
#include <string.h>

#include "client/output/table.h"

#define COLUMNS 5

static void write_text(const Tracesmith__V1__StatusReply *items, bool color)
{
	const char *section = "";

	for (size_t i = 0; i < items->n_item; i++) {
		const Tracesmith__V1__StatusReply__Item *item = items->item[i];

		if (strcmp(item->section, section) != 0)
			printf("%s%s%s%s\n", i ? "\n" : "", color ? "\033[1m" : "", item->section,
			       color ? "\033[0m" : "");
		section = item->section;
		printf("%s%s %-24s %s%s\n", color && item->warning ? "\033[33m" : "",
		       item->warning ? "!" : " ", item->name, item->value,
		       color && item->warning ? "\033[0m" : "");
	}
}

static int write_columns(struct table *table)
{
	static char *const names[COLUMNS] = { "section", "name", "value", "number", "warning" };
	Tracesmith__V1__Columns__Column column[COLUMNS], *list[COLUMNS];
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;

	for (int i = 0; i < COLUMNS; i++) {
		tracesmith__v1__columns__column__init(&column[i]);
		column[i].name = names[i];
		column[i].type = i < 3 ? TRACESMITH__V1__COLUMNS__TYPE__TEXT
				       : TRACESMITH__V1__COLUMNS__TYPE__INTEGER;
		list[i] = &column[i];
	}
	columns.n_column = COLUMNS;
	columns.column = list;
	return table_columns(table, &columns);
}

static int write_item(struct table *table, const Tracesmith__V1__StatusReply__Item *item)
{
	char *const text[] = { item->section, item->name, item->value };
	Tracesmith__V1__Value value[COLUMNS], *list[COLUMNS];
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT;

	for (int i = 0; i < COLUMNS; i++) {
		tracesmith__v1__value__init(&value[i]);
		value[i].value_case = i < 3 ? TRACESMITH__V1__VALUE__VALUE_TEXT
					    : TRACESMITH__V1__VALUE__VALUE_INTEGER;
		if (i < 3)
			value[i].text = text[i];
		list[i] = &value[i];
	}
	if (item->is_number)
		value[3].integer = item->number;
	else
		value[3].value_case = TRACESMITH__V1__VALUE__VALUE__NOT_SET;
	value[4].integer = item->warning;
	row.n_value = COLUMNS;
	row.value = list;
	return table_row(table, &row);
}

static int write_table(struct table *table, const Tracesmith__V1__StatusReply *items)
{
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	int r = write_columns(table);

	for (size_t i = 0; r == 0 && i < items->n_item; i++)
		r = write_item(table, items->item[i]);
	return r < 0 ? r : table_end(table, &done);
}

int items_write(const struct options *options, const char *query,
		const Tracesmith__V1__StatusReply *items)
{
	struct table table;
	int r = 0;

	table_init(&table, options, query, 0);
	if (options->given & OPTIONS_TABLE)
		r = write_table(&table, items);
	else
		write_text(items, table.color);
	table_done(&table);
	return r;
}
