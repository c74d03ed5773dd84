/* Probe library: the probes on one copy of a driver library, in links.
 *
 * A link holds the probes of one group of functions, for all processes or, with uprobe_multi, for
 * one. With uprobe_multi that takes a descriptor for the returns and one for the entries; otherwise
 * each site has one or two perf events. Return probes come first and go last: a return without its
 * entry is ignored, an entry without its return would wait.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/store/thread.h"
#include "daemon/probe/internal.h"
#include "daemon/probe/site.h"

#define ATTACH_TYPE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI */
#define MULTI_RETURN	  1  /* BPF_F_UPROBE_MULTI_RETURN */
#define PATH_SIZE	  32

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

enum part { PART_LEAVE, PART_ENTER, PART_COUNT };

struct probe_link {
	int fd[PART_COUNT];	/* the multi way */
	size_t perf_count;	/* the perf way */
	struct bpf_link **perf; /* two per site */
};

struct probe_library {
	struct probe *probe;
	struct site *site;
	size_t count;
	uint32_t copy;			       /* number of it */
	struct probe_link *link[PROBE_GROUPS]; /* those for all processes */
	struct probe_library_stats stats;
};

static int multi_link(struct multi_attr *attr)
{
	long fd;

	attr->attach_type = ATTACH_TYPE_MULTI;
	fd = syscall(SYS_bpf, BPF_LINK_CREATE, attr, sizeof(*attr));
	return fd < 0 ? -errno : (int)fd;
}

/* A kernel that knows the link looks at the path first and finds that it is not a file. */
bool probe_multi_works(int program_fd)
{
	uint64_t offset = 0, cookie = 0;
	struct multi_attr attr = {
		.prog_fd = (uint32_t)program_fd,
		.path = (uintptr_t) "/",
		.offsets = (uintptr_t)&offset,
		.cookies = (uintptr_t)&cookie,
		.count = 1,
	};
	int fd = multi_link(&attr);

	if (fd >= 0)
		close(fd);
	return fd == -EBADF;
}

struct trial {
	int program_fd, result;
};

/* The thread is not the first one of the process. */
static void *trial_main(void *data)
{
	struct trial *trial = data;
	uint64_t offset = 0, cookie = 0;
	struct multi_attr attr = {
		.prog_fd = (uint32_t)trial->program_fd,
		.path = (uintptr_t) "/proc/self/exe",
		.offsets = (uintptr_t)&offset,
		.cookies = (uintptr_t)&cookie,
		.count = 1,
		.pid = (uint32_t)gettid(),
	};

	trial->result = multi_link(&attr);
	if (trial->result >= 0)
		close(trial->result);
	return NULL;
}

/* Until 6.10, and stable kernels of that time, the kernel takes the id of any thread, and then sees
 * no other. Since then it takes those of processes, only. */
bool probe_single_works(int program_fd)
{
	struct trial trial = { .program_fd = program_fd };
	pthread_t thread;

	if (thread_start(&thread, trial_main, &trial) < 0)
		return false;
	pthread_join(thread, NULL);
	return trial.result == -ESRCH;
}

static bool library_wants_return(const struct site *site)
{
	return site->function->flags & PROBE_RETURN;
}

static bool group_has(enum probe_group group, const struct site *site)
{
	return library_is_hot(site->function) == (group == PROBE_HOT);
}

static bool part_has(enum part part, enum probe_group group, const struct site *site)
{
	return group_has(group, site) && (part == PART_ENTER || library_wants_return(site));
}

static uint64_t library_cookie(const struct probe_library *library, enum probe_group group,
			       uint8_t epoch, const struct site *site)
{
	return PROBE_COOKIE(site->function->number, site->event_flags) | PROBE_COOKIE_GROUP(group) |
	       PROBE_COOKIE_COPY(library->copy) | PROBE_COOKIE_EPOCH(epoch);
}

static struct bpf_program *part_program(const struct probe_library *library, enum part part)
{
	return part == PART_LEAVE ? probe_program_leave(library->probe)
				  : probe_program_enter(library->probe);
}

