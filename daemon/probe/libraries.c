/* Libraries: which copies of the driver library have probes, and why. Probes are put on by threads
 * of the linker, and taken off by the remover: the loop waits for neither. */
#include "daemon/probe/libraries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/time.h"
#include "daemon/library/library.h"
#include "daemon/limits.h"
#include "daemon/probe/linker.h"
#include "daemon/probe/remover.h"

#define SOON_MS 25

struct libraries {
	struct copies copies;
	uv_timer_t timer; /* of the links, while they need it */
	bool ticking;
	bool may_single;
	struct remover *links_remover; /* of links that are not of a whole copy */
	struct libraries_callbacks callbacks;
	uint32_t count;
	struct library_copy *library[LIMIT_LIBRARIES];
	struct map held; /* processes, by pid */
};

static struct libraries *libraries_of(struct copies *copies)
{
	return list_item(copies, struct libraries, copies);
}

static struct library_copy *library_of_links(struct links *links)
{
	return list_item(links - links->group, struct library_copy, links[0]);
}

static void on_links_idle(struct links *links)
{
	copy_free_dropped(library_of_links(links));
}

static enum loss_reason gap_of(const struct library_copy *library)
{
	return library->row ? library->row->gap : LOSS_GAP;
}

static bool is_told(const struct library_copy *library, enum probe_group group)
{
	return !library->copies->closing && library_has_group(library->row, group);
}

static void on_links_missing(struct links *links, uint32_t pid, uint64_t since_ns)
{
	const struct library_copy *library = library_of_links(links);
	const struct libraries_callbacks *callbacks = &libraries_of(library->copies)->callbacks;

	if (is_told(library, links->group))
		callbacks->missing(callbacks->data, pid, gap_of(library), links->group, since_ns);
}

static void on_links_seen(struct links *links, uint32_t pid)
{
	const struct library_copy *library = library_of_links(links);
	const struct libraries_callbacks *callbacks = &libraries_of(library->copies)->callbacks;

	if (is_told(library, links->group))
		callbacks->seen(callbacks->data, pid, gap_of(library), links->group);
}

static uint64_t libraries_wait_ns(const struct libraries *libraries, uint64_t now_ns)
{
	uint64_t wait_ns = UINT64_MAX, ns;

	for (uint32_t i = 0; i < libraries->count; i++) {
		if (copy_is_put_off(libraries->library[i]) && wait_ns > COPY_RETRY_NS)
			wait_ns = COPY_RETRY_NS;
		ns = copy_look_wait_ns(libraries->library[i]);
		wait_ns = ns < wait_ns ? ns : wait_ns;
		for (enum probe_group group = 0; group < PROBE_GROUPS; group++) {
			ns = links_wait_ns(&libraries->library[i]->links[group], now_ns);
			wait_ns = ns < wait_ns ? ns : wait_ns;
		}
	}
	return wait_ns;
}

static void on_tick(uv_timer_t *timer)
{
	struct libraries *libraries = timer->data;
	uint64_t now_ns = uv_hrtime(), wait_ns;

	libraries->ticking = true;
	for (uint32_t i = 0; i < libraries->count; i++) {
		struct library_copy *library = libraries->library[i];

		if (copy_is_put_off(library) && now_ns >= library->retry_ns)
			copy_attach(library);
		copy_look(library, now_ns);
		for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
			links_tick(&library->links[group], now_ns);
	}
	libraries->ticking = false;
	wait_ns = libraries_wait_ns(libraries, now_ns);
	if (wait_ns < UINT64_MAX)
		uv_timer_start(timer, on_tick, wait_ns / (uint64_t)NS_PER_MS + 1, 0);
}

/* Looks soon: who stirs may do so for each of many processes. */
static void libraries_stir(struct libraries *libraries)
{
	uv_timer_t *timer = &libraries->timer;

	if (libraries->ticking || libraries->copies.closing)
		return;
	if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > SOON_MS)
		uv_timer_start(timer, on_tick, SOON_MS, 0);
}

