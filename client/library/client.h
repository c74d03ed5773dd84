/* tracesmith/client.h: asks TraceSmith's daemon what the GPU processes of this host do, or a
 * recording what they did.
 *
 *	struct tracesmith *ts = tracesmith_new();
 *	struct tracesmith_query kernels = { .size = sizeof(kernels), .name = "kernels",
 *					    .since_ns = -10000000000 };
 *	struct tracesmith_answer *answer;
 *
 *	if (tracesmith_connect(ts, NULL) < 0 || tracesmith_query(ts, &kernels, &answer) < 0)
 *		errx(1, "%s", tracesmith_message(ts));
 *	for (size_t row = 0; row < tracesmith_answer_rows(answer); row++) {
 *		struct tracesmith_cell name;
 *
 *		if (tracesmith_answer_cell(answer, row, 0, &name) == TRACESMITH_TEXT)
 *			puts(name.text);
 *	}
 *	tracesmith_answer_free(answer);
 *	tracesmith_free(ts);
 *
 * Link with -ltracesmith-client (pkg-config tracesmith-client).
 *
 * Units: sizes are bytes, times nanoseconds of CLOCK_MONOTONIC on the daemon's host, shares parts
 * per million. Texts are UTF-8, but names come from other programs and may be any bytes.
 *
 * Errors: a function that returns int returns a negative enum tracesmith_error when it fails, and
 * tracesmith_message() says why, in a sentence. What it was to return is untouched then.
 *
 * Ownership: answers are the caller's, and outlive the connection. What an answer or a connection
 * returns a pointer to belongs to it. All functions take NULL for the object; they return 0 or NULL
 * then, or TRACESMITH_BAD_REQUEST.
 *
 * Threads: one at a time may use a connection. Several may read an answer. A child of fork() must
 * not use its parent's connections, and frees none of them.
 */
#ifndef TRACESMITH_CLIENT_H
#define TRACESMITH_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tracesmith_error {
	TRACESMITH_FAILED = -1,		 /* nothing of the below */
	TRACESMITH_NO_MEMORY = -2,	 /* of this process */
	TRACESMITH_NO_DAEMON = -3,	 /* none listens on the socket */
	TRACESMITH_DENIED = -4,		 /* the user may not do this */
	TRACESMITH_CONNECTION_LOST = -5, /* or the peer is not tracesmithd: connect again */
	TRACESMITH_TIMED_OUT = -6,	 /* likewise: the call took longer than was set */
	TRACESMITH_BAD_REQUEST = -7,	 /* it cannot be answered as it is */
	TRACESMITH_NOT_FOUND = -8,	 /* no such query, process, user or file */
	TRACESMITH_LIMIT = -9,		 /* it takes too long, or is too much */
	TRACESMITH_UNAVAILABLE = -10,	 /* the daemon, or the recording, cannot do it now */
	TRACESMITH_CANCELLED = -11,
	TRACESMITH_NO_CUDA = -12, /* the process does not use CUDA, yet */
};

/* A connection: to the daemon, to a recording, or to nothing yet. */
struct tracesmith;

/* NULL: no memory. */
struct tracesmith *tracesmith_new(void);
/* Closes it. */
void tracesmith_free(struct tracesmith *ts);

/* How long a call may take, however much the other side says meanwhile; 0, the default: for as long
 * as it takes. For what is called after it. */
void tracesmith_set_timeout(struct tracesmith *ts, uint64_t timeout_ns);

/* Connects to the daemon's control socket. NULL: to the one that the environment variable
 * TRACESMITH_SOCKET names, or else the usual one. Ends a connection that there is. */
int tracesmith_connect(struct tracesmith *ts, const char *socket);

/* Opens a recording (.sbt), which answers the same queries. The program tsctl reads it, as a child
 * of this process: the one that is named here, or NULL: the one that the environment variable
 * TRACESMITH_TSCTL names, or else the one in the PATH. Ends a connection that there is. */
int tracesmith_open(struct tracesmith *ts, const char *path, const char *tsctl);

/* Why the last call failed. Never NULL, one line without control characters; it stays until the
 * next call. */
