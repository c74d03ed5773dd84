/* Reread: reads the settings again, on SIGHUP. A thread of the pool does it, because names of users
 * and groups come from a name service and libraries from a disk; the loop then applies what was
 * read, all of it or nothing. */
#include <stdlib.h>

#include "core/base/log.h"
#include "daemon/daemon_internal.h"

struct reread {
	struct daemon *daemon;
	uv_work_t work;
	/* Of the thread: */
	int error;
	struct config *config;
	struct probe_config probe;
	struct libraries_found standing;
};

static void reread_start(struct daemon *daemon);

static void on_work(uv_work_t *work)
{
	struct reread *reread = work->data;
	int r = config_new(&reread->config);

	if (r == 0)
		r = config_read(reread->config, reread->daemon->config_path, true);
	if (r == 0)
		r = config_probe(reread->config, &reread->probe);
	if (r == 0)
		libraries_find_standing(reread->config->standing, &reread->standing);
	reread->error = r;
}

/* Processes traced from now on may have done something before that we do not know of. */
static void lose_by_filters(struct daemon *daemon)
{
	uint64_t now = uv_hrtime();
	struct core_loss loss = {
		.start_ns = now, .end_ns = now, .reason = LOSS_FILTER, .count = 1
	};

	core_lose(daemon->core, &loss);
}

static void reread_apply(struct reread *reread)
{
	struct daemon *daemon = reread->daemon;

	if (!probe_config_same_filters(&reread->probe, &daemon->probe_config))
		lose_by_filters(daemon);
	daemon_choose_unwind(daemon, &reread->probe);
	daemon->probe_config = reread->probe;
	probe_configure(daemon->probe, &reread->probe);
	libraries_add_standing(daemon->libraries, &reread->standing);
	daemon->config->budget_ppm = reread->config->budget_ppm;
	daemon->config->exact_budget_ppm = reread->config->exact_budget_ppm;
	daemon->config->trap_limit_ppm = reread->config->trap_limit_ppm;
	daemon->config->light = reread->config->light;
	daemon_configure_price(daemon);
	daemon_configure_exact(daemon);
	daemon_configure_flood(daemon);
	log_set_level((enum log_level)reread->config->log_level);
	log_info("Reread '%s': probes, filters and log level now follow it; other settings need a "
		 "restart",
		 daemon->config_path);
}

static void on_done(uv_work_t *work, int status)
{
	struct reread *reread = work->data;
	struct daemon *daemon = reread->daemon;
	bool stopping = uv_is_closing((uv_handle_t *)&daemon->on_hangup);

	if (reread->error < 0)
		log_error("Keeping the old settings");
	else if (!stopping)
		reread_apply(reread);
	libraries_found_clear(&reread->standing);
	config_free(reread->config);
	free(reread);
	daemon->rereading = false;
	if (daemon->reread_again && !stopping)
		reread_start(daemon);
}

static void reread_start(struct daemon *daemon)
{
	struct reread *reread = calloc(1, sizeof(*reread));

	daemon->reread_again = false;
	if (!reread)
		return;
	reread->daemon = daemon;
	reread->work.data = reread;
	daemon->rereading = true;
	/* It fails only without a function to run. */
	uv_queue_work(&daemon->loop, &reread->work, on_work, on_done);
}

/* What changed after the file was read would be missed: then it is read once more. */
void daemon_on_hangup(uv_signal_t *signal, int number)
{
	struct daemon *daemon = signal->data;

	if (daemon->rereading)
		daemon->reread_again = true;
	else
		reread_start(daemon);
}
