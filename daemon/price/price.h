/* price.h: what watching costs each process, and whose hot calls are watched when, so that it
 * stays within its budget. Where the exact tier has a budget, its records come and go with the
 * probes of hot calls, and one price is that of both.
 *
 * core/price/watch.h decides for one process; here are the processes, their events and links.
 */
#ifndef TS_DAEMON_PRICE_H
#define TS_DAEMON_PRICE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/model/core.h"
#include "core/price/watch.h"
#include "daemon/probe/libraries.h"
#include "proto/event.h"
#include "proto/hello.h"

struct price;

struct price_config {
	double budget;	 /* of each process; 0: none */
	uint64_t hit_ns; /* what a hit costs on this host */
	bool windows;	 /* the kernel has links to single processes */
};

/* How the exact tier records a process. */
struct price_tier {
	bool exact;	  /* it does, or soon will */
	bool recording;	  /* now */
	bool windows;	  /* within a budget, by windows, */
	bool rests;	  /* between which CUPTI is switched off, but there */
	uint32_t cycles;  /* how often it was taken out of the process so far */
	bool inside;	  /* our library in it reports its hot calls, */
	uint64_t walk_ns; /* and walks the stack of each in that time; 0: it does not */
	double budget;
};

/* Who gave a process a budget of its own; the first that did counts. */
enum price_giver { PRICE_BY_HAND, PRICE_BY_RECORDING, PRICE_GIVERS };

/* What a process pays, and may. */
struct price_told {
	enum price_part part;
	struct watch_price price;
	double budget;	    /* 0: none */
	uint64_t until_ns;  /* end of this budget, 0: it stays */
	uint64_t hit_ns;    /* that an estimate takes for a hit */
	uint64_t inside_ns; /* the part of our library, if it reports hot calls; 0: probes do */
};

struct price_callbacks {
	/* Has price_event() called for all that has come. */
	void (*catch_up)(void *data);
	void (*tier)(void *data, uint32_t pid, struct price_tier *ret);
	/* Has it record the process from now on, or not after `at_ns`; repeated until it is so. */
	void (*window)(void *data, uint32_t pid, enum ts_window_how how, uint64_t at_ns);
	/* Its hot calls are watched in part only since then; and all of them from now on. */
	void (*parted)(void *data, uint32_t pid, enum price_part part, uint64_t since_ns);
	void (*whole_again)(void *data, uint32_t pid, enum price_part part, uint64_t now_ns);
	/* A cycle of windows, or a part of one that goes on, has come to its end. */
	void (*cycle)(void *data, uint32_t pid, enum price_part part,
		      const struct watch_cycle *cycle);
	/* The exact tier recorded all of these hot calls lately, outside of cycles. */
	void (*whole)(void *data, uint32_t pid, uint64_t now_ns, uint64_t hits);
	/* Its budget has it watched in windows; once. It may be asked to report its hot calls. */
	void (*windows)(void *data, uint32_t pid);
	/* The price of the process, when it has changed, at most once a second. */
	void (*price)(void *data, uint32_t pid, const struct price_told *told);
};

int price_new(uv_loop_t *loop, struct libraries *libraries, const struct price_config *config,
	      const struct price_callbacks *callbacks, void *data, struct price **ret);
void price_close(struct price *price, void (*closed)(void *data));

/* Before the model gets an event of the probes: false if it must not, because it lies outside of a
 * window. */
bool price_event(struct price *price, const struct ts_event *event);

/* The same of a hot call that our library in the process has reported. */
void price_inside(struct price *price, const struct ts_event *event);
/* From now on it reports all of them, and no probe does. */
void price_inside_begins(struct price *price, uint32_t pid, uint64_t time_ns);

/* The exact tier recorded this many parts of graphs since the last time. Their price belongs to the
 * calls that launch them. */
void price_nodes(struct price *price, uint32_t pid, uint64_t nodes);

/* In its turn among the events: the exact tier records the process from `since_ns` on, or has
 * ended. */
void price_recording(struct price *price, uint32_t pid, bool on, uint64_t since_ns);

/* What the programs counted since the last time: hot calls, of which fewer came as events if the
 * ring was full, and stacks. */
void price_counted(struct price *price, uint32_t pid, const struct probe_hits *grown);

/* Hits outside of calls, since the last time. */
void price_other_hits(struct price *price, uint32_t pid, uint32_t hits);

/* What may be spent on reports of a framework's allocator, whose price is not measured: the budget,
 * and which part of an estimate makes the process slower. */
void price_reports(struct price *price, uint32_t pid, double *ret_budget, double *ret_part);

/* Its EXIT may never have come. */
void price_process_gone(struct price *price, uint32_t pid, uint64_t time_ns);

/* Somebody asks: what was missed by now is told. */
void price_tell(struct price *price, uint64_t now_ns);
void price_configure(struct price *price, const struct price_config *config);

/* Another budget for a process (0: none) until a time (0: as long as it runs). -ENOMEM. */
int price_set_budget(struct price *price, uint32_t pid, enum price_giver giver, double budget,
		     uint64_t until_ns);
/* The setting's again. */
void price_reset_budget(struct price *price, uint32_t pid, enum price_giver giver);

struct price_measuring {
	bool busy;		/* more turns to come */
	uint32_t turns, wanted; /* so far, and for a result */
};
/* How its measurement stands. `start`: starts one.
 * -EOPNOTSUPP: the kernel has no links to single processes; -EBUSY: it is watched whole, whatever
 * that costs; -EAGAIN: it is stopped; -ESRCH: it has made no hot call lately; -ENXIO: its library
 * is not known; -ENODATA: it makes too few cold calls to have a pace. */
int price_measure(struct price *price, uint32_t pid, bool start, struct price_measuring *ret);

/* Calls `each` for the processes that make hot calls. */
void price_each(struct price *price,
		void (*each)(void *data, uint32_t pid, const struct price_told *told), void *data);

#endif
