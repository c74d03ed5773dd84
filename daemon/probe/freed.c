/* Freed: a place for each process that is counted, and the probe that counts in it. The programs
 * believe a count only while it has an owner: it gets one after the probe, and loses it first. */
#include "daemon/probe/freed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/quota.h"
#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/probe/site.h"

#define PROLOGUE_SIZE 16
#define HELD_NS	      (10 * NS_PER_S) /* while somebody keeps the lock of its memory */

struct place {
	struct linking linking;
	struct freed *freed;
	uint32_t pid; /* 0: free */
	uint32_t user;
	int file;
	uint64_t offset;
	bool busy, forgotten; /* the probe is being made; nobody wants it any more */
	int error;
	struct probe_stub *stub; /* NULL: not counted */
	uint64_t retry_ns;	 /* not before that */
	uint64_t pause_ns;	 /* of the last time that it freed too many */
	uint64_t since_ns;	 /* counted: by the first look, 0: none yet */
	uint64_t looked_ns, count, told;
};

struct freed {
	struct probe *probe;
	struct linker *linker;
	struct remover *remover;
	freed_counted *counted;
	void *data;
	bool works, closing;
	uint32_t links; /* made so far */
	uint64_t paused;
	struct quota quota;
	struct place place[PROBE_FREED_MAX];
};

static uint32_t number_of(const struct place *place)
{
	return (uint32_t)(place - place->freed->place);
}

static struct probe_freed *shared(const struct place *place)
{
	return &probe_freed(place->freed->probe)[number_of(place)];
}

static uint64_t count_now(const struct place *place)
{
	return __atomic_load_n(&shared(place)->count, __ATOMIC_RELAXED);
}

static void place_stop(struct place *place)
{
	__atomic_store_n(&shared(place)->owner, 0, __ATOMIC_SEQ_CST);
	place->stub = probe_stub_end(place->stub, place->freed->remover);
}

static void place_release(struct place *place)
{
	place_stop(place);
	closep(&place->file);
	quota_give(&place->freed->quota, place->user, 1);
	*place = (struct place){ .freed = place->freed, .file = -1 };
}

/* What would be single-stepped costs ten times as much: then all is read. */
static int place_find(const struct place *place, uint64_t *ret_offset)
{
	uint8_t code[PROLOGUE_SIZE];
	ssize_t n = pread(place->file, code, sizeof(code), (off_t)place->offset);
	uint64_t skip;

	if (n <= 0)
		return -EBADMSG;
	if (site_cost(code, (size_t)n, &skip) == SITE_SINGLE_STEP)
		return -EOPNOTSUPP;
	*ret_offset = place->offset + skip;
	return 0;
}

static void on_link(struct linking *linking)
{
	struct place *place = list_item(linking, struct place, linking);
	uint64_t offset;

	place->error = place_find(place, &offset);
	if (place->error == 0)
		place->error = probe_freed_new(place->freed->probe, place->file, offset, place->pid,
					       number_of(place), &place->stub);
}

static void place_start(struct place *place, uint64_t now_ns)
{
	place->looked_ns = now_ns;
	place->since_ns = 0;
	place->count = place->told = count_now(place);
	__atomic_store_n(&shared(place)->owner,
			 PROBE_FREED_OWNER(place->pid, ++place->freed->links), __ATOMIC_SEQ_CST);
}

static void on_linked(struct linking *linking)
{
	struct place *place = list_item(linking, struct place, linking);
	uint64_t now_ns = uv_hrtime();

	place->busy = false;
	if (place->forgotten) {
		place_release(place);
	} else if (place->error == 0) {
		place_start(place, now_ns);
	} else if (place->error == -EBUSY) {
		place->retry_ns = now_ns + (uint64_t)HELD_NS;
	} else {
		log_debug("Code objects of process %u are not counted: %s", place->pid,
			  strerror(-place->error));
		place_release(place);
	}
}

static void place_link(struct place *place)
{
	place->busy = linker_add(place->freed->linker, &place->linking, on_link, on_linked) == 0;
	if (!place->busy)
		place_release(place);
}

