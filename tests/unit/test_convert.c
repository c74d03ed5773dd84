/* test_convert: records of CUPTI, laid out by hand as 12.0 and 13.0 do, become events. */
#include "cupti_fixture.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "daemon/library/library.h"
#include "inject/convert.h"
#include "inject/cupti_abi.h"
#include "inject/cupti_calls.h"
#include "inject/name.h"

/* Bytes of a record as a version has it. */
enum size {
	KERNEL_12_0 = 208,
	KERNEL_13_0 = 216,
	COPY_12_0 = 88,
	COPY_13_0 = 96,
	PEER_COPY = 96,
	SET = 88,
	GRAPH_12_0 = 48,
	GRAPH_13_0 = 56,
	SYNC_12_0 = 40,
	SYNC_13_0 = 56,
	MEMORY_12_0 = 120,
	MEMORY_13_0 = 128,
	POOL_12_0 = 72,
	POOL_13_0 = 80,
	CONTEXT_12_0 = 16,
	CONTEXT_13_0 = 32,
	MARKER = 56,
	OVERHEAD_12_0 = 40,
	OVERHEAD_12_2 = 48,
	OVERHEAD_13_0 = 56,
	CALL_RECORD = 40,
};

/* A record with other ones' bytes behind it. */
union record {
	uint8_t bytes[512];
	struct cupti_kernel kernel;
	struct cupti_copy copy;
	struct cupti_peer_copy peer;
	struct cupti_set set;
	struct cupti_graph graph;
	struct cupti_sync sync;
	struct cupti_memory memory;
	struct cupti_pool pool;
	struct cupti_context context;
	struct cupti_marker marker;
	struct cupti_overhead overhead;
	struct cupti_api api;
};

static union record record_of(uint32_t kind)
{
	union record record;

	memset(&record, 0xa5, sizeof(record));
	record.kernel.kind = kind;
	return record;
}

static int setup(void **state)
{
	put_reset();
	name_reset();
	return 0;
}

static void check_kernel(uint32_t kind, size_t size)
{
	union record record = record_of(kind);
	struct ts_event event;

	record.kernel.registers = 40;
	record.kernel.start = 1000;
	record.kernel.end = 2500;
	record.kernel.device = 1;
	record.kernel.context = 2;
	record.kernel.stream = 7;
	for (uint32_t i = 0; i < 3; i++) {
		record.kernel.grid[i] = 10 + i;
		record.kernel.block[i] = 20 + i;
	}
	record.kernel.static_bytes = 128;
	record.kernel.dynamic_bytes = 4096;
	record.kernel.local_bytes = 16;
	record.kernel.correlation = 77;
	record.kernel.name = "_Z5scalePffi";
	record.kernel.node = 0x200000003;
	record.kernel.graph = 5;
	put_reset();
	name_reset();
	assert_int_equal(convert_record(&record, size, &event), CONVERT_DONE);
	assert_int_equal(event.kind, TS_EVENT_KERNEL);
	assert_int_equal(event.start_ns, 1000);
	assert_int_equal(event.end_ns, 2500);
	assert_int_equal(event.work.correlation, 77);
	assert_int_equal(event.work.device, 1);
	assert_int_equal(event.work.context, 2);
	assert_int_equal(event.work.stream, 7);
	assert_int_equal(event.work.node, 0x200000003);
	assert_int_equal(event.work.graph, 5);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(event.work.grid[i], 10 + i);
		assert_int_equal(event.work.block[i], 20 + i);
	}
	assert_int_equal(event.work.static_bytes, 128);
	assert_int_equal(event.work.dynamic_bytes, 4096);
	assert_int_equal(event.work.local_bytes, 16);
	assert_int_equal(event.work.registers, 40);
	assert_int_equal(put_count, 1);
	assert_int_equal(put[0].name.kind, TS_EVENT_NAME);
	assert_int_equal(put[0].name.id, event.work.name);
	assert_int_equal(put[0].name.length, strlen("_Z5scalePffi"));
	assert_memory_equal(put[0].name.text, "_Z5scalePffi", put[0].name.length);
}

static void kernel_of_both_layouts(void **state)
{
	check_kernel(CUPTI_KIND_CONCURRENT_KERNEL, KERNEL_12_0);
	check_kernel(CUPTI_KIND_CONCURRENT_KERNEL, KERNEL_13_0);
	check_kernel(CUPTI_KIND_KERNEL, KERNEL_13_0);
}

