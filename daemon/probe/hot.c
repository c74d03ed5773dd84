/* Hot: the links to a library's hot functions, and the members that they are for. */
#include "daemon/probe/hot.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/probe/probe.h"
#include "daemon/probe/remover.h"

#define WHOLE_AGAIN_NS (10 * NS_PER_S)

/* A link on its way out. Both who waits for it and who closes it hold it. */
struct closing {
	atomic_int holders;
	atomic_bool done;
	int fd;
};

struct member {
	struct list link;
	uint32_t pid;
	enum hot_want want;
	int fd; /* -1: no link of its own */
	bool failed;
	uint64_t late_ns; /* when it came, until its first link; 0: that was there */
	struct closing *closing;
};

struct hot_link {
	uint32_t pid; /* 0: all */
	int fd;
};

struct hot_work {
	uv_work_t work;
	struct hot *hot;
	uint32_t count;
	struct hot_link link[];
};

static void hot_reconcile(struct hot *hot);

static struct closing *closing_unref(struct closing *closing)
{
	if (closing && atomic_fetch_sub(&closing->holders, 1) == 1)
		free(closing);
	return NULL;
}

static void closing_run(void *data)
{
	struct closing *closing = data;

	close(closing->fd);
	atomic_store(&closing->done, true);
	closing_unref(closing);
}

/* The caller waits for it, and lets go of it. NULL: it is closed. */
static struct closing *hot_close(struct hot *hot, int fd)
{
	struct closing *closing = calloc(1, sizeof(*closing));

	if (!closing) {
		close(fd);
		return NULL;
	}
	closing->holders = 2;
	closing->fd = fd;
	remover_add(hot->remover, closing_run, closing);
	return closing;
}

static struct member *member_find(const struct hot *hot, uint32_t pid)
{
	struct member *member;

	list_for_each(member, &hot->members, link)
		if (member->pid == pid)
			return member;
	return NULL;
}

static void member_close(struct hot *hot, struct member *member)
{
	if (member->fd < 0)
		return;
	closing_unref(member->closing);
	member->closing = hot_close(hot, member->fd);
	member->fd = -1;
}

static void member_free(struct hot *hot, struct member *member)
{
	member_close(hot, member);
	closing_unref(member->closing);
	list_remove(&member->link);
	free(member);
}

void hot_init(struct hot *hot, uv_loop_t *loop, struct remover *remover, int fd,
	      const struct hot_callbacks *callbacks)
{
	*hot = (struct hot){ .loop = loop, .remover = remover, .fd = fd, .callbacks = callbacks };
	list_init(&hot->members);
}

void hot_release(struct hot *hot)
{
	struct member *member;

	list_for_each(member, &hot->members, link)
		member_free(hot, member);
}

void hot_start(struct hot *hot, struct probe_library *library)
{
	hot->library = library;
	hot_reconcile(hot);
}

static void on_link(uv_work_t *req)
{
	struct hot_work *work = req->data;

	for (uint32_t i = 0; i < work->count; i++)
		work->link[i].fd =
			probe_hot_link(work->hot->library, work->hot->fd, work->link[i].pid);
}

static void hot_go_single(struct hot *hot)
{
	int old = probe_hot_exchange(hot->library, -1);

	hot->single = true;
	if (old >= 0)
		closing_unref(hot_close(hot, old));
}

static void hot_go_wide(struct hot *hot, int fd)
{
	struct member *member;

	if (fd < 0)
		return;
	probe_hot_exchange(hot->library, fd);
	hot->single = false;
	list_for_each(member, &hot->members, link)
		member_close(hot, member);
}

static void hot_linked(struct hot *hot, const struct hot_link *link)
{
	struct member *member = member_find(hot, link->pid);

	if (!member) {
		if (link->fd >= 0)
			closing_unref(hot_close(hot, link->fd));
		return;
	}
	/* A process that has just ended is still a member for a moment. */
	member->failed = link->fd < 0;
	if (member->failed && link->fd != -ESRCH)
		log_warning_errno(link->fd, "Failed to watch the hot calls of process %u",
				  link->pid);
	if (member->failed)
		return;
	member->fd = link->fd;
	if (member->late_ns)
		hot->callbacks->late(hot, member->pid, member->late_ns);
	member->late_ns = 0;
}

