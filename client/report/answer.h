/* answer.h: the answer of one query, whole, with its values as people read them. */
#ifndef TS_CLIENT_REPORT_ANSWER_H
#define TS_CLIENT_REPORT_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "client/link/link.h"
#include "core/base/arena.h"

#define ANSWER_COLUMNS_MAX 64

struct answer_row {
	const char *cell[ANSWER_COLUMNS_MAX];
	int64_t number[ANSWER_COLUMNS_MAX]; /* 0: none */
	bool known[ANSWER_COLUMNS_MAX];
};

struct report_answer {
	const char *column[ANSWER_COLUMNS_MAX];
	uint8_t type[ANSWER_COLUMNS_MAX]; /* Tracesmith__V1__Columns__Type */
	size_t columns, rows;
	struct answer_row *row;
	const char *note, *loss; /* "": none */
	struct arena arena;
};

/* With --pid and the window of the options, and `limit` rows; `by` as QueryRequest.by. Errors are
 * printed. To be freed in any case. */
int report_ask(struct link *link, const struct options *options, const char *query, uint64_t limit,
	       uint32_t by, struct report_answer *ret);
void report_answer_done(struct report_answer *answer);

/* A value by its row and column: 0 or "" if either does not exist, or the value is unknown. */
int64_t answer_number(const struct report_answer *answer, size_t row, const char *column);
const char *answer_cell(const struct report_answer *answer, size_t row, const char *column);
/* Of all rows. */
int64_t answer_sum(const struct report_answer *answer, const char *column);

#endif
