/* maps_process: the processes that map a library or are followed, and those that ended recently. A
 * live process is watched through a pidfd: it becomes readable when the last thread is gone (perf
 * records report each thread, and the first one may end before others), cannot mean another process
 * with the same pid, and works without perf events.
 */
#include <errno.h>
#include <sys/syscall.h>

#include "core/base/cleanup.h"
#include "daemon/maps/ask.h"
#include "daemon/maps/state.h"
#include "daemon/proc/owner.h"

#define LATES_MAX 6 /* of which each doubles the time until the next look */

struct maps_watch {
	uv_poll_t poll;
	int fd;
	struct maps *maps;
	struct maps_process *process; /* NULL: not wanted any more */
};

static struct list *bucket_of(struct maps *maps, uint32_t pid)
{
	return &maps->bucket[pid % MAPS_PROCESS_BUCKETS];
}

struct maps_process *maps_process_find(struct maps *maps, uint32_t pid)
{
	struct maps_process *process;

	list_for_each(process, bucket_of(maps, pid), bucket)
		if (process->pid == pid && process->live)
			return process;
	return NULL;
}

struct maps_image *maps_process_image(struct maps *maps, uint32_t pid, uint64_t time_ns)
{
	struct maps_process *process;
	struct maps_image *image;

	list_for_each(process, bucket_of(maps, pid), bucket) {
		if (process->pid != pid)
			continue;
		for (image = process->image; image; image = image->older)
			if (image->began_ns <= time_ns)
				return image;
	}
	return NULL;
}

static void watch_closed(uv_handle_t *handle)
{
	struct maps_watch *watch = handle->data;
	struct maps *maps = watch->maps;

	close(watch->fd);
	free(watch);
	maps_handle_closed(maps);
}

static void watch_stop(struct maps_process *process)
{
	struct maps_watch *watch = TAKE(process->watch);

	if (!watch)
		return;
	watch->process = NULL;
	uv_close((uv_handle_t *)&watch->poll, watch_closed);
}

static void process_free(struct maps_process *process)
{
	watch_stop(process);
	list_remove(&process->bucket);
	free(process);
}

static void process_free_if_done(struct maps_process *process)
{
	if (!process->live && !process->image)
		process_free(process);
}

/* Nobody has heard of what it mapped. `ended_ns` 0: it runs. */
static void image_missed(struct maps_image *image, struct maps_file *file, uint64_t ended_ns)
{
	struct maps *maps = image->process->maps;

	if (image->told || !maps->callbacks.library_missed || (ended_ns && !image->mapped_ns))
		return;
	image->told = true;
	maps->callbacks.library_missed(maps->data, file, image->process->pid, image->mapped_ns,
				       ended_ns, image->executed);
}

/* Takes the image out of its process and frees it. */
static void image_drop(struct maps_image *image)
{
	struct maps_process *process = image->process;
	struct maps *maps = process->maps;
	struct maps_image **link = &process->image;

	if (image->ended_ns)
		image_missed(image, NULL, image->ended_ns);
	while (*link != image)
		link = &(*link)->older;
	*link = image->older;
	maps_ask_forget(image);
	if (image->ended_ns) {
		list_remove(&image->ended);
		maps->ended_count--;
	}
	maps_image_free(image);
}

static int image_begin(struct maps_process *process, uint64_t began_ns)
{
	struct maps_image *image = maps_image_new(&process->maps->bounds, began_ns);

	if (!image)
		return -ENOMEM;
	image->process = process;
	image->older = process->image;
	process->image = image;
	return 0;
}

static void image_drop_library(struct maps_image *image, uint32_t at)
{
	struct maps_file *file = image->library[at];

	image->library[at] = image->library[--image->library_count];
	maps_library_drop_mapper(image->process->maps, file);
	maps_files_put(file);
}