/* -1: there is nothing of this part. */
static int link_part(const struct probe_library *library, enum part part, const char *path,
		     const struct probe_link_for *to, int *ret)
{
	_cleanup_(freep) uint64_t *offset = calloc(library->count, sizeof(*offset));
	_cleanup_(freep) uint64_t *cookie = calloc(library->count, sizeof(*cookie));
	struct multi_attr attr = {
		.prog_fd = (uint32_t)bpf_program__fd(part_program(library, part)),
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offset,
		.cookies = (uintptr_t)cookie,
		.multi_flags = part == PART_LEAVE ? MULTI_RETURN : 0,
		.pid = to->pid,
	};
	int fd = -1;

	if (!offset || !cookie)
		return -ENOMEM;
	for (size_t i = 0; i < library->count; i++) {
		const struct site *site = &library->site[i];

		if (!part_has(part, to->group, site))
			continue;
		offset[attr.count] = site->offset;
		cookie[attr.count] = library_cookie(library, to->group, to->epoch, site);
		attr.count++;
	}
	if (attr.count)
		fd = multi_link(&attr);
	if (attr.count && fd < 0)
		return fd;
	*ret = fd;
	return 0;
}

static int link_multi(struct probe_link *link, const struct probe_library *library,
		      const char *path, const struct probe_link_for *to)
{
	int r = 0;

	for (enum part part = 0; r == 0 && part < PART_COUNT; part++)
		r = link_part(library, part, path, to, &link->fd[part]);
	return r;
}

static int link_site(struct probe_link *link, const struct probe_library *library, size_t i,
		     enum part part, const char *path, const struct probe_link_for *to)
{
	const struct site *site = &library->site[i];
	LIBBPF_OPTS(bpf_uprobe_opts, options,
		    .bpf_cookie = library_cookie(library, to->group, to->epoch, site),
		    .retprobe = part == PART_LEAVE);
	struct bpf_link *made = bpf_program__attach_uprobe_opts(part_program(library, part), -1,
								path, site->offset, &options);

	if (!made)
		return -errno;
	link->perf[2 * i + part] = made;
	return 0;
}

/* If a site cannot be probed only that function is lost. */
static int link_perf(struct probe_link *link, const struct probe_library *library, const char *path,
		     const struct probe_link_for *to, uint32_t *ret_failed)
{
	size_t good = 0, bad = 0;
	int error = 0;

	link->perf = calloc(2 * library->count, sizeof(*link->perf));
	if (!link->perf)
		return -ENOMEM;
	link->perf_count = 2 * library->count;
	for (size_t i = 0; i < library->count; i++) {
		int r = 0;

		for (enum part part = 0; r == 0 && part < PART_COUNT; part++)
			if (part_has(part, to->group, &library->site[i]))
				r = link_site(link, library, i, part, path, to);
		if (r < 0)
			error = r;
		if (group_has(to->group, &library->site[i]))
			*(r < 0 ? &bad : &good) += 1;
	}
	*ret_failed = (uint32_t)bad;
	return good ? 0 : error;
}

struct probe_link *probe_link_free(struct probe_link *link)
{
	if (!link)
		return NULL;
	for (size_t i = link->perf_count; i > 0; i--)
		bpf_link__destroy(link->perf[i - 1]);
	free(link->perf);
	for (int i = PART_COUNT - 1; i >= 0; i--)
		closep(&link->fd[i]);
	free(link);
	return NULL;
}
CLEANUP_DEFINE(struct probe_link, probe_link_free)

/* The file may have no path in our mount namespace, but it has this one. */
static void library_path(int fd, char out[PATH_SIZE])
{
	snprintf(out, PATH_SIZE, "/proc/self/fd/%d", fd);
}

static int link_new(const struct probe_library *library, int fd, const struct probe_link_for *to,
		    uint32_t *ret_failed, struct probe_link **ret)
{
	_cleanup_(probe_link_freep) struct probe_link *link = calloc(1, sizeof(*link));
	char path[PATH_SIZE];
	int r;

	if (!link)
		return -ENOMEM;
	for (enum part part = 0; part < PART_COUNT; part++)
		link->fd[part] = -1;
	library_path(fd, path);
	*ret_failed = 0;
	r = library->probe->way == PROBE_WAY_MULTI ? link_multi(link, library, path, to)
						   : link_perf(link, library, path, to, ret_failed);
	if (r < 0)
		return r;
	*ret = TAKE(link);
	return 0;
}

