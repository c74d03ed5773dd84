/* options.h: one table of options for all verbs, so that an option means the same everywhere. */
#ifndef TS_CLIENT_OPTIONS_H
#define TS_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The formats of `tsctl export`: their options below, and their struct export_format. */
#define EXPORT_FORMATS(X)                                                                          \
	X(PERFETTO, "perfetto", 0, NULL, "write a Perfetto trace", perfetto)                       \
	X(CHROME, "chrome", 0, NULL, "write a Chrome trace (JSON)", chrome)                        \
	X(FOLDED, "folded", 0, NULL, "write folded stacks with GPU microseconds (exact tier)",     \
	  folded)                                                                                  \
	X(SVG, "svg", 0, NULL, "write a flame graph of GPU time as SVG (exact tier)", svg)         \
	X(PPROF, "pprof", 0, NULL, "write a pprof profile of GPU time by stack (exact tier)",      \
	  pprof)                                                                                   \
	X(MEMORY_VIZ, "memory-viz", 0, NULL,                                                       \
	  "write tensors as PyTorch's memory viewer reads them", memory_viz)

/* identifier, long name, letter or 0, argument name (in brackets: optional) or NULL, text */
#define OPTIONS(X)                                                                                 \
	X(HELP, "help", 'h', NULL, "show this help")                                               \
	X(SOCKET, "socket", 's', "PATH", "the daemon's control socket")                            \
	X(PID, "pid", 'p', "PID", "only this process")                                             \
	X(USER, "user", 0, "USER", "only processes of this user (name or uid)")                    \
	X(NAME, "name", 0, "PATTERN",                                                              \
	  "only rows whose name contains this: * any text, A|B either")                            \
	X(SORT, "sort", 0, "COLUMN", "sort by COLUMN; -COLUMN: largest first, +COLUMN: smallest")  \
	X(COLUMNS, "columns", 0, "LIST", "only these columns, separated by commas, in this order") \
	X(SINCE, "since", 0, "WHEN",                                                               \
	  "start of the window: 10s, 5m or 2h ago, or 2024-05-31T13:00:00")                        \
	X(UNTIL, "until", 0, "WHEN", "end of the window, in the same form")                        \
	X(LIMIT, "limit", 'n', "N", "show at most N rows (0: the default)")                        \
	X(MIN_AGE, "min-age", 0, "DURATION", "all allocations at least this old")                  \
	X(STREAM, "stream", 0, "ID", "only this stream (ID as in 'tsctl query streams')")          \
	X(DEVICE, "device", 0, "N", "only this device")                                            \
	X(BY_STACK, "by-stack", 0, NULL, "one row per call stack")                                 \
	X(BY_STREAM, "by-stream", 0, NULL, "one row per stream")                                   \
	X(BY, "by", 0, "WHAT", "one row per stack, stream, line, function, module or op")          \
	X(RECORDS, "records", 0, "LIST", "what to record: names, +name, -name or all")             \
	X(STACKS, "stacks", 0, "WHICH", "call stacks of launches: none, sampled or all")           \
	X(BUDGET, "budget", 0, "PERCENT",                                                          \
	  "how much of its speed a process may pay, e.g. 3%, or 'none'")                           \
	X(WAIT, "wait", 0, "[DURATION]", "wait until the process uses CUDA, at most this long")    \
	X(SECCOMP, "seccomp", 0, NULL, "attach even if a seccomp filter may kill the process")     \
	X(LIGHT, "light", 0, NULL, "only count calls, from inside, at a fraction of the price")    \
	X(JSON, "json", 'j', NULL, "print one JSON object")                                        \
	X(CSV, "csv", 0, "[FOR]", "print comma-separated values; =spreadsheet: without formulas")  \
	X(WIDE, "wide", 'w', NULL, "show every column in full width, and every frame")             \
	X(TIMEOUT, "timeout", 0, "DURATION", "give up after this time")                            \
	EXPORT_FORMATS(X)                                                                          \
	X(FILE, "file", 'f', "FILE", "read this recording (.sbt) instead of asking the daemon")    \
	X(ALL, "all", 'a', NULL,                                                                   \
	  "all processes; of leaks: all that is old; of waste: also possible")                     \
	X(DURATION, "duration", 'd', "DURATION",                                                   \
	  "record for this long, or with 'eof' until standard input ends")                         \
	X(FROM, "from", 0, "TIME", "start at this time into the recording, e.g. 1.5s")             \
	X(TO, "to", 0, "TIME", "end at this time into the recording")                              \
	X(KERNEL, "kernel", 'k', "REGEX", "only operations whose name matches")                    \
	X(TREE, "tree", 0, NULL, "group by process, device and stream")                            \
	X(LANES, "lanes", 0, NULL, "draw one lane per stream, as wide as the terminal")            \
	X(DOT, "dot", 0, NULL, "write a graph for Graphviz")                                       \
	X(FAIL_OVER, "fail-over", 0, "PERCENT",                                                    \
	  "exit with 1 if something got worse by more, e.g. 5%")                                   \
	X(SPEED, "speed", 0, "X", "playback speed: 0.1, 1, 10, or 'max'")                          \
	X(EMULATE, "emulate", 0, NULL, "run the recording through the emulator")                   \
	X(SCALE, "scale", 0, "WHAT:FACTOR", "what if these took FACTOR times as long")             \
	X(DROP, "drop", 0, "WHAT", "what if these did not happen")                                 \
	X(LAUNCH_LATENCY, "launch-latency", 0, "DURATION",                                         \
	  "what if a launch took this long, and its call no longer")                               \
	X(STREAMS, "streams", 0, "N", "what if there were N streams")                              \
	X(NO_SYNC, "no-sync", 0, NULL, "what if no thread waited for the device")                  \
	X(COPY_BANDWIDTH, "copy-bandwidth", 0, "FACTOR",                                           \
	  "what if copies were FACTOR times as fast, e.g. 2x")                                     \
	X(DEVICES, "devices", 0, "N", "what if there were N devices")                              \
	X(GRAPH, "graph", 0, "[FROM..TO]", "what if the launches were CUDA graphs")                \
	X(CHECK, "check", 0, NULL,                                                                 \
	  "compare two recordings, or one with its emulation; of status: one line")                \
	X(TOLERANCE, "tolerance", 0, "PERCENT", "how much durations may differ, e.g. 5% or 0")     \
	X(ON_GPU, "on-gpu", 0, NULL, "reissue the recorded commands on a GPU")                     \
	X(FOR, "for", 0, "DURATION", "for this long, e.g. 60s; then the setting's again")          \
	X(NOW, "now", 0, NULL, "measure at once; takes some seconds")                              \
	X(THREADS, "threads", 0, NULL, "also threads without Python")                              \
	X(LOCALS, "locals", 0, NULL, "also the variables of each Python frame")                    \
	X(NATIVE, "native", 0, NULL, "also native frames")                                         \
	X(WATCH, "watch", 0, NULL, "show it again every second, until Ctrl-C")                     \
	X(LISTEN, "listen", 0, "ADDRESS", "where to listen, e.g. 127.0.0.1:9640")                  \
	X(TOKEN, "token", 0, "FILE", "the secret that clients must know, instead of a random one") \
	X(TLS, "tls", 0, "FILE", "certificate, its chain and its key, as PEM")                     \
	X(ONCE, "once", 0, NULL, "print what it shows once, and end")                              \
	X(FOLLOW, "follow", 0, NULL, "draw it again every second, until Ctrl-C")                   \
	X(MARKDOWN, "md", 0, NULL, "write Markdown, without pictures")                             \
	X(URL, "url", 0, "URL", "the fleet's ClickHouse: http://USER@HOST:8123/DATABASE")          \
	X(PASSWORD_FILE, "password-file", 0, "FILE", "its password, in a file of mode 0600")       \
	X(CLUSTER, "cluster", 0, "CLUSTER", "the name of the cluster in the server's settings")    \
	X(JOB, "job", 0, "JOB", "only processes of this job")                                      \
	X(HOST, "host", 0, "HOST", "only this host")                                               \
	X(RANK, "rank", 0, "N", "only this rank")                                                  \
	X(OUTPUT, "output", 'o', "FILE", "write to FILE, or to standard output with '-'")

