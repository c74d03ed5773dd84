/* export_meta.h: what ops refer to by number: processes, devices, streams, functions, names,
 * stacks; and losses.
 *
 * Texts are copied, made valid UTF-8 and cut at EXPORT_TEXT_BYTES. Everything lives as long as the
 * metadata. Equal texts and equal frames are kept once, and numbered from 1.
 */
#ifndef TS_CLIENT_EXPORT_META_H
#define TS_CLIENT_EXPORT_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/base/map.h"
#include "core/function.h"
#include "proto/event.h"

#define EXPORT_TEXT_BYTES 4096

struct export_text {
	uint32_t number;
	char text[];
};

struct export_process {
	uint32_t id, pid;
	const struct export_text *name;	   /* of the program */
	const struct export_text *command; /* NULL: not known */
};

struct export_stream {
	uint32_t id, process, tid;
	uint64_t handle, context;
	int16_t device;
};

/* As one process counts them. */
struct export_device {
	const struct export_text *name; /* NULL: not known */
	uint64_t context;		/* of its first stream */
	bool contexts;			/* it has several */
};

struct export_frame {
	uint32_t number;
	const struct export_text *symbol; /* never NULL; file and offset where it has no name */
	const struct export_text *file;	  /* never NULL */
	uint64_t offset;
};

struct export_stack {
	uint32_t number;
	uint32_t count;
	const struct export_frame *frame[]; /* innermost first */
};

struct export_loss {
	const struct export_loss *next;
	uint64_t start_ns, end_ns, count;
	uint32_t process; /* 0: not known whose */
	uint32_t reason;  /* number */
	const struct export_text *name;
};

/* Texts for what has no name of its own. */
#define EXPORT_FIXED(X)                                                                            \
	X(SET, "memset")                                                                           \
	X(GRAPH, "graph")                                                                          \
	X(KERNEL, "unknown kernel")                                                                \
	X(RANGE, "unknown range")                                                                  \
	X(FUNCTION, "unknown function")

/* enum CUpti_ActivityOverheadKind */
#define EXPORT_OVERHEADS(X)                                                                        \
	X(0, "CUPTI overhead") /* and what comes later */                                          \
	X(1, "driver compiles")                                                                    \
	X(1 << 16, "CUPTI flushes a buffer")                                                       \
	X(2 << 16, "CUPTI instruments")                                                            \
	X(3 << 16, "CUPTI makes resources")                                                        \
	X(4 << 16, "runtime loads a module")                                                       \
	X(5 << 16, "lazy loading of a function")                                                   \
	X(6 << 16, "command buffer is full")                                                       \
	X(7 << 16, "CUPTI asks for a buffer")                                                      \
	X(8 << 16, "CUPTI prepares for managed memory")

#define X(...) +1
enum { EXPORT_OVERHEAD_COUNT = 0 EXPORT_OVERHEADS(X) };
#undef X

enum export_fixed {
#define X(name, text) EXPORT_FIXED_##name,
	EXPORT_FIXED(X)
#undef X
		EXPORT_FIXED_COUNT
};

struct export_meta {
	int64_t wall_offset_ns; /* add to a time to get CLOCK_REALTIME */
	struct map process, device, stream, stack, text, frame, name;
	const struct export_text *fixed[EXPORT_FIXED_COUNT];
	const struct export_text *copy[COPY_KIND_MAX + 1]; /* by kind, 0 as unknown */
	const struct export_text *overhead[EXPORT_OVERHEAD_COUNT];
	const struct export_loss *loss; /* first */
	struct export_loss *loss_last;
	const struct export_text **function; /* by number; NULL: no such */
	uint32_t function_count;
	uint32_t text_count, frame_count, stack_count;
	struct arena arena;
};

struct export_meta *export_meta_free(struct export_meta *meta);
int export_meta_new(struct export_meta **ret);

/* These return 0 or -ENOMEM. NULL texts are not known. */
int export_meta_add_process(struct export_meta *meta, uint32_t id, uint32_t pid, const char *comm,
			    const char *command);
int export_meta_add_stream(struct export_meta *meta, const struct export_stream *stream);
int export_meta_add_device(struct export_meta *meta, uint32_t process, int16_t ordinal,
			   const char *name);
int export_meta_add_name(struct export_meta *meta, uint64_t id, const char *text);
int export_meta_add_function(struct export_meta *meta, uint16_t fn, const char *name);
int export_meta_add_loss(struct export_meta *meta, const struct export_loss *loss,
			 const char *name);

/* Where it has no symbol, or no file, a frame is called by what there is. */
struct export_frame_source {
	const char *symbol, *file;
	uint64_t offset, address;
};
const struct export_frame *export_meta_frame(struct export_meta *meta,
					     const struct export_frame_source *source);
int export_meta_add_stack(struct export_meta *meta, uint64_t id,
			  const struct export_frame *const *frame, uint32_t count);

/* NULL: not known. */
const struct export_process *export_meta_process(const struct export_meta *meta, uint32_t id);
const struct export_stream *export_meta_stream(const struct export_meta *meta, uint32_t id);
const struct export_device *export_meta_device(const struct export_meta *meta, uint32_t process,
					       int16_t ordinal);
const struct export_text *export_meta_name(const struct export_meta *meta, uint64_t id);
const struct export_text *export_meta_overhead(const struct export_meta *meta, uint64_t kind);
const struct export_stack *export_meta_stack(const struct export_meta *meta, uint64_t id);
const struct export_text *export_meta_function(const struct export_meta *meta, uint16_t fn);

CLEANUP_DEFINE(struct export_meta, export_meta_free)

#endif
