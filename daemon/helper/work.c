/* Work: what a helper does: one task after another, until its socket ends. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "daemon/helper/helper.h"
#include "daemon/helper/internal.h"
#include "daemon/helper/spawn.h"

static const struct helper_kind *kind_table;
static uint32_t kind_count;

void helper_kinds(const struct helper_kind *kinds, uint32_t count)
{
	kind_table = kinds;
	kind_count = count;
}

const struct helper_kind *helper_kind(uint32_t kind)
{
	return kind < kind_count ? &kind_table[kind] : NULL;
}

static int say(int socket, struct helper_head head, const void *data, size_t size, const int *fd,
	       uint32_t fds)
{
	_Alignas(struct helper_head) static char message[sizeof(head) + HELPER_MESSAGE];
	ssize_t n;

	if (size > HELPER_MESSAGE)
		return -EMSGSIZE;
	memcpy(message, &head, sizeof(head));
	if (size)
		memcpy(message + sizeof(head), data, size);
	n = spawn_send(socket, message, sizeof(head) + size, fd, fds);
	return n < 0 ? (int)n : 0;
}

int helper_say(int socket, const void *data, size_t size, const int *fd, uint32_t fds)
{
	return say(socket, (struct helper_head){ .more = 1 }, data, size, fd, fds);
}

bool helper_is_wanted(int socket)
{
	char byte;

	return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void helper_run(int socket, bool traces)
{
	_Alignas(struct helper_head) static char
		request[sizeof(struct helper_head) + HELPER_MESSAGE];
	const struct helper_head *head = (const struct helper_head *)request;
	const struct helper_kind *kind = NULL;
	int fd[SPAWN_FDS];
	uint32_t fds;

	do {
		ssize_t n = spawn_receive(socket, request, sizeof(request), 0, fd, &fds);
		int result;

		if (n < (ssize_t)sizeof(*head))
			return;
		kind = helper_kind(head->kind);
		if (!kind || kind->traces != traces)
			return;
		if (kind->undoes)
			prctl(PR_SET_PDEATHSIG, 0);
		result = kind->run(socket, request + sizeof(*head), (size_t)n - sizeof(*head), fd,
				   fds);
		while (fds)
			close(fd[--fds]);
		if (say(socket, (struct helper_head){ .result = result }, NULL, 0, NULL, 0) < 0)
			return;
	} while (!kind->once);
}
