/* rows.h: the rows of an SQL statement or a query, one after another. */
#ifndef TS_CLIENT_ROWS_H
#define TS_CLIENT_ROWS_H

#include "client/link/link.h"

/* A negative errno ends it, and is returned. */
typedef int rows_fn(void *data, const Tracesmith__V1__Row *row);

/* 1: there are more than `limit`. Errors of the link or the daemon are printed; an error that `row`
 * returns is left to the caller. */
int rows_ask(struct link *link, const char *sql, uint64_t limit, rows_fn *row, void *data);

/* The same for a query of the store, usually an internal one, of all processes. */
int rows_query(struct link *link, const char *name, uint64_t limit, rows_fn *row, void *data);

/* The value: 0 if it is not a number, NULL if it is not text. */
int64_t rows_integer(const Tracesmith__V1__Value *value);
const char *rows_text(const Tracesmith__V1__Value *value);

#endif
