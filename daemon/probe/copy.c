/* Copy: reading a file, putting its probes on and telling what that came to. */
#include "daemon/probe/copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/log.h"
#include "daemon/probe/held.h"

struct library_copy *copy_free(struct library_copy *library)
{
	if (!library)
		return NULL;
	for (enum probe_group group = 0; group < PROBE_GROUPS; group++) {
		links_release(&library->links[group], library->copies->remover);
		owned_unref(library->undone[group]);
	}
	probe_detach(library->probes);
	held_file_unref(library->file);
	held_file_unref(library->next_file);
	closep(&library->fd);
	free(library->path);
	free(library);
	return NULL;
}

bool copy_is_busy(const struct library_copy *library)
{
	bool busy = library->busy || library->looking;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		busy |= library->links[group].busy;
	return busy;
}

void copy_free_dropped(struct library_copy *library)
{
	if (library->dropped && !copy_is_busy(library))
		copy_free(library);
}

bool copy_is_other(const struct library_copy *library)
{
	return !library->busy && (library->error == -ENOENT || library->error == -EBADMSG);
}

bool copy_is_put_off(const struct library_copy *library)
{
	return !library->busy && !library->probes &&
	       (library->error == -EBUSY || library->error == -ETXTBSY);
}

void copy_in_way(const struct library_copy *library, char ret[COPY_WHO])
{
	const char *what =
		library->error == -EBUSY ? "keeps the lock of its memory" : "has an inline hook";

	if (library->in_way)
		snprintf(ret, COPY_WHO, "Process %u %s", library->in_way, what);
	else
		snprintf(ret, COPY_WHO, "A process %s", what);
}

static void copy_log_in_way(struct library_copy *library)
{
	static struct log_users limit;
	char who[COPY_WHO];

	if (library->told || !log_allowed_user(&limit, library->user, 0))
		return;
	library->told = true;
	copy_in_way(library, who);
	if (library->probes)
		log_warning("%s in '%s', over which a probe would crash it: it is not watched, and "
			    "the others have links of their own",
			    who, library->path);
	else if (library->error == -ETXTBSY)
		log_warning("%s in '%s', over which a probe would crash it, and this kernel cannot "
			    "leave one process out: probes come when it has ended",
			    who, library->path);
	else
		log_warning("%s, and maps '%s': probes on it now could let no process of this host "
			    "fork. They come when it has let go, or ended",
			    who, library->path);
}

static bool copy_is_hooked(const struct library_copy *library)
{
	bool hooked = false;

	for (enum probe_group group = 0; library->probes && group < PROBE_GROUPS; group++)
		hooked |= probe_is_hooked(library->probes, group);
	return hooked;
}

/* Any program can map files with such a name, as often as it likes. */
static void copy_log(struct library_copy *library)
{
	bool other = copy_is_other(library);
	static struct log_users limit;
	struct probe_library_stats stats;

	if (copy_is_put_off(library)) {
		copy_log_in_way(library);
		return;
	}
	if (!log_allowed_user(&limit, library->user,
			      other ? library->inode ^ library->device << 40 : 0))
		return;
	if (other) {
		log_info("'%s' is not a driver library, ignoring it", library->path);
		return;
	}
	if (library->error < 0) {
		log_warning_errno(library->error, "Failed to attach to '%s', not tracing it",
				  library->path);
		return;
	}
	probe_library_stats(library->probes, &stats);
	log_info("Attached to %u functions of '%s'%s", stats.functions, library->path,
		 stats.single_steps ? ", some of them slow: see 'tsctl status'" : "");
	if (copy_is_hooked(library))
		copy_log_in_way(library);
}

static void on_look(uv_work_t *work)
{
	struct library_copy *library = work->data;

	library->kept = held_file_is(library->file);
}

/* A look has the former one to itself meanwhile. */
static void copy_set_file(struct library_copy *library, const struct probe_library *of)
{
	struct held_file **file = library->looking ? &library->next_file : &library->file;

	if (!of)
		return;
	held_file_unref(*file);
	*file = probe_file(of);
}

