/* daemon_internal.h: the daemon's parts, for daemon.c (start and stop), sink.c (output of the
 * model) and report.c (status). */
#ifndef TS_DAEMON_INTERNAL_H
#define TS_DAEMON_INTERNAL_H

#include <uv.h>

#include "core/base/map.h"
#include "core/model/core.h"
#include "core/store/store.h"
#include "daemon/api/api.h"
#include "daemon/config.h"
#include "daemon/exact/exact.h"
#include "daemon/gaps.h"
#include "daemon/helper/helper.h"
#include "daemon/intake/turn.h"
#include "daemon/ledger.h"
#include "daemon/live/live.h"
#include "daemon/maps/maps.h"
#include "daemon/meter.h"
#include "daemon/price/calibrate.h"
#include "daemon/price/flood.h"
#include "daemon/price/price.h"
#include "daemon/probe/freed.h"
#include "daemon/probe/libraries.h"
#include "daemon/probe/probe.h"
#include "daemon/python/pythons.h"
#include "daemon/stack/stack.h"
#include "daemon/symbol/lines.h"
#include "daemon/symbol/symbol.h"
#include "daemon/unwind/unwinder.h"
#include "daemon/user.h"

/* Of the processes that the zygote forks. */
enum daemon_role { ROLE_QUERY, ROLE_HELPER, ROLE_ATTACH };

/* Processes that the daemon cannot do without. */
enum daemon_other { DAEMON_BROKER, DAEMON_ZYGOTE, DAEMON_OPENER, DAEMON_OTHERS };

#define DAEMON_ENDED   512
#define DAEMON_REFUSED 16 /* users whose refused copies are shown */

/* A process, by what the kernel calls it. */
struct ended {
	uint32_t pid, id;
	uint64_t time_ns;
};

/* Copies of driver libraries of a user that got no probes. */
struct refused_copies {
	uint32_t user, pid; /* and process of the last one */
	uint64_t count;	    /* 0: a free place */
	char path[256];
};

/* A process mapped something at addresses where something else was. */
struct replaced {
	uint32_t pid;
	uint64_t since_ns, until_ns; /* stacks of that time are in doubt */
	uint64_t start, end;	     /* addresses */
};
#define DAEMON_REPLACED 256

struct daemon {
	struct config *config;
	char *config_path;
	char *database;
	uint64_t kept_rights; /* of a root that started it by hand (confined.c) */
	char *library;	      /* what attach loads into processes */
	char boot_id[37];
	uint64_t started_ns;
	uint64_t watching_ns;	/* since then the probes are on */
	uint64_t told_ns;	/* until then all that is missing was */
	int64_t boot_offset_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
	int64_t wall_offset_ns;

	uv_loop_t loop;
	uv_signal_t on_terminate, on_interrupt, on_hangup;
	uv_timer_t tick, watchdog;
	uv_timer_t late; /* when a stopping daemon waits no longer */
	struct meter meter;
	uint32_t ticks;
	uint32_t quiet_ticks; /* since the last record */

	/* helped.c */
	struct helpers *helpers;
	struct list describing, unresolved;
	uint32_t unresolved_count;

	/* The store starts first and stops last. */
	struct store *store;
	struct core *core;
	struct pythons *pythons;
	struct symbolizer *symbolizer;
	struct lines *lines; /* NULL: it starts or stops */
	struct users *users;
	struct maps *maps;
	struct list gone; /* processes that have ended, until the rings are read that far */
	struct turn turn; /* of the probes and the libraries */
	struct probe *probe;
	struct unwinder *unwinder;
	struct {
		uint32_t pid; /* 0: none */
		bool whole;
		char command[PROBE_COMMAND_MAX + 1];
	} announced; /* the program of the event that the model gets next */
	struct hung {
		uint32_t pid; /* 0: none */
		uint64_t since_ns;
	} hung;		    /* whose mappings were waited for in vain */
	struct map settled; /* ids of stacks, by those that their calls still have */
	struct replaced replaced[DAEMON_REPLACED];
	uint32_t replaced_count;
	uint64_t replaced_ns; /* the last `until_ns` */
	struct libraries *libraries;
	struct freed *freed;
	struct price *price;
	struct calibrate *calibrate;
	struct flood *flood;
	struct exact *exact;
	struct stacks *stacks;
	struct api *api;
	struct live *live; /* NULL: nobody subscribes */
	struct refused_copies refused[DAEMON_REFUSED];

