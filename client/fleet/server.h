/* server.h: a ClickHouse server, asked over HTTP, one statement at a time. What fails is printed.
 */
#ifndef TS_CLIENT_FLEET_SERVER_H
#define TS_CLIENT_FLEET_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "client/base/options.h"
#include "client/fleet/place.h"
#include "core/base/cleanup.h"

struct server {
	const struct curl_library *curl;
	void *handle;
	struct place place;
	char *version;	      /* as it calls itself */
	unsigned number;      /* its major version * 1000 + its minor one */
	bool database_used;   /* statements are about it, so that it must exist */
	const char *settings; /* "&name=value" for the next statements, or NULL */
	char *answer;	      /* to the last statement */
	size_t answer_size;
	bool answer_long;
};

/* Of --url, or else of the environment. Asks it for its version. -EINVAL: what was given is wrong.
 */
int server_open(const struct options *options, struct server **ret);
struct server *server_free(struct server *server);

/* The answer is in server->answer: tabs between the columns, their names and types in the first two
 * lines. -ETIMEDOUT: it was not done in time; servers of a cluster may still do it. */
int server_ask(struct server *server, const char *statement);

CLEANUP_DEFINE(struct server, server_free)

#endif
