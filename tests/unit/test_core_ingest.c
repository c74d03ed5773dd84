/* The door: what makes an op, what is turned away, and what is added up. */
#include "core_fixture.h"

#define SECOND_NS 1000000000ull

static const struct core_origin bpf = { 0 };

static void ingest_makes_an_op_of_a_launch(void **state)
{
	struct ts_event event = call_event(FN_LAUNCH, 10, 0);
	const struct op *op;

	announce();
	on_context(FN_CTX_CREATE, 2, 0xc1, 3);
	event.stack_id = 0xabc;
	event.flags = TS_EVENT_PER_THREAD | TS_EVENT_STACK_LOST;
	event.api.handle = 0xf00;
	for (int i = 0; i < 3; i++) {
		event.api.grid[i] = 1 + i;
		event.api.block[i] = 10 + i;
	}
	event.api.shared_bytes = 64;
	assert_int_equal(give(&event), INGEST_OK);
	on_stream(FN_CTX_SYNC, 20, 30, 0);
	op = op_at(10);
	assert_int_equal(op->kind, OP_LAUNCH);
	assert_int_equal(op->process, 1);
	assert_int_equal(op->stream, 1);
	assert_int_equal(op->device, 3);
	assert_int_equal(op->tid, tid);
	assert_int_equal(op->handle, 0xf00);
	assert_int_equal(op->stack_id, 0xabc);
	assert_int_equal(op->end_ns, 0);
	assert_int_equal(op->bytes, 0);
	assert_int_equal(op->flags, OP_PER_THREAD | OP_STACK_LOST | OP_BOUNDS);
	assert_int_equal(op->grid[2], 3);
	assert_int_equal(op->block[0], 10);
	assert_int_equal(op->shared_bytes, 64);
	assert_int_equal(stats().ops, seen.ops + seen.states);
}

static uint64_t bytes_of(uint64_t width, uint64_t height, uint64_t depth)
{
	struct ts_event event = call_event(FN_COPY_WAIT, 10, 20);

	event.api.bytes = width;
	event.api.height = height;
	event.api.depth = depth;
	give(&event);
	return last_op(FN_COPY_WAIT)->bytes;
}

static void ingest_tells_how_many_stacks_sampling_left_out(void **state)
{
	struct ts_event event = call_event(FN_LAUNCH, 10, 0);

	announce();
	launch(5, 0);
	event.stack_id = 7;
	give(&event);
	event.stack_id = 0;
	event.flags = TS_EVENT_STACK_LOST;
	give(&event);
	on_stream(FN_CTX_SYNC, 20, 30, 0);
	core_checkpoint(core, 40);
	assert_int_equal(lost(LOSS_STACK_SAMPLED), 2); /* the first launch, and the wait */
}

static void ingest_counts_a_set_in_bytes(void **state)
{
	struct ts_event event = call_event(FN_SET, 10, 20);

	announce();
	event.api.bytes = 100;
	event.api.height = 3;
	give(&event);
	on_stream(FN_CTX_SYNC, 30, 40, 0);
	assert_int_equal(last_op(FN_SET)->bytes, 1200);
}

static void ingest_gives_a_call_that_never_returned_no_effect(void **state)
{
	struct ts_event event = call_event(FN_FREE, 30, 0);

	announce();
	on_memory(FN_ALLOC, 10, 20, 0x1000, 100);
	event.api.address = 0x1000;
	event.flags = TS_EVENT_UNFINISHED;
	assert_int_equal(give(&event), INGEST_OK);
	assert_int_equal(stats().allocations, 1);
	event.flags = TS_EVENT_RETURNED;
	event.end_ns = 31;
	give(&event);
	assert_int_equal(stats().allocations, 0);
}

static void ingest_knows_the_device_of_a_host_with_one(void **state)
{
	struct core_config config = fixture_config();

	config.one_device = true;
	fixture_restart(&config);
	announce();
	on_memory(FN_ALLOC, 10, 20, 0x1000, 100);
	assert_int_equal(last_op(FN_ALLOC)->device, 0);
}

