/* Pprof export: GPU time by call stack for `go tool pprof` and other readers of its format, a
 * gzipped message Profile. https://github.com/google/pprof/blob/main/proto/profile.proto
 *
 * The stacks are those of the folded export, without the process, which is a label like the stream
 * and the device. A host function belongs to its object file, and has a location for each of its
 * lines that is known; without lines its call sites are not told apart. Texts are written right
 * before the first message that needs them, and numbered in that order. */
#include <stdio.h>

#include "client/export/fold.h"
#include "client/export/pb.h"
#include "core/base/utf8.h"

/* Fields of the messages. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_TYPE = 14,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_TEXT = 2,
	LABEL_NUMBER = 3,
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_HAS_FUNCTIONS = 7,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_FILE = 4,
};

/* The first texts, by number. */
#define TEXTS(X)                                                                                   \
	X(NONE, "")                                                                                \
	X(GPU_TIME, "gpu_time")                                                                    \
	X(NANOSECONDS, "nanoseconds")                                                              \
	X(LAUNCHES, "launches")                                                                    \
	X(UNITS, "count")                                                                          \
	X(BYTES, "bytes")                                                                          \
	X(PID, "pid")                                                                              \
	X(PROCESS, "process")                                                                      \
	X(DEVICE, "device")                                                                        \
	X(STREAM, "stream")                                                                        \
	X(COMMENT, "GPU time of CUDA, by TraceSmith " TS_VERSION)

enum {
#define X(id, text) TEXT_##id,
	TEXTS(X)
#undef X
};

/* Kinds of numbered things. */
enum what {
	WHAT_FUNCTION,
	WHAT_LOCATION,
	WHAT_FILE,
	WHAT_SOURCE,
	WHAT_PROCESS,
	WHAT_DEVICE,
	WHAT_STREAM
};

struct exporter {
	struct fold fold;
	struct out *out;
	struct map number; /* of texts, files and functions, by their content */
	uint64_t text_count, function_count, location_count, file_count;
};

static const char *const prefixes[] = {
#define X(name, folded) [FOLD_##name] = folded,
	FOLD_KINDS(X)
#undef X
};

/* The number of a thing, or 0. */
static uint64_t number_of(const struct exporter *x, enum what what, uint64_t id)
{
	return (uintptr_t)map_get(&x->number, (struct map_key){ what, id });
}

static int put_number(struct exporter *x, enum what what, uint64_t id, uint64_t number)
{
	return map_put(&x->number, (struct map_key){ what, id }, (void *)(uintptr_t)number);
}

static uint64_t write_text(struct exporter *x, const char *prefix, const char *text)
{
	char visible[3 * (META_TEXT_BYTES + 16) + 1]; /* `go tool pprof` prints them */
	size_t before = strlen(prefix);
	size_t length = utf8_visible(visible, text, strnlen(text, META_TEXT_BYTES + 16));

	pb_varint(x->out, PROFILE_STRING << 3 | PB_LENGTH);
	pb_varint(x->out, before + length);
	out_bytes(x->out, prefix, before);
	out_bytes(x->out, visible, length);
	return x->text_count++;
}

/* The mapped file of a host function; 0: device code has none, nor has that of Python. */
static int write_file(struct exporter *x, const struct meta_frame *frame, uint64_t *ret)
{
	uint64_t text;
	uint8_t *body;

	if (frame && frame->kind == FRAME_PYTHON)
		frame = NULL;
	*ret = frame ? number_of(x, WHAT_FILE, frame->module->number) : 0;
	if (!frame || *ret != 0)
		return 0;
	*ret = ++x->file_count;
	text = write_text(x, "", frame->module->text);
	body = pb_open(x->out, PROFILE_MAPPING);
	pb_uint(x->out, MAPPING_ID, *ret);
	pb_uint(x->out, MAPPING_FILE, text);
	pb_uint(x->out, MAPPING_HAS_FUNCTIONS, 1);
	pb_close(x->out, body);
	return put_number(x, WHAT_FILE, frame->module->number, *ret);
}

/* The text of a source file; 0: not known. */
static int write_source(struct exporter *x, const struct meta_frame *frame, uint64_t *ret)
{
	const struct meta_text *file = frame ? frame->file : NULL;

	*ret = file ? number_of(x, WHAT_SOURCE, file->number) : 0;
	if (!file || *ret != 0)
		return 0;
	*ret = write_text(x, "", file->text);
	return put_number(x, WHAT_SOURCE, file->number, *ret);
}

