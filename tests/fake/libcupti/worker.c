/* Worker: CUPTI's own thread. It hands over full buffers, and what is left when everything was
 * disabled. Periodic flushes hand over full buffers only, as documented. */
#include "fake_cupti.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#define LATE_NS	  50000000 /* after a disable */
#define PERIOD_NS 20000000

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t id;
	bool running, stop;
	_Atomic bool kicked;
} worker = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void worker_wait(uint64_t until_ns)
{
	struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };

	pthread_mutex_lock(&worker.lock);
	if (!worker.stop && !atomic_load(&worker.kicked))
		pthread_cond_timedwait(&worker.wake, &worker.lock, &until);
	atomic_store(&worker.kicked, false);
	pthread_mutex_unlock(&worker.lock);
}

/* After a disable the rest comes by itself, late. */
static void worker_late(uint64_t *late_ns)
{
	bool late;

	pthread_mutex_lock(&cupti.lock);
	late = cupti.late_flush;
	cupti.late_flush = false;
	pthread_mutex_unlock(&cupti.lock);
	if (late)
		*late_ns = clock_ns() + LATE_NS;
	if (*late_ns && clock_ns() >= *late_ns) {
		*late_ns = 0;
		buffers_deliver(true, false, false);
	}
}

static bool worker_stopped(void)
{
	bool stop;

	pthread_mutex_lock(&worker.lock);
	stop = worker.stop;
	pthread_mutex_unlock(&worker.lock);
	return stop;
}

static void *worker_main(void *unused)
{
	uint64_t late_ns = 0, until;

	(void)unused;
	prctl(PR_SET_NAME, "fake-cupti");
	while (!worker_stopped()) {
		buffers_deliver(false, false, false);
		worker_late(&late_ns);
		until = clock_ns() + PERIOD_NS;
		if (buffers_next() < until)
			until = buffers_next();
		worker_wait(until);
	}
	return NULL;
}

void worker_start(void)
{
	pthread_condattr_t monotonic;
	sigset_t all, old;

	pthread_mutex_lock(&worker.lock);
	if (!worker.running) {
		pthread_condattr_init(&monotonic);
		pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
		pthread_cond_init(&worker.wake, &monotonic);
		pthread_condattr_destroy(&monotonic);
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		worker.stop = false;
		worker.running = pthread_create(&worker.id, NULL, worker_main, NULL) == 0;
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	pthread_mutex_unlock(&worker.lock);
}

void worker_stop(void)
{
	bool running;

	pthread_mutex_lock(&worker.lock);
	running = worker.running;
	worker.stop = true;
	if (running)
		pthread_cond_signal(&worker.wake);
	pthread_mutex_unlock(&worker.lock);
	if (!running)
		return;
	pthread_join(worker.id, NULL);
	pthread_mutex_lock(&worker.lock);
	worker.running = false;
	pthread_mutex_unlock(&worker.lock);
}

/* Cheap enough for the path of a record: the lock is taken once for many kicks. */
void worker_kick(void)
{
	if (atomic_exchange(&worker.kicked, true))
		return;
	pthread_mutex_lock(&worker.lock);
	if (worker.running)
		pthread_cond_signal(&worker.wake);
	pthread_mutex_unlock(&worker.lock);
}
