/* Probe library: the probes on one copy of a driver library, in links.
 *
 * A link holds the probes of one group of functions, for all processes or, with uprobe_multi, for
 * one. With uprobe_multi that takes a descriptor for the returns and one for the entries; otherwise
 * each site has one or two. The broker makes them; they end here.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/probe/held.h"
#include "daemon/probe/internal.h"
#include "daemon/probe/site.h"

struct probe_link {
	struct held_file *file;
	size_t count;
	int *fd;
};

struct probe_library {
	struct probe *probe;
	struct held_file *file;
	struct site *site;
	struct broker_site *asked; /* the same, for the broker */
	size_t count;
	uint32_t copy;			       /* number of it */
	struct probe_link *link[PROBE_GROUPS]; /* those for all processes */
	struct probe_library_stats stats;
};

/* Return probes came first and go last: a return without its entry is ignored, an entry without its
 * return would wait. */
struct probe_link *probe_link_free(struct probe_link *link)
{
	if (!link)
		return NULL;
	while (link->count)
		close(link->fd[--link->count]);
	free(link->fd);
	held_file_unref(link->file);
	free(link);
	return NULL;
}
CLEANUP_DEFINE(struct probe_link, probe_link_free)

bool probe_link_is_held(const struct probe_link *link)
{
	return link && held_file_is(link->file);
}

static int link_new(const struct probe_library *library, int fd, const struct probe_link_for *to,
		    uint32_t *ret_failed, struct probe_link **ret)
{
	_cleanup_(probe_link_freep) struct probe_link *link = calloc(1, sizeof(*link));
	const struct broker_request request = {
		.pid = to->pid,
		.group = (uint8_t)to->group,
		.copy = (uint16_t)library->copy,
		.value = to->epoch,
		.sites = (uint32_t)library->count,
	};
	struct broker_links links;
	int r;

	if (!link)
		return -ENOMEM;
	if (held_file_is(library->file))
		return -EBUSY;
	r = broker_link(library->probe->broker, fd, &request, library->asked, &links);
	if (r < 0)
		return r;
	link->file = held_file_ref(library->file);
	link->fd = links.fd;
	link->count = links.count;
	*ret_failed = links.failed;
	*ret = TAKE(link);
	return 0;
}

int probe_link_new(const struct probe_library *library, int fd, const struct probe_link_for *to,
		   struct probe_link **ret)
{
	uint32_t failed;

	if (to->pid && !library->probe->programs.single)
		return -EOPNOTSUPP;
	return link_new(library, fd, to, &failed, ret);
}

static void library_count(struct probe_library *library)
{
	for (size_t i = 0; i < library->count; i++) {
		library->stats.functions++;
		library->stats.returns +=
			returns_have(&library->probe->config.returns, library->site[i].function);
		library->stats.single_steps += library->site[i].cost == SITE_SINGLE_STEP;
	}
}

struct probe_library *probe_detach(struct probe_library *library)
{
	if (!library)
		return NULL;
	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		probe_link_free(library->link[group]);
	held_file_unref(library->file);
	free(library->site);
	free(library->asked);
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

/* The programs find where the arguments are by the copy and the number of the note. */
static int library_place_notes(struct probe_library *library)
{
	uint16_t number = 0;

	for (size_t i = 0; i < library->count; i++) {
		struct site *site = &library->site[i];
		uint32_t key = PROBE_NOTE_KEY(library->copy, number);

		if (!(site->function->flags & PROBE_NOTE))
			continue;
		if (bpf_map_update_elem(library->probe->map[BROKER_NOTES], &key, &site->note,
					BPF_ANY))
			return -errno;
		site->event_flags = number++;
	}
	return 0;
}

static int library_prepare(struct probe_library *library)
{
	int r = library_place_notes(library);

	if (r < 0)
		return r;
	library->asked = calloc(library->count, sizeof(*library->asked));
	if (!library->asked)
		return -ENOMEM;
	for (size_t i = 0; i < library->count; i++)
		library->asked[i] = (struct broker_site){
			.offset = library->site[i].offset,
			.function = library->site[i].function->number,
			.flags = library->site[i].event_flags,
			.semaphore = library->site[i].semaphore,
		};
	return 0;
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
	return library->probe->programs.way == PROBE_WAY_PERF && good ? 0 : error;
}

int probe_read(struct probe *probe, int fd, const char *path, uint32_t copy,
	       struct probe_library **ret)
{
	_cleanup_(probe_detachp) struct probe_library *library = calloc(1, sizeof(*library));
	int r;

	if (!library)
		return -ENOMEM;
	library->probe = probe;
	library->copy = copy % PROBE_COPIES_MAX;
	r = held_file_new(probe->held, fd, &library->file);
	if (r == 0)
		r = library_find_sites(library, fd, path);
	if (r == 0)
		r = library_prepare(library);
	if (r < 0)
		return r;
	library_count(library);
	*ret = TAKE(library);
	return 0;
}

int probe_put_on(struct probe_library *library, int fd, uint32_t *ret_keeper)
{
	int r = library_link_all(library, fd);

	if (r == -EBUSY)
		*ret_keeper = held_file_pid(library->file);
	return r;
}

uint32_t probe_epoch(const struct probe_library *library, enum probe_group group)
{
	return library->probe->epoch[group][library->copy];
}

struct probe_link *probe_take_wide(struct probe_library *library, enum probe_group group)
{
	return TAKE(library->link[group]);
}

void probe_next_epoch(struct probe_library *library, enum probe_group group)
{
	uint32_t *epoch = &library->probe->epoch[group][library->copy];

	*epoch = probe_epoch_after(*epoch);
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
