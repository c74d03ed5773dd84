/* Replay write: copies the rows of the emulated recording, except for sums, with streams on their
 * new devices; then the emulated ops, their states and sums. Times in rows other than those of ops
 * (when a process ended, or something was lost) stay as recorded. Ops that are neither calls nor
 * work are left out: ranges and overhead. */
#include "client/replay/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/record/file.h"
#include "client/replay/sums.h"
#include "core/base/array.h"
#include "core/plan/emulate.h"
#include "core/sbt/rows.h"

#define FACT_BYTES 4096

struct replay_file {
	const char *path;
	const struct plan *plan;
	const struct plan_times *times;
	int fd;
	bool unread; /* and that was said */
	struct sbt_reader *reader;
	struct record_file *file;
	struct sbt_rows *rows;
	struct sbt_codec *codec;
	int64_t boot;
	int64_t since_ns, until_ns; /* of the recording */
	uint8_t *has_device;	    /* per process of the plan: the recording has its row */
};

static void replay_file_release(struct replay_file *file)
{
	sbt_reader_free(file->reader);
	record_file_free(file->file);
	sbt_rows_free(file->rows);
	sbt_codec_free(file->codec);
	free(file->has_device);
	closep(&file->fd);
}

static int fail(struct replay_file *file, int error)
{
	complain("Cannot read '%s': %s", file->path, strerror(-error));
	file->unread = true;
	return error;
}