static void copy_tell_keeper(struct library_copy *library)
{
	static struct log_users limit;

	library->keeper = held_file_pid(library->file);
	if (library->keeper == library->keeper_told || !library->keeper ||
	    !log_allowed_user(&limit, library->user, 0))
		return;
	library->keeper_told = library->keeper;
	log_warning(
		"Process %u keeps the lock of its memory while probes are put on '%s' or taken "
		"off: no process of this host may be able to fork until it lets go. End it, and "
		"who serves its file systems",
		library->keeper, library->path);
}

static bool copy_is_undoing(const struct library_copy *library)
{
	bool undoing = false;

	for (enum probe_group group = 0; group < PROBE_GROUPS; group++)
		undoing |= owned_is_closing(library->undone[group]);
	return undoing;
}

static bool copy_is_stuck(const struct library_copy *library, uint64_t now_ns)
{
	uint64_t since_ns = library->file ? held_file_since_ns(library->file) : 0;

	return since_ns && now_ns > since_ns && now_ns - since_ns >= (uint64_t)COPY_LOOK_NS;
}

static void on_looked(uv_work_t *work, int status)
{
	struct library_copy *library = work->data;

	library->looking = false;
	library->keeper = 0;
	if (library->kept && copy_is_stuck(library, uv_hrtime()))
		copy_tell_keeper(library);
	if (library->next_file) {
		held_file_unref(library->file);
		library->file = TAKE(library->next_file);
	}
	copy_free_dropped(library);
}

void copy_look(struct library_copy *library, uint64_t now_ns)
{
	if (library->looking)
		return;
	if (!copy_is_stuck(library, now_ns)) {
		library->keeper = library->keeper_told = 0;
		return;
	}
	library->look.data = library;
	library->looking =
		uv_queue_work(library->copies->loop, &library->look, on_look, on_looked) == 0;
}

uint64_t copy_look_wait_ns(const struct library_copy *library)
{
	bool under_way = library->file && held_file_since_ns(library->file);

	return under_way || library->keeper || copy_is_busy(library) || copy_is_undoing(library)
		       ? (uint64_t)COPY_LOOK_NS
		       : UINT64_MAX;
}

bool copy_is_blind(const struct library_copy *library)
{
	return !library->busy && !library->probes && library->error < 0 && !copy_is_other(library);
}

static void waiter_end(struct library_copy *library, uint32_t i, bool missed)
{
	if (library->waiting)
		library->copies->waited(library, library->waiter[i].pid, missed);
	library->waiter[i] = library->waiter[--library->waiters];
}

static void copy_say_who_waits(struct library_copy *library)
{
	for (uint32_t i = 0; !library->waiting && i < library->waiters; i++)
		library->copies->waits(library, library->waiter[i].pid,
				       library->waiter[i].since_ns);
	library->waiting = true;
	for (uint32_t i = library->waiters; i-- > 0;)
		if (library->waiter[i].ended)
			waiter_end(library, i, true);
}

void copy_drop(struct library_copy *library)
{
	while (library->waiters)
		waiter_end(library, library->waiters - 1, true);
	library->dropped = true;
	copy_free_dropped(library);
}

void copy_tell_gaps(struct library_copy *library)
{
	if (copy_is_blind(library)) {
		copy_say_who_waits(library);
		return;
	}
	while (library->waiters)
		waiter_end(library, library->waiters - 1, library->probes);
}

void copy_wait_no_longer(struct library_copy *library, uint32_t pid)
{
	for (uint32_t i = 0; i < library->waiters; i++)
		if (library->waiter[i].pid == pid && !library->waiter[i].ended) {
			library->waiter[i].ended = !library->waiting && library->busy;
			if (!library->waiter[i].ended)
				waiter_end(library, i, true);
			return;
		}
}

static void on_read(uv_work_t *work)
{
	struct library_copy *library = work->data;

	library->error = probe_read(library->copies->probe, library->fd, library->path,
				    library->number, &library->fresh);
}

