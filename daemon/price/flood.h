/* flood.h: who runs into probes so often that the host suffers, and is left out for a while.
 *
 * Reports of a framework's allocator have a limit of their own. They cannot be watched in windows
 * as hot calls are, since a block whose end is missed would look like a leak: so they are watched
 * whole, as long as that is within half of the budget, or not at all for some time.
 *
 * core/price/bound.h decides for one process; here are the processes, what the programs count of
 * them, and how long work waits for the kernel's workers: if too long, those who run into probes
 * most are left out, one after the other.
 */
#ifndef TS_FLOOD_H
#define TS_FLOOD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/probe/libraries.h"
#include "daemon/probe/probe.h"

struct flood;

struct flood_config {
	double limit;	 /* of the time of one CPU in traps, for each process; 0: none */
	uint64_t hit_ns; /* what a hit takes of it on this host */
};

/* What watching the reports of a process may cost it. */
struct flood_may {
	double budget; /* share of its speed; 0: no limit */
	double part;   /* of what the hits take, that makes it slower */
};

struct flood_callbacks {
	void (*may)(void *data, uint32_t pid, struct flood_may *ret);
	/* Its reports are watched again, or not from now on: they take this share of the time. */
	void (*reports)(void *data, uint32_t pid, bool watched, double share);
	/* A process is left out of a group since then, as is said `first`, and again every few
	 * seconds. */
	void (*out)(void *data, uint32_t pid, enum probe_group group, uint64_t since_ns,
		    bool first);
	/* No more. */
	void (*in)(void *data, uint32_t pid, enum probe_group group, uint64_t now_ns);
	/* It would be left out of its hot calls. True: soon its library reports them, and its
	 * probes go. */
	bool (*relieve)(void *data, uint32_t pid);
	/* What was counted of it since the last time, if anything was. */
	void (*counted)(void *data, uint32_t pid, const struct probe_hits *grown);
};

int flood_new(uv_loop_t *loop, struct probe *probe, struct libraries *libraries,
	      const struct flood_config *config, const struct flood_callbacks *callbacks,
	      void *data, struct flood **ret);
void flood_close(struct flood *flood, void (*closed)(void *data));
void flood_configure(struct flood *flood, const struct flood_config *config);

/* A process maps a library. Until one does, no timer runs. */
void flood_wake(struct flood *flood);
/* NULL is nobody's. */
bool flood_is_out(const struct flood *flood, uint32_t pid, enum probe_group group);

struct flood_stats {
	bool measured; /* the kernel tells how long work waits */
	uint64_t last_ns, worst_ns;
	uint64_t processes; /* ever left out */
	uint32_t unwatched; /* whose reports are not watched now */
};
void flood_stats(const struct flood *flood, struct flood_stats *ret);

struct flood_out {
	uint32_t pid;
	bool of[PROBE_GROUPS];
	bool for_host;	  /* because work waited for too long */
	double share;	  /* of one CPU, that it spent as far as is known */
	double rate;	  /* hits a second */
	uint64_t left_ns; /* until it is let in again */
};
/* What a process does that it is left out of, in words. */
const char *flood_calls(const bool out[PROBE_GROUPS]);
/* Up to `max` of those who are out; their number. */
uint32_t flood_list(const struct flood *flood, struct flood_out *out, uint32_t max);

#endif
