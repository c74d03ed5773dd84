/* How fragmented pools are, over allocations made by hand. */
#include "tests/unit/query_fixture.h"

#include <unistd.h>

#include "core/memory/pools.h"

#define PID  4000000
#define MIB  (1024 * 1024ull)
#define BASE 0x7f0000000000ull

static uint64_t next_id = 1;

static void add_on(struct store *store, uint32_t process, int16_t device, uint8_t kind,
		   uint64_t address, uint64_t bytes, uint64_t stack)
{
	const struct core_allocation allocation = {
		.id = next_id,
		.address = address,
		.bytes = bytes,
		.start_ns = fixture_now_ns - 100 * SECOND_NS + next_id,
		.stack_id = stack,
		.process = process,
		.fn = FN_ALLOC,
		.kind = kind,
		.device = device,
	};

	next_id++;
	store_add(store, &allocation);
}

static void add(struct store *store, uint32_t process, uint8_t kind, uint64_t address,
		uint64_t bytes, uint64_t stack)
{
	add_on(store, process, 0, kind, address, bytes, stack);
}

static void add_allocator(struct store *store, uint32_t process, uint64_t bytes, uint64_t used)
{
	const struct core_pool pool = {
		.process = process,
		.kind = CORE_POOL_ALLOCATOR,
		.address = 1,
		.bytes = bytes,
		.used_bytes = used,
	};

	store_add(store, &pool);
}

static struct store *open_store(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(fixture_open(fixture), 0);
	add_process(fixture->store, 1, PID, 0);
	add_process(fixture->store, 2, PID + 1, 0);
	return fixture->store;
}

static void close_store(void **state)
{
	struct fixture *fixture = *state;

	store_commit(fixture->store, fixture_now_ns);
	fixture->store = store_free(fixture->store);
}

/* Rows of `sql` are as this JSON. */
static void expect_sql(void **state, const char *sql, const char *text)
{
	struct answer_text answer = { 0 };

	run_sql_text(*state, sql, 1000, 0, &answer);
	if (!strstr(answer.text, text))
		fail_msg("no %s in %s", text, answer.text);
	answer_text_done(&answer);
}

#define POOLS                                                                                      \
	"SELECT p.pid, pool, segments, blocks, segment_bytes AS held, used_bytes AS used,"         \
	" free_bytes AS free, pieces, largest_bytes AS largest, index_ppm, splits"                 \
	" FROM fragment(1, NULL, now_ns(), 0) f JOIN process p ON p.id = f.process"                \
	" ORDER BY p.pid, pool"

static void two_packed_processes_have_0_and_a_checkerboard_nearly_1(void **state)
{
	struct store *store = open_store(state);

	add(store, 1, MEMORY_DEVICE, BASE, 20 * MIB, 1);
	add(store, 2, MEMORY_DEVICE, BASE, 20 * MIB, 1);
	add_allocator(store, 1, 20 * MIB, 10 * MIB);
	add_allocator(store, 2, 20 * MIB, 20 * MIB);
	for (uint64_t i = 0; i < 10; i++)
		add(store, 1, MEMORY_TENSOR, BASE + 2 * i * MIB, MIB, 7);
	add(store, 2, MEMORY_TENSOR, BASE, 20 * MIB, 1);
	close_store(state);
	expect_sql(state, POOLS,
		   "{\"pid\":4000000,\"pool\":1,\"segments\":10,\"blocks\":1,\"held\":20971520,"
		   "\"used\":20971520,\"free\":0,\"pieces\":0,\"largest\":0,\"index_ppm\":0,"
		   "\"splits\":0},\n"
		   "{\"pid\":4000000,\"pool\":3,\"segments\":1,\"blocks\":10,\"held\":20971520,"
		   "\"used\":10485760,\"free\":10485760,\"pieces\":10,\"largest\":1048576,"
		   "\"index_ppm\":900000,\"splits\":9},\n"
		   "{\"pid\":4000001,\"pool\":1,");
	expect_sql(state, POOLS,
		   "{\"pid\":4000001,\"pool\":3,\"segments\":1,\"blocks\":1,\"held\":20971520,"
		   "\"used\":20971520,\"free\":0,\"pieces\":0,\"largest\":0,\"index_ppm\":0,"
		   "\"splits\":0}\n");
	expect_sql(state,
		   "SELECT stack, splits, split_bytes FROM fragment(1, 4000000, now_ns(), 1)"
		   " WHERE pool = 3",
		   "{\"stack\":7,\"splits\":9,\"split_bytes\":9437184}");
	expect_sql(state,
		   "SELECT size_bytes, pieces, free_bytes FROM fragment(1, 4000000, now_ns(), 2)",
		   "{\"size_bytes\":1048576,\"pieces\":10,\"free_bytes\":10485760}");
}

