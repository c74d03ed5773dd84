/* make_trace FORMAT FILE: writes the trace that test_export.py knows.
 * Its ops come as the daemon sends them: kind by kind, so in no order of time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/export.h"

#define SECOND	     UINT64_C(1000000000)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { FN_ALLOC = 1, FN_FREE, FN_LAUNCH, FN_SYNC, FN_RECORD, FN_UNKNOWN = 999 };
enum { TRAIN = 1, SERVE = 2 }; /* process ids; their pids are 4242 and 5151 */
enum { STACK = 7 };

static int put(struct export_meta *meta)
{
	static const char *const functions[] = { [FN_ALLOC] = "cuMemAlloc_v2",
						 [FN_FREE] = "cuMemFree_v2",
						 [FN_LAUNCH] = "cuLaunchKernel",
						 [FN_SYNC] = "cuStreamSynchronize",
						 [FN_RECORD] = "cuEventRecord" };
	static const struct export_frame_source frames[] = {
		{ "cuMemAlloc_v2", "/usr/lib/libcuda.so.1", 0x1000, 0x7f0000001000 },
		{ NULL, "/usr/bin/train", 0x2345, 0x400345 },
		{ "std::vector<int, std::allocator<int> >::grow(\"x\")", "/usr/bin/train", 0x2000,
		  0x400000 },
		{ NULL, NULL, 0, 0xdead },
		{ "main", "/usr/bin/train", 0x1111, 0x401111 },
	};
	static const struct export_stream streams[] = {
		{ .id = 1, .process = TRAIN, .device = 0 },
		{ .id = 2, .process = SERVE, .device = 1, .handle = 0xabc0 },
	};
	static const struct export_loss losses[] = {
		{ .start_ns = 2 * SECOND, .end_ns = 3 * SECOND, .reason = 1, .count = 17 },
		{ .start_ns = 3 * SECOND, .end_ns = 4 * SECOND, .reason = 1, .count = 4 },
		{ .start_ns = SECOND,
		  .end_ns = 2 * SECOND,
		  .reason = 13,
		  .count = 1,
		  .process = TRAIN },
		{ .start_ns = SECOND,
		  .end_ns = SECOND,
		  .reason = 14,
		  .count = 5,
		  .process = TRAIN },
	};
	static const char *const reasons[] = { "ring-full", "ring-full", "gap", "unread" };
	const struct export_frame *stack[COUNT(frames)];
	int r = 0;

	meta->wall_offset_ns = 1700000000 * (int64_t)SECOND;
	for (size_t i = 1; i < COUNT(functions); i++)
		r |= export_meta_add_function(meta, i, functions[i]);
	for (size_t i = 0; i < COUNT(streams); i++)
		r |= export_meta_add_stream(meta, &streams[i]);
	for (size_t i = 0; i < COUNT(losses); i++)
		r |= export_meta_add_loss(meta, &losses[i], reasons[i]);
	for (size_t i = 0; i < COUNT(frames); i++)
		stack[i] = export_meta_frame(meta, &frames[i]);
	r |= export_meta_add_stack(meta, STACK, stack, COUNT(stack));
	r |= export_meta_add_process(meta, TRAIN, 4242, "train",
				     "train --name \"a\\b\"\t\xff\xc3\xa4 \x1b[31m");
	r |= export_meta_add_process(meta, SERVE, 5151, "serve", NULL);
	return r;
}

static struct op at(uint8_t kind, uint16_t fn, uint64_t start_ns, uint64_t end_ns)
{
	return (struct op){ .kind = kind,
			    .fn = fn,
			    .process = TRAIN,
			    .tid = 4242,
			    .device = DEVICE_UNKNOWN,
			    .start_ns = SECOND + start_ns,
			    .end_ns = end_ns ? SECOND + end_ns : 0,
			    .flags = end_ns ? OP_RETURNED : 0 };
}

