/* packet.h: the packets of a Perfetto trace.
 *
 * There is one sequence of packets, in any order of time; readers sort it. Times are
 * CLOCK_MONOTONIC. Names, frames and stacks are written once, before the first event that uses
 * them, and have numbers above 0 in their table. */
#ifndef TS_CLIENT_PERFETTO_H
#define TS_CLIENT_PERFETTO_H

#include <stdint.h>

#include "client/export/export.h"
#include "client/output/out.h"
#include "client/trace/show.h"

/* Tables of names; the numbers are those of message InternedData. */
enum perfetto_table {
	PERFETTO_CATEGORY = 1,
	PERFETTO_EVENT = 2,
	PERFETTO_ANNOTATION = 3,
	PERFETTO_FUNCTION = 5,
	PERFETTO_PATH = 17,
	PERFETTO_SOURCE = 18,
};

/* Fields that are 0 or NULL are not written. */
struct perfetto_track {
	uint64_t uuid, parent;
	const char *name;
	uint32_t pid, tid; /* of a process: pid; of a thread: both */
	const char *process_name, *command;
	bool bytes;	  /* a counter of them */
	const char *unit; /* a counter of others */
	uint64_t merge;	  /* merged with siblings that have the same key */
	uint32_t rank;	  /* among its siblings, see `ranked` */
	bool ranked;	  /* its children have ranks */
};

struct perfetto_event {
	uint64_t track;
	uint64_t start_ns, end_ns;    /* end not after start: an instant */
	uint32_t category, name;      /* numbers */
	uint32_t stack;		      /* number */
	uint64_t flow;		      /* links the events that share it, in order of time */
	bool flow_ends;		      /* here */
	uint64_t tie;		      /* another flow, likewise */
	const struct op *op;	      /* its fields become annotations, named in the head */
	const struct show_work *work; /* likewise */
	uint64_t count;		      /* an annotation of this name, as the next */
	const char *domain;
};

/* Writes the first packets, with the names of all annotations; `wall_offset_ns` added to
 * CLOCK_MONOTONIC gives CLOCK_REALTIME. */
int perfetto_head(struct out *out, int64_t wall_offset_ns);
int perfetto_name(struct out *out, enum perfetto_table table, uint32_t number, const char *text);
int perfetto_mapping(struct out *out, uint32_t path); /* receives the number of its path */
int perfetto_frame(struct out *out, const struct meta_frame *frame);
int perfetto_stack(struct out *out, const struct meta_stack *stack);
int perfetto_track(struct out *out, const struct perfetto_track *track);
int perfetto_event(struct out *out, const struct perfetto_event *event);
int perfetto_counter(struct out *out, uint64_t track, uint64_t time_ns, uint64_t value);
int perfetto_real(struct out *out, uint64_t track, uint64_t time_ns, double value); /* a counter */

#endif
