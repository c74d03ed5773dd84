/* address.h: where the daemon listens for libraries. */
#ifndef TS_INJECT_ADDRESS_H
#define TS_INJECT_ADDRESS_H

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "proto/paths.h"

static inline void address_of_daemon(struct sockaddr_un *ret)
{
	const char *path = getenv(TS_ENV_INJECT_SOCKET);

	if (!path || !*path || strlen(path) >= sizeof(ret->sun_path))
		path = TS_PATH_INJECT_SOCKET;
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	memcpy(ret->sun_path, path, strlen(path));
}

#endif
