/* fold.h: GPU time by its origin: a tree of processes, the functions on their call stacks and, at
 * the leaves, what ran on the device. It has only ops with exact times. If stacks are sampled, each
 * also stands for launches without one (core/model/estimate.h).
 *
 * It grows with the distinct stacks and names, never with the ops. */
#ifndef TS_CLIENT_FOLD_H
#define TS_CLIENT_FOLD_H

#include "client/export/export.h"
#include "core/model/estimate.h"

/* identifier, prefix of its text in folded stacks */
#define FOLD_KINDS(X)                                                                              \
	X(ALL, "")                                                                                 \
	X(PROCESS, "")                                                                             \
	X(HOST, "")                                                                                \
	X(PYTHON, "")                                                                              \
	X(NO_STACK, "[no stack]")                                                                  \
	X(KERNEL, "[GPU_Kernel]")                                                                  \
	X(COPY, "[GPU_Copy]")                                                                      \
	X(SET, "[GPU_Set]")                                                                        \
	X(GRAPH, "[GPU_Graph]") /* as a whole */                                                   \
	X(STREAM, "")		/* below these if wanted: where it ran */

enum fold_kind {
#define X(name, folded) FOLD_##name,
	FOLD_KINDS(X)
#undef X
};

struct fold_node {
	struct fold_node *parent, *child, *next; /* child: first */
	const char *text;			 /* "" if the kind says it all */
	const struct meta_process *process;	 /* of FOLD_PROCESS */
	const struct meta_frame *frame;		 /* of HOST and PYTHON: the first of this name */
	uint64_t ns, count; /* of a leaf; after fold_finish() of everything below */
	uint64_t bytes;	    /* likewise: copied or set */
	uint64_t scaled;    /* likewise: the part of `count` that is estimated */
	uint32_t stream;    /* of FOLD_STREAM, as the next */
	int16_t device;
	uint8_t kind;  /* enum fold_kind */
	uint8_t depth; /* of the root 0 */
};

#define FOLD_DEPTH_MAX (FRAMES_MAX + 4)

struct fold {
	const struct meta *meta;
	bool by_stream;
	bool by_line; /* lines of a function are told apart; Python's always are */
	struct fold_node root;
	uint64_t first_ns, last_ns; /* time span of the ops */
	struct map node;	    /* by parent and text */
	struct map leaf;	    /* shortcut by process, stack and what ran */
	struct estimate estimate;   /* owner in the keys is the first op */
	uint64_t sampled;	    /* ops with a stack; after fold_finish() */
	struct arena arena;
};

/* Zeroed but for `meta`, `by_stream` and `by_line` is empty. */
int fold_add(struct fold *fold, const struct op *op);
/* Sums up, and sorts the children of each node with `order`, a comparison of pointers to them as
 * for qsort(3); NULL: unsorted. Once, at the end. */
int fold_finish(struct fold *fold, int (*compare)(const void *, const void *));
void fold_clear(struct fold *fold);
/* Whether times below the processes are estimated. */
bool fold_is_estimated(const struct fold *fold);

/* Of formats whose exporter starts with its fold. */
int fold_op(struct exporter *exporter, const struct op *op);
/* On the stacks, or "". */
void fold_note(const struct exporter *exporter, char note[EXPORT_NOTE_BYTES]);

#endif
