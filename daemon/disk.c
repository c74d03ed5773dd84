/* Disk: sets a damaged database aside; logs, once each, that the store cannot write, that it can
 * again, and what was lost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "daemon/daemon_internal.h"
#include "daemon/limits.h"
#include "daemon/notify.h"

bool daemon_aside(const struct daemon *daemon, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s" STORE_ASIDE, daemon->database);
	return access(path, F_OK) == 0;
}

int daemon_open_store(struct daemon *daemon, const struct store_config *config)
{
	const struct core_loss lost = { .end_ns = uv_hrtime(),
					.reason = LOSS_SET_ASIDE,
					.count = 1 };
	int r = store_open(config, &daemon->store);

	if (r != -EBADMSG || store_set_aside(daemon->database) < 0)
		return r;
	log_warning("'%s' is damaged in a part that nothing works without: it is kept as "
		    "'%s" STORE_ASIDE "', and a new one is made",
		    daemon->database, daemon->database);
	r = store_open(config, &daemon->store);
	if (r == 0)
		store_add(daemon->store, &lost);
	return r;
}

static void disk_tell_begin(struct daemon *daemon, int error)
{
	char text[UNITS_TEXT_SIZE], state[128];

	log_warning_errno(error, "Failed to write '%s', holding up to %s of new data in memory",
			  daemon->database, units_bytes(text, LIMIT_STORE_HELD_BYTES));
	snprintf(state, sizeof(state), "STATUS=Cannot write the database: %s", strerror(-error));
	notify_post(state);
}

static void disk_tell_end(struct daemon *daemon, const struct store_stats *now, uint64_t time_ns)
{
	uint64_t ops = now->ops_dropped - daemon->held_before.ops_dropped;
	uint64_t rows = now->rows_dropped - daemon->held_before.rows_dropped;
	char text[UNITS_TEXT_SIZE];

	units_nanoseconds(text, time_ns - daemon->held_ns);
	if (ops || rows)
		log_warning(
			"Writing '%s' again after %s; %lu operations and %lu other rows were lost",
			daemon->database, text, ops, rows);
	else
		log_info("Writing '%s' again after %s; nothing was lost", daemon->database, text);
	notify_post("STATUS=");
}

void daemon_watch_store(struct daemon *daemon, uint64_t now_ns)
{
	struct store_stats now;

	store_stats(daemon->store, &now);
	if (now.last_error < 0 && !daemon->held_ns) {
		disk_tell_begin(daemon, now.last_error);
		daemon->held_ns = now_ns;
	} else if (!now.last_error && daemon->held_ns) {
		disk_tell_end(daemon, &now, now_ns);
		daemon->held_ns = 0;
	}
	if (!daemon->held_ns)
		daemon->held_before = now;
}

void daemon_stop_store(struct daemon *daemon)
{
	struct store_stats last;

	store_pending(daemon->store, 0, daemon->told_ns);
	store_commit(daemon->store, uv_hrtime());
	store_stop(daemon->store);
	store_stats(daemon->store, &last);
	if (last.last_error < 0)
		log_error_errno(last.last_error,
				"Cannot write '%s': lost %lu operations held in memory and all "
				"data since then",
				daemon->database, last.ops_held);
	else
		daemon_watch_store(daemon, uv_hrtime());
}

uint64_t daemon_held_since(void *data)
{
	struct daemon *daemon = data;

	return store_held_since(daemon->store);
}

void daemon_held_lock(void *data, bool locked)
{
	struct daemon *daemon = data;

	if (locked)
		store_held_lock(daemon->store);
	else
		store_held_unlock(daemon->store);
}