enum option_number {
#define X(id, ...) OPTION_NUMBER_##id,
	OPTIONS(X)
#undef X
		OPTION_COUNT
};

/* A set of options, wider than any other integer: the compiler refuses to cut it (-Wconversion). */
typedef unsigned __int128 option_set;
#define OPTION_BIT(number) ((option_set)1 << (number))
#define OPTION(id)	   OPTION_BIT(OPTION_NUMBER_##id)
_Static_assert(OPTION_COUNT <= 128, "an option is a bit of a set");

#define OPTION_OR(id, ...) | OPTION(id)
#define OPTIONS_FORMAT	   (0 EXPORT_FORMATS(OPTION_OR))
#define OPTIONS_COMMON	   (OPTION(HELP) | OPTION(SOCKET))
#define OPTIONS_TABLE	   (OPTION(JSON) | OPTION(CSV))
#define OPTIONS_WINDOW	   (OPTION(SINCE) | OPTION(UNTIL))
#define OPTIONS_PART	   (OPTION(FROM) | OPTION(TO))
#define OPTIONS_FILTER	   (OPTION(PID) | OPTION(STREAM) | OPTION(DEVICE) | OPTION(KERNEL))
#define OPTIONS_WHATIF                                                                             \
	(OPTION(SCALE) | OPTION(DROP) | OPTION(LAUNCH_LATENCY) | OPTION(STREAMS) |                 \
	 OPTION(NO_SYNC) | OPTION(COPY_BANDWIDTH) | OPTION(DEVICES) | OPTION(GRAPH))
