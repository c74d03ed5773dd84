/* Plans of small programs: who waits for whom. */
#include "plan_fixture.h"

#include <errno.h>

static void plan_of_nothing_is_empty(void **state)
{
	build();
	assert_int_equal(plan->call_count, 0);
	assert_int_equal(plan->work_count, 0);
	assert_reproduced();
}

static void plan_orders_a_thread_and_a_stream(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_work(FN_LAUNCH, 1, 1200, 1300, S1, 2600, 2700);
	add(FN_SYNC_STREAM, 1, 1400, 2750, S1);
	build();
	assert_reproduced();
	assert_int_equal(plan->call_count, 3);
	assert_int_equal(call_at(1200)->delay_ns, 100);
	assert_true(waits(work_at(2600), work_at(1500)));
	assert_int_equal(work_at(1500)->bound, PLAN_BOUND_CALL);
	assert_int_equal(work_at(1500)->delay_ns, 500);
	assert_int_equal(work_at(2600)->bound, PLAN_BOUND_STREAM);
	assert_int_equal(work_at(2600)->delay_ns, 100);
	assert_true(call_waits(call_at(1400), work_at(2600)));
	assert_int_equal(call_at(1400)->tail_ns, 50);
	assert_int_equal(plan->start_ns, 1000);
	assert_int_equal(plan->end_ns, 2750);
	assert_int_equal(plan->contradicted, 0);
}

static void plan_does_not_care_in_which_order_ops_come(void **state)
{
	add(FN_SYNC_STREAM, 1, 1400, 2750, S1);
	add_work(FN_LAUNCH, 1, 1200, 1300, S1, 2600, 2700);
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	build();
	assert_reproduced();
	assert_int_equal(plan->op[0].start_ns, 1000);
	assert_int_equal(plan->op[2].start_ns, 1400);
	assert_true(waits(work_at(2600), work_at(1500)));
}

static void plan_follows_an_event_to_another_stream(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_event(FN_RECORD, 1, 1110, 1120, S1, 0xe);
	add_work(FN_LAUNCH, 1, 1130, 1200, S1, 2600, 4000);
	add_event(FN_WAIT, 1, 1210, 1220, SIDE, 0xe);
	add_work(FN_HTOD_ASYNC, 1, 1230, 1300, SIDE, 2550, 3000);
	build();
	assert_reproduced();
	assert_true(waits(work_at(2550), work_at(1500)));
	assert_false(waits(work_at(2550), work_at(2600)));
	assert_int_equal(work_at(2550)->delay_ns, 50);
	assert_int_equal(plan->work_count, 5);
}

static void plan_takes_the_latest_record_of_an_event(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_event(FN_RECORD, 1, 1110, 1120, S1, 0xe);
	add_work(FN_LAUNCH, 1, 1130, 1200, S2, 1600, 4000);
	add_event(FN_RECORD, 1, 1210, 1220, S2, 0xe);
	add_event(FN_WAIT, 1, 1230, 1240, SIDE, 0xe);
	add_work(FN_LAUNCH, 1, 1250, 1300, SIDE, 4010, 5000);
	add_event(FN_RECORD, 1, 1310, 1320, S1, 0xe); /* too late to count */
	build();
	assert_reproduced();
	assert_true(waits(work_at(4010), work_at(1600)));
	assert_false(waits(work_at(4010), work_at(1500)));
}

static void plan_ignores_a_wait_for_what_was_not_recorded(void **state)
{
	add_event(FN_WAIT, 1, 1000, 1010, SIDE, 0xe);
	add_event(FN_RECORD, 1, 1020, 1030, S1, 0xf);
	add_event(FN_DESTROY, 1, 1040, 1050, 0, 0xf);
	add_event(FN_WAIT, 1, 1060, 1070, SIDE, 0xf);
	add_event(FN_SYNC_EVENT, 1, 1080, 1090, 0, 0xf);
	build();
	assert_reproduced();
	assert_int_equal(plan->work_count, 1); /* the record */
	assert_int_equal(call_at(1080)->edge_count, 0);
}

static void plan_lets_a_thread_wait_for_an_event(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_event(FN_RECORD, 1, 1110, 1120, S1, 0xe);
	add_work(FN_LAUNCH, 1, 1130, 1200, S1, 2600, 9000);
	add_event(FN_SYNC_EVENT, 1, 1300, 2600, 0, 0xe);
	build();
	assert_reproduced();
	assert_true(call_waits(call_at(1300), work_at(1500)));
	assert_false(call_waits(call_at(1300), work_at(2600)));
	assert_int_equal(call_at(1300)->tail_ns, 100);
}

