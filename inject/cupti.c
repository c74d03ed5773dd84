/* Cupti: whether we record, and if not, why.
 *
 * Everything is decided on our own thread, in its ticks, with one exception: for another user of
 * CUPTI we make room on that user's thread (step_aside). The lock of yield.c separates the two; no
 * CUPTI callback ever takes it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/budget.h"
#include "inject/buffer.h"
#include "inject/collect.h"
#include "inject/cupti_call.h"
#include "inject/cupti_driver.h"
#include "inject/cupti_find.h"
#include "inject/cycles.h"
#include "inject/drain.h"
#include "inject/internal.h"
#include "inject/launcher.h"
#include "inject/name.h"
#include "inject/queue.h"
#include "inject/room.h"
#include "inject/settle.h"
#include "inject/stamp.h"
#include "inject/yield.h"

#define FLUSH_MS_DEFAULT 250
#define POLL_NS		 200000ull /* for the program's cuInit to finish */
#define POLL_LIMIT_NS	 (80 * NS_PER_MS)
#define ASIDE_NS	 (300 * NS_PER_MS) /* time to take in records, on the other user's thread */
#define SUSPEND_NS	 (50 * NS_PER_MS)
#define STOP_NS		 (400 * NS_PER_MS)
#define AGAIN_NS	 (1000 * NS_PER_MS) /* how often to ask whether CUPTI is free */
#define CLOSE_AHEAD_NS	 (100 * NS_PER_MS)  /* a window is closed no later than this */

/* OUT: CUPTI is taken out, or switched off, until the next window. */
enum state { NONE, WAITING, COLLECTING, PAUSED, OUT, FAILED };

static struct {
	enum state state;
	struct ts_settings settings;
	struct cupti cupti; /* once found */
	bool before_init;   /* we were loaded before the program had initialized the driver */
	bool began;	    /* STARTED was sent in this session */
	bool devices_told;
	bool touched; /* CUPTI may hold addresses of ours */
	bool forked;
	bool tell_paused;
	bool windowed;		 /* the daemon keeps the budget, by windows */
	bool stays;		 /* CUPTI could not be taken out */
	bool rests;		 /* the last window left it in, switched off */
	char why[TS_HELLO_TEXT]; /* of the pause, for the user */
	uint32_t left_out;
	uint64_t flushed_ns, again_ns;
} self;

static void sleep_ns(uint64_t ns)
{
	struct timespec pause = { .tv_nsec = (long)ns };

	nanosleep(&pause, NULL);
}

static void set_settings(const struct ts_settings *settings)
{
	self.settings = *settings;
	if (!self.settings.records)
		self.settings.records = TS_RECORDS_DEFAULT;
	if (!self.settings.flush_ms)
		self.settings.flush_ms = FLUSH_MS_DEFAULT;
}

static void fail(const char *why)
{
	self.state = FAILED;
	link_tell(TS_LIBRARY_FAILED, false, why);
}

static void fail_begin(int result)
{
	char why[TS_HELLO_TEXT];

	switch (result) {
	case CUPTI_NO_PRIVILEGE:
	case CUPTI_VIRTUAL_NO_PRIVILEGE:
		fail("the driver lets only root profile: load its module with "
		     "NVreg_RestrictProfilingToAdminUsers=0, or run the program as root");
		break;
	default:
		snprintf(why, sizeof(why),
			 "CUPTI (%.128s) refuses to record kernels: error %d; check that its "
			 "version matches the driver's",
			 self.cupti.path, result);
		fail(why);
	}
}

static void pause_because(const char *why)
{
	self.state = PAUSED;
	self.again_ns = clock_ns(CLOCK_MONOTONIC) + AGAIN_NS;
	snprintf(self.why, sizeof(self.why), "%s", why);
	self.tell_paused = true;
}

static void pause_for(const char *who)
{
	char why[TS_HELLO_TEXT];

	snprintf(why, sizeof(why), "%.128s uses CUPTI; recording starts when it stops", who);
	pause_because(why);
}

/* With the lock held. */
static bool is_ours(void)
{
	return !self.stays && call_is_subscribed() && !yield_is_used();
}

/* With the lock held: whether CUPTI can be taken out while the program runs. */
static bool can_leave(void)
{
	return self.cupti.version >= CUPTI_VERSION_12_6 && self.cupti.finalize && is_ours() &&
	       !drain_saw_graphs() && cycles_are_left();
}

/* With the lock held: whether it can be switched off instead. */
static bool can_rest(void)
{
	return is_ours() && !(drain_saw_graphs() && collect_has_whole_graphs());
}

