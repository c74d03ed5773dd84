/* remark.h: remarks about a request: reasons with arguments. */
#ifndef TS_QUERY_REMARK_H
#define TS_QUERY_REMARK_H

#include <stdarg.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "proto/control.pb-c.h"

#define REMARKS_MAX	     6
#define REMARK_ARGUMENTS_MAX 5

#define REASON(name)	     TRACESMITH__V1__REMARK__REASON__##name

/* Zeroed is empty. */
struct remarks {
	struct arena arena;
	Tracesmith__V1__Remark *item[REMARKS_MAX];
	size_t count;
};

/* Adds one whose arguments are texts, with a NULL behind them. They may be any bytes. */
int remarks_add(struct remarks *remarks, Tracesmith__V1__Remark__Reason reason, ...)
	__attribute__((sentinel));
int remarks_add_list(struct remarks *remarks, Tracesmith__V1__Remark__Reason reason,
		     va_list arguments);
/* All of them in one sentence, "" for none; NULL: no memory. The remarks own it. */
char *remarks_text(struct remarks *remarks);
void remarks_clear(struct remarks *remarks);

/* The code of an error for this reason. */
Tracesmith__V1__Error__Code remark_code(Tracesmith__V1__Remark__Reason reason);

/* A number as an argument; it stays until the block ends. */
#define REMARK_NUMBER_SIZE 24
#define REMARK_NUMBER(n)   remark_number((char[REMARK_NUMBER_SIZE]){ 0 }, (uint64_t)(n))
const char *remark_number(char text[REMARK_NUMBER_SIZE], uint64_t number);

#endif
