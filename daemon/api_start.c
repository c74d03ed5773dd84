/* Api start: what answers clients, and the processes that do it (daemon/helper/spawn.h). */
#include <errno.h>

#include "core/base/array.h"
#include "core/base/log.h"
#include "daemon/daemon_internal.h"
#include "daemon/helper/spawn.h"
#include "daemon/notify.h"
#include "daemon/query/helper.h"

static const struct spawn_role roles[] = {
	[ROLE_QUERY] = { "ts-query", query_helper_run },
	[ROLE_HELPER] = { "ts-helper", daemon_help },
	[ROLE_ATTACH] = { "ts-attach", daemon_help_attaching },
};

/* Before any thread. */
int daemon_start_zygote(struct daemon *daemon)
{
	int r;

	daemon_name_helpers();
	r = spawn_start(roles, ARRAY_SIZE(roles), &daemon->zygote);
	return r < 0 ? log_error_errno(r, "Cannot start a process for helpers") : 0;
}

int daemon_cannot_listen(const char *path, int r)
{
	if (r == -EADDRINUSE)
		log_error("Another tracesmithd is already listening on '%s'", path);
	else if (r == -EEXIST)
		log_error("Cannot listen on '%s': there is a file that is not a socket; remove it, "
			  "or set another path",
			  path);
	else
		log_error_errno(r, "Cannot listen on '%s'", path);
	return r;
}

int daemon_start_api(struct daemon *daemon)
{
	struct api_callbacks callbacks = {
		.status = daemon_report,
		.make_visible = daemon_make_visible,
		.watched = daemon_watched,
		.unlooked = daemon_unlooked,
		.attach = daemon_attach,
		.detach = daemon_detach,
		.budget = daemon_budget,
		.measure = daemon_measure,
		.stack = daemon_stack,
		.live = daemon_live,
		.live_end = daemon_live_end,
		.held_since = daemon_held_since,
		.held_lock = daemon_held_lock,
	};
	struct api_config config = {
		.fd = notify_listen_fd("control"),
		.path = daemon->config->control_socket,
		.group = daemon->config->control_group,
		.own = daemon->config->others,
		.database = daemon->database,
		.boot_id = daemon->boot_id,
		.zygote = daemon->zygote,
		.query_role = ROLE_QUERY,
		.wall_offset_ns = daemon->wall_offset_ns,
	};
	int r = api_new(&daemon->loop, &config, &callbacks, daemon, &daemon->api);

	return r < 0 ? daemon_cannot_listen(config.path, r) : 0;
}
