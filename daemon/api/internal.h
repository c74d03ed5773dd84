/* internal.h: shared by the files of api. All of it belongs to the loop, except what struct job
 * assigns to the worker too. */
#ifndef TS_API_INTERNAL_H
#define TS_API_INTERNAL_H

#include <unistd.h>
#include <uv.h>

#include "core/base/list.h"
#include "core/base/quota.h"
#include "core/store/query/remark.h"
#include "daemon/api/api.h"
#include "daemon/api/peer.h"
#include "proto/control.pb-c.h"
#include "proto/frame.h"

struct job;
struct subscription;

struct client {
	struct list link; /* of api->clients */
	struct api *api;
	uv_pipe_t pipe;
	uid_t uid;
	uint32_t admitted; /* 1: its user is charged for it */
	pid_t pid;	   /* 0: not visible from here */
	struct ts_frame_reader reader;
	struct list jobs;    /* struct job, by client_link */
	struct list tickets; /* struct api_ticket, by client_link */
	uint32_t job_count, ticket_count, subscription_count;
	size_t queued_bytes;	/* given to libuv, not yet written */
	uint64_t half_since_ms; /* when the part of a message that is held started to arrive, 0:
				   none */
	uint64_t moved_ms;	/* last time that it read something while something waited */
	bool paused;		/* not read from while its replies wait */
	bool ending;		/* closed as soon as the queue is written */
};

struct api {
	uv_loop_t *loop;
	uv_pipe_t listener;
	uv_async_t wake;    /* a worker has output */
	uv_timer_t sweep;   /* runs while there are clients */
	uv_timer_t recheck; /* runs while a job waits for earlier data to be stored */
	unsigned int handles;
	char *path; /* of a socket that is ours to remove, else NULL */
	char *group, *database, *boot_id;
	int zygote; /* -1: none */
	uint32_t query_role;
	int64_t wall_offset_ns;
	unsigned int half_ms, stall_ms, read_ms, beat_ms;
	struct peer_rule rule;
	bool own; /* its members see only their own processes */
	struct api_callbacks callbacks;
	void *data;
	struct list clients; /* oldest first */
	uint32_t client_count;
	struct quota places;	      /* of users, for clients */
	struct list waiting, running; /* struct job, oldest first */
	uint32_t waiting_count, running_count;
	struct list tickets; /* struct api_ticket */
	struct quota ticket_share;
	struct list subscriptions;
	struct quota viewers;
	uv_timer_t beat; /* runs while there are any */
	uint64_t refused;
	uint64_t died, died_ms;	    /* processes that answered queries, and the last time */
	void (*closed)(void *data); /* set: closing */
};

/* Whether it sees only the processes of its user. */
static inline bool client_sees_own(const struct client *client)
{
	return client->api->own && client->uid != 0 && client->uid != geteuid();
}

/* client.c */
int client_accept(struct api *api, uv_stream_t *listener);
/* Queues a framed message and takes it over. `job` is notified when its bytes are written. */
void client_write(struct client *client, struct job *job, uint8_t *data, size_t size);
void client_reply(struct client *client, const Tracesmith__V1__Reply *reply);
/* Where the sentence says it all, to whatever program asked. */
void client_error(struct client *client, uint64_t id, Tracesmith__V1__Error__Code code,
		  const char *message);
/* The arguments are texts, with a NULL behind them. */
void client_fail(struct client *client, uint64_t id, Tracesmith__V1__Remark__Reason reason, ...)
	__attribute__((sentinel));
/* One remark, or none where there was no memory for it. */
void client_fail_for(struct client *client, uint64_t id, const struct remarks *why);
/* One sentence, then the end. */
void client_refuse(struct client *client, Tracesmith__V1__Error__Code code, const char *message);
void client_refuse_for(struct client *client, Tracesmith__V1__Remark__Reason reason, ...)
	__attribute__((sentinel));
void client_close(struct client *client);
void client_sweep(struct client *client, uint64_t now_ms);

/* handler.c */
/* Takes the request over. */
void handler_call(struct client *client, Tracesmith__V1__Request *request);

/* job.c */
int job_add(struct client *client, Tracesmith__V1__Request *request);
/* Its client is gone or wants no answer. */
void job_cancel(struct job *job);
void jobs_detach(struct client *client);
struct job *job_find(struct client *client, uint64_t id);
void job_written(struct job *job, size_t size);
/* Starts what may run now, and makes sure that the rest is looked at again. */
void jobs_start(struct api *api);
/* Where others wait, ends those whose clients do not read. */
void jobs_evict(struct api *api);
/* Passes the output of running jobs to their clients. */
void jobs_flush(struct api *api);

/* ticket.c */
/* NULL: no memory, or too many; the client was told. */
struct api_ticket *ticket_add(struct client *client, uint64_t id);
struct api_ticket *ticket_find(struct client *client, uint64_t id);
/* Its client is told that it was cancelled, and gets no other answer. */
void ticket_cancel(struct api_ticket *ticket);
/* Its client is gone. */
void tickets_detach(struct client *client);
/* The api is gone: remaining answers are discarded. */
void tickets_orphan(struct api *api);

/* subscription.c */
/* The client is told if it cannot have one. */
void subscription_add(struct client *client, uint64_t id);
struct subscription *subscription_find(struct client *client, uint64_t id);
/* Its client is told that it was cancelled. */
void subscription_cancel(struct subscription *subscription);
/* The client is gone. */
void subscriptions_end(struct client *client);

/* api.c */
/* Continues closing when nothing needs the handles any more. */
void api_close_rest(struct api *api);

#endif
