/* Fold: a node is found by its parent and its text, so a function at several places of a file is
 * one node. Times are added to leaves, and at the end to all nodes above. */
#include "client/export/fold.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STREAM_NONE (1u << 31) /* and the device */

/* The key of a node among the children of its parent. */
static uint64_t node_key(enum fold_kind kind, uint32_t number, uint32_t more)
{
	return (uint64_t)kind << 56 | (uint64_t)(number & 0xffffff) << 32 | more;
}

static struct fold_node *node_get(struct fold *fold, struct fold_node *parent, enum fold_kind kind,
				  uint64_t key, const char *text)
{
	struct map_key place = { (uintptr_t)parent, key };
	struct fold_node *node = map_get(&fold->node, place);

	if (node)
		return node;
	node = arena_get(&fold->arena, sizeof(*node));
	if (!node || map_put(&fold->node, place, node) < 0)
		return NULL;
	*node = (struct fold_node){
		.parent = parent,
		.next = parent->child,
		.text = text,
		.kind = (uint8_t)kind,
		.depth = parent->depth + 1,
	};
	parent->child = node;
	return node;
}

/* A pid reused by the same program is not told apart. */
static struct fold_node *process_node(struct fold *fold, const struct meta_process *process)
{
	uint64_t key = node_key(FOLD_PROCESS, process->name->number, process->pid);
	struct map_key place = { (uintptr_t)&fold->root, key };
	struct fold_node *node = map_get(&fold->node, place);
	char text[META_TEXT_BYTES + 16], *copy;
	int length;

	if (node)
		return node;
	length =
		snprintf(text, sizeof(text), "%s (%" PRIu32 ")", process->name->text, process->pid);
	copy = arena_text(&fold->arena, text, length);
	node = copy ? node_get(fold, &fold->root, FOLD_PROCESS, key, copy) : NULL;
	if (node)
		node->process = process;
	return node;
}

static enum fold_kind kind_of(const struct meta *meta, const struct op *op)
{
	if (op->kind == OP_COPY)
		return FOLD_COPY;
	if (op->kind == OP_SET)
		return FOLD_SET;
	return show_work_name(meta, op) == meta->fixed[META_FIXED_GRAPH] ? FOLD_GRAPH : FOLD_KERNEL;
}

/* The name below a node that shows its kind. */
static const char *leaf_text(const struct meta *meta, enum fold_kind kind, const struct op *op)
{
	static const char *const copies[] = {
		[0] = "unknown",
#define X(number, identifier, name) [number] = name,
		COPY_KINDS(X)
#undef X
	};

	if (kind == FOLD_COPY)
		return copies[op->detail <= COPY_KIND_MAX ? op->detail : 0];
	return kind == FOLD_KERNEL ? show_work_name(meta, op)->text : "";
}

static struct fold_node *frame_node(struct fold *fold, struct fold_node *parent,
				    const struct meta_frame *frame)
{
	enum fold_kind kind = frame->kind == FRAME_PYTHON ? FOLD_PYTHON : FOLD_HOST;
	const struct meta_text *name = fold->by_line ? frame->function : frame->label;
	uint32_t line = fold->by_line && frame->line ? frame->number : 0;
	struct fold_node *node =
		node_get(fold, parent, kind, node_key(kind, line, name->number), name->text);

	if (node && !node->frame)
		node->frame = frame;
	return node;
}

static struct fold_node *stack_node(struct fold *fold, struct fold_node *node, const struct op *op)
{
	const struct meta_stack *stack = op->stack_id ? meta_stack(fold->meta, op->stack_id) : NULL;

	if (!stack || stack->count == 0)
		return node_get(fold, node, FOLD_NO_STACK, node_key(FOLD_NO_STACK, 0, 0), "");
	for (uint32_t i = stack->count; i > 0 && node; i--) /* from the outermost */
		node = frame_node(fold, node, stack->frame[i - 1]);
	return node;
}

static int leaf_get(struct fold *fold, const struct op *op, struct fold_node **ret)
{
	const struct meta_process *process = meta_process(fold->meta, op->process);
	enum fold_kind kind = kind_of(fold->meta, op);
	uint32_t what = kind == FOLD_COPY ? op->detail : show_work_name(fold->meta, op)->number;
	struct map_key place = { op->stack_id, (uint64_t)op->process << 32 | kind << 28 | what };
	struct fold_node *node = map_get(&fold->leaf, place);

	*ret = node;
	if (node)
		return 0;
	if (!process)
		return -ENOENT;
	node = process_node(fold, process);
	if (node)
		node = stack_node(fold, node, op);
	if (node)
		node = node_get(fold, node, kind, node_key(kind, 0, what),
				leaf_text(fold->meta, kind, op));
	*ret = node;
	return node ? map_put(&fold->leaf, place, node) : -ENOMEM;
}

static struct fold_node *stream_node(struct fold *fold, struct fold_node *leaf, const struct op *op)
{
	uint64_t key = node_key(FOLD_STREAM, (uint16_t)op->device, op->stream);
	struct fold_node *node = node_get(fold, leaf, FOLD_STREAM, key, "");