/* Segments of 2 MiB are for small blocks; a mapped range is one, however it was mapped; and what
 * the allocator has beside these is unknown. */
static void each_kind_of_segment_is_a_pool_of_its_own(void **state)
{
	struct store *store = open_store(state);

	add(store, 1, MEMORY_DEVICE, BASE, 2 * MIB, 1);
	add(store, 1, MEMORY_TENSOR, BASE + MIB, 1024, 1);
	add(store, 1, MEMORY_DEVICE, BASE + 100 * MIB, 20 * MIB, 1);
	add(store, 1, MEMORY_TENSOR, BASE + 100 * MIB, 4 * MIB, 1);
	add(store, 1, MEMORY_RESERVED, BASE + 1000 * MIB, 50 * MIB, 1);
	for (uint64_t i = 0; i < 3; i++)
		add(store, 1, MEMORY_MAPPED, BASE + (1000 + 2 * i) * MIB, 2 * MIB, 1);
	add(store, 1, MEMORY_TENSOR, BASE + 1001 * MIB, 4 * MIB, 1);
	/* Of another reservation, right behind it, and without tensors. */
	add(store, 1, MEMORY_RESERVED, BASE + 1006 * MIB, 50 * MIB, 1);
	add(store, 1, MEMORY_MAPPED, BASE + 1006 * MIB, 2 * MIB, 1);
	/* What is not PyTorch's. */
	add(store, 1, MEMORY_DEVICE, BASE + 500 * MIB, 3 * MIB, 1);
	add_allocator(store, 1, 40 * MIB, 20 * MIB);
	close_store(state);
	expect_sql(state, POOLS, "\"pool\":1,\"segments\":13,\"blocks\":3,\"held\":27262976,");
	expect_sql(state, POOLS,
		   "\"pool\":2,\"segments\":1,\"blocks\":1,\"held\":2097152,\"used\":1024,"
		   "\"free\":2096128,\"pieces\":2,");
	expect_sql(state, POOLS,
		   "\"pool\":3,\"segments\":1,\"blocks\":1,\"held\":20971520,\"used\":4194304,"
		   "\"free\":16777216,\"pieces\":1,\"largest\":16777216,\"index_ppm\":0,");
	expect_sql(state, POOLS,
		   "\"pool\":4,\"segments\":1,\"blocks\":1,\"held\":6291456,\"used\":4194304,"
		   "\"free\":2097152,\"pieces\":2,\"largest\":1048576,\"index_ppm\":500000,");
	expect_sql(state, POOLS,
		   "\"pool\":5,\"segments\":0,\"blocks\":0,\"held\":12582912,"
		   "\"used\":12581888,\"free\":0,");
}

/* Half of the bytes of the last minute were asked for in blocks of 3 MiB: of the free memory, what
 * is in smaller pieces cannot serve them. */
/* In a context from before the daemon watched, whose device nobody knows. */
static void a_segment_is_on_the_device_of_its_blocks(void **state)
{
	struct store *store = open_store(state);

	add_on(store, 1, DEVICE_UNKNOWN, MEMORY_DEVICE, BASE, 20 * MIB, 1);
	add_on(store, 1, DEVICE_UNKNOWN, MEMORY_DEVICE, BASE + 64 * MIB, 4 * MIB, 1);
	add_on(store, 1, DEVICE_UNKNOWN, MEMORY_DEVICE, BASE + 96 * MIB, 20 * MIB, 1);
	add_allocator(store, 1, 20 * MIB, 2 * MIB);
	add(store, 1, MEMORY_TENSOR, BASE + MIB, MIB, 7);
	add(store, 1, MEMORY_TENSOR, BASE + 5 * MIB, MIB, 7);
	add_on(store, 1, 3, MEMORY_TENSOR, BASE + 96 * MIB, MIB, 7);
	close_store(state);
	expect_sql(state,
		   "SELECT group_concat(printf('%d:%d:%d:%d:%d', device, pool, segment_bytes >> 20,"
		   " used_bytes >> 20, pieces), ' ') AS found FROM (SELECT * FROM"
		   " fragment(1, 4000000, now_ns(), 0) ORDER BY device, pool)",
		   "{\"found\":\"-1:1:4:4:0 0:1:20:20:0 0:3:20:2:3 3:1:20:20:0 3:3:20:1:1\"}");
}