static void on_put_on(struct linking *linking)
{
	struct library_copy *library = list_item(linking, struct library_copy, linking);

	library->error = probe_put_on(library->fresh, library->fd, &library->in_way);
}

/* Closing a link here could block the loop: the process that prevented the second link also keeps
 * the kernel from removing the first. */
static void copy_undo(struct library_copy *library)
{
	for (enum probe_group group = 0; library->fresh && group < PROBE_GROUPS; group++) {
		struct probe_link *link = probe_take_wide(library->fresh, group);
		struct owned_link *owned = link ? owned_new() : NULL;

		if (!owned) {
			probe_link_free(link);
			continue;
		}
		/* If the copy is dropped, its number may be used again before the link is off. */
		probe_next_epoch(library->fresh, group);
		owned->link = link;
		owned_unref(library->undone[group]);
		library->undone[group] = owned_close(library->copies->remover, owned);
	}
	library->fresh = probe_detach(library->fresh);
}

static void on_attached(struct linking *linking)
{
	struct library_copy *library = list_item(linking, struct library_copy, linking);
	struct copies *copies = library->copies;

	library->busy = false;
	if (library->error < 0)
		copy_undo(library);
	library->probes = TAKE(library->fresh);
	library->attached_ns = uv_hrtime();
	copy_set_file(library, library->probes);
	if (!copies->closing) {
		copy_log(library);
		copy_tell_gaps(library);
		library->retry_ns = uv_hrtime() + COPY_RETRY_NS;
		if (copy_is_put_off(library))
			copies->stirred(copies);
	}
	for (enum probe_group group = 0; library->probes && group < PROBE_GROUPS; group++)
		links_start(&library->links[group], library->probes);
	copy_free_dropped(library);
}

static void on_read_done(uv_work_t *work, int status)
{
	struct library_copy *library = work->data;
	struct linker *linker = library->copies->linker;

	if (library->error == 0) {
		copy_say_who_waits(library);
		copy_set_file(library, library->fresh);
		library->copies->stirred(library->copies);
		library->error = linker_add(linker, &library->linking, on_put_on, on_attached);
	}
	if (library->error < 0)
		on_attached(&library->linking);
}

void copy_attach(struct library_copy *library)
{
	struct copies *copies = library->copies;

	if (copy_is_undoing(library)) {
		library->error = -EBUSY; /* so the next tick retries */
		copies->stirred(copies);
		return;
	}
	library->work.data = library;
	library->busy = copies->going &&
			uv_queue_work(copies->loop, &library->work, on_read, on_read_done) == 0;
	if (library->busy)
		return;
	on_read(&library->work);
	if (library->error == 0)
		on_put_on(&library->linking);
	on_attached(&library->linking);
}

/* Beyond the bound the last one stands for all others. */
void copy_wait(struct library_copy *library, uint32_t pid, uint64_t now_ns)
{
	if (library->waiters == LIBRARY_WAITERS) {
		if (!library->waiter[LIBRARY_WAITERS - 1].pid)
			return;
		waiter_end(library, LIBRARY_WAITERS - 1, true);
		pid = 0;
	}
	library->waiter[library->waiters++] = (struct library_waiter){ pid, false, now_ns };
	if (library->waiting)
		library->copies->waits(library, pid, now_ns);
}

void copy_unsaid(const struct library_copy *library, uint64_t from_ns, uint64_t *since_ns)
{
	for (uint32_t i = 0; !library->waiting && i < library->waiters; i++)
		if (library->waiter[i].since_ns >= from_ns &&
		    library->waiter[i].since_ns < *since_ns)
			*since_ns = library->waiter[i].since_ns;
}

void copy_try_again(struct library_copy *library, int fd)
{
	if (library->error == -ESTALE && !library->busy && !library->probes &&
	    dup3(fd, library->fd, O_CLOEXEC) >= 0)
		copy_attach(library);
}