static void ingest_multiplies_the_bytes_of_areas(void **state)
{
	announce();
	assert_int_equal(bytes_of(100, 0, 0), 100);
	assert_int_equal(bytes_of(100, 5, 0), 500);
	assert_int_equal(bytes_of(100, 5, 3), 1500);
	assert_int_equal(bytes_of(1ull << 40, 1ull << 40, 2), INT64_MAX);
	assert_int_equal(bytes_of(UINT64_MAX, 0, 0), INT64_MAX);
}

static int give_changed(size_t offset, uint64_t value, size_t width)
{
	struct ts_event event = call_event(FN_INIT, 10, 20);

	memcpy((char *)&event + offset, &value, width);
	return give(&event);
}

#define GIVE(member, value)                                                                        \
	give_changed(offsetof(struct ts_event, member), value,                                     \
		     sizeof(((struct ts_event *)0)->member))

static void ingest_turns_away_what_makes_no_sense(void **state)
{
	struct ts_event event = call_event(FN_INIT, 10, 20);

	announce();
	assert_int_equal(GIVE(start_ns, 15), INGEST_OK);
	assert_int_equal(GIVE(kind, 0), INGEST_BAD);
	assert_int_equal(GIVE(kind, 999), INGEST_BAD);
	assert_int_equal(GIVE(fn, 0), INGEST_BAD); /* a row without a name */
	assert_int_equal(GIVE(fn, FN_COUNT), INGEST_BAD);
	assert_int_equal(GIVE(tgid, 0), INGEST_BAD);
	assert_int_equal(GIVE(start_ns, 21), INGEST_BAD);
	assert_int_equal(GIVE(start_ns, 0), INGEST_BAD);
	assert_int_equal(GIVE(end_ns, UINT64_MAX), INGEST_BAD);
	assert_int_equal(core_ingest(core, &bpf, &event, sizeof(event) - 1), INGEST_BAD);
	assert_int_equal(core_ingest(core, &bpf, &event, 3), INGEST_BAD);
	assert_int_equal(core_ingest(core, &bpf, &event, sizeof(event) + 8), INGEST_OK);
	assert_int_equal(stats().bad, 10);
	assert_int_equal(seen.ops, 2);
	core_checkpoint(core, 100);
	assert_int_equal(lost(LOSS_BAD_EVENT), 10);
}

static void ingest_turns_away_times_far_ahead(void **state)
{
	announce();
	core_tick(core, 5 * SECOND_NS);
	assert_int_equal(on_stream(FN_INIT, 3000 * SECOND_NS, 0, 0), INGEST_OK);
	assert_int_equal(on_stream(FN_INIT, 4000 * SECOND_NS, 0, 0), INGEST_BAD);
}

static void ingest_counts_strays_with_their_window(void **state)
{
	assert_int_equal(on_stream(FN_INIT, 10, 20, 0), INGEST_STRAY);
	core_tick(core, 50);
	assert_int_equal(on_stream(FN_INIT, 10, 20, 0), INGEST_STRAY);
	core_checkpoint(core, 60);
	assert_int_equal(seen.losses, 1);
	assert_int_equal(seen.loss[0].count, 2);
	assert_int_equal(seen.loss[0].process, 0);
	assert_int_equal(seen.loss[0].end_ns, 50);
	core_checkpoint(core, 70);
	assert_int_equal(seen.losses, 1);
}

/* The daemon saw the process gone, and did not wait for longer. */
static void ingest_takes_an_end_that_comes_late(void **state)
{
	struct ts_event end = process_event(TS_EVENT_EXIT, 30, 0);

	assert_int_equal(core_ingest(core, &bpf, &end, sizeof(end)), INGEST_OK);
	core_checkpoint(core, 60);
	assert_int_equal(lost(LOSS_STRAY), 0);
}

