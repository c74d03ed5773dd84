/* maps_ask: one question at a time for each image; what is to be asked next is collected. Without
 * helpers (in tests) we look ourselves. */
#include "daemon/maps/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/patience.h"
#include "core/base/vector.h"

#define LATE_LOGGED 1 /* a second */

struct maps_ask {
	struct helper_task task;
	struct list link;
	struct maps *maps;
	struct maps_image *image; /* NULL: not wanted any more */
	bool recalled;		  /* the process is gone, and its last records were looked for */

	/* The question under way. */
	bool refreshes, whole;
	struct maps_file *seen[LIMIT_LIBRARIES_PER_PROCESS]; /* compared only */
	uint32_t seen_count;
	char *asked; /* its records */
	size_t asked_size, asked_room;

	/* The next one: mappings of a process, then those of records. */
	uint32_t pid, ppid;
	bool refresh;
	char *records;
	size_t size, room;
};

#define RECORDS_MAX (MAPS_LOOK_MESSAGE - sizeof(struct maps_look))

static void ask_next(struct maps_ask *ask);

static void ask_free(struct maps_ask *ask)
{
	list_remove(&ask->link);
	free(ask->asked);
	free(ask->records);
	free(ask);
}

static void ask_saw(struct maps_ask *ask, const struct maps_looked *looked)
{
	struct maps_file *file = maps_process_library_at(ask->image, looked->start);

	for (uint32_t i = 0; i < ask->seen_count; i++)
		if (ask->seen[i] == file)
			return;
	if (file && ask->seen_count < LIMIT_LIBRARIES_PER_PROCESS)
		ask->seen[ask->seen_count++] = file;
}

static void ask_tell_silent(const struct maps_ask *ask, const char *path)
{
	static struct log_limit limit;

	if (log_allowed(&limit, LATE_LOGGED))
		log_warning(
			"File '%s' of process %u is on a file system that a user serves (FUSE): "
			"it is not opened, so its functions have no names and no probes",
			path, ask->image->process->pid);
}

/* What came later is known to whoever made it. */
static void ask_tell_memory(const struct maps_ask *ask, const struct maps_looked *looked)
{
	const struct maps_process *process = ask->image->process;
	const struct maps *maps = ask->maps;

	if (ask->whole && !looked->file && process->watch && process->image == ask->image &&
	    maps->callbacks.memory)
		maps->callbacks.memory(maps->data, process->pid, looked->start);
}

static void on_message(struct helper_task *task, const void *data, size_t size, int *fd,
		       uint32_t fds)
{
	struct maps_ask *ask = list_item(task, struct maps_ask, task);
	struct maps *maps = ask->maps;
	struct maps_looked *looked;
	size_t at = 0;

	while (ask->image && (looked = maps_looked_next((char *)data, size, &at))) {
		struct maps_file *file = NULL;

		maps->limited += looked->limited;
		if (looked->silent)
			ask_tell_silent(ask, looked->path);
		if (looked->file)
			file = maps_files_take(maps->files, looked,
					       looked->fd >= 0 && (uint32_t)looked->fd < fds
						       ? TAKE_FD(fd[looked->fd])
						       : -1);
		maps_process_take(ask->image, looked->start, looked->end, looked->offset, file);
		if (ask->refreshes)
			ask_saw(ask, looked);
		ask_tell_memory(ask, looked);
	}
	maps_grace_begin(maps);
}

/* Nothing is to be asked. */
static void ask_settle(struct maps_ask *ask)
{
	struct maps_image *image = ask->image;
	struct maps *maps = ask->maps;

	image->ask = NULL;
	ask_free(ask);
	if (maps->callbacks.settled)
		maps->callbacks.settled(maps->data, image->process->pid);
	maps_process_settled(image);
}

static void ask_failed(struct maps_ask *ask, int error)
{
	static struct log_limit limit;

	ask->maps->late++;
	if (ask->maps->callbacks.late)
		ask->maps->callbacks.late(ask->maps->data, ask->image->process->pid);
	ask->image->incomplete = true;
	ask->size = 0;
	ask->pid = 0;
	if (!ask->image->lates && log_allowed(&limit, LATE_LOGGED))
		log_warning_errno(error,
				  "Process %u lets nobody look into its memory, or has a file on a "
				  "file system that does not answer: until it can be read, its "
				  "stacks have no names, and a driver library of its own is not "
				  "watched",
				  ask->image->process->pid);
	maps_process_late(ask->image);
}

