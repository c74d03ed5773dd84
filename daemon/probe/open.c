/* Open: the driver call that a thread is in, as the enter program left it in the thread's storage.
 * Where its fields are is asked of the program's types, since only BPF programs know the struct. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/probe/internal.h"

#include "bpf/probe.skel.h"

#define PIDFD_THREAD O_EXCL /* since 6.9 */
#define BITS	     8

struct fields {
	uint32_t depth, call, call_sp;
};

static int find_field(const struct btf *btf, const struct btf_type *type, const char *name,
		      uint32_t *ret)
{
	const struct btf_member *member = btf_members(type);

	for (uint32_t i = 0; i < btf_vlen(type); i++, member++) {
		if (strcmp(btf__name_by_offset(btf, member->name_off), name) != 0)
			continue;
		*ret = btf_member_bit_offset(type, i) / BITS;
		return 0;
	}
	return -ENOENT;
}

static int find_fields(struct probe *probe, struct fields *ret)
{
	const struct btf *btf = bpf_object__btf(probe->bpf->obj);
	int id = btf ? btf__find_by_name_kind(btf, "thread", BTF_KIND_STRUCT) : -ENOENT;
	const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	if (!type || find_field(btf, type, "depth", &ret->depth) < 0 ||
	    find_field(btf, type, "call", &ret->call) < 0)
		return -ENOENT;
	return find_field(btf, type, "call_sp", &ret->call_sp);
}

/* Before 6.9 only of a process's first thread. */
static int open_thread(uint32_t tid)
{
	long fd = syscall(SYS_pidfd_open, tid, PIDFD_THREAD);

	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_pidfd_open, tid, 0);
	return fd < 0 ? -errno : (int)fd;
}

int probe_open_call(struct probe *probe, uint32_t tid, struct probe_open *ret)
{
	const struct bpf_map *map = probe->bpf->maps.threads;
	const size_t size = bpf_map__value_size(map);
	_cleanup_(freep) uint8_t *thread = malloc(size);
	_cleanup_(closep) int fd = open_thread(tid);
	struct fields fields;
	struct ts_event call;
	uint64_t sp;
	uint32_t depth;
	int r = find_fields(probe, &fields);

	if (r < 0)
		return r;
	if (!thread)
		return -ENOMEM;
	if (fd < 0 || bpf_map_lookup_elem(bpf_map__fd(map), &fd, thread) < 0)
		return -ENOENT;
	memcpy(&depth, thread + fields.depth, sizeof(depth));
	if (!depth || depth > PROBE_DEPTH_MAX)
		return -ENOENT;
	/* The outermost is the program's, the others are the driver's own. */
	memcpy(&call, thread + fields.call, sizeof(call));
	memcpy(&sp, thread + fields.call_sp, sizeof(sp));
	*ret = (struct probe_open){ .fn = call.fn, .start_ns = call.start_ns, .sp = sp };
	return 0;
}
