/* internal.h: what the files of inject share. All of it belongs to the loop. */
#ifndef TS_INJECT_SOURCE_INTERNAL_H
#define TS_INJECT_SOURCE_INTERNAL_H

#include "core/base/list.h"
#include "daemon/inject/inject.h"
#include "daemon/inject/ring.h"

enum peer_stage {
	PEER_NEW,      /* has not said hello */
	PEER_WELCOMED, /* has a ring */
	PEER_ENDED,    /* its connection has; what is in the ring is still read */
};

/* One process and its connection. */
struct peer {
	struct list link;
	struct list awake; /* its ring is looked at by the timer */
	struct inject *inject;
	enum peer_stage stage;
	bool closing;
	uint32_t pid, uid;
	bool adopted;
	uv_poll_t socket, process, wake;
	unsigned int handles;
	int fd;		/* of the connection */
	int process_fd; /* a pidfd, or -1 */
	uint64_t since_ms;
	uint64_t second, messages; /* messages in that second */
	struct inject_ring ring;
	uint64_t quiet_since_ms, stuck_since_ms; /* the latter 0: not */
	uint64_t end;				 /* ENDED: nothing from this position on is read */
};

struct inject {
	uv_loop_t *loop;
	struct inject_config config;
	struct inject_callbacks callbacks;
	void *data;
	uv_poll_t listener;
	int listen_fd; /* or -1 */
	char *path;    /* of a socket that is ours to remove, else NULL */
	uv_timer_t turn;
	uv_timer_t sweep; /* runs while somebody has not said hello, or we rest from accepting */
	bool resting;
	unsigned int handles; /* of ours, and one for each peer */
	struct list peers, awake;
	struct inject_stats stats;
	void (*closed)(void *data); /* set: closing */
};

/* inject.c */
struct peer *inject_find(const struct inject *inject, uint32_t pid);
/* The rings that are awake are looked at in `delay_ms`, and from then on regularly. */
void inject_look_soon(struct inject *inject, uint64_t delay_ms);
void inject_handle_closed(struct inject *inject);

/* peer.c */
/* Takes `fd` over on success. */
int peer_new(struct inject *inject, int fd, uint32_t pid, uint32_t uid, bool adopted);
/* Its connection is over; what is in the ring is read in the next turns. */
void peer_end(struct peer *peer);
/* The same, at once. */
void peer_finish(struct peer *peer);
/* Reads its ring, of `budget` slots. True: there is more to do now. The peer may be gone then. */
bool peer_look(struct peer *peer, uint32_t budget);
void peer_drain(struct peer *peer);

/* talk.c */
/* Reads what the library says and answers it. */
void peer_listen(struct peer *peer);
/* -EAGAIN: it takes nothing now. */
int peer_say(struct peer *peer, const void *message, size_t size);

#endif
