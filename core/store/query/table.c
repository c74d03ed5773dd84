/* Table: the queries, from the files NAME.sql of this folder. Most read the rollups, with a
 * resolution of one second, or one minute for data older than two minutes, so that their cost does
 * not grow with the number of calls. They see the current boot only. */
#include "core/store/query/table.h"

#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/distance.h"
#include "core/base/time.h"
#include "core/store/query/phrase.h"
#include "proto/event.h"

#define COLUMNS(...)                                                                               \
	(const struct query_column[])                                                              \
	{                                                                                          \
		__VA_ARGS__,                                                                       \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
#define T(type) TRACESMITH__V1__COLUMNS__TYPE__##type

/* What a file may call a column's type, and whether sorting by it starts with the smallest. */
#define COLUMN_ID		T(INTEGER), true
#define COLUMN_INTEGER		T(INTEGER), false
#define COLUMN_REAL		T(REAL), false
#define COLUMN_TEXT		T(TEXT), true
#define COLUMN_TIME		T(TIME), false
#define COLUMN_NANOSECONDS	T(NANOSECONDS), false
#define COLUMN_BYTES		T(BYTES), false
#define COLUMN_BYTES_PER_SECOND T(BYTES_PER_SECOND), false
#define COLUMN_SHARE		T(SHARE), false
#define COLUMN_HANDLE		T(HANDLE), true
#define COLUMN_STACK		T(STACK), false
#define TS_RECORD_ALL		TS_RECORDS_ALL

#include "core/store/query/queries.h"

const struct query *query_at(size_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
		if (!(queries[i].flags & QUERY_IS_INTERNAL) && number-- == 0)
			return &queries[i];
	return NULL;
}

const struct query *query_at_all(size_t number)
{
	return number < ARRAY_SIZE(queries) ? &queries[number] : NULL;
}

const struct query *query_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
		if (strcmp(queries[i].name, name) == 0)
			return &queries[i];
	return NULL;
}

const char *query_near(const char *name)
{
	const struct query *query;

	for (size_t i = 0; (query = query_at(i)); i++)
		if (distance_near(name, query->name))
			return query->name;
	return NULL;
}

void query_options_text(const struct query *query, char *out)
{
	static const struct {
		uint32_t option;
		const char *text;
	} texts[] = {
		{ QUERY_PID, "pid user" },
		{ QUERY_WINDOW, "since until" },
		{ QUERY_MIN_AGE, "min_age" },
		{ QUERY_STREAM, "stream" },
		{ QUERY_DEVICE, "device" },
		{ QUERY_BY_STACK, "by_stack" },
		{ QUERY_BY_STREAM, "by_stream" },
		{ QUERY_BY_PLACE, "by" },
		{ QUERY_AFTER, "after" },
		{ QUERY_STEP, "step" },
		{ QUERY_PROCESS, "process" },
		{ QUERY_TID, "tid" },
		{ QUERY_ALL, "all" },
		{ QUERY_NUMBER, "number" },
		{ QUERY_BOOT, "boot" },
	};

	snprintf(out, QUERY_OPTIONS_TEXT_MAX, "limit sort%s", query->search ? " name" : "");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!(query->options & texts[i].option))
			continue;
		strcat(out, " ");
		strcat(out, texts[i].text);
	}
}
