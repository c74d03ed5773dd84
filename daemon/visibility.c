/* Visibility: makes everything that has come so far visible to queries, so that a query right after
 * a program's end, or after an attach, has all of it. Reads the rings; a program that has just
 * ended may still have records in transit; stacks get their names and lines; then comes a commit,
 * and its writing. */
#include "daemon/daemon_internal.h"

/* However many ask, there is at most one commit for them in this time. */
#define PERIOD_NS 5000000

/* Lines are worth this wait: most files take some milliseconds, and the others come later. */
#define LINES_NS 500000000

/* The stacks that existed when this was first asked: later ones must not delay it. */
static bool is_named(struct daemon *daemon)
{
	if (!daemon->visible_pythons)
		daemon->visible_pythons = pythons_asked(daemon->pythons);
	if (pythons_answered(daemon->pythons) < daemon->visible_pythons)
		return false;
	if (!daemon->visible_stacks)
		daemon->visible_stacks = symbolizer_hurry(daemon->symbolizer);
	return symbolizer_named(daemon->symbolizer) >= daemon->visible_stacks;
}

static bool is_lined(struct daemon *daemon, uint64_t now)
{
	if (!daemon->lines || !lines_busy(daemon->lines))
		return true;
	if (!daemon->visible_lines_ns)
		daemon->visible_lines_ns = now;
	return now - daemon->visible_lines_ns > LINES_NS;
}

static enum api_visible hurry(struct daemon *daemon, uint64_t now, uint64_t time_ns,
			      uint64_t *ret_up_to_ns)
{
	uint64_t reached_ns = daemon_reach(daemon, now);
	struct core_stats core;

	if (reached_ns < time_ns) {
		if (reached_ns < *ret_up_to_ns)
			*ret_up_to_ns = reached_ns;
		return API_READING;
	}
	core_stats(daemon->core, &core);
	if (core.ending || users_waiting(daemon->users) || daemon_awaits_helpers(daemon) ||
	    !is_named(daemon) || !is_lined(daemon, now))
		return API_WAITING;
	daemon->visible_stacks = daemon->visible_pythons = 0;
	daemon->visible_lines_ns = 0;
	if (daemon->price)
		price_tell(daemon->price, reached_ns);
	daemon_tell_missed(daemon, reached_ns);
	daemon_checkpoint(daemon, now);
	daemon->visible_ns = reached_ns;
	return API_WAITING;
}

enum api_visible daemon_make_visible(void *data, uint64_t time_ns, uint64_t *ret_up_to_ns)
{
	struct daemon *daemon = data;
	uint64_t now = uv_hrtime();
	struct store_stats store;

	store_stats(daemon->store, &store);
	*ret_up_to_ns = store.written_ns;
	if (daemon->visible_ns < time_ns && now - daemon->visible_ns < PERIOD_NS)
		return API_WAITING;
	if (daemon->visible_ns < time_ns &&
	    hurry(daemon, now, time_ns, ret_up_to_ns) == API_READING)
		return API_READING;
	if (daemon->visible_ns < time_ns)
		return API_WAITING;
	store_stats(daemon->store, &store); /* after the commit */
	return store.queued_batches ? API_WRITING : API_VISIBLE;
}
