/* Fleet sql: passes on a statement that only reads. */
#include <errno.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/fleet/fleet.h"
#include "client/fleet/rows.h"
#include "client/fleet/state.h"
#include "core/limits.h"

int fleet_sql(const struct options *options, const char *statement)
{
	_cleanup_(server_freep) struct server *server = NULL;
	uint64_t limit = options->limit ? options->limit : LIMIT_QUERY_ROWS;
	int r = state_open(options, &server);

	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	server->settings = "&readonly=1";
	r = server_ask(server, statement);
	if (r == 0)
		r = rows_write(server->answer, options, "sql", NULL, limit);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