static void copy_and_set_and_peer_copy(void **state)
{
	static const size_t sizes[] = { COPY_12_0, COPY_13_0 };
	union record record;
	struct ts_event event;

	for (int i = 0; i < 2; i++) {
		record = record_of(CUPTI_KIND_MEMCPY);
		record.copy = (struct cupti_copy){ .kind = CUPTI_KIND_MEMCPY,
						   .copy_kind = 1,
						   .from = 2,
						   .to = 3,
						   .bytes = 65536,
						   .start = 5,
						   .end = 9,
						   .device = 1,
						   .correlation = 12,
						   .runtime_correlation = 99,
						   .node = 6,
						   .graph = 4 };
		assert_int_equal(convert_record(&record, sizes[i], &event), CONVERT_DONE);
		assert_int_equal(event.kind, TS_EVENT_COPY);
		assert_int_equal(event.work.bytes, 65536);
		assert_int_equal(event.work.copy_kind, 1);
		assert_int_equal(event.work.from, 2);
		assert_int_equal(event.work.to, 3);
		assert_int_equal(event.work.correlation, 12);
		assert_int_equal(event.work.peer, 1);
		assert_int_equal(event.work.node, 6);
		assert_int_equal(event.work.graph, 4);
	}
	record.peer = (struct cupti_peer_copy){ .kind = CUPTI_KIND_MEMCPY2,
						.copy_kind = 8,
						.bytes = 7,
						.start = 1,
						.end = 2,
						.device = 1,
						.from_device = 3,
						.to_device = 1,
						.correlation = 13 };
	assert_int_equal(convert_record(&record, PEER_COPY, &event), CONVERT_DONE);
	assert_int_equal(event.kind, TS_EVENT_COPY);
	assert_int_equal(event.work.copy_kind, CUPTI_COPY_KIND_PEER);
	assert_int_equal(event.work.peer, 3);
	assert_int_equal(event.work.correlation, 13);
	record.set = (struct cupti_set){ .kind = CUPTI_KIND_MEMSET,
					 .value = 0xff,
					 .bytes = 11,
					 .start = 1,
					 .end = 2,
					 .correlation = 14,
					 .memory_kind = 3 };
	assert_int_equal(convert_record(&record, SET, &event), CONVERT_DONE);
	assert_int_equal(event.kind, TS_EVENT_SET);
	assert_int_equal(event.work.value, 0xff);
	assert_int_equal(event.work.to, 3);
	assert_int_equal(event.work.from, 0);
	assert_int_equal(event.work.correlation, 14);
}

static void graph_and_synchronization_and_context(void **state)
{
	union record record = { .graph = { CUPTI_KIND_GRAPH_TRACE, 21, 100, 200, 1, 2, 3, 4 } };
	struct ts_event event;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(convert_record(&record, i ? GRAPH_13_0 : GRAPH_12_0, &event),
				 CONVERT_DONE);
		assert_int_equal(event.kind, TS_EVENT_GRAPH);
		assert_int_equal(event.end_ns, 200);
		assert_int_equal(event.work.correlation, 21);
		assert_int_equal(event.work.graph, 2);
		assert_int_equal(event.work.stream, 4);
	}
	record.sync = (struct cupti_sync){ CUPTI_KIND_SYNCHRONIZATION, 3, 5, 6, 22, 1, 7, 8 };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(convert_record(&record, i ? SYNC_13_0 : SYNC_12_0, &event),
				 CONVERT_DONE);
		assert_int_equal(event.kind, TS_EVENT_SYNC);
		assert_int_equal(event.sync.type, 3);
		assert_int_equal(event.sync.correlation, 22);
		assert_int_equal(event.sync.stream, 7);
		assert_int_equal(event.sync.event, 8);
	}
	record.context = (struct cupti_context){ CUPTI_KIND_CONTEXT, 1, 2, 1, 7 };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(convert_record(&record, i ? CONTEXT_13_0 : CONTEXT_12_0, &event),
				 CONVERT_DONE);
		assert_int_equal(event.kind, TS_EVENT_CONTEXT);
		assert_int_equal(event.context.device, 2);
		assert_int_equal(event.context.null_stream, 7);
	}
}

static void memory_with_its_pool(void **state)
{
	union record record = record_of(CUPTI_KIND_MEMORY2);
	struct ts_event event;

	record.memory = (struct cupti_memory){ .kind = CUPTI_KIND_MEMORY2,
					       .operation = 1,
					       .memory_kind = 3,
					       .correlation = 31,
					       .address = 0x7f00,
					       .bytes = 512,
					       .timestamp = 99,
					       .pool_type = 1,
					       .pool_address = 0xabc,
					       .pool_threshold = 1,
					       .pool_size = 4096,
					       .pool_used = 512 };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(convert_record(&record, i ? MEMORY_13_0 : MEMORY_12_0, &event),
				 CONVERT_DONE);
		assert_int_equal(event.kind, TS_EVENT_MEMORY);
		assert_int_equal(event.start_ns, 99);
		assert_int_equal(event.memory.address, 0x7f00);
		assert_int_equal(event.memory.pool, 0xabc);
		assert_int_equal(event.memory.pool_bytes, 4096);
		assert_int_equal(event.memory.pool_used_bytes, 512);
	}
	record.memory.pool_type = 0;
	assert_int_equal(convert_record(&record, MEMORY_13_0, &event), CONVERT_DONE);
	assert_int_equal(event.memory.pool, 0);
	record.pool = (struct cupti_pool){ .kind = CUPTI_KIND_MEMORY_POOL,
					   .operation = 3,
					   .pool_type = 1,
					   .address = 0xabc,
					   .size = 64,
					   .used = 32,
					   .timestamp = 7 };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(convert_record(&record, i ? POOL_13_0 : POOL_12_0, &event),
				 CONVERT_DONE);
		assert_int_equal(event.memory.operation, 5);
		assert_int_equal(event.memory.pool, 0xabc);
		assert_int_equal(event.memory.address, 0);
	}
}