static void plan_keeps_the_order_of_the_default_stream(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_work(FN_LAUNCH, 1, 1110, 1120, SIDE, 1600, 5000);
	add_work(FN_LAUNCH, 1, 1130, 1140, LEGACY, 2510, 3000);
	add_work(FN_LAUNCH, 1, 1150, 1160, S2, 3010, 3500);
	add_work(FN_LAUNCH, 1, 1170, 1180, SIDE2, 1700, 6000);
	add(FN_SYNC_STREAM, 1, 1190, 3600, LEGACY);
	build();
	assert_reproduced();
	assert_true(waits(work_at(2510), work_at(1500)));
	assert_false(waits(work_at(2510), work_at(1600)));
	assert_true(waits(work_at(3010), work_at(2510)));
	assert_false(waits(work_at(1700), work_at(2510)));
	assert_true(call_waits(call_at(1190), work_at(3010)));
	assert_false(call_waits(call_at(1190), work_at(1700)));
}

static void plan_lets_a_blocking_copy_wait_for_itself(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_work(FN_HTOD, 1, 1110, 3050, LEGACY, 2600, 3000);
	/* Of memory that is not page-locked, and small: it returned before. */
	add_work(FN_HTOD, 1, 4000, 4010, LEGACY, 4100, 4200);
	build();
	assert_reproduced();
	assert_true(call_waits(call_at(1110), work_at(2600)));
	assert_int_equal(call_at(1110)->tail_ns, 50);
	assert_int_equal(call_at(4000)->edge_count, 0);
	assert_int_equal(plan->contradicted, 0);
}

static void plan_sees_that_an_asynchronous_copy_waited(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 42500);
	add_work(FN_DTOH_ASYNC, 1, 1110, 45000, S1, 43000, 44000);
	add_work(FN_DTOH_ASYNC, 1, 46000, 49000, S1, 47000, 48000);
	build();
	assert_reproduced();
	assert_true(call_waits(call_at(1110), work_at(43000)));
	assert_int_equal(call_at(46000)->edge_count, 0);
}

static void plan_sees_that_a_free_waited(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 42500);
	add_work(FN_LAUNCH, 1, 1110, 1120, SIDE, 1600, 30000);
	add(FN_FREE, 1, 2000, 42600, 0);
	add_work(FN_LAUNCH, 1, 43000, 43100, S1, 43500, 90000);
	add(FN_FREE, 1, 44000, 60000, 0); /* took long, but for another reason */
	build();
	assert_reproduced();
	assert_true(call_waits(call_at(2000), work_at(1500)));
	assert_true(call_waits(call_at(2000), work_at(1600)));
	assert_int_equal(call_at(44000)->edge_count, 0);
}

static void plan_waits_for_the_whole_device(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_work(FN_LAUNCH, 2, 1010, 1100, SIDE, 1600, 4000);
	add(FN_SYNC_DEVICE, 1, 1200, 4100, 0);
	add_work(FN_LAUNCH, 1, 4200, 4300, SIDE, 4500, 4600);
	add(FN_SYNC_DEVICE, 1, 4310, 4700, 0);
	add(FN_SYNC_DEVICE, 2, 4320, 4710, 0);
	build();
	assert_reproduced();
	assert_true(call_waits(call_at(1200), work_at(1500)));
	assert_true(call_waits(call_at(1200), work_at(1600)));
	assert_int_equal(call_at(4310)->edge_count, 1); /* the rest is known to be over */
	assert_int_equal(call_at(4320)->edge_count, 2);
}

static void plan_puts_two_threads_on_one_stream_as_they_ran(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1400, S1, 2000, 2100);
	add_event(FN_RECORD, 1, 1450, 1460, S1, 0xe);
	add_work(FN_LAUNCH, 2, 1100, 1300, S1, 1500, 1900); /* was faster */
	add(FN_SYNC_STREAM, 2, 1500, 2150, S1);
	build();
	assert_reproduced();
	assert_true(waits(work_at(2000), work_at(1500)));
	assert_false(waits(work_at(1500), work_at(2000)));
	assert_true(call_waits(call_at(1500), work_at(2000)));
	assert_int_equal(plan->contradicted, 0);
}

static void plan_of_captured_calls_has_no_works(void **state)
{
	struct op *op;

	add(FN_CAPTURE_BEGIN, 1, 1000, 1010, S1);
	op = add(FN_LAUNCH, 1, 1020, 1030, S1);
	op->flags |= OP_CAPTURED;
	add_event(FN_RECORD, 1, 1040, 1050, S1, 0xe);
	add_event(FN_WAIT, 1, 1060, 1070, S2, 0xe);
	add_event(FN_RECORD, 1, 1080, 1090, S2, 0xf);
	add_event(FN_SYNC_EVENT, 1, 1091, 1092, 0, 0xf);
	add(FN_CAPTURE_END, 1, 1100, 1110, S1);
	add_event(FN_RECORD, 1, 1120, 1130, S2, 0xe);
	add_work(FN_LAUNCH, 1, 1140, 1150, S1, 1200, 1300);
	build();
	assert_reproduced();
	assert_int_equal(plan->call_count, 9);
	assert_int_equal(plan->work_count, 2);
	assert_int_equal(call_at(1091)->edge_count, 0);
}

