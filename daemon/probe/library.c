/* Probe library: the probes on one copy of a driver library.
 *
 * With uprobe_multi three links hold them all: the returns, the entries, and those of hot
 * functions, which may be exchanged for links to single processes. Otherwise each site has one or
 * two perf events. Return probes come first: a return without its entry is ignored, an entry
 * without its return would wait.
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

enum part {
	PART_LEAVE,
	PART_ENTER,
	PART_HOT, /* enter, too */
	PART_COUNT
};

struct probe_library {
	struct probe *probe;
	struct site *site;
	size_t count;
	uint32_t copy;		     /* number of it */
	int link[3];		     /* enum part; the multi way */
	struct bpf_link **perf_link; /* two per site, the perf way */
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

static bool library_wants_return(const struct site *site)
{
	return site->function->flags & PROBE_RETURN;
}

static bool part_has(enum part part, const struct site *site)
{
	if (part == PART_LEAVE)
		return library_wants_return(site);
	return library_is_hot(site->function) == (part == PART_HOT);
}

static uint64_t library_cookie(const struct probe_library *library, const struct site *site)
{
	uint64_t cookie = PROBE_COOKIE(site->function->number, site->event_flags);

	if (library_is_hot(site->function))
		cookie |= PROBE_COOKIE_HOT | PROBE_COOKIE_COPY(library->copy);
	return cookie;
}

/* Returns the link; 0: there is nothing of this part. `pid` is 0 for all processes. */
static int library_link(const struct probe_library *library, enum part part, const char *path,
			uint32_t pid)
{
	_cleanup_(freep) uint64_t *offset = calloc(library->count, sizeof(*offset));
	_cleanup_(freep) uint64_t *cookie = calloc(library->count, sizeof(*cookie));
	struct bpf_program *program = part == PART_LEAVE ? probe_program_leave(library->probe)
							 : probe_program_enter(library->probe);
	struct multi_attr attr = {
		.prog_fd = (uint32_t)bpf_program__fd(program),
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offset,
		.cookies = (uintptr_t)cookie,
		.multi_flags = part == PART_LEAVE ? MULTI_RETURN : 0,
		.pid = pid,
	};

	if (!offset || !cookie)
		return -ENOMEM;
	for (size_t i = 0; i < library->count; i++) {
		if (!part_has(part, &library->site[i]))
			continue;
		offset[attr.count] = library->site[i].offset;
		cookie[attr.count] = library_cookie(library, &library->site[i]);
		if (pid)
			cookie[attr.count] |= PROBE_COOKIE_SINGLE;
		attr.count++;
	}
	return attr.count ? multi_link(&attr) : 0;
}

static int library_attach_multi(struct probe_library *library, const char *path)
{
	int fd;

	for (enum part part = 0; part < PART_COUNT; part++) {
		fd = library_link(library, part, path, 0);
		if (fd < 0)
			return fd;
		library->link[part] = fd ? fd : -1;
	}
	return 0;
}

static int library_attach_site(struct probe_library *library, size_t i, bool enter,
			       const char *path)
{
	const struct site *site = &library->site[i];
	LIBBPF_OPTS(bpf_uprobe_opts, options, .bpf_cookie = library_cookie(library, site),
		    .retprobe = !enter);
	struct bpf_link *link = bpf_program__attach_uprobe_opts(
		enter ? probe_program_enter(library->probe) : probe_program_leave(library->probe),
		-1, path, site->offset, &options);

	if (!link)
		return -errno;
	library->perf_link[2 * i + enter] = link;
	return 0;
}

/* If a site cannot be probed only that function is lost. */
static int library_attach_perf(struct probe_library *library, const char *path)
{
	int r, error = -ENOENT;
	size_t good = 0;

	library->perf_link = calloc(2 * library->count, sizeof(*library->perf_link));
	if (!library->perf_link)
		return -ENOMEM;
	for (size_t i = 0; i < library->count; i++) {
		r = library_wants_return(&library->site[i])
			    ? library_attach_site(library, i, false, path)
			    : 0;
		if (!r)
			r = library_attach_site(library, i, true, path);
		if (!r)
			good++;
		else
			error = r;
	}
	library->stats.failed = (uint32_t)(library->count - good);
	return good ? 0 : error;
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
	for (int i = PART_COUNT - 1; i >= 0; i--)
		closep(&library->link[i]);
	for (size_t i = 2 * library->count; library->perf_link && i > 0; i--)
		bpf_link__destroy(library->perf_link[i - 1]);
	free(library->perf_link);
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

/* The file may have no path in our mount namespace, but it has this one. */
static void library_path(int fd, char out[PATH_SIZE])
{
	snprintf(out, PATH_SIZE, "/proc/self/fd/%d", fd);
}

int probe_attach(struct probe *probe, int fd, const char *path, uint32_t copy,
		 struct probe_library **ret)
{
	_cleanup_(probe_detachp) struct probe_library *library = calloc(1, sizeof(*library));
	char own_path[PATH_SIZE];
	int r;

	if (!library)
		return -ENOMEM;
	library->probe = probe;
	library->copy = copy;
	for (enum part part = 0; part < PART_COUNT; part++)
		library->link[part] = -1;
	r = library_find_sites(library, fd, path);
	if (r < 0)
		return r;
	library_path(fd, own_path);
	library_count(library);
	r = probe->way == PROBE_WAY_MULTI ? library_attach_multi(library, own_path)
					  : library_attach_perf(library, own_path);
	if (r < 0)
		return r;
	*ret = TAKE(library);
	return 0;
}

int probe_hot_link(const struct probe_library *library, int fd, uint32_t pid)
{
	char path[PATH_SIZE];
	int link;

	if (library->probe->way != PROBE_WAY_MULTI)
		return -EOPNOTSUPP;
	library_path(fd, path);
	link = library_link(library, PART_HOT, path, pid);
	return link ? link : -ENOENT;
}

int probe_hot_exchange(struct probe_library *library, int link)
{
	int old = library->link[PART_HOT];

	library->link[PART_HOT] = link;
	probe_hot_single(library->probe, library->copy, link < 0);
	return old;
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