static void on_links_stirred(struct links *links)
{
	libraries_stir(libraries_of(library_of_links(links)->copies));
}

static const struct links_callbacks links_callbacks = {
	.idle = on_links_idle,
	.missing = on_links_missing,
	.seen = on_links_seen,
	.stirred = on_links_stirred,
};

static void on_waits(const struct library_copy *library, uint32_t pid, uint64_t since_ns)
{
	const struct libraries_callbacks *callbacks = &libraries_of(library->copies)->callbacks;

	if (!library->copies->closing)
		callbacks->waits(callbacks->data, pid, gap_of(library), since_ns);
}

static void on_waited(const struct library_copy *library, uint32_t pid, bool missed)
{
	const struct libraries_callbacks *callbacks = &libraries_of(library->copies)->callbacks;

	if (!library->copies->closing)
		callbacks->waited(callbacks->data, pid, gap_of(library), missed);
}

static void on_stirred(struct copies *copies)
{
	libraries_stir(libraries_of(copies));
}

int libraries_new(uv_loop_t *loop, struct probe *probe, const struct libraries_callbacks *callbacks,
		  struct libraries **ret)
{
	struct libraries *libraries = calloc(1, sizeof(*libraries));
	struct probe_stats stats;
	int r;

	if (!libraries)
		return -ENOMEM;
	r = remover_new(&libraries->copies.remover);
	if (r == 0)
		r = remover_new(&libraries->links_remover);
	if (r == 0)
		r = linker_new(loop, &libraries->copies.linker);
	if (r < 0) {
		remover_free(libraries->copies.remover, 0);
		remover_free(libraries->links_remover, 0);
		free(libraries);
		return r;
	}
	libraries->copies.loop = loop;
	libraries->copies.probe = probe;
	libraries->copies.waits = on_waits;
	libraries->copies.waited = on_waited;
	libraries->copies.stirred = on_stirred;
	uv_timer_init(loop, &libraries->timer);
	libraries->timer.data = libraries;
	libraries->callbacks = *callbacks;
	probe_stats(probe, &stats, NULL, 0);
	libraries->may_single = stats.single;
	*ret = libraries;
	return 0;
}

void libraries_go(struct libraries *libraries)
{
	libraries->copies.going = true;
}

void libraries_close(struct libraries *libraries)
{
	libraries->copies.closing = true;
	uv_close((uv_handle_t *)&libraries->timer, NULL);
	while (libraries->count)
		copy_drop(libraries->library[--libraries->count]);
	linker_close(libraries->copies.linker);
}

int libraries_free(struct libraries *libraries, uint64_t wait_ns)
{
	int r;

	if (!libraries)
		return 0;
	r = remover_free(libraries->copies.remover, wait_ns);
	if (remover_free(libraries->links_remover, r ? 0 : wait_ns) < 0)
		r = -ETIMEDOUT;
	linker_free(libraries->copies.linker);
	map_clear(&libraries->held);
	free(libraries);
	return r;
}

static struct library_copy *libraries_find(const struct libraries *libraries, uint64_t device,
					   uint64_t inode)
{
	for (uint32_t i = 0; i < libraries->count; i++)
		if (libraries->library[i]->device == device &&
		    libraries->library[i]->inode == inode)
			return libraries->library[i];
	return NULL;
}

bool libraries_sees(const struct libraries *libraries, uint64_t device, uint64_t inode,
		    uint64_t since_ns)
{
	const struct library_copy *library = libraries_find(libraries, device, inode);
	bool sees = library && library->probes && library->attached_ns <= since_ns;

	for (enum probe_group group = 0; sees && group < PROBE_GROUPS; group++)
		sees = links_see_all(&library->links[group], since_ns);
	return sees;
}

uint64_t libraries_unsaid_ns(const struct libraries *libraries, uint64_t from_ns)
{
	uint64_t since_ns = UINT64_MAX;

	for (uint32_t i = 0; i < libraries->count; i++)
		copy_unsaid(libraries->library[i], from_ns, &since_ns);
	return since_ns;
}