static void plan_puts_a_graph_between_its_neighbours(void **state)
{
	struct op *call;

	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	call = add(FN_LAUNCH, 1, 1200, 1300, S1);
	add_node(call, S1, 2600, 3000);	  /* A */
	add_node(call, SIDE, 3100, 5000); /* B, after A */
	add_node(call, S1, 3050, 4000);	  /* C, after A */
	add_node(call, S1, 4100, 4500);	  /* D, after C */
	add_node(call, S1, 5100, 5200);	  /* E, after B and D */
	add_work(FN_LAUNCH, 1, 1400, 1500, S1, 5300, 5400);
	build();
	assert_reproduced();
	assert_true(waits(work_at(2600), work_at(1500)));
	assert_true(waits(work_at(3100), work_at(2600)));
	assert_true(waits(work_at(3050), work_at(2600)));
	assert_true(waits(work_at(4100), work_at(3050)));
	assert_false(waits(work_at(4100), work_at(3100)));
	assert_true(waits(work_at(5100), work_at(3100)));
	assert_true(waits(work_at(5100), work_at(4100)));
	assert_true(waits(work_at(5300), work_at(5100)));
	assert_int_equal(plan->contradicted, 0);
}

static void plan_keeps_branches_of_a_graph_apart(void **state)
{
	struct op *call = add(FN_LAUNCH, 1, 1000, 1100, S1);

	/* Of one stream, as CUPTI may tell; each has its own row. */
	add_node(call, S1, 2000, 3000);
	add_node(call, S1, 2010, 3500);
	add_node(call, S1, 3010, 3900);
	add_node(call, S1, 3510, 4000);
	add_work(FN_LAUNCH, 1, 1200, 1300, S1, 4100, 4200);
	build();
	assert_reproduced();
	assert_true(waits(work_at(3010), work_at(2000)));
	assert_false(waits(work_at(3010), work_at(2010)));
	assert_true(waits(work_at(3510), work_at(2010)));
	assert_false(waits(work_at(3510), work_at(2000)));
	assert_true(waits(work_at(4100), work_at(3010)));
	assert_true(waits(work_at(4100), work_at(3510)));
}

static void plan_places_work_whose_call_was_not_seen(void **state)
{
	struct op *op;

	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_work(FN_LAUNCH, 1, 1200, 1300, S1, 4000, 4500);
	op = add_work(FN_LAUNCH, 0, 2600, 0, S1, 2600, 3900);
	op->flags |= OP_NO_CALL;
	op->kind = OP_KERNEL;
	op->fn = 0;
	add(FN_SYNC_STREAM, 1, 3000, 4600, S1);
	build();
	assert_reproduced();
	assert_int_equal(plan->call_count, 3);
	assert_int_equal(plan->no_call, 1);
	assert_true(waits(work_at(2600), work_at(1500)));
	assert_true(waits(work_at(4000), work_at(2600)));
	assert_true(call_waits(call_at(3000), work_at(4000)));
}

/* As all are in the probe tier: only bounds are known. */
static void plan_lets_untimed_work_take_no_time(void **state)
{
	add(FN_LAUNCH, 1, 1000, 0, S1);
	add(FN_LAUNCH, 1, 1200, 0, S1);
	add(FN_HTOD, 1, 1300, 1800, LEGACY);
	add(FN_SYNC_STREAM, 1, 2000, 9000, S1);
	build();
	assert_reproduced();
	assert_int_equal(plan->work_count, 3);
	assert_int_equal(plan->untimed, 3);
	assert_int_equal(plan->work[1].start_ns, 1200);
	assert_int_equal(plan->work[1].end_ns, 1200);
	assert_int_equal(plan->end_ns, 9000);
}

static void plan_knows_work_that_begins_early(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_event(FN_RECORD, 1, 1110, 1120, S1, 0xe);
	add_work(FN_LAUNCH, 1, 1200, 1300, S1, 2400, 3000); /* while the first still runs */
	build();
	assert_reproduced();
	assert_true(waits(work_at(2400), work_at(1500)));
	assert_int_equal(plan->contradicted, 0);
}

static void plan_leaves_out_what_the_recording_contradicts(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 2500);
	add_event(FN_RECORD, 1, 1110, 1120, S1, 0xe);
	add_event(FN_WAIT, 1, 1130, 1140, SIDE, 0xe);
	add_work(FN_LAUNCH, 1, 1150, 1200, SIDE, 2000, 2200); /* did not wait */
	add_work(FN_LAUNCH, 1, 3000, 3100, S2, 2900, 3200);   /* ran before its call */
	add(FN_SYNC_STREAM, 1, 3150, 3180, S2);		      /* returned too soon */
	build();
	assert_reproduced();
	assert_int_equal(plan->contradicted, 3);
	assert_false(waits(work_at(2000), work_at(1500)));
	assert_int_equal(work_at(2900)->call, NOTHING);
	assert_int_equal(call_at(3150)->edge_count, 0);
}

