/* Look: reads a task iterator. Its program finds what process is meant by who reads. */
#include "daemon/native/look.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf/task.skel.h"

struct look {
	struct task_bpf *bpf;
};

int look_new(struct look **ret)
{
	_cleanup_(look_freep) struct look *look = calloc(1, sizeof(*look));

	if (!look)
		return -ENOMEM;
	look->bpf = task_bpf__open_and_load();
	if (!look->bpf)
		return -errno;
	look->bpf->links.task_registers =
		bpf_program__attach_iter(look->bpf->progs.task_registers, NULL);
	if (!look->bpf->links.task_registers)
		return -errno;
	*ret = TAKE(look);
	return 0;
}

struct look *look_free(struct look *look)
{
	if (!look)
		return NULL;
	task_bpf__destroy(look->bpf);
	free(look);
	return NULL;
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
	int wanted = bpf_map__fd(look->bpf->maps.wanted);
	_cleanup_(closep) int fd = -1;
	int r;

	fd = bpf_iter_create(bpf_link__fd(look->bpf->links.task_registers));
	if (fd < 0)
		return -errno;
	if (bpf_map_update_elem(wanted, &reader, &pid, BPF_ANY) < 0)
		return -errno;
	r = read_all(fd, ret, max, ret_count);
	bpf_map_delete_elem(wanted, &reader);
	return r;
}
