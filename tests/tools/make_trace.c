/* make_trace FORMAT FILE: writes the trace that test_export.py knows.
 * Its ops come as the daemon sends them: kind by kind, so in no order of time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/export/export.h"
#include "core/base/array.h"
#include "tests/frame_of.h"

#define SECOND UINT64_C(1000000000)

enum {
	FN_ALLOC = 1,
	FN_FREE,
	FN_LAUNCH,
	FN_SYNC,
	FN_RECORD,
	FN_COPY,
	FN_SET,
	FN_GRAPH,
	FN_EXACT,
	FN_UNKNOWN = 999
};
enum { TRAIN = 1, SERVE = 2 }; /* process ids; their pids are 4242 and 5151 */
enum { STACK = 7, STACK_OUTER };
enum { NAME_GEMM = 1, NAME_HOSTILE, NAME_STEP, NAME_FORWARD, NAME_MARK, NAME_DOMAIN };
enum { CONTEXT = 0xc0de };

static int put_losses(struct meta *meta)
{
	static const struct meta_loss losses[] = {
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
		{ .start_ns = 2 * SECOND,
		  .end_ns = 4 * SECOND,
		  .reason = 25,
		  .count = 1,
		  .process = TRAIN },
		{ .start_ns = 3 * SECOND,
		  .end_ns = 5 * SECOND,
		  .reason = 25,
		  .count = 1,
		  .process = TRAIN },
		{ .start_ns = 2 * SECOND,
		  .end_ns = 3 * SECOND,
		  .reason = 26,
		  .count = 2,
		  .process = TRAIN },
	};
	static const char *const reasons[] = { "ring-full", "ring-full", "gap",	  "unread",
					       "paused",    "paused",	 "budget" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		r |= meta_add_loss(meta, &losses[i], reasons[i]);
	return r;
}

static int put(struct meta *meta)
{
	static const char *const functions[] = {
		[FN_ALLOC] = "cuMemAlloc_v2",	[FN_FREE] = "cuMemFree_v2",
		[FN_LAUNCH] = "cuLaunchKernel", [FN_SYNC] = "cuStreamSynchronize",
		[FN_RECORD] = "cuEventRecord",	[FN_COPY] = "cuMemcpyHtoDAsync_v2",
		[FN_SET] = "cuMemsetD8Async",	[FN_GRAPH] = "cuGraphLaunch",
		[FN_EXACT] = "cuLaunchKernelEx"
	};
	static const char *const names[] = {
		[NAME_GEMM] = "void gemm<float, 128>(float const*, float*)",
		[NAME_HOSTILE] = "<script>alert(\"1\")</script>]]>&'; \n\xff\xef\xbf\xbf",
		[NAME_STEP] = "step",
		[NAME_FORWARD] = "forward",
		[NAME_MARK] = "mark",
		[NAME_DOMAIN] = "torch",
	};
	static const struct frame frames[] = {
		FRAME(0x7f0000001000, 0x1000, "/usr/lib/libcuda.so.1", "cuMemAlloc_v2"),
		FRAME(0x400345, 0x2345, "/usr/bin/train", NULL),
		FRAME(0x400000, 0x2000, "/usr/bin/train",
		      "std::vector<int, std::allocator<int> >::grow(\"x\")"),
		{ .address = 0xdead },
		{ .address = 0x401111,
		  .offset = 0x1111,
		  .module = "/usr/bin/train",
		  .function = "main",
		  .file = "/src/train.cc",
		  .line = 7 },
	};
	static const struct meta_stream streams[] = {
		{ .id = 1, .process = TRAIN, .device = 0 },
		{ .id = 2, .process = SERVE, .device = 1, .handle = 0xabc0 },
		{ .id = 3, .process = TRAIN, .device = 0, .handle = 0x5500, .context = CONTEXT },
		{ .id = 4, .process = TRAIN, .device = 0, .handle = 0x5600, .context = CONTEXT },
	};
	const struct meta_frame *stack[ARRAY_SIZE(frames)];
	int r = 0;

	meta->wall_offset_ns = 1700000000 * (int64_t)SECOND;
	for (size_t i = 1; i < ARRAY_SIZE(functions); i++)
		r |= meta_add_function(meta, i, functions[i]);
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		r |= meta_add_stream(meta, &streams[i]);
	r |= put_losses(meta);
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		stack[i] = meta_frame(meta, &frames[i]);
	for (size_t i = 1; i < ARRAY_SIZE(names); i++)
		r |= meta_add_name(meta, i, names[i]);
	r |= meta_add_stack(meta, STACK, stack, ARRAY_SIZE(stack));
	r |= meta_add_stack(meta, STACK_OUTER, stack + 4, 1);
	r |= meta_add_device(meta, TRAIN, 0, "NVIDIA H200");
	r |= meta_add_process(meta, TRAIN, 4242, "train",
			      "train --name \"a\\b\"\t\xff\xc3\xa4 \x1b[31m");
	r |= meta_add_process(meta, SERVE, 5151, "serve", NULL);
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
static int memory(struct export_run *x)
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
	return export_ops(x, op, ARRAY_SIZE(op));
}

/* 200 launches on two streams, all of them before the allocations; a record inside of a wait. */
static int work(struct export_run *x)
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
	return export_ops(x, op, ARRAY_SIZE(op));
}

