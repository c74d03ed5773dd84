/* options.h: the options of all verbs, in one table, so that each means the same everywhere. */
#ifndef TS_CLIENT_OPTIONS_H
#define TS_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* What `tsctl export` writes: the options below that ask for it, and struct export_format. */
#define EXPORT_FORMATS(X)                                                                          \
	X(PERFETTO, "perfetto", 0, NULL, "write a Perfetto trace", perfetto)                       \
	X(CHROME, "chrome", 0, NULL, "write a Chrome trace (JSON)", chrome)

/* identifier, long name, letter or 0, argument name or NULL, text */
#define OPTIONS(X)                                                                                 \
	X(HELP, "help", 'h', NULL, "show this help")                                               \
	X(SOCKET, "socket", 's', "PATH", "control socket of the daemon")                           \
	X(PID, "pid", 'p', "PID", "only this process")                                             \
	X(SINCE, "since", 0, "WHEN", "from then on: 10s, 5m, 2h ago, or 2024-05-31T13:00:00")      \
	X(UNTIL, "until", 0, "WHEN", "up to then")                                                 \
	X(LIMIT, "limit", 'n', "N", "at most N rows")                                              \
	X(MIN_AGE, "min-age", 0, "DURATION", "only allocations at least this old")                 \
	X(STREAM, "stream", 0, "ID", "only this stream (id as in 'query streams')")                \
	X(DEVICE, "device", 0, "N", "only this device")                                            \
	X(JSON, "json", 'j', NULL, "one JSON object")                                              \
	X(CSV, "csv", 0, NULL, "comma-separated values")                                           \
	X(TIMEOUT, "timeout", 0, "DURATION", "give up after this time")                            \
	EXPORT_FORMATS(X)                                                                          \
	X(OUTPUT, "output", 'o', "FILE", "write to FILE, '-' for standard output")

enum option_number {
#define X(id, ...) OPTION_NUMBER_##id,
	OPTIONS(X)
#undef X
		OPTION_COUNT
};

enum option_bit {
#define X(id, ...) OPTION_##id = 1u << OPTION_NUMBER_##id,
	OPTIONS(X)
#undef X
};

#define X(id, ...) | OPTION_##id
enum { OPTIONS_FORMAT = 0 EXPORT_FORMATS(X) };
#undef X
#define OPTIONS_COMMON (OPTION_HELP | OPTION_SOCKET)
#define OPTIONS_TABLE  (OPTION_JSON | OPTION_CSV)
#define OPTIONS_WINDOW (OPTION_SINCE | OPTION_UNTIL)

struct option_form {
	const char *name;
	char letter;
	const char *argument, *text;
};
extern const struct option_form option_forms[OPTION_COUNT];

/* A time as the user gave it: so long before now, or CLOCK_REALTIME nanoseconds. */
struct moment {
	bool ago;
	int64_t ns;
};

struct options {
	uint32_t given;	    /* enum option_bit */
	const char *socket; /* never NULL */
	const char *output;
	uint64_t pid, stream, device; /* in the range of what they are */
	uint64_t limit;
	uint64_t min_age_ns;
	uint64_t timeout_ns;
	struct moment since, until;
};

/* Reads the options in `allowed` and moves the other arguments to the end; returns the index of the
 * first of them. Without a verb it stops at the first of them. -EINVAL: it said on stderr what is
 * wrong. */
int options_parse(struct options *options, uint32_t allowed, const char *verb, int argc,
		  char **argv);
/* A duration, "now", or local time: 2024-05-31, 2024-05-31T13:00, 13:00:05, with a fraction. */
int moment_parse(const char *text, struct moment *ret);

#endif
