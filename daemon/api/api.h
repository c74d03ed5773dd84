/* api.h: answers the clients of control.sock.
 *
 * Runs on the loop. What is read from the store has a thread of the uv pool, and, unless it is
 * quick, a process of its own; a slow reader only slows its own query. No peer can make the daemon
 * hold more than limits.h says.
 */
#ifndef TS_API_H
#define TS_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "core/store/query/remark.h"
#include "proto/hello.h"

/* For how long after a helper has died it is a warning: as long as for a loss. */
#define API_WARNS_MS (10 * 60 * 1000)

struct api;
struct api_ticket;
struct status_builder;

struct api_config {
	int fd;		   /* listening socket handed over by systemd, taken over; -1: none */
	const char *path;  /* otherwise a socket is created here */
	const char *group; /* whose members may connect, in addition to root; NULL: nobody else */
	bool own;	   /* they see only their own processes */
	const char *database; /* path, for readers */
	const char *boot_id;
	/* What starts the processes that answer (daemon/helper/spawn.h), -1: threads answer all;
	 * and the role of theirs, which is query_helper_run(). */
	int zygote;
	uint32_t query_role;
	int64_t wall_offset_ns;
	/* 0: as in limits.h. For tests. */
	unsigned int half_ms, stall_ms, read_ms, beat_ms;
};

/* Who asks for something to be done to a process, and to which one. */
struct api_target {
	uint32_t pid;		/* of the host, or as the daemon counts */
	uint64_t started_ticks; /* of the process whose permissions were checked, as in /proc */
	uid_t uid;		/* the asker's, from the kernel; root may do everything */
	pid_t asker;		/* the client's own pid, 0: not visible from here */
};

struct api_attach {
	struct api_target target;
	struct ts_settings wanted; /* 0 in a field: the daemon's default */
	bool seccomp;		   /* even if a seccomp filter might kill the process */
};

struct api_budget {
	struct api_target target;
	uint32_t budget_ppm; /* 0: none */
	bool reset;	     /* the setting's again */
	bool recording;	     /* as long as it is recorded */
	uint64_t for_ns;     /* 0: as long as the process runs */
};

struct api_budget_result {
	uint32_t budget_ppm, setting_ppm; /* 0: none */
	uint64_t for_ns;
	const char *note; /* a sentence for the user, or NULL */
};

struct api_measure_result {
	bool busy;
	uint32_t turns, wanted;
};

/* What holds now, for all who subscribe: all of it, and what has changed since the last time. */
struct api_live {
	const Tracesmith__V1__LiveReply *whole, *changed;
};

enum api_visible {
	API_VISIBLE,
	API_READING, /* some of it is still in the rings */
	API_WAITING, /* it has been read */
	API_WRITING, /* it is on its way to the database */
};

/* What a StackRequest asks for. */
struct api_stack {
	bool locals, native;
};

