/* rows.h: the rows of a query of the store, usually an internal one, one after another. */
#ifndef TS_CLIENT_ROWS_H
#define TS_CLIENT_ROWS_H

#include "client/link/link.h"

/* A negative errno ends it, and is returned. */
typedef int rows_fn(void *data, const Tracesmith__V1__Row *row);

/* 1: there are more rows than its limit, or than the daemon sends at once. Errors of the link or
 * the daemon are printed; an error that `row` returns is left to the caller. */
int rows_ask(struct link *link, Tracesmith__V1__QueryRequest *query, rows_fn *row, void *data);

/* The same without other options. */
int rows_query(struct link *link, const char *name, uint64_t limit, rows_fn *row, void *data);

/* The value: 0 if it is not a number, NULL if it is not text. */
int64_t rows_integer(const Tracesmith__V1__Value *value);
const char *rows_text(const Tracesmith__V1__Value *value);

#endif
