/* worker: the files that it knows are its own, so that two workers share nothing but the rules,
 * which it only reads. */
#include "daemon/unwind/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/store/thread.h"
#include "daemon/unwind/frames.h"
#include "daemon/unwind/walk.h"

enum state { IDLE, BUSY, DONE, ENDED };

/* What is known of a file; a new one takes the place of the one that was not used for longest. */
struct file {
	struct statx known;
	uint64_t used; /* 0: free */
	bool readable;
	struct frames frames;
};

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	enum state state; /* changes under the lock */
	bool ending;
	uv_async_t *async;
	const struct rules *rules;
	struct worker_job job;
	dev_t device; /* that it reads from */
	/* The thread's own. */
	struct file file[LIMIT_UNWIND_FILES];
	uint64_t uses;
	uint64_t scanned; /* bytes, for this job */
};

static bool file_is(const struct file *file, const struct statx *st)
{
	const struct statx *known = &file->known;

	return file->used && known->stx_dev_major == st->stx_dev_major &&
	       known->stx_dev_minor == st->stx_dev_minor && known->stx_ino == st->stx_ino &&
	       known->stx_size == st->stx_size && known->stx_mtime.tv_sec == st->stx_mtime.tv_sec &&
	       known->stx_mtime.tv_nsec == st->stx_mtime.tv_nsec;
}

static struct file *file_open(struct worker *worker, int fd)
{
	struct file *oldest = &worker->file[0], *file;
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(worker->file); i++) {
		file = &worker->file[i];
		if (file_is(file, &st)) {
			file->used = ++worker->uses;
			return file;
		}
		if (file->used < oldest->used)
			oldest = file;
	}
	*oldest = (struct file){ .known = st, .used = ++worker->uses };
	oldest->readable = frames_open(&oldest->frames, fd) == 0;
	return oldest;
}

