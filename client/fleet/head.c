/* Head: reads the comments of a query's file. */
#include "client/fleet/head.h"

#include <errno.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/units.h"

#define LINE_BYTES 256

static const struct {
	const char *name;
	Tracesmith__V1__Columns__Type type;
	bool id;
} types[] = {
#define T(type) TRACESMITH__V1__COLUMNS__TYPE__##type
	{ "text", T(TEXT), false },
	{ "id", T(INTEGER), true },
	{ "integer", T(INTEGER), false },
	{ "real", T(REAL), false },
	{ "bytes", T(BYTES), false },
	{ "nanoseconds", T(NANOSECONDS), false },
	{ "time", T(TIME), false },
	{ "share", T(SHARE), false },
	{ "bytes_per_second", T(BYTES_PER_SECOND), false },
#undef T
};

static int read_column(struct head *head, const char *line)
{
	char type[HEAD_NAME_BYTES];

	if (head->columns == HEAD_COLUMNS_MAX ||
	    sscanf(line, " %31s %31s", head->column[head->columns].name, type) != 2)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (strcmp(types[i].name, type) != 0)
			continue;
		head->column[head->columns].type = types[i].type;
		head->column[head->columns++].id = types[i].id;
		return 0;
	}
	return -EINVAL;
}

/* "30 d": as durations are given, with a blank. */
static int read_window(struct head *head, const char *text)
{
	char number[HEAD_NAME_BYTES], unit[4], joined[2 * HEAD_NAME_BYTES];

	if (sscanf(text, "%31s %3s", number, unit) != 2)
		return -EINVAL;
	snprintf(joined, sizeof(joined), "%s%s", number, unit);
	return units_parse_duration(joined, &head->window_ns);
}

static int read_line(struct head *head, const char *line)
{
	if (strncmp(line, "--   ", 5) == 0)
		return read_column(head, line + 5);
	if (strncmp(line, "-- options: ", 12) == 0)
		snprintf(head->options, sizeof(head->options), " %.*s ", HEAD_TEXT_BYTES - 3,
			 line + 12);
	else if (strncmp(line, "-- window: ", 11) == 0)
		return read_window(head, line + 11);
	else if (strcmp(line, "-- internal") == 0)
		head->internal = true;
	return 0;
}

int head_read(const struct source *source, struct head *ret)
{
	const char *at = source->text;
	char line[LINE_BYTES];
	size_t length;
	int r = 0;

	*ret = (struct head){ 0 };
	for (int number = 0; r == 0 && strncmp(at, "--", 2) == 0; number++) {
		length = strcspn(at, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)length, at);
		at += length + 1;
		if (number)
			r = read_line(ret, line);
		else
			snprintf(ret->text, sizeof(ret->text), "%.*s", HEAD_TEXT_BYTES - 1,
				 line + 3);
	}
	return r;
}

bool head_takes(const struct head *head, const char *option)
{
	char word[HEAD_NAME_BYTES];

	snprintf(word, sizeof(word), " %s ", option);
	return strstr(head->options, word);
}

static const char *type_name(const struct head *head, size_t column)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (types[i].type == head->column[column].type &&
		    types[i].id == head->column[column].id)
			return types[i].name;
	return "";
}

void head_write_columns(const struct head *head, FILE *out)
{
	for (size_t i = 0; i < head->columns; i++)
		fprintf(out, "%s%s %s", i ? ", " : "", head->column[i].name, type_name(head, i));
}
