/* maps: follows the mappings of the whole host on the loop. Records are handled in order of time,
 * even across CPUs: a cause comes before its effect.
 */
#include "daemon/maps/maps.h"

#include <errno.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/maps/ask.h"
#include "daemon/maps/state.h"

/* Rounds over the rings per call. */
#define ROUNDS_MAX 4

static void on_rings(uv_poll_t *poll, int status, int events);

static void on_exec(struct maps *maps, const struct maps_record *record)
{
	struct maps_process *process = maps_process_find(maps, record->pid);

	maps_history_add(&maps->history, record);
	if (process)
		maps_process_exec(process, record->time_ns);
}

static void on_fork(struct maps *maps, const struct maps_record *record)
{
	struct maps_image *parent = maps_process_image(maps, record->ppid, record->time_ns);

	maps_history_add(&maps->history, record);
	if (parent && (parent->ended_ns == 0 || parent->ended_ns > record->time_ns))
		maps_process_fork(maps, parent, record->pid, record->time_ns);
}

static void on_exit_thread(struct maps *maps, const struct maps_record *record)
{
	struct maps_process *process = maps_process_find(maps, record->pid);

	if (process)
		process->exit_ns = record->time_ns;
}

static void on_mmap(struct maps *maps, const struct maps_record *record)
{
	struct maps_process *process = maps_process_find(maps, record->pid);

	if (record->inode)
		maps_history_add(&maps->history, record);
	if (record->inode && maps->callbacks.mapped)
		maps->callbacks.mapped(maps->data, record->pid);
	if (process) {
		bool clashes = maps_image_clashes(process->image, record->start, record->end,
						  record->offset, record->inode) ||
			       maps_ask_clashes(process->image, record);

		maps_process_map(process, record);
		if (clashes && maps->callbacks.replaced)
			maps->callbacks.replaced(
				maps->data, &(struct maps_replaced){ record->pid, record->time_ns,
								     record->start, record->end });
	} else if (record->inode && maps_library_matches(maps, record->path))
		maps_process_track(maps, record->pid, record->time_ns);
}

static void on_lost(struct maps *maps, const struct maps_record *record)
{
	maps->lost += record->lost;
	if (!uv_is_active((uv_handle_t *)&maps->scan_timer) ||
	    uv_timer_get_due_in(&maps->scan_timer) > MAPS_SCAN_MIN_MS)
		uv_timer_start(&maps->scan_timer, maps_scan_on_timer, MAPS_SCAN_MIN_MS, 0);
}

static void (*const handlers[MAPS_RECORD_KIND_COUNT])(struct maps *maps,
						      const struct maps_record *record) = {
	[MAPS_RECORD_MMAP] = on_mmap, [MAPS_RECORD_EXEC] = on_exec,
	[MAPS_RECORD_FORK] = on_fork, [MAPS_RECORD_EXIT] = on_exit_thread,
	[MAPS_RECORD_LOST] = on_lost,
};

/* Takes in what was recorded until now. A record on one CPU may be caused by one that is later seen
 * on another, but then it is later than the start of the round, and waits for the next. Returns
 * whether some wait. */
static bool take_round(struct maps *maps)
{
	uint64_t horizon_ns = uv_hrtime();
	struct maps_record record;

	if (!maps_rings_refresh(maps->rings))
		return false;
	while (maps_rings_next(maps->rings, horizon_ns, &record) > 0) {
		maps->records++;
		handlers[record.kind](maps, &record);
	}
	return maps_rings_waiting(maps->rings);
}

static bool take_rounds(struct maps *maps)
{
	bool more = true;
	int round;

	if (!maps->rings || maps->reading || maps->closing)
		return false;
	maps->reading = true;
	for (round = 0; more && round < ROUNDS_MAX; round++)
		more = take_round(maps);
	maps->reading = false;
	return more;
}

static void on_watched(uv_timer_t *timer)
{
	take_rounds(timer->data);
}

/* The kernel reports a wake-up to the first poll only, and epoll polls once when it is given the
 * file and again before it reports to us. So what came just before is looked for once more. */
static void rings_watch(struct maps *maps)
{
	uv_poll_start(&maps->poll, UV_READABLE, on_rings);
	uv_timer_start(&maps->rest_timer, on_watched, LIMIT_MAPS_REST_MS, 0);
}

static void on_rest(uv_timer_t *timer)
{
	struct maps *maps = timer->data;
	uint64_t before = maps->records;

	if (take_rounds(maps) || maps->records != before)
		uv_timer_start(timer, on_rest, LIMIT_MAPS_REST_MS, 0);
	else
		rings_watch(maps);
}

