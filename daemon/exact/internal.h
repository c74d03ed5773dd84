/* internal.h: what the files of the exact tier share. All of it belongs to the loop, but for
 * what a running job writes: nobody else looks at that before it is done. */
#ifndef TS_EXACT_INTERNAL_H
#define TS_EXACT_INTERNAL_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "daemon/attach/attach.h"
#include "daemon/exact/exact.h"

/* Where the connection of a session is. */
enum session_stage {
	SESSION_WAITING,   /* for the hello */
	SESSION_BEGINNING, /* connected; collects when the driver is ready */
	SESSION_COLLECTING,
	SESSION_LEAVING, /* was told to detach */
};

/* What a thread of the pool is to do for it, whatever its connection does meanwhile. */
enum session_job {
	JOB_NONE,
	JOB_ATTACH, /* put the library in */
	JOB_UNLOAD, /* take it out */
};

struct session {
	struct list link;
	struct exact *exact;
	uint32_t pid;
	enum session_stage stage;
	enum session_job job;
	bool running;  /* the job, else it waits for its turn */
	bool ended;    /* to be freed when the job is done */
	bool attached; /* by us, so we take it out again */
	bool connected;
	bool unloadable; /* the library says so */
	bool gone;	 /* and that it has given all back */
	bool failed;	 /* and that it cannot collect, for the reason in `note` */
	struct api_ticket *attach, *detach; /* who waits, or NULL */
	struct ts_settings settings;
	char library[TS_HELLO_TEXT]; /* which libcupti, as the library says */
	char note[TS_HELLO_TEXT];    /* what the user should know */
	uint32_t cupti_version, records_now;
	uint64_t records, lost;
	uv_timer_t timer;

	/* Of the job: */
	uv_work_t work;
	struct attach_request request;
	struct attach_result result;
	uint32_t unloads; /* tries */
	int error;
	char why[ATTACH_WHY_MAX];
};

struct exact {
	uv_loop_t *loop;
	struct exact_config config;
	struct exact_parts parts;
	struct inject *inject;
	struct list sessions;
	struct map by_pid; /* of those that have not ended */
	struct exact_stats stats;
	bool closing;
	uint32_t jobs; /* under way */
	uint32_t open; /* sessions whose timer is not closed yet, and the inject part */
	void (*closed)(void *data);
};

/* exact.c */
void exact_part_closed(struct exact *exact);

/* session.c */
struct session *session_find(const struct exact *exact, uint32_t pid);
struct session *session_new(struct exact *exact, uint32_t pid);
/* Answers whoever waits, and forgets the session: now, or when its job is done. */
void session_end(struct session *session);
void session_fail(struct session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void session_note(struct session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Who has asked for it is told now, or when the job is done. */
void session_answer_attach(struct session *session);
void session_answer_detach(struct session *session, bool unloaded);
void session_leave(struct session *session);
bool session_process_ended(const struct session *session);
/* Waits so long for what its stage waits for. */
void session_wait(struct session *session, uint64_t ms);

/* job.c */
void exact_job(struct session *session, enum session_job job);

/* The library says hello some milliseconds after it was started. CUPTI's set-up takes 10 to 50 ms,
 * but a program that has not called cuInit() yet may take its time. */
#define HELLO_MS    5000
#define BEGIN_MS    3000
#define FAILED_TOLD 16 /* by `tsctl status`, of the processes that cannot be collected from */
#define DETACH_MS   10000

#endif
