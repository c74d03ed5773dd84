/* The queue to the writer, with users who add more than it takes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/limits.h"
#include "core/store/queue.h"

#define FLOOD  1 /* a process, of user */
#define GREEDY 1001
#define HONEST 1002

/* What came out, by process. */
struct taken {
	uint64_t ops[4], dropped[4], rows[4], rows_dropped[4], last_ns[4];
	bool in_order;
};

static void add_op(struct queue *queue, uint32_t process, uint32_t user, uint64_t start_ns)
{
	const struct op op = { .process = process, .start_ns = start_ns, .end_ns = start_ns };

	queue_add_op(queue, user, &op);
}

static void take_ops(struct taken *taken, const struct op_block *block)
{
	for (; block; block = block->next) {
		assert_true(block->count > 0);
		for (uint32_t i = 0; i < block->count; i++) {
			const struct op *op = &block->op[i];

			taken->in_order &= op->start_ns >= taken->last_ns[op->process];
			taken->last_ns[op->process] = op->start_ns;
			taken->ops[op->process]++;
		}
	}
}

static void take_drops(struct taken *taken, const struct drops *drops)
{
	for (uint32_t i = 0; i < drops->count; i++) {
		assert_true(drops->of[i].process < 4);
		taken->dropped[drops->of[i].process] += drops->of[i].ops;
		taken->rows_dropped[drops->of[i].process] += drops->of[i].rows;
	}
}

static struct taken take_all(struct queue *queue)
{
	struct taken taken = { .in_order = true };
	struct record_cursor cursor;
	const struct record *record;
	struct queue_turn turn;

	queue_stop(queue);
	while (queue_take(queue, &turn)) {
		take_ops(&taken, turn.batch.first_ops);
		take_drops(&taken, &turn.drops);
		cursor = (struct record_cursor){ 0 };
		while ((record = batch_next_record(&turn.batch, &cursor)))
			taken.rows[record->type]++;
		queue_finish(queue, &turn, 0);
	}
	return taken;
}

static struct queue *new_queue(void)
{
	struct queue *queue;

	assert_int_equal(queue_new(&queue), 0);
	return queue;
}

static void a_flood_costs_other_users_nothing(void **state)
{
	const uint64_t flood = 2 * LIMIT_STORE_OPS, honest = flood / 64;
	struct queue *queue = new_queue();
	struct taken taken;

	for (uint64_t i = 0; i < flood; i++) {
		add_op(queue, FLOOD, GREEDY, i);
		if (i % 64 == 0)
			add_op(queue, 2 + i / 64 % 2, HONEST, i);
		if (i % 65536 == 0)
			queue_commit(queue, i + 1);
	}
	taken = take_all(queue);
	assert_int_equal(taken.ops[2] + taken.ops[3], honest);
	assert_int_equal(taken.dropped[2] + taken.dropped[3], 0);
	assert_int_equal(taken.ops[FLOOD] + taken.dropped[FLOOD], flood);
	assert_true(taken.ops[FLOOD] > LIMIT_STORE_OPS - honest - 65536);
	assert_int_equal(taken.dropped[0], 0);
	assert_true(taken.in_order);
	queue_free(queue);
}

/* Whoever is alone has all of it, as before; what is dropped is the oldest. */
static void a_single_user_has_all_of_it(void **state)
{
	struct queue *queue = new_queue();
	struct taken taken;

	for (uint64_t i = 0; i < LIMIT_STORE_OPS + BATCH_BLOCK_OPS; i++)
		add_op(queue, 2, HONEST, i);
	taken = take_all(queue);
	assert_int_equal(taken.ops[2], LIMIT_STORE_OPS);
	assert_int_equal(taken.dropped[2], BATCH_BLOCK_OPS);
	assert_int_equal(taken.last_ns[2], LIMIT_STORE_OPS + BATCH_BLOCK_OPS - 1);
	queue_free(queue);
}

/* What the writer has cannot be dropped: then others pay, and nothing is lost without a count. */
static void what_the_writer_has_is_left_to_it(void **state)
{
	struct queue *queue = new_queue();
	struct taken taken = { .in_order = true };
	struct queue_turn turn;

	for (uint64_t i = 0; i < LIMIT_STORE_OPS; i++)
		add_op(queue, FLOOD, GREEDY, i);
	queue_commit(queue, 1);
	assert_true(queue_take(queue, &turn));
	for (uint64_t i = 0; i < LIMIT_STORE_OPS; i++)
		add_op(queue, 2, HONEST, i);
	queue_finish(queue, &turn, -EIO); /* it comes again */
	taken = take_all(queue);
	assert_int_equal(taken.ops[FLOOD] + taken.dropped[FLOOD], LIMIT_STORE_OPS);
	assert_int_equal(taken.ops[2] + taken.dropped[2], LIMIT_STORE_OPS);
	assert_in_range(taken.ops[FLOOD], LIMIT_STORE_OPS / 4, LIMIT_STORE_OPS / 2 + 512);
	queue_free(queue);
}

static void one_users_rows_leave_room_for_anothers(void **state)
{
	struct queue *queue = new_queue();
	struct drops drops;
	struct taken taken;
	uint64_t waiting, flood = 0;

	while (queue_add_record(queue, GREEDY, FLOOD, FLOOD, 1 << 16))
		flood++;
	assert_in_range(flood, LIMIT_STORE_ROW_BYTES / 2 / 65600,
			LIMIT_STORE_ROW_BYTES / 2 / 65536);
	for (int i = 0; i < 100; i++)
		assert_non_null(queue_add_record(queue, HONEST, 2, 2, 1000));
	queue_stats(queue, &drops, &waiting);
	assert_int_equal(drops.rows, 1);
	taken = take_all(queue);
	assert_int_equal(taken.rows[FLOOD], flood);
	assert_int_equal(taken.rows[2], 100);
	assert_int_equal(taken.rows_dropped[FLOOD], 1);
	/* There is room again for what is written. */
	assert_non_null(queue_add_record(queue, GREEDY, FLOOD, FLOOD, 1 << 16));
	queue_free(queue);
}

static void drops_of_many_processes_add_up(void **state)
{
	struct drops drops = { 0 }, more = { 0 }, moved = { 0 };
	uint64_t sum = 0;

	for (uint32_t i = 1; i <= 1000; i++)
		drops_add_ops(&more, &(struct op){ .process = i, .start_ns = i }, 1);
	drops_add_rows(&more, 3, 5, 77);
	drops_add(&drops, &more);
	drops_move_ops(&drops, 100, &moved);
	assert_int_equal(drops.ops, 900);
	assert_int_equal(moved.ops, 100);
	assert_int_equal(drops.rows, 5);
	assert_int_equal(moved.rows, 0);
	for (uint32_t i = 0; i < drops.count; i++)
		sum += drops.of[i].ops;
	for (uint32_t i = 0; i < moved.count; i++)
		sum += moved.of[i].ops;
	assert_int_equal(sum, 1000);
	assert_true(drops.count <= DROPS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_costs_other_users_nothing),
		cmocka_unit_test(a_single_user_has_all_of_it),
		cmocka_unit_test(what_the_writer_has_is_left_to_it),
		cmocka_unit_test(one_users_rows_leave_room_for_anothers),
		cmocka_unit_test(drops_of_many_processes_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