static int read_bytes(void *data, uint64_t offset, void *bytes, size_t size)
{
	struct replay_file *file = data;

	while (size > 0) {
		ssize_t n = pread(file->fd, bytes, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes = (char *)bytes + n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

static int open_source(struct replay_file *file)
{
	struct sbt_source source = { .read = read_bytes, .data = file };
	struct stat stat;
	int r;

	file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &stat) < 0)
		return fail(file, -errno);
	source.size = (uint64_t)stat.st_size;
	r = sbt_reader_new(&source, &file->reader);
	return r < 0 ? fail(file, r) : 0;
}

/* --- rows of the recording --- */

static size_t column_of(const struct sbt_view *view, const char *name)
{
	for (size_t i = 0; i < sbt_view_column_count(view); i++)
		if (strcmp(sbt_view_column(view, i), name) == 0)
			return i;
	return SIZE_MAX;
}

static int64_t integer_of(const struct sbt_view *view, const struct sbt_value *row,
			  const char *name)
{
	size_t i = column_of(view, name);

	return i != SIZE_MAX && row[i].type == SBT_INTEGER ? row[i].integer : 0;
}

typedef int row_fn(struct replay_file *file, const struct sbt_view *view,
		   const struct sbt_value *row);

static int each_row(struct replay_file *file, const char *table, const void *data, size_t size,
		    row_fn *call)
{
	_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;
	const struct sbt_value *row;
	int r = sbt_view_new(data, size, &view);

	if (r < 0)
		return fail(file, r);
	if (strcmp(sbt_view_table(view), table) != 0)
		return 0;
	while (r == 0 && (row = sbt_view_next(view)))
		r = call(file, view, row);
	return r;
}

/* A column whose number changed. */
struct cell {
	const char *column;
	int64_t number;
};

/* Copies a row with some cells replaced; a cell without a column ends them. */
static int write_like(struct replay_file *file, const struct sbt_view *view,
		      const struct sbt_value *row, const struct cell *cell)
{
	const char *column[SBT_ROW_COLUMNS_MAX];
	struct sbt_value value[SBT_ROW_COLUMNS_MAX];
	size_t count = sbt_view_column_count(view), size = 0;
	const void *data = NULL;
	int r;

	for (size_t i = 0; i < count; i++) {
		column[i] = sbt_view_column(view, i);
		value[i] = row[i];
	}
	for (; cell->column; cell++) {
		size_t i = column_of(view, cell->column);

		if (i != SIZE_MAX)
			value[i] =
				(struct sbt_value){ .type = SBT_INTEGER, .integer = cell->number };
	}
	r = sbt_rows_begin(file->rows, sbt_view_table(view), column, count);
	if (r == 0)
		r = sbt_rows_add(file->rows, value);
	if (r == 0)
		r = sbt_rows_end(file->rows, &data, &size);
	return r < 0 ? r : record_file_add(file->file, SBT_BLOCK_ROWS, data, size);
}

static int note_boot(struct replay_file *file, const struct sbt_view *view,
		     const struct sbt_value *row)
{
	file->boot = integer_of(view, row, "id");
	return 0;
}

static int note_window(struct replay_file *file, const struct sbt_view *view,
		       const struct sbt_value *row)
{
	size_t key = column_of(view, "key");

	if (key == SIZE_MAX || row[key].type != SBT_TEXT)
		return 0;
	if (strcmp(row[key].text, "since_ns") == 0)
		file->since_ns = integer_of(view, row, "value");
	else if (strcmp(row[key].text, "until_ns") == 0)
		file->until_ns = integer_of(view, row, "value");
	return 0;
}

static int note_device(struct replay_file *file, const struct sbt_view *view,
		       const struct sbt_value *row)
{
	int64_t process = integer_of(view, row, "process");
	int64_t ordinal = integer_of(view, row, "ordinal");

	for (uint32_t i = 0; i < file->plan->device_count; i++)
		if (file->plan->device[i].process == process &&
		    file->plan->device[i].ordinal == ordinal)
			file->has_device[i] = 1;
	return 0;
}

/* A stream on its new device, and the streams that a what-if split off it. Of two rows the later
 * one wins. */
static int add_streams(struct replay_file *file, const struct sbt_view *view,
		       const struct sbt_value *row)
{
	int64_t id = integer_of(view, row, "id"), was = integer_of(view, row, "device");
	int r = 0;

	for (uint32_t i = 0; r == 0 && id && i < file->plan->stream_count; i++) {
		const struct plan_stream *stream = &file->plan->stream[i];
		int16_t device = file->plan->device[stream->device].ordinal;
		struct cell cell[] = { { "id", stream->stream }, { "device", device }, { 0 } };
		bool moved = stream->stream == id && device != was && file->plan->changed;

		if (stream->made_of == id || moved)
			r = write_like(file, view, row, cell);
	}
	return r;
}

/* Devices that a what-if added, like the others of the process. */
static int add_devices(struct replay_file *file, const struct sbt_view *view,
		       const struct sbt_value *row)
{
	int64_t process = integer_of(view, row, "process");
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < file->plan->device_count; i++) {
		if (file->has_device[i] || file->plan->device[i].process != process)
			continue;
		file->has_device[i] = 1;
		r = write_like(file, view, row,
			       (const struct cell[]){ { "ordinal", file->plan->device[i].ordinal },
						      { 0 } });
	}
	return r;
}

static int copy_rows(struct replay_file *file, const void *data, size_t size)
{
	_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;
	const char *table;
	int r = sbt_view_new(data, size, &view);

	if (r < 0)
		return fail(file, r);
	table = sbt_view_table(view);
	if (strcmp(table, "rollup") == 0 || strcmp(table, "work") == 0 ||
	    strcmp(table, "busy") == 0)
		return 0;
	r = record_file_add(file->file, SBT_BLOCK_ROWS, data, size);
	if (r == 0)
		r = each_row(file, "stream", data, size, add_streams);
	return r < 0 ? r : each_row(file, "device", data, size, add_devices);
}

static int note_rows(struct replay_file *file, const void *data, size_t size)
{
	int r = each_row(file, "boot", data, size, note_boot);

	if (r == 0)
		r = each_row(file, "recording", data, size, note_window);
	return r < 0 ? r : each_row(file, "device", data, size, note_device);
}