static bool library_is_of(const struct library_copy *library, uint32_t pid)
{
	return links_has(&library->links[PROBE_COLD], pid);
}

static bool libraries_has_driver(const struct libraries *libraries, uint32_t pid)
{
	for (uint32_t i = 0; i < libraries->count; i++)
		if (!libraries->library[i]->needs_driver &&
		    library_is_of(libraries->library[i], pid))
			return true;
	return false;
}

/* Until then the process had no device of which they could have told. */
static void libraries_wake(struct libraries *libraries, uint32_t pid)
{
	bool driver = libraries_has_driver(libraries, pid);

	for (uint32_t i = 0; driver && i < libraries->count; i++) {
		struct library_copy *library = libraries->library[i];

		if (!library->dormant || !library_is_of(library, pid))
			continue;
		library->dormant = false;
		copy_wait(library, pid, uv_hrtime());
		copy_attach(library);
		if (!library->busy)
			copy_tell_gaps(library);
	}
}

static uint32_t libraries_free_number(const struct libraries *libraries)
{
	uint64_t taken = 0;

	_Static_assert(LIMIT_LIBRARIES <= PROBE_COPIES_MAX, "each has a number");
	for (uint32_t i = 0; i < libraries->count; i++)
		taken |= 1ull << libraries->library[i]->number;
	return (uint32_t)__builtin_ctzll(~taken);
}

static int library_init_links(struct library_copy *library)
{
	struct libraries *libraries = libraries_of(library->copies);
	int r = 0;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		if (links_init(&library->links[group], libraries->copies.linker,
			       libraries->links_remover, group, libraries->may_single, library->fd,
			       &links_callbacks) < 0)
			r = -ENOMEM;
	return r;
}

static int libraries_add(struct libraries *libraries, const struct libraries_file *file,
			 struct library_copy **ret)
{
	_cleanup_(copy_freep) struct library_copy *library = calloc(1, sizeof(*library));
	static struct log_limit limit;

	if (!library)
		return -ENOMEM;
	library->copies = &libraries->copies;
	library->device = file->device;
	library->inode = file->inode;
	library->user = file->user;
	library->row = library_of(file->path);
	library->fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	library->path = strdup(file->path);
	if (library_init_links(library) < 0 || library->fd < 0 || !library->path)
		return -ENOMEM;
	if (libraries->count + remover_waiting(libraries->copies.remover) / PROBE_GROUPS >=
	    LIMIT_LIBRARIES) {
		if (log_allowed(&limit, 1))
			log_warning("More than %d driver libraries, not tracing '%s'",
				    LIMIT_LIBRARIES, file->path);
		return -E2BIG;
	}
	library->number = libraries_free_number(libraries);
	library->needs_driver = library->dormant = library->row && library->row->by_choice;
	if (!library->dormant)
		copy_attach(library);
	*ret = libraries->library[libraries->count++] = TAKE(library);
	return 0;
}

void libraries_add_standing(struct libraries *libraries, const struct libraries_found *found)
{
	for (uint32_t i = 0; i < found->count && !libraries->copies.closing; i++) {
		const struct libraries_file *file = &found->file[i];
		struct library_copy *library = libraries_find(libraries, file->device, file->inode);

		if (library || libraries_add(libraries, file, &library) == 0)
			library->standing = true;
	}
}

/* Where nobody can be left out alone, all are watched. */
static bool libraries_holds(const struct libraries *libraries, uint32_t pid)
{
	return libraries->may_single && map_get(&libraries->held, (struct map_key){ pid, 0 });
}

/* A child of a fork seldom calls the driver, which was its parent's, and mostly becomes another
 * program or ends at once: a link for each would keep the kernel busy with taking them off. */