struct api_callbacks {
	/* Adds what `tsctl status` shows. Called on the loop. */
	void (*status)(void *data, struct status_builder *builder);
	/* The asker has permission for the process as it was just now, but not for another one in
	 * its place (other started_ticks). Called on the loop; answered then or later, on the loop,
	 * with exactly one of the functions below, whatever becomes of the client and of the api:
	 * the ticket lives until it is answered. Pointers are valid during the call only. NULL:
	 * refused. */
	void (*attach)(void *data, struct api_ticket *ticket, const struct api_attach *request);
	void (*detach)(void *data, struct api_ticket *ticket, const struct api_target *target);
	void (*stack)(void *data, struct api_ticket *ticket, const struct api_target *target,
		      const struct api_stack *wanted);
	/* Both are answered at once. A negative errno: why not, for the argument pid. NULL:
	 * refused. */
	int (*budget)(void *data, const struct api_budget *request, struct api_budget_result *ret,
		      Tracesmith__V1__Remark__Reason *ret_why);
	int (*measure)(void *data, const struct api_target *target, bool start,
		       struct api_measure_result *ret, Tracesmith__V1__Remark__Reason *ret_why);
	/* While somebody subscribes, once a second: false if there is no memory for it. It is valid
	 * until the next call of these two. And nobody does any more. NULL: refused. */
	bool (*live)(void *data, struct api_live *ret);
	void (*live_end)(void *data);
	/* As store_held_since, and its lock. Called on any thread. NULL: never. */
	uint64_t (*held_since)(void *data);
	void (*held_lock)(void *data, bool locked);
	/* Names the only processes that are traced. False: all are. Called on the loop. NULL:
	 * always all. */
	bool (*watched)(void *data, char *out, size_t size);
	/* How many processes that ran before the daemon it has not looked at. Likewise; NULL: none.
	 */
	uint32_t (*unlooked)(void *data);
	/* Whether everything that had come by then is visible to queries; hurries it there. Called
	 * on the loop, every few milliseconds until it is or time is over: LIMIT_QUERY_READ_MS for
	 * reading and writing, LIMIT_QUERY_WAIT_MS for what comes in between;
	 * LIMIT_PROMPT_WAIT_MS in all for query_is_prompt(). NULL: it always is. Otherwise also up
	 * to when everything is; for API_READING, is read, which is before `time_ns`. */
	enum api_visible (*make_visible)(void *data, uint64_t time_ns, uint64_t *ret_up_to_ns);
};

/* Enlarges the thread pool to fit its queries (UV_THREADPOOL_SIZE, if unset), so call it before
 * anything uses the pool. -EADDRINUSE: another daemon answers on that path. */
int api_new(uv_loop_t *loop, const struct api_config *config, const struct api_callbacks *callbacks,
	    void *data, struct api **ret);

/* Refuses new clients, cancels queries, and calls `closed` when everything is freed. */
void api_close(struct api *api, void (*closed)(void *data));

struct api_attach_result {
	uint64_t stopped_ns;
	uint32_t stops;
	const char *library; /* libcupti in use */
	uint32_t cupti_version;
	uint32_t records, stacks;
	uint32_t budget_ppm;	 /* 0: none */
	uint32_t functions;	 /* that report their calls themselves, in light mode */
	const char *const *note; /* sentences for the user */
	size_t note_count;
};

struct api_detach_result {
	uint64_t stopped_ns;
	uint64_t records, lost;
	bool unloaded;
	const char *const *note;
	size_t note_count;
};

void api_attach_done(struct api_ticket *ticket, const struct api_attach_result *result);
void api_detach_done(struct api_ticket *ticket, const struct api_detach_result *result);
/* With a StackReply, packed, behind its length as protobuf writes it. */
void api_stack_done(struct api_ticket *ticket, void *stack, size_t size);
/* The arguments are texts, with a NULL behind them. */
void api_ticket_fail(struct api_ticket *ticket, Tracesmith__V1__Remark__Reason reason, ...)
	__attribute__((sentinel));
/* For the first of these, which may be none where there was no memory for it. */
void api_ticket_fail_for(struct api_ticket *ticket, const struct remarks *why);
/* False: nobody waits for the answer any more; it must still be given. */
bool api_ticket_wanted(const struct api_ticket *ticket);

/* A line of the status: text for people; with `status_number`, also its value in base units.
 * `warning`: needs attention. */
void status_text(struct status_builder *builder, const char *section, const char *name,
		 bool warning, const char *format, ...) __attribute__((format(printf, 5, 6)));
void status_number(struct status_builder *builder, const char *section, const char *name,
		   bool warning, int64_t number, const char *format, ...)
	__attribute__((format(printf, 6, 7)));

/* Whether the lines may name processes and files of all users. */
bool status_names_all(const struct status_builder *builder);
/* It may tell what this user's processes do. */
bool status_names_user(const struct status_builder *builder, uint32_t user);

#endif