static void on_linked(uv_work_t *req, int status)
{
	_cleanup_(freep) struct hot_work *work = req->data;
	struct hot *hot = work->hot;

	hot->busy = false;
	if (work->count && !work->link[0].pid) {
		hot_go_wide(hot, work->link[0].fd);
	} else {
		for (uint32_t i = 0; i < work->count; i++)
			hot_linked(hot, &work->link[i]);
		if (!hot->single)
			hot_go_single(hot);
	}
	hot_reconcile(hot);
	if (!hot->busy)
		hot->callbacks->idle(hot);
}

static void hot_queue(struct hot *hot, struct hot_work *work)
{
	work->work.data = work;
	work->hot = hot;
	hot->busy = uv_queue_work(hot->loop, &work->work, on_link, on_linked) == 0;
	if (!hot->busy)
		free(work);
}

static bool member_wants_link(const struct member *member)
{
	return member->want != HOT_CLOSED && member->fd < 0 && !member->failed &&
	       (!member->closing || atomic_load(&member->closing->done));
}

static struct hot_work *hot_plan_links(const struct hot *hot)
{
	struct member *member;
	struct hot_work *work;
	uint32_t count = 0;

	list_for_each(member, &hot->members, link)
		count += member_wants_link(member);
	work = calloc(1, sizeof(*work) + count * sizeof(work->link[0]));
	if (!work)
		return NULL;
	list_for_each(member, &hot->members, link)
		if (member_wants_link(member))
			work->link[work->count++].pid = member->pid;
	return work;
}

static bool hot_all_whole(const struct hot *hot)
{
	struct member *member;

	list_for_each(member, &hot->members, link)
		if (member->want != HOT_WHOLE)
			return false;
	return true;
}

static bool hot_any_closed(const struct hot *hot)
{
	struct member *member;

	list_for_each(member, &hot->members, link)
		if (member->want == HOT_CLOSED)
			return true;
	return false;
}

/* Does the next thing that brings the links nearer to what is wanted. */
static void hot_reconcile(struct hot *hot)
{
	struct member *member;
	struct hot_work *work;

	if (!hot->library || hot->busy || (!hot->single && !hot_any_closed(hot)))
		return;
	if (hot->single)
		list_for_each(member, &hot->members, link)
			if (member->want == HOT_CLOSED)
				member_close(hot, member);
	work = hot_plan_links(hot);
	if (!work)
		return;
	if (hot->single && !work->count) {
		free(work);
		return;
	}
	hot_queue(hot, work);
}

int hot_add(struct hot *hot, uint32_t pid)
{
	struct member *member = member_find(hot, pid);

	if (member) {
		member->failed = false;
		return 0;
	}
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	member->pid = pid;
	member->fd = -1;
	member->late_ns = hot->single ? uv_hrtime() : 0;
	list_append(&hot->members, &member->link);
	hot_reconcile(hot);
	return 0;
}

void hot_remove(struct hot *hot, uint32_t pid)
{
	struct member *member = member_find(hot, pid);

	if (member)
		member_free(hot, member);
}

bool hot_has(const struct hot *hot, uint32_t pid)
{
	return member_find(hot, pid);
}

void hot_watch(struct hot *hot, uint32_t pid, enum hot_want want)
{
	struct member *member = member_find(hot, pid);

	if (!member || member->want == want)
		return;
	member->want = want;
	hot_reconcile(hot);
}

enum hot_state hot_state(const struct hot *hot, uint32_t pid)
{
	const struct member *member = member_find(hot, pid);

	if (!hot->single)
		return HOT_IS_OPEN;
	if (!member)
		return HOT_IS_CLOSED;
	if (member->fd >= 0)
		return HOT_IS_OPEN;
	if (member->closing && !atomic_load(&member->closing->done))
		return HOT_IS_CHANGING;
	return member->want == HOT_CLOSED || member->failed ? HOT_IS_CLOSED : HOT_IS_CHANGING;
}

void hot_tick(struct hot *hot, uint64_t now_ns)
{
	struct hot_work *work;

	/* What waited for a link to close. */
	hot_reconcile(hot);
	if (!hot->single || hot->busy || !hot_all_whole(hot)) {
		hot->whole_ns = 0;
		return;
	}
	if (!hot->whole_ns)
		hot->whole_ns = now_ns;
	if (now_ns - hot->whole_ns < (uint64_t)WHOLE_AGAIN_NS)
		return;
	hot->whole_ns = 0;
	work = calloc(1, sizeof(*work) + sizeof(work->link[0]));
	if (!work)
		return;
	work->count = 1;
	hot_queue(hot, work);
}
