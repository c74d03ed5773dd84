/* stream.h: the streams of all processes. */
#ifndef TS_CORE_STREAM_H
#define TS_CORE_STREAM_H

#include "core/base/map.h"
#include "core/model/context.h"
#include "core/model/core.h"
#include "core/model/state.h"

struct process;

struct stream {
	struct core_stream row;
	struct process *process;
	struct context *context;
	struct device *device; /* NULL: no memory for it */
	struct map_key key;
	struct list in_context;
	struct list active;    /* in the context, while something is pending */
	struct list capturing; /* in the process, while capturing */
	struct list pending;   /* struct pending, by start */
	struct list waiters;   /* struct pending of other streams; only while this has pendings */
	struct list work;      /* in a struct cover */
	uint64_t cover_ns;     /* there: cover what started up to then */
	uint64_t capture;      /* number of the capture that it takes part in, 0: none */
	struct state state;
	uint64_t submitted; /* work submitted to it: when the latest started */
	struct lane *lane;  /* its exact states, NULL: none */
	uint32_t submitter; /* the thread of the latest */
	bool shared;	    /* several threads submit to it */
	bool broken;	    /* its capture: the driver accepts nothing more in it */
	bool legacy;
	bool destroyed; /* not found any more; freed when nothing is pending */
};

struct stream *stream_by_id(const struct core *core, uint32_t id);
/* The stream that a call names. NULL: unknown. */
struct stream *stream_find(const struct call *call);
/* The same, created on first use. NULL: a limit was reached. */
struct stream *stream_get(struct call *call);
/* Gets an id if row->id is 0; reports nothing. */
struct stream *stream_add(struct core *core, struct process *process,
			  const struct core_stream *row);
/* Pending work has changed: brings the state up to date. Frees a destroyed stream. */
void stream_settle(struct core *core, struct stream *stream, uint64_t time_ns);
/* Its exact states start: it has none here until it resumes. Returns whether it had one. */
bool stream_rest(struct core *core, struct stream *stream, uint64_t time_ns);
void stream_resume(struct core *core, struct stream *stream, uint64_t time_ns);
bool stream_is_numbered(const struct stream *stream);
/* CUPTI's number of it is known. */
void stream_learn_number(struct core *core, struct stream *stream, uint32_t number);
/* A stream of which nothing else is known, created on first use. NULL: a limit was reached. */
struct stream *stream_numbered(struct core *core, struct process *process, uint32_t number,
			       int16_t device);
/* The default stream of a context, created on first use. NULL: a limit was reached. */
struct stream *stream_legacy(struct core *core, struct process *process,
			     const struct context *context);
void stream_end(struct core *core, struct stream *stream, uint64_t time_ns);
/* Joins the capture that another stream takes part in, unless the driver refuses it. */
void stream_join_capture(struct stream *stream, struct stream *source);
/* What the driver refuses in a capture breaks it: it continues to its end, but nothing joins it. */
void stream_break_capture(struct stream *stream);

void stream_create(struct call *call);
void stream_destroy(struct call *call);
void stream_capture_begin(struct call *call);
void stream_capture_end(struct call *call);

#endif
