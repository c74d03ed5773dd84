/* symbol.h: names for addresses. A thread of its own reads ELF files; the loop never waits.
 */
#ifndef TS_SYMBOL_H
#define TS_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"
#include "daemon/maps/maps.h"
#include "daemon/symbol/cache.h"

struct symbolizer;
struct places_at;

/* A frame to name. The first one of a stack is where the program was; the others are return
 * addresses, so their name is that of the instruction before. The frame holds a reference to the
 * file, NULL if unknown. A frame that is not native comes with its names. */
struct symbol_frame {
	uint64_t address;
	uint64_t offset; /* in the file */
	struct maps_file *file;
	char *name;    /* out: demangled, NULL where there is none */
	char *source;  /* out: its file, NULL: not known */
	uint32_t line; /* out: 0: not known */
	uint8_t kind;  /* enum frame_kind */
	uint8_t mark;  /* of a frame of Python: enum merge_mark */

	/* For lines.h. */
	struct cache_key key; /* out: of the instruction, if `keyed` */
	bool keyed;
	const struct places_at *places; /* lent; NULL: unknown */
};

struct symbol_job {
	uint64_t stack_id;
	uint32_t process;   /* id of the process row */
	uint32_t pid, user; /* of the process; user as in struct core_process */
	uint32_t count;
	uint32_t lined;	     /* frames that had their lines when it was stored */
	uint8_t end, linked; /* as in struct ts_stack */
	bool python_whole;   /* its frames of Python, if there are */
	struct list link;    /* the symbolizer's */
	struct symbol_frame frame[];
};

/* `done` is called on the loop and owns the job. */
int symbolizer_new(uv_loop_t *loop, void (*done)(void *data, struct symbol_job *job), void *data,
		   struct symbolizer **ret);
/* Finishes what is queued, then frees. */
void symbolizer_close(struct symbolizer *symbolizer, void (*closed)(void *data));

/* Frames are zeroed. Jobs are made and freed on the loop. */
struct symbol_job *symbol_job_new(uint32_t count);
struct symbol_job *symbol_job_free(struct symbol_job *job);
/* Takes the job over. -EAGAIN: too many are waiting; the job is freed. */
int symbolizer_add(struct symbolizer *symbolizer, struct symbol_job *job);
/* Names what was added so far without waiting for more; returns how many that are since the
 * start. */
uint64_t symbolizer_hurry(struct symbolizer *symbolizer);
/* How many of them are done; they finish in order. */
uint64_t symbolizer_named(const struct symbolizer *symbolizer);

#endif
