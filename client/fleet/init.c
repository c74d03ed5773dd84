/* Fleet init: applies the steps that the server lacks. What was interrupted goes on where it was:
 * every statement of a step may be repeated, and a step counts when all of it is done. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/fleet/fleet.h"
#include "client/fleet/state.h"
#include "client/fleet/statement.h"

/* A server that has missed a statement in its cluster's queue (seen with 18.16) looks there again
 * when the next one comes. */
#define LATE_TRIES 3

/* A column counts as added when all replicas have it: what comes next may be done by any. */
static int run(void *data, const char *statement)
{
	struct server *server = data;
	int r;

	server->settings = "&replication_alter_partitions_sync=2";
	r = server_ask(server, statement);
	server->settings = NULL;
	return r;
}

static int make_database(struct server *server, const char *cluster)
{
	char on[128] = "";
	const struct fill fills[] = {
		{ "database", server->place.database, false },
		{ "on", on, false },
		{ 0 },
	};

	if (cluster)
		snprintf(on, sizeof(on), " ON CLUSTER %s", cluster);
	return statement_ask(server, "create-database", fills, NULL);
}

static int note_step(struct server *server, unsigned version, const char *cluster)
{
	char number[16];
	const struct fill fills[] = {
		{ "database", server->place.database, false },
		{ "version", number, false },
		{ "by", "tsctl " TS_VERSION, true },
		{ 0 },
	};
	int r;

	snprintf(number, sizeof(number), "%u", version);
	server->settings = cluster ? "&insert_distributed_sync=1" : NULL;
	r = statement_ask(server, "applied", fills, NULL);
	server->settings = NULL;
	return r;
}

static int apply(struct server *server, const struct state *state,
		 const struct schema_target *target)
{
	int r = state->version ? 0 : make_database(server, target->cluster);

	for (unsigned i = state->version; r == 0 && source_steps[i].name; i++) {
		r = schema_statements(&source_steps[i], target, run, server);
		if (r == -ENOMEM)
			complain_memory();
		if (r == 0)
			r = note_step(server, i + 1, target->cluster);
		if (r == 0)
			printf("applied %s.sql\n", source_steps[i].name);
	}
	return r;
}

static int check_form(const struct server *server, const struct state *state, const char *cluster)
{
	if (!state->there || state->distributed == !!cluster)
		return 0;
	complain(cluster ? "The tables in '%s' of %s are those of one node: take another database "
			   "for a cluster"
			 : "The tables in '%s' of %s are those of a cluster: give its name, "
			   "--cluster",
		 server->place.database, server->place.base);
	return -EINVAL;
}

static int check_version(const struct server *server, const struct state *state)
{
	if (state->version <= state_newest())
		return 0;
	complain(
		"The fleet in '%s' of %s has version %u, and this tsctl knows %u: take a newer one",
		server->place.database, server->place.base, state->version, state_newest());
	return -EINVAL;
}

static int bring_up(struct server *server, const char *cluster)
{
	_cleanup_(schema_done) struct schema found = { 0 };
	struct schema_target target = state_target(server, cluster);
	struct state state;
	int r = state_read(server, &state);

	target.found = &found;
	if (r == 0)
		r = check_form(server, &state, cluster);
	if (r == 0)
		r = check_version(server, &state);
	if (r == 0)
		r = state_columns(server, &found);
	if (r == 0)
		r = state_check(server, &state, &target);
	return r < 0 ? r : apply(server, &state, &target);
}

int fleet_init(const struct options *options)
{
	_cleanup_(server_freep) struct server *server = NULL;
	int r = server_open(options, &server);

	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	r = bring_up(server, options->cluster);
	for (int i = 1; r == -ETIMEDOUT && i < LATE_TRIES; i++) {
		complain("Trying again: what is done already is left as it is");
		r = bring_up(server, options->cluster);
	}
	if (r < 0)
		return EXIT_FAILED;
	printf("'%s' at %s has version %u (ClickHouse %s%s%s)\n", server->place.database,
	       server->place.base, state_newest(), server->version,
	       options->cluster ? ", cluster " : "", options->cluster ? options->cluster : "");
	return EXIT_DONE;
}
