/* Table: messages of the daemon as an answer, whose columns are their fields. Made of the same
 * replies that a query's answer is made of, so that there is one kind of answer. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/library/answer.h"
#include "core/base/array.h"

#define COLUMNS_MAX 64
#define NAME_BYTES  64

/* One column: a field of the message, or of a message in it. */
struct column {
	const ProtobufCFieldDescriptor *outer, *field; /* `outer` NULL: of the message itself */
};

static bool is_shown(const ProtobufCFieldDescriptor *field)
{
	if (field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_BYTES)
		return false;
	return field->label != PROTOBUF_C_LABEL_REPEATED || field->type == PROTOBUF_C_TYPE_STRING;
}

static size_t list_columns(const ProtobufCMessageDescriptor *descriptor,
			   const ProtobufCFieldDescriptor *outer, struct column *column)
{
	size_t count = 0;

	for (unsigned i = 0; i < descriptor->n_fields && count < COLUMNS_MAX; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		if (is_shown(field))
			column[count++] = (struct column){ outer, field };
		else if (!outer && field->type == PROTOBUF_C_TYPE_MESSAGE &&
			 field->label != PROTOBUF_C_LABEL_REPEATED)
			count += list_columns(field->descriptor, field, column + count);
	}
	return count;
}

static bool ends(const char *name, const char *with)
{
	const size_t size = strlen(name), end = strlen(with);

	return size >= end && strcmp(name + size - end, with) == 0;
}

static Tracesmith__V1__Columns__Type type_of(const ProtobufCFieldDescriptor *field)
{
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return TRACESMITH__V1__COLUMNS__TYPE__TEXT;
	if (ends(field->name, "_bytes"))
		return TRACESMITH__V1__COLUMNS__TYPE__BYTES;
	if (ends(field->name, "_ns"))
		return TRACESMITH__V1__COLUMNS__TYPE__NANOSECONDS;
	if (ends(field->name, "_ppm"))
		return TRACESMITH__V1__COLUMNS__TYPE__SHARE;
	return TRACESMITH__V1__COLUMNS__TYPE__INTEGER;
}

static Tracesmith__V1__Columns__Column *make_column(const char *outer, const char *name,
						    Tracesmith__V1__Columns__Type type)
{
	Tracesmith__V1__Columns__Column *made = malloc(sizeof(*made));
	char text[NAME_BYTES];

	if (!made)
		return NULL;
	tracesmith__v1__columns__column__init(made);
	snprintf(text, sizeof(text), "%s%s%s", outer ? outer : "", outer ? "." : "", name);
	made->name = strdup(text);
	made->type = type;
	if (made->name)
		return made;
	free(made);
	return NULL;
}

/* The texts behind one another. */
static char *join(char *const *text, size_t count)
{
	size_t size = 1;
	char *joined;

	for (size_t i = 0; i < count; i++)
		size += strlen(text[i]) + strlen("; ");
	joined = calloc(1, size);
	for (size_t i = 0, at = 0; joined && i < count; i++)
		at += (size_t)snprintf(joined + at, size - at, "%s%s", i ? "; " : "", text[i]);
	return joined;
}

static int64_t integer_of(ProtobufCType type, const void *at)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT64:
		return *(const int64_t *)at;
	case PROTOBUF_C_TYPE_UINT32:
		return *(const uint32_t *)at;
	case PROTOBUF_C_TYPE_BOOL:
		return *(const protobuf_c_boolean *)at != 0;
	default:
		return *(const int32_t *)at;
	}
}

static int set_value(Tracesmith__V1__Value *value, const ProtobufCFieldDescriptor *field,
		     const uint8_t *message)
{
	const void *at = message + field->offset;

	if (field->type != PROTOBUF_C_TYPE_STRING) {
		value->value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
		value->integer = integer_of(field->type, at);
		return 0;
	}
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		value->text = join(*(char *const *const *)at,
				   *(const size_t *)(message + field->quantifier_offset));
	else
		value->text = strdup(*(const char *const *)at);
	if (!value->text)
		return -ENOMEM;
	value->value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
	return 0;
}

static Tracesmith__V1__Value *add_value(Tracesmith__V1__Row *row)
{
	Tracesmith__V1__Value *value = malloc(sizeof(*value));

	if (!value)
		return NULL;
	tracesmith__v1__value__init(value);
	row->value[row->n_value++] = value;
	return value;
}

