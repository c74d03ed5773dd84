/* peer.h: who is at the other end of a connection, according to the kernel, and whether they have
 * permission. */
#ifndef TS_API_PEER_H
#define TS_API_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Who has permission, besides root and the daemon's own user. */
struct peer_rule {
	bool has_group;
	gid_t group;
};

/* The rule for a group's name; a group that does not exist admits nobody. */
struct peer_rule peer_rule_of(const char *group);

/* -EACCES: no permission; `ret` is set then too. Another negative errno: it could not be
 * determined. */
int peer_check(int fd, const struct peer_rule *rule, struct ucred *ret);

#endif