static int library_add_process(struct library_copy *library, uint32_t pid, uint64_t mapped_ns,
			       bool forked)
{
	struct libraries *libraries = libraries_of(library->copies);
	const struct libraries_callbacks *callbacks = &libraries->callbacks;
	struct links_member member = {
		.pid = pid,
		.mapped_ns = mapped_ns,
		.from_ns = forked ? mapped_ns + LIMIT_FORKED_NS : 0,
	};
	int r = 0;

	for (enum probe_group group = 0; r == 0 && group < PROBE_GROUPS; group++) {
		member.out = callbacks->is_out(callbacks->data, pid, group);
		r = links_add(&library->links[group], &member);
	}
	/* Our library may have been faster than the record of the mapping. */
	if (r == 0 && libraries_holds(libraries, pid))
		links_watch(&library->links[PROBE_HOT], pid, false, false);
	return r;
}

/* It was mapped before it had its probes, and nobody has heard of that until now. */
static void library_tell_late(const struct library_copy *library, uint32_t pid, uint64_t mapped_ns)
{
	const struct libraries_callbacks *callbacks = &libraries_of(library->copies)->callbacks;

	if (library->probes && library->attached_ns > mapped_ns)
		callbacks->late(callbacks->data, pid, gap_of(library), mapped_ns,
				library->attached_ns);
}

static int libraries_take(struct libraries *libraries, uint32_t pid, uint64_t mapped_ns,
			  bool forked, const struct libraries_file *file)
{
	struct library_copy *library;
	int r = 0;

	library = libraries_find(libraries, file->device, file->inode);
	if (library) {
		library->mapped = true;
		copy_try_again(library, file->fd);
		if (library->busy || copy_is_blind(library))
			copy_wait(library, pid, mapped_ns);
		else
			library_tell_late(library, pid, mapped_ns);
		return library_add_process(library, pid, mapped_ns, forked);
	}
	r = libraries_add(libraries, file, &library);
	if (r < 0)
		return r;
	library->mapped = true;
	if (!library->dormant)
		copy_wait(library, pid, mapped_ns);
	if (!library->busy)
		copy_tell_gaps(library);
	return library_add_process(library, pid, mapped_ns, forked);
}

int libraries_mapped(struct libraries *libraries, uint32_t pid, uint64_t mapped_ns, bool forked,
		     const struct libraries_file *file)
{
	int r;

	if (libraries->copies.closing)
		return 0;
	r = libraries_take(libraries, pid, mapped_ns, forked, file);
	if (r == 0)
		libraries_wake(libraries, pid);
	return r;
}

void libraries_process_gone(struct libraries *libraries, uint32_t pid)
{
	for (uint32_t i = 0; i < libraries->count; i++) {
		copy_wait_no_longer(libraries->library[i], pid);
		for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
			links_remove(&libraries->library[i]->links[group], pid);
	}
}

/* One that was so short that it has ended before it was known to map a library. */
static void libraries_tell_short(struct libraries *libraries, uint32_t pid, uint64_t start_ns)
{
	const struct libraries_callbacks *callbacks = &libraries->callbacks;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++) {
		bool missed = false;

		for (uint32_t i = 0; i < libraries->count; i++)
			missed |= !links_see_all(&libraries->library[i]->links[group], start_ns);
		if (!missed)
			continue;
		callbacks->missing(callbacks->data, pid, LOSS_GAP, group, start_ns);
		callbacks->seen(callbacks->data, pid, LOSS_GAP, group);
	}
}

void libraries_process_exits(struct libraries *libraries, uint32_t pid, uint64_t start_ns)
{
	if (!libraries_has(libraries, pid))
		libraries_tell_short(libraries, pid, start_ns);
	libraries_process_gone(libraries, pid);
}

void libraries_process_executed(struct libraries *libraries, uint32_t pid)
{
	for (uint32_t i = 0; i < libraries->count; i++)
		for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
			links_renew(&libraries->library[i]->links[group], pid);
}

