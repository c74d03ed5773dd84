/* View tree: processes, below them devices with their streams and the host's threads, each with
 * sums, and the ops below each stream and thread. The first pass over the trace computes the sums;
 * then one pass per stream and thread reads only its own chunks, so nothing is kept in memory. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/json.h"
#include "client/output/table.h"
#include "client/view/view.h"
#include "core/base/spans.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

#define LABEL_WIDTH 48
#define NAME_BYTES  (2 * SHOW_NAME_BYTES)
#define HOST_RANK   UINT64_MAX /* after all devices */
#define CHUNKS_MAX  500000     /* in total, since each part takes a pass of its own */

enum level { LEVEL_ROOT, LEVEL_PROCESS, LEVEL_PLACE, LEVEL_PART };

/* A place is a device of the process, or the host; a part is a stream or a thread. */
struct node {
	struct node *parent, *child, *next; /* child: first, by rank */
	uint64_t rank;
	enum level level;
	struct view_part part; /* whatever is known at this level */
	int16_t device;
	uint64_t ops, gpu_ns, busy_ns;
	uint64_t first_ns, last_ns; /* of the calls */
	struct spans spans;	    /* of the device's work */
};

struct tree {
	struct view *view;
	struct node root;
	struct map part; /* nodes, by process and stream or thread */
	uint64_t begin_ns, end_ns;
	uint64_t left;	     /* of a part: ops still to show */
	uint64_t more;	     /* ops not shown */
	unsigned int unread; /* parts */
};

static void clear(struct node *node)
{
	while (node->child) {
		struct node *child = node->child;

		node->child = child->next;
		clear(child);
		free(child);
	}
	spans_clear(&node->spans);
}

/* The child of this rank, created if missing. */
static struct node *child_get(struct node *parent, uint64_t rank)
{
	struct node **at = &parent->child, *node;

	while (*at && (*at)->rank < rank)
		at = &(*at)->next;
	if (*at && (*at)->rank == rank)
		return *at;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->parent = parent;
	node->level = parent->level + 1;
	node->rank = rank;
	node->part = parent->part;
	node->device = parent->device;
	node->next = *at;
	*at = node;
	return node;
}

/* A stream is on one device, whatever its ops claim. */
static int16_t device_of(const struct meta *meta, const struct op *op)
{
	const struct meta_stream *stream = meta_stream(meta, op->stream);

	return stream ? stream->device : op->device;
}

static struct node *part_make(struct tree *tree, const struct op *op)
{
	const struct meta *meta = tree->view->trace.meta;
	uint32_t pid = meta_process(meta, op->process)->pid;
	struct node *node = child_get(&tree->root, (uint64_t)pid << 32 | op->process);
	int16_t device = device_of(meta, op);

	if (!node)
		return NULL;
	node->part.process = op->process;
	node = child_get(node, op->stream ? (uint16_t)(device + 1) : HOST_RANK);
	if (!node)
		return NULL;
	node->device = op->stream ? device : DEVICE_UNKNOWN;
	node = child_get(node, op->stream ? op->stream : op->tid);
	if (!node)
		return NULL;
	node->part.stream = op->stream;
	node->part.tid = op->stream ? 0 : op->tid;
	return node;
}

static struct node *part_get(struct tree *tree, const struct op *op)
{
	struct map_key key = { op->process, op->stream ? (uint64_t)op->stream << 32 : op->tid };
	struct node *node = map_get(&tree->part, key);

	if (node)
		return node;
	node = part_make(tree, op);
	return node && map_put(&tree->part, key, node) == 0 ? node : NULL;
}

static void count_busy(const struct tree *tree, struct node *node, uint64_t before_ns)
{
	struct span span;

	while (spans_take(&node->spans, before_ns, &span)) {
		if (span.start_ns < tree->begin_ns)
			span.start_ns = tree->begin_ns;
		if (span.end_ns > tree->end_ns)
			span.end_ns = tree->end_ns;
		if (span.end_ns > span.start_ns)
			node->busy_ns += span.end_ns - span.start_ns;
	}
}

