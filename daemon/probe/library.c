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
#include "daemon/probe/hooked.h"
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
	struct hooked_code *code[PROBE_GROUPS]; /* what the file has there */
	uint32_t codes[PROBE_GROUPS];
	bool hooked[PROBE_GROUPS];	       /* by whom there was no link for all */
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
	if (link->file)
		held_file_begin(link->file);
	while (link->count)
		close(link->fd[--link->count]);
	if (link->file)
		held_file_end(link->file);
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

/* -EBUSY, -ETXTBSY: *ret_pid, if it is known, is in the way. */
static int link_check(const struct probe_library *library, int fd, const struct probe_link_for *to,
		      uint32_t *ret_pid)
{
	if (held_file_is(library->file)) {
		*ret_pid = held_file_pid(library->file);
		return -EBUSY;
	}
	return hooked_look(library->probe->hooked, fd, library->code[to->group],
			   library->codes[to->group], to->pid, ret_pid);
}

struct link_made {
	struct probe_link *link;
	uint32_t failed; /* sites */
	uint32_t in_way;
};

static int link_new(const struct probe_library *library, int fd, const struct probe_link_for *to,
		    struct link_made *ret)
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
	r = link_check(library, fd, to, &ret->in_way);
	if (r < 0)
		return r;
	held_file_begin(library->file);
	r = broker_link(library->probe->broker, fd, &request, library->asked, &links);
	held_file_end(library->file);
	if (r < 0)
		return r;
	link->file = held_file_ref(library->file);
	link->fd = links.fd;
	link->count = links.count;
	ret->failed = links.failed;
	ret->link = TAKE(link);
	return 0;
}

int probe_link_new(const struct probe_library *library, int fd, const struct probe_link_for *to,
		   struct probe_link **ret)
{
	struct link_made made = { 0 };
	int r;

	if (to->pid && !library->probe->programs.single)
		return -EOPNOTSUPP;
	r = link_new(library, fd, to, &made);
	*ret = made.link;
	return r;
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
	for (enum probe_group group = 0; group < PROBE_GROUPS; group++) {
		probe_link_free(library->link[group]);
		free(library->code[group]);
	}
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

static int library_add_code(struct probe_library *library, int fd, const struct site *site)
{
	enum probe_group group = library_group(site->function);
	struct hooked_code *code;

	if (!library->code[group])
		library->code[group] = calloc(library->count, sizeof(*code));
	if (!library->code[group])
		return -ENOMEM;
	code = &library->code[group][library->codes[group]];
	code->size = (uint32_t)site->passed + site->size;
	if (code->size > sizeof(code->byte))
		code->size = sizeof(code->byte);
	code->offset = site->offset + site->size - code->size;
	if (pread(fd, code->byte, code->size, (off_t)code->offset) == (ssize_t)code->size)
		library->codes[group]++;
	return 0;
}

static int library_prepare(struct probe_library *library, int fd)
{
	int r = library_place_notes(library);

	for (size_t i = 0; r == 0 && i < library->count; i++)
		r = library_add_code(library, fd, &library->site[i]);
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

/* In the perf way one group may fail where another does not. Where links to single processes work,
 * they go round who is hooked. */
static int library_link_all(struct probe_library *library, int fd, uint32_t *ret_in_way)
{
	const struct broker_programs *programs = &library->probe->programs;
	int r = 0, error = 0, good = 0;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++) {
		struct probe_link_for all = {
			.group = group,
			.epoch = probe_epoch(library, group),
		};
		struct link_made made = { 0 };

		r = link_new(library, fd, &all, &made);
		if (made.in_way)
			*ret_in_way = made.in_way;
		library->link[group] = made.link;
		library->stats.failed += made.failed;
		library->hooked[group] = r == -ETXTBSY;
		if (r == -ETXTBSY && !programs->single)
			return r;
		if (r < 0 && r != -ETXTBSY)
			error = r;
		else
			good++;
	}
	return programs->way == PROBE_WAY_PERF && good ? 0 : error;
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
		r = library_prepare(library, fd);
	if (r < 0)
		return r;
	library_count(library);
	*ret = TAKE(library);
	return 0;
}

int probe_put_on(struct probe_library *library, int fd, uint32_t *ret_in_way)
{
	*ret_in_way = 0;
	return library_link_all(library, fd, ret_in_way);
}

bool probe_is_hooked(const struct probe_library *library, enum probe_group group)
{
	return library->hooked[group];
}

struct held_file *probe_file(const struct probe_library *library)
{
	return held_file_ref(library->file);
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