static int add_values(Tracesmith__V1__Row *row, const struct column *column, size_t count,
		      const uint8_t *message)
{
	for (size_t i = 0; i < count; i++) {
		Tracesmith__V1__Value *value = add_value(row);
		const uint8_t *holder = message;

		if (!value)
			return -ENOMEM;
		if (column[i].outer)
			holder = *(const uint8_t *const *)(message + column[i].outer->offset);
		if (holder && set_value(value, column[i].field, holder) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_row(Tracesmith__V1__Rows *rows, const struct column *column, size_t count,
		   const ProtobufCMessage *message, const uint32_t *key)
{
	Tracesmith__V1__Row *row = malloc(sizeof(*row));
	Tracesmith__V1__Value *value;

	if (!row)
		return -ENOMEM;
	tracesmith__v1__row__init(row);
	rows->row[rows->n_row++] = row;
	row->value = calloc(count + 1, sizeof(*row->value));
	if (!row->value)
		return -ENOMEM;
	if (key) {
		value = add_value(row);
		if (!value)
			return -ENOMEM;
		value->value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
		value->integer = *key;
	}
	return add_values(row, column, count, (const uint8_t *)message);
}

static int fill_columns(Tracesmith__V1__Columns *columns, const struct column *column, size_t count,
			const char *key)
{
	columns->column = calloc(count + 1, sizeof(*columns->column));
	if (!columns->column)
		return -ENOMEM;
	for (size_t i = 0; i < count + (key != NULL); i++) {
		const struct column *shown = key ? &column[i - 1] : &column[i];

		if (key && i == 0)
			columns->column[i] =
				make_column(NULL, key, TRACESMITH__V1__COLUMNS__TYPE__INTEGER);
		else
			columns->column[i] = make_column(shown->outer ? shown->outer->name : NULL,
							 shown->field->name, type_of(shown->field));
		if (!columns->column[i])
			return -ENOMEM;
		columns->n_column++;
	}
	return 0;
}

static Tracesmith__V1__Reply *new_reply(void)
{
	Tracesmith__V1__Reply *reply = malloc(sizeof(*reply));

	if (reply)
		tracesmith__v1__reply__init(reply);
	return reply;
}

static Tracesmith__V1__Reply *columns_reply(const struct column *column, size_t count,
					    const char *key)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = new_reply();
	Tracesmith__V1__Columns *columns = reply ? malloc(sizeof(*columns)) : NULL;

	if (!columns)
		return NULL;
	tracesmith__v1__columns__init(columns);
	reply->body_case = TRACESMITH__V1__REPLY__BODY_COLUMNS;
	reply->columns = columns;
	return fill_columns(columns, column, count, key) < 0 ? NULL : TAKE(reply);
}

static Tracesmith__V1__Reply *rows_reply(const struct column *column, size_t columns,
					 const ProtobufCMessage *const *message, size_t count,
					 const struct answer_key *key)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = new_reply();
	Tracesmith__V1__Rows *rows = reply ? malloc(sizeof(*rows)) : NULL;

	if (!rows)
		return NULL;
	tracesmith__v1__rows__init(rows);
	reply->body_case = TRACESMITH__V1__REPLY__BODY_ROWS;
	reply->rows = rows;
	rows->row = calloc(count + 1, sizeof(*rows->row));
	if (!rows->row)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (add_row(rows, column, columns, message[i], key ? &key->value[i] : NULL) < 0)
			return NULL;
	return TAKE(reply);
}

int answer_of_messages(const ProtobufCMessageDescriptor *descriptor,
		       const ProtobufCMessage *const *message, size_t count,
		       const struct answer_key *key, struct tracesmith_answer **ret)
{
	_cleanup_(answer_freep) struct tracesmith_answer *answer = answer_new();
	struct column column[2 * COLUMNS_MAX];
	const size_t columns = list_columns(descriptor, NULL, column);
	Tracesmith__V1__Reply *part[2];
	int r = answer ? 0 : -ENOMEM;

	part[0] = columns_reply(column, columns, key ? key->name : NULL);
	part[1] = rows_reply(column, columns, message, count, key);
	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		if (r == 0 && part[i])
			r = answer_take(answer, part[i]);
		else
			reply_free(part[i]);
		if (r == 0 && !part[i])
			r = -ENOMEM;
	}
	if (r < 0)
		return r;
	*ret = TAKE(answer);
	return 0;
}
