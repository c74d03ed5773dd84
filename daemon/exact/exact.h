/* exact.h: the exact tier: which processes carry the library, and how it is loaded and unloaded.
 *
 * A process comes in on its own (`tsctl run`: its library connects) or on request (attach). Its
 * records go to the model as they come. Runs on the loop; what blocks runs elsewhere:
 * the ptrace work in helpers, probes on its stub on the linker.
 */
#ifndef TS_EXACT_H
#define TS_EXACT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/model/core.h"
#include "daemon/api/api.h"
#include "daemon/inject/inject.h"
#include "daemon/probe/libraries.h"
#include "daemon/probe/probe.h"

struct exact;
struct linker;
struct remover;

struct exact_config {
	int fd;		     /* listening socket handed over by systemd, or -1 */
	const char *socket;  /* otherwise one is created here; outlives the exact tier */
	uint32_t slots;	     /* of a ring */
	bool windows;	     /* budgets are kept by windows */
	bool inside;	     /* libraries report hot calls themselves, where that is possible */
	bool never;	     /* and they must not, not even alone */
	uint32_t budget_ppm; /* of processes that asked for none; 0: none */
};

/* What it feeds. */
struct exact_parts {
	struct core *core;
	struct intake *intake;
	struct probe *probe;
	struct remover *remover;
	struct linker *linker;
	struct helpers *helpers;
	uint32_t attach_kind;	  /* of their tasks: exact_helper_run() */
	void (*stir)(void *data); /* a record has come */
	/* The process is recorded from `since_ns` on, or not any more. */
	void (*recording)(void *data, uint32_t pid, bool on, uint64_t since_ns);
	/* Whether the probes of hot functions are to stay out of a process, which reports those
	 * calls itself (light mode); and how they are. */
	void (*light)(void *data, uint32_t pid, bool light);
	enum hot_state (*hot)(void *data, uint32_t pid);
	/* Whether the probes see what the process calls; and since when they should, and do not:
	 * to be told as missed, until it is closed again. */
	bool (*watched)(void *data, uint32_t pid);
	void (*unseen)(void *data, uint32_t pid, bool open, uint64_t time_ns);
	/* The library reports a hot call, or what records cost. */
	void (*priced)(void *data, const struct ts_event *event);
	struct function_table functions;
	void *data;
};

int exact_new(uv_loop_t *loop, const struct exact_config *config, const struct exact_parts *parts,
	      struct exact **ret);
/* Ends all connections; the libraries stop recording and try to reconnect. */
void exact_close(struct exact *exact, void (*closed)(void *data));

/* Another budget for processes that asked for none. */
void exact_set_budget(struct exact *exact, uint32_t budget_ppm);

/* What a helper does for the exact tier; and the library's file, before there are helpers. */
void exact_helper_library(const char *path);
int exact_helper_run(int socket, const void *request, size_t size, const int *fd, uint32_t fds);

/* The handlers of the api's requests. */
void exact_attach(struct exact *exact, struct api_ticket *ticket, const struct api_attach *request);
void exact_detach(struct exact *exact, struct api_ticket *ticket, const struct api_target *target);

/* Attaches to the process in light mode, by itself, if its owner could. */
void exact_lighten(struct exact *exact, uint32_t pid, uint64_t started_ticks, uint32_t uid);

/* Removes what a daemon that was killed has left in the process, if nobody attaches to it. */
void exact_tidy(struct exact *exact, uint32_t pid);

/* It has mapped more code, perhaps of another user of CUPTI. */
void exact_mapped(struct exact *exact, uint32_t pid);

/* The process has ended, or runs another program. */
void exact_over(struct exact *exact, uint32_t pid);

/* Whether it carries the library, or soon will. */
bool exact_has(const struct exact *exact, uint32_t pid);

/* How it is recorded. */
struct exact_tier {
	bool carries;	     /* exact_has() */
	bool recording;	     /* now */
	bool windows;	     /* its budget is kept by windows, */
	bool rests;	     /* in which CUPTI was switched off at the end, not taken out */
	uint32_t cycles;     /* how often it was taken out so far */
	bool inside;	     /* its hot calls are reported by the library, */
	uint64_t walk_ns;    /* which walks the stack of each in that time; 0: it does not */
	uint32_t budget_ppm; /* 0: none */
};
void exact_tier(const struct exact *exact, uint32_t pid, struct exact_tier *ret);
/* Has it recorded from now on, or not after `at_ns` (soon). To be repeated until it is so. */
void exact_window(struct exact *exact, uint32_t pid, enum ts_window_how how, uint64_t at_ns);

/* Whether the library reports that call, which a probe has seen too. NULL: no. */
bool exact_covers(struct exact *exact, const struct ts_event *event);

/* Since when the library reports the hot calls of a process, whatever its probes see; 0: it does
 * not. */
uint64_t exact_inside_from(const struct exact *exact, uint32_t pid);
bool exact_inside_since(const struct exact *exact, uint32_t pid, uint64_t since_ns);

/* Of all sessions. */
void exact_set_inside(struct exact *exact, bool inside, bool never);
/* Another mean time between two sampled stacks. */
void exact_sample(struct exact *exact);
/* A process runs into probes too often. True: it is recorded without a budget, and its library will
 * report its hot calls soon. */
bool exact_relieve(struct exact *exact, uint32_t pid);
/* A process in light mode runs into probes too often; `first`: it has not been told yet. False: it
 * is not in light mode. */
bool exact_flooded(struct exact *exact, uint32_t pid, bool first);

/* Of stacks that the probes took, for libraries that walk theirs by what is known of them. All take
 * NULL. */
void exact_rules_void(struct exact *exact, uint32_t pid, uint64_t time_ns);
void exact_python_placed(struct exact *exact, uint32_t pid);
void exact_stack_walked(struct exact *exact, uint32_t pid, const struct ts_stack *stack);
/* A call with a stack, or one of the backward pass. False: it is not to be believed. */
bool exact_stack_told(struct exact *exact, const struct ts_event *event);

struct exact_stats {
	struct inject_stats inject;
	uint32_t collecting, attached; /* processes; attached: not started by `tsctl run` */
	uint32_t light;		       /* of the collecting */
	uint64_t attaches, failed, detaches;
	uint64_t walked; /* stacks, by libraries */
	uint64_t longest_stop_ns;
};
void exact_stats(const struct exact *exact, struct exact_stats *ret);
/* Calls `each` for the processes whose library cannot record, with the reason. */
void exact_failed(const struct exact *exact,
		  void (*each)(void *data, uint32_t pid, const char *why), void *data);

#endif
