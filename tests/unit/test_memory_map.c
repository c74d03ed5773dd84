/* Memory_map: what is drawn of blocks made by hand, names that are markup, and hostile numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/report/memory_map.h"
#include "core/base/array.h"
#include "core/model/core.h"

#define MIB    (1024 * 1024ull)
#define BASE   0x7f0000000000ull
#define BLOCKS 8000

struct drawn {
	struct meta *meta;
	struct picture picture;
	struct address_map map;
	char *text;
	size_t size;
};

static int setup(void **state)
{
	const struct frame source[] = { { .function = "cuMemAlloc_v2" },
					{ .function = "<b>&layer" } };
	const struct meta_frame *frame[2];
	struct drawn *drawn = calloc(1, sizeof(*drawn));

	assert_non_null(drawn);
	assert_int_equal(meta_new(&drawn->meta), 0);
	assert_int_equal(meta_add_process(drawn->meta, 1, 4711, "<train>", "train"), 0);
	assert_int_equal(meta_add_function(drawn->meta, 3, "cuMemAlloc_v2"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(source); i++)
		frame[i] = meta_frame(drawn->meta, &source[i]);
	assert_int_equal(meta_add_stack(drawn->meta, 9, frame, ARRAY_SIZE(frame)), 0);
	picture_init(&drawn->picture, drawn->meta, 1000, 2000);
	*state = drawn;
	return 0;
}

static int teardown(void **state)
{
	struct drawn *drawn = *state;

	address_map_done(&drawn->map);
	picture_done(&drawn->picture);
	meta_free(drawn->meta);
	free(drawn->text);
	free(drawn);
	return 0;
}

static void add(struct drawn *drawn, uint8_t op_kind, uint8_t kind, uint64_t at, uint64_t address,
		uint64_t bytes, int32_t result)
{
	const struct op op = {
		.kind = op_kind,
		.detail = kind,
		.start_ns = at,
		.address = address,
		.bytes = bytes,
		.stack_id = 9,
		.process = 1,
		.fn = 3,
		.result = result,
	};

	assert_int_equal(memory_map_ops(&drawn->map, &op, 1), 0);
}

static int draw(struct drawn *drawn)
{
	FILE *out = open_memstream(&drawn->text, &drawn->size);
	int r;

	assert_non_null(out);
	r = memory_map_draw(&drawn->picture, &drawn->map, BLOCKS, out);
	assert_int_equal(fclose(out), 0);
	return r;
}

static size_t count_of(const struct drawn *drawn, const char *text)
{
	size_t count = 0;

	for (const char *at = drawn->text; (at = strstr(at, text)); at++)
		count++;
	return count;
}

/* A block before another one was freed at the same place, one from before the time, and one that
 * ended before it. */
static void blocks_are_drawn_from_their_allocation_to_their_free(void **state)
{
	struct drawn *drawn = *state;
	const struct meta_held held = { .address = BASE + 4 * MIB,
					.bytes = 4 * MIB,
					.stack_id = 9,
					.at_ns = 1500,
					.process = 1,
					.kind = MEMORY_TENSOR };

	add(drawn, OP_ALLOC, MEMORY_DEVICE, 1100, BASE, 8 * MIB, 0);
	add(drawn, OP_FREE, MEMORY_TENSOR, 1200, BASE, 4 * MIB, 0);
	add(drawn, OP_ALLOC, MEMORY_TENSOR, 1300, BASE, 4 * MIB, 0);
	add(drawn, OP_FREE, MEMORY_TENSOR, 1400, BASE, 4 * MIB, 0);
	add(drawn, OP_ALLOC, MEMORY_TENSOR, 1500, BASE + 4 * MIB, 4 * MIB, 0);
	assert_int_equal(meta_add_held(drawn->meta, &held), 0);
	assert_int_equal(draw(drawn), 1);
	assert_int_equal(count_of(drawn, "height=\"178.50\" class=\"block0\""), 3);
	assert_non_null(strstr(drawn->text, "<rect x=\"280.0\" y=\"203.50\" width=\"180.0\""));
	assert_non_null(strstr(drawn->text, "<rect x=\"550.0\" y=\"203.50\" width=\"90.0\""));
	assert_non_null(strstr(drawn->text, "<rect x=\"730.0\" y=\"25.00\" width=\"450.0\""));
	assert_non_null(strstr(drawn->text, "<rect x=\"370.0\" y=\"25.00\" width=\"810.0\" "
					    "height=\"357.00\" class=\"segment\"/>"));
	assert_null(strstr(drawn->text, "<train>"));
	assert_non_null(strstr(drawn->text, "&lt;train&gt; 4711 · GPU 0 · 4 blocks"));
	assert_non_null(strstr(drawn->text, ">&lt;b&gt;&amp;layer</text>"));
}

