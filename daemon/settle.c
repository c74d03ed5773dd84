/* Settle: makes everything that has come so far visible to queries, so that a query right after a
 * program's end, or after an attach, has all of it. Reads the rings; a program that has just ended
 * may still have records in transit; stacks get their names; then comes a commit, and its
 * writing. */
#include "daemon/daemon_internal.h"

/* However many ask, there is at most one commit for them in this time. */
#define SETTLE_PERIOD_NS 5000000

/* The stacks that existed when this was first asked: later ones must not delay it. */
static bool is_named(struct daemon *daemon)
{
	if (!daemon->settle_stacks)
		daemon->settle_stacks = symbolizer_hurry(daemon->symbolizer);
	return symbolizer_named(daemon->symbolizer) >= daemon->settle_stacks;
}

static void settle(struct daemon *daemon, uint64_t now)
{
	struct core_stats core;

	intake_flush(daemon->turn.intake, now);
	core_stats(daemon->core, &core);
	if (core.ending || users_waiting(daemon->users) || !is_named(daemon))
		return;
	daemon->settle_stacks = 0;
	daemon_checkpoint(daemon, now);
	daemon->settled_ns = now;
}

bool daemon_settle(void *data, uint64_t time_ns)
{
	struct daemon *daemon = data;
	uint64_t now = uv_hrtime();
	struct store_stats store;

	if (daemon->settled_ns < time_ns && now - daemon->settled_ns >= SETTLE_PERIOD_NS)
		settle(daemon, now);
	if (daemon->settled_ns < time_ns)
		return false;
	store_stats(daemon->store, &store);
	return !store.queued_batches;
}
