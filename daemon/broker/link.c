/* Link: uprobe_multi links (Linux 6.6), and perf events for older kernels. */
#include "daemon/broker/link.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/store/thread.h"

#define ATTACH_TYPE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI */
#define MULTI_RETURN	  1  /* BPF_F_UPROBE_MULTI_RETURN */
#define PATH_SIZE	  32
#define SEMAPHORE_SHIFT	  32 /* in a perf event's config, since Linux 4.20 */
#define EVENTS		  "/sys/bus/event_source/devices/uprobe/"

/* The part of union bpf_attr that BPF_LINK_CREATE reads; headers before 6.6 do not have it. */
struct multi_attr {
	uint32_t prog_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	uint64_t path;
	uint64_t offsets;
	uint64_t ref_ctr_offsets;
	uint64_t cookies;
	uint32_t count;
	uint32_t multi_flags;
	uint32_t pid;
	uint32_t padding;
};

static int multi_create(struct multi_attr *attr)
{
	long fd;

	attr->attach_type = ATTACH_TYPE_MULTI;
	fd = syscall(SYS_bpf, BPF_LINK_CREATE, attr, sizeof(*attr));
	return fd < 0 ? -errno : (int)fd;
}

/* A kernel that knows the link looks at the path first and finds that it is not a file. */
bool link_multi_works(int program)
{
	uint64_t offset = 0, cookie = 0;
	struct multi_attr attr = {
		.prog_fd = (uint32_t)program,
		.path = (uintptr_t) "/",
		.offsets = (uintptr_t)&offset,
		.cookies = (uintptr_t)&cookie,
		.count = 1,
	};
	int fd = multi_create(&attr);

	if (fd >= 0)
		close(fd);
	return fd == -EBADF;
}

struct trial {
	int program, result;
};

/* The thread is not the first one of the process. */
static void *trial_main(void *data)
{
	struct trial *trial = data;
	uint64_t offset = 0, cookie = 0;
	struct multi_attr attr = {
		.prog_fd = (uint32_t)trial->program,
		.path = (uintptr_t) "/proc/self/exe",
		.offsets = (uintptr_t)&offset,
		.cookies = (uintptr_t)&cookie,
		.count = 1,
		.pid = (uint32_t)gettid(),
	};

	trial->result = multi_create(&attr);
	if (trial->result >= 0)
		close(trial->result);
	return NULL;
}

/* Until 6.10, and stable kernels of that time, the kernel takes the id of any thread, and then sees
 * no other. Since then it takes those of processes, only. */
bool link_single_works(int program)
{
	struct trial trial = { .program = program };
	pthread_t thread;

	if (thread_start(&thread, trial_main, &trial) < 0)
		return false;
	pthread_join(thread, NULL);
	return trial.result == -ESRCH;
}

/* The file may have no path in our mount namespace, but it has this one. */
static void file_path(int fd, char out[PATH_SIZE])
{
	snprintf(out, PATH_SIZE, "/proc/self/fd/%d", fd);
}

int link_multi(const struct link_places *places)
{
	char path[PATH_SIZE];
	struct multi_attr attr = {
		.prog_fd = (uint32_t)places->program,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)places->offset,
		.ref_ctr_offsets = (uintptr_t)places->semaphore,
		.cookies = (uintptr_t)places->cookie,
		.count = places->count,
		.multi_flags = places->leave ? MULTI_RETURN : 0,
		.pid = places->pid,
	};

	file_path(places->file, path);
	return multi_create(&attr);
}

/* The file has one line: `prefix` and a number. */
static int read_number(const char *path, const char *prefix)
{
	FILE *file = fopen(path, "re");
	char line[32];
	int r = -EINVAL;

	if (!file)
		return -errno;
	if (fgets(line, sizeof(line), file) && strncmp(line, prefix, strlen(prefix)) == 0)
		r = (int)strtoul(line + strlen(prefix), NULL, 10) & INT_MAX;
	fclose(file);
	return r;
}

static int open_event(const struct link_places *places)
{
	const int type = read_number(EVENTS "type", "");
	const int bit = read_number(EVENTS "format/retprobe", "config:");
	const pid_t pid = places->pid ? (pid_t)places->pid : -1;
	const uint64_t semaphore = places->semaphore ? places->semaphore[0] : 0;
	char path[PATH_SIZE];
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config = places->leave && bit >= 0 ? 1ull << (bit & (SEMAPHORE_SHIFT - 1)) : 0,
		.config1 = (uintptr_t)path,
		.config2 = places->offset[0],
	};
	long fd;

	if (type < 0 || bit < 0 || bit >= SEMAPHORE_SHIFT || semaphore > UINT32_MAX)
		return -EOPNOTSUPP;
	attr.config |= semaphore << SEMAPHORE_SHIFT;
	attr.type = (uint32_t)type;
	file_path(places->file, path);
	fd = syscall(SYS_perf_event_open, &attr, pid, places->pid ? -1 : 0, -1,
		     PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

int link_perf(const struct link_places *places)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = places->cookie[0]);
	_cleanup_(closep) int event = open_event(places);
	int link;

	if (event < 0)
		return event;
	link = bpf_link_create(places->program, event, BPF_PERF_EVENT, &options);
	if (link < 0)
		return link;
	/* The link holds the event. */
	if (ioctl(event, PERF_EVENT_IOC_ENABLE, 0) < 0) {
		int r = -errno;

		close(link);
		return r;
	}
	return link;
}