static void ranges_have_names_where_they_begin(void **state)
{
	union record record = { .marker = { .kind = CUPTI_KIND_MARKER,
					    .flags = CUPTI_MARKER_START,
					    .timestamp = 50,
					    .id = 3,
					    .object = CUPTI_OBJECT_THREAD,
					    .of = { .process = 1, .thread = 42 },
					    .name = "step",
					    .domain = "train" } };
	struct ts_event event;

	assert_int_equal(convert_record(&record, MARKER, &event), CONVERT_DONE);
	assert_int_equal(event.kind, TS_EVENT_RANGE);
	assert_int_equal(event.range.part, TS_RANGE_BEGIN);
	assert_int_equal(event.range.number, 3);
	assert_int_equal(event.tid, 42);
	assert_int_equal(event.ns_tid, 42);
	assert_int_not_equal(event.range.name, 0);
	assert_int_not_equal(event.range.domain, event.range.name);
	record.marker.flags = CUPTI_MARKER_END;
	record.marker.name = NULL;
	assert_int_equal(convert_record(&record, MARKER, &event), CONVERT_DONE);
	assert_int_equal(event.range.part, TS_RANGE_END);
	assert_int_equal(event.range.name, 0);
	record.marker.flags = CUPTI_MARKER_INSTANT;
	assert_int_equal(convert_record(&record, MARKER, &event), CONVERT_DONE);
	assert_int_equal(event.range.part, TS_RANGE_MARK);
	record.marker.flags = 1 << 3;
	assert_int_equal(convert_record(&record, MARKER, &event), CONVERT_SKIP);
}

static void overhead_has_a_correlation_where_the_record_is_long_enough(void **state)
{
	union record record = { .overhead = { .kind = CUPTI_KIND_OVERHEAD,
					      .overhead = CUPTI_OVERHEAD_FLUSH,
					      .object = CUPTI_OBJECT_PROCESS,
					      .of = { 1, 2, 3 },
					      .start = 10,
					      .end = 30,
					      .correlation = 8 } };
	struct ts_event event;

	assert_int_equal(convert_record(&record, OVERHEAD_12_0, &event), CONVERT_DONE);
	assert_int_equal(event.overhead.correlation, 0);
	assert_int_equal(event.tid, 0);
	assert_int_equal(event.end_ns, 30);
	assert_int_equal(convert_record(&record, OVERHEAD_12_2, &event), CONVERT_DONE);
	assert_int_equal(event.overhead.correlation, 8);
	assert_int_equal(convert_record(&record, OVERHEAD_13_0, &event), CONVERT_DONE);
	assert_int_equal(event.overhead.kind, CUPTI_OVERHEAD_FLUSH);
}

static void times_that_cannot_be_are_none(void **state)
{
	static const uint64_t times[][2] = { { 0, 0 }, { 0, 5 }, { 5, 0 }, { 9, 8 } };
	union record record = { .kernel.kind = CUPTI_KIND_CONCURRENT_KERNEL };
	struct ts_event event;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		record.kernel.start = times[i][0];
		record.kernel.end = times[i][1];
		assert_int_equal(convert_record(&record, KERNEL_13_0, &event), CONVERT_DONE);
		assert_int_equal(event.start_ns, 0);
		assert_int_equal(event.end_ns, 0);
	}
}

static union record call_of(uint32_t kind, uint32_t cbid)
{
	union record record = record_of(kind);

	record.api.cbid = cbid;
	record.api.start = 1000;
	record.api.end = 1500;
	record.api.thread = 77;
	record.api.correlation = 12;
	record.api.result = 1;
	return record;
}