/* What touches must not nest; idle is not drawn. */
static int states(struct export_run *x)
{
	static const struct {
		uint32_t process, stream, state, start, end;
	} rows[] = {
		{ TRAIN, 1, OP_STATE_PENDING, 100, 200 }, { TRAIN, 1, OP_STATE_WAITING, 200, 300 },
		{ TRAIN, 1, OP_STATE_PENDING, 300, 450 }, { TRAIN, 1, OP_STATE_IDLE, 450, 600 },
		{ TRAIN, 1, OP_STATE_PENDING, 600, 601 }, { TRAIN, 0, OP_STATE_PENDING, 100, 450 },
		{ SERVE, 2, OP_STATE_PENDING, 150, 350 },
	};
	struct op op[ARRAY_SIZE(rows)];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		op[i] = at(OP_STATE, 0, rows[i].start, rows[i].end);
		op[i].process = rows[i].process;
		op[i].stream = rows[i].stream;
		op[i].detail = rows[i].state;
		op[i].device = rows[i].process == TRAIN ? 0 : 1;
		op[i].flags = OP_BOUNDS;
		op[i].tid = 0;
	}
	return export_ops(x, op, ARRAY_SIZE(op));
}

/* Of thread 4243, on stream 3; times are those after a second. */
static struct op exact(uint8_t kind, uint16_t fn, uint64_t start_ns, uint64_t gpu_start_ns,
		       uint64_t gpu_end_ns)
{
	struct op op = at(kind, fn, start_ns, start_ns + 200);

	op.tid = 4243;
	op.flags |= OP_EXACT;
	op.gpu_start_ns = SECOND + gpu_start_ns;
	op.gpu_end_ns = SECOND + gpu_end_ns;
	op.seen_ns = SECOND + 3000000;
	op.stream = 3;
	op.device = 0;
	op.correlation = start_ns;
	return op;
}

/* 50 kernels end to end, then 10 copies of 4096 bytes in a microsecond, 5 sets. */
static int exact_calls(struct export_run *x)
{
	struct op op[67];

	for (uint32_t i = 0; i < 50; i++) {
		op[i] = exact(OP_LAUNCH, FN_EXACT, 1000000 + i * 1000, 1002000 + i * 1000,
			      1003000 + i * 1000);
		op[i].name = NAME_GEMM;
		op[i].stack_id = i % 2 ? STACK : 0;
		op[i].flags |= i % 2 ? 0 : OP_STACK_LOST;
		op[i].registers = 64;
		op[i].static_bytes = 1024;
		op[i].shared_bytes = 2048;
		op[i].local_bytes = 16;
		op[i].grid[0] = op[i].grid[1] = op[i].grid[2] = 2;
		op[i].block[0] = op[i].block[1] = op[i].block[2] = 8;
	}
	for (uint32_t i = 0; i < 10; i++) {
		op[50 + i] = exact(OP_COPY, FN_COPY, 1060000 + i * 3000, 1063000 + i * 3000,
				   1064000 + i * 3000);
		op[50 + i].detail = COPY_HTOD;
		op[50 + i].bytes = 4096;
		op[50 + i].stack_id = STACK_OUTER;
	}
	for (uint32_t i = 0; i < 5; i++)
		op[60 + i] = exact(OP_SET, FN_SET, 1100000 + i * 3000, 1103000 + i * 3000,
				   1103500 + i * 3000);
	op[65] = exact(OP_LAUNCH, FN_EXACT, 1150000, 1151000, 1152000);
	op[65].name = NAME_HOSTILE;
	op[65].stack_id = STACK;
	op[66] = exact(OP_LAUNCH, FN_EXACT, 1160000, 0, 0);
	op[66].flags = OP_RETURNED | OP_UNTIMED;
	op[66].gpu_start_ns = op[66].gpu_end_ns = 0;
	return export_ops(x, op, ARRAY_SIZE(op));
}

/* One launch of a graph: six kernels in two branches, told in no order; then one as a whole; then
 * two kernels whose call nobody saw. */
