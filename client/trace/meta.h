/* meta.h: the things that ops refer to by number: processes, devices, streams, functions, names,
 * stacks; and losses.
 *
 * Texts are copied, made valid UTF-8 and cut at META_TEXT_BYTES. Everything lives as long as the
 * metadata. Equal texts and equal frames are stored once and numbered from 1. */
#ifndef TS_CLIENT_EXPORT_META_H
#define TS_CLIENT_EXPORT_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/base/map.h"
#include "core/model/frame.h"
#include "core/model/function.h"
#include "proto/event.h"

#define META_TEXT_BYTES 4096

struct meta_text {
	uint32_t number;
	char text[];
};

struct meta_process {
	uint32_t id, pid;
	const struct meta_text *name;	 /* of the program */
	const struct meta_text *command; /* NULL: not known */
};

struct meta_stream {
	uint32_t id, process, tid;
	uint64_t handle, context;
	int16_t device;
};

/* As one process numbers them. */
struct meta_device {
	const struct meta_text *name; /* NULL: not known */
	uint64_t context;	      /* of its first stream */
	bool contexts;		      /* it has several */
};

struct meta_frame {
	uint32_t number;
	const struct meta_text *function; /* never NULL; module and offset if it has no name */
	const struct meta_text *label;	  /* the same; with file and line if it is Python's */
	const struct meta_text *module;	  /* never NULL */
	const struct meta_text *file;	  /* of the source; NULL: not known */
	uint64_t offset;		  /* in the module */
	uint32_t line;			  /* 0: not known */
	uint8_t kind;			  /* enum frame_kind */
	bool inlined;			  /* compiled into the next frame */
};

struct meta_stack {
	uint32_t number;
	uint32_t count;
	const struct meta_frame *frame[]; /* innermost first */
};

struct meta_loss {
	const struct meta_loss *next;
	uint64_t start_ns, end_ns, count;
	uint32_t process; /* 0: owner unknown */
	uint32_t reason;  /* number */
	const struct meta_text *name;
};

/* An allocation that is live. */
struct meta_held {
	uint64_t address, bytes, stack_id;
	uint64_t requested_bytes; /* of a framework's block; 0: unknown */
	uint64_t at_ns;		  /* when it was made */
	uint32_t process;
	int16_t device;
	uint8_t kind; /* enum memory_kind */
};

/* What a framework's allocator last said of itself. */
struct meta_allocator {
	const struct meta_allocator *next;
	uint64_t bytes, used_bytes;
	uint32_t process;
	int16_t device;
};

/* Texts for things without a name of their own. */
#define META_FIXED(X)                                                                              \
	X(SET, "memset")                                                                           \
	X(GRAPH, "graph")                                                                          \
	X(KERNEL, "unknown kernel")                                                                \
	X(RANGE, "unknown range")                                                                  \
	X(FUNCTION, "unknown function")

/* enum CUpti_ActivityOverheadKind */
#define META_OVERHEADS(X)                                                                          \
	X(0, "CUPTI overhead") /* and newer ones */                                                \
	X(1, "driver compilation")                                                                 \
	X(1 << 16, "CUPTI buffer flush")                                                           \
	X(2 << 16, "CUPTI instrumentation")                                                        \
	X(3 << 16, "CUPTI resource creation")                                                      \
	X(4 << 16, "module loading by the runtime")                                                \
	X(5 << 16, "lazy function loading")                                                        \
	X(6 << 16, "command buffer full")                                                          \
	X(7 << 16, "CUPTI buffer request")                                                         \
	X(8 << 16, "CUPTI managed memory setup")

#define X(...) +1
enum { META_OVERHEAD_COUNT = 0 META_OVERHEADS(X) };
#undef X

enum meta_fixed {
#define X(name, text) META_FIXED_##name,
	META_FIXED(X)
#undef X
		META_FIXED_COUNT
};

struct meta {
	int64_t wall_offset_ns; /* add to a time to get CLOCK_REALTIME */
	struct map process, device, stream, stack, text, frame, name;
	struct map tie; /* of traces of several hosts */
	const struct meta_text *fixed[META_FIXED_COUNT];
	const struct meta_text *copy[COPY_KIND_MAX + 1]; /* by kind, 0: unknown */
	const struct meta_text *overhead[META_OVERHEAD_COUNT];
	const struct meta_loss *loss; /* first */
	struct meta_loss *loss_last;
	const struct meta_text **function; /* by number; NULL: none */
	uint32_t function_count;
	uint32_t text_count, frame_count, stack_count;
	/* Of formats that ask for them. */
	struct meta_held *held;
	size_t held_count, held_room;
	const struct meta_allocator *allocator; /* the last one told */
	struct arena arena;
};

struct meta *meta_free(struct meta *meta);
int meta_new(struct meta **ret);

/* These return 0 or -ENOMEM. A NULL text is unknown. */
int meta_add_process(struct meta *meta, uint32_t id, uint32_t pid, const char *comm,
		     const char *command);
int meta_add_stream(struct meta *meta, const struct meta_stream *stream);
int meta_add_device(struct meta *meta, uint32_t process, int16_t ordinal, const char *name);
int meta_add_name(struct meta *meta, uint64_t id, const char *text);
int meta_add_function(struct meta *meta, uint16_t fn, const char *name);
int meta_add_loss(struct meta *meta, const struct meta_loss *loss, const char *name);

int meta_add_held(struct meta *meta, const struct meta_held *held);
int meta_add_allocator(struct meta *meta, const struct meta_allocator *allocator);

/* The work of a stream that starts then is part of something of several processes, which has a
 * number above 0. */
int meta_add_tie(struct meta *meta, uint32_t process, uint32_t stream, uint64_t start_ns,
		 uint64_t number);
/* 0: of nothing. */
uint64_t meta_tie(const struct meta *meta, uint32_t process, uint32_t stream, uint64_t start_ns);

/* A frame without a function or a module is named by what is known. */
const struct meta_frame *meta_frame(struct meta *meta, const struct frame *source);
int meta_add_stack(struct meta *meta, uint64_t id, const struct meta_frame *const *frame,
		   uint32_t count);

/* NULL: not known. */
const struct meta_process *meta_process(const struct meta *meta, uint32_t id);
const struct meta_stream *meta_stream(const struct meta *meta, uint32_t id);
const struct meta_device *meta_device(const struct meta *meta, uint32_t process, int16_t ordinal);
const struct meta_text *meta_name(const struct meta *meta, uint64_t id);
const struct meta_text *meta_overhead(const struct meta *meta, uint64_t kind);
const struct meta_stack *meta_stack(const struct meta *meta, uint64_t id);
const struct meta_text *meta_function(const struct meta *meta, uint16_t fn);

CLEANUP_DEFINE(struct meta, meta_free)

#endif
