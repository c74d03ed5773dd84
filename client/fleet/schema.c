/* Schema: reads a step line by line. In its files each clause has a line of its own, and each
 * column; a line of a column that is added is read as one of a table that is made. */
#include "client/fleet/schema.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fleet/fill.h"
#include "core/base/cleanup.h"
#include "core/base/text.h"
#include "core/base/vector.h"

#define PLAIN_ENGINE	"ENGINE = ReplacingMergeTree("
#define PLAIN_WINDOW	"SETTINGS non_"
#define LOW_CARDINALITY "LowCardinality("
#define ADD_COLUMN	"\tADD COLUMN "
#define LINE_BYTES	1024
#define TABLE_BYTES	64
#define LOCAL_BYTES	(TABLE_BYTES + 8)

/* Where a step is read. */
struct reader {
	const char *at;
	char line[LINE_BYTES];
	char table[TABLE_BYTES]; /* that is made now */
	bool host;		 /* it has a column of this name, by which it is sharded */
	bool there;		 /* columns are added to it */
	bool ends;		 /* this line ends the statement */
};

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* The next line that is neither empty nor a comment, without its end and semicolon. */
static bool next_line(struct reader *reader)
{
	size_t length;

	do {
		if (!*reader->at)
			return false;
		length = strcspn(reader->at, "\n");
		snprintf(reader->line, sizeof(reader->line), "%.*s", (int)length, reader->at);
		reader->at += length + (reader->at[length] == '\n');
	} while (!*reader->line || starts(reader->line, "--"));
	length = strlen(reader->line);
	reader->ends = reader->line[length - 1] == ';';
	if (reader->ends)
		reader->line[length - 1] = '\0';
	if (starts(reader->line, "CREATE ") || starts(reader->line, "ALTER ")) {
		snprintf(reader->table, sizeof(reader->table), "%s",
			 strrchr(reader->line, ' ') + 1);
		reader->host = false;
		reader->there = *reader->line == 'A';
	}
	if (starts(reader->line, ADD_COLUMN))
		memmove(reader->line + 1, reader->line + strlen(ADD_COLUMN),
			strlen(reader->line + strlen(ADD_COLUMN)) + 1);
	if (starts(reader->line, "\thost "))
		reader->host = true;
	return true;
}

/* The type in a line of a column, as the server will call it. */
static char *type_of(const char *line, bool old)
{
	const char *type = strchr(line, ' ') + 1;
	const char *end = strstr(type, " CODEC(");
	size_t length = end ? (size_t)(end - type) : strcspn(type, ",");

	if (!end && type[strlen(type) - 1] != ',')
		length = strlen(type);
	if (old && starts(type, LOW_CARDINALITY)) {
		type += strlen(LOW_CARDINALITY);
		length -= strlen(LOW_CARDINALITY) + 1;
	}
	return strndup(type, length);
}

static int put_column(FILE *out, const char *line, bool old)
{
	_cleanup_(freep) char *type = type_of(line, true);
	size_t name = (size_t)(strchr(line, ' ') - line);

	if (!type)
		return -ENOMEM;
	if (old)
		fprintf(out, "%.*s %s%s\n", (int)name, line, type,
			line[strlen(line) - 1] == ',' ? "," : "");
	else
		fprintf(out, "%s\n", line);
	return 0;
}

static void put_engine(FILE *out, const struct reader *reader, const struct schema_target *target)
{
	const char *version = reader->line + strlen(PLAIN_ENGINE);

	if (target->cluster)
		fprintf(out,
			"ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/%s/%s', "
			"'{replica}'%s%s\n",
			target->database, reader->table, *version == ')' ? "" : ", ", version);
	else
		fprintf(out, "%s\n", reader->line);
}

static int put_line(FILE *out, const struct reader *reader, const struct schema_target *target)
{
	const char *line = reader->line;

	if (starts(line, "CREATE "))
		fprintf(out, "%.*s%s.%s%s%s\n", (int)(strrchr(line, ' ') + 1 - line), line,
			target->database, reader->table,
			target->cluster ? "_local ON CLUSTER " : "",
			target->cluster ? target->cluster : "");
	else if (*line == '\t')
		return put_column(out, line, target->old);
	else if (starts(line, PLAIN_ENGINE))
		put_engine(out, reader, target);
	else if (target->old && (starts(line, "TTL ") || starts(line, "SETTINGS ")))
		return 0;
	else if (target->cluster && starts(line, PLAIN_WINDOW))
		fprintf(out, "SETTINGS %s\n", line + strlen(PLAIN_WINDOW));
	else
		fprintf(out, "%s\n", line);
	return 0;
}

/* The table over those of all nodes. */
static int distribute(const struct reader *reader, const struct schema_target *target,
		      int (*each)(void *data, const char *statement), void *data)
{
	char local[LOCAL_BYTES];
	const struct fill fills[] = {
		{ "database", target->database, false },
		{ "table", reader->table, false },
		{ "local", local, false },
		{ "cluster", target->cluster, false },
		{ "key", reader->host ? "cityHash64(host)" : "rand()", false },
		{ 0 },
	};
	_cleanup_(freep) char *text = NULL;

	snprintf(local, sizeof(local), "%s_local", reader->table);
	text = fill_in(source_query("distribute"), fills);
	if (!text)
		return -ENOMEM;
	return each(data, text);
}

/* Of the column in a line. */
static void name_of(const struct reader *reader, char ret[TABLE_BYTES])
{
	snprintf(ret, TABLE_BYTES, "%.*s", (int)strcspn(reader->line + 1, " "), reader->line + 1);
}

