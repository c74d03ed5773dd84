/* log.h: one line per message on stderr, with a level prefix for systemd if stderr goes to the
 * journal.
 */
#ifndef TS_LOG_H
#define TS_LOG_H

#include <errno.h>

enum log_level {
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7
};

void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* `error` is a negative errno, appended as text, or 0. Returns `error`. */
int log_write(enum log_level level, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(...)		      log_write(LOG_LEVEL_ERROR, 0, __VA_ARGS__)
#define log_warning(...)	      log_write(LOG_LEVEL_WARNING, 0, __VA_ARGS__)
#define log_info(...)		      log_write(LOG_LEVEL_INFO, 0, __VA_ARGS__)
#define log_debug(...)		      log_write(LOG_LEVEL_DEBUG, 0, __VA_ARGS__)
#define log_error_errno(error, ...)   log_write(LOG_LEVEL_ERROR, error, __VA_ARGS__)
#define log_warning_errno(error, ...) log_write(LOG_LEVEL_WARNING, error, __VA_ARGS__)

/* True at most `burst` times per second; for messages that a peer can trigger. */
struct log_limit {
	long second;
	unsigned int count;
};
int log_allowed(struct log_limit *limit, unsigned int burst);

/* The same for messages that a user's processes can trigger: LOG_USER_BURST a minute for each user,
 * and none about the same thing as one of the latest (`about`, 0: always another). When it
 * starts to leave out messages of a user, it says so. */
#define LOG_USERS      32
#define LOG_USER_BURST 8
struct log_users {
	struct log_user {
		unsigned int uid, count;
		long minute;
		unsigned long about[2 * LOG_USER_BURST];
		unsigned int next_about;
	} user[LOG_USERS];
};
int log_allowed_user(struct log_users *users, unsigned int uid, unsigned long about);

#endif