/* What CUPTI costs while it is switched off is paid by each call, and graphs save calls. */
static bool can_pause(void)
{
	return can_leave() || (can_rest() && (drain_saw_graphs() || !cycles_are_left()));
}

static void tell(uint32_t state)
{
	const struct ts_collect collect = {
		.state = state,
		.left_out = state == TS_COLLECT_CHANGED ? self.left_out : 0,
		.budget_ppm = self.settings.budget_ppm,
		.windows = can_pause() ? TS_WINDOWS_OUT : TS_WINDOWS_NONE,
		.cycles = cycles_count(),
		.missed_since_ns = state == TS_COLLECT_STARTED ? settle_missed_since_ns() : 0,
	};

	collect_tell(&collect, clock_ns(CLOCK_MONOTONIC), 0);
}

/* When the change happened: a call in between may or may not have its records. */
static void tell_end(uint32_t state, uint64_t since_ns, uint64_t until_ns)
{
	const struct ts_collect collect = {
		.state = state,
		.budget_ppm = self.settings.budget_ppm,
		.windows = state != TS_COLLECT_CLOSED || self.stays ? TS_WINDOWS_NONE
			   : self.rests				    ? TS_WINDOWS_REST
								    : TS_WINDOWS_OUT,
		.cycles = cycles_count(),
	};

	collect_tell(&collect, since_ns, until_ns);
}

/* Without windows, kinds of records are left out. With the lock held. */
static void keep_budget(void)
{
	self.left_out = 0;
	budget_set(clock_ns(CLOCK_MONOTONIC),
		   self.windowed && can_pause() ? 0 : self.settings.budget_ppm,
		   self.settings.records);
}

static void tell_devices(void)
{
	if (self.devices_told || driver_look() != DRIVER_READY)
		return;
	driver_tell(&self.cupti);
	self.devices_told = true;
}

/* With the lock held: another user keeps the subscription, whether it records or not. */
static void pause_for_first(void)
{
	if (yield_registers_anew())
		pause_for("another profiler that started first");
	else
		pause_because("another profiler that started first keeps CUPTI, even when it is "
			      "idle; to record, end its session, or start the program with "
			      "'tsctl run' next time");
}

/* With the lock held. */
static void begin(void)
{
	bool whole_graphs = self.before_init && !self.began && !driver_has_context();
	int r;

	yield_take();
	buffer_set(self.settings.buffer_bytes, self.cupti.version >= CUPTI_VERSION_12_9);
	r = call_subscribe(&self.cupti);
	/* While the other user is idle, its buffer callbacks may be replaced by ours. */
	if (r == CUPTI_OTHER_SUBSCRIBER && yield_registers_anew() && !collect_others(&self.cupti))
		r = CUPTI_OK;
	if (r == CUPTI_OK) {
		self.touched = true;
		r = collect_begin(&self.cupti, self.settings.records, whole_graphs);
	}
	if (r != CUPTI_OK) {
		yield_give();
		if (r != CUPTI_OTHER_SUBSCRIBER)
			fail_begin(r);
		else if (self.state != PAUSED)
			pause_for_first();
		self.again_ns = clock_ns(CLOCK_MONOTONIC) + AGAIN_NS;
		return;
	}
	self.state = COLLECTING;
	keep_budget();
	tell(self.began ? TS_COLLECT_RESUMED : TS_COLLECT_STARTED);
	self.began = true;
	self.devices_told = false;
	tell_devices();
	link_tell(TS_LIBRARY_COLLECTING, false, self.cupti.path);
}

/* With the lock held: leaves CUPTI as if we had never been there. */
static void end(uint64_t limit_ns)
{
	if (!collect_end(limit_ns))
		debug_say("CUPTI still holds buffers");
	call_unsubscribe(&self.cupti);
	yield_give();
}

/* On the thread of another user of CUPTI, or before there is one; with the lock held. */
static void step_aside(const char *who)
{
	uint64_t since_ns;

	if (self.state != COLLECTING) {
		yield_give();
		return;
	}
	since_ns = clock_ns(CLOCK_MONOTONIC);
	end(ASIDE_NS);
	tell_end(TS_COLLECT_PAUSED, since_ns, collect_off_ns());
	pause_for(who);
}