int freed_new(struct probe *probe, struct linker *linker, struct remover *remover,
	      freed_counted *counted, void *data, struct freed **ret)
{
	struct freed *freed = calloc(1, sizeof(*freed));
	struct probe_stats stats;

	if (!freed)
		return -ENOMEM;
	probe_stats(probe, &stats, NULL, 0);
	freed->probe = probe;
	freed->linker = linker;
	freed->remover = remover;
	freed->counted = counted;
	freed->data = data;
	freed->works = stats.single && !getenv("TRACESMITH_READ_CODES"); /* in tests */
	freed->quota.total = PROBE_FREED_MAX;
	for (uint32_t i = 0; i < PROBE_FREED_MAX; i++)
		freed->place[i] = (struct place){ .freed = freed, .file = -1 };
	*ret = freed;
	return 0;
}

static void place_forget(struct place *place)
{
	place->forgotten = true;
	if (!place->busy)
		place_release(place);
}

void freed_close(struct freed *freed)
{
	freed->closing = true;
	for (uint32_t i = 0; i < PROBE_FREED_MAX; i++)
		if (freed->place[i].pid)
			place_forget(&freed->place[i]);
}

struct freed *freed_free(struct freed *freed)
{
	if (freed)
		quota_release(&freed->quota);
	free(freed);
	return NULL;
}

void freed_forget(struct freed *freed, uint32_t pid)
{
	for (uint32_t i = 0; freed && i < PROBE_FREED_MAX; i++)
		if (freed->place[i].pid == pid)
			place_forget(&freed->place[i]);
}

/* NULL: its user has a full share. */
static struct place *place_take(struct freed *freed, uint32_t user)
{
	if (!freed->works || freed->closing || !quota_take(&freed->quota, user, 1))
		return NULL;
	for (uint32_t i = 0; i < PROBE_FREED_MAX; i++)
		if (!freed->place[i].pid)
			return &freed->place[i];
	quota_give(&freed->quota, user, 1);
	return NULL;
}

uint16_t freed_add(struct freed *freed, uint32_t pid, uint32_t user, int file, uint64_t offset)
{
	struct place *place;

	freed_forget(freed, pid);
	place = place_take(freed, user);
	if (!place) {
		closep(&file);
		return 0;
	}
	place->pid = pid;
	place->user = user;
	place->file = file;
	place->offset = offset;
	place_link(place);
	return place->pid ? (uint16_t)(number_of(place) + 1) : 0;
}

/* Longer each time, unless it was counted for as long. */
static void place_pause(struct place *place, uint64_t now_ns)
{
	uint64_t pause_ns = 2 * place->pause_ns;

	if (!pause_ns || now_ns - place->since_ns > place->pause_ns)
		pause_ns = LIMIT_PYTHON_UNCOUNTED_MIN_NS;
	if (pause_ns > LIMIT_PYTHON_UNCOUNTED_MAX_NS)
		pause_ns = LIMIT_PYTHON_UNCOUNTED_MAX_NS;
	place->freed->paused++;
	place_stop(place);
	place->pause_ns = pause_ns;
	place->retry_ns = now_ns + pause_ns;
}

/* A process that compiles and forgets code all the time is better off with reads. */
static void place_look(struct place *place, uint64_t now_ns)
{
	uint64_t count = count_now(place), passed_ns = now_ns - place->looked_ns;
	uint64_t most = LIMIT_PYTHON_FREED_PER_S * (passed_ns / (uint64_t)NS_PER_S + 1);

	if (!place->since_ns)
		place->since_ns = now_ns;
	place->freed->counted(place->freed->data, place->pid, (uint32_t)(count - place->told));
	place->told = count;
	if (count - place->count > most) {
		place_pause(place, now_ns);
	} else if (passed_ns >= (uint64_t)NS_PER_S) {
		place->looked_ns = now_ns;
		place->count = count;
	}
}

void freed_tick(struct freed *freed, uint64_t now_ns)
{
	for (uint32_t i = 0; freed->quota.used && i < PROBE_FREED_MAX; i++) {
		struct place *place = &freed->place[i];

		if (!place->pid || place->busy)
			continue;
		if (place->stub)
			place_look(place, now_ns);
		else if (now_ns >= place->retry_ns)
			place_link(place);
	}
}

void freed_stats(const struct freed *freed, struct freed_stats *ret)
{
	*ret = (struct freed_stats){ .paused = freed->paused };
	for (uint32_t i = 0; i < PROBE_FREED_MAX; i++)
		ret->counted += !freed->place[i].busy && freed->place[i].stub;
}