/* The program no longer runs. Its mappings are kept for the grace time. */
static void image_end(struct maps_image *image, uint64_t time_ns, bool keep)
{
	struct maps *maps = image->process->maps;
	struct maps_image *oldest;

	while (image->library_count > 0)
		image_drop_library(image, 0);
	if (!image->ask || !keep)
		image_missed(image, NULL, time_ns);
	if (!keep || (image->count == 0 && !image->ask)) {
		image_drop(image);
		return;
	}
	image->ended_ns = time_ns;
	list_append(&maps->ended, &image->ended);
	if (++maps->ended_count > LIMIT_MAPS_ENDED) {
		struct maps_process *process;

		oldest = list_first(&maps->ended, struct maps_image, ended);
		process = oldest->process;
		image_drop(oldest);
		if (process != image->process)
			process_free_if_done(process);
	}
	maps_grace_begin(maps);
}

void maps_process_unwatch_all(struct maps *maps)
{
	struct maps_process *process;
	unsigned int i;

	for (i = 0; i < MAPS_PROCESS_BUCKETS; i++) {
		list_for_each(process, &maps->bucket[i], bucket)
			watch_stop(process);
	}
}

/* From now on only what has ended is kept. May free the process. */
static void process_retire(struct maps_process *process)
{
	process->live = false;
	process->maps->live_count--;
	watch_stop(process);
	process_free_if_done(process);
}

static void process_end(struct maps_process *process)
{
	struct maps *maps = process->maps;
	uint64_t time_ns = process->exit_ns ?: uv_hrtime();
	uint32_t pid = process->pid;

	image_end(process->image, time_ns, true);
	process_retire(process);
	maps->callbacks.process_gone(maps->data, pid, time_ns);
}

static void on_watch(uv_poll_t *poll, int status, int events)
{
	struct maps_watch *watch = poll->data;

	/* The last records of the process are in the rings by now. */
	maps_catch_up(watch->maps);
	if (watch->process)
		process_end(watch->process);
}

/* -ESRCH: the process is gone. */
static int watch_start(struct maps_process *process)
{
	_cleanup_(freep) struct maps_watch *watch = calloc(1, sizeof(*watch));
	_cleanup_(closep) int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	struct maps *maps = process->maps;
	int r;

	if (fd < 0)
		return -errno;
	if (!watch)
		return -ENOMEM;
	r = uv_poll_init(maps->loop, &watch->poll, fd);
	if (r < 0)
		return r;
	maps->handles++;
	watch->poll.data = watch;
	watch->maps = maps;
	watch->process = process;
	watch->fd = TAKE_FD(fd);
	process->watch = TAKE(watch);
	return uv_poll_start(&process->watch->poll, UV_READABLE, on_watch);
}

static int process_new(struct maps *maps, uint32_t pid, uint64_t began_ns,
		       struct maps_process **ret)
{
	struct maps_process *process;
	int r;

	if (maps->live_count >= maps->max_processes) {
		maps->limited++;
		return -ENOSPC;
	}
	process = calloc(1, sizeof(*process));
	if (!process)
		return -ENOMEM;
	process->maps = maps;
	process->pid = pid;
	process->uid = owner_of_process(pid);
	list_prepend(bucket_of(maps, pid), &process->bucket);
	r = image_begin(process, began_ns);
	if (r < 0) {
		process_free(process);
		return r;
	}
	process->live = true;
	maps->live_count++;
	*ret = process;
	return 0;
}

static bool image_has_library(const struct maps_image *image, const struct maps_file *file)
{
	uint32_t i;

	for (i = 0; i < image->library_count; i++)
		if (image->library[i] == file)
			return true;
	return false;
}

static void process_add_library(struct maps_process *process, struct maps_file *file)
{
	struct maps_image *image = process->image;

	image->told = true;
	if (image_has_library(image, file))
		return;
	if (image->library_count == LIMIT_LIBRARIES_PER_PROCESS) {
		process->maps->limited++;
		return;
	}
	if (maps_library_add_mapper(process->maps, file, process->pid) == 0)
		image->library[image->library_count++] = maps_files_share(file);
}