	struct ledger ledger;
	uint64_t ledger_ns; /* when all that is open was told */
	bool telling_all;   /* the ledger is being reported, and all calls until now are read */
	/* For processes that the model does not know yet; the oldest is overwritten. */
	struct gaps gaps;

	struct probe_config probe_config; /* as last reported */
	struct probe_counters counted;	  /* BPF losses that the model knows */
	uint64_t counted_ns, counting_ns;
	/* The last that ended: what they lost may be known later. */
	struct ended ended[DAEMON_ENDED];
	uint32_t ends;
	bool rereading; /* the settings, on SIGHUP */
	bool reread_again;
	uint64_t visible_stacks;   /* to be named first, 0: not counted yet */
	uint64_t visible_pythons;  /* before they are counted: stacks with frames of Python */
	uint64_t visible_lines_ns; /* since when lines are waited for, 0: they are not */
	uint64_t visible_ns;	   /* everything until then is in the store, or on its way there */
	uint64_t maps_lost, maps_limited;
	uint32_t next_process; /* id of the first process that this daemon has not inherited */
	int lock;	       /* the state directory */
	int zygote;	       /* daemon/helper/spawn.h */
	struct broker *broker;
	uv_poll_t other_ends[DAEMON_OTHERS];
	bool failed;		 /* it cannot go on */
	uint64_t stacks_unnamed; /* stacks that found the symbolizer's queue full */

	/* As last logged: since when the store holds new data in memory, 0: it writes; and what it
	 * had dropped before. */
	uint64_t held_ns;
	struct store_stats held_before;
};

/* brokered.c */
int daemon_start_broker(struct daemon *daemon);
/* When the loop is there: the end of any of them is the daemon's. */
int daemon_follow_others(struct daemon *daemon);

/* confined.c: when the broker has started, and before the zygote and any thread. */
int daemon_confine(struct daemon *daemon);
/* When the zygote and an opener have started, which need it: what reading other processes needs. */
int daemon_confine_wholly(const struct daemon *daemon);
/* In a helper that attaches to nobody. */
int daemon_confine_helper(void);

/* mapped.c */
int daemon_start_maps(struct daemon *daemon);
/* For the api: how many processes wait for a first look. */
uint32_t daemon_unlooked(void *data);
/* Reads the rings, a turn's worth: as intake_reach. */
uint64_t daemon_reach(struct daemon *daemon, uint64_t now_ns);
/* Reads them to their end, in turns and for a while at most: nobody reads what is left. */
void daemon_empty(struct daemon *daemon, uint64_t now_ns);
/* Tells all of the processes that ended before that. */
void daemon_tell_gone(struct daemon *daemon, uint64_t reached_ns);

/* stacked.c */
int daemon_start_stacks(struct daemon *daemon);
void daemon_stack(void *data, struct api_ticket *ticket, const struct api_target *target,
		  const struct api_stack *wanted);
/* helped.c: what helpers find out. */
/* What they can do; before they are started. */
void daemon_name_helpers(void);
/* As they do it: those that read, and those that attach. */
void daemon_help(int socket);
void daemon_help_attaching(int socket);
int daemon_start_helpers(struct daemon *daemon);
void daemon_stop_helpers(struct daemon *daemon, void (*closed)(void *data));
void daemon_configure_maps(struct daemon *daemon, struct maps_config *config);
uint32_t daemon_attach_kind(void);
uint32_t daemon_stack_kind(void);
/* Its command line, and what else its /proc says. */
void daemon_describe(struct daemon *daemon, const struct core_process *process);
/* When the mappings of its process are known. False: too many wait. */
bool daemon_resolve_later(struct daemon *daemon, const struct core_process *process,
			  const struct ts_stack *stack);
