/* symbol: names for addresses, found in a thread of its own. A job belongs to the thread from
 * symbolizer_add until it is in the done queue; the loop creates, delivers and frees jobs, and only
 * it counts references to files.
 */
#include "daemon/symbol/symbol.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/demangle.h"
#include "core/model/frame.h"
#include "core/store/thread.h"
#include "daemon/limits.h"
#include "daemon/symbol/cache.h"
#include "daemon/symbol/names.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"
#define BATCH_JOBS	256
/* Between batches the thread rests this many times as long as the last one took. */
#define REST_FACTOR 4

struct symbolizer {
	uv_loop_t *loop;
	uv_async_t async;
	pthread_t thread;
	void (*done)(void *data, struct symbol_job *job);
	void (*closed)(void *data);
	void *data;
	uint32_t jobs; /* added and not yet delivered; owned by the loop, like the next */
	uint64_t named;

	uv_mutex_t lock; /* of what follows */
	uv_cond_t wake;
	struct list waiting, finished;
	uint32_t waiting_count;
	bool closing, ended, hurried;

	struct cache *cache; /* owned by the thread, like everything below */
	uint64_t rest_ns;
};

/* A frame without a name yet. */
struct lookup {
	struct cache_key key;
	int fd;
	struct symbol_frame *frame;
};

struct lookups {
	struct lookup *lookup;
	size_t count;
};

static int compare_lookups(const void *a, const void *b)
{
	const struct lookup *x = a, *y = b;

	if (x->fd != y->fd)
		return x->fd < y->fd ? -1 : 1;
	return (x->key.offset > y->key.offset) - (x->key.offset < y->key.offset);
}

static int key_of(const struct maps_file *file, uint64_t offset, struct cache_key *ret)
{
	struct stat st;

	if (fstat(file->fd, &st) < 0)
		return -errno;
	*ret = (struct cache_key){
		.device = st.st_dev,
		.inode = st.st_ino,
		.size = st.st_size,
		.modified_ns = timespec_ns(st.st_mtim),
		.offset = offset,
	};
	return 0;
}

static void set_name(struct symbol_frame *frame, const char *name)
{
	frame->name = name ? strdup(name) : NULL;
}

/* Takes known names from the cache and adds the other frames to the lookups. */
static void prepare_job(struct symbolizer *s, struct symbol_job *job, struct lookups *lookups)
{
	struct cache_key key;
	const char *name;
	uint32_t i;

	for (i = 0; i < job->count; i++) {
		struct symbol_frame *frame = &job->frame[i];
		uint64_t offset = frame->offset - (i > 0 && frame->offset > 0);

		if (frame->kind != FRAME_NATIVE || !frame->file || frame->file->fd < 0 ||
		    key_of(frame->file, offset, &key) < 0)
			continue;
		frame->key = key;
		frame->keyed = true;
		if (cache_find(s->cache, &key, &name))
			set_name(frame, name);
		else
			lookups->lookup[lookups->count++] =
				(struct lookup){ key, frame->file->fd, frame };
	}
}

/* Fills one query per distinct offset. */
static size_t make_queries(const struct lookup *lookup, size_t count, struct names_query *query)
{
	size_t i, n = 0;

	for (i = 0; i < count; i++)
		if (i == 0 || lookup[i].key.offset != lookup[i - 1].key.offset)
			query[n++] = (struct names_query){ .offset = lookup[i].key.offset };
	return n;
}