	if (node) {
		node->stream = op->stream;
		node->device = op->device;
	}
	return node;
}

/* Ops of one name that one thread submitted to one stream by the same function. */
static struct estimate_part *part_of(struct fold *fold, const struct op *op)
{
	enum fold_kind kind = kind_of(fold->meta, op);
	uint32_t what = kind == FOLD_COPY ? op->detail : show_work_name(fold->meta, op)->number;
	struct estimate_key key = {
		.what = (uint64_t)kind << 48 | (uint64_t)op->fn << 32 | what,
		.process = op->process,
		.graph = op->graph,
		.thread = op->tid,
		.stream = op->stream ? op->stream : STREAM_NONE | (uint16_t)op->device,
	};
	struct estimate_part *part = estimate_part(&fold->estimate, &key);
	struct op *first;

	if (!part || part->owner)
		return part;
	first = arena_get(&fold->arena, sizeof(*first));
	if (!first)
		return NULL;
	*first = *op;
	part->owner = first;
	return part;
}

int fold_add(struct fold *fold, const struct op *op)
{
	struct estimate_sum sum = { .count = 1, .ns = op->gpu_end_ns - op->gpu_start_ns };
	struct estimate_part *part;

	if (!show_has_work(op))
		return 0;
	if (!meta_process(fold->meta, op->process))
		return -ENOENT;
	part = part_of(fold, op);
	if (!part)
		return -ENOMEM;
	if (op->kind == OP_COPY || op->kind == OP_SET)
		sum.bytes = op->bytes;
	if (fold->first_ns == 0 || op->gpu_start_ns < fold->first_ns)
		fold->first_ns = op->gpu_start_ns;
	if (op->gpu_end_ns > fold->last_ns)
		fold->last_ns = op->gpu_end_ns;
	if (op->stack_id == 0 && op->flags & (OP_NO_CALL | OP_STACK_LOST)) {
		estimate_add_unstacked(part, &sum);
		return 0;
	}
	return estimate_add(&fold->estimate, part, 0, op->stack_id, &sum);
}

static int add_result(void *data, const struct estimate_result *result)
{
	struct fold *fold = data;
	struct op op = *(const struct op *)result->owner;
	struct fold_node *node;
	int r;

	op.stack_id = result->stack;
	r = leaf_get(fold, &op, &node);
	if (r < 0)
		return r;
	if (fold->by_stream)
		node = stream_node(fold, node, &op);
	if (!node)
		return -ENOMEM;
	node->ns += result->sum.ns;
	node->count += result->sum.count;
	node->bytes += result->sum.bytes;
	node->scaled += result->scaled;
	fold->sampled += result->sampled;
	return 0;
}

/* Sorts the children of a node. */
static int sort_children(struct fold_node *node, size_t count,
			 int (*compare)(const void *, const void *))
{
	_cleanup_(freep) struct fold_node **child = calloc(count, sizeof(*child));
	struct fold_node **link = &node->child;

	if (!child)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		child[i] = *link;
		link = &child[i]->next;
	}
	qsort(child, count, sizeof(*child), compare);
	link = &node->child;
	for (size_t i = 0; i < count; i++) {
		*link = child[i];
		link = &child[i]->next;
	}
	*link = NULL;
	return 0;
}

/* Recursion is as deep as the tree, which is bounded. */
static int finish(struct fold_node *node, int (*compare)(const void *, const void *))
{
	size_t count = 0;

	for (struct fold_node *child = node->child; child; child = child->next) {
		int r = finish(child, compare);

		if (r < 0)
			return r;
		node->ns += child->ns;
		node->count += child->count;
		node->bytes += child->bytes;
		node->scaled += child->scaled;
		count++;
	}
	return count > 1 && compare ? sort_children(node, count, compare) : 0;
}

int fold_op(struct exporter *exporter, const struct op *op)
{
	return fold_add((struct fold *)exporter, op);
}

int fold_finish(struct fold *fold, int (*compare)(const void *, const void *))
{
	int r = estimate_end(&fold->estimate, add_result, fold);

	return r < 0 ? r : finish(&fold->root, compare);
}

bool fold_is_estimated(const struct fold *fold)
{
	return fold->root.scaled > 0;
}

void fold_note(const struct exporter *exporter, char note[EXPORT_NOTE_BYTES])
{
	const struct fold *fold = (const struct fold *)exporter;

	note[0] = '\0';
	if (fold_is_estimated(fold))
		snprintf(note, EXPORT_NOTE_BYTES,
			 "Stacks are estimated from %" PRIu64
			 " samples: 'tsctl run --stacks all' takes all of them",
			 fold->sampled);
	else if (fold->root.count > 0 && fold->sampled == 0)
		snprintf(note, EXPORT_NOTE_BYTES,
			 "No stacks were taken: 'tsctl run --stacks all' takes all of them");
}

void fold_clear(struct fold *fold)
{
	estimate_clear(&fold->estimate);
	arena_clear(&fold->arena);
	map_clear(&fold->node);
	map_clear(&fold->leaf);
}
