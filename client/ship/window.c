/* Window: a parcel of operations, and of what they need to be understood elsewhere: processes,
 * devices, the clock. */
#include "client/ship/window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/ship/clickhouse.h"
#include "client/ship/machine.h"
#include "client/ship/parcel.h"
#include "client/ship/plan.h"
#include "client/ship/sync.h"
#include "core/base/log.h"

struct window {
	const struct settings *settings;
	int folder;
	struct source source;
	struct clickhouse *server;
	struct machine machine;
	struct offset offset;
	struct parcel *parcel;
};

static void window_done(struct window *window)
{
	source_close(&window->source);
	clickhouse_free(window->server);
	parcel_free(window->parcel);
}

static int failed(const struct window *window, int error)
{
	if (*window->source.why)
		log_error("%s", window->source.why);
	else if (*clickhouse_why(window->server))
		log_error("%s", clickhouse_why(window->server));
	else
		log_error_errno(error, "Cannot put the window together");
	return error;
}

static int make(struct window *window, uint64_t length_ns)
{
	struct parcel_plan plan = plan_start(window->settings, &window->machine, &window->offset);
	int r = plan_window(&window->source, window->server, length_ns, &plan);

	if (r == PLAN_WAIT) {
		log_error("The daemon has recorded nothing yet");
		return -ENODATA;
	}
	if (r < 0)
		return failed(window, r);
	clickhouse_forget_why(window->server);
	plan.version = window->source.connection.hello.version;
	r = parcel_make_unnamed(window->folder, &window->source, &plan, &window->parcel);
	return r < 0 ? failed(window, r) : 0;
}

static int send_all(struct window *window, uint64_t *ret_ops)
{
	struct parcel *parcel = window->parcel;
	struct parcel_block block;
	char token[512];
	int r;

	*ret_ops = 0;
	while ((r = parcel_next(parcel, &block)) > 0) {
		snprintf(token, sizeof(token), "%s/%s/window/%" PRIu64 "/%s/%" PRIu32,
			 window->settings->host, parcel->boot_id, parcel->told_ns, block.table,
			 block.number);
		r = clickhouse_insert(window->server, parcel, &block, token);
		if (r < 0)
			return failed(window, r);
		if (strcmp(block.table, "op") == 0)
			*ret_ops += block.rows;
	}
	return r < 0 ? failed(window, r) : 0;
}

int window_ship(const struct settings *settings, int folder, uint64_t length_ns)
{
	_cleanup_(window_done) struct window window = { .settings = settings, .folder = folder };
	uint64_t ops;
	int r = clickhouse_new(settings, &window.server);

	if (r < 0)
		return log_error_errno(r, "Cannot start");
	machine_read(&window.machine);
	r = source_open(&window.source, settings->socket);
	if (r == 0)
		r = clickhouse_check(window.server);
	if (r < 0)
		return failed(&window, r);
	if (sync_round(window.server, &window.offset, SYNC_SECONDS_ALONE) < 0)
		log_warning("Cannot compare clocks: %s", clickhouse_why(window.server));
	clickhouse_forget_why(window.server);
	r = make(&window, length_ns);
	if (r == 0)
		r = send_all(&window, &ops);
	if (r == 0)
		printf("Sent %" PRIu64 " operations to %s as host '%s'\n", ops,
		       clickhouse_url(window.server), settings->host);
	fflush(stdout); /* of one that goes on */
	return r;
}
