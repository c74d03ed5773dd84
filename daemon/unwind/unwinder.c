/* unwinder: one miss at a time: whoever takes them from the ring waits for its answer, so that a
 * stack is known before the calls that follow. It waits for a limited time: a worker that takes
 * longer is left alone, its file system is avoided until it comes back, and its stack ends where it
 * was. What such a worker has found is filed later. Only the loop writes rules.
 */
#include "daemon/unwind/unwinder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/patience.h"
#include "core/base/time.h"
#include "daemon/unwind/rules.h"
#include "daemon/unwind/share.h"
#include "daemon/unwind/walk.h"
#include "daemon/unwind/worker.h"

struct hung {
	struct worker *worker; /* NULL: free */
	uint32_t tgid;
};

struct unwinder {
	struct maps *maps;
	struct rules rules;
	struct unwinder_config config;
	uv_loop_t *loop;
	uv_async_t async;
	uv_timer_t deadline;
	struct worker *worker; /* NULL: to be made */
	struct hung hung[LIMIT_UNWIND_HUNG];
	uint64_t asked_ns; /* the worker has a miss to answer since then, 0: it has none */
	struct share share;
	bool closing;
	uint32_t handles;
	void (*closed)(void *data);
	struct unwinder_stats stats;
};

static void free_spans(struct worker_job *job)
{
	for (uint32_t i = 0; i < job->span_count; i++)
		maps_file_unref(job->span[i].file);
	job->span_count = 0;
	free(TAKE(job->span));
}

static void give(struct unwinder *unwinder, const struct unwound *unwound)
{
	unwinder->stats.walks++;
	unwinder->stats.linked += unwound->linked;
	unwinder->stats.end[unwound->end]++;
	unwinder->config.done(unwinder->config.data, unwound);
}

/* With the frames that are known. */
static void give_short(struct unwinder *unwinder, const struct probe_miss *miss)
{
	struct unwound unwound;

	unwound_begin(&unwound, miss);
	unwound.count = miss->frame_count;
	unwound.end = TS_END_MISSED;
	unwound_end(&unwound, miss->seed);
	unwinder->stats.cut++;
	give(unwinder, &unwound);
}

/* The rules belong to addresses of one program and its mappings, by their keys: so they are as good
 * later. */
static void take_rules(struct unwinder *unwinder, struct worker_job *job)
{
	for (uint32_t i = 0; i < job->learned_count; i++)
		rules_put(&unwinder->rules, job->learned[i].key, job->learned[i].rule);
	job->learned_count = 0;
	free_spans(job);
}

static void on_answered(struct unwinder *unwinder)
{
	struct worker_job *job = worker_job(unwinder->worker);
	uint64_t now_ns = uv_hrtime();

	uv_timer_stop(&unwinder->deadline);
	share_take(&unwinder->share, job->unwound.tgid, now_ns, job->took_ns);
	unwinder->asked_ns = 0;
	take_rules(unwinder, job);
	if (!unwinder->closing)
		give(unwinder, &job->unwound);
}

static struct hung *hung_free(struct unwinder *unwinder)
{
	for (size_t i = 0; i < ARRAY_SIZE(unwinder->hung); i++)
		if (!unwinder->hung[i].worker)
			return &unwinder->hung[i];
	return NULL;
}

static void on_deadline(uv_timer_t *timer)
{
	struct unwinder *unwinder = timer->data;
	struct worker *worker = unwinder->worker;
	struct probe_miss *miss = worker_job(worker)->miss;
	struct hung *hung = hung_free(unwinder);
	uint64_t now_ns = uv_hrtime();

	if (worker_done(worker)) {
		on_answered(unwinder);
		return;
	}
	share_take(&unwinder->share, miss->tgid, now_ns, now_ns - unwinder->asked_ns);
	unwinder->asked_ns = 0;
	/* There is room: only then a worker gets something to do. */
	*hung = (struct hung){ TAKE(unwinder->worker), miss->tgid };
	unwinder->stats.late++;
	worker_end(worker);
	log_debug("Unwinding a stack of process %u takes too long", miss->tgid);
	give_short(unwinder, miss);
}