static const struct maps_span *find_span(const struct worker *worker, uint64_t address)
{
	const struct worker_job *job = &worker->job;
	uint32_t low = 0, high = job->span_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (job->span[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == job->span_count || job->span[low].start > address)
		return NULL;
	return &job->span[low];
}

static bool is_avoided(const struct worker *worker, dev_t device)
{
	for (uint32_t i = 0; i < worker->job.avoid_count; i++)
		if (worker->job.avoid[i] == device)
			return true;
	return false;
}

/* The rules of the file that is mapped there. -EAGAIN: it does not answer. */
static int find_frames(struct worker *worker, const struct maps_span *span, struct frames **ret)
{
	struct file *file;

	if (is_avoided(worker, span->file->device))
		return -EAGAIN;
	__atomic_store_n(&worker->device, span->file->device, __ATOMIC_RELAXED);
	if (span->file->fd < 0) /* not now, as too many are open, or its process is gone */
		return -EAGAIN;
	file = file_open(worker, span->file->fd);
	if (!file || !file->readable || frames_are_none(&file->frames))
		return -ENOENT;
	file->frames.fd = span->file->fd;
	*ret = &file->frames;
	return 0;
}

/* Those that are filed need no file. Links are looked at anew: they depend on the stack. */
static int find_rule(void *data, uint64_t pc, bool returned, struct rule *ret)
{
	struct worker *worker = data;
	const struct maps_span *span = find_span(worker, pc - returned);
	uint64_t key = rule_key(worker->job.miss->rules, pc, returned), address;
	struct frames *frames;
	int r;

	if (!span)
		return -ENOENT;
	if (rules_get(worker->rules, key, ret) && ret->kind != RULE_LINK && ret->kind != RULE_NONE)
		return 0;
	r = find_frames(worker, span, &frames);
	if (r < 0)
		return r;
	if (frames_address(frames, span->offset + (pc - returned - span->start), &address) < 0)
		return -ENOENT;
	if (frames->entries == 0)
		worker->scanned += frames->frames_size;
	if (worker->scanned > LIMIT_UNWIND_SCANNED)
		return -EAGAIN;
	*ret = frames_rule(frames, address);
	return 0;
}

static bool find_word(void *data, uint64_t at, uint64_t *ret)
{
	const struct probe_miss *miss = ((struct worker *)data)->job.miss;
	const struct walk_copy copy = { miss->at, probe_miss_stack(miss), miss->size,
					miss->missing };

	return walk_copy_word(&copy, at, ret);
}

/* Where no function can have a rule, as in what is compiled at run time. */
static bool is_bare(struct worker *worker, uint64_t pc)
{
	const struct maps_span *span = find_span(worker, pc);
	struct frames *frames;

	return !span || find_frames(worker, span, &frames) == -ENOENT;
}

/* New functions are compiled all the time, but pages are fewer. One that had a function without
 * frame pointers stays without a rule. */
static uint64_t key_to_file(struct worker *worker, uint64_t pc, bool returned, struct rule rule)
{
	uint64_t seed = worker->job.miss->rules, page = rule_page_key(seed, pc);
	struct rule known;

	if ((rule.kind != RULE_NONE && rule.kind != RULE_LINK) || !is_bare(worker, pc - returned))
		return rule_key(seed, pc, returned);
	if (rule.kind == RULE_LINK && rules_get(worker->rules, page, &known) &&
	    known.kind == RULE_NONE)
		return 0;
	return page;
}

static void learn(void *data, uint64_t pc, bool returned, struct rule rule)
{
	struct worker *worker = data;
	struct worker_job *job = &worker->job;
	uint64_t key = key_to_file(worker, pc, returned, rule);

	if (key && job->learned_count < ARRAY_SIZE(job->learned))
		job->learned[job->learned_count++] = (struct worker_rule){ key, rule };
}

static void unwind(struct worker *worker)
{
	struct worker_job *job = &worker->job;
	const struct probe_miss *miss = job->miss;
	const struct walk_source source = {
		.data = worker, .rule = find_rule, .word = find_word, .used = learn
	};
	const struct walk_registers at = { miss->pc, miss->sp, miss->bp };
	struct unwound *unwound = &job->unwound;
	uint64_t began_ns = uv_hrtime();
	uint32_t known = miss->frame_count - 1u; /* the last one is where the walk goes on */
	struct walk walked;

	job->learned_count = 0;
	worker->scanned = 0;
	unwound_begin(unwound, miss);
	walk(&source, at, miss->returned, unwound->frame + known, miss->depth - known, &walked);
	unwound->count = known + walked.count;
	unwound->end = walked.end;
	unwound->linked = walked.linked;
	unwound_end(unwound, miss->seed);
	job->took_ns = uv_hrtime() - began_ns;
	__atomic_store_n(&worker->device, 0, __ATOMIC_RELAXED);
}

static void set_state(struct worker *worker, enum state state)
{
	__atomic_store_n(&worker->state, state, __ATOMIC_RELEASE);
}

static void *run(void *data)
{
	struct worker *worker = data;

	thread_hurry(); /* as the loop, which waits for it */
	pthread_mutex_lock(&worker->lock);
	for (;;) {
		while (worker->state != BUSY && !worker->ending)
			pthread_cond_wait(&worker->wake, &worker->lock);
		if (worker->state != BUSY)
			break;
		pthread_mutex_unlock(&worker->lock);
		unwind(worker);
		pthread_mutex_lock(&worker->lock);
		set_state(worker, DONE);
		uv_async_send(worker->async);
	}
	set_state(worker, ENDED);
	uv_async_send(worker->async);
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

static struct worker *worker_free(struct worker *worker)
{
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->lock);
	free(worker->job.miss);
	free(worker);
	return NULL;
}

int worker_new(const struct rules *rules, uv_async_t *async, struct worker **ret)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r = -ENOMEM;

	if (!worker)
		return -ENOMEM;
	worker->rules = rules;
	worker->async = async;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->wake, NULL);
	worker->job.miss = malloc(sizeof(*worker->job.miss) + PROBE_MISS_STACK_MAX);
	if (worker->job.miss)
		r = thread_start(&worker->thread, run, worker);
	if (r < 0) {
		worker_free(worker);
		return r;
	}
	*ret = worker;
	return 0;
}

struct worker_job *worker_job(struct worker *worker)
{
	return &worker->job;
}

void worker_start(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	set_state(worker, BUSY);
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
}

bool worker_done(const struct worker *worker)
{
	return __atomic_load_n(&worker->state, __ATOMIC_ACQUIRE) >= DONE;
}

dev_t worker_device(const struct worker *worker)
{
	return __atomic_load_n(&worker->device, __ATOMIC_RELAXED);
}

void worker_end(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->ending = true;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
}

struct worker *worker_free_if_ended(struct worker *worker)
{
	if (!worker || __atomic_load_n(&worker->state, __ATOMIC_ACQUIRE) != ENDED)
		return worker;
	pthread_join(worker->thread, NULL);
	return worker_free(worker);
}