static bool has(const struct schema *schema, const char *table, const char *name)
{
	for (size_t i = 0; schema && i < schema->count; i++)
		if (strcmp(schema->column[i].table, table) == 0 &&
		    strcmp(schema->column[i].name, name) == 0)
			return true;
	return false;
}

static int add_column(const struct reader *reader, const struct schema_target *target,
		      int (*each)(void *data, const char *statement), void *data)
{
	_cleanup_(freep) char *text = NULL, *type = type_of(reader->line, target->old);
	const char *codec = target->old ? NULL : strstr(reader->line, " CODEC(");
	char table[LOCAL_BYTES], name[TABLE_BYTES];
	int length;

	name_of(reader, name);
	snprintf(table, sizeof(table), "%s%s", reader->table, target->cluster ? "_local" : "");
	if (type && has(target->found, table, name))
		return 0;
	codec = codec ? codec : "";
	length = (int)strlen(codec);
	length -= length && codec[length - 1] == ',';
	if (!type ||
	    asprintf(&text, "ALTER TABLE %s.%s%s%s ADD COLUMN %s %s%.*s", target->database, table,
		     target->cluster ? " ON CLUSTER " : "", target->cluster ? target->cluster : "",
		     name, type, length, codec) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return each(data, text);
}

/* What is over the tables of all nodes is made anew: ALTER ... ON CLUSTER is refused for it. */
static int distribute_again(struct reader *reader, const struct schema_target *target,
			    int (*each)(void *data, const char *statement), void *data)
{
	_cleanup_(schema_done) struct schema all = { 0 };
	_cleanup_(freep) char *text = NULL;
	int r = schema_expect(UINT_MAX, target, &all);

	if (r == 0 && asprintf(&text, "DROP TABLE IF EXISTS %s.%s ON CLUSTER %s", target->database,
			       reader->table, target->cluster) < 0) {
		text = NULL;
		r = -ENOMEM;
	}
	reader->host = has(&all, reader->table, "host");
	if (r == 0)
		r = each(data, text);
	return r < 0 ? r : distribute(reader, target, each, data);
}

/* A statement for each column, as those that are there are left out. */
static int alter(struct reader *reader, const struct schema_target *target,
		 int (*each)(void *data, const char *statement), void *data)
{
	char name[TABLE_BYTES];
	bool again = false;
	int r = 0;

	while (r == 0 && !reader->ends && next_line(reader)) {
		name_of(reader, name);
		again |= !has(target->found, reader->table, name);
		r = add_column(reader, target, each, data);
	}
	return r < 0 || !again || !target->cluster ? r
						   : distribute_again(reader, target, each, data);
}

static int statement(struct reader *reader, const struct schema_target *target,
		     int (*each)(void *data, const char *statement), void *data)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *out = text_open(&text, &size);
	int r = out ? 0 : -ENOMEM;

	if (!out)
		return r;
	do {
		r = put_line(out, reader, target);
	} while (r == 0 && !reader->ends && next_line(reader));
	if (text_close(out) < 0)
		r = -ENOMEM;
	if (r == 0)
		r = each(data, text);
	if (r == 0 && target->cluster)
		r = distribute(reader, target, each, data);
	return r;
}

int schema_statements(const struct source *step, const struct schema_target *target,
		      int (*each)(void *data, const char *statement), void *data)
{
	struct reader reader = { .at = step->text };
	int r = 0;

	while (r == 0 && next_line(&reader))
		r = reader.there ? alter(&reader, target, each, data)
				 : statement(&reader, target, each, data);
	return r;
}

/* Keeps a text for as long as the schema; NULL: no memory. */
static const char *keep(struct schema *schema, char *text)
{
	if (!text || VECTOR_ROOM(schema->text, schema->text_room, schema->text_count + 1) < 0) {
		free(text);
		return NULL;
	}
	return schema->text[schema->text_count++] = text;
}

int schema_add(struct schema *schema, const char *table, const char *name, const char *type)
{
	struct schema_column column = {
		.table = keep(schema, strdup(table)),
		.name = keep(schema, strdup(name)),
		.type = keep(schema, strdup(type)),
	};

	if (!column.table || !column.name || !column.type ||
	    VECTOR_ROOM(schema->column, schema->room, schema->count + 1) < 0)
		return -ENOMEM;
	schema->column[schema->count++] = column;
	return 0;
}

/* A line of a column; on a cluster it is in two tables. */
static int expect(struct schema *schema, const struct reader *reader,
		  const struct schema_target *target)
{
	_cleanup_(freep) char *type = type_of(reader->line, target->old);
	char name[TABLE_BYTES], local[LOCAL_BYTES];
	int r;

	name_of(reader, name);
	snprintf(local, sizeof(local), "%s_local", reader->table);
	r = type ? schema_add(schema, reader->table, name, type) : -ENOMEM;
	return r < 0 || !target->cluster ? r : schema_add(schema, local, name, type);
}

int schema_expect(unsigned version, const struct schema_target *target, struct schema *ret)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < version && source_steps[i].name; i++) {
		struct reader reader = { .at = source_steps[i].text };

		while (r == 0 && next_line(&reader))
			if (*reader.line == '\t')
				r = expect(ret, &reader, target);
	}
	return r;
}

void schema_done(struct schema *schema)
{
	for (size_t i = 0; i < schema->text_count; i++)
		free(schema->text[i]);
	free(schema->text);
	free(schema->column);
	*schema = (struct schema){ 0 };
}
