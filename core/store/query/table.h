/* table.h: the queries, one row each. */
#ifndef TS_QUERY_TABLE_H
#define TS_QUERY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/control.pb-c.h"

enum query_option {
	QUERY_PID = 1 << 0,    /* and user */
	QUERY_WINDOW = 1 << 1, /* since, until */
	QUERY_MIN_AGE = 1 << 2,
	QUERY_STREAM = 1 << 3,
	QUERY_DEVICE = 1 << 4,
	QUERY_BY_STACK = 1 << 5,
	QUERY_BY_STREAM = 1 << 6,
	QUERY_NAME = 1 << 7,  /* where it has a column to search */
	QUERY_AFTER = 1 << 8, /* for answers in pages */
	QUERY_BY_PLACE = 1 << 9,
	QUERY_STEP = 1 << 10,
	QUERY_PROCESS = 1 << 11, /* one row of `process` */
	QUERY_TID = 1 << 12,
	QUERY_ALL = 1 << 13,
	QUERY_NUMBER = 1 << 14, /* one row of what it lists */
	QUERY_BOOT = 1 << 15,	/* another than the current one */
};

enum query_flag {
	QUERY_IS_RUNNING = 1 << 0,  /* about running processes only */
	QUERY_IS_INTERNAL = 1 << 1, /* for programs: no list shows it */
	QUERY_IS_QUICK = 1 << 2,    /* query_is_quick(), in its default window */
};

#define QUERY_MIN_AGE_NS 60000000000ull /* if none is given */

/* What rows can be split by. */
enum query_by {
	QUERY_BY_NOTHING,
	QUERY_BY_IS_STACK,
	QUERY_BY_IS_STREAM,
	/* Of the innermost frame of the user's own (place.h): */
	QUERY_BY_IS_LINE,
	QUERY_BY_IS_FUNCTION,
	QUERY_BY_IS_MODULE,
	QUERY_BY_IS_OP, /* of PyTorch */
	QUERY_BY_COUNT,
};

/* What an answer is about, which decides what may be missing from it: see loss.c. */
enum query_about {
	ABOUT_CALLS = 1 << 0,	/* number, kind and duration of calls */
	ABOUT_MEMORY = 1 << 1,	/* what is allocated */
	ABOUT_STACKS = 1 << 2,	/* stacks that are always taken: of allocations */
	ABOUT_SAMPLES = 1 << 3, /* those of launches and waits */
	ABOUT_BOUNDS = 1 << 4,	/* when work ran, according to calls */
	ABOUT_TIMES = 1 << 5,	/* when it ran, exactly */
	ABOUT_STATES = 1 << 6,	/* of streams and devices */
	ABOUT_POOLS = 1 << 7,	/* what else the exact tier reports */
	ABOUT_COLLECTIVES = 1 << 8,
	ABOUT_RANGES = 1 << 9,
	ABOUT_ALL = (1 << 10) - 1,
	ABOUT_LOSS = 1 << 10,	   /* what was lost, even if it affects no answer */
	ABOUT_PROCESSES = 1 << 11, /* which there are */
	ABOUT_RESULTS = 1 << 12,   /* what calls returned */
};

struct query_column {
	const char *name;
	Tracesmith__V1__Columns__Type type;
	bool rises; /* sorted by it, rows start with the smallest */
};

/* A file NAME.sql of this folder. Parameters of the SQL: :boot (id of the boot row), :now, :since
 * and :until (in nanoseconds, never NULL), :first (second from which rollups count), :pid, :user,
 * :stream and :device (NULL: all), :min_age, :all (1: also what is of
 * little interest, or a minimum age was given), :by (enum query_by), :suspended (how long the host
 * slept), :after (the last id of the previous page, never NULL), :step (the width of a column of a
 * picture, in nanoseconds, never 0), :process, :tid and :number (NULL: not given). A STACK column
 * is a stack id; 0 and NULL are none. */
struct query {
	const char *name, *text;
	const struct query_column *column; /* ends with a column without name */
	uint32_t options;		   /* enum query_option */
	uint32_t about;			   /* enum query_about */
	uint32_t flags;			   /* enum query_flag */
	uint32_t records;	 /* enum ts_records: has rows only if one is recorded; 0: always */
	const char *search;	 /* the column that --name looks in; NULL: none */
	uint64_t window_ns;	 /* default window, 0: to the start of the boot */
	uint64_t limit;		 /* default number of rows; 0: as many as allowed */
	const char *nothing;	 /* start of the sentence about an empty answer; NULL: none */
	const char *sql, *order; /* without its ORDER BY, and that; LIMIT :limit comes last */
};

/* Of those that lists have. NULL: there are not so many. */
const struct query *query_at(size_t number);
/* Of all, those for programs too. */
const struct query *query_at_all(size_t number);
const struct query *query_find(const char *name);
/* The name that may have been meant, or NULL. */
const char *query_near(const char *name);
/* The names of its options, those of fields of a request, into `out`. */
#define QUERY_OPTIONS_TEXT_MAX 160
void query_options_text(const struct query *query, char *out);

#endif
