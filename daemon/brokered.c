/* Brokered: the process that has the rights which the daemon lacks (daemon/broker/), and what the
 * daemon does when it ends. */
#include <errno.h>

#include "core/base/log.h"
#include "daemon/broker/broker.h"
#include "daemon/daemon_internal.h"

/* In the broker, for a file that is named otherwise than a driver library. Which copies are
 * standing may have changed since the start, so that is read now. */
static bool is_wanted(void *data, const char *path, const struct stat *file)
{
	const struct daemon *daemon = data;
	struct libraries_found found = { .count = 0 };
	struct config *config = NULL;
	bool is = library_matches(path, daemon->config->libraries);

	if (is)
		return true;
	if (config_new(&config) == 0 && config_read(config, daemon->config_path, true) == 0)
		libraries_find_standing(config->standing, &found);
	for (uint32_t i = 0; i < found.count; i++)
		is |= found.file[i].device == file->st_dev && found.file[i].inode == file->st_ino;
	libraries_found_clear(&found);
	config_free(config);
	return is;
}

/* Before any thread. */
int daemon_start_broker(struct daemon *daemon)
{
	struct broker_config config = {
		.calibrated = calibrate_place(),
		.wanted = is_wanted,
		.data = daemon,
	};
	int r = config_returns(daemon->config, &config.returns);

	if (r == 0)
		r = broker_start(&config, &daemon->broker);

	return r < 0 ? log_error_errno(r, "Cannot start the broker process") : 0;
}

static void on_broker_end(uv_poll_t *poll, int status, int events)
{
	struct daemon *daemon = poll->data;

	uv_poll_stop(poll);
	log_error("The broker process (ts-broker) has ended: no process can be watched without it, "
		  "so tracesmithd stops; start it again");
	daemon->failed = true;
	uv_stop(&daemon->loop);
}

int daemon_follow_broker(struct daemon *daemon)
{
	int r = uv_poll_init(&daemon->loop, &daemon->broker_ends, broker_life(daemon->broker));

	if (r < 0)
		return r;
	daemon->broker_ends.data = daemon;
	return uv_poll_start(&daemon->broker_ends, UV_READABLE, on_broker_end);
}
