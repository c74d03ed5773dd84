/* unwinder: one miss at a time: whoever takes them from the ring waits for its answer, so that a
 * stack is known before the calls that follow. The job belongs to the pool from unwinder_take()
 * until it is back on the loop, and with it the cache of files. Only the loop writes rules, and not
 * meanwhile.
 */
#include "daemon/unwind/unwinder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/unwind/frames.h"
#include "daemon/unwind/rules.h"
#include "daemon/unwind/walk.h"

/* What is known of a file; a new one takes the place of the one that was not used for longest. */
struct file {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
	uint64_t used; /* 0: free */
	bool readable;
	struct frames frames;
};

struct learned {
	uint64_t key;
	struct rule rule;
};

struct unwinder {
	struct maps *maps;
	struct rules rules;
	struct unwinder_config config;
	uv_loop_t *loop;
	uv_work_t work;
	bool busy, closing;
	/* The pool's while busy. */
	struct probe_miss *miss; /* with room for the largest stack */
	struct maps_span *span;
	uint32_t span_count;
	struct learned learned[TS_STACK_FRAMES_MAX];
	uint32_t learned_count;
	struct unwound unwound;
	struct file file[LIMIT_UNWIND_FILES];
	uint64_t uses;

	struct unwinder_stats stats;
};

static bool file_is(const struct file *file, const struct stat *st)
{
	return file->used && file->device == st->st_dev && file->inode == st->st_ino &&
	       file->size == st->st_size && file->modified.tv_sec == st->st_mtim.tv_sec &&
	       file->modified.tv_nsec == st->st_mtim.tv_nsec;
}

static struct file *file_open(struct unwinder *unwinder, int fd)
{
	struct file *oldest = &unwinder->file[0], *file;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(unwinder->file); i++) {
		file = &unwinder->file[i];
		if (file_is(file, &st)) {
			file->used = ++unwinder->uses;
			return file;
		}
		if (file->used < oldest->used)
			oldest = file;
	}
	*oldest = (struct file){
		.device = st.st_dev,
		.inode = st.st_ino,
		.size = st.st_size,
		.modified = st.st_mtim,
		.used = ++unwinder->uses,
	};
	oldest->readable = frames_open(&oldest->frames, fd) == 0;
	return oldest;
}