static void process_add_if_library(struct maps_process *process, struct maps_file *file)
{
	if (!file->library && !maps_library_matches(process->maps, file->path))
		return;
	if (file->fd >= 0)
		process_add_library(process, file);
	else
		image_missed(process->image, file, 0);
}

void maps_process_take(struct maps_image *image, uint64_t start, uint64_t end, uint64_t offset,
		       struct maps_file *file)
{
	struct maps_process *process = image->process;
	bool runs = process->watch && process->image == image;

	/* There may be no room for the mapping, and yet its library counts. */
	maps_image_map(image, start, end, offset, file ? maps_files_share(file) : NULL);
	if (file && runs)
		process_add_if_library(process, file);
	else if (file && maps_library_matches(process->maps, file->path))
		image_missed(image, file, image->ended_ns ?: uv_hrtime());
	maps_files_put(file);
}

void maps_process_map(struct maps_process *process, const struct maps_record *record)
{
	struct maps_image *image = process->image;
	struct maps_file *file = NULL;

	/* Of those that nobody has heard of yet the first one counts. */
	if (record->inode && maps_library_matches(process->maps, record->path) &&
	    (!image->ask || !image->mapped_ns || image->told)) {
		image->mapped_ns = record->time_ns;
		image->told = false;
	}
	if (!image->ask && record->inode)
		file = maps_files_known(process->maps->files, record);
	if (image->ask || (record->inode && !file))
		maps_ask_record(image, record);
	else
		maps_process_take(image, record->start, record->end, record->offset, file);
}

void maps_process_settled(struct maps_image *image)
{
	struct maps_process *process = image->process;

	if (image->ended_ns)
		image_missed(image, NULL, image->ended_ns);
	if (image->unwanted || (image->ended_ns && image->count == 0)) {
		image_drop(image);
		process_free_if_done(process);
	}
}

static uint64_t began_after_former(struct maps *maps, uint32_t pid)
{
	struct maps_image *former = maps_process_image(maps, pid, UINT64_MAX);

	return former ? former->ended_ns + 1 : 0;
}

int maps_process_track(struct maps *maps, uint32_t pid, uint64_t mapped_ns)
{
	struct maps_process *process;
	int r;

	r = process_new(maps, pid, began_after_former(maps, pid), &process);
	if (r < 0)
		return r;
	process->image->mapped_ns = mapped_ns;
	r = watch_start(process);
	if (r == 0) {
		maps_ask_mappings(process->image);
		return 0;
	}
	if (r != -ESRCH)
		maps->limited++; /* for example, no more files can be opened */
	else if (maps_ask_history(process->image))
		r = 0;
	image_end(process->image, uv_hrtime(), r == 0);
	process_retire(process);
	return r;
}

void maps_process_exec(struct maps_process *process, uint64_t time_ns)
{
	/* The child of a CUDA process that runs something else never used CUDA itself; programs
	 * start so many of them that they would push out what is still needed. */
	process->image->told |= process->forked;
	process->image->executed = true;
	image_end(process->image, time_ns, process->followed || !process->forked);
	process->forked = false;
	if (process->maps->callbacks.process_executed)
		process->maps->callbacks.process_executed(process->maps->data, process->pid);
	if (!process->followed || image_begin(process, time_ns) < 0)
		process_retire(process);
}

void maps_process_fork(struct maps *maps, const struct maps_image *parent, uint32_t pid,
		       uint64_t time_ns)
{
	struct maps_process *child;
	uint32_t i;

	if (maps_process_find(maps, pid) || process_new(maps, pid, time_ns, &child) < 0)
		return;
	child->forked = true;
	maps_image_copy(child->image, parent);
	if (parent->mapped_ns && !parent->told)
		child->image->mapped_ns = time_ns;
	if (watch_start(child) < 0) {
		if (parent->ask)
			maps_ask_history(child->image);
		image_end(child->image, uv_hrtime(), true);
		process_retire(child);
		return;
	}
	if (parent->ask || parent->incomplete)
		maps_ask_mappings(child->image);
	/* The parent may have been gone before its libraries were counted. */
	for (i = 0; i < child->image->count; i++)
		process_add_if_library(child, child->image->mapping[i].file);
}