int libraries_hold(struct libraries *libraries, uint32_t pid, bool hold)
{
	const struct map_key key = { pid, 0 };

	if (!libraries->may_single || hold == libraries_holds(libraries, pid))
		return 0;
	if (hold && map_put(&libraries->held, key, libraries) < 0)
		return -ENOMEM;
	if (!hold)
		map_remove(&libraries->held, key);
	libraries_watch(libraries, pid, hold ? HOT_CLOSED : HOT_WHOLE);
	return 0;
}

void libraries_watch(struct libraries *libraries, uint32_t pid, enum hot_want want)
{
	if (libraries_holds(libraries, pid))
		want = HOT_CLOSED;
	for (uint32_t i = 0; i < libraries->count; i++)
		links_watch(&libraries->library[i]->links[PROBE_HOT], pid, want != HOT_CLOSED,
			    want == HOT_WHOLE);
}

void libraries_leave_out(struct libraries *libraries, uint32_t pid, enum probe_group group,
			 bool out)
{
	for (uint32_t i = 0; i < libraries->count; i++)
		links_leave_out(&libraries->library[i]->links[group], pid, out);
}

bool libraries_has(const struct libraries *libraries, uint32_t pid)
{
	for (uint32_t i = 0; i < libraries->count; i++)
		if (links_has(&libraries->library[i]->links[PROBE_HOT], pid))
			return true;
	return false;
}

static bool is_seen(const struct libraries *libraries, const struct library_copy *library,
		    uint32_t pid)
{
	bool hot = libraries_holds(libraries, pid) ||
		   links_state(&library->links[PROBE_HOT], pid) == LINKS_OPEN;

	return !library->busy && library->probes && hot &&
	       links_state(&library->links[PROBE_COLD], pid) == LINKS_OPEN;
}

bool libraries_is_watched(const struct libraries *libraries, uint32_t pid)
{
	bool driver = false;

	for (uint32_t i = 0; i < libraries->count; i++) {
		const struct library_copy *library = libraries->library[i];

		if (!library_is_of(library, pid) || library->dormant || copy_is_other(library))
			continue;
		if (!is_seen(libraries, library, pid))
			return false;
		driver |= !library->needs_driver;
	}
	return driver;
}

bool libraries_is_hooked(const struct libraries *libraries, uint32_t pid)
{
	for (uint32_t i = 0; i < libraries->count; i++)
		for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
			if (links_is_hooked(&libraries->library[i]->links[group], pid))
				return true;
	return false;
}

enum hot_state libraries_hot_state(const struct libraries *libraries, uint32_t pid)
{
	enum links_state state = LINKS_OPEN;
	bool any = false;

	for (uint32_t i = 0; i < libraries->count; i++) {
		const struct links *links = &libraries->library[i]->links[PROBE_HOT];

		if (!links_has(links, pid))
			continue;
		if (any && links_state(links, pid) != state)
			return HOT_IS_CHANGING;
		state = links_state(links, pid);
		any = true;
	}
	return (enum hot_state)state;
}

bool libraries_at_rest(const struct libraries *libraries)
{
	for (uint32_t i = 0; i < libraries->count; i++)
		for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
			if (!links_at_rest(&libraries->library[i]->links[group]))
				return false;
	return true;
}

void libraries_unmapped(struct libraries *libraries, uint64_t device, uint64_t inode)
{
	struct library_copy *library = libraries_find(libraries, device, inode);

	if (!library)
		return;
	library->mapped = false;
	if (library->standing)
		return;
	for (uint32_t i = 0; i < libraries->count; i++)
		if (libraries->library[i] == library)
			libraries->library[i] = libraries->library[--libraries->count];
	log_info("No process maps '%s' any more, taking its probes off", library->path);
	copy_drop(library);
}

struct remover *libraries_remover(const struct libraries *libraries)
{
	return libraries->links_remover;
}

struct linker *libraries_linker(const struct libraries *libraries)
{
	return libraries->copies.linker;
}

const struct library_copy *libraries_get(const struct libraries *libraries, uint32_t n)
{
	return n < libraries->count ? libraries->library[n] : NULL;
}
