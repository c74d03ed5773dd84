/* Lead: what is done while the process is stopped. Each function is changed by one write, behind
 * its first instruction, whose first byte belongs to the kernel's probes. A thread that stands in
 * those bytes is moved to where they are now; one that will return there from a signal is waited
 * for. */
#include "daemon/light/light.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/store/thread.h"
#include "daemon/attach/freeze.h"
#include "daemon/attach/internal.h"
#include "daemon/attach/signal_frame.h"
#include "daemon/light/internal.h"

#define PATIENCE_NS    (3 * NS_PER_S)
#define STOP_NS	       (2 * NS_PER_MS)
#define STOP_LATER_NS  (20 * NS_PER_MS) /* after a third of our patience: the host is busy */
#define PAUSE_FIRST_NS (200 * NS_PER_US)
#define PAUSE_MAX_NS   (10 * NS_PER_MS)
#define STACK_NEAR     (16 << 10) /* of each thread's stack is searched for ways back */
#define STACK_WINDOW   (64 << 10) /* of that of a thread in a handler, for signal frames */
#define WRITE_SIZE     512
#define STACKS_MAX     6 /* of a thread: its own, and what handlers on it have interrupted */

struct job {
	const struct light_request *request;
	struct light_result *result;
	struct remarks *why;
	struct light_plan plan;
	bool take;
	bool restored; /* what is left to do is to leave the region */
	struct attach_obstacle obstacle;
	uint64_t *mark; /* of the span, NULL: it is only to clear what an earlier daemon left */
	uint32_t *change;
	int r;
	uint64_t word[STACK_WINDOW / sizeof(uint64_t)];
};

static bool read_memory(const struct light_plan *plan, uint64_t address, void *data, size_t size)
{
	return pread(plan->mem, data, size, (off_t)address) == (ssize_t)size;
}

/* Eight bytes, also where the process itself may not write. */
static bool poke(const struct light_plan *plan, uint64_t address, const uint8_t *bytes)
{
	unsigned long word;

	memcpy(&word, bytes, sizeof(word));
	return ptrace(PTRACE_POKEDATA, plan->tid, address, word) == 0;
}

/* One write: nobody ever finds half a jump. */
static bool write_jump(const struct light_plan *plan, const struct light_site *site,
		       const uint8_t *jump)
{
	uint8_t word[sizeof(uint64_t)];

	if (!read_memory(plan, site->word, word, sizeof(word)))
		return false;
	memcpy(word + (site->jump - site->word), jump, PROLOGUE_JUMP);
	return poke(plan, site->word, word);
}

/* From the start of the region on. What is read first is of the program that is meant. */
static bool write_region(const struct light_plan *plan, const uint8_t *data, size_t size)
{
	uint8_t before[WRITE_SIZE];

	for (size_t at = 0; at < size; at += sizeof(before)) {
		if (!read_memory(plan, plan->region + at, before, sizeof(before)))
			return false;
		for (size_t i = 0; i < sizeof(before); i += sizeof(uint64_t))
			if (memcmp(before + i, data + at + i, sizeof(uint64_t)) &&
			    !poke(plan, plan->region + at + i, data + at + i))
				return false;
	}
	return true;
}

static bool clear_region(const struct light_plan *plan)
{
	const uint64_t at = plan->region + offsetof(struct ts_light_head, sites);
	uint8_t word[sizeof(uint64_t)];

	if (!read_memory(plan, at, word, sizeof(word)))
		return false;
	memset(word, 0, sizeof(uint32_t));
	return poke(plan, at, word);
}

/* What a site looks like in the process. */
enum look { LOOK_ORIGINAL, LOOK_LED, LOOK_FOREIGN };

static enum look site_look(const struct light_plan *plan, const struct light_site *site)
{
	uint8_t code[PROLOGUE_MAX];
	uint64_t to;

