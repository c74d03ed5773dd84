/* Tick: what the daemon does from time to time, whether anything comes or not. */
#include <malloc.h>

#include "daemon/daemon_internal.h"

/* A commit has its price, whatever is in it. */
#define TICK_MS	      250
#define QUIET_TICK_MS 1000
#define QUIET_TICKS   12 /* this many without a record; longer than naming stacks takes */
#define TRIM_TICKS    40 /* 10 s, or longer while ticks are rare */

/* A busy time and large queries leave memory behind, and the next ones may never need as much. */
static void trim(struct daemon *daemon)
{
	core_trim(daemon->core);
	malloc_trim(0);
}

void daemon_checkpoint(struct daemon *daemon, uint64_t now)
{
	struct core_stats stats;

	daemon_note_told(daemon, now);
	core_tick(daemon->core, now);
	daemon_read_sums(daemon);
	daemon_count_losses(daemon, now);
	core_checkpoint(daemon->core, now);
	core_stats(daemon->core, &stats);
	store_pending(daemon->store, stats.oldest_pending_ns, daemon->told_ns);
	store_commit(daemon->store, now);
	daemon_watch_store(daemon, now);
}

static void on_tick(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;

	daemon_tick_missed(daemon, uv_hrtime());
	daemon_checkpoint(daemon, uv_hrtime());
	freed_tick(daemon->freed, uv_hrtime());
	if (daemon->lines)
		lines_tick(daemon->lines, uv_hrtime());
	if (++daemon->ticks % TRIM_TICKS == 0)
		trim(daemon);
	if (++daemon->quiet_ticks % QUIET_TICKS)
		return;
	uv_timer_set_repeat(timer, QUIET_TICK_MS);
	trim(daemon);
}

void daemon_tick(struct daemon *daemon)
{
	uv_timer_start(&daemon->tick, on_tick, TICK_MS, TICK_MS);
}

/* When nothing comes a tick finds nothing to do, and its wake-up is most of the cost of an idle
 * daemon: then ticks are rare, until the next record. */
void daemon_stir(struct daemon *daemon)
{
	if (daemon->quiet_ticks >= QUIET_TICKS)
		daemon_tick(daemon);
	daemon->quiet_ticks = 0;
}