static void on_closed(uv_handle_t *handle)
{
	struct unwinder *unwinder = handle->data;

	if (--unwinder->handles)
		return;
	if (unwinder->closed)
		unwinder->closed(unwinder->config.data);
	free(unwinder);
}

static void close_if_idle(struct unwinder *unwinder)
{
	bool idle = !unwinder->worker;

	for (size_t i = 0; i < ARRAY_SIZE(unwinder->hung); i++)
		idle &= !unwinder->hung[i].worker;
	if (!unwinder->closing || !idle || uv_is_closing((uv_handle_t *)&unwinder->async))
		return;
	uv_close((uv_handle_t *)&unwinder->async, on_closed);
	uv_close((uv_handle_t *)&unwinder->deadline, on_closed);
}

static void on_async(uv_async_t *async)
{
	struct unwinder *unwinder = async->data;

	for (size_t i = 0; i < ARRAY_SIZE(unwinder->hung); i++) {
		struct hung *hung = &unwinder->hung[i];

		if (!hung->worker || !worker_done(hung->worker))
			continue;
		take_rules(unwinder, worker_job(hung->worker));
		hung->worker = worker_free_if_ended(hung->worker);
	}
	if (unwinder->asked_ns && worker_done(unwinder->worker))
		on_answered(unwinder);
	if (unwinder->closing)
		unwinder->worker = worker_free_if_ended(unwinder->worker);
	close_if_idle(unwinder);
}

/* A worker, a place for it to hang, and time for this process. */
static bool may_walk(struct unwinder *unwinder, uint32_t tgid)
{
	for (size_t i = 0; i < ARRAY_SIZE(unwinder->hung); i++)
		if (unwinder->hung[i].worker && unwinder->hung[i].tgid == tgid)
			return false;
	return hung_free(unwinder) && share_left(&unwinder->share, tgid, uv_hrtime()) &&
	       (unwinder->worker ||
		worker_new(&unwinder->rules, &unwinder->async, &unwinder->worker) == 0);
}

static void avoid_hung(const struct unwinder *unwinder, struct worker_job *job)
{
	dev_t device;

	job->avoid_count = 0;
	for (size_t i = 0; i < ARRAY_SIZE(unwinder->hung); i++) {
		device = unwinder->hung[i].worker ? worker_device(unwinder->hung[i].worker) : 0;
		if (device)
			job->avoid[job->avoid_count++] = device;
	}
}

static bool miss_is_good(const struct probe_miss *miss, size_t size)
{
	size_t head;

	if (size < PROBE_MISS_LEAN || miss->kind != PROBE_MISS)
		return false;
	head = miss->lean ? PROBE_MISS_LEAN : sizeof(*miss);
	return size >= head && size <= head + PROBE_MISS_STACK_MAX && miss->size <= size - head &&
	       miss->depth <= TS_STACK_FRAMES_MAX && miss->frame_count >= 1 &&
	       miss->frame_count <= miss->depth &&
	       miss->python_count <= (miss->lean ? 0 : TS_STACK_PYTHON_MAX);
}

struct filed {
	const struct rules *rules;
	const struct probe_miss *miss;
};

static int filed_rule(void *data, uint64_t pc, bool returned, struct rule *ret)
{
	const struct filed *filed = data;
	uint64_t key = rule_key(filed->miss->rules, pc, returned);

	/* Where there are links, the worker decides. */
	if (!rules_get(filed->rules, key, ret) || ret->kind == RULE_LINK || ret->kind == RULE_NONE)
		return -EAGAIN;
	return 0;
}