const char *tracesmith_message(const struct tracesmith *ts);

/* The daemon's version, "" without a connection. */
const char *tracesmith_version(const struct tracesmith *ts);
/* CLOCK_MONOTONIC of the daemon, now; the end of a recording. */
uint64_t tracesmith_now_ns(const struct tracesmith *ts);
/* Add it to a time to get CLOCK_REALTIME. */
int64_t tracesmith_wall_offset_ns(const struct tracesmith *ts);

/* What to ask for: see tsctl(1) for the queries and which fields they take. A field that is 0 is
 * not set. More fields may follow in later versions, which is what `size` is for. */
struct tracesmith_query {
	size_t size;	   /* of this struct */
	const char *name;  /* of the query; required */
	const char *user;  /* only processes of this user: a name or a uid */
	const char *match; /* only rows whose name matches: * any text, A|B either */
	const char *sort;  /* a column; -COLUMN: largest first, +COLUMN: smallest first */
	int64_t since_ns;  /* the window; negative: that long ago */
	int64_t until_ns;  /* likewise */
	uint64_t limit;	   /* rows */
	uint64_t min_age_ns;
	uint32_t pid;
	uint32_t stream; /* its `id` in the query `streams` */
	uint32_t by;	 /* enum tracesmith_by: one row for each */
	uint32_t has_device;
	uint32_t device; /* if has_device is not 0 */
};

enum tracesmith_by {
	TRACESMITH_BY_STACK = 1,
	TRACESMITH_BY_STREAM = 2,
	TRACESMITH_BY_LINE = 3,
	TRACESMITH_BY_FUNCTION = 4,
	TRACESMITH_BY_MODULE = 5,
	TRACESMITH_BY_OP = 6,
};

struct tracesmith_answer;

int tracesmith_query(struct tracesmith *ts, const struct tracesmith_query *query,
		     struct tracesmith_answer **ret);
/* One SELECT statement. The daemon gives up after `timeout_ns`; 0: its own limits. */
int tracesmith_sql(struct tracesmith *ts, const char *statement, uint64_t limit,
		   uint64_t timeout_ns, struct tracesmith_answer **ret);
/* What the daemon says of itself: section, name, value, number, is_number, warning. */
int tracesmith_status(struct tracesmith *ts, struct tracesmith_answer **ret);

/* How to record a running process exactly. As with struct tracesmith_query, 0 is not set. */
struct tracesmith_attach {
	size_t size; /* of this struct */
	uint32_t pid;
	uint32_t budget_ppm; /* share of its speed that it may pay; UINT32_MAX: no limit */
	uint32_t light;	     /* not 0: only calls, counted from inside */
	uint32_t seccomp;    /* not 0: even if a seccomp filter may kill it */
	uint32_t records;    /* enum tracesmith_records, as bits */
	uint32_t stacks;     /* enum tracesmith_stacks: of launches */
};

/* What is recorded; the answer's column `records` has it, too. */
enum tracesmith_records {
	TRACESMITH_RECORD_KERNELS = 0x01,
	TRACESMITH_RECORD_COPIES = 0x02, /* and sets */
	TRACESMITH_RECORD_CALLS = 0x04,	 /* that submit work: without them it has no call */
	TRACESMITH_RECORD_MEMORY = 0x08, /* allocations, frees and pools */
	TRACESMITH_RECORD_SYNCS = 0x10,
	TRACESMITH_RECORD_NVTX = 0x20,
	TRACESMITH_RECORD_OVERHEAD = 0x40, /* CUPTI's own */
	TRACESMITH_RECORD_NODES = 0x80,	   /* each part of a graph; otherwise whole graphs */
	TRACESMITH_RECORDS_USUAL = 0xef,   /* all but syncs, which are seen without it */
};

enum tracesmith_stacks {
	TRACESMITH_STACKS_NONE = 1,
	TRACESMITH_STACKS_SAMPLED = 2,
	TRACESMITH_STACKS_ALL = 3,
};

/* Returns when it is recorded. The answers have one row: how long the process was paused, and more;
 * `ret` may be NULL. */
int tracesmith_attach(struct tracesmith *ts, const struct tracesmith_attach *attach,
		      struct tracesmith_answer **ret);
