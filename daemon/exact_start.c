/* Exact start: connects the exact tier to the rest of the daemon. */
#include <errno.h>
#include <string.h>

#include "core/base/beside.h"
#include "core/base/log.h"
#include "daemon/daemon_internal.h"
#include "daemon/library/library.h"
#include "daemon/notify.h"
#include "proto/paths.h"

static void on_record(void *data)
{
	daemon_stir(data);
}

static void on_recording(void *data, uint32_t pid, bool on, uint64_t since_ns)
{
	struct daemon *daemon = data;

	price_recording(daemon->price, pid, on, since_ns);
}

/* What windows have missed ends here: from now on all is seen. */
static void on_light(void *data, uint32_t pid, bool light)
{
	struct daemon *daemon = data;

	if (light)
		price_inside_begins(daemon->price, pid, uv_hrtime());
	if (libraries_hold(daemon->libraries, pid, light) < 0)
		log_warning("No memory to leave hot calls of process %u to our library", pid);
	core_set_light(daemon->core, pid, light);
}

static enum hot_state hot(void *data, uint32_t pid)
{
	const struct daemon *daemon = data;

	return libraries_has(daemon->libraries, pid) ? libraries_hot_state(daemon->libraries, pid)
						     : HOT_IS_OPEN;
}

static bool is_watched(void *data, uint32_t pid)
{
	const struct daemon *daemon = data;

	/* A process that is left out has a loss of its own. */
	return libraries_is_watched(daemon->libraries, pid) ||
	       flood_is_out(daemon->flood, pid, PROBE_HOT);
}

static void on_unseen(void *data, uint32_t pid, bool open, uint64_t time_ns)
{
	struct daemon *daemon = data;

	/* The end of a process has closed its entries. */
	if (open && core_process_by_pid(daemon->core, pid))
		ledger_open(&daemon->ledger, pid, LOSS_GAP, LEDGER_EXACT, time_ns);
	else if (!open)
		ledger_close(&daemon->ledger, pid, LOSS_GAP, LEDGER_EXACT, time_ns);
}

static void on_priced(void *data, const struct ts_event *event)
{
	struct daemon *daemon = data;

	if (event->kind == TS_EVENT_COST)
		price_nodes(daemon->price, event->tgid, event->cost.nodes);
	else
		price_inside(daemon->price, event);
}

/* Ours is next to the program, or where it was installed. */
int daemon_find_library(struct daemon *daemon)
{
	if (daemon->config->attach_library[0])
		daemon->library = strdup(daemon->config->attach_library);
	else
		daemon->library = beside_find(TS_INJECT_LIBRARY);
	if (!daemon->library)
		return -ENOMEM;
	exact_helper_library(daemon->library);
	return 0;
}

/* Where the kernel has no links to single processes, the probes could not be kept out of them. */
static bool is_inside(const struct daemon *daemon)
{
	struct probe_stats stats;

	probe_stats(daemon->probe, &stats, NULL, 0);
	return stats.single && daemon->config->light >= LIGHT_IN_EXACT;
}

void daemon_configure_exact(struct daemon *daemon)
{
	if (!daemon->exact)
		return;
	exact_set_budget(daemon->exact, (uint32_t)daemon->config->exact_budget_ppm);
	exact_set_inside(daemon->exact, is_inside(daemon), daemon->config->light == LIGHT_NEVER);
	exact_sample(daemon->exact);
}

int daemon_start_exact(struct daemon *daemon)
{
	struct exact_parts parts = {
		.core = daemon->core,
		.intake = daemon->turn.intake,
		.probe = daemon->probe,
		.remover = libraries_remover(daemon->libraries),
		.linker = libraries_linker(daemon->libraries),
		.helpers = daemon->helpers,
		.attach_kind = daemon_attach_kind(),
		.stir = on_record,
		.recording = on_recording,
		.light = on_light,
		.hot = hot,
		.watched = is_watched,
		.unseen = on_unseen,
		.priced = on_priced,
		.functions = library_functions(),
		.data = daemon,
	};
	struct exact_config config = {
		.fd = notify_listen_fd("inject"),
		.socket = daemon->config->inject_socket,
		.slots = (uint32_t)daemon->config->exact_slots,
		.budget_ppm = (uint32_t)daemon->config->exact_budget_ppm,
	};
	struct probe_stats stats;
	int r;

	probe_stats(daemon->probe, &stats, NULL, 0);
	config.windows = stats.way == PROBE_WAY_MULTI;
	config.inside = is_inside(daemon);
	config.never = daemon->config->light == LIGHT_NEVER;
	r = exact_new(&daemon->loop, &config, &parts, &daemon->exact);
	return r < 0 ? daemon_cannot_listen(config.socket, r) : 0;
}

void daemon_attach(void *data, struct api_ticket *ticket, const struct api_attach *request)
{
	struct daemon *daemon = data;

	if (request->wanted.light && daemon->config->light == LIGHT_NEVER) {
		api_ticket_fail(ticket, REASON(UNSUPPORTED),
				"The settings allow no light mode ('light = never' in [probe])",
				NULL);
		return;
	}
	exact_attach(daemon->exact, ticket, request);
}

void daemon_detach(void *data, struct api_ticket *ticket, const struct api_target *target)
{
	struct daemon *daemon = data;

	exact_detach(daemon->exact, ticket, target);
}
