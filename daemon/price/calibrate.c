/* Calibrate: a child that calls a function with our probe on it, and one without, in turns.
 *
 * The child is a copy of a process with threads, so it does nothing but system calls and
 * arithmetic, in memory that was there before. It has none of our files, cannot outlive us, and its
 * events come under a number of their own and no process. */
#include "daemon/price/calibrate.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/helper/own.h"
#include "daemon/helper/spawn.h"

#define CHILD_NAME  "calibrate"
#define HOT_ROUNDS  24
#define HOT_CALLS   64
#define HOT_REST    (5 * NS_PER_MS) /* for the ring to be read */
#define COLD_PAIRS  15
#define EVICT_BYTES (64 << 20) /* most of the caches that cores share, and all of their own */
#define LINE_BYTES  64
#define LEAST_NS    50 /* a hit costs more */
_Static_assert(COLD_PAIRS <= HOT_ROUNDS, "room for the differences of either");
#define WAIT_MS 10000 /* on a host that is very busy */

/* Both begin as the driver's functions do. */
__asm__(".pushsection .text\n"
	".balign 64\n"
	".globl calibrate_plain\n.hidden calibrate_plain\n.type calibrate_plain, @function\n"
	"calibrate_plain:\n"
	"push %rbp\nmov %rsp, %rbp\npop %rbp\nret\n"
	".size calibrate_plain, .-calibrate_plain\n"
	".balign 64\n"
	".globl calibrate_probed\n.hidden calibrate_probed\n.type calibrate_probed, @function\n"
	"calibrate_probed:\n"
	"push %rbp\nmov %rsp, %rbp\npop %rbp\nret\n"
	".size calibrate_probed, .-calibrate_probed\n"
	".popsection\n");

/* With the arguments of cuLaunchKernel. */
typedef void calibrate_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			  uint64_t, uint64_t, uint64_t, uint64_t);
calibrate_fn calibrate_plain, calibrate_probed;

/* Written by the child. Nanoseconds. */
struct samples {
	atomic_bool stop;
	uint32_t hot[2][HOT_ROUNDS]; /* of HOT_CALLS: plain, probed */
	uint32_t cold[2][COLD_PAIRS];
};

struct calibrate {
	uv_work_t work;
	struct probe *probe;
	struct remover *remover;
	void (*done)(void *data);
	void *data;
	bool busy;
	struct samples *samples;
	atomic_uint pid;
	atomic_ullong ended_ns; /* its last event is older; 0: it runs */
	struct calibration result;
	char why[128];
};

static uint32_t child_call(calibrate_fn *call, uint32_t calls)
{
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);

	for (uint32_t i = 0; i < calls; i++)
		call(i, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
	return (uint32_t)(clock_ns(CLOCK_MONOTONIC) - start_ns);
}

static void child_measure_hot(struct samples *samples)
{
	const struct timespec rest = timespec_of(HOT_REST);

	for (uint32_t i = 0; i < HOT_ROUNDS && !samples->stop; i++) {
		nanosleep(&rest, NULL);
		child_call(calibrate_plain, HOT_CALLS);
		samples->hot[0][i] = child_call(calibrate_plain, HOT_CALLS);
		samples->hot[1][i] = child_call(calibrate_probed, HOT_CALLS);
	}
}

static void child_evict(volatile uint64_t *memory)
{
	for (size_t i = 0; i < EVICT_BYTES / sizeof(*memory); i += LINE_BYTES / sizeof(*memory))
		memory[i]++;
}

static void child_measure_cold(struct samples *samples, uint64_t *memory)
{
	for (uint32_t i = 0; i < COLD_PAIRS && !samples->stop; i++) {
		child_evict(memory);
		samples->cold[0][i] = child_call(calibrate_plain, 1);
		child_evict(memory);
		samples->cold[1][i] = child_call(calibrate_probed, 1);
	}
}