/* As the callback of maps. */
void daemon_on_settled(void *data, uint32_t pid);
/* An answer is to come that is worth waiting for. */
bool daemon_awaits_helpers(struct daemon *daemon);

/* counted.c */
void daemon_count_losses(struct daemon *daemon, uint64_t now_ns);
void daemon_ended(struct daemon *daemon, const struct core_process *process);
/* The id of one that runs, or has ended lately, and not before that time; 0: it is not known. */
uint32_t daemon_process_of(const struct daemon *daemon, uint32_t pid, uint64_t since_ns);

/* unwound.c */
/* By what is known of mappings: without the kernel's reports only frame pointers are safe. */
void daemon_choose_unwind(struct daemon *daemon, struct probe_config *config);
void daemon_miss_settled(struct daemon *daemon, uint32_t pid);
int daemon_start_unwinder(struct daemon *daemon);
void daemon_stop_unwinder(struct daemon *daemon);
enum probe_missed daemon_on_miss(void *data, const void *record, size_t size, bool in_vain);
void daemon_on_turn(void *data);
void daemon_on_replaced(void *data, const struct maps_replaced *replaced);
/* Whether something else is mapped at an address than at that time. */
bool daemon_is_replaced(const struct daemon *daemon, uint32_t pid, uint64_t time_ns,
			uint64_t address);
/* A call whose stack was to be unwound gets its id. False: it is none, `ret` is not written. */
bool daemon_settle(struct daemon *daemon, const struct ts_event *event, struct ts_event *ret);

/* tick.c: begins; and something comes, so check often again. */
void daemon_tick(struct daemon *daemon);
void daemon_stir(struct daemon *daemon);

/* daemon.c: hands everything in the model over to the store. */
void daemon_checkpoint(struct daemon *daemon, uint64_t now);

/* api_start.c */
int daemon_start_zygote(struct daemon *daemon);
int daemon_start_api(struct daemon *daemon);
/* Logs why, and returns `r`. */
int daemon_cannot_listen(const char *path, int r);

/* reread.c: on SIGHUP */
void daemon_on_hangup(uv_signal_t *signal, int number);

/* lived.c: for the api's clients who subscribe */
bool daemon_live(void *data, struct api_live *ret);
void daemon_live_end(void *data);

/* exact_start.c */
/* Before there are helpers. */
int daemon_find_library(struct daemon *daemon);
int daemon_start_exact(struct daemon *daemon);
void daemon_attach(void *data, struct api_ticket *ticket, const struct api_attach *request);
void daemon_detach(void *data, struct api_ticket *ticket, const struct api_target *target);

/* sink.c */
/* Before the model gets the record. */
void sink_announcement(struct daemon *daemon, const void *record, size_t size);
extern const struct core_sink daemon_sink;
void daemon_user_named(void *data, uint32_t process, const char *name);

/* named.c: a stack gets its names, and goes to the store. */
void daemon_name_stack(struct daemon *daemon, const struct core_process *process,
		       const struct ts_stack *stack);
/* The same once. -EAGAIN: the mappings of its process are not known yet. */
int daemon_resolve(struct daemon *daemon, const struct core_process *process,
		   const struct ts_stack *stack);
/* Unless the settings want none. */
void daemon_look_for_python(struct daemon *daemon, uint32_t pid);
void daemon_forget_python(struct daemon *daemon, uint32_t pid);
int daemon_start_freed(struct daemon *daemon);
void daemon_python_found(void *data, struct pythons_found *found);
void daemon_python_named(void *data, void *stack, const struct ts_python_frame *frame,
			 struct pythons_name *name, uint32_t count);
