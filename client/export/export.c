/* Export: what formats share: the output, the order of ops, and the things already named. */
#include "client/export/export.h"

#include <errno.h>
#include <stdlib.h>

#include "client/export/gzip.h"
#include "core/base/vector.h"

struct export_run {
	const struct export_format *format;
	const struct meta *meta;
	struct out *out;
	struct gzip *gzip; /* NULL: not compressed */
	const struct op **sorted;
	size_t room; /* of `sorted` */
	struct exporter *exporter;
};

static int open_output(struct export_run *export, const struct out_sink *sink)
{
	struct out_sink compressed;
	int r;

	if (!export->format->gzipped)
		return out_new(sink, &export->out);
	r = gzip_new(sink, &export->gzip);
	if (r < 0)
		return r;
	compressed = gzip_sink(export->gzip);
	return out_new(&compressed, &export->out);
}

int export_new(const struct export_format *format, const struct meta *meta,
	       const struct out_sink *sink, struct export_run **ret)
{
	_cleanup_(export_freep) struct export_run *export = calloc(1, sizeof(*export));
	int r;

	if (!export)
		return -ENOMEM;
	export->format = format;
	export->meta = meta;
	r = open_output(export, sink);
	if (r < 0)
		return r;
	export->exporter = calloc(1, format->exporter_bytes);
	if (!export->exporter)
		return -ENOMEM;
	r = format->begin(export->exporter, meta, export->out);
	if (r < 0)
		return r;
	*ret = TAKE(export);
	return 0;
}

static uint64_t begin_of(const struct op *op)
{
	return show_has_work(op) ? op->gpu_start_ns : op->start_ns;
}

static uint64_t end_of(const struct op *op)
{
	return show_has_work(op) ? op->gpu_end_ns : op->end_ns;
}

static int compare(const void *a, const void *b)
{
	const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;

	if (begin_of(x) != begin_of(y))
		return begin_of(x) < begin_of(y) ? -1 : 1;
	if (end_of(x) != end_of(y))
		return end_of(x) > end_of(y) ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int sort_ops(struct export_run *export, const struct op *op, size_t count)
{
	bool sorted = true;

	if (VECTOR_ROOM(export->sorted, export->room, count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		export->sorted[i] = &op[i];
		if (i > 0 && sorted)
			sorted = compare(&export->sorted[i - 1], &export->sorted[i]) < 0;
	}
	if (!sorted)
		qsort(export->sorted, count, sizeof(*export->sorted), compare);
	return 0;
}

int export_ops(struct export_run *export, const struct op *op, size_t count)
{
	bool sorted = export->format->sorted;
	int r = sorted ? sort_ops(export, op, count) : 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = export->format->op(export->exporter, sorted ? export->sorted[i] : &op[i]);
	return r;
}

int export_end(struct export_run *export)
{
	const struct export_format *format = export->format;
	const struct meta_loss *loss = format->loss ? export->meta->loss : NULL;
	int r = 0;

	for (; loss && r == 0; loss = loss->next)
		r = format->loss(export->exporter, loss);
	if (r == 0 && format->end)
		r = format->end(export->exporter);
	if (r == 0)
		r = out_flush(export->out);
	return r == 0 && export->gzip ? gzip_end(export->gzip) : r;
}

void export_note(const struct export_run *export, char note[EXPORT_NOTE_BYTES])
{
	note[0] = '\0';
	if (export->format->note)
		export->format->note(export->exporter, note);
}

struct export_run *export_free(struct export_run *export)
{
	if (!export)
		return NULL;
	if (export->exporter && export->format->clear)
		export->format->clear(export->exporter);
	free(export->exporter);
	free(export->sorted);
	out_free(export->out);
	gzip_free(export->gzip);
	free(export);
	return NULL;
}

int export_slices(const struct export_slices *slices, struct exporter *exporter,
		  const struct op *op)
{
	int r = 0;

	if (op->kind == OP_STATE)
		return slices->state(exporter, op);
	if (op->kind == OP_RANGE || op->kind == OP_OVERHEAD)
		return slices->range(exporter, op);
	if (show_has_call(op))
		r = slices->call(exporter, op);
	if (r == 0 && show_has_work(op))
		r = slices->work(exporter, op);
	return r == 0 && show_has_memory(op) ? slices->memory(exporter, op) : r;
}

int export_first(struct map *seen, uint64_t what, uint64_t id)
{
	static char mark;
	struct map_key key = { what, id };

	if (map_get(seen, key))
		return 0;
	return map_put(seen, key, &mark) < 0 ? -ENOMEM : 1;
}