static void on_done(struct helper_task *task, int result)
{
	struct maps_ask *ask = list_item(task, struct maps_ask, task);

	if (!ask->image) {
		ask_free(ask);
		return;
	}
	ask->image->whole |= ask->whole && result >= 0;
	if (result == -ETIMEDOUT || result == -EPIPE || result == -EBUSY)
		ask_failed(ask, result);
	else if (ask->refreshes && result >= 0)
		maps_process_refreshed(ask->image, ask->seen, ask->seen_count);
	else if (ask->image->count == 0 && !ask->recalled)
		maps_ask_history(ask->image);
	if (ask->image)
		ask_next(ask);
	else
		ask_free(ask);
}

static int say_here(void *data, char *message, size_t size, const int *fd, uint32_t fds)
{
	struct maps_ask *ask = data;
	int copy[MAPS_LOOK_FILES];

	for (uint32_t i = 0; i < fds; i++)
		copy[i] = fcntl(fd[i], F_DUPFD_CLOEXEC, 3);
	on_message(&ask->task, message, size, copy, fds);
	for (uint32_t i = 0; i < fds; i++)
		closep(&copy[i]);
	return 0;
}

/* The next question is the one under way. */
static void ask_turn(struct maps_ask *ask)
{
	char *spare = ask->asked;
	size_t room = ask->asked_room;

	ask->asked = ask->records;
	ask->asked_size = ask->size;
	ask->asked_room = ask->room;
	ask->records = spare;
	ask->room = room;
	ask->size = 0;
	ask->refreshes = ask->refresh;
	ask->whole = ask->pid && !ask->refresh;
	ask->seen_count = 0;
	ask->refresh = false;
	ask->pid = 0;
}

/* Memory without a file is known: that of uprobes comes with the first call of a probed function,
 * when stacks wait for the answer. */
static void ask_take_memory(struct maps_ask *ask)
{
	struct maps_looked *looked;
	size_t at = 0;

	while ((looked = maps_looked_next(ask->records, ask->size, &at)))
		if (looked->inode)
			return;
	at = 0;
	while ((looked = maps_looked_next(ask->records, ask->size, &at)))
		maps_process_take(ask->image, looked->start, looked->end, looked->offset, NULL);
	ask->size = 0;
}

/* Asks what there is to ask. May free it, and the image. */
static void ask_next(struct maps_ask *ask)
{
	_Alignas(struct maps_look) static char message[MAPS_LOOK_MESSAGE];
	struct maps_look *look = (struct maps_look *)message;
	struct maps *maps = ask->maps;
	size_t size;
	int r;

	if (!ask->pid)
		ask_take_memory(ask);
	size = sizeof(*look) + ask->size;
	if (!ask->pid && !ask->size) {
		ask_settle(ask);
		return;
	}
	*look = (struct maps_look){ .kind = MAPS_LOOK_OPEN,
				    .pid = ask->pid,
				    .ppid = ask->ppid,
				    .max = maps->bounds.image_max };
	snprintf(look->patterns, sizeof(look->patterns), "%s", maps->patterns);
	if (ask->size)
		memcpy(look + 1, ask->records, ask->size);
	ask_turn(ask);
	if (maps->helpers)
		r = helpers_ask(maps->helpers, &ask->task, message, size, NULL, 0);
	else
		r = maps_look(message, size, say_here, ask);
	if (r < 0 || !maps->helpers)
		on_done(&ask->task, r);
}

/* The question of an image, which is asked now if it is a new one. NULL: no memory. */
static struct maps_ask *ask_of(struct maps_image *image, bool *ret_new)
{
	struct maps *maps = image->process->maps;
	struct maps_ask *ask = image->ask;

	*ret_new = !ask;
	if (ask)
		return ask;
	ask = calloc(1, sizeof(*ask));
	if (!ask) {
		image->incomplete = true;
		return NULL;
	}
	ask->maps = maps;
	ask->image = image;
	ask->task = (struct helper_task){ .kind = maps->look_kind,
					  .uid = image->process->uid,
					  .deadline_ms = (uint32_t)patience_ms(LIMIT_MAPS_LOOK_MS),
					  .message = on_message,
					  .done = on_done };
	list_append(&maps->asks, &ask->link);
	image->ask = ask;
	return ask;
}

