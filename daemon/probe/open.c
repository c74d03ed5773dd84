/* Open: the driver call that a thread is in, as the enter program left it in the thread's storage.
 * Where its fields are the broker says. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/probe/internal.h"

#define PIDFD_THREAD O_EXCL /* since 6.9 */

/* Before 6.9 only of a process's first thread. */
static int open_thread(uint32_t tid)
{
	long fd = syscall(SYS_pidfd_open, tid, PIDFD_THREAD);

	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_pidfd_open, tid, 0);
	return fd < 0 ? -errno : (int)fd;
}

int probe_open_map(const struct probe *probe, struct probe_open_place *ret)
{
	const struct broker_programs *told = &probe->programs;

	*ret = (struct probe_open_place){ told->thread_size, told->thread_depth, told->thread_call,
					  told->thread_sp };
	return probe->map[BROKER_THREADS];
}

static bool fits(const struct probe_open_place *place, uint32_t offset, size_t size)
{
	return offset <= place->size && size <= place->size - offset;
}

int probe_open_check(int map, const struct probe_open_place *place)
{
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(map, &info, &size) < 0 || info.value_size != place->size ||
	    !fits(place, place->depth, sizeof(uint32_t)) ||
	    !fits(place, place->call, sizeof(struct ts_event)) ||
	    !fits(place, place->sp, sizeof(uint64_t)))
		return -EBADMSG;
	return 0;
}

int probe_open_call(int map, const struct probe_open_place *place, uint32_t tid,
		    struct probe_open *ret)
{
	_cleanup_(freep) uint8_t *thread = malloc(place->size);
	_cleanup_(closep) int fd = open_thread(tid);
	struct ts_event call;
	uint64_t sp;
	uint32_t depth;

	if (!thread)
		return -ENOMEM;
	if (fd < 0 || bpf_map_lookup_elem(map, &fd, thread) < 0)
		return -ENOENT;
	memcpy(&depth, thread + place->depth, sizeof(depth));
	if (!depth || depth > PROBE_DEPTH_MAX)
		return -ENOENT;
	/* The outermost is the program's, the others are the driver's own. */
	memcpy(&call, thread + place->call, sizeof(call));
	memcpy(&sp, thread + place->sp, sizeof(sp));
	*ret = (struct probe_open){ .fn = call.fn, .start_ns = call.start_ns, .sp = sp };
	return 0;
}