/* It is told as an operation, and as what is live. */
static void what_is_live_is_one_block(void **state)
{
	struct drawn *drawn = *state;
	const struct op op = { .kind = OP_ALLOC,
			       .detail = MEMORY_DEVICE,
			       .start_ns = 1100,
			       .end_ns = 1150,
			       .address = BASE,
			       .bytes = MIB,
			       .process = 1 };
	const struct meta_held held = {
		.address = BASE, .bytes = MIB, .at_ns = 1150, .process = 1, .kind = MEMORY_DEVICE
	};

	assert_int_equal(memory_map_ops(&drawn->map, &op, 1), 0);
	assert_int_equal(meta_add_held(drawn->meta, &held), 0);
	assert_int_equal(draw(drawn), 1);
	assert_non_null(strstr(drawn->text, " · 1 block<"));
}

static void a_failed_allocation_is_a_line(void **state)
{
	struct drawn *drawn = *state;

	add(drawn, OP_ALLOC, MEMORY_DEVICE, 1100, BASE, 8 * MIB, 0);
	add(drawn, OP_ALLOC, MEMORY_DEVICE, 1600, 0, 64 * MIB, 2);
	add(drawn, OP_ALLOC, MEMORY_DEVICE, 1700, 0, 64 * MIB, 1);
	assert_int_equal(draw(drawn), 1);
	assert_int_equal(count_of(drawn, "class=\"failed\""), 1);
	assert_non_null(strstr(drawn->text, "d=\"M820.0 22v360\"><title>cuMemAlloc_v2: no memory "
					    "for 64.0 MiB</title>"));
}

static void nothing_is_drawn_of_nothing(void **state)
{
	struct drawn *drawn = *state;

	add(drawn, OP_ALLOC, MEMORY_DEVICE, 3000, BASE, 8 * MIB, 0);
	add(drawn, OP_ALLOC, MEMORY_HOST, 1100, BASE, 8 * MIB, 0);
	add(drawn, OP_FREE, MEMORY_DEVICE, 900, BASE + MIB, 8 * MIB, 0);
	assert_int_equal(draw(drawn), 0);
	assert_int_equal(drawn->size, 0);
}

static void too_many_and_hostile_numbers_are_bounded(void **state)
{
	static const uint64_t number[] = { 1, 1ull << 62, 1ull << 63, UINT64_MAX - 1, UINT64_MAX };
	struct drawn *drawn = *state;

	for (size_t i = 0; i < ARRAY_SIZE(number); i++)
		for (size_t k = 0; k < ARRAY_SIZE(number); k++) {
			add(drawn, OP_ALLOC, MEMORY_DEVICE, 1000 + i, number[i], number[k], 0);
			add(drawn, OP_FREE, MEMORY_TENSOR, number[i], number[k], number[k], 0);
		}
	for (uint64_t i = 0; i < 20000; i++)
		add(drawn, OP_ALLOC, MEMORY_TENSOR, 1000 + i % 900, BASE + 1024 * i, 512, 0);
	assert_int_equal(draw(drawn), 1);
	assert_int_equal(count_of(drawn, "<rect"), 8000 + 1 + 1);
	assert_non_null(strstr(drawn->text, "too small or too many to be drawn"));
	assert_null(strstr(drawn->text, "nan"));
	assert_null(strstr(drawn->text, "inf"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(blocks_are_drawn_from_their_allocation_to_their_free),
		TEST(what_is_live_is_one_block),
		TEST(a_failed_allocation_is_a_line),
		TEST(nothing_is_drawn_of_nothing),
		TEST(too_many_and_hostile_numbers_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