static int add_op(void *data, const struct op *op)
{
	struct tree *tree = data;
	struct node *node = part_get(tree, op);

	if (!node)
		return -ENOMEM;
	for (; node->level > LEVEL_ROOT; node = node->parent) {
		if (node->ops++ == 0 || op->start_ns < node->first_ns)
			node->first_ns = op->start_ns;
		if (op->start_ns > node->last_ns)
			node->last_ns = op->start_ns;
		if (!show_has_work(op))
			continue;
		node->gpu_ns += op->gpu_end_ns - op->gpu_start_ns;
		count_busy(tree, node, op->start_ns);
		if (spans_put(&node->spans, op->gpu_start_ns, op->gpu_end_ns) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void finish(const struct tree *tree, struct node *node)
{
	count_busy(tree, node, UINT64_MAX);
	for (struct node *child = node->child; child; child = child->next)
		finish(tree, child);
}

static double busy_share(const struct tree *tree, const struct node *node)
{
	if (tree->end_ns <= tree->begin_ns)
		return 0;
	return (double)node->busy_ns / (double)(tree->end_ns - tree->begin_ns);
}

static void node_name(const struct tree *tree, const struct node *node, char name[NAME_BYTES])
{
	const struct meta *meta = tree->view->trace.meta;
	const struct meta_process *process = meta_process(meta, node->part.process);
	struct op op = { .process = node->part.process, .device = node->device };

	switch (node->level) {
	case LEVEL_PROCESS:
		snprintf(name, NAME_BYTES, "%.64s (%" PRIu32 ")", process->name->text,
			 process->pid);
		break;
	case LEVEL_PLACE:
		if (node->rank == HOST_RANK)
			strcpy(name, "host");
		else
			show_gpu_name(name, meta, &op);
		break;
	default:
		if (node->part.stream)
			show_stream_name(name, meta, node->part.stream);
		else
			snprintf(name, NAME_BYTES, "thread %" PRIu32, node->part.tid);
	}
}

static void write_visible(FILE *out, const char *text)
{
	char clean[3 * META_TEXT_BYTES + 1];

	utf8_visible(clean, text, strlen(text));
	fputs(clean, out);
}

static void write_node(const struct tree *tree, const struct node *node)
{
	char name[NAME_BYTES], clean[3 * NAME_BYTES + 1], ns[UNITS_TEXT_SIZE];
	const struct view *view = tree->view;
	int indent = 2 * (node->level - LEVEL_PROCESS);
	double share = busy_share(tree, node);

	node_name(tree, node, name);
	utf8_visible(clean, name, strlen(name));
	fprintf(view->out, "%*s%s%-*s%s %9" PRIu64 " ops", indent, "", view->color ? "\033[1m" : "",
		LABEL_WIDTH - indent, clean, view->color ? "\033[0m" : "", node->ops);
	if (node->gpu_ns > 0)
		fprintf(view->out, "  GPU %s, busy %.*f %%",
			units_nanoseconds(ns, (int64_t)node->gpu_ns), share < 0.1 ? 2 : 1,
			100 * share);
	fputc('\n', view->out);
}

static void write_columns(FILE *out, const char *at, const char *call, const char *gpu,
			  const char *kind)
{
	fprintf(out, "      %11s  ", at);
	view_field(out, 8, call);
	fputs("  ", out);
	view_field(out, 8, gpu);
	fprintf(out, "  %-8s  ", kind);
}

static int write_op(void *data, const struct op *op)
{
	struct tree *tree = data;
	const struct view *view = tree->view;
	char at[VIEW_TIME_BYTES], size[VIEW_SIZE_BYTES], marks[VIEW_MARKS_BYTES];
	char call[UNITS_TEXT_SIZE] = "-", gpu[UNITS_TEXT_SIZE] = "-";

	if (tree->left == 0) {
		tree->more++;
		return 0;
	}
	tree->left--;
	view_time(view, op->start_ns, at);
	view_size(op, size);
	view_marks(op, marks);
	if (op->end_ns >= op->start_ns)
		units_nanoseconds(call, (int64_t)(op->end_ns - op->start_ns));
	if (show_has_work(op))
		units_nanoseconds(gpu, (int64_t)(op->gpu_end_ns - op->gpu_start_ns));
	write_columns(view->out, at, call, gpu, show_kind_name(op->kind));
	write_visible(view->out, view_name(view->trace.meta, op)->text);
	fprintf(view->out, "%s%s%s%s%s\n", *size ? "  " : "", size, *marks ? "  [" : "", marks,
		*marks ? "]" : "");
	return 0;
}

static int write_ops(struct tree *tree, const struct node *node)
{
	struct view *view = tree->view;
	uint64_t since_ns = view->trace.since_ns, until_ns = view->trace.until_ns;
	int r;

	if (view->trace.chunk_count > CHUNKS_MAX) {
		tree->unread++;
		return 0;
	}
	tree->left = view_limit(view);
	tree->more = 0;
	view->part = &node->part;
	if (since_ns < node->first_ns)
		view->trace.since_ns = node->first_ns;
	if (until_ns > node->last_ns + 1)
		view->trace.until_ns = node->last_ns + 1;
	r = view_read(view, write_op, tree, NULL);
	view->part = NULL;
	view->trace.since_ns = since_ns;
	view->trace.until_ns = until_ns;
	if (tree->more > 0)
		fprintf(view->out, "      and %" PRIu64 " more\n", tree->more);
	return r;
}

static int write_below(struct tree *tree, const struct node *node)
{
	int r = 0;

	for (const struct node *child = node->child; child && r == 0; child = child->next) {
		write_node(tree, child);
		r = child->level == LEVEL_PART ? write_ops(tree, child) : write_below(tree, child);
	}
	return r;
}

static void json_number_or_null(FILE *out, const char *name, bool known, int64_t value)
{
	fprintf(out, ",\"%s\":", name);
	if (known)
		fprintf(out, "%" PRId64, value);
	else
		fputs("null", out);
}

/* One row per node; columns that do not apply are null. */
static void write_json(const struct tree *tree, const struct node *node, bool *comma)
{
	const struct meta_process *process =
		meta_process(tree->view->trace.meta, node->part.process);
	bool part = node->level == LEVEL_PART;
	FILE *out = tree->view->out;

	if (node->level > LEVEL_ROOT) {
		fprintf(out, "%s\n{\"pid\":%" PRIu32 ",\"process_name\":", *comma ? "," : "",
			process->pid);
		json_string(out, process->name->text);
		json_number_or_null(out, "device", node->device != DEVICE_UNKNOWN, node->device);
		json_number_or_null(out, "stream", part && node->part.stream, node->part.stream);
		json_number_or_null(out, "tid", part && node->part.tid, node->part.tid);
		fprintf(out,
			",\"ops\":%" PRIu64 ",\"gpu_ns\":%" PRIu64 ",\"busy_ns\":%" PRIu64
			",\"busy_share\":",
			node->ops, node->gpu_ns, node->busy_ns);
		json_real(out, busy_share(tree, node));
		fputc('}', out);
		*comma = true;
	}
	for (const struct node *child = node->child; child; child = child->next)
		write_json(tree, child, comma);
}

static int write_tree(struct tree *tree, const Tracesmith__V1__Done *done)
{
	const struct view *view = tree->view;
	bool comma = false;
	int r;

	if (view->options->given & OPTION(JSON)) {
		fputs("{\"query\":\"view\",\"rows\":[", view->out);
		write_json(tree, &tree->root, &comma);
		fputs("\n],\"loss\":{", view->out);
		for (size_t i = 0; i < done->n_loss; i++) {
			fputs(i ? "," : "", view->out);
			json_string(view->out, done->loss[i]->reason);
			fprintf(view->out, ":%" PRIu64, done->loss[i]->count);
		}
		fputs("}}\n", view->out);
		return 0;
	}
	if (tree->root.child) {
		view_begin(view);
		write_columns(view->out, "at", "call", "GPU time", "kind");
		fputs("name\n", view->out);
	}
	r = write_below(tree, &tree->root);
	if (r < 0)
		return r;
	if (!tree->root.child)
		fputs("no rows\n", view->out);
	if (tree->unread > 0)
		complain("The operations of %u streams and threads are not shown: select with "
			 "--pid, --device or --stream",
			 tree->unread);
	table_losses(view->out, done);
	return 0;
}

int view_tree(struct view *view)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *end = NULL;
	const struct trace *trace = &view->trace;
	struct tree tree = {
		.view = view,
		.root = { .device = DEVICE_UNKNOWN },
		.begin_ns = trace->since_ns > trace->begin_ns ? trace->since_ns : trace->begin_ns,
		.end_ns = trace->end_ns,
	};
	int r = view_read(view, add_op, &tree, &end);

	if (r == 0) {
		finish(&tree, &tree.root);
		r = write_tree(&tree, end->done);
	}
	clear(&tree.root);
	map_clear(&tree.part);
	return r;
}