static void plan_ends_a_call_where_the_next_begins(void **state)
{
	add(FN_OTHER, 1, 1000, 2000, 0);
	add(FN_OTHER, 1, 1500, 1600, 0);
	add(FN_OTHER, 2, 1500, 1600, 0);
	build();
	assert_reproduced();
	assert_int_equal(call_at(1000)->end_ns, 1500);
	assert_int_equal(plan->contradicted, 1);
	assert_int_equal(plan->thread_count, 2);
}

static void plan_sees_that_a_launch_waited_for_room(void **state)
{
	uint64_t now = 1000;

	for (uint32_t i = 0; i < 600; i++) {
		uint64_t begin = 10000 + i * 100000ull, end = begin + 90000;
		uint64_t room_ns = i < 500 ? 0 : 10000 + (i - 500) * 100000ull + 90000;
		uint64_t back = room_ns > now ? room_ns + 1000 : now + 3000;

		add_work(FN_LAUNCH, 1, now, back, S1, begin, end);
		now = back + 1000;
	}
	build();
	assert_reproduced();
	assert_int_equal(plan->call[499].edge_count, 0);
	assert_true(plan->call[550].flags & PLAN_BLOCKS);
	assert_int_equal(plan->call[550].edge_count, 1);
	assert_int_equal(plan->edge[plan->call[550].edge].work, 50);
	assert_int_equal(plan->edge[plan->call[550].edge].kind, PLAN_EDGE_QUEUE);
	assert_int_equal(plan->call[550].tail_ns, 1000);
}

static void plan_takes_what_concerns_it(void **state)
{
	struct op *op = add_work(FN_SYNC_STREAM, 1, 900, 950, S1, 900, 950);

	add(FN_OTHER, 1, 1000, 1100, 0);
	add(FN_OTHER, 1, 1200, 1300, 0)->kind = OP_RANGE;
	add(FN_OTHER, 1, 1200, 1300, 0)->kind = OP_STATE;
	add(FN_OTHER, 1, 1200, 1300, 0)->kind = OP_OVERHEAD;
	add_work(FN_LAUNCH, 1, 1400, 1500, S1, 1600, 1700)->result = 1;
	op->detail = 1;
	build();
	assert_int_equal(plan->call_count, 2);
	assert_int_equal(plan->work_count, 0);
}

static void plan_refuses_more_than_its_bound(void **state)
{
	_cleanup_(plan_builder_freep) struct plan_builder *builder = NULL;
	uint8_t effect[FN_COUNT] = { 0 };

	add(FN_OTHER, 1, 1000, 1100, 0);
	add(FN_OTHER, 1, 1200, 1300, 0);
	assert_int_equal(plan_builder_new(effect, FN_COUNT, 1, &builder), 0);
	assert_int_equal(plan_builder_add(builder, ops, 2), -E2BIG);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, forget, forget)
	const struct CMUnitTest tests[] = {
		STORY(plan_of_nothing_is_empty),
		STORY(plan_orders_a_thread_and_a_stream),
		STORY(plan_does_not_care_in_which_order_ops_come),
		STORY(plan_follows_an_event_to_another_stream),
		STORY(plan_takes_the_latest_record_of_an_event),
		STORY(plan_ignores_a_wait_for_what_was_not_recorded),
		STORY(plan_lets_a_thread_wait_for_an_event),
		STORY(plan_keeps_the_order_of_the_default_stream),
		STORY(plan_lets_a_blocking_copy_wait_for_itself),
		STORY(plan_sees_that_an_asynchronous_copy_waited),
		STORY(plan_sees_that_a_free_waited),
		STORY(plan_waits_for_the_whole_device),
		STORY(plan_puts_two_threads_on_one_stream_as_they_ran),
		STORY(plan_of_captured_calls_has_no_works),
		STORY(plan_puts_a_graph_between_its_neighbours),
		STORY(plan_keeps_branches_of_a_graph_apart),
		STORY(plan_places_work_whose_call_was_not_seen),
		STORY(plan_lets_untimed_work_take_no_time),
		STORY(plan_knows_work_that_begins_early),
		STORY(plan_leaves_out_what_the_recording_contradicts),
		STORY(plan_ends_a_call_where_the_next_begins),
		STORY(plan_sees_that_a_launch_waited_for_room),
		STORY(plan_takes_what_concerns_it),
		STORY(plan_refuses_more_than_its_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
