/* CSV export (RFC 4180, lines end with \n): a line of names, then a line per op, with the columns
 * and values of the table `op` (docs/tables.md); an empty field is NULL. Lines are written chunk by
 * chunk, so they are in order of time only within one process, stream and kind. */
#include <errno.h>

#include "client/export/export.h"
#include "client/output/csv.h"
#include "core/base/array.h"

/* name, whether it is NULL, value. As in SQL, 64-bit values are signed. */
#define COLUMNS(X)                                                                                 \
	X(process, false, op->process)                                                             \
	X(pid, false, process->pid)                                                                \
	X(tid, false, op->tid)                                                                     \
	X(start_ns, false, op->start_ns)                                                           \
	X(end_ns, !op->end_ns, op->end_ns)                                                         \
	X(duration_ns, !op->end_ns, op->end_ns - op->start_ns)                                     \
	X(gpu_start_ns, !op->gpu_start_ns, op->gpu_start_ns)                                       \
	X(gpu_end_ns, !op->gpu_end_ns, op->gpu_end_ns)                                             \
	X(seen_ns, !op->seen_ns, op->seen_ns)                                                      \
	X(bounds, false, !!(op->flags & OP_BOUNDS))                                                \
	X(exact, false, !!(op->flags & OP_EXACT))                                                  \
	X(device, false, op->device)                                                               \
	X(stream, false, op->stream)                                                               \
	X(result, !(op->flags & OP_RETURNED), op->result)                                          \
	X(bytes, false, op->bytes)                                                                 \
	X(address, false, op->address)                                                             \
	X(source, false, op->source)                                                               \
	X(handle, false, op->handle)                                                               \
	X(stack, false, op->stack_id)                                                              \
	X(live_bytes, false, op->live_bytes)                                                       \
	X(grid_x, false, op->grid[0])                                                              \
	X(grid_y, false, op->grid[1])                                                              \
	X(grid_z, false, op->grid[2])                                                              \
	X(block_x, false, op->block[0])                                                            \
	X(block_y, false, op->block[1])                                                            \
	X(block_z, false, op->block[2])                                                            \
	X(shared_bytes, false, op->shared_bytes)                                                   \
	X(static_bytes, false, op->static_bytes)                                                   \
	X(local_bytes, false, op->local_bytes)                                                     \
	X(registers, false, op->registers)                                                         \
	X(graph, false, op->graph)                                                                 \
	X(node, false, op->node)                                                                   \
	X(captured, false, !!(op->flags & OP_CAPTURED))                                            \
	X(no_call, false, !!(op->flags & OP_NO_CALL))                                              \
	X(untimed, false, !!(op->flags & OP_UNTIMED))                                              \
	X(correlation, false, op->correlation)                                                     \
	X(flags, false, op->flags)

/* Text columns; the last two are not in the table. */
static const char *const texts[] = {
	"kind", "fn", "detail", "name", "process_name", "device_name"
};
#define TEXT_COUNT ARRAY_SIZE(texts)

struct exporter {
	const struct meta *meta;
	struct out *out;
	bool spreadsheet;
};

static void write_texts(struct exporter *x, const struct meta_process *process, const struct op *op)
{
	const struct meta_device *device = meta_device(x->meta, op->process, op->device);
	const struct meta_text *function = meta_function(x->meta, op->fn);
	const struct meta_text *name = op->name ? meta_name(x->meta, op->name) : NULL;
	const char *text[TEXT_COUNT] = {
		show_kind_name(op->kind),
		function ? function->text : NULL,
		show_detail_name(op->kind, op->detail),
		name ? name->text : NULL,
		process->name->text,
		device && device->name ? device->name->text : NULL,
	};

	for (size_t i = 0; i < TEXT_COUNT; i++) {
		*x->out->at++ = ',';
		if (text[i])
			csv_text(x->out, text[i], x->spreadsheet);
	}
}

static int csv_op(struct exporter *x, const struct op *op)
{
	const struct meta_process *process = meta_process(x->meta, op->process);
	struct out *out = x->out;
	int r = out_room(out);

	if (r < 0 || !process)
		return r < 0 ? r : -ENOENT;
#define X(name, null, value)                                                                       \
	if (!(null))                                                                               \
		out_signed(out, (int64_t)(value));                                                 \
	*out->at++ = ',';
	COLUMNS(X)
#undef X
	out->at--; /* without the texts */
	write_texts(x, process, op);
	*out->at++ = '\n';
	return 0;
}

static int csv_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	x->out = out;
	x->meta = meta;
#define X(name, null, value) out_text(x->out, #name ",");
	COLUMNS(X)
#undef X
	x->out->at--;
	for (size_t i = 0; i < TEXT_COUNT; i++) {
		*x->out->at++ = ',';
		out_text(x->out, texts[i]);
	}
	*x->out->at++ = '\n';
	return 0;
}

static int spreadsheet_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	x->spreadsheet = true;
	return csv_begin(x, meta, out);
}

const struct export_format export_csv_spreadsheet = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = spreadsheet_begin,
	.op = csv_op,
};
const struct export_format export_csv = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = csv_begin,
	.op = csv_op,
};
