/* State: what the server's own tables say of ours, against what the steps make. */
#include "client/fleet/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/fleet/statement.h"

unsigned state_newest(void)
{
	unsigned count = 0;

	while (source_steps[count].name)
		count++;
	return count;
}

struct schema_target state_target(const struct server *server, const char *cluster)
{
	return (struct schema_target){
		.database = server->place.database,
		.cluster = cluster,
		.old = server->number < STATE_MODERN,
	};
}

static int ask(struct server *server, const char *query, bool quoted, struct tsv *ret)
{
	const struct fill fills[] = { { "database", server->place.database, quoted }, { 0 } };

	return statement_ask(server, query, fills, ret);
}

int state_read(struct server *server, struct state *ret)
{
	struct tsv answer;
	struct state state = { 0 };
	int r = ask(server, "tables", true, &answer);

	if (r < 0)
		return r;
	while (tsv_next(&answer) == 1) {
		if (answer.columns != 2 || strcmp(answer.cell[0], "version") != 0)
			continue;
		state.there = true;
		state.distributed = strcmp(answer.cell[1], "Distributed") == 0;
	}
	if (state.there) {
		r = ask(server, "version", false, &answer);
		if (r < 0)
			return r;
		if (tsv_next(&answer) == 1)
			state.version = (unsigned)strtoul(answer.cell[0], NULL, 10);
	}
	*ret = state;
	return 0;
}

static int order(const void *one, const void *other)
{
	const struct schema_column *a = one, *b = other;
	int by = strcmp(a->table, b->table);

	return by ? by : strcmp(a->name, b->name);
}

static int not_read(const struct server *server, int error)
{
	if (error == -ENOMEM || error == -EPROTO)
		complain("Cannot read the columns of '%s': %s", server->place.database,
			 strerror(-error));
	return error;
}

static void sort(struct schema *schema)
{
	if (schema->count)
		qsort(schema->column, schema->count, sizeof(*schema->column), order);
}

int state_columns(struct server *server, struct schema *ret)
{
	struct tsv answer;
	int r = ask(server, "columns", true, &answer);

	while (r >= 0 && (r = tsv_next(&answer)) == 1)
		r = answer.columns == 3
			    ? schema_add(ret, answer.cell[0], answer.cell[1], answer.cell[2])
			    : -EPROTO;
	sort(ret);
	return not_read(server, r);
}

static const struct schema_column *find(const struct schema *schema,
					const struct schema_column *column)
{
	return schema->count
		       ? bsearch(column, schema->column, schema->count, sizeof(*column), order)
		       : NULL;
}

static bool has_table(const struct schema *schema, const char *table)
{
	for (size_t i = 0; i < schema->count; i++)
		if (strcmp(schema->column[i].table, table) == 0)
			return true;
	return false;
}

static int differs(const struct server *server, const struct schema_column *column, const char *how,
		   const char *type)
{
	complain("Table '%s.%s' was changed by hand: column '%s' %s%s. Undo that, or take another "
		 "database",
		 server->place.database, column->table, column->name, how, type);
	return -EINVAL;
}

static int compare(const struct server *server, const struct state *state,
		   const struct schema *wanted, const struct schema *newest,
		   const struct schema *found)
{
	const struct schema_column *column, *other;

	for (size_t i = 0; i < wanted->count; i++) {
		column = &wanted->column[i];
		other = find(found, column);
		if (!other && !state->version && !has_table(found, column->table))
			continue;
		if (!other)
			return differs(server, column, "is missing", "");
		if (strcmp(other->type, column->type) != 0)
			return differs(server, other, "is a ", other->type);
	}
	for (size_t i = 0; i < found->count; i++) {
		column = &found->column[i];
		/* Those of a later step are of one that was interrupted. */
		if (has_table(wanted, column->table) && !find(newest, column))
			return differs(server, column, "was added", "");
	}
	return 0;
}

int state_check(const struct server *server, const struct state *state,
		const struct schema_target *target)
{
	_cleanup_(schema_done) struct schema wanted = { 0 }, newest = { 0 };
	int r = schema_expect(state->version ? state->version : 1, target, &wanted);

	if (r == 0)
		r = schema_expect(state_newest(), target, &newest);
	if (r < 0)
		return not_read(server, r);
	sort(&wanted);
	sort(&newest);
	return compare(server, state, &wanted, &newest, target->found);
}

static int need(struct server *server)
{
	struct state state;
	int r = state_read(server, &state);

	if (r < 0)
		return r;
	if (!state.version) {
		complain("Database '%s' of %s has no tables of a fleet: run 'tsctl fleet init'",
			 server->place.database, server->place.base);
		return -ENOENT;
	}
	if (state.version < state_newest()) {
		complain("The fleet in '%s' of %s has version %u, and this tsctl asks version %u: "
			 "run 'tsctl fleet init'",
			 server->place.database, server->place.base, state.version, state_newest());
		return -ENOENT;
	}
	server->database_used = true;
	return 0;
}

int state_open(const struct options *options, struct server **ret)
{
	int r = server_open(options, ret);

	return r < 0 ? r : need(*ret);
}