/* 100 allocations of 256 bytes, then one that fails; 40 of them are freed by another thread. */
static int memory(const struct export_format *format, struct exporter *x)
{
	struct op op[141];

	for (uint32_t i = 0; i < 100; i++) {
		op[i] = at(OP_ALLOC, FN_ALLOC, i * 1000, i * 1000 + 500);
		op[i].bytes = 256;
		op[i].address = 0xffffffff00000000 + i * 256;
		op[i].live_bytes = (i + 1) * 256;
		op[i].device = 0;
		op[i].stack_id = i % 2 ? STACK : i + 100; /* half of the stacks are not known */
	}
	op[100] = at(OP_ALLOC, FN_ALLOC, 200000, 200500);
	op[100].bytes = UINT64_C(1) << 60;
	op[100].result = 2;
	for (uint32_t i = 0; i < 40; i++) {
		op[101 + i] = at(OP_FREE, FN_FREE, 300000 + i * 1000, 300000 + i * 1000 + 1);
		op[101 + i].tid = 4243;
		op[101 + i].live_bytes = (100 - i - 1) * 256;
		op[101 + i].device = 0;
	}
	op[139].detail = MEMORY_HOST;
	op[139].device = DEVICE_UNKNOWN;
	op[139].live_bytes = 77;
	op[140].flags |= OP_UNKNOWN; /* says nothing about live bytes */
	return format->ops(x, op, COUNT(op));
}

/* 200 launches on two streams, all of them before the allocations; a record inside of a wait. */
static int work(const struct export_format *format, struct exporter *x)
{
	struct op op[203];

	for (uint32_t i = 0; i < 200; i++) {
		op[i] = at(OP_LAUNCH, FN_LAUNCH, i * 10, 0);
		op[i].process = i < 150 ? TRAIN : SERVE;
		op[i].tid = i < 150 ? 4243 : 5151;
		op[i].stream = op[i].process;
		memcpy(op[i].grid, (uint32_t[]){ i + 1, 2, 3 }, sizeof(op[i].grid));
		memcpy(op[i].block, (uint32_t[]){ 128, 1, 1 }, sizeof(op[i].block));
		op[i].flags = i == 0 ? OP_BOUNDS | OP_CAPTURED : OP_BOUNDS;
	}
	op[200] = at(OP_EVENT, FN_RECORD, 500100, 500200);
	op[201] = at(OP_SYNC, FN_SYNC, 500000, 501000);
	op[202] = at(OP_MODULE, FN_UNKNOWN, 502000, 502001);
	return format->ops(x, op, COUNT(op));
}

/* What touches must not nest; idle is not drawn. */
static int states(const struct export_format *format, struct exporter *x)
{
	static const struct {
		uint32_t process, stream, state, start, end;
	} rows[] = {
		{ TRAIN, 1, OP_STATE_PENDING, 100, 200 }, { TRAIN, 1, OP_STATE_WAITING, 200, 300 },
		{ TRAIN, 1, OP_STATE_PENDING, 300, 450 }, { TRAIN, 1, OP_STATE_IDLE, 450, 600 },
		{ TRAIN, 1, OP_STATE_PENDING, 600, 601 }, { TRAIN, 0, OP_STATE_PENDING, 100, 450 },
		{ SERVE, 2, OP_STATE_PENDING, 150, 350 },
	};
	struct op op[COUNT(rows)];

	for (size_t i = 0; i < COUNT(rows); i++) {
		op[i] = at(OP_STATE, 0, rows[i].start, rows[i].end);
		op[i].process = rows[i].process;
		op[i].stream = rows[i].stream;
		op[i].detail = rows[i].state;
		op[i].device = rows[i].process == TRAIN ? 0 : 1;
		op[i].flags = OP_BOUNDS;
		op[i].tid = 0;
	}
	return format->ops(x, op, COUNT(op));
}

static int write_file(void *data, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	const struct export_format *format = NULL;
	_cleanup_(export_meta_freep) struct export_meta *meta = NULL;
	struct exporter *x = NULL;
	struct out_sink sink = { write_file, argc == 3 ? fopen(argv[2], "w") : NULL };
	int r;

#define X(id, name, letter, argument, text, symbol)                                                \
	format = argc == 3 && strcmp(argv[1], name) == 0 ? &export_##symbol : format;
	EXPORT_FORMATS(X)
#undef X
	if (!format || !sink.data)
		return 2;
	r = export_meta_new(&meta);
	if (r < 0 || put(meta) < 0 || format->begin(meta, &sink, &x) < 0)
		return 1;
	r = memory(format, x) < 0 || work(format, x) < 0 || states(format, x) < 0 ||
	    format->end(x) < 0;
	format->free(x);
	return fclose(sink.data) || r;
}