static bool filed_word(void *data, uint64_t at, uint64_t *ret)
{
	const struct filed *filed = data;
	const struct walk_copy copy = { filed->miss->at, probe_miss_stack(filed->miss),
					filed->miss->size, filed->miss->missing };

	return walk_copy_word(&copy, at, ret);
}

/* What has been filed since the program asked is often enough: while a program starts, it asks
 * faster than stacks are unwound, for the same rules. */
static bool walk_by_filed(struct unwinder *unwinder, const struct probe_miss *miss)
{
	struct filed filed = { &unwinder->rules, miss };
	const struct walk_source source = { .data = &filed,
					    .rule = filed_rule,
					    .word = filed_word };
	const struct walk_registers at = { miss->pc, miss->sp, miss->bp };
	uint32_t known = miss->frame_count - 1u;
	uint64_t now_ns = uv_hrtime();
	struct unwound unwound;
	struct walk walked;

	if (!share_left(&unwinder->share, miss->tgid, now_ns))
		return false;
	unwound_begin(&unwound, miss);
	walk(&source, at, miss->returned, unwound.frame + known, miss->depth - known, &walked);
	if (walked.end == TS_END_MISSED)
		return false;
	unwound.count = known + walked.count;
	unwound.end = walked.end;
	unwound_end(&unwound, miss->seed);
	give(unwinder, &unwound);
	share_take(&unwinder->share, miss->tgid, now_ns, uv_hrtime() - now_ns);
	return true;
}

int unwinder_take(struct unwinder *unwinder, const void *record, size_t size, bool late)
{
	const struct probe_miss *miss = record;
	struct worker_job *job;
	int r;

	if (unwinder->asked_ns)
		return -EBUSY;
	if (!miss_is_good(miss, size))
		return -EBADMSG;
	if (!late && walk_by_filed(unwinder, miss))
		return UNWINDER_DONE;
	if (late || !may_walk(unwinder, miss->tgid)) {
		give_short(unwinder, miss);
		return UNWINDER_DONE;
	}
	job = worker_job(unwinder->worker);
	memcpy(job->miss, record, size);
	r = maps_spans(unwinder->maps, miss->tgid, miss->time_ns, &job->span, &job->span_count);
	if (r < 0 && r != -ENOENT)
		return r;
	avoid_hung(unwinder, job);
	unwinder->asked_ns = uv_hrtime();
	uv_timer_start(&unwinder->deadline, on_deadline, patience_ms(LIMIT_UNWIND_WAIT_MS), 0);
	worker_start(unwinder->worker);
	return 0;
}

int unwinder_new(uv_loop_t *loop, struct maps *maps, const struct unwinder_config *config,
		 struct unwinder **ret)
{
	_cleanup_(freep) struct unwinder *unwinder = calloc(1, sizeof(*unwinder));
	int r;

	if (!unwinder)
		return -ENOMEM;
	unwinder->loop = loop;
	unwinder->maps = maps;
	unwinder->config = *config;
	unwinder->rules = (struct rules){ .slot = config->slots, .mask = config->mask };
	r = uv_async_init(loop, &unwinder->async, on_async);
	if (r < 0)
		return r;
	uv_timer_init(loop, &unwinder->deadline);
	unwinder->async.data = unwinder->deadline.data = unwinder;
	unwinder->handles = 2;
	*ret = TAKE(unwinder);
	return 0;
}

void unwinder_close(struct unwinder *unwinder, void (*closed)(void *data))
{
	if (!unwinder)
		return;
	unwinder->closing = true;
	unwinder->closed = closed;
	uv_timer_stop(&unwinder->deadline);
	if (unwinder->worker)
		worker_end(unwinder->worker);
	close_if_idle(unwinder);
}

void unwinder_stats(const struct unwinder *unwinder, struct unwinder_stats *ret)
{
	*ret = unwinder->stats;
	ret->filed = unwinder->rules.filed;
	ret->replaced = unwinder->rules.replaced;
}
