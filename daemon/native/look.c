/* Look: reads a task iterator. Its program finds what process is meant by who reads. */
#include "daemon/native/look.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/broker/broker.h"

struct look {
	int fd[LOOK_FDS];
};

enum { LINK, WANTED /* map of who reads what */, SAMPLER };

int look_ask(struct broker *broker, int ret[LOOK_FDS])
{
	int r = broker_look(broker, ret);

	if (r < 0)
		return r;
	ret[SAMPLER] = broker_sampler(broker);
	if (ret[SAMPLER] >= 0)
		return 0;
	close(ret[LINK]);
	close(ret[WANTED]);
	return ret[SAMPLER];
}

int look_new(const int fd[LOOK_FDS], struct look **ret)
{
	struct look *look = calloc(1, sizeof(*look));

	if (!look)
		return -ENOMEM;
	memcpy(look->fd, fd, sizeof(look->fd));
	*ret = look;
	return 0;
}

struct look *look_free(struct look *look)
{
	for (size_t i = 0; look && i < LOOK_FDS; i++)
		closep(&look->fd[i]);
	free(look);
	return NULL;
}

int look_sampler(const struct look *look)
{
	return look->fd[SAMPLER];
}

/* A read may end anywhere, also within a thread. */
static int read_all(int fd, struct task_registers *ret, size_t max, size_t *ret_count)
{
	size_t size = 0, room = max * sizeof(*ret);
	ssize_t n = 1;

	while (size < room && n > 0) {
		n = read(fd, (uint8_t *)ret + size, room - size);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		size += n > 0 ? (size_t)n : 0;
		n = n < 0 ? 1 : n;
	}
	*ret_count = size / sizeof(*ret);
	return *ret_count ? 0 : -ESRCH;
}

int look_at(const struct look *look, uint32_t pid, struct task_registers *ret, size_t max,
	    size_t *ret_count)
{
	const uint32_t reader = (uint32_t)syscall(SYS_gettid);
	_cleanup_(closep) int fd = -1;
	int r;

	fd = bpf_iter_create(look->fd[LINK]);
	if (fd < 0)
		return -errno;
	if (bpf_map_update_elem(look->fd[WANTED], &reader, &pid, BPF_ANY) < 0)
		return -errno;
	r = read_all(fd, ret, max, ret_count);
	bpf_map_delete_elem(look->fd[WANTED], &reader);
	return r;
}
