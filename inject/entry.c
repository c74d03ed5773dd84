/* Entry: the functions that others call: the driver, the injector, fork and exit. On their threads
 * we only start our own, wait briefly for it while the program is starting, or do what cannot wait;
 * errno is preserved. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/link.h"
#include "inject/settle.h"
#include "proto/paths.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int InitializeInjection(void);
EXPORT int tracesmith_attach(struct ts_attach *attach);

/* Whoever started a program with us wants its first kernel too. Without a daemon the program
 * continues at once, with one that does not answer after this time. cuInit itself takes longer than
 * CUPTI's 20 ms. */
#define SETTLE_MS 2000

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
	else
		settle_wait(SETTLE_MS);
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