static void what_was_asked_for_lately_says_what_is_of_no_use(void **state)
{
	struct store *store = open_store(state);
	const struct core_rollup recent = {
		.second = fixture_now_ns / SECOND_NS - 10,
		.detail = MEMORY_TENSOR,
		.bytes = 30 * MIB,
	};

	add(store, 1, MEMORY_DEVICE, BASE, 20 * MIB, 1);
	add(store, 1, MEMORY_TENSOR, BASE + 2 * MIB, 8 * MIB, 1);
	add(store, 1, MEMORY_TENSOR, BASE + 15 * MIB, 3 * MIB, 1);
	add_allocator(store, 1, 20 * MIB, 11 * MIB);
	add_rollup(store, 1, FN_ALLOC, OP_ALLOC, 10, recent);
	close_store(state);
	expect_sql(state,
		   "SELECT typical_bytes, unusable_bytes FROM fragment(1, NULL, now_ns(), 0)"
		   " WHERE pool = 3",
		   "{\"typical_bytes\":3145728,\"unusable_bytes\":4194304}");
}

/* Written, with the upkeep that follows, before the next commit is. */
static void commit(struct store *store, uint64_t now_ns)
{
	struct store_stats stats = { 0 };

	store_commit(store, now_ns);
	while (stats.written_ns < now_ns) {
		usleep(1000);
		store_stats(store, &stats);
	}
}

static void each_pool_is_measured_once_a_minute(void **state)
{
	struct store *store = open_store(state);
	struct answer_text answer = { 0 };

	add(store, 1, MEMORY_DEVICE, BASE, 20 * MIB, 1);
	add_allocator(store, 1, 20 * MIB, 10 * MIB);
	commit(store, fixture_now_ns - 95 * SECOND_NS);
	for (uint64_t i = 0; i < 10; i++)
		add(store, 1, MEMORY_TENSOR, BASE + 2 * i * MIB, MIB, 7);
	commit(store, fixture_now_ns - 80 * SECOND_NS);
	commit(store, fixture_now_ns - 35 * SECOND_NS);
	commit(store, fixture_now_ns - 20 * SECOND_NS);
	close_store(state);
	expect_sql(
		state,
		"SELECT group_concat((now_ns() / 1000000000 - second) || ':' || process || ':' ||"
		" pool || ':' || index_ppm, ' ') AS found FROM (SELECT * FROM fragmentation"
		" ORDER BY second, process, pool)",
		"{\"found\":\"95:1:1:0 35:1:1:0 35:1:3:900000\"}");
	run_named(*state, &QUERY(.name = "fragmentation-history"), &answer);
	assert_int_equal(answer.rows, 3);
	answer_text_done(&answer);
}

static void hostile_sizes_are_no_harm(void **state)
{
	static const uint64_t number[] = { 0, 1, 1ull << 62, 1ull << 63, UINT64_MAX };
	struct store *store = open_store(state);
	struct answer_text answer = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(number); i++)
		for (size_t k = 0; k < ARRAY_SIZE(number); k++)
			for (uint8_t kind = 1; kind <= MEMORY_KIND_MAX; kind++)
				add(store, 1 + kind % 2, kind, number[i], number[k], number[i]);
	add_allocator(store, 1, UINT64_MAX, UINT64_MAX);
	add_allocator(store, 2, 0, 1ull << 63);
	close_store(state);
	run_named(*state, &QUERY(.name = "fragmentation"), &answer);
	assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__UNSPECIFIED);
	assert_true(answer.rows > 2);
	answer_text_done(&answer);
	run_named(*state, &QUERY(.name = "fragmentation", .by = QUERY_BY_IS_STACK), &answer);
	assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__UNSPECIFIED);
	answer_text_done(&answer);
	run_named(*state, &QUERY(.name = "fragmentation-sizes"), &answer);
	assert_int_equal(answer.error, TRACESMITH__V1__ERROR__CODE__UNSPECIFIED);
	answer_text_done(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
		TEST(two_packed_processes_have_0_and_a_checkerboard_nearly_1),
		TEST(each_kind_of_segment_is_a_pool_of_its_own),
		TEST(what_was_asked_for_lately_says_what_is_of_no_use),
		TEST(a_segment_is_on_the_device_of_its_blocks),
		TEST(each_pool_is_measured_once_a_minute),
		TEST(hostile_sizes_are_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