static void ask_all(struct maps_image *image, bool refresh)
{
	bool is_new;
	struct maps_ask *ask = ask_of(image, &is_new);

	if (!ask)
		return;
	image->incomplete = false;
	image->again_ns = 0;
	ask->pid = image->process->pid;
	ask->refresh |= refresh;
	ask->size = 0; /* what was recorded until now is in there */
	if (is_new)
		ask_next(ask);
}

void maps_ask_mappings(struct maps_image *image)
{
	ask_all(image, false);
}

void maps_ask_refresh(struct maps_image *image)
{
	ask_all(image, true);
}

static int ask_put(struct maps_ask *ask, const struct maps_record *record)
{
	size_t most = ask->size + sizeof(struct maps_looked) + MAPS_LOOK_PATH + sizeof(uint64_t);

	if (VECTOR_ROOM(ask->records, ask->room, most) < 0)
		return -ENOMEM;
	return maps_looked_put(ask->records, &ask->size,
			       ask->room < RECORDS_MAX ? ask->room : RECORDS_MAX, record);
}

void maps_ask_record(struct maps_image *image, const struct maps_record *record)
{
	bool is_new;
	struct maps_ask *ask = ask_of(image, &is_new);

	if (!ask)
		return;
	/* Too many at once, or some are missing: all. */
	if (image->incomplete || ask_put(ask, record) < 0) {
		image->incomplete = false;
		image->again_ns = 0;
		ask->pid = image->process->pid;
		ask->size = 0;
	}
	if (is_new)
		ask_next(ask);
}

static bool records_clash(char *records, size_t size, const struct maps_record *record)
{
	struct maps_looked *looked;
	size_t at = 0;

	while ((looked = maps_looked_next(records, size, &at)))
		if (looked->start < record->end && record->start < looked->end &&
		    (looked->inode != record->inode ||
		     looked->start - looked->offset != record->start - record->offset))
			return true;
	return false;
}

bool maps_ask_clashes(const struct maps_image *image, const struct maps_record *record)
{
	const struct maps_ask *ask = image->ask;

	return ask && (records_clash(ask->asked, ask->asked_size, record) ||
		       records_clash(ask->records, ask->size, record));
}

static void on_past(void *data, const struct maps_record *record)
{
	struct maps_ask *ask = data;

	switch (record->kind) {
	case MAPS_RECORD_FORK:
		ask->pid = ask->ppid = record->ppid;
		ask->size = 0;
		break;
	case MAPS_RECORD_EXEC:
		ask->pid = 0;
		ask->size = 0;
		break;
	case MAPS_RECORD_MMAP:
		ask_put(ask, record);
		break;
	}
}

bool maps_ask_history(struct maps_image *image)
{
	bool is_new, found;
	struct maps_ask *ask = ask_of(image, &is_new);

	if (!ask)
		return false;
	ask->recalled = true;
	maps_history_each(&ask->maps->history, image->process->pid, on_past, ask);
	found = ask->pid || ask->size;
	if (is_new)
		ask_next(ask);
	return found;
}

void maps_ask_forget(struct maps_image *image)
{
	struct maps_ask *ask = TAKE(image->ask);

	if (ask)
		ask->image = NULL;
}

uint64_t maps_unheard_ns(const struct maps *maps)
{
	uint64_t first_ns = UINT64_MAX;
	struct maps_ask *ask;

	list_for_each(ask, &maps->asks, link)
		if (ask->image && ask->image->mapped_ns && !ask->image->told &&
		    ask->image->mapped_ns < first_ns)
			first_ns = ask->image->mapped_ns;
	return first_ns;
}

void maps_ask_cancel_all(struct maps *maps)
{
	struct maps_ask *ask;

	while ((ask = list_first(&maps->asks, struct maps_ask, link))) {
		if (ask->image)
			ask->image->ask = NULL;
		if (maps->helpers)
			helpers_cancel(maps->helpers, &ask->task);
		ask_free(ask);
	}
}