/* If the mangled name were equal to the name, pprof would demangle it and cut off template
 * arguments. */
static int write_function(struct exporter *x, const struct fold_node *node, uint64_t *ret)
{
	struct map_key key = { (uint64_t)node->kind << 8 | WHAT_FUNCTION, (uintptr_t)node->text };
	uint64_t text, source;
	uint8_t *body;
	int r = write_source(x, node->frame, &source);

	key.a |= source << 16;
	*ret = (uintptr_t)map_get(&x->number, key);
	if (r < 0 || *ret != 0)
		return r;
	*ret = ++x->function_count;
	text = write_text(x, prefixes[node->kind], node->text);
	body = pb_open(x->out, PROFILE_FUNCTION);
	pb_uint(x->out, FUNCTION_ID, *ret);
	pb_uint(x->out, FUNCTION_NAME, text);
	if (source != 0)
		pb_uint(x->out, FUNCTION_FILE, source);
	pb_close(x->out, body);
	return map_put(&x->number, key, (void *)(uintptr_t)*ret);
}

/* A function, or a line of it. */
static int write_location(struct exporter *x, const struct fold_node *node, uint64_t *ret)
{
	uint32_t number = node->frame ? node->frame->line : 0;
	uint64_t id, file, function = 0;
	uint8_t *body, *line;
	int r = out_room(x->out);

	if (r == 0)
		r = write_function(x, node, &function);
	if (r < 0)
		return r;
	id = function << 32 | number;
	*ret = number_of(x, WHAT_LOCATION, id);
	if (*ret != 0)
		return 0;
	r = write_file(x, node->frame, &file);
	if (r == 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	*ret = ++x->location_count;
	body = pb_open(x->out, PROFILE_LOCATION);
	pb_uint(x->out, LOCATION_ID, *ret);
	if (file != 0)
		pb_uint(x->out, LOCATION_MAPPING, file);
	line = pb_open(x->out, LOCATION_LINE);
	pb_uint(x->out, LINE_FUNCTION, function);
	if (number != 0)
		pb_uint(x->out, LINE_LINE, number);
	pb_close(x->out, line);
	pb_close(x->out, body);
	return put_number(x, WHAT_LOCATION, id, *ret);
}

/* The texts of labels, by number. */
struct labels {
	const struct meta_process *process;
	uint64_t process_text, device, stream;
};

static int name_process(struct exporter *x, const struct fold_node *node, struct labels *labels)
{
	labels->process = node->process;
	labels->process_text = number_of(x, WHAT_PROCESS, (uintptr_t)node->text);
	if (labels->process_text != 0)
		return 0;
	labels->process_text = write_text(x, "", node->text);
	return put_number(x, WHAT_PROCESS, (uintptr_t)node->text, labels->process_text);
}

static int name_device(struct exporter *x, const struct op *op, struct labels *labels)
{
	char name[SHOW_NAME_BYTES];

	labels->device = number_of(x, WHAT_DEVICE, show_device_key(op));
	if (labels->device != 0)
		return 0;
	show_gpu_name(name, x->fold.meta, op);
	labels->device = write_text(x, "", name);
	return put_number(x, WHAT_DEVICE, show_device_key(op), labels->device);
}

static int name_stream(struct exporter *x, const struct op *op, struct labels *labels)
{
	char name[SHOW_NAME_BYTES];

	labels->stream = op->stream ? number_of(x, WHAT_STREAM, op->stream) : 0;
	if (op->stream == 0 || labels->stream != 0)
		return 0;
	show_stream_name(name, x->fold.meta, op->stream);
	labels->stream = write_text(x, "", name);
	return put_number(x, WHAT_STREAM, op->stream, labels->stream);
}

static int name_labels(struct exporter *x, const struct fold_node *leaf, struct labels *labels)
{
	struct op op = { .stream = leaf->stream, .device = leaf->device };
	const struct fold_node *node = leaf;
	int r;

	while (node->kind != FOLD_PROCESS)
		node = node->parent;
	op.process = node->process->id;
	r = name_process(x, node, labels);
	if (r == 0)
		r = name_device(x, &op, labels);
	return r < 0 ? r : name_stream(x, &op, labels);
}

static void write_label(struct out *out, uint64_t key, uint32_t field, uint64_t value)
{
	uint8_t *body = pb_open(out, SAMPLE_LABEL);

	pb_uint(out, LABEL_KEY, key);
	pb_uint(out, field, value);
	pb_close(out, body);
}

/* Locations go from the innermost, which ran on the device, to the outermost. */
static int write_sample(struct exporter *x, const struct fold_node *leaf)
{
	uint64_t location[FOLD_DEPTH_MAX];
	struct labels labels = { 0 };
	uint32_t count = 0;
	uint8_t *body;
	int r = out_room(x->out);

	if (r == 0)
		r = name_labels(x, leaf, &labels);
	for (const struct fold_node *node = leaf->parent; r == 0 && node->kind != FOLD_PROCESS;
	     node = node->parent)
		r = write_location(x, node, &location[count++]);
	if (r == 0)
		r = out_room(x->out);
	if (r < 0)
		return r;
	body = pb_open(x->out, PROFILE_SAMPLE);
	for (uint32_t i = 0; i < count; i++)
		pb_uint(x->out, SAMPLE_LOCATION, location[i]);
	pb_uint(x->out, SAMPLE_VALUE, leaf->ns);
	pb_uint(x->out, SAMPLE_VALUE, leaf->count);
	pb_uint(x->out, SAMPLE_VALUE, leaf->bytes);
	write_label(x->out, TEXT_PID, LABEL_NUMBER, labels.process->pid);
	write_label(x->out, TEXT_PROCESS, LABEL_TEXT, labels.process_text);
	write_label(x->out, TEXT_DEVICE, LABEL_TEXT, labels.device);
	if (labels.stream != 0)
		write_label(x->out, TEXT_STREAM, LABEL_TEXT, labels.stream);
	pb_close(x->out, body);
	return 0;
}

static int write_below(struct exporter *x, const struct fold_node *node)
{
	int r = node->kind == FOLD_STREAM ? write_sample(x, node) : 0;

	for (const struct fold_node *child = node->child; child && r == 0; child = child->next)
		r = write_below(x, child);
	return r;
}

static void write_type(struct out *out, uint64_t type, uint64_t unit)
{
	uint8_t *body = pb_open(out, PROFILE_SAMPLE_TYPE);

	pb_uint(out, TYPE_TYPE, type);
	pb_uint(out, TYPE_UNIT, unit);
	pb_close(out, body);
}

static void write_head(struct exporter *x)
{
	const struct fold *fold = &x->fold;
	char note[EXPORT_NOTE_BYTES];

#define X(id, text) write_text(x, "", text);
	TEXTS(X)
#undef X
	write_type(x->out, TEXT_GPU_TIME, TEXT_NANOSECONDS);
	write_type(x->out, TEXT_LAUNCHES, TEXT_UNITS);
	write_type(x->out, TEXT_BYTES, TEXT_BYTES);
	pb_uint(x->out, PROFILE_DEFAULT_TYPE, TEXT_GPU_TIME);
	pb_uint(x->out, PROFILE_COMMENT, TEXT_COMMENT);
	fold_note(x, note);
	if (*note)
		pb_uint(x->out, PROFILE_COMMENT, write_text(x, "", note));
	if (fold->last_ns == 0)
		return;
	pb_uint(x->out, PROFILE_TIME, fold->first_ns + (uint64_t)fold->meta->wall_offset_ns);
	pb_uint(x->out, PROFILE_DURATION, fold->last_ns - fold->first_ns);
}

static int pprof_end(struct exporter *x)
{
	int r = fold_finish(&x->fold, NULL);

	if (r < 0)
		return r;
	write_head(x);
	return write_below(x, &x->fold.root);
}

static void pprof_clear(struct exporter *x)
{
	fold_clear(&x->fold);
	map_clear(&x->number);
}

static int pprof_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	x->fold.meta = meta;
	x->fold.by_stream = true;
	x->fold.by_line = true;
	x->out = out;
	return 0;
}

const struct export_format export_pprof = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = pprof_begin,
	.op = fold_op,
	.end = pprof_end,
	.note = fold_note,
	.clear = pprof_clear,
	.gzipped = true,
	.exact = true,
};
