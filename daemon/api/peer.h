/* peer.h: who is at the other end of a connection, by the kernel's word, and whether he may. */
#ifndef TS_API_PEER_H
#define TS_API_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Who may beside root and the daemon's own user. */
struct peer_rule {
	bool has_group;
	gid_t group;
};

/* The rule for a group's name; a group that does not exist lets nobody in. */
struct peer_rule peer_rule_of(const char *group);

/* -EACCES: he may not; `ret` is set then too. Another negative errno: not to be found out. */
int peer_check(int fd, const struct peer_rule *rule, struct ucred *ret);

#endif
