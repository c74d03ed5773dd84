/* options.h: the options of all verbs, in one table, so that each means the same everywhere. */
#ifndef TS_CLIENT_OPTIONS_H
#define TS_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* What `tsctl export` writes: the options below that ask for it, and struct export_format. */
#define EXPORT_FORMATS(X)                                                                          \
	X(PERFETTO, "perfetto", 0, NULL, "write a Perfetto trace", perfetto)                       \
	X(CHROME, "chrome", 0, NULL, "write a Chrome trace (JSON)", chrome)                        \
	X(FOLDED, "folded", 0, NULL, "write folded stacks with GPU microseconds (exact tier)",     \
	  folded)                                                                                  \
	X(SVG, "svg", 0, NULL, "write a flame graph of GPU time, for a browser (exact tier)", svg) \
	X(PPROF, "pprof", 0, NULL, "write GPU time by stack for pprof (exact tier)", pprof)

/* identifier, long name, letter or 0, argument name (in brackets: may be left out) or NULL, text */
#define OPTIONS(X)                                                                                 \
	X(HELP, "help", 'h', NULL, "show this help")                                               \
	X(SOCKET, "socket", 's', "PATH", "control socket of the daemon")                           \
	X(PID, "pid", 'p', "PID", "only this process")                                             \
	X(SINCE, "since", 0, "WHEN", "from then on: 10s, 5m, 2h ago, or 2024-05-31T13:00:00")      \
	X(UNTIL, "until", 0, "WHEN", "up to then")                                                 \
	X(LIMIT, "limit", 'n', "N", "at most N rows, 0: as without it")                            \
	X(MIN_AGE, "min-age", 0, "DURATION", "only allocations at least this old")                 \
	X(STREAM, "stream", 0, "ID", "only this stream (id as in 'query streams')")                \
	X(DEVICE, "device", 0, "N", "only this device")                                            \
	X(BY_STACK, "by-stack", 0, NULL, "a row for each call stack")                              \
	X(BY_STREAM, "by-stream", 0, NULL, "a row for each stream")                                \
	X(RECORDS, "records", 0, "LIST", "record these: names, +name, -name, all")                 \
	X(STACKS, "stacks", 0, "WHICH", "call stacks of launches: none, sampled or all")           \
	X(BUDGET, "budget", 0, "SHARE", "of a thread's time that recording may cost: 3%")          \
	X(WAIT, "wait", 0, "[DURATION]", "until the process uses CUDA, at most so long")           \
	X(SECCOMP, "seccomp", 0, NULL, "even if a seccomp filter may kill the process")            \
	X(JSON, "json", 'j', NULL, "one JSON object")                                              \
	X(CSV, "csv", 0, NULL, "comma-separated values")                                           \
	X(WIDE, "wide", 'w', NULL, "all columns, not cut to fit the terminal")                     \
	X(TIMEOUT, "timeout", 0, "DURATION", "give up after this time")                            \
	EXPORT_FORMATS(X)                                                                          \
	X(FILE, "file", 'f', "FILE", "ask this recording (.sbt) instead of the daemon")            \
	X(ALL, "all", 'a', NULL, "all processes")                                                  \
	X(DURATION, "duration", 'd', "DURATION", "so long")                                        \
	X(FROM, "from", 0, "TIME", "so long after the begin of the recording: 1.5s")               \
	X(TO, "to", 0, "TIME", "up to so long after its begin")                                    \
	X(KERNEL, "kernel", 'k', "REGEX", "only operations of such a name")                        \
	X(TREE, "tree", 0, NULL, "by process, device and stream")                                  \
	X(LANES, "lanes", 0, NULL, "a lane for each stream, as wide as the terminal")              \
	X(DOT, "dot", 0, NULL, "a graph for Graphviz")                                             \
	X(FAIL_OVER, "fail-over", 0, "SHARE", "exit 1 where something got worse by more: 5%")      \
	X(SPEED, "speed", 0, "X", "times as fast as it was, or 'max'")                             \
	X(EMULATE, "emulate", 0, NULL, "run the recording again in the emulator")                  \
	X(SCALE, "scale", 0, "WHAT:FACTOR", "what if these took FACTOR of the time")               \
	X(DROP, "drop", 0, "WHAT", "what if these were not there")                                 \
	X(LAUNCH_LATENCY, "launch-latency", 0, "DURATION",                                         \
	  "what if a launch took so long, and its call no longer")                                 \
	X(STREAMS, "streams", 0, "N", "what if there were N streams")                              \
	X(NO_SYNC, "no-sync", 0, NULL, "what if no thread waited for the device")                  \
	X(COPY_BANDWIDTH, "copy-bandwidth", 0, "FACTOR", "what if copies were so fast: 2x")        \
	X(DEVICES, "devices", 0, "N", "what if there were N devices")                              \
	X(GRAPH, "graph", 0, "[FROM..TO]", "what if the launches were graphs")                     \
	X(CHECK, "check", 0, NULL,                                                                 \
	  "compare two recordings, or one and its emulation; of status: one line")                 \
	X(TOLERANCE, "tolerance", 0, "SHARE", "durations may differ by so much: 5%, 0")            \
	X(ON_GPU, "on-gpu", 0, NULL, "issue the recorded commands on a GPU again")                 \
	X(OUTPUT, "output", 'o', "FILE", "write to FILE, '-' for standard output")

