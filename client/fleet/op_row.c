/* Op_row: times go to the timeline, names back to the numbers that they have in an op. */
#include "client/fleet/op_row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/trace/show.h"

void op_row_done(struct op_row *row)
{
	map_clear(&row->function);
	map_clear(&row->stream);
}

static uint32_t known(const struct map *map, struct map_key key)
{
	return (uint32_t)(uintptr_t)map_get(map, key);
}

uint32_t op_row_stream(struct op_row *row, uint32_t process, int64_t stream)
{
	struct map_key key = { process, (uint64_t)stream };
	uint32_t number = known(&row->stream, key);

	if (stream == 0 || number)
		return number;
	if (map_put(&row->stream, key, (void *)(uintptr_t)(row->streams + 1)) < 0)
		return 0;
	return ++row->streams;
}

static int function_of(struct op_row *row, const char *name, uint16_t *ret)
{
	struct map_key key = map_key_of(name, strlen(name), 0);
	int r;

	*ret = (uint16_t)known(&row->function, key);
	if (*ret || !*name || row->functions == UINT16_MAX)
		return 0;
	r = meta_add_function(row->meta, row->functions + 1, name);
	if (r == 0)
		r = map_put(&row->function, key, (void *)(uintptr_t)(row->functions + 1));
	if (r == 0)
		*ret = ++row->functions;
	return r;
}

static uint8_t kind_of(const char *name)
{
	for (uint8_t kind = 1; kind <= OP_KIND_MAX; kind++) {
		const char *one = show_kind_name(kind);

		if (one && strcmp(one, name) == 0)
			return kind;
	}
	return 0;
}

static uint8_t detail_of(uint8_t kind, const char *name)
{
	for (uint8_t detail = 0; *name && detail < UINT8_MAX; detail++) {
		const char *one = show_detail_name(kind, detail);

		if (one && strcmp(one, name) == 0)
			return detail;
	}
	return 0;
}

uint64_t op_row_time(const struct timeline_clock *clock, int64_t base_ns, int64_t monotonic_ns)
{
	int64_t ns;

	if (monotonic_ns <= 0 || monotonic_ns > TIMELINE_MONOTONIC_MAX)
		return 0;
	ns = timeline_of(clock, monotonic_ns) - base_ns;
	return ns > 0 ? (uint64_t)ns : 0;
}

int op_row_read(struct op_row *row, uint32_t process, const struct timeline_clock *clock,
		int64_t base_ns, char **cell, struct op *ret)
{
	uint64_t number[OP_ROW_COLUMNS] = { 0 };
	struct op op = { .process = process };

	for (size_t i = 0; i < OP_ROW_COLUMNS; i++) {
		if (!cell[i])
			return 1;
		if (i >= 3)
			number[i] = *cell[i] == '-' ? (uint64_t)strtoll(cell[i], NULL, 10)
						    : strtoull(cell[i], NULL, 10);
	}
	op.kind = kind_of(cell[0]);
	if (!op.kind)
		return 1;
	if (function_of(row, cell[1], &op.fn) < 0)
		return -ENOMEM;
	op.detail = detail_of(op.kind, cell[2]);
	op.name = number[3];
	op.device = (int16_t)(int64_t)number[4];
	op.stream = op_row_stream(row, process, (int64_t)number[5]);
	op.tid = (uint32_t)number[6];
	op.start_ns = op_row_time(clock, base_ns, (int64_t)number[7]);
	op.end_ns = op_row_time(clock, base_ns, (int64_t)number[8]);
	op.gpu_start_ns = op_row_time(clock, base_ns, (int64_t)number[9]);
	op.gpu_end_ns = op_row_time(clock, base_ns, (int64_t)number[10]);
	op.seen_ns = op_row_time(clock, base_ns, (int64_t)number[11]);
	op.result = (int32_t)(int64_t)number[12];
	op.bytes = number[13];
	op.live_bytes = number[14];
	op.flags = (uint16_t)number[15];
	op.correlation = number[16];
	op.node = number[17];
	if (number[5] && !op.stream)
		return -ENOMEM;
	*ret = op;
	return 0;
}
