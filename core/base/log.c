/* Log: the daemon's and the client's messages. The only state is the level. */
#include "core/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/array.h"

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

static long log_second(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec;
}

int log_allowed(struct log_limit *limit, unsigned int burst)
{
	long second = log_second();

	if (second != limit->second) {
		limit->second = second;
		limit->count = 0;
	}
	return limit->count++ < burst;
}

/* The user's, or the one that has been idle for longest. NULL: all are other users' in this minute.
 */
static struct log_user *log_user(struct log_users *users, unsigned int uid, long minute)
{
	struct log_user *idlest = users->user;

	for (int i = 0; i < LOG_USERS; i++) {
		struct log_user *user = &users->user[i];

		if (user->minute && user->uid == uid)
			return user;
		if (user->minute < idlest->minute)
			idlest = user;
	}
	if (idlest->minute == minute)
		return NULL;
	*idlest = (struct log_user){ .uid = uid };
	return idlest;
}

static int log_is_known(const struct log_user *user, unsigned long about)
{
	for (unsigned int i = 0; about && i < ARRAY_SIZE(user->about); i++)
		if (user->about[i] == about)
			return 1;
	return 0;
}

int log_allowed_user(struct log_users *users, unsigned int uid, unsigned long about)
{
	long minute = log_second() / 60 + 1;
	struct log_user *user = log_user(users, uid, minute);

	if (!user || log_is_known(user, about))
		return 0;
	if (user->minute != minute)
		user->count = 0;
	user->minute = minute;
	if (user->count++ == LOG_USER_BURST)
		log_info("Leaving out further messages about files and processes of user %u for a "
			 "minute",
			 uid);
	if (user->count > LOG_USER_BURST)
		return 0;
	if (about)
		user->about[user->next_about++ % ARRAY_SIZE(user->about)] = about;
	return 1;
}
