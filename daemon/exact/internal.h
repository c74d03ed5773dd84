/* internal.h: shared by the files of the exact tier. All of it belongs to the loop, except what a
 * running job writes: nobody else looks at that before it is done. */
#ifndef TS_EXACT_INTERNAL_H
#define TS_EXACT_INTERNAL_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/base/time.h"
#include "core/price/walks.h"
#include "daemon/attach/attach.h"
#include "daemon/exact/exact.h"
#include "daemon/exact/known.h"
#include "daemon/exact/threads.h"
#include "daemon/helper/helper.h"
#include "daemon/light/light.h"
#include "daemon/probe/linker.h"

enum light_stage {
	LIGHT_NONE,
	LIGHT_WANTED, /* functions are to be led to the library */
	LIGHT_ON,     /* they are */
	LIGHT_ENDING, /* the probes are put on again before they are led away */
	LIGHT_ENDED,  /* they are away; calls from before may still come */
};

/* Times that a helper writes: memory that it shares with us. A call that a probe saw between them
 * is reported by the library as well. */
struct span {
	struct light_span *times; /* NULL: none */
	int fd;
};

/* Of a session of light mode. */
struct light_session {
	enum light_stage stage;
	struct span span;
	struct span before;	      /* the one before this, of which calls may still come */
	uint64_t ending_ns, quiet_ns; /* quiet: told to take no stacks, as it took too many */
	bool stays;		      /* it ends, but the session goes on */
	bool asked;		      /* to offer it again, and has not answered */
	bool refused;		      /* it cannot be done: it is not asked again */
	bool relieved;		      /* its calls are too many for probes */
	bool unsure;		      /* nobody says how the last change went */
	bool foreign;		      /* it numbers its threads otherwise than we do */
	struct probe_stub *stub;      /* NULL: calls get no stacks from inside */
	bool stub_told;		      /* by this job's helper, who does so once */
	int stub_fd, stub_error;      /* its file, until the probe is made */
	uint64_t stub_offset;
	uint32_t stacks;	  /* enum ts_stacks, that the library takes */
	struct known *known;	  /* NULL: it never took all */
	struct probe_walks walks; /* by which it is known */
	struct walk_time walk;	  /* what its own walks take it */
	struct threads threads;
	struct light_request request;
	struct light_result result;
};

/* State of a session's connection. */
enum session_stage {
	SESSION_WAITING,   /* for the hello */
	SESSION_BEGINNING, /* connected; records when the driver is ready */
	SESSION_COLLECTING,
	SESSION_LEAVING, /* was asked to detach */
};

/* What a helper, or a thread of the linker, is to do for it, whatever its connection does
 * meanwhile.
 */
enum session_job {
	JOB_NONE,
	JOB_ATTACH, /* load the library */
	JOB_UNLOAD, /* unload it */
	JOB_PUT,    /* light mode: lead hot functions to it */
	JOB_TAKE,   /* and away again */
	JOB_TIDY,   /* remove what a daemon that was killed has left */
};

struct session {
	struct list link;
	struct exact *exact;
	uint32_t pid;
	enum session_stage stage;
	enum session_job job;
	bool running;	 /* the job; otherwise it waits for its turn */
	uint32_t undone; /* parts of it: the helper's, and the probe on the stub */
	bool ended;	 /* to be freed when the job is done */
	bool attached;	 /* by us, so we unload it again */
	bool unasked;	 /* by us for its price: nobody waits for the answer */
	bool connected;
	bool unloadable; /* the library says so */
	bool gone;	 /* and that it has given everything back */
	bool failed;	 /* and that it cannot record, for the reason in `note` */
	bool answer_due; /* the asker is answered when its job is done */
	struct api_ticket *attach, *detach; /* waiting requests, or NULL */
	struct ts_settings settings;
	bool by_default;	     /* its budget is the daemon's */
	char library[TS_HELLO_TEXT]; /* which libcupti, as the library says */
	char note[TS_HELLO_TEXT];    /* sentences for the user */
	uint32_t cupti_version, records_now;
	bool recording, windows, rests; /* see struct exact_tier */
	bool held;			/* the program waits for its calls to be watched, */
	bool joined;			/* which they are since the hello, */
	bool unseen;			/* or which was not so for too long, as is told */
	uint64_t hello_ns;
	uint32_t cycles;
	bool asked_open;
	uint64_t asked_ns;  /* to open or close a window, 0: not yet */
	uint64_t mapped_ms; /* when a mapping was last passed on, on the loop's clock */
	uint64_t records, lost;
	uv_timer_t timer;

	/* For the job: */
	struct linking linking;	 /* the probe on the stub */
	struct helper_task task; /* the rest */
	struct attach_request request;
	struct attach_result result;
	struct light_session light;
	uint32_t unloads; /* tries */
	int error;
	struct remarks why;
};

struct exact {
	uv_loop_t *loop;
	uint32_t lights; /* sessions of light mode */
	struct exact_config config;
	struct exact_parts parts;
	struct inject *inject;
	uv_timer_t joining; /* while any session is not joined */
	struct list sessions;
	struct map by_pid; /* of those that have not ended */
	struct exact_stats stats;
	bool closing;
	uint32_t open; /* sessions whose timer is not closed yet, and the inject part */
	void (*closed)(void *data);
};