void daemon_stack_named(void *data, struct symbol_job *job);
void daemon_stack_lined(void *data, const struct symbol_job *job);

/* starved.c: a process got no memory. */
void daemon_tell_oom(struct daemon *daemon, const struct core_oom *oom);

/* disk.c: in place of a database that is too damaged there is a new one, which says so. */
int daemon_open_store(struct daemon *daemon, const struct store_config *config);
/* The path of what was set aside and has not been removed; false: there is none. */
bool daemon_aside(const struct daemon *daemon, char path[PATH_MAX]);
/* Logs when the store cannot write, and when it can again. */
void daemon_watch_store(struct daemon *daemon, uint64_t now_ns);
/* Writes what is left, as far as the disk accepts it. */
void daemon_stop_store(struct daemon *daemon);
/* For the api: whether data is held in memory. */
uint64_t daemon_held_since(void *data);
void daemon_held_lock(void *data, bool locked);
/* visibility.c: as the api's callback */
enum api_visible daemon_make_visible(void *data, uint64_t time_ns, uint64_t *ret_up_to_ns);

/* priced.c: what the probes cost, and what their windows missed, goes to the store. */
int daemon_start_price(struct daemon *daemon);
void daemon_stop_price(struct daemon *daemon);
void daemon_configure_price(struct daemon *daemon);
/* As price_event. */
bool daemon_price_event(struct daemon *daemon, const struct ts_event *event);
uint64_t daemon_hit_ns(const struct daemon *daemon);
/* priced_ask.c: for clients */
int daemon_budget(void *data, const struct api_budget *request, struct api_budget_result *ret,
		  Tracesmith__V1__Remark__Reason *ret_why);
int daemon_measure(void *data, const struct api_target *target, bool start,
		   struct api_measure_result *ret, Tracesmith__V1__Remark__Reason *ret_why);
void daemon_report_price(struct daemon *daemon, struct status_builder *builder);

/* flooded.c: who calls too often is left out. */
int daemon_start_flood(struct daemon *daemon);
void daemon_configure_flood(struct daemon *daemon);
void daemon_configure_exact(struct daemon *daemon);
/* As the libraries' callback. */
bool daemon_is_out(void *data, uint32_t pid, enum probe_group group);

/* missed.c: what is not seen */
void daemon_start_ledger(struct daemon *daemon);
/* What is missing now. Not from within a turn of the intake. */
void daemon_tell_missed(struct daemon *daemon, uint64_t now_ns);
void daemon_tick_missed(struct daemon *daemon, uint64_t now_ns);
/* It maps a library, which gets no probes. */
void daemon_never_watched(struct daemon *daemon, uint32_t pid);
/* Until when all that is missing was told: a crash loses the rest. */
void daemon_note_told(struct daemon *daemon, uint64_t now_ns);
/* A process has ended: what was missed of it is told while the model has it. */
void daemon_settle_doubts(struct daemon *daemon, uint32_t pid);
void daemon_end_missed(struct daemon *daemon, uint32_t pid, uint64_t end_ns);
void daemon_on_library_missed(void *data, struct maps_file *file, uint32_t pid, uint64_t mapped_ns,
			      uint64_t ended_ns, bool executed);
/* What was missed of a process before the model knew it. */
void daemon_lose_gaps(struct daemon *daemon, const struct core_process *process);
/* As the libraries' callbacks. */
void daemon_waits(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns);
void daemon_waited(void *data, uint32_t pid, enum loss_reason gap, bool is_missed);
void daemon_late(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns,
		 uint64_t until_ns);
void daemon_missing(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group,
		    uint64_t since_ns);
void daemon_seen(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group);

/* sums.c: what frameworks' allocators say without events */
void daemon_read_sums(struct daemon *daemon);

/* report.c: as the api's callbacks */
bool daemon_watched(void *data, char *out, size_t size);
void daemon_report(void *data, struct status_builder *builder);

#endif
