/* Log: the daemon's and the client's messages. The only state is the level. */
#include "core/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum log_level log_level = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	log_level = level;
}

enum log_level log_get_level(void)
{
	return log_level;
}

int log_write(enum log_level level, int error, const char *format, ...)
{
	char line[1024];
	va_list ap;

	if (level > log_level)
		return error;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	/* journald reads the level of a line from <N>. */
	if (getenv("JOURNAL_STREAM"))
		fprintf(stderr, "<%d>", level);
	if (error)
		fprintf(stderr, "%s: %s\n", line, strerror(abs(error)));
	else
		fprintf(stderr, "%s\n", line);
	return error;
}

int log_allowed(struct log_limit *limit, unsigned int burst)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec != limit->second) {
		limit->second = now.tv_sec;
		limit->count = 0;
	}
	return limit->count++ < burst;
}