static _Noreturn void child_run(struct samples *samples, int fd)
{
	uint64_t *memory;
	char go;

	/* A parent that is gone by now has closed its end. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, CHILD_NAME);
	spawn_keep(&fd, 1);
	memory =
		mmap(NULL, EVICT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || read(fd, &go, 1) != 1)
		_exit(EXIT_FAILURE);
	child_measure_hot(samples);
	child_measure_cold(samples, memory);
	_exit(EXIT_SUCCESS);
}

/* The child inherits our signal handlers, which belong to the loop and must not run there. fork()
 * would hold the locks of malloc() until the kernel has made the child: a process that keeps the
 * host from forking would stop the whole daemon. */
static pid_t child_fork(struct samples *samples, int fd)
{
	sigset_t all, before;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		child_run(samples, fd);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

uint64_t calibrate_place(void)
{
	return own_offset((const void *)calibrate_probed);
}

__attribute__((format(printf, 2, 3))) static int calibrate_fail(struct calibrate *calibrate,
								const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(calibrate->why, sizeof(calibrate->why), format, arguments);
	va_end(arguments);
	return -EIO;
}

/* Until it closes its end, which it does when it ends. */
static int child_wait(struct calibrate *calibrate, int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLIN };
	int ready;

	if (write(fd, "", 1) != 1)
		return calibrate_fail(calibrate, "%s", strerror(errno));
	ready = poll(&end, 1, WAIT_MS);
	if (calibrate->samples->stop)
		return calibrate_fail(calibrate, "the daemon stopped");
	return ready > 0 ? 0 : calibrate_fail(calibrate, "it took too long");
}

static int child_probe(struct calibrate *calibrate, pid_t pid, int fd)
{
	struct probe_calibration *probes;
	int r = probe_calibrate(calibrate->probe, (uint32_t)pid, &probes);

	if (r < 0)
		return calibrate_fail(calibrate,
				      "the kernel refuses a probe on our own program: %s",
				      strerror(-r));
	r = child_wait(calibrate, fd);
	probe_calibration_end(probes, calibrate->remover);
	return r;
}

static int child_reap(struct calibrate *calibrate, pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
		return 0;
	return calibrate_fail(calibrate, "the child for it was killed (signal %d)",
			      WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static int calibrate_child(struct calibrate *calibrate)
{
	int pair[2], r, reaped;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return calibrate_fail(calibrate, "%s", strerror(errno));
	pid = child_fork(calibrate->samples, pair[1]);
	close(pair[1]);
	if (pid > 0) {
		atomic_store(&calibrate->pid, (unsigned int)pid);
		r = child_probe(calibrate, pid, pair[0]);
		if (r < 0)
			kill(pid, SIGKILL);
		reaped = child_reap(calibrate, pid);
		atomic_store(&calibrate->ended_ns, clock_ns(CLOCK_MONOTONIC));
		r = r < 0 ? r : reaped;
	} else {
		r = calibrate_fail(calibrate, "no child for it: %s", strerror(errno));
	}
	close(pair[0]);
	return r;
}

static int by_size(const void *a, const void *b)
{
	int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;

	return (left > right) - (left < right);
}

/* The middle of the differences, of one call. */
static int64_t middle(const uint32_t *plain, const uint32_t *probed, size_t count, uint32_t calls)
{
	int32_t difference[HOT_ROUNDS] = { 0 };

	for (size_t i = 0; i < count; i++)
		difference[i] = (int32_t)(probed[i] - plain[i]);
	qsort(difference, count, sizeof(difference[0]), by_size);
	return difference[count / 2] / (int32_t)calls;
}

static int calibrate_evaluate(struct calibrate *calibrate)
{
	const struct samples *samples = calibrate->samples;
	struct calibration *result = &calibrate->result;
	int64_t hot_ns = middle(samples->hot[0], samples->hot[1], HOT_ROUNDS, HOT_CALLS);
	int64_t cold_ns = middle(samples->cold[0], samples->cold[1], COLD_PAIRS, 1);

	if (hot_ns < LEAST_NS)
		return calibrate_fail(calibrate, "the probe was not hit");
	if (cold_ns < hot_ns)
		cold_ns = hot_ns;
	result->hot_ns = (uint64_t)hot_ns;
	result->cold_ns = (uint64_t)cold_ns;
	result->hit_ns = (uint64_t)sqrt((double)hot_ns * (double)cold_ns);
	return 0;
}

static void calibrate_run(uv_work_t *work)
{
	struct calibrate *calibrate = work->data;

	if (calibrate_child(calibrate) == 0)
		calibrate_evaluate(calibrate);
}

static void calibrate_over(uv_work_t *work, int status)
{
	struct calibrate *calibrate = work->data;
	struct calibration *result = &calibrate->result;

	calibrate->busy = false;
	if (calibrate->samples->stop)
		return;
	if (!result->hit_ns)
		log_warning("Not measured what a probe costs on this host: %s", calibrate->why);
	else
		log_debug("A probe's hit costs %lu ns on this host in a loop, %lu ns in use",
			  result->hot_ns, result->cold_ns);
	calibrate->done(calibrate->data);
}

int calibrate_start(uv_loop_t *loop, struct probe *probe, struct remover *remover,
		    void (*done)(void *data), void *data, struct calibrate **ret)
{
	struct calibrate *calibrate = calloc(1, sizeof(*calibrate));
	struct samples *samples;

	if (!calibrate)
		return -ENOMEM;
	samples = mmap(NULL, sizeof(*samples), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (samples == MAP_FAILED) {
		free(calibrate);
		return -ENOMEM;
	}
	calibrate->samples = samples;
	calibrate->probe = probe;
	calibrate->remover = remover;
	calibrate->done = done;
	calibrate->data = data;
	calibrate->work.data = calibrate;
	/* It fails only without a function to run. */
	calibrate->busy = uv_queue_work(loop, &calibrate->work, calibrate_run, calibrate_over) == 0;
	*ret = calibrate;
	return 0;
}

void calibrate_stop(struct calibrate *calibrate)
{
	if (calibrate)
		calibrate->samples->stop = true;
}

struct calibrate *calibrate_free(struct calibrate *calibrate)
{
	if (!calibrate)
		return NULL;
	munmap(calibrate->samples, sizeof(*calibrate->samples));
	free(calibrate);
	return NULL;
}

void calibrate_result(const struct calibrate *calibrate, struct calibration *ret)
{
	*ret = (struct calibration){ .busy = true };
	if (calibrate && !calibrate->busy) {
		*ret = calibrate->result;
		ret->why = ret->hit_ns ? NULL : calibrate->why;
	}
	if (!ret->hit_ns)
		ret->hit_ns = CALIBRATE_HIT_NS;
	if (!ret->hot_ns)
		ret->hot_ns = CALIBRATE_HOT_NS;
}

bool calibrate_owns(const struct calibrate *calibrate, const struct ts_event *event)
{
	uint64_t ended_ns;

	if (!calibrate || event->kind != TS_EVENT_API || event->tgid != calibrate->pid)
		return false;
	ended_ns = calibrate->ended_ns;
	return !ended_ns || event->start_ns < ended_ns;
}