static void ingest_believes_a_library_about_itself_only(void **state)
{
	const struct core_origin self = { .pid = pid }, other = { .pid = pid + 1 };
	struct ts_event event = call_event(FN_INIT, 10, 20);
	struct ts_event end = process_event(TS_EVENT_EXIT, 30, 0);

	announce();
	assert_int_equal(core_ingest(core, &self, &event, sizeof(event)), INGEST_BAD);
	assert_int_equal(core_ingest(core, &self, &end, sizeof(end)), INGEST_BAD);
	event.kind = TS_EVENT_OVERHEAD;
	assert_int_equal(core_ingest(core, &self, &event, sizeof(event)), INGEST_OK);
	assert_int_equal(core_ingest(core, &other, &event, sizeof(event)), INGEST_BAD);
	assert_int_equal(give(&event), INGEST_BAD);
}

/* Those of the programs are counted by these. */
static void ingest_adds_up_stacks_that_a_library_lost(void **state)
{
	const struct core_origin self = { .pid = pid, .calls = true };
	struct ts_event event = call_event(FN_LAUNCH, 10, 0);

	announce();
	event.flags = TS_EVENT_STACK_LOST;
	assert_int_equal(give(&event), INGEST_OK);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(core_ingest(core, &self, &event, sizeof(event)), INGEST_OK);
	event.flags = 0;
	event.stack_id = 7;
	assert_int_equal(core_ingest(core, &self, &event, sizeof(event)), INGEST_OK);
	assert_int_equal(seen.losses, 0);
	core_checkpoint(core, 60);
	assert_int_equal(lost(LOSS_STACK), 1000);
	assert_in_range(seen.losses, 1, 9);
}

static void ingest_checks_stacks(void **state)
{
	static _Alignas(struct ts_stack) char
		record[sizeof(struct ts_stack) + (TS_STACK_FRAMES_MAX + 1) * sizeof(uint64_t) +
		       (TS_STACK_PYTHON_MAX + 1) * sizeof(struct ts_python_frame)];
	struct ts_stack *stack = (struct ts_stack *)record;
	size_t size = sizeof(*stack) + 3 * sizeof(uint64_t);

	*stack = (struct ts_stack){ .kind = TS_EVENT_STACK, .tgid = pid, .time_ns = 10, .id = 7 };
	stack->frame_count = 3;
	assert_int_equal(core_ingest(core, &bpf, record, size), INGEST_STRAY);
	announce();
	assert_int_equal(core_ingest(core, &bpf, record, size), INGEST_OK);
	assert_int_equal(core_ingest(core, &bpf, record, size - 1), INGEST_BAD);
	assert_int_equal(core_ingest(core, &bpf, record, 20), INGEST_BAD);
	stack->frame_count = TS_STACK_FRAMES_MAX;
	assert_int_equal(core_ingest(core, &bpf, record, sizeof(record)), INGEST_OK);
	stack->frame_count = TS_STACK_FRAMES_MAX + 1;
	assert_int_equal(core_ingest(core, &bpf, record, sizeof(record)), INGEST_BAD);
	stack->frame_count = 0;
	assert_int_equal(core_ingest(core, &bpf, record, sizeof(record)), INGEST_BAD);
	assert_int_equal(seen.stacks, 2);
	/* With frames of Python, which follow a whole array of the others. */
	stack->frame_count = 3;
	stack->python_count = 2;
	size = sizeof(*stack) + TS_STACK_FRAMES_MAX * sizeof(uint64_t) +
	       2 * sizeof(struct ts_python_frame);
	assert_int_equal(core_ingest(core, &bpf, record, size), INGEST_OK);
	assert_int_equal(core_ingest(core, &bpf, record, size - 1), INGEST_BAD);
	stack->python_count = TS_STACK_PYTHON_MAX + 1;
	assert_int_equal(core_ingest(core, &bpf, record, sizeof(record)), INGEST_BAD);
	assert_int_equal(seen.stacks, 3);
}

static void ingest_forwards_losses_of_others(void **state)
{
	core_lose(core, &(struct core_loss){ .reason = LOSS_GAP, .count = 1, .end_ns = 9 });
	assert_int_equal(seen.losses, 1);
	assert_int_equal(seen.loss[0].end_ns, 9);
}

