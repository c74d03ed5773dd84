/* rows.h: the rows of an SQL statement, one after another. */
#ifndef TS_CLIENT_ROWS_H
#define TS_CLIENT_ROWS_H

#include "client/link/link.h"

/* A negative errno ends it, and is returned. */
typedef int rows_fn(void *data, const Tracesmith__V1__Row *row);

/* 1: there are more than `limit`. What the link or the daemon says is told on stderr; what `row`
 * returns is the caller's to tell. */
int rows_ask(struct link *link, const char *sql, uint64_t limit, rows_fn *row, void *data);

/* Of a value: 0 where it is no number, NULL where it is no text. */
int64_t rows_integer(const Tracesmith__V1__Value *value);
const char *rows_text(const Tracesmith__V1__Value *value);

#endif