/* With the lock held. */
static void fail_clock(void)
{
	uint64_t since_ns = clock_ns(CLOCK_MONOTONIC);
	char why[TS_HELLO_TEXT];

	end(ASIDE_NS);
	tell_end(TS_COLLECT_STOPPED, since_ns, collect_off_ns());
	snprintf(why, sizeof(why),
		 "CUPTI (%.96s) stamps its records with neither CLOCK_MONOTONIC nor the wall "
		 "clock, so kernels cannot be timed; use the CUPTI of CUDA %u",
		 self.cupti.path, cuda_major(driver_version()));
	fail(why);
}

static bool find(void)
{
	char why[TS_HELLO_TEXT] = "";

	if (self.cupti.handle)
		return true;
	if (!cupti_find(cuda_major(driver_version()), &self.cupti, why, sizeof(why)))
		return true;
	memset(&self.cupti, 0, sizeof(self.cupti));
	fail(why);
	return false;
}

/* The program's first kernels come soon after its cuInit, so poll quickly for a while. */
static bool wait_for_driver(void)
{
	enum driver_state enough = driver_loaded_us() ? DRIVER_STARTING : DRIVER_READY, driver;
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + POLL_LIMIT_NS;

	while ((driver = driver_look()) < enough) {
		self.before_init = true;
		if (clock_ns(CLOCK_MONOTONIC) >= until_ns)
			return false;
		sleep_ns(POLL_NS);
	}
	self.before_init = self.before_init || driver != DRIVER_READY;
	return true;
}

/* A driver that cannot be asked will never be ready. */
static bool driver_fits(void)
{
	char why[TS_HELLO_TEXT], path[96];

	if (driver_is_known(path, sizeof(path)))
		return true;
	snprintf(why, sizeof(why),
		 "its driver library (%s) has no cuDeviceGetCount and cannot work with CUPTI; "
		 "check which libcuda.so.1 the process loads",
		 path);
	fail(why);
	return false;
}

static bool has_room(void)
{
	char why[TS_HELLO_TEXT];

	if (room_is_there(why, sizeof(why)))
		return true;
	fail(why);
	return false;
}

static void try_begin(void)
{
	if (!driver_fits() || !wait_for_driver() || !has_room() || !find())
		return;
	yield_watch(&self.cupti, step_aside);
	if (!yield_lock())
		return;
	if (yield_is_free(clock_ns(CLOCK_MONOTONIC)))
		begin();
	else
		pause_for("another profiler");
	yield_unlock();
}

void cupti_start(const struct ts_settings *settings)
{
	if (self.forked || self.state == COLLECTING)
		return;
	set_settings(settings);
	name_reset();
	self.state = WAITING;
	driver_tell_again();
	self.began = self.before_init = self.windowed = self.stays = self.rests = false;
	cycles_begin(settings->cycles);
	try_begin();
}

void cupti_settings(const struct ts_settings *settings)
{
	bool is_on = self.state == COLLECTING || self.state == PAUSED;

	if (self.forked || self.state == NONE || !yield_lock())
		return;
	set_settings(settings);
	if (is_on)
		buffer_set(self.settings.buffer_bytes, self.cupti.version >= CUPTI_VERSION_12_9);
	if (self.state == COLLECTING) {
		keep_budget();
		collect_change(self.settings.records);
		tell(TS_COLLECT_CHANGED);
	}
	yield_unlock();
}

/* With the lock held. */
static void tick_collecting(void)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	uint32_t left_out = budget_tick(now_ns);

	if (stamp_is_foreign()) {
		fail_clock();
		return;
	}
	queue_take_all();
	drain_spent(clock_ns(CLOCK_MONOTONIC) - now_ns);
	tell_devices();
	/* Work running at the last change has had a tick to end. */
	if (collect_is_stale())
		drain_flush(true);
	if (left_out != self.left_out) {
		self.left_out = left_out;
		collect_change(self.settings.records & ~left_out);
		tell(TS_COLLECT_CHANGED);
	}
	/* At the nearest tick, so that it is never late by almost a whole tick. */
	if (now_ns - self.flushed_ns + CUPTI_TICK_MS * NS_PER_MS / 2 >=
	    self.settings.flush_ms * NS_PER_MS) {
		self.flushed_ns = now_ns;
		drain_flush(false);
	}
	buffer_tend();
	link_wake();
}

/* With the lock held. */
static void tick_paused(void)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (self.tell_paused) {
		link_tell(TS_LIBRARY_PAUSED, false, self.why);
		self.tell_paused = false;
	}
	if (yield_is_free(now_ns) && now_ns >= self.again_ns)
		begin();
}