/* exact.c */
void exact_part_closed(struct exact *exact);

/* session.c */
struct session *session_find(const struct exact *exact, uint32_t pid);
struct session *session_new(struct exact *exact, uint32_t pid);
/* Answers the waiting requests, and frees the session: now, or when its job is done. */
void session_end(struct session *session);
/* Fails the waiting requests. The arguments are texts, with a NULL behind them. */
void session_fail(struct session *session, Tracesmith__V1__Remark__Reason reason, ...)
	__attribute__((sentinel));
void session_fail_for(struct session *session, const struct remarks *why);
void session_note(struct session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The asker is told now, or when the job is done. */
void session_answer_attach(struct session *session);
void session_answer_detach(struct session *session, bool unloaded);
/* Of what was asked for, and the daemon's default. */
void session_choose_budget(struct session *session);
/* What is recorded changes. */
void session_collects(struct session *session, const struct ts_event *event);
void session_leave(struct session *session);
bool session_process_ended(const struct session *session);
/* Waits at most this long for what its stage waits for. */
void session_wait(struct session *session, uint64_t ms);

/* joined.c */
/* It said hello; `held`: its program waits. */
void joined_begin(struct session *session, bool held);
/* Its connection is over. */
void joined_end(struct session *session);
/* Its records have no calls yet, and may get some soon: the asker waits for that. */
bool joined_is_awaited(struct session *session);

/* light.c */
/* Whether its library reports hot calls itself. */
void light_choose(struct session *session);
/* What it depends on has changed: its budget, the settings, whether it can record. */
void light_rechoose(struct session *session);
void light_on_told(void *data, uint32_t pid, const struct ts_light *told);
/* It takes these stacks from now on, and no others. */
void light_on_stacks(void *data, uint32_t pid, uint32_t stacks);
/* Its turn has come, after another job. */
void light_go(struct session *session);
/* Puts the probe on the stub: on a thread of the linker. */
void light_link(struct session *session);
/* Nothing goes through the stub any more, or it does not matter. */
void light_unlink(struct session *session);
/* Its helper is gone, or too late, and has not said how it went. */
void light_withdraw(struct session *session);
void light_job_done(struct session *session, enum session_job job);
/* False: it has to end light mode first, and leaves then. */
bool light_may_leave(struct session *session);
/* The process or its connection is over. */
void light_over(struct session *session);

/* walk.c */
/* The library is told what is known of its stacks, from now on, as the settings are now. */
void light_share(struct session *session);
/* What walks of its own take it: it is only told about itself. */
void light_on_walks(void *data, uint32_t pid, const struct ts_light_walks *walks);
/* On average; 0: it does not walk, or has timed none. */
uint64_t light_walk_ns(const struct session *session);
/* A call or a stack from its ring, as the model may have it. Stacks are told until the library sees
 * that they are known. */
enum light_verdict { LIGHT_REFUSED, LIGHT_ADMITTED, LIGHT_REPEATED };
enum light_verdict light_admit(struct session *session, const struct ts_event *event,
			       struct ts_event *ret);

/* span.c; all of it is nothing for a span that is none */
int span_new(struct span *ret);
void span_release(struct span *span);
bool span_has(const struct span *span, uint64_t time_ns);
/* 0: not yet. */
uint64_t span_begin(const struct span *span);
bool span_is_over(const struct span *span);
void span_end(const struct span *span, uint64_t time_ns);
/* A new try, or the end of one. False: the change is being made, or was. */
void span_open(const struct span *span, bool take);
bool span_withdraw(const struct span *span, bool take);
/* In a helper, of the descriptor; NULL: it is none. */
struct light_span *span_map(int fd);

/* exact.c */
void session_failed(struct session *session, const char *text);

/* job.c */
void exact_job(struct session *session, enum session_job job);
/* Ends one that a helper does: what it has done is undone. False: it has to end itself. */
bool exact_job_cancel(struct session *session);

/* task.c */
#define TASK_TEXT_MAX 1024

/* What a helper says, which it may have been made to say. Its descriptor is the socket of the
 * result. JOB_PUT may have one before it, with the file of the stub. */
struct task_said {
	uint8_t stub; /* from bytes that need not be 0 or 1 */
	int32_t error;
	struct attach_result result;
	struct light_result light;
	uint64_t stub_offset;
	uint32_t reason, arguments;
	char text[TASK_TEXT_MAX]; /* the arguments, each with its NUL */
};

/* Begins; the end is told by exact_job_part_done(). */
int exact_task(struct session *session);
void exact_job_part_done(struct session *session);
/* The stub was found: the probe on it is another part of the job. */
void exact_job_link(struct session *session);

/* The library says hello within milliseconds of its start. CUPTI's set-up takes 10 to 50 ms, but a
 * program that has not called cuInit() yet may take its time. */
#define HELLO_MS    5000
#define BEGIN_MS    3000
#define FAILED_TOLD 16 /* by `tsctl status`, of the processes that cannot be recorded */
#define DETACH_MS   10000
#define WINDOW_NS   (5 * NS_PER_S) /* a window that was asked for in vain is asked for again */
#define QUIET_NS    NS_PER_S	   /* a library obeys within a tick, unless nobody lets it run */

#endif
