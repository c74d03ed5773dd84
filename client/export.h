/* export.h: a trace in another program's format. Metadata and ops go in, bytes come out.
 *
 * What a format holds in memory grows with the processes, threads and stacks of the trace, never
 * with its ops. A format is a file export_<name>.c and a row of EXPORT_FORMATS in options.h.
 */
#ifndef TS_CLIENT_EXPORT_H
#define TS_CLIENT_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/export_meta.h"
#include "client/options.h"
#include "client/out.h"
#include "core/op.h"

struct exporter;

#define EXPORT_NOTE_BYTES 128

struct export_format {
	int (*begin)(const struct export_meta *meta, const struct out_sink *sink,
		     struct exporter **ret);
	/* Ops may come in any order; the metadata has the process of each. The closer to the order
	 * of time, the less is held. */
	int (*ops)(struct exporter *exporter, const struct op *op, size_t count);
	int (*end)(struct exporter *exporter);
	/* After the end: what the reader of the file has to know, or "". NULL: nothing. */
	void (*note)(const struct exporter *exporter, char note[EXPORT_NOTE_BYTES]);
	void (*free)(struct exporter *exporter);
	bool exact; /* shows ops with exact times, and nothing else */
};

/* Those of options.h, and CSV, which is also a form of tables. */
#define EXPORTS(X) EXPORT_FORMATS(X) X(CSV, "csv", 0, NULL, "comma-separated values", csv)

#define X(id, name, letter, argument, text, symbol)                                                \
	extern const struct export_format export_##symbol;
EXPORTS(X)
#undef X

/* What is said of an op beside its name and times. */
enum export_how { EXPORT_NUMBER, EXPORT_SIGNED, EXPORT_ADDRESS };

struct export_field {
	const char *name;
	uint16_t offset; /* in struct op, or in struct export_work */
	uint8_t width;	 /* bytes: 4 or 8 */
	uint8_t count;	 /* more than 1: an array */
	uint8_t how;	 /* enum export_how */
	bool work;	 /* of the work only, not of the call that submitted it */
};
extern const struct export_field export_fields[];
extern const size_t export_field_count;

/* `from`: the op, or what export_work_get() made of it. */
uint64_t export_field_value(const struct export_field *field, const void *from, uint32_t index);
bool export_field_shown(const struct export_field *field, const void *from); /* it is not 0 */

/* What follows from an op with exact times and the metadata. */
struct export_work {
	uint64_t context;
	uint64_t launch_delay_ns; /* from the begin of the call to the start on the device */
	uint64_t seen_after_ns;	  /* from the end on the device to the return of a wait for it */
	uint64_t bytes_per_second;
};
extern const struct export_field export_work_fields[];
extern const size_t export_work_field_count;

void export_work_get(const struct export_meta *meta, const struct op *op, struct export_work *ret);

/* Flags of an op that a reader has to know. */
struct export_mark {
	const char *name;
	uint16_t flag;
	bool work; /* of the work only */
};
extern const struct export_mark export_marks[];
extern const size_t export_mark_count;

bool export_marked(const struct export_mark *mark, const struct op *op, bool work);

#define EXPORT_STATE_MAX OP_STATE_SYNCING
const char *export_kind_name(uint8_t kind);
const char *export_state_name(uint8_t state);
/* What op.detail means, as the table `detail` has it; NULL: nothing. */
const char *export_detail_name(uint8_t kind, uint8_t detail);
/* The device of a process, as the id of a thing that has no other; above those of streams. */
uint64_t export_device_key(const struct op *op);
/* What an op shows: a call that a thread made, work with exact times on a device, or both. */
bool export_has_call(const struct op *op);
bool export_has_work(const struct op *op);
bool export_is_submission(const struct op *op); /* it should have had exact times */
/* The number that joins a call to its work, the same in the ops of both; 0: has none. */
uint64_t export_flow(const struct op *op);
/* Of work, a range, an overhead. */
const struct export_text *export_work_name(const struct export_meta *meta, const struct op *op);
const struct export_text *export_call_name(const struct export_meta *meta, const struct op *op);
/* Of a range: NULL for the default one. */
const struct export_text *export_domain(const struct export_meta *meta, const struct op *op);
bool export_has_memory(const struct op *op); /* its live_bytes mean something */
bool export_is_host(const struct op *op);    /* the memory is the host's */
uint64_t export_end_ns(const struct op *op); /* of the call; its start where no return is known */
/* Moves the ops to the front of which a part, call or work, is in the window. Returns how many. */
size_t export_keep_window(struct op *op, size_t count, uint64_t since_ns, uint64_t until_ns);

/* Names of what has none of its own. */
#define EXPORT_NAME_BYTES 64
void export_device_name(char name[EXPORT_NAME_BYTES], int16_t device, const char *what);
void export_gpu_name(char name[EXPORT_NAME_BYTES], const struct export_meta *meta,
		     const struct op *op); /* with its model */
void export_memory_name(char name[EXPORT_NAME_BYTES], const struct op *op);
void export_thread_name(char name[EXPORT_NAME_BYTES], const struct export_process *process,
			uint32_t tid);
void export_stream_name(char name[EXPORT_NAME_BYTES], const struct export_meta *meta, uint32_t id);

/* Ops in the order in which their slices begin, of nested ones the outer first. Zeroed is empty. */
struct export_order {
	const struct op **op;
	size_t size;
};
const struct op **export_sort(struct export_order *order, const struct op *op, size_t count);
void export_order_clear(struct export_order *order);

/* 1: the first time that this thing is named, 0: it was before, or -ENOMEM. */
int export_first(struct map *seen, uint64_t what, uint64_t id);

#endif