static const struct maps_span *find_span(const struct unwinder *unwinder, uint64_t address)
{
	uint32_t low = 0, high = unwinder->span_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (unwinder->span[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == unwinder->span_count || unwinder->span[low].start > address)
		return NULL;
	return &unwinder->span[low];
}

static uint64_t key_of(const struct unwinder *unwinder, uint64_t pc, bool returned)
{
	return rule_key(unwinder->miss->rules, pc, returned);
}

/* Those that are filed need no file. Links are looked at anew: they depend on the stack. */
static int find_rule(void *data, uint64_t pc, bool returned, struct rule *ret)
{
	struct unwinder *unwinder = data;
	const struct maps_span *span = find_span(unwinder, pc - returned);
	struct file *file;
	uint64_t address;

	if (!span)
		return -ENOENT;
	if (rules_get(&unwinder->rules, key_of(unwinder, pc, returned), ret) &&
	    ret->kind != RULE_LINK && ret->kind != RULE_NONE)
		return 0;
	file = file_open(unwinder, span->file->fd);
	if (!file || !file->readable)
		return -ENOENT;
	file->frames.fd = span->file->fd;
	if (frames_address(&file->frames, span->offset + (pc - returned - span->start), &address) <
	    0)
		return -ENOENT;
	*ret = frames_rule(&file->frames, address);
	return 0;
}

static bool find_word(void *data, uint64_t at, uint64_t *ret)
{
	const struct unwinder *unwinder = data;
	const struct walk_copy copy = { unwinder->miss->sp, unwinder->miss->stack,
					unwinder->miss->size };

	return walk_copy_word(&copy, at, ret);
}

static void learn(void *data, uint64_t pc, bool returned, struct rule rule)
{
	struct unwinder *unwinder = data;

	if (unwinder->learned_count < ARRAY_SIZE(unwinder->learned))
		unwinder->learned[unwinder->learned_count++] =
			(struct learned){ key_of(unwinder, pc, returned), rule };
}

static void on_work(uv_work_t *work)
{
	struct unwinder *unwinder = work->data;
	const struct probe_miss *miss = unwinder->miss;
	const struct walk_source source = {
		.data = unwinder, .rule = find_rule, .word = find_word, .used = learn
	};
	const struct walk_registers at = { miss->pc, miss->sp, miss->bp };
	struct unwound *unwound = &unwinder->unwound;
	uint32_t known = miss->frame_count - 1u; /* the last one is where the walk goes on */
	struct walk walked;

	unwinder->learned_count = 0;
	*unwound = (struct unwound){
		.miss_id = miss->id,
		.tgid = miss->tgid,
		.tid = miss->tid,
		.time_ns = miss->time_ns,
	};
	memcpy(unwound->frame, miss->frame, known * sizeof(miss->frame[0]));
	walk(&source, at, miss->returned, unwound->frame + known, miss->depth - known, &walked);
	unwound->count = known + walked.count;
	unwound->end = walked.end;
	unwound->linked = walked.linked;
	unwound->id = probe_stack_id(miss->seed, unwound->frame, unwound->count, unwound->end);
}

static void free_spans(struct unwinder *unwinder)
{
	for (uint32_t i = 0; i < unwinder->span_count; i++)
		maps_file_unref(unwinder->span[i].file);
	unwinder->span_count = 0;
	free(TAKE(unwinder->span));
}

static void unwinder_free(struct unwinder *unwinder)
{
	free(unwinder->miss);
	free(unwinder);
}

static void on_done(uv_work_t *work, int status)
{
	struct unwinder *unwinder = work->data;

	free_spans(unwinder);
	unwinder->busy = false;
	if (unwinder->closing) {
		unwinder_free(unwinder);
		return;
	}
	for (uint32_t i = 0; i < unwinder->learned_count; i++)
		rules_put(&unwinder->rules, unwinder->learned[i].key, unwinder->learned[i].rule);
	unwinder->stats.walks++;
	unwinder->stats.linked += unwinder->unwound.linked;
	unwinder->stats.end[unwinder->unwound.end]++;
	unwinder->config.done(unwinder->config.data, &unwinder->unwound);
}

int unwinder_take(struct unwinder *unwinder, const void *record, size_t size)
{
	struct probe_miss *miss = unwinder->miss;
	int r;

	if (unwinder->busy)
		return -EBUSY;
	if (size < sizeof(*miss) || size > sizeof(*miss) + PROBE_MISS_STACK_MAX)
		return -EBADMSG;
	memcpy(miss, record, size);
	if (miss->kind != PROBE_MISS || miss->size > size - sizeof(*miss) ||
	    miss->depth > TS_STACK_FRAMES_MAX || miss->frame_count < 1 ||
	    miss->frame_count > miss->depth)
		return -EBADMSG;
	maps_catch_up(unwinder->maps);
	r = maps_spans(unwinder->maps, miss->tgid, miss->time_ns, &unwinder->span,
		       &unwinder->span_count);
	if (r < 0 && r != -ENOENT)
		return r;
	r = uv_queue_work(unwinder->loop, &unwinder->work, on_work, on_done);
	if (r < 0) {
		free_spans(unwinder);
		return r;
	}
	unwinder->busy = true;
	return 0;
}

int unwinder_new(uv_loop_t *loop, struct maps *maps, const struct unwinder_config *config,
		 struct unwinder **ret)
{
	_cleanup_(freep) struct unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (!unwinder)
		return -ENOMEM;
	unwinder->miss = malloc(sizeof(*unwinder->miss) + PROBE_MISS_STACK_MAX);
	if (!unwinder->miss)
		return -ENOMEM;
	unwinder->loop = loop;
	unwinder->maps = maps;
	unwinder->config = *config;
	unwinder->rules = (struct rules){ .slot = config->slots, .mask = config->mask };
	unwinder->work.data = unwinder;
	*ret = TAKE(unwinder);
	return 0;
}

void unwinder_close(struct unwinder *unwinder)
{
	if (!unwinder)
		return;
	unwinder->closing = true;
	if (!unwinder->busy)
		unwinder_free(unwinder);
}

void unwinder_stats(const struct unwinder *unwinder, struct unwinder_stats *ret)
{
	*ret = unwinder->stats;
	ret->filed = unwinder->rules.filed;
	ret->replaced = unwinder->rules.replaced;
}
