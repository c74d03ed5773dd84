/* show.h: how to show an op: its fields, whether it is a call, work or both, and its names. */
#ifndef TS_CLIENT_SHOW_H
#define TS_CLIENT_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/trace/meta.h"
#include "core/model/op.h"

/* The fields of an op besides its name and times. */
enum show_how { SHOW_NUMBER, SHOW_SIGNED, SHOW_ADDRESS };

struct show_field {
	const char *name;
	uint16_t offset; /* in struct op, or in struct show_work */
	uint8_t width;	 /* bytes: 4 or 8 */
	uint8_t count;	 /* more than 1: an array */
	uint8_t how;	 /* enum show_how */
	bool work;	 /* applies to the work, not to the call that submitted it */
};
extern const struct show_field show_fields[];
extern const size_t show_field_count;

/* `from`: the op, or the result of show_work_get(). */
uint64_t show_field_value(const struct show_field *field, const void *from, uint32_t index);
bool show_field_shown(const struct show_field *field, const void *from); /* it is not 0 */

/* Values derived from an op with exact times and the metadata. */
struct show_work {
	uint64_t context;
	uint64_t launch_delay_ns; /* from the start of the call to the start on the device */
	uint64_t seen_after_ns; /* from the end on the device to the return of a call that waited */
	uint64_t bytes_per_second;
};
extern const struct show_field show_work_fields[];
extern const size_t show_work_field_count;

void show_work_get(const struct meta *meta, const struct op *op, struct show_work *ret);

/* Flags that matter to the reader. */
struct show_mark {
	const char *name;
	uint16_t flag;
	bool work; /* of the work only */
};
extern const struct show_mark show_marks[];
extern const size_t show_mark_count;

bool show_marked(const struct show_mark *mark, const struct op *op, bool work);

const char *show_kind_name(uint8_t kind);
const char *show_state_name(uint8_t state);
/* The meaning of op.detail, as in the table `detail`; NULL: none. */
const char *show_detail_name(uint8_t kind, uint8_t detail);
/* An id for a device of a process, above the ids of streams. */
uint64_t show_device_key(const struct op *op);
/* What an op is: a call by a thread, work with exact times on a device, or both. */
bool show_has_call(const struct op *op);
bool show_has_work(const struct op *op);
bool show_is_submission(const struct op *op); /* it should have had exact times */
/* The number that links a call to its work, the same in the ops of both; 0: none. */
uint64_t show_flow(const struct op *op);
/* Of work, a range, an overhead. */
const struct meta_text *show_work_name(const struct meta *meta, const struct op *op);
const struct meta_text *show_call_name(const struct meta *meta, const struct op *op);
/* Of a range: NULL for the default one. */
const struct meta_text *show_domain(const struct meta *meta, const struct op *op);
bool show_has_memory(const struct op *op); /* its live_bytes mean something */
bool show_is_host(const struct op *op);	   /* the memory is the host's */
uint64_t show_end_ns(const struct op *op); /* of the call; its start if the return is unknown */
/* Moves the ops whose call or work overlaps the window to the front, and returns their number. */
size_t show_keep_window(struct op *op, size_t count, uint64_t since_ns, uint64_t until_ns);

/* Names of things without a name of their own. */
#define SHOW_NAME_BYTES 64
void show_device_name(char name[SHOW_NAME_BYTES], int16_t device, const char *what);
void show_gpu_name(char name[SHOW_NAME_BYTES], const struct meta *meta,
		   const struct op *op); /* with its model */
void show_memory_name(char name[SHOW_NAME_BYTES], const struct op *op);
void show_thread_name(char name[SHOW_NAME_BYTES], const struct meta_process *process, uint32_t tid);
void show_stream_name(char name[SHOW_NAME_BYTES], const struct meta *meta, uint32_t id);

#endif