static void ingest_refuses_a_table_that_it_cannot_follow(void **state)
{
	static const struct function no_kind = { .name = "alloc", .effect = EFFECT_ALLOC };
	static const struct function no_effect = { .name = "call", .effect = 200 };
	struct core_config config = fixture_config();
	struct core *none = NULL;

	config.functions = (struct function_table){ &no_kind, 1 };
	assert_int_equal(core_new(&config, &none), -EINVAL);
	config.functions = (struct function_table){ NULL, 0 };
	config.max_streams = 0;
	assert_int_equal(core_new(&config, &none), -EINVAL);
	config = fixture_config();
	config.functions = (struct function_table){ &no_effect, 1 };
	assert_int_equal(core_new(&config, &none), -EINVAL);
	assert_null(none);
}

static const struct core_rollup *rollup_like(enum fn fn, int32_t result, bool freed)
{
	const struct core_rollup *found = NULL;

	for (size_t i = 0; i < seen.rollups; i++) {
		const struct core_rollup *row = &seen.rollup[i];

		if (row->fn != fn || row->result != result || row->freed != freed)
			continue;
		assert_null(found);
		found = row;
	}
	assert_non_null(found);
	return found;
}

static void rollup_adds_up_like_calls(void **state)
{
	struct ts_event event = call_event(FN_COPY_WAIT, 2 * SECOND_NS, 2 * SECOND_NS + 30);
	const struct core_rollup *row;

	announce();
	event.api.bytes = 100;
	give(&event);
	event.end_ns -= 20;
	give(&event);
	event.flags = 0; /* the return was not watched */
	give(&event);
	event.flags = TS_EVENT_RETURNED;
	event.result = 700;
	give(&event);
	core_checkpoint(core, 3 * SECOND_NS);
	assert_int_equal(seen.rollups, 2);
	row = rollup_like(FN_COPY_WAIT, 0, false);
	assert_int_equal(row->second, 2);
	assert_int_equal(row->calls, 3);
	assert_int_equal(row->timed, 2);
	assert_int_equal(row->total_ns, 40);
	assert_int_equal(row->min_ns, 10);
	assert_int_equal(row->max_ns, 30);
	assert_int_equal(row->bytes, 300);
	assert_int_equal(row->kind, OP_COPY);
	assert_int_equal(row->detail, COPY_HTOD);
	assert_int_equal(row->stream, 1);
	assert_int_equal(rollup_like(FN_COPY_WAIT, 700, false)->calls, 1);
	core_checkpoint(core, 4 * SECOND_NS);
	assert_int_equal(seen.rollups, 2); /* handed over once */
}

static void rollup_keeps_unlike_calls_apart(void **state)
{
	struct ts_event event = call_event(FN_INIT, 10, 20);

	announce();
	for (event.result = 0; event.result < 250; event.result++)
		give(&event);
	core_checkpoint(core, 30);
	assert_int_equal(seen.rollups, 250);
}

static void rollup_counts_a_held_op_when_it_was_called(void **state)
{
	announce();
	launch(10, 0);
	core_checkpoint(core, 20);
	assert_null(op_at(10));
	assert_int_equal(rollup_like(FN_LAUNCH, 0, false)->calls, 1);
}

static void rollup_of_what_is_freed_is_under_its_allocation(void **state)
{
	const struct core_rollup *row;

	announce();
	on_memory(FN_ALLOC_MANAGED, 10, 20, 0xa000, 4096);
	on_memory(FN_ALLOC_MANAGED, 10, 20, 0xb000, 10);
	core_checkpoint(core, 50);
	on_memory(FN_FREE, 5 * SECOND_NS, 5 * SECOND_NS + 1, 0xa000, 0);
	core_checkpoint(core, 6 * SECOND_NS);
	assert_int_equal(rollup_like(FN_ALLOC_MANAGED, 0, false)->bytes, 4106);
	row = rollup_like(FN_ALLOC_MANAGED, 0, true);
	assert_int_equal(row->calls, 1);
	assert_int_equal(row->bytes, 4096);
	assert_int_equal(row->stack_id, 7);
	assert_int_equal(row->detail, MEMORY_MANAGED);
	assert_int_equal(row->kind, OP_ALLOC);
	assert_int_equal(row->second, 5);
	assert_int_equal(row->timed, 0);
	assert_int_equal(rollup_like(FN_FREE, 0, false)->bytes, 4096);
}

