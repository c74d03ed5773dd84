/* Lived: what clients see who subscribe: the model's rows, with what the model does not know. */
#include "daemon/daemon_internal.h"
#include "daemon/limits.h"
#include "daemon/proc/procfs.h"

#define PPM 1e6

static bool live_begin(struct daemon *daemon, uint64_t now_ns)
{
	if (!daemon->live)
		daemon->live = live_new();
	if (!daemon->live)
		return false;
	if (!live_is_on(daemon->live)) {
		live_start(daemon->live, now_ns);
		core_look(daemon->core, live_row, daemon->live);
	}
	return true;
}

static void on_doing(void *data, const struct core_doing *doing)
{
	struct daemon *daemon = data;

	live_doing(daemon->live, doing, uv_hrtime());
}

static void on_stream(void *data, const struct core_doing *doing)
{
	struct daemon *daemon = data;

	live_stream(daemon->live, doing);
}

static void on_told(void *data, uint32_t pid, const struct price_told *told)
{
	struct daemon *daemon = data;
	const struct core_process *process = core_process_by_pid(daemon->core, pid);
	const struct live_price price = {
		.cost_ppm = (int32_t)(told->price.now * PPM),
		.budget_ppm = (uint32_t)(told->budget * PPM),
		.watched_ppm = (uint32_t)(told->price.share * PPM),
	};

	if (process)
		live_price(daemon->live, process->id, &price);
}

/* A few at a time: this is the loop. */
static void look_up(struct live *live)
{
	char container[PROCFS_CONTAINER_SIZE];
	uint32_t pid;

	for (int i = 0; i < LIMIT_LIVE_LOOKS && (pid = live_unknown(live)); i++) {
		procfs_container(pid, container);
		live_describe(live, pid, container);
	}
}

bool daemon_live(void *data, struct api_live *ret)
{
	struct daemon *daemon = data;
	struct live_message message;
	uint64_t now_ns = uv_hrtime();

	if (!live_begin(daemon, now_ns))
		return false;
	daemon_tell_missed(daemon, now_ns);
	/* A message is of the time since the last one, not of the ticks in between. */
	core_checkpoint(daemon->core, now_ns);
	core_look_devices(daemon->core, on_doing, daemon);
	core_look_streams(daemon->core, now_ns, on_stream, daemon);
	if (daemon->price)
		price_each(daemon->price, on_told, daemon);
	look_up(daemon->live);
	if (live_take(daemon->live, now_ns, &message) < 0)
		return false;
	*ret = (struct api_live){ message.whole, message.changed };
	return true;
}

void daemon_live_end(void *data)
{
	struct daemon *daemon = data;

	daemon->live = live_free(daemon->live);
}