static void calls_of_the_driver_and_of_the_runtime_around_it(void **state)
{
	union record record = call_of(CUPTI_KIND_DRIVER, 307);
	struct ts_event event;

	assert_int_equal(convert_record(&record, CALL_RECORD, &event), CONVERT_DONE);
	assert_int_equal(event.kind, TS_EVENT_CALL);
	assert_int_equal(event.flags, TS_EVENT_RETURNED);
	assert_int_equal(event.fn, 307);
	assert_int_equal(event.ns_tid, 77);
	assert_int_equal(event.start_ns, 1000);
	assert_int_equal(event.end_ns, 1500);
	assert_int_equal(event.result, 1);
	assert_int_equal(event.call.correlation, 12);
	assert_int_equal(event.call.around, 0);
	record = call_of(CUPTI_KIND_RUNTIME, 211);
	assert_int_equal(convert_record(&record, CALL_RECORD, &event), CONVERT_DONE);
	assert_int_equal(event.fn, 0);
	assert_int_equal(event.call.around, 1);
	/* They submit nothing; and a form that does not exist has no number. */
	record = call_of(CUPTI_KIND_DRIVER, 4);
	assert_int_equal(convert_record(&record, CALL_RECORD, &event), CONVERT_SKIP);
	record = call_of(CUPTI_KIND_RUNTIME, 307);
	assert_int_equal(convert_record(&record, CALL_RECORD, &event), CONVERT_SKIP);
	record = call_of(CUPTI_KIND_RUNTIME, 0);
	assert_int_equal(convert_record(&record, CALL_RECORD, &event), CONVERT_SKIP);
	record = call_of(CUPTI_KIND_DRIVER, 307);
	record.api.end = 0;
	assert_int_equal(convert_record(&record, CALL_RECORD, &event), CONVERT_UNKNOWN);
}

static void what_is_unknown_or_cut_short_is_not_read(void **state)
{
	static const uint32_t known[] = { CUPTI_KIND_MEMCPY,	  CUPTI_KIND_MEMSET,
					  CUPTI_KIND_KERNEL,	  CUPTI_KIND_CONTEXT,
					  CUPTI_KIND_MARKER,	  CUPTI_KIND_OVERHEAD,
					  CUPTI_KIND_MEMCPY2,	  CUPTI_KIND_SYNCHRONIZATION,
					  CUPTI_KIND_MEMORY2,	  CUPTI_KIND_MEMORY_POOL,
					  CUPTI_KIND_GRAPH_TRACE, CUPTI_KIND_DRIVER,
					  CUPTI_KIND_RUNTIME };
	static const uint32_t unknown[] = { 0, 6, 30, 52, 55, 1000, UINT32_MAX };
	struct ts_event event;

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		union record record = record_of(unknown[i]);

		assert_int_equal(convert_record(&record, sizeof(record), &event), CONVERT_UNKNOWN);
	}
	/* Exactly as long as said: the address sanitizer sees whoever reads on. */
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		for (size_t size = sizeof(uint32_t); size < 13; size += 4) {
			uint32_t *record = calloc(1, size);

			record[0] = known[i];
			assert_int_equal(convert_record(record, size, &event), CONVERT_UNKNOWN);
			free(record);
		}
	}
	assert_int_equal(convert_record("", 0, &event), CONVERT_UNKNOWN);
}

static bool is_watched(uint16_t plain, uint16_t per_thread)
{
	static const uint16_t calls[][2] = {
#define CALL(name, a, b) { a, b },
		CUPTI_CALLS(CALL)
#undef CALL
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i][0] == plain && calls[i][1] == per_thread)
			return true;
	return false;
}

static void calls_are_those_that_the_daemon_joins(void **state)
{
	size_t rows = 0, calls = 0;

#define CALL(name, a, b) calls++;
	CUPTI_CALLS(CALL)
#undef CALL
	for (size_t i = 0; i < library_cuda.count; i++) {
		const struct function *model = &library_cuda.function[i].model;

		if (!model->activity[0])
			continue;
		rows++;
		if (!is_watched(model->activity[0], model->activity[1]))
			fail_msg("%s is joined by the daemon and not watched by the library",
				 model->name);
	}
	assert_int_equal(rows, calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(kernel_of_both_layouts, setup),
		cmocka_unit_test_setup(copy_and_set_and_peer_copy, setup),
		cmocka_unit_test_setup(graph_and_synchronization_and_context, setup),
		cmocka_unit_test_setup(calls_of_the_driver_and_of_the_runtime_around_it, setup),
		cmocka_unit_test_setup(memory_with_its_pool, setup),
		cmocka_unit_test_setup(ranges_have_names_where_they_begin, setup),
		cmocka_unit_test_setup(overhead_has_a_correlation_where_the_record_is_long_enough,
				       setup),
		cmocka_unit_test_setup(times_that_cannot_be_are_none, setup),
		cmocka_unit_test_setup(what_is_unknown_or_cut_short_is_not_read, setup),
		cmocka_unit_test(calls_are_those_that_the_daemon_joins),
	};

	return cmocka_run_group_tests_name("convert", tests, NULL, NULL);
}