static int each_block(struct replay_file *file,
		      int (*call)(struct replay_file *file, const void *data, size_t size))
{
	struct sbt_block block;
	const void *data;
	int r;

	sbt_reader_rewind(file->reader);
	while ((r = sbt_reader_next(file->reader, &block)) == 0) {
		if (block.type != SBT_BLOCK_ROWS)
			continue;
		r = sbt_reader_get(file->reader, &block, &data);
		if (r < 0)
			return fail(file, r);
		r = call(file, data, block.size);
		if (r < 0)
			return r;
	}
	return r < 0 ? fail(file, r) : 0;
}

/* --- the emulation --- */

static int chunk_compare(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int write_chunks(struct replay_file *file, struct op *op, size_t count)
{
	int r = 0;

	if (count)
		qsort(op, count, sizeof(*op), chunk_compare);
	for (size_t i = 0, n; r == 0 && i < count; i += n) {
		const void *data;
		size_t size;

		for (n = 1; n < SBT_OPS_MAX && i + n < count; n++)
			if (op[i + n].process != op[i].process ||
			    op[i + n].stream != op[i].stream || op[i + n].kind != op[i].kind)
				break;
		r = sbt_encode(file->codec, &op[i], n, &data, &size);
		if (r == 0)
			r = record_file_add(file->file, SBT_BLOCK_OPS, data, size);
	}
	return r;
}

static int write_ops(struct replay_file *file)
{
	_cleanup_(freep) struct op *op = NULL, *state = NULL;
	size_t count = 0, states = 0;
	int r = emulate_ops(file->plan, file->times, &op, &count);

	if (r == 0)
		r = replay_sums_write(file->file, file->boot, op, count, &state, &states);
	if (r == 0)
		r = write_chunks(file, op, count);
	return r < 0 ? r : write_chunks(file, state, states);
}

static int write_facts(struct replay_file *file, const struct whatif_options *changes,
		       uint64_t since_ns, uint64_t until_ns)
{
	char text[FACT_BYTES] = "";
	const struct record_fact facts[] = {
		{ .key = "since_ns", .number = (int64_t)since_ns },
		{ .key = "until_ns", .number = (int64_t)until_ns },
		{ .key = "emulated", .text = text },
	};
	size_t at = 0;

	for (uint32_t i = 0; i < changes->count && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? " " : "",
				       changes->change[i].text);
	return record_file_facts(file->file, facts, ARRAY_SIZE(facts));
}

static int write_all(struct replay_file *file, const struct options *options,
		     const struct whatif_options *changes)
{
	bool part = options->given & OPTIONS_PART;
	uint64_t since_ns, until_ns;
	int r = each_block(file, note_rows);

	/* As much time follows the last operation as in the recording. */
	since_ns = part || file->since_ns <= 0 ? file->plan->start_ns : (uint64_t)file->since_ns;
	until_ns = file->times->end_ns;
	if (!part && file->until_ns > (int64_t)file->plan->end_ns)
		until_ns += (uint64_t)file->until_ns - file->plan->end_ns;
	if (r == 0)
		r = each_block(file, copy_rows);
	if (r == 0)
		r = write_facts(file, changes, since_ns, until_ns);
	if (r == 0)
		r = write_ops(file);
	return r < 0 ? r : record_file_end(file->file);
}

int replay_write(const struct options *options, const struct whatif_options *changes,
		 const struct plan *plan, const struct plan_times *times)
{
	_cleanup_(replay_file_release) struct replay_file file = {
		.path = options->file, .plan = plan, .times = times, .fd = -1
	};
	int r = open_source(&file);

	if (r < 0)
		return r;
	file.has_device = calloc(plan->device_count + 1ul, 1);
	if (!file.has_device || sbt_codec_new(&file.codec) < 0 || sbt_rows_new(&file.rows) < 0)
		return complain_memory(), -ENOMEM;
	r = record_file_open(options->output, &file.file);
	if (r < 0)
		return r;
	r = write_all(&file, options, changes);
	if (r < 0 && !file.unread && record_file_error(file.file) == 0)
		complain("Cannot write the result: %s", strerror(-r));
	return r;
}