enum option_number {
#define X(id, ...) OPTION_NUMBER_##id,
	OPTIONS(X)
#undef X
		OPTION_COUNT
};

enum option_bit {
#define X(id, ...) OPTION_##id = UINT64_C(1) << OPTION_NUMBER_##id,
	OPTIONS(X)
#undef X
};

#define X(id, ...) | OPTION_##id
enum { OPTIONS_FORMAT = 0 EXPORT_FORMATS(X) };
#undef X
_Static_assert(OPTION_COUNT <= 63, "options are bits of 63");
#define OPTIONS_COMMON (OPTION_HELP | OPTION_SOCKET)
#define OPTIONS_TABLE  (OPTION_JSON | OPTION_CSV)
#define OPTIONS_WINDOW (OPTION_SINCE | OPTION_UNTIL)
#define OPTIONS_PART   (OPTION_FROM | OPTION_TO)
#define OPTIONS_FILTER (OPTION_PID | OPTION_STREAM | OPTION_DEVICE | OPTION_KERNEL)
#define OPTIONS_WHATIF                                                                             \
	(OPTION_SCALE | OPTION_DROP | OPTION_LAUNCH_LATENCY | OPTION_STREAMS | OPTION_NO_SYNC |    \
	 OPTION_COPY_BANDWIDTH | OPTION_DEVICES | OPTION_GRAPH)
#define OPTIONS_BY     (OPTION_BY_STACK | OPTION_BY_STREAM)
#define OPTIONS_RECORD (OPTION_RECORDS | OPTION_STACKS | OPTION_BUDGET)

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

#define OPTIONS_LIST_MAX 16

/* What an option that may be given several times was given. */
struct option_list {
	const char *text[OPTIONS_LIST_MAX];
	uint32_t count;
};

struct link_files;

struct options {
	uint64_t given;	    /* enum option_bit */
	const char *socket; /* never NULL */
	const char *output;
	const char *file;		/* a recording; NULL: the daemon */
	const struct link_files *files; /* what opens it */
	const char *kernel;
	const char *graph; /* NULL: all of it */
	struct option_list scale, drop;
	uint64_t from_ns, to_ns, duration_ns, launch_latency_ns;
	uint64_t streams, devices;
	int after; /* arguments behind a "--", -1: there is none */
	uint32_t fail_over_ppm, tolerance_ppm;
	double speed; /* 0: as fast as it goes */
	double copy_bandwidth;
	uint64_t pid, stream, device; /* in the range of what they are */
	uint64_t limit;
	uint64_t min_age_ns;
	uint64_t timeout_ns;
	uint64_t wait_ns; /* 0: no bound */
	uint32_t records; /* enum ts_records, 0: not said, as in the next two */
	uint32_t stacks;  /* enum ts_stacks */
	uint32_t budget_ppm;
	struct moment since, until;
};

/* Reads the options in `allowed` and moves the other arguments to the end; returns the index of the
 * first of them. Without a verb, and where they are a command line of their own (`foreign`), it
 * stops at the first of them. -EINVAL: it said on stderr what is wrong. */
int options_parse(struct options *options, uint64_t allowed, const char *verb, bool foreign,
		  int argc, char **argv);
/* A duration, "now", or local time: 2024-05-31, 2024-05-31T13:00, 13:00:05, with a fraction. */
int moment_parse(const char *text, struct moment *ret);
/* Names of TS_RECORDS, "all" and "default", separated by commas, "-name" takes away. A list that
 * begins with a sign changes the default. */
int records_parse(const char *text, uint32_t *ret);
/* "3%", "0.5%": more than nothing, no more than all. */
int share_parse(const char *text, uint32_t *ret_ppm);
/* The same, and "0%", or "0". */
int share_or_none_parse(const char *text, uint32_t *ret_ppm);
/* "2", "0.5", "2x": more than 0. */
int factor_parse(const char *text, double *ret);
/* The names of what is recorded, and of enum ts_stacks. */
#define RECORDS_TEXT_MAX 128
void records_text(uint32_t records, char text[RECORDS_TEXT_MAX]);
const char *stacks_text(uint32_t stacks);

#endif
