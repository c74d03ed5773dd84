/* python.h: what the threads of another process run in Python, read out of its memory while it goes
 * on. For CPython 3.9 to 3.14.
 *
 * Nothing in that memory is believed: a frame counts only if its code is a code object, chains and
 * texts end at limits.h, and reads at LIMIT_PYTHON_READS. Reading can take as long as the process
 * likes (its memory may be a file of a file system of its own), so this is never done on the loop.
 */
#ifndef TS_PYTHON_H
#define TS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/cleanup.h"
#include "daemon/python/code.h"
#include "daemon/python/find.h"

struct python;

struct python_frame {
	const struct code *code;
	uint64_t address; /* of the interpreter's frame */
	uint64_t position;
	int32_t line; /* 0: none */
};

/* A thread state: a thread has one for each interpreter that it runs code of. */
struct python_stack {
	uint32_t tid;		       /* as the process's PID namespace counts */
	int64_t interpreter;	       /* 0: the main one */
	size_t first, count;	       /* of the snapshot's frames, innermost first */
	size_t first_mark, mark_count; /* with those that Python does not show */
	bool moving; /* it changed while it was read: its frames may not belong together */
	bool cut;    /* LIMIT_PYTHON_FRAMES: outer frames are missing */
	bool broken; /* further frames could not be read */
};

struct python_snapshot {
	struct python_stack *stack;
	size_t stack_count, stack_room;
	struct python_frame *frame;
	size_t frame_count, frame_room;
	uint8_t *mark; /* of enum merge_mark */
	size_t mark_count, mark_room;
	bool cut; /* a limit of limits.h was reached: there may be more threads */
};

/* As find_python; with -EOPNOTSUPP, *ret_version is what it found. */
int python_open(uint32_t pid, struct python **ret, uint32_t *ret_version);
/* Of an interpreter that was found in some memory. */
int python_new(const struct find *find, const struct peek *peek, struct python **ret);
struct python *python_free(struct python *python);
uint32_t python_version(const struct python *python);
const struct find *python_found(const struct python *python);

/* All thread states of threads among `tid`, in the order of interpreters and threads: newest first.
 * The frames' code is valid until the next snapshot. -ESRCH: the process has ended. */
int python_take(struct python *python, const uint32_t *tid, size_t count,
		struct python_snapshot *ret);
/* The variables of a frame of the last snapshot: the first LIMIT_PYTHON_LOCALS that have a value,
 * in Python's order. -EAGAIN: the frame has gone on to another line or is gone, and what was passed
 * to `each` may be wrong; else as peek_bytes. */
int python_locals(struct python *python, const struct python_frame *frame,
		  int (*each)(void *data, const char *name, const char *value), void *data);
/* Of a frame that the BPF programs saw, by place.h. 1: it is none that Python shows. Its code is
 * valid until python_renew() or the next snapshot. -ESTALE: its code object is gone; else as
 * peek_bytes. */
int python_name(struct python *python, const struct ts_python_frame *frame,
		struct python_frame *ret);
/* Before names are asked for: so much may be read again. */
void python_renew(struct python *python);
void python_snapshot_clear(struct python_snapshot *snapshot);

CLEANUP_DEFINE(struct python, python_free)

#endif