uint64_t maps_mapped_ns(struct maps *maps, uint32_t pid, bool *ret_forked)
{
	const struct maps_process *process = maps_process_find(maps, pid);

	*ret_forked = process && process->forked;
	if (!process)
		return 0;
	return process->forked ? process->image->began_ns : process->image->mapped_ns;
}

struct maps_file *maps_process_library_at(const struct maps_image *image, uint64_t address)
{
	const struct maps_mapping *mapping = maps_image_find(image, address);

	return mapping && image_has_library(image, mapping->file) ? mapping->file : NULL;
}

void maps_process_refresh(struct maps_process *process)
{
	maps_ask_refresh(process->image);
}

void maps_process_refreshed(struct maps_image *image, struct maps_file *const *library,
			    uint32_t count)
{
	struct maps_process *process = image->process;
	uint32_t i, j;

	if (!process->live || process->image != image)
		return;
	for (i = image->library_count; i-- > 0;) {
		for (j = 0; j < count && library[j] != image->library[i]; j++)
			;
		if (j == count)
			image_drop_library(image, i);
	}
	if (image->library_count > 0 || process->followed)
		return;
	image_end(image, uv_hrtime(), true);
	process_retire(process);
}

void maps_process_unfollow(struct maps *maps, uint32_t pid)
{
	struct maps_process *process = maps_process_find(maps, pid);
	struct maps_image *image;

	if (process)
		process->followed = false;
	if (process && process->image->library_count == 0) {
		image_end(process->image, uv_hrtime(), process->image->ask);
		process_retire(process);
	}
	list_for_each(image, &maps->ended, ended) {
		process = image->process;
		if (process->pid != pid)
			continue;
		/* Somebody may wait for it to be settled. */
		image->unwanted = image->ask;
		if (image->ask)
			continue;
		image_drop(image);
		process_free_if_done(process);
	}
}

void maps_process_late(struct maps_image *image)
{
	struct maps *maps = image->process->maps;

	image->again_ns = uv_hrtime() + (maps->grace_ns << image->lates);
	image->lates += image->lates < LATES_MAX;
	maps_grace_begin(maps);
}

uint64_t maps_process_look_again(struct maps *maps, uint64_t now_ns)
{
	struct maps_process *process;
	bool waiting = false;

	for (unsigned int i = 0; i < MAPS_PROCESS_BUCKETS; i++) {
		list_for_each(process, &maps->bucket[i], bucket) {
			struct maps_image *image = process->live ? process->image : NULL;

			if (!image || !image->again_ns)
				continue;
			waiting = true;
			if (image->again_ns > now_ns)
				continue;
			if (image->whole)
				maps_ask_refresh(image);
			else
				maps_ask_mappings(image);
		}
	}
	return waiting ? now_ns + maps->grace_ns : 0;
}

uint64_t maps_process_expire(struct maps *maps, uint64_t now_ns)
{
	struct maps_image *image;

	while ((image = list_first(&maps->ended, struct maps_image, ended))) {
		struct maps_process *process = image->process;

		if (image->ended_ns + maps->grace_ns > now_ns)
			return image->ended_ns + maps->grace_ns;
		image_drop(image);
		process_free_if_done(process);
	}
	return 0;
}

static void process_destroy(struct maps_process *process)
{
	while (process->image) {
		struct maps_image *image = process->image;

		while (image->library_count > 0)
			maps_files_put(image->library[--image->library_count]);
		image_drop(image);
	}
	process_free(process);
}

void maps_process_free_all(struct maps *maps)
{
	struct maps_process *process;
	unsigned int i;

	for (i = 0; i < MAPS_PROCESS_BUCKETS; i++)
		list_for_each(process, &maps->bucket[i], bucket)
			process_destroy(process);
}
