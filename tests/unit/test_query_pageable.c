/* Copies of pageable memory, over ops made by hand: the expected numbers are next to them. */
#include "tests/unit/query_fixture.h"

#define STACK 0x8000000000000001ull
#define PID   4000000

enum { LATE_S = 2 };

static void add_copy(struct store *store, uint64_t late_s, uint8_t detail, uint16_t flags,
		     uint64_t ns, uint64_t bytes)
{
	const uint64_t start_ns = (fixture_second() + late_s) * SECOND_NS;
	const struct op op = {
		.process = 1,
		.kind = OP_COPY,
		.detail = detail,
		.flags = flags,
		.start_ns = start_ns,
		.end_ns = detail == COPY_HTOD ? start_ns + 2 * ns : 0,
		.gpu_start_ns = start_ns,
		.gpu_end_ns = start_ns + ns,
		.bytes = bytes,
		.stack_id = detail == COPY_HTOD ? STACK : 0,
	};

	store_add_op(store, &op);
}

static int setup(void **state)
{
	const struct frame frames[] = { FRAME(0x10, 0x10, "/lib/libcuda.so.1", "cuMemcpyHtoD_v2"),
					FRAME(0x20, 0x20, "/opt/app", "forward") };
	struct fixture *fixture;
	struct store *store;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	store = fixture->store;
	add_process(store, 1, PID, 0);
	store_add_stack(store, &(struct store_stack){ STACK, 1, frames, 2, TS_END_COMPLETE, 0 });
	add_copy(store, 0, COPY_HTOD, OP_EXACT | OP_PAGEABLE, 150, 1000);
	add_copy(store, 0, COPY_HTOD, OP_EXACT | OP_PAGEABLE, 50, 1000);
	add_copy(store, LATE_S, COPY_HTOD, OP_EXACT | OP_PAGEABLE, 10, 3);
	add_copy(store, 0, COPY_HTOD, OP_EXACT, 5000, 1000000); /* of page-locked memory */
	add_copy(store, 0, COPY_DTOH, OP_BOUNDS | OP_UNTIMED | OP_PAGEABLE, 5000, 7);
	add_copy(store, 0, COPY_HTOH, OP_EXACT | OP_PAGEABLE, 5000, 8);
	store_commit(store, fixture_now_ns);
	fixture->store = store_free(store);
	return 0;
}

#define ROW(kind, count, total, bytes, rate, call, where)                                          \
	"{\"pid\":4000000,\"comm\":\"job1\",\"kind\":\"" kind "\",\"count\":" #count               \
	",\"total_ns\":" #total ",\"bytes\":" #bytes ",\"bytes_per_s\":" #rate                     \
	",\"call_ns\":" #call ",\"where\":" where "}"
#define ROWS(first)                                                                                \
	"{\"query\":\"pageable\",\"rows\":[\n" first                                               \
	",\n" ROW("DtoH", 1, null, 7, null, null, NOWHERE) "\n],\"loss\":{}}\n"

static void test_they_are_by_direction_and_stack(void **state)
{
	expect(state, QUERY(.name = "pageable"),
	       ROWS(ROW("HtoD", 3, 210, 2003, 9538095238, 420, IN_FORWARD FORWARD)));
}

static void test_a_window_cuts(void **state)
{
	const uint64_t until_ns = (fixture_second() + 1) * SECOND_NS;

	expect(state, QUERY(.name = "pageable", .until_ns = until_ns, .by = QUERY_BY_IS_LINE),
	       ROWS(ROW("HtoD", 2, 200, 2000, 10000000000, 400, IN_FORWARD "null")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_they_are_by_direction_and_stack, setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_window_cuts, setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
