/* internal.h: shared by the files of inject. All of it belongs to the loop. */
#ifndef TS_INJECT_SOURCE_INTERNAL_H
#define TS_INJECT_SOURCE_INTERNAL_H

#include "core/base/list.h"
#include "core/base/quota.h"
#include "daemon/inject/inject.h"
#include "daemon/inject/ring.h"

enum peer_stage {
	PEER_NEW,      /* has not said hello */
	PEER_WELCOMED, /* has a ring */
	PEER_ENDED,    /* its connection has ended; what is in the ring is still read */
};

/* One process and its connection. */
struct peer {
	struct list link;
	struct list awake; /* its ring is read in each turn */
	struct inject *inject;
	enum peer_stage stage;
	bool closing;
	uint32_t pid, uid;
	uint32_t user;	     /* who answers for it */
	uint64_t ring_bytes; /* that he is charged for */
	bool adopted;
	uv_poll_t socket, process, wake;
	unsigned int handles;
	int fd;		/* of the connection */
	int process_fd; /* a pidfd, or -1 */
	uint64_t since_ms;
	uint64_t second, messages; /* messages in that second */
	struct inject_ring ring;
	struct intake_lane lane;
	uint64_t quiet_since_ms;
	uint64_t stuck_seen_ms, stuck_ms; /* the last look at a slot in the making, 0: none; since
					   * when, in time that counts */
	uint64_t end;			  /* ENDED: nothing from this position on is read */
	uint64_t ended_ns; /* ENDED: when the ring was read up to there, 0: not yet */
};

struct inject {
	uv_loop_t *loop;
	struct intake *intake;
	struct inject_config config;
	struct inject_callbacks callbacks;
	void *data;
	uv_poll_t listener;
	int listen_fd;	  /* or -1 */
	char *path;	  /* of a socket that is ours to remove, else NULL */
	uv_timer_t sweep; /* runs while somebody has not said hello, or while accepting is paused */
	bool resting;
	unsigned int handles; /* of ours, and one for each peer */
	struct list peers, awake;
	struct quota places, ring_bytes; /* of the users: connections, and memory of rings */
	uint64_t random;
	struct inject_stats stats;
	void (*closed)(void *data); /* set: closing */
};

/* inject.c */
struct peer *inject_find(const struct inject *inject, uint32_t pid);
void inject_handle_closed(struct inject *inject);

/* peer.c */
/* Takes `fd` over on success. `user` has been charged for its place, which it then gives back. */
int peer_new(struct inject *inject, int fd, const struct ucred *process, uint32_t user,
	     bool adopted);
/* Its connection is over; what is in the ring is read in the next rounds. */
void peer_end(struct peer *peer);
/* The same, at once: its last records wait for nobody. */
void peer_finish(struct peer *peer);
/* Reads its ring, of `budget` slots. The peer may be gone then. */
enum intake_state peer_look(struct peer *peer, uint64_t now_ns, uint32_t budget);
/* As the intake's lane gives it. */
void peer_give(void *data, const void *record, size_t size);
/* Its ring sleeps: wakes it where something has come and did not wake us yet. */
void peer_peek(struct peer *peer);

/* talk.c */
/* Reads the library's messages and answers them. */
void peer_listen(struct peer *peer);
/* -EAGAIN: it accepts nothing now. */
int peer_say(struct peer *peer, const void *message, size_t size);
/* With descriptors, two at most. */
int peer_hand(struct peer *peer, const void *message, size_t size, const int *fd, unsigned int fds);

#endif