void cupti_tick(void)
{
	if (self.forked || self.state == NONE || self.state == FAILED)
		return;
	if (self.state == WAITING) {
		try_begin();
		return;
	}
	cupti_modules();
	yield_watch(&self.cupti, step_aside);
	if (!yield_lock())
		return;
	if (self.state == COLLECTING)
		tick_collecting();
	else if (self.state == PAUSED)
		tick_paused();
	else if (self.state == OUT)
		budget_tick(clock_ns(CLOCK_MONOTONIC));
	yield_unlock();
}

void cupti_modules(void)
{
	char who[TS_HELLO_TEXT / 2];

	if (self.forked || self.state != COLLECTING ||
	    !yield_expects(&self.cupti, who, sizeof(who)) || !yield_lock())
		return;
	yield_expect(clock_ns(CLOCK_MONOTONIC));
	step_aside(who);
	yield_unlock();
}

void cupti_suspend(void)
{
	if (self.forked || !yield_lock())
		return;
	if (self.state == COLLECTING)
		end(SUSPEND_NS);
	self.state = NONE;
	yield_unlock();
}

/* With the lock held. */
static void window_close(bool rest)
{
	uint64_t since_ns = clock_ns(CLOCK_MONOTONIC);
	bool out;
	char why[TS_HELLO_TEXT];

	self.rests = can_rest() && (rest || !can_leave());
	collect_end(STOP_NS);
	out = !self.rests && cycles_take_out(&self.cupti, why, sizeof(why));
	self.stays = !self.rests && !out;
	if (out)
		self.touched = false;
	else
		call_unsubscribe(&self.cupti);
	yield_give();
	self.state = OUT;
	tell_end(TS_COLLECT_CLOSED, since_ns, collect_off_ns());
	if (!self.stays)
		return;
	debug_say("no windows: %s", why);
	begin();
}

static void window_open(void)
{
	if (yield_is_free(clock_ns(CLOCK_MONOTONIC)))
		begin();
	else
		pause_for("another profiler");
}

static void wait_until(uint64_t at_ns)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (at_ns > now_ns && at_ns - now_ns <= (uint64_t)CLOSE_AHEAD_NS)
		sleep_ns(at_ns - now_ns);
}

void cupti_window(const struct ts_window *window)
{
	bool first = !self.windowed, open = window->how == TS_WINDOW_OPEN;

	if (self.forked || self.state == NONE || self.state == FAILED)
		return;
	if (!open)
		wait_until(window->at_ns);
	if (!yield_lock())
		return;
	self.windowed = true;
	if (self.state == OUT && open) {
		window_open();
	} else if (self.state == COLLECTING && !open && can_pause()) {
		window_close(window->how == TS_WINDOW_REST);
	} else if (self.state == COLLECTING && (first || !open)) {
		keep_budget();
		collect_change(self.settings.records);
		tell(TS_COLLECT_CHANGED);
	}
	yield_unlock();
}

bool cupti_stop(char *why, size_t size)
{
	uint64_t since_ns = clock_ns(CLOCK_MONOTONIC), off_ns = since_ns;
	bool out = true;

	if (size)
		*why = '\0';
	if (self.forked || !yield_lock())
		return false;
	if (self.state == COLLECTING) {
		collect_end(STOP_NS);
		off_ns = collect_off_ns();
	}
	if (self.touched)
		out = cycles_take_out(&self.cupti, why, size);
	if (self.state == COLLECTING || self.state == OUT)
		tell_end(TS_COLLECT_STOPPED, since_ns, off_ns);
	if (!out) {
		call_unsubscribe(&self.cupti);
		yield_give();
	}
	self.state = NONE;
	yield_unlock();
	if (!call_wait() && out) {
		snprintf(why, size, "a thread is still inside a callback");
		out = false;
	}
	/* After meeting another user we keep watching, to know its state next time. */
	if (out && !yield_unwatch()) {
		snprintf(why, size, "a thread of another profiler is still inside the library");
		out = false;
	}
	buffer_release();
	driver_close();
	if (out)
		self.touched = false;
	return out;
}

void cupti_at_exit(void)
{
	uint64_t since_ns = clock_ns(CLOCK_MONOTONIC);

	if (self.forked || self.state != COLLECTING)
		return;
	queue_end();
	drain_flush(false);
	drain_flush(true);
	tell_end(TS_COLLECT_STOPPED, since_ns, clock_ns(CLOCK_MONOTONIC));
}

void cupti_forked(void)
{
	self.forked = true;
	self.state = NONE;
	drain_use(NULL);
	collect_forget();
	call_forget();
	launcher_forget_all();
	driver_forget();
	yield_forked();
}