static void on_rings(uv_poll_t *poll, int status, int events)
{
	struct maps *maps = poll->data;
	uint64_t now_ns = uv_hrtime(), gap_ns = now_ns - maps->woken_ns;
	bool more = take_rounds(maps);

	maps->woken_ns = now_ns;
	if (!more && gap_ns > 2 * LIMIT_MAPS_REST_MS * NS_PER_MS)
		return;
	uv_poll_stop(poll);
	uv_timer_start(&maps->rest_timer, on_rest, LIMIT_MAPS_REST_MS, 0);
}

void maps_catch_up(struct maps *maps)
{
	take_rounds(maps); /* the kernel wakes us for what comes in the meantime */
}

/* 0 is never. */
static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns && (!b_ns || a_ns < b_ns) ? a_ns : b_ns;
}

static void on_grace(uv_timer_t *timer)
{
	struct maps *maps = timer->data;
	uint64_t now_ns = uv_hrtime();
	uint64_t image_ns = maps_process_expire(maps, now_ns);
	uint64_t library_ns = maps_library_expire(maps, now_ns);
	uint64_t again_ns = maps_process_look_again(maps, now_ns);
	uint64_t next_ns = sooner(sooner(image_ns, library_ns), again_ns);

	maps_files_forget_recent(maps->files);
	if (next_ns)
		uv_timer_start(timer, on_grace, (next_ns - now_ns) / NS_PER_MS + 1, 0);
}

void maps_grace_begin(struct maps *maps)
{
	if (maps->closing || uv_is_active((uv_handle_t *)&maps->grace_timer))
		return;
	uv_timer_start(&maps->grace_timer, on_grace, maps->grace_ns / NS_PER_MS + 1, 0);
}

int maps_follow(struct maps *maps, uint32_t pid)
{
	struct maps_process *process;
	int r;

	maps_catch_up(maps);
	process = maps_process_find(maps, pid);
	if (!process && !maps_process_image(maps, pid, UINT64_MAX)) {
		r = maps_process_track(maps, pid, 0);
		if (r < 0)
			return r;
		process = maps_process_find(maps, pid);
	}
	if (process)
		process->followed = true;
	return 0;
}

void maps_unfollow(struct maps *maps, uint32_t pid)
{
	maps_process_unfollow(maps, pid);
}

int maps_resolve(struct maps *maps, uint32_t pid, uint64_t time_ns, uint64_t address,
		 struct maps_file **file, uint64_t *offset)
{
	struct maps_image *image = maps_process_image(maps, pid, time_ns);
	const struct maps_mapping *mapping = image ? maps_image_find(image, address) : NULL;
	struct maps_record record;

	if (image && image->ask)
		return -EAGAIN;
	if (!mapping)
		return -ENOENT;
	record = (struct maps_record){
		.kind = MAPS_RECORD_MMAP,
		.pid = pid,
		.start = mapping->start,
		.end = mapping->end,
		.offset = mapping->offset,
		.device = mapping->file->device,
		.inode = mapping->file->inode,
		.path = mapping->file->path,
	};
	if (!maps_files_use(maps->files, mapping->file, uv_hrtime()))
		maps_ask_record(image, &record);
	if (image->ask)
		return -EAGAIN;
	*file = mapping->file;
	*offset = mapping->offset + (address - mapping->start);
	return 0;
}

int maps_spans(struct maps *maps, uint32_t pid, uint64_t time_ns, struct maps_span **ret,
	       uint32_t *ret_count)
{
	const struct maps_image *image = maps_process_image(maps, pid, time_ns);
	struct maps_span *span;

	if (image && image->ask)
		return -EAGAIN;
	if (!image || image->count == 0)
		return -ENOENT;
	span = calloc(image->count, sizeof(*span));
	if (!span)
		return -ENOMEM;
	for (uint32_t i = 0; i < image->count; i++) {
		const struct maps_mapping *mapping = &image->mapping[i];

		span[i] = (struct maps_span){ mapping->start, mapping->end, mapping->offset,
					      maps_file_ref(mapping->file) };
	}
	*ret = span;
	*ret_count = image->count;
	return 0;
}

void maps_stats(const struct maps *maps, struct maps_stats *ret)
{
	*ret = (struct maps_stats){
		.live = maps->rings,
		.records = maps->records,
		.lost = maps->lost,
		.late = maps->late,
		.limited = maps->limited + maps->bounds.limited + maps->files->limited,
		.processes = maps->live_count,
		.mappings = maps->bounds.total,
		.files = maps->files->open_count,
		.libraries = maps->library_count,
		.refused = maps->refused,
	};
}