int tracesmith_detach(struct tracesmith *ts, uint32_t pid, struct tracesmith_answer **ret);

/* From now on this connection only follows what devices and processes do: tracesmith_next() waits
 * for the next message, which comes each second, and tracesmith_live() makes a table of how it is
 * now. Whoever reads too late misses messages, and is disconnected after a while. */
int tracesmith_subscribe(struct tracesmith *ts);
int tracesmith_next(struct tracesmith *ts);

enum tracesmith_live {
	TRACESMITH_DEVICES = 0,
	TRACESMITH_PROCESSES = 1,
	TRACESMITH_USES = 2, /* of devices by processes */
};
int tracesmith_live(struct tracesmith *ts, enum tracesmith_live what,
		    struct tracesmith_answer **ret);

/* For poll(): readable if tracesmith_next() may return at once. -1: no connection. */
int tracesmith_fd(const struct tracesmith *ts);

/* An answer: rows of typed cells, in memory, and what is missing from them. */
void tracesmith_answer_free(struct tracesmith_answer *answer);
size_t tracesmith_answer_rows(const struct tracesmith_answer *answer);
size_t tracesmith_answer_columns(const struct tracesmith_answer *answer);
/* The limit has cut off rows. */
int tracesmith_answer_truncated(const struct tracesmith_answer *answer);
/* A remark on the answer, for example why it has no rows; "" if there is none. */
const char *tracesmith_answer_note(const struct tracesmith_answer *answer);

/* How to show the numbers of a column. */
enum tracesmith_unit {
	TRACESMITH_UNIT_TEXT = 0,
	TRACESMITH_UNIT_INTEGER = 1,
	TRACESMITH_UNIT_REAL = 2,
	TRACESMITH_UNIT_BYTES = 3,
	TRACESMITH_UNIT_NANOSECONDS = 4, /* a duration */
	TRACESMITH_UNIT_TIME = 5,	 /* a moment: nanoseconds of CLOCK_MONOTONIC */
	TRACESMITH_UNIT_STACK = 6,
	TRACESMITH_UNIT_BYTES_PER_SECOND = 7,
	TRACESMITH_UNIT_HANDLE = 8, /* an address: 64 bits without a sign */
	TRACESMITH_UNIT_SHARE = 9,  /* parts per million */
};
/* Later versions may have more of them. */
const char *tracesmith_answer_column(
	const struct tracesmith_answer *answer, size_t column,
	enum tracesmith_unit *ret_unit); /* its name; ret may be NULL */

enum tracesmith_type {
	TRACESMITH_NULL = 0, /* unknown, or there is none */
	TRACESMITH_INTEGER = 1,
	TRACESMITH_REAL = 2,
	TRACESMITH_TEXT = 3,
	TRACESMITH_BLOB = 4,
	TRACESMITH_STACK = 5,
};
struct tracesmith_cell {
	enum tracesmith_type type;
	int64_t integer;
	double real;		  /* of an integer, too */
	const char *text;	  /* with a NUL behind it */
	const void *blob;	  /* of a text, too */
	size_t size;		  /* of text and blob in bytes; frames of a stack */
	const char *const *frame; /* the innermost first */
};
/* Fills all of *ret, what its type does not have with 0, and returns the type. Where there is no
 * such row or column it is TRACESMITH_NULL. */
enum tracesmith_type tracesmith_answer_cell(const struct tracesmith_answer *answer, size_t row,
					    size_t column, struct tracesmith_cell *ret);

/* What was dropped, sampled or not seen in the window of the answer. More fields may follow. */
struct tracesmith_loss {
	const char *reason; /* the word of docs/queries.md */
	const char *text;   /* the reason in words */
	const char *noun;   /* what is counted */
	uint64_t count;
	uint64_t time_ns; /* of losses that are periods */
	const char *said; /* of these: what was not watched, for people; else "" */
};
/* NULL after the last one. */
const struct tracesmith_loss *tracesmith_answer_loss(const struct tracesmith_answer *answer,
						     size_t index);

#ifdef __cplusplus
}
#endif

#endif