#define OPTIONS_BY     (OPTION(BY_STACK) | OPTION(BY_STREAM) | OPTION(BY))
#define OPTIONS_ROWS   (OPTION(LIMIT) | OPTION(SORT) | OPTION(NAME) | OPTION(USER))
#define OPTIONS_FLEET  (OPTION(URL) | OPTION(PASSWORD_FILE))
#define OPTIONS_RECORD (OPTION(RECORDS) | OPTION(STACKS) | OPTION(BUDGET))

struct option_form {
	const char *name;
	char letter;
	const char *argument, *text;
};
extern const struct option_form option_forms[OPTION_COUNT];

/* A time as the user gave it: nanoseconds before now, or of CLOCK_REALTIME. */
struct moment {
	bool ago;
	int64_t ns;
};

#define OPTIONS_LIST_MAX 16

/* The values of an option that may be repeated. */
struct option_list {
	const char *text[OPTIONS_LIST_MAX];
	uint32_t count;
};

struct link_files;

struct options {
	option_set given;
	const char *socket; /* never NULL */
	const char *output;
	const char *file;		/* a recording, or NULL for the daemon */
	const struct link_files *files; /* opens the recording */
	const char *kernel;
	const char *user, *name, *sort, *columns, *by; /* NULL: not given */
	const char *graph;			       /* NULL: all of it */
	struct option_list scale, drop;
	uint64_t from_ns, to_ns, duration_ns, launch_latency_ns;
	uint64_t streams, devices;
	bool until_eof; /* instead of duration_ns */
	int after;	/* number of arguments after "--", -1 without "--" */
	uint32_t fail_over_ppm, tolerance_ppm;
	double speed; /* 0: as fast as possible */
	double copy_bandwidth;
	uint64_t pid, stream, device; /* within the range of their type */
	uint64_t limit;
	uint64_t min_age_ns;
	uint64_t timeout_ns;
	uint64_t wait_ns;     /* 0: no limit */
	uint64_t patience_ms; /* until an answer is given up of which nothing comes; 0: once
				 the daemon does not say that it lives either */
	bool page;	      /* shows the answers: who reads them can give no options */
	const char *listen, *token, *tls;
	const char *url, *password_file, *cluster, *job, *host; /* NULL: not given */
	uint64_t rank;
	bool spreadsheet; /* for whom --csv is */
	uint64_t for_ns;
	uint32_t records; /* enum ts_records; 0: not given, also for the next two */
	uint32_t stacks;  /* enum ts_stacks */
	uint32_t budget_ppm;
	struct moment since, until;
};

/* Parses the options in `allowed`, moves the other arguments to the end, and returns the index of
 * the first of them. Without a verb, or if they are another program's command line (`foreign`), it
 * stops at the first of them. -EINVAL: the error was printed. */
int options_parse(struct options *options, option_set allowed, const char *verb, bool foreign,
		  int argc, char **argv);
/* One option, enum option_number. The text must stay. Likewise. */
int options_take(struct options *options, int number, const char *text);
/* A duration, "now", or local time: 2024-05-31, 2024-05-31T13:00 or 2024-05-31T13:00:05.25. */
int moment_parse(const char *text, struct moment *ret);
/* Names of TS_RECORDS, "all" and "default", separated by commas; "-name" removes one. A list that
 * starts with a sign changes the default. */
int records_parse(const char *text, uint32_t *ret);
/* "3%", "0.5%": above 0, at most 100 %. */
int share_parse(const char *text, uint32_t *ret_ppm);
/* Below 100 %. */
int budget_parse(const char *text, uint32_t *ret_ppm);
/* The same as a share, or "0%", or "0". */
int share_or_none_parse(const char *text, uint32_t *ret_ppm);
/* "2", "0.5", "2x": above 0. */
int factor_parse(const char *text, double *ret);
/* The names of the records in a set, and of an enum ts_stacks. */
#define RECORDS_TEXT_MAX 128
void records_text(uint32_t records, char text[RECORDS_TEXT_MAX]);
const char *stacks_text(uint32_t stacks);

#endif