	if (!read_memory(plan, site->jump, code, site->prologue.moved))
		return LOOK_FOREIGN;
	if (!memcmp(code, site->code, site->prologue.moved))
		return LOOK_ORIGINAL;
	to = detour_target(site->jump, code);
	return to - plan->region < TS_LIGHT_BYTES ? LOOK_LED : LOOK_FOREIGN;
}

static size_t plan_count(const struct light_plan *plan, enum look look)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->sites; i++)
		count += site_look(plan, &plan->site[i]) == look;
	return count;
}

static int site_compare(const void *a, const void *b)
{
	const struct light_site *x = a, *y = b;

	return x->jump < y->jump ? -1 : x->jump > y->jump;
}

/* The one whose jump is there, or NULL. */
static const struct light_site *plan_at(const struct light_plan *plan, uint64_t address)
{
	size_t low = 0, high = plan->sites;

	if (!high || address < plan->site[0].jump ||
	    address >= plan->site[high - 1].jump + PROLOGUE_JUMP)
		return NULL;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct light_site *site = &plan->site[middle];

		if (address >= site->jump && address - site->jump < PROLOGUE_JUMP)
			return site;
		if (address < site->jump)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* Code that a thread must not return to. */
static bool is_in_way(const struct job *job, uint64_t address)
{
	uint64_t code = job->plan.region + TS_LIGHT_DATA_BYTES;

	if (address - code < TS_LIGHT_CODE_BYTES)
		return job->take;
	return !job->take && plan_at(&job->plan, address);
}

struct stacks {
	uint64_t sp[STACKS_MAX];
	size_t count;
};

/* Adds those that handlers have interrupted: their own stacks, or further up the same one. */
static bool window_is_in_way(struct job *job, uint64_t sp, size_t window, struct stacks *stacks)
{
	ssize_t size = pread(job->plan.mem, job->word, window, (off_t)(sp & ~7ull));
	size_t count = size > 0 ? (size_t)size / sizeof(job->word[0]) : 0;

	for (size_t i = 0; i < count; i++) {
		if (i < STACK_NEAR / sizeof(job->word[0]) && is_in_way(job, job->word[i]))
			return true;
		if (!signal_frame_is_at(job->word, i))
			continue;
		if (is_in_way(job, job->word[i - SIGNAL_RIP]))
			return true;
		if (stacks->count < STACKS_MAX)
			stacks->sp[stacks->count++] = job->word[i - SIGNAL_RSP];
	}
	return false;
}

static bool thread_is_in_way(struct job *job, const struct freeze_thread *thread)
{
	size_t window = freeze_blocks(thread) ? STACK_WINDOW : STACK_NEAR;
	struct stacks stacks = { .sp = { thread->regs.rsp }, .count = 1 };

	for (size_t i = 0; i < stacks.count; i++)
		if (window_is_in_way(job, stacks.sp[i], window, &stacks))
			return true;
	return false;
}

static bool restore(const struct light_plan *plan)
{
	bool done = true;

	for (size_t i = 0; i < plan->sites; i++) {
		const struct light_site *site = &plan->site[i];

		if (site_look(plan, site) == LOOK_LED)
			done &= write_jump(plan, site, site->code);
	}
	return done && plan_count(plan, LOOK_LED) == 0;
}

/* The region first: nobody is in it, since no function leads there. */
static int put_in_place(struct job *job)
{
	struct light_plan *plan = &job->plan;
	bool done = restore(plan);

	if (plan_count(plan, LOOK_FOREIGN))
		return ATTACH_UNSUPPORTED(job->why, "somebody else has changed the driver's code");
	done = done && write_region(plan, plan->content, TS_LIGHT_BYTES);
	for (size_t i = 0; done && i < plan->sites; i++)
		done = write_jump(plan, &plan->site[i], plan->site[i].to);
	if (done && plan_count(plan, LOOK_LED) == plan->sites)
		return 0;
	if (restore(plan))
		clear_region(plan);
	return ATTACH_FAILED(job->why, -EIO, "The code of process %d cannot be written to",
			     plan->pid);
}

/* Who stands where the jump is now runs the same instructions in the region. Its call was seen by
 * the probes, or started before anybody looked. */
static void move_in(const struct light_plan *plan, struct freeze *freeze)
{
	for (size_t i = 0; i < freeze->count; i++) {
		struct freeze_thread *thread = &freeze->thread[i];
		const struct light_site *site = plan_at(plan, thread->regs.rip);

		if (site)
			freeze_move(thread, site->detour + detour_moved() +
						    (thread->regs.rip - site->jump));
	}
}

/* Who was about to jump still does: it is the library that reports its call. */
static void move_on(const struct light_plan *plan, struct freeze *freeze)
{
	for (size_t i = 0; i < freeze->count; i++) {
		struct freeze_thread *thread = &freeze->thread[i];
		const struct light_site *site = plan_at(plan, thread->regs.rip);

		if (site && thread->regs.rip == site->jump)
			freeze_move(thread, site->detour);
	}
}

/* Whoever asked for it may have given up, and goes by what is decided here. */
static int job_begin(const struct job *job)
{
	uint32_t open = LIGHT_OPEN;

	if (attach_is_wanted(job->request->leash) &&
	    (!job->mark || __atomic_compare_exchange_n(job->change, &open, LIGHT_BEGUN, false,
						       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)))
		return 0;
	return ATTACH_FAILED(job->why, -ECANCELED, "Nobody waits for process %d any more",
			     job->plan.pid);
}

/* Nothing has changed after all. */
static int job_failed(const struct job *job, int error)
{
	if (job->mark)
		__atomic_store_n(job->change, LIGHT_OPEN, __ATOMIC_RELEASE);
	return error;
}

/* 0: done; -EAGAIN: somebody is in the region still. */
static int take_out(struct job *job, struct freeze *freeze)
{
	struct light_plan *plan = &job->plan;

	if (!job->restored) {
		bool led = plan_count(plan, LOOK_LED) > 0;
		int r = job_begin(job);

		if (r < 0)
			return r;
		if (!restore(plan))
			return job_failed(job, ATTACH_FAILED(job->why, -EIO,
							     "The code of process %d cannot be "
							     "written to",
							     plan->pid));
		if (led)
			move_on(plan, freeze);
	}
	job->restored = true;
	for (size_t i = 0; i < freeze->count; i++)
		if (is_in_way(job, freeze->thread[i].regs.rip) ||
		    thread_is_in_way(job, &freeze->thread[i]))
			return -EAGAIN;
	return clear_region(plan) ? 0 : -EIO;
}

static int put_in(struct job *job, struct freeze *freeze)
{
	int r;

	for (size_t i = 0; i < freeze->count; i++)
		if (thread_is_in_way(job, &freeze->thread[i]))
			return -EAGAIN;
	r = job_begin(job);
	if (r < 0)
		return r;
	r = put_in_place(job);
	if (r < 0)
		return job_failed(job, r);
	move_in(&job->plan, freeze);
	return 0;
}

static void job_mark(struct job *job)
{
	if (job->mark)
		__atomic_store_n(job->mark, attach_now_ns(), __ATOMIC_RELEASE);
}

static pid_t stopped_thread(const struct freeze *freeze)
{
	for (size_t i = 0; i < freeze->count; i++)
		if (freeze->thread[i].stopped)
			return freeze->thread[i].tid;
	return 0;
}

/* Everybody stands. */
static int job_act(struct job *job, struct freeze *freeze)
{
	const struct light_request *request = job->request;
	bool first = !job->restored;
	int r;

	if (request->limited) {
		r = attach_check_owner(request->pid, request->uid, job->why);
		if (r < 0)
			return r;
	}
	job->plan.tid = stopped_thread(freeze);
	r = job->take ? take_out(job, freeze) : put_in(job, freeze);
	if (first && (r == 0 || job->restored))
		job_mark(job);
	return r;
}

static int job_try(struct job *job, uint64_t limit_ns)
{
	struct freeze freeze;
	uint64_t stopped_ns;
	int r;

	if (attach_obstacle_look(job->plan.pid, &job->obstacle))
		return -EAGAIN;
	r = freeze_stop(job->plan.pid, limit_ns, &freeze);
	if (r < 0)
		return r == -EPERM ? ATTACH_WHY(job->why, r, TRACE_REFUSED,
						REMARK_NUMBER(job->plan.pid))
				   : r;
	r = job_act(job, &freeze);
	stopped_ns = freeze_release(&freeze);
	job->result->stops++;
	if (stopped_ns > job->result->stopped_ns)
		job->result->stopped_ns = stopped_ns;
	return r;
}

static int job_run(struct job *job)
{
	uint64_t begin_ns = attach_now_ns(), passed_ns = 0;
	long pause_ns = PAUSE_FIRST_NS;
	int r;

	do {
		bool late = passed_ns > (uint64_t)PATIENCE_NS / 3;

		r = job_try(job, late ? STOP_LATER_NS : STOP_NS);
		if (r != -EAGAIN)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
		pause_ns = pause_ns * 2 < PAUSE_MAX_NS ? pause_ns * 2 : PAUSE_MAX_NS;
		passed_ns = attach_now_ns() - begin_ns;
	} while (passed_ns < (uint64_t)PATIENCE_NS);
	if (r == -EAGAIN && attach_obstacle_why(job->plan.pid, &job->obstacle, job->why) == 0)
		ATTACH_FAILED(job->why, r, "Process %d could not be changed: %s; try again",
			      job->plan.pid,
			      job->restored ? "a thread is still in code of ours"
					    : "its threads could not be stopped at a good moment");
	if (r == -ESRCH || (r < 0 && attach_ended(job->plan.pid)))
		return ATTACH_WHY(job->why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(job->plan.pid));
	return r;
}

/* On a thread of its own: the kernel lets go of what a thread traces when it ends. */
static void *job_thread(void *data)
{
	struct job *job = data;
	struct light_plan *plan = &job->plan;
	struct light_span *span = job->request->span;
	bool put = !job->take;
	size_t led;

	job->r = light_plan_make(job->request, plan, job->why);
	if (job->r < 0)
		return NULL;
	qsort(plan->site, plan->sites, sizeof(plan->site[0]), site_compare);
	job->result->functions = (uint32_t)plan->sites;
	/* An earlier daemon did it, or died over it. */
	led = plan_count(plan, LOOK_LED);
	job->mark = put ? &span->from_ns : &span->until_ns;
	job->change = put ? &span->put : &span->take;
	if (put && led == plan->sites) {
		job->r = job_begin(job);
		if (job->r == 0)
			job_mark(job);
		return NULL;
	}
	job->take = !put || led || job->request->told.in_place;
	if (job->take) {
		job->mark = put ? NULL : job->mark;
		job->r = job_run(job);
	}
	if (!put || job->r < 0)
		return NULL;
	job->take = job->restored = false;
	job->mark = &span->from_ns;
	job->r = job_run(job);
	return NULL;
}

static int light_run(struct job *job)
{
	pthread_t thread;
	int r;

	remarks_clear(job->why);
	r = thread_start(&thread, job_thread, job);
	if (r < 0)
		return ATTACH_FAILED(job->why, -EAGAIN, "Cannot start a thread: %s", strerror(-r));
	pthread_join(thread, NULL);
	light_plan_release(&job->plan);
	return job->r;
}

int light_put(const struct light_request *request, struct light_result *ret, struct remarks *why)
{
	struct job job = { .request = request, .result = ret, .why = why };

	return light_run(&job);
}

int light_take(const struct light_request *request, struct light_result *ret, struct remarks *why)
{
	struct job job = { .request = request, .result = ret, .why = why, .take = true };

	return light_run(&job);
}
