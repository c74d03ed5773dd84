/* Statement: filled, asked, and its answer opened. */
#include "client/fleet/statement.h"

#include <errno.h>

#include "client/base/complain.h"
#include "client/fleet/source.h"

static int strange(const struct server *server)
{
	complain("Cannot interpret the answer of %s", server->place.base);
	return -EPROTO;
}

int statement_ask(struct server *server, const char *query, const struct fill *fills,
		  struct tsv *ret)
{
	_cleanup_(freep) char *statement = fill_in(source_query(query), fills);
	int r;

	if (!statement) {
		complain_memory();
		return -ENOMEM;
	}
	r = server_ask(server, statement);
	return r == 0 && ret && tsv_open(ret, server->answer) < 0 ? strange(server) : r;
}

int statement_row(const struct server *server, struct tsv *answer, size_t columns)
{
	int r = tsv_next(answer);

	if (r < 0 || (r > 0 && answer->columns != columns))
		return strange(server);
	return r;
}