static void maps_free(struct maps *maps)
{

	maps_process_free_all(maps);
	maps_scan_free(maps);
	while (maps->library_count > 0)
		maps_files_put(maps->library[--maps->library_count].file);
	quota_release(&maps->slots);
	maps_files_free(maps->files);
	maps_history_free(&maps->history);
	maps_rings_free(maps->rings);
	free(maps->patterns);
	free(maps);
}

static void maps_freep(struct maps **maps)
{
	if (*maps)
		maps_free(*maps);
}

void maps_handle_closed(struct maps *maps)
{
	void (*closed)(void *data) = maps->closed;
	void *data = maps->data;

	if (--maps->handles > 0 || !maps->closing)
		return;
	maps_free(maps);
	if (closed)
		closed(data);
}

static void on_closed(uv_handle_t *handle)
{
	maps_handle_closed(handle->data);
}

static void maps_add_handle(struct maps *maps, void *handle)
{
	((uv_handle_t *)handle)->data = maps;
	maps->handles++;
}

void maps_close(struct maps *maps, void (*closed)(void *data))
{
	maps->closing = true;
	maps->closed = closed;
	maps_ask_cancel_all(maps);
	maps_scan_cancel(maps);
	maps_process_unwatch_all(maps);
	if (maps->rings)
		uv_close((uv_handle_t *)&maps->poll, on_closed);
	uv_close((uv_handle_t *)&maps->rest_timer, on_closed);
	uv_close((uv_handle_t *)&maps->grace_timer, on_closed);
	uv_close((uv_handle_t *)&maps->scan_timer, on_closed);
}

static int maps_init(struct maps *maps, const struct maps_config *config)
{
	uint32_t grace_ms = config->grace_ms ?: LIMIT_MAPS_GRACE_MS;

	maps->max_processes = config->max_processes;
	maps->grace_ns = grace_ms * NS_PER_MS;
	maps->bounds.image_max = config->max_mappings;
	maps->bounds.total_max = LIMIT_MAPPINGS_TOTAL;
	maps->slots.total = config->max_libraries ?: LIMIT_LIBRARIES;
	maps->helpers = config->helpers;
	maps->look_kind = config->look_kind;
	list_init(&maps->ended);
	list_init(&maps->asks);
	for (unsigned int i = 0; i < MAPS_PROCESS_BUCKETS; i++)
		list_init(&maps->bucket[i]);
	maps->patterns = strdup(config->patterns);
	if (!maps->patterns)
		return -ENOMEM;
	maps->files = maps_files_new(config->max_files);
	if (!maps->files || maps_scan_init(maps) < 0)
		return -ENOMEM;
	return maps_history_init(&maps->history, LIMIT_MAPS_HISTORY);
}

/* After this the handles must be closed before the memory is freed. */
static int maps_start(struct maps *maps)
{
	int r;

	if (maps->rings) {
		r = uv_poll_init(maps->loop, &maps->poll, maps->rings->epoll_fd);
		if (r < 0)
			return r;
		maps_add_handle(maps, &maps->poll);
	}
	uv_timer_init(maps->loop, &maps->rest_timer);
	uv_timer_init(maps->loop, &maps->grace_timer);
	uv_timer_init(maps->loop, &maps->scan_timer);
	maps_add_handle(maps, &maps->rest_timer);
	maps_add_handle(maps, &maps->grace_timer);
	maps_add_handle(maps, &maps->scan_timer);
	if (maps->rings)
		rings_watch(maps);
	else
		uv_timer_start(&maps->scan_timer, maps_scan_on_timer, MAPS_SCAN_MIN_MS, 0);
	return 0;
}

int maps_new(uv_loop_t *loop, const struct maps_config *config,
	     const struct maps_callbacks *callbacks, void *data, struct maps **ret)
{
	_cleanup_(maps_freep) struct maps *maps = calloc(1, sizeof(*maps));
	int r;

	if (!maps)
		return -ENOMEM;
	maps->loop = loop;
	maps->callbacks = *callbacks;
	maps->data = data;
	r = maps_init(maps, config);
	if (r < 0)
		return r;
	if (maps_rings_open(config->ring_bytes, &config->events, &maps->rings) < 0)
		maps->rings = NULL; /* reported by maps_stats */
	r = maps_start(maps);
	if (r < 0)
		return r;
	*ret = TAKE(maps);
	return 0;
}