static int exact_graphs(struct export_run *x)
{
	struct op launch[] = { exact(OP_LAUNCH, FN_GRAPH, 1200000, 0, 0),
			       exact(OP_LAUNCH, FN_GRAPH, 1300000, 1302000, 1310000) };
	struct op kernel[8];

	launch[0].flags = OP_RETURNED;
	launch[0].gpu_start_ns = launch[0].gpu_end_ns = 0;
	launch[0].stack_id = STACK;
	launch[1].graph = 8;
	for (uint32_t i = 0; i < 6; i++) {
		uint64_t start_ns = 1205000 + i / 2 * 1000 + i % 2 * 500;

		kernel[5 - i] = exact(OP_KERNEL, FN_GRAPH, 1200000, start_ns, start_ns + 1000);
		kernel[5 - i].flags = OP_EXACT | OP_NODE;
		kernel[5 - i].name = NAME_GEMM;
		kernel[5 - i].stack_id = STACK;
		kernel[5 - i].graph = 7;
		kernel[5 - i].node = 70 + i;
	}
	for (uint32_t i = 0; i < 2; i++) {
		kernel[6 + i] = exact(OP_KERNEL, 0, 1400000 + i * 1000, 1400000 + i * 1000,
				      1400500 + i * 1000);
		kernel[6 + i].flags = OP_EXACT | OP_NO_CALL;
		kernel[6 + i].stream = 4;
		kernel[6 + i].tid = 0;
		kernel[6 + i].end_ns = 0;
	}
	return export_ops(x, kernel, ARRAY_SIZE(kernel)) < 0 ||
			       export_ops(x, launch, ARRAY_SIZE(launch))
		       ? -EIO
		       : 0;
}

/* A range within another, one that ends after the one in which it started, a mark; and overhead. */
static int ranges(struct export_run *x)
{
	static const struct {
		uint32_t kind, name, start, end;
	} rows[] = {
		{ OP_RANGE, NAME_STEP, 1000000, 1100000 },
		{ OP_RANGE, NAME_FORWARD, 1010000, 1050000 },
		{ OP_RANGE, NAME_FORWARD, 1090000, 1120000 },
		{ OP_RANGE, NAME_MARK, 1060000, 1060000 },
		{ OP_OVERHEAD, 0, 1000100, 1000150 },
	};

	for (size_t i = ARRAY_SIZE(rows); i > 0; i--) {
		struct op op = at(rows[i - 1].kind, 0, rows[i - 1].start, rows[i - 1].end);

		op.tid = 4243;
		op.name = rows[i - 1].name;
		op.handle = op.kind == OP_OVERHEAD    ? 1 << 16
			    : op.name == NAME_FORWARD ? NAME_DOMAIN
						      : 0;
		if (export_ops(x, &op, 1) < 0)
			return -EIO;
	}
	return 0;
}

/* Half of a millisecond's span is busy, of the next one a quarter. */
static int exact_states(struct export_run *x)
{
	static const struct {
		uint32_t stream, state;
		uint64_t start, end;
	} rows[] = {
		{ 0, OP_STATE_RUNNING, 954 << 20, (954 << 20) + (1 << 19) },
		{ 0, OP_STATE_SYNCING, (954 << 20) + (1 << 19), 955 << 20 },
		{ 0, OP_STATE_COPYING, 955 << 20, (955 << 20) + (1 << 18) },
		{ 0, OP_STATE_IDLE, (955 << 20) + (1 << 18), 956 << 20 },
		{ 3, OP_STATE_RUNNING, 954 << 20, (954 << 20) + (1 << 19) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct op op = at(OP_STATE, 0, 0, 0);

		op.start_ns = rows[i].start;
		op.end_ns = rows[i].end;
		op.stream = rows[i].stream;
		op.detail = rows[i].state;
		op.device = 0;
		op.flags = OP_EXACT;
		op.tid = 0;
		if (export_ops(x, &op, 1) < 0)
			return -EIO;
	}
	return 0;
}

static int write_file(void *data, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	const struct export_format *format = NULL;
	_cleanup_(meta_freep) struct meta *meta = NULL;
	struct export_run *x = NULL;
	struct out_sink sink = { write_file, argc == 3 ? fopen(argv[2], "w") : NULL };
	int r;

#define X(id, name, letter, argument, text, symbol)                                                \
	format = argc == 3 && strcmp(argv[1], name) == 0 ? &export_##symbol : format;
	EXPORTS(X)
#undef X
	if (!format || !sink.data)
		return 2;
	r = meta_new(&meta);
	if (r < 0 || put(meta) < 0 || export_new(format, meta, &sink, &x) < 0)
		return 1;
	r = memory(x) < 0 || work(x) < 0 || states(x) < 0 || exact_calls(x) < 0 ||
	    exact_graphs(x) < 0 || ranges(x) < 0 || exact_states(x) < 0 || export_end(x) < 0;
	export_free(x);
	return fclose(sink.data) || r;
}
