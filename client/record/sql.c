/* Sql: statements whose rows are integers. */
#include "client/record/sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"

#define SQL_MAX	    256
#define COLUMNS_MAX 4
#define THIS_BOOT   "(SELECT max(id) FROM boot)"

struct rows {
	int64_t (*row)[COLUMNS_MAX];
	size_t count;
};

static int take_row(void *data, const Tracesmith__V1__Row *from)
{
	struct rows *rows = data;
	void *more = reallocarray(rows->row, rows->count + 1, sizeof(rows->row[0]));

	if (!more) {
		complain("Not enough memory");
		return -ENOMEM;
	}
	rows->row = more;
	for (size_t k = 0; k < COLUMNS_MAX; k++)
		rows->row[rows->count][k] = k < from->n_value ? rows_integer(from->value[k]) : 0;
	rows->count++;
	return 0;
}

/* As many rows as the daemon sends. */
static int ask(struct link *link, const char *sql, struct rows *rows)
{
	int r = rows_ask(link, sql, UINT64_MAX, take_row, rows);

	return r < 0 ? r : 0;
}

int record_sql_cursor(struct link *link, Tracesmith__V1__RecordCursor *ret, int64_t *ret_boot)
{
	struct rows rows = { 0 };
	int r = ask(link, "SELECT next_batch - 1, last_ns, id FROM boot WHERE id = " THIS_BOOT,
		    &rows);

	if (r == 0 && rows.count == 1) {
		ret->batch = rows.row[0][0];
		ret->chunk = INT64_MAX;
		ret->told_ns = rows.row[0][1];
		*ret_boot = rows.row[0][2];
	}
	free(rows.row);
	return r;
}

int record_sql_processes(struct link *link, uint64_t since_ns, struct record_process **ret,
			 size_t *ret_count)
{
	struct record_process *list = NULL;
	struct rows rows = { 0 };
	char sql[SQL_MAX];
	int r;

	snprintf(sql, sizeof(sql),
		 "SELECT pid, ppid, exit_ns FROM process WHERE boot = " THIS_BOOT
		 " AND (exit_ns IS NULL OR exit_ns >= %" PRIu64 ")",
		 since_ns);
	r = ask(link, sql, &rows);
	if (r == 0) {
		list = calloc(rows.count + 1, sizeof(*list));
		r = list ? 0 : -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < rows.count; i++)
		list[i] = (struct record_process){ .pid = (uint32_t)rows.row[i][0],
						   .ppid = (uint32_t)rows.row[i][1],
						   .ended = rows.row[i][2] != 0 };
	*ret_count = rows.count;
	free(rows.row);
	*ret = list;
	return r;
}
