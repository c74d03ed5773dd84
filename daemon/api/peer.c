/* Peer: root, the daemon's own user and members of one group may use the control socket. Membership
 * is taken from when the peer connected (SO_PEERCRED, SO_PEERGROUPS), so the loop never waits for a
 * name service. */
#include "daemon/api/peer.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/cleanup.h"

struct peer_rule peer_rule_of(const char *group)
{
	const struct group *entry = group ? getgrnam(group) : NULL;

	return (struct peer_rule){ .has_group = entry, .group = entry ? entry->gr_gid : 0 };
}

static int in_groups(int fd, gid_t group)
{
	_cleanup_(freep) gid_t *groups = NULL;
	socklen_t size = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0)
		return -EACCES; /* it has none */
	if (errno != ERANGE)
		return -errno;
	groups = malloc(size);
	if (!groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return -errno;
	for (size_t i = 0; i < size / sizeof(gid_t); i++)
		if (groups[i] == group)
			return 0;
	return -EACCES;
}

int peer_check(int fd, const struct peer_rule *rule, struct ucred *ret)
{
	struct ucred credentials;
	socklen_t size = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
		return -errno;
	*ret = credentials;
	if (credentials.uid == 0 || credentials.uid == geteuid())
		return 0;
	if (!rule->has_group)
		return -EACCES;
	if (credentials.gid == rule->group)
		return 0;
	return in_groups(fd, rule->group);
}