static void rollup_of_the_context_of_a_retain_is_its_device(void **state)
{
	announce();
	on_context(FN_RETAIN, 10, 0xc1, 2);
	core_checkpoint(core, 20);
	assert_int_equal(rollup_like(FN_RETAIN, 0, false)->device, 2);
}

static void rollup_beyond_the_limit_has_no_stack(void **state)
{
	struct ts_event event = call_event(FN_INIT, 10, 20);
	uint64_t calls = 0, without = 0;

	announce();
	for (uint64_t i = 1; i <= 1000; i++) {
		event.stack_id = i;
		assert_int_equal(give(&event), i <= 256 ? INGEST_OK : INGEST_LIMIT);
	}
	core_checkpoint(core, 30);
	for (size_t i = 0; i < seen.rollups; i++) {
		calls += seen.rollup[i].calls;
		without += seen.rollup[i].stack_id ? 0 : seen.rollup[i].calls;
	}
	assert_int_equal(seen.rollups, 257);
	assert_int_equal(calls, 1000);
	assert_int_equal(without, 1000 - 256);
	assert_int_equal(lost(LOSS_LIMIT), 1000 - 256);
}

/* A library of ours retains primary contexts to ask what they are. */
static void ingest_knows_our_own_calls(void **state)
{
	struct ts_event event = call_event(FN_RETAIN, 10, 11);

	announce();
	event.flags |= TS_EVENT_OWN;
	event.api.context = 0xc1;
	event.api.device = 1;
	assert_int_equal(give(&event), INGEST_OK);
	event = call_event(FN_ALLOC, 12, 13);
	event.flags |= TS_EVENT_OWN;
	event.api.address = 0x1000;
	event.api.bytes = 10;
	assert_int_equal(give(&event), INGEST_OK);
	event = call_event(FN_LAUNCH, 14, 0);
	event.flags |= TS_EVENT_OWN;
	event.api.stream = 0x5000;
	assert_int_equal(give(&event), INGEST_OK);
	core_checkpoint(core, 20);
	assert_int_equal(seen.ops + seen.rollups + seen.streams + seen.allocations, 0);
	assert_int_equal(lost(LOSS_STACK_SAMPLED), 0);
	/* What they say about the context is trusted. */
	on_context(FN_CTX_SET, 30, 0xc1, 0);
	on_memory(FN_ALLOC, 40, 41, 0x2000, 10);
	assert_int_equal(op_at(40)->device, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(ingest_knows_our_own_calls),
		STORY(ingest_makes_an_op_of_a_launch),
		STORY(ingest_tells_how_many_stacks_sampling_left_out),
		STORY(ingest_counts_a_set_in_bytes),
		STORY(ingest_gives_a_call_that_never_returned_no_effect),
		STORY(ingest_knows_the_device_of_a_host_with_one),
		STORY(ingest_multiplies_the_bytes_of_areas),
		STORY(ingest_turns_away_what_makes_no_sense),
		STORY(ingest_turns_away_times_far_ahead),
		STORY(ingest_counts_strays_with_their_window),
		STORY(ingest_takes_an_end_that_comes_late),
		STORY(ingest_believes_a_library_about_itself_only),
		STORY(ingest_adds_up_stacks_that_a_library_lost),
		STORY(ingest_checks_stacks),
		STORY(ingest_forwards_losses_of_others),
		STORY(ingest_refuses_a_table_that_it_cannot_follow),
		STORY(rollup_adds_up_like_calls),
		STORY(rollup_keeps_unlike_calls_apart),
		STORY(rollup_counts_a_held_op_when_it_was_called),
		STORY(rollup_of_what_is_freed_is_under_its_allocation),
		STORY(rollup_of_the_context_of_a_retain_is_its_device),
		STORY(rollup_beyond_the_limit_has_no_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
