/* Notify: the service's side of sd_notify(3), sd_watchdog_enabled(3) and sd_listen_fds(3). */
#include "daemon/notify.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/cleanup.h"

#define LISTEN_FDS_START 3

static void notify_write(const char *state, int flags)
{
	_cleanup_(closep) int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	socklen_t size;

	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(address.sun_path))
		return;
	strcpy(address.sun_path, path);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		sendto(fd, state, strlen(state), flags | MSG_NOSIGNAL, (struct sockaddr *)&address,
		       size);
}

void notify_send(const char *state)
{
	notify_write(state, 0);
}

void notify_post(const char *state)
{
	notify_write(state, MSG_DONTWAIT);
}

static int notify_is_for_us(const char *variable)
{
	const char *pid = getenv(variable);

	return pid && strtol(pid, NULL, 10) == getpid();
}

uint64_t notify_watchdog_ms(void)
{
	const char *us = getenv("WATCHDOG_USEC");

	/* Half of the limit, as sd_watchdog_enabled(3) advises. */
	return us && notify_is_for_us("WATCHDOG_PID") ? strtoull(us, NULL, 10) / 2000 : 0;
}

int notify_listen_fd(const char *name)
{
	const char *count = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
	size_t size = strlen(name);

	if (!count || !names || !notify_is_for_us("LISTEN_PID"))
		return -1;
	for (int i = 0; i < atoi(count) && names; i++) {
		const char *end = strchrnul(names, ':');

		if ((size_t)(end - names) == size && !memcmp(names, name, size)) {
			fcntl(LISTEN_FDS_START + i, F_SETFD, FD_CLOEXEC);
			return LISTEN_FDS_START + i;
		}
		names = *end ? end + 1 : NULL;
	}
	return -1;
}