int probe_link_new(const struct probe_library *library, int fd, const struct probe_link_for *to,
		   struct probe_link **ret)
{
	uint32_t failed;

	if (to->pid && !library->probe->single)
		return -EOPNOTSUPP;
	return link_new(library, fd, to, &failed, ret);
}

static void library_count(struct probe_library *library)
{
	for (size_t i = 0; i < library->count; i++) {
		library->stats.functions++;
		library->stats.returns += library_wants_return(&library->site[i]);
		library->stats.single_steps += library->site[i].cost == SITE_SINGLE_STEP;
	}
}

struct probe_library *probe_detach(struct probe_library *library)
{
	if (!library)
		return NULL;
	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		probe_link_free(library->link[group]);
	free(library->site);
	free(library);
	return NULL;
}
CLEANUP_DEFINE(struct probe_library, probe_detach)

/* By its name it is a copy of one row, or of any. */
static int library_find_sites(struct probe_library *library, int fd, const char *path)
{
	const struct library_row *named = library_of(path), *row;
	int r = 0;

	for (size_t i = 0; r == 0 && !library->count && (row = library_get(i)); i++) {
		if (named && row != named)
			continue;
		free(library->site);
		library->site = NULL;
		r = site_find(fd, row, &library->site, &library->count);
	}
	return r < 0 || library->count ? r : -ENOENT;
}

/* In the perf way one group may fail where another does not. */
static int library_link_all(struct probe_library *library, int fd)
{
	int r = 0, error = 0, good = 0;
	uint32_t failed;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++) {
		struct probe_link_for all = {
			.group = group,
			.epoch = probe_epoch(library, group),
		};

		r = link_new(library, fd, &all, &failed, &library->link[group]);
		if (r < 0)
			error = r;
		else
			good++;
		library->stats.failed += failed;
	}
	return library->probe->way == PROBE_WAY_PERF && good ? 0 : error;
}

int probe_attach(struct probe *probe, int fd, const char *path, uint32_t copy,
		 struct probe_library **ret)
{
	_cleanup_(probe_detachp) struct probe_library *library = calloc(1, sizeof(*library));
	int r;

	if (!library)
		return -ENOMEM;
	library->probe = probe;
	library->copy = copy % PROBE_COPIES_MAX;
	r = library_find_sites(library, fd, path);
	if (r < 0)
		return r;
	library_count(library);
	r = library_link_all(library, fd);
	if (r < 0)
		return r;
	*ret = TAKE(library);
	return 0;
}

uint8_t probe_epoch(const struct probe_library *library, enum probe_group group)
{
	return *probe_epoch_of(library->probe, group, library->copy);
}

struct probe_link *probe_take_wide(struct probe_library *library, enum probe_group group)
{
	return TAKE(library->link[group]);
}

void probe_next_epoch(struct probe_library *library, enum probe_group group)
{
	uint8_t *epoch = probe_epoch_of(library->probe, group, library->copy);

	__atomic_store_n(epoch, (uint8_t)(*epoch + 1), __ATOMIC_RELEASE);
}

void probe_library_stats(const struct probe_library *library, struct probe_library_stats *ret)
{
	*ret = library->stats;
}

const char *probe_library_slow(const struct probe_library *library, uint32_t n)
{
	for (size_t i = 0; i < library->count; i++)
		if (library->site[i].cost == SITE_SINGLE_STEP && !n--)
			return library->site[i].function->model.name;
	return NULL;
}

int probe_link_function(int program_fd, const char *path, uint64_t offset, uint64_t cookie,
			uint32_t pid)
{
	struct multi_attr attr = {
		.prog_fd = (uint32_t)program_fd,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)&offset,
		.cookies = (uintptr_t)&cookie,
		.count = 1,
		.pid = pid,
	};

	return multi_link(&attr);
}