static int compare_offsets(const void *a, const void *b)
{
	const struct names_query *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Names the frames of one file, which are in order of their offsets. */
static void name_file(struct symbolizer *s, struct lookup *lookup, size_t count,
		      struct names_query *query)
{
	size_t queries = make_queries(lookup, count, query), i, at = 0;

	names_find(lookup->fd, DEBUG_DIRECTORY, query, queries);
	qsort(query, queries, sizeof(*query), compare_offsets);
	for (i = 0; i < queries; i++) {
		_cleanup_(freep) char *raw = query[i].name;
		_cleanup_(freep) char *name = raw ? demangle(raw) : NULL;

		cache_add(s->cache, &lookup[at].key, name);
		for (; at < count && lookup[at].key.offset == query[i].offset; at++)
			set_name(lookup[at].frame, name);
	}
}

static void name_lookups(struct symbolizer *s, struct lookups *lookups)
{
	_cleanup_(freep) struct names_query *query = calloc(lookups->count, sizeof(*query));
	size_t first, next;

	if (!query)
		return;
	qsort(lookups->lookup, lookups->count, sizeof(*lookups->lookup), compare_lookups);
	for (first = 0; first < lookups->count; first = next) {
		for (next = first + 1; next < lookups->count; next++)
			if (lookups->lookup[next].fd != lookups->lookup[first].fd)
				break;
		name_file(s, &lookups->lookup[first], next - first, query);
	}
}

static void name_batch(struct symbolizer *s, struct list *batch)
{
	_cleanup_(freep) struct lookup *lookup = NULL;
	struct lookups lookups = { .count = 0 };
	struct symbol_job *job;
	size_t frames = 0;

	list_for_each(job, batch, link)
		frames += job->count;
	lookup = calloc(frames, sizeof(*lookup));
	if (!lookup)
		return;
	lookups.lookup = lookup;
	list_for_each(job, batch, link)
		prepare_job(s, job, &lookups);
	if (lookups.count > 0)
		name_lookups(s, &lookups);
}

/* Waits for jobs, and then a little longer for more. False: time to end. */
static bool take_batch(struct symbolizer *s, struct list *ret)
{
	uint64_t now_ns, due_ns;
	int count;

	list_init(ret);
	uv_mutex_lock(&s->lock);
	while (s->waiting_count == 0 && !s->closing)
		uv_cond_wait(&s->wake, &s->lock);
	due_ns = uv_hrtime() + s->rest_ns;
	while (s->waiting_count < BATCH_JOBS && !s->closing && !s->hurried &&
	       (now_ns = uv_hrtime()) < due_ns)
		uv_cond_timedwait(&s->wake, &s->lock, due_ns - now_ns);
	for (count = 0; count < BATCH_JOBS && s->waiting_count > 0; count++) {
		struct list *job = s->waiting.next;

		list_remove(job);
		list_append(ret, job);
		s->waiting_count--;
	}
	s->hurried = false;
	s->ended = count == 0;
	uv_mutex_unlock(&s->lock);
	return count > 0;
}

static void *thread_main(void *data)
{
	struct symbolizer *s = data;
	struct list batch;
	uint64_t start_ns;

	while (take_batch(s, &batch)) {
		start_ns = uv_hrtime();
		name_batch(s, &batch);
		s->rest_ns = (uv_hrtime() - start_ns) * REST_FACTOR;
		if (s->rest_ns < LIMIT_SYMBOL_WAIT_MIN_MS * NS_PER_MS)
			s->rest_ns = LIMIT_SYMBOL_WAIT_MIN_MS * NS_PER_MS;
		if (s->rest_ns > LIMIT_SYMBOL_WAIT_MAX_MS * NS_PER_MS)
			s->rest_ns = LIMIT_SYMBOL_WAIT_MAX_MS * NS_PER_MS;
		uv_mutex_lock(&s->lock);
		list_append_all(&s->finished, &batch);
		uv_mutex_unlock(&s->lock);
		uv_async_send(&s->async);
	}
	uv_async_send(&s->async);
	return NULL;
}

static struct symbolizer *symbolizer_free(struct symbolizer *s)
{
	cache_free(s->cache);
	uv_cond_destroy(&s->wake);
	uv_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static void on_closed(uv_handle_t *handle)
{
	struct symbolizer *s = handle->data;
	void (*closed)(void *data) = s->closed;
	void *data = s->data;

	symbolizer_free(s);
	if (closed)
		closed(data);
}

static void on_async(uv_async_t *async)
{
	struct symbolizer *s = async->data;
	struct list finished;
	struct symbol_job *job;
	bool ended;

	list_init(&finished);
	uv_mutex_lock(&s->lock);
	list_append_all(&finished, &s->finished);
	ended = s->ended;
	uv_mutex_unlock(&s->lock);
	while ((job = list_first(&finished, struct symbol_job, link))) {
		list_remove(&job->link);
		s->jobs--;
		s->named++;
		s->done(s->data, job);
	}
	if (!ended)
		return;
	pthread_join(s->thread, NULL);
	uv_close((uv_handle_t *)&s->async, on_closed);
}

static int symbolizer_start(struct symbolizer *s)
{
	int r;

	r = uv_async_init(s->loop, &s->async, on_async);
	if (r < 0)
		return r;
	s->async.data = s;
	return thread_start(&s->thread, thread_main, s);
}

int symbolizer_new(uv_loop_t *loop, void (*done)(void *data, struct symbol_job *job), void *data,
		   struct symbolizer **ret)
{
	struct symbolizer *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->done = done;
	s->data = data;
	s->rest_ns = LIMIT_SYMBOL_WAIT_MIN_MS * NS_PER_MS;
	list_init(&s->waiting);
	list_init(&s->finished);
	uv_mutex_init(&s->lock);
	uv_cond_init(&s->wake);
	s->cache = cache_new();
	r = s->cache ? symbolizer_start(s) : -ENOMEM;
	if (r == 0) {
		*ret = s;
		return 0;
	}
	if (s->async.data)
		uv_close((uv_handle_t *)&s->async, on_closed);
	else
		symbolizer_free(s);
	return r;
}

void symbolizer_close(struct symbolizer *s, void (*closed)(void *data))
{
	s->closed = closed;
	uv_mutex_lock(&s->lock);
	s->closing = true;
	uv_cond_signal(&s->wake);
	uv_mutex_unlock(&s->lock);
}

struct symbol_job *symbol_job_new(uint32_t count)
{
	struct symbol_job *job;

	job = calloc(1, sizeof(*job) + count * sizeof(job->frame[0]));
	if (job)
		job->count = count;
	return job;
}

struct symbol_job *symbol_job_free(struct symbol_job *job)
{
	uint32_t i;

	for (i = 0; job && i < job->count; i++) {
		maps_file_unref(job->frame[i].file);
		free(job->frame[i].name);
		free(job->frame[i].source);
	}
	free(job);
	return NULL;
}

int symbolizer_add(struct symbolizer *s, struct symbol_job *job)
{
	if (s->jobs >= LIMIT_SYMBOL_JOBS) {
		symbol_job_free(job);
		return -EAGAIN;
	}
	s->jobs++;
	uv_mutex_lock(&s->lock);
	list_append(&s->waiting, &job->link);
	s->waiting_count++;
	if (s->waiting_count == 1 || s->waiting_count == BATCH_JOBS)
		uv_cond_signal(&s->wake);
	uv_mutex_unlock(&s->lock);
	return 0;
}

uint64_t symbolizer_hurry(struct symbolizer *s)
{
	if (s->jobs) {
		uv_mutex_lock(&s->lock);
		s->hurried = s->waiting_count > 0;
		uv_cond_signal(&s->wake);
		uv_mutex_unlock(&s->lock);
	}
	return s->named + s->jobs;
}

uint64_t symbolizer_named(const struct symbolizer *s)
{
	return s->named;
}
