/* Brokered: the process that has the rights which the daemon lacks (daemon/broker/), and what the
 * daemon does when it ends, or another one that it needs. */
#include <errno.h>

#include "core/base/log.h"
#include "daemon/broker/broker.h"
#include "daemon/daemon_internal.h"
#include "daemon/proc/opener.h"

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

static const char *const ended[DAEMON_OTHERS] = {
	[DAEMON_BROKER] = "The broker process (ts-broker) has ended: no process can be watched",
	[DAEMON_ZYGOTE] =
		"The process that starts all others (ts-zygote) has ended: no query can be "
		"answered, and nothing read of a process,",
	[DAEMON_OPENER] =
		"A process that the daemon asks (ts-opener) has ended: nothing can be read "
		"of a process",
};

static void on_other_end(uv_poll_t *poll, int status, int events)
{
	struct daemon *daemon = poll->data;

	uv_poll_stop(poll);
	log_error("%s without it, so tracesmithd stops; start it again",
		  ended[poll - daemon->other_ends]);
	daemon->failed = true;
	uv_stop(&daemon->loop);
}

int daemon_follow_others(struct daemon *daemon)
{
	const int life[DAEMON_OTHERS] = {
		[DAEMON_BROKER] = broker_life(daemon->broker),
		[DAEMON_ZYGOTE] = daemon->zygote,
		[DAEMON_OPENER] = opener_life(),
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < DAEMON_OTHERS; i++) {
		uv_poll_t *poll = &daemon->other_ends[i];

		/* None says a word unasked but at its end. */
		r = uv_poll_init(&daemon->loop, poll, life[i]);
		if (r < 0)
			return r;
		poll->data = daemon;
		r = uv_poll_start(poll, i == DAEMON_BROKER ? UV_READABLE : UV_DISCONNECT,
				  on_other_end);
	}
	return r;
}
