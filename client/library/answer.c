/* Answer: keeps the replies that it is made of, and finds the cells in them. Every row has as many
 * values as there are columns. */
#include "client/library/answer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct tracesmith_answer {
	Tracesmith__V1__Reply **reply;
	size_t replies, reply_room;
	size_t size_bytes; /* of them, packed */
	const Tracesmith__V1__Columns *columns;
	const Tracesmith__V1__Row **row;
	size_t rows, row_room;
	const Tracesmith__V1__Done *done;
	struct tracesmith_loss *loss;
};

struct tracesmith_answer *answer_new(void)
{
	return calloc(1, sizeof(struct tracesmith_answer));
}

EXPORT void tracesmith_answer_free(struct tracesmith_answer *answer)
{
	if (!answer)
		return;
	for (size_t i = 0; i < answer->replies; i++)
		reply_free(answer->reply[i]);
	free(answer->reply);
	free(answer->row);
	free(answer->loss);
	free(answer);
}

/* Room for `more` elements of the size behind `count` of them. */
static int grow(void **data, size_t *room, size_t count, size_t more, size_t size)
{
	const size_t wanted = 2 * *room > count + more ? 2 * *room : count + more;
	void *grown;

	if (count + more <= *room)
		return 0;
	grown = reallocarray(*data, wanted, size);
	if (!grown)
		return -ENOMEM;
	*data = grown;
	*room = wanted;
	return 0;
}

static int take_rows(struct tracesmith_answer *a, const Tracesmith__V1__Rows *rows)
{
	if (!a->columns)
		return -EPROTO;
	if (grow((void **)&a->row, &a->row_room, a->rows, rows->n_row, sizeof(*a->row)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < rows->n_row; i++) {
		if (rows->row[i]->n_value != a->columns->n_column)
			return -EPROTO;
		a->row[a->rows++] = rows->row[i];
	}
	return 0;
}

static int take_done(struct tracesmith_answer *a, const Tracesmith__V1__Done *done)
{
	a->loss = calloc(done->n_loss ? done->n_loss : 1, sizeof(*a->loss));
	if (!a->loss)
		return -ENOMEM;
	for (size_t i = 0; i < done->n_loss; i++)
		a->loss[i] = (struct tracesmith_loss){
			.reason = done->loss[i]->reason,
			.text = done->loss[i]->text,
			.noun = done->loss[i]->noun,
			.count = done->loss[i]->count,
			.time_ns = done->loss[i]->time_ns,
			.said = done->loss[i]->said,
		};
	a->done = done;
	return 1;
}

int answer_take(struct tracesmith_answer *a, Tracesmith__V1__Reply *reply)
{
	if (grow((void **)&a->reply, &a->reply_room, a->replies, 1, sizeof(*a->reply)) < 0) {
		reply_free(reply);
		return -ENOMEM;
	}
	a->reply[a->replies++] = reply;
	a->size_bytes += protobuf_c_message_get_packed_size(&reply->base);
	if (a->size_bytes > ANSWER_BYTES_MAX)
		return -E2BIG;
	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		if (a->columns)
			return -EPROTO;
		a->columns = reply->columns;
		return 0;
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		return take_rows(a, reply->rows);
	case TRACESMITH__V1__REPLY__BODY_DONE:
		return a->done ? -EPROTO : take_done(a, reply->done);
	default:
		return -EPROTO;
	}
}

EXPORT size_t tracesmith_answer_rows(const struct tracesmith_answer *answer)
{
	return answer ? answer->rows : 0;
}

EXPORT size_t tracesmith_answer_columns(const struct tracesmith_answer *answer)
{
	return answer && answer->columns ? answer->columns->n_column : 0;
}

EXPORT int tracesmith_answer_truncated(const struct tracesmith_answer *answer)
{
	return answer && answer->done && answer->done->truncated;
}

EXPORT const char *tracesmith_answer_note(const struct tracesmith_answer *answer)
{
	return answer && answer->done ? answer->done->note : "";
}

EXPORT const char *tracesmith_answer_column(const struct tracesmith_answer *answer, size_t column,
					    enum tracesmith_unit *ret_unit)
{
	const Tracesmith__V1__Columns__Column *found;

	if (column >= tracesmith_answer_columns(answer))
		return NULL;
	found = answer->columns->column[column];
	if (ret_unit)
		*ret_unit = (enum tracesmith_unit)found->type;
	return found->name;
}

const Tracesmith__V1__Value *answer_value(const struct tracesmith_answer *answer, size_t row,
					  size_t column)
{
	if (row >= tracesmith_answer_rows(answer) || column >= tracesmith_answer_columns(answer))
		return NULL;
	return answer->row[row]->value[column];
}

const Tracesmith__V1__Done *answer_end(const struct tracesmith_answer *answer)
{
	return answer->done;
}

static void fill(struct tracesmith_cell *cell, const Tracesmith__V1__Value *value)
{
	switch (value->value_case) {
	case TRACESMITH__V1__VALUE__VALUE_INTEGER:
		cell->type = TRACESMITH_INTEGER;
		cell->integer = value->integer;
		cell->real = (double)value->integer;
		break;
	case TRACESMITH__V1__VALUE__VALUE_REAL:
		cell->type = TRACESMITH_REAL;
		cell->real = value->real;
		break;
	case TRACESMITH__V1__VALUE__VALUE_TEXT:
		cell->type = TRACESMITH_TEXT;
		cell->text = value->text;
		cell->blob = value->text;
		cell->size = strlen(value->text);
		break;
	case TRACESMITH__V1__VALUE__VALUE_BLOB:
		cell->type = TRACESMITH_BLOB;
		cell->blob = value->blob.data;
		cell->size = value->blob.len;
		break;
	case TRACESMITH__V1__VALUE__VALUE_STACK:
		cell->type = TRACESMITH_STACK;
		cell->frame = (const char *const *)value->stack->frame;
		cell->size = value->stack->n_frame;
		break;
	default:
		break;
	}
}

EXPORT enum tracesmith_type tracesmith_answer_cell(const struct tracesmith_answer *answer,
						   size_t row, size_t column,
						   struct tracesmith_cell *ret)
{
	const Tracesmith__V1__Value *value = answer_value(answer, row, column);

	*ret = (struct tracesmith_cell){ .type = TRACESMITH_NULL };
	if (value)
		fill(ret, value);
	return ret->type;
}

EXPORT const struct tracesmith_loss *tracesmith_answer_loss(const struct tracesmith_answer *answer,
							    size_t index)
{
	return answer && answer->done && index < answer->done->n_loss ? &answer->loss[index] : NULL;
}
