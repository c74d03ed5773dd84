/* Entry: the functions that others call: the driver, the injector, fork and exit. On their threads
 * we only start our own, wait briefly for it while the program is starting, or do what cannot wait;
 * errno is preserved. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/link.h"
#include "inject/settle.h"
#include "proto/paths.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int InitializeInjection(void);
EXPORT int tracesmith_attach(struct ts_attach *attach);

/* Whoever started a program with us wants its first kernel too, and the call that it came from.
 * Without a daemon the program continues at once, with one that does not answer after these times.
 * cuInit itself takes longer than CUPTI's 20 ms. */
#define SETTLE_MS  2000
#define WATCHED_MS 1000

static bool debug;

void debug_say(const char *format, ...)
{
	static const char prefix[] = "tracesmith: ";
	char line[512];
	int saved = errno, n;
	va_list ap;

	if (!__atomic_load_n(&debug, __ATOMIC_RELAXED))
		return;
	memcpy(line, prefix, sizeof(prefix));
	va_start(ap, format);
	n = vsnprintf(line + sizeof(prefix) - 1, sizeof(line) - sizeof(prefix), format, ap);
	va_end(ap);
	n = n < 0 ? 0 : (int)strlen(line);
	line[n] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n + 1) < 0)
		__atomic_store_n(&debug, false, __ATOMIC_RELAXED);
	errno = saved;
}

static const char not_watched[] =
	"tsctl run: calls of this program are not watched yet, after 1 s. It goes on: records of "
	"its first work will have no calls, and 'tsctl query loss' says until when\n";

/* Without a signal for whoever has a pipe that nobody reads any more, or is in the background. */
static bool write_quietly(const char *text)
{
	const struct timespec now = { 0 };
	sigset_t signals, pipe, before;
	ssize_t n;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	signals = pipe;
	sigaddset(&signals, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &signals, &before);
	n = syscall(SYS_write, STDERR_FILENO, text, strlen(text));
	if (n < 0 && errno == EPIPE && !sigismember(&before, SIGPIPE))
		syscall(SYS_rt_sigtimedwait, &pipe, NULL, &now, sizeof(uint64_t));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return n >= 0;
}

/* Tells the user, where tsctl's errors went to, if the program still has that there and it takes
 * it at once. No thread can be cancelled by it. */
static void entry_say(const char *text)
{
	const char *wanted = getenv(TS_ENV_STDERR);
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	const struct timespec now = { 0 };
	struct stat file;
	char name[48];

	if (!wanted || fstat(STDERR_FILENO, &file) < 0)
		return;
	snprintf(name, sizeof(name), TS_FILE_NAME, (uintmax_t)file.st_dev, (uintmax_t)file.st_ino);
	if (strcmp(name, wanted) == 0 && syscall(SYS_ppoll, &out, 1, &now, NULL, 0) == 1 &&
	    out.revents == POLLOUT && !write_quietly(text))
		debug_say("cannot tell the user");
}

/* A number from the environment; 0 if it is unset or not a number. */
static uint32_t entry_number(const char *name)
{
	const char *text = getenv(name);
	unsigned long number;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return 0;
	number = strtoul(text, &end, 10);
	return *end || number > UINT32_MAX ? 0 : (uint32_t)number;
}

int InitializeInjection(void)
{
	int saved = errno, r;
	const struct ts_settings wanted = {
		.records = entry_number(TS_ENV_RECORDS),
		.stacks = entry_number(TS_ENV_STACKS),
		.budget_ppm = entry_number(TS_ENV_BUDGET),
		.light = entry_number(TS_ENV_LIGHT) ? TS_LIGHT_ALONE : TS_LIGHT_NEVER,
	};

	__atomic_store_n(&debug, getenv(TS_ENV_DEBUG) != NULL, __ATOMIC_RELAXED);
	r = link_start(TS_HELLO_RUN, -1, &wanted);
	if (r < 0)
		debug_say("not started: %s", strerror(-r));
	else if (!settle_wait(SETTLE_MS, WATCHED_MS))
		entry_say(not_watched);
	errno = saved;
	return 1;
}

int tracesmith_attach(struct ts_attach *attach)
{
	int saved = errno, r;

	if (!attach || attach->size < sizeof(*attach) || attach->socket < 0)
		return -EINVAL;
	__atomic_store_n(&debug, getenv(TS_ENV_DEBUG) != NULL, __ATOMIC_RELAXED);
	r = link_start(TS_HELLO_ATTACH, attach->socket, &attach->wanted);
	if (r == 0)
		attach->socket = -1;
	errno = saved;
	return r;
}
