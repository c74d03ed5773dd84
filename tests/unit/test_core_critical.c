/* The critical path of small programs, and of random ones what always holds: it has no holes, what
 * is on it has no slack, and the slack is what the emulator says it is. */
#include "plan_fixture.h"

#include <errno.h>

#include "core/plan/critical.h"

static struct critical *critical;
static struct plan_times *times;

static int forget_all(void **state)
{
	critical = critical_free(critical);
	times = plan_times_free(times);
	return forget(state);
}

static void assert_no_holes(void)
{
	uint64_t at = times->start_ns;

	for (size_t i = 0; i < critical->count; i++) {
		const struct critical_piece *piece = &critical->piece[i];

		assert_int_equal(piece->start_ns, at);
		assert_true(piece->end_ns > at);
		assert_true((piece->work == NOTHING) != (piece->call == NOTHING));
		at = piece->end_ns;
	}
	assert_int_equal(at, times->end_ns);
}

static void find(void)
{
	build();
	critical = critical_free(critical);
	times = plan_times_free(times);
	assert_int_equal(plan_times_new(plan, &times), 0);
	assert_int_equal(critical_find(plan, times, &critical), 0);
	assert_no_holes();
}

static void assert_piece(size_t number, enum critical_why why, uint64_t start_ns, uint64_t end_ns)
{
	assert_true(number < critical->count);
	assert_int_equal(critical->piece[number].why, why);
	assert_int_equal(critical->piece[number].start_ns, start_ns);
	assert_int_equal(critical->piece[number].end_ns, end_ns);
}

static uint64_t work_slack(uint64_t start_ns)
{
	return critical->work_slack_ns[work_at(start_ns) - plan->work];
}

static uint64_t call_slack(uint64_t start_ns)
{
	return critical->call_slack_ns[call_at(start_ns) - plan->call];
}

static void critical_path_of_nothing_is_empty(void **state)
{
	find();
	assert_int_equal(critical->count, 0);
}

static void critical_path_goes_through_host_and_device(void **state)
{
	add(FN_OTHER, 1, 1000, 1200, 0);
	add_work(FN_LAUNCH, 1, 1500, 1600, S1, 2000, 5000);
	add_work(FN_LAUNCH, 1, 1700, 1800, S2, 2100, 3000);
	add(FN_SYNC_DEVICE, 1, 1900, 5100, 0);
	add(FN_OTHER, 1, 5300, 5350, 0);
	find();
	assert_int_equal(critical->count, 7);
	assert_piece(0, CRITICAL_CALL, 1000, 1200);
	assert_piece(1, CRITICAL_HOST, 1200, 1500);
	assert_piece(2, CRITICAL_DELAY, 1500, 2000);
	assert_piece(3, CRITICAL_WORK, 2000, 5000);
	assert_piece(4, CRITICAL_DELAY, 5000, 5100);
	assert_piece(5, CRITICAL_HOST, 5100, 5300);
	assert_piece(6, CRITICAL_CALL, 5300, 5350);
	assert_int_equal(work_slack(2000), 0);
	assert_int_equal(work_slack(2100), 2000);
	assert_int_equal(call_slack(1900), 0);
	assert_int_equal(call_slack(1000), 0);
}

static void critical_path_follows_events(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 5000);
	add_event(FN_RECORD, 1, 1110, 1120, S1, 0xe);
	add_event(FN_WAIT, 1, 1130, 1140, SIDE, 0xe);
	add_work(FN_LAUNCH, 1, 1150, 1160, SIDE, 5010, 8000);
	add_work(FN_LAUNCH, 1, 1170, 1180, S1, 5005, 6000);
	find();
	assert_int_equal(critical->count, 4);
	assert_piece(0, CRITICAL_DELAY, 1000, 1500);
	assert_piece(1, CRITICAL_WORK, 1500, 5000);
	assert_piece(2, CRITICAL_DELAY, 5000, 5010);
	assert_piece(3, CRITICAL_WORK, 5010, 8000);
	assert_int_equal(work_slack(5005), 2000);
	assert_int_equal(call_slack(1170), 8000 - 1180);
}

static void critical_path_leaves_the_device_where_the_host_was_late(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 1600);
	add_work(FN_LAUNCH, 1, 9000, 9100, S1, 9500, 9600);
	find();
	assert_int_equal(critical->count, 4);
	assert_piece(0, CRITICAL_CALL, 1000, 1100);
	assert_piece(1, CRITICAL_HOST, 1100, 9000);
	assert_piece(2, CRITICAL_DELAY, 9000, 9500);
	assert_piece(3, CRITICAL_WORK, 9500, 9600);
	assert_int_equal(work_slack(1500), 7900 - work_at(9500)->gap_ns);
}

/* As the pool of copies: the second has to wait for the first, of another stream. */
static void critical_path_goes_through_an_engine(void **state)
{
	add_work(FN_HTOD_ASYNC, 1, 1000, 1100, S1, 1500, 5000);
	add_work(FN_HTOD_ASYNC, 1, 1200, 1300, SIDE, 5020, 9000);
	find();
	assert_int_equal(critical->count, 4);
	assert_piece(0, CRITICAL_DELAY, 1000, 1500);
	assert_piece(1, CRITICAL_WORK, 1500, 5000);
	assert_piece(2, CRITICAL_DELAY, 5000, 5020);
	assert_piece(3, CRITICAL_WORK, 5020, 9000);
}

static uint64_t seed;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

/* Two threads, four streams, events, waits of the host; all in order. */
static void make_program(void)
{
	uint64_t clock[2] = { 1000, 1500 }, end_ns[STREAMS] = { 0 }, event_ns = 0;
	uint32_t event_stream = 0;

	op_count = 0;
	for (int i = 0; i < 60; i++) {
		uint32_t thread = clock[1] < clock[0], stream = SIDE + random_below(2);
		uint64_t now = clock[thread], back = now + 1 + random_below(500), begin;

		switch (random_below(8)) {
		case 0:
			back = end_ns[stream] > now ? end_ns[stream] + random_below(90) : back;
			add(FN_SYNC_STREAM, thread, now, back, stream);
			break;
		case 1:
			add_event(FN_RECORD, thread, now, back, stream, 0xe);
			event_stream = stream;
			event_ns = end_ns[stream] > now ? end_ns[stream] : now;
			break;
		case 2:
			add_event(FN_WAIT, thread, now, back, stream, 0xe);
			if (event_stream && event_stream != stream && event_ns > end_ns[stream])
				end_ns[stream] = event_ns;
			break;
		default:
			begin = now + 200 + random_below(400);
			if (begin < end_ns[stream])
				begin = end_ns[stream] + random_below(50);
			end_ns[stream] = begin + 1 + random_below(3000);
			add_work(random_below(3) ? FN_LAUNCH : FN_HTOD_ASYNC, thread, now, back,
				 stream, begin, end_ns[stream]);
		}
		clock[thread] = back + 1 + random_below(1000);
	}
}

static uint64_t makespan_ns(void)
{
	struct emulate_result result;

	assert_int_equal(emulate(plan, &result), 0);
	plan_times_free(result.times);
	return result.makespan_ns;
}

static void assert_slack_of_work(uint32_t index, uint64_t makespan)
{
	struct plan_work *work = &plan->work[index];
	uint64_t duration_ns = work->duration_ns;

	if (work->flags & PLAN_MARK)
		return;
	work->duration_ns = duration_ns + critical->work_slack_ns[index];
	assert_int_equal(makespan_ns(), makespan);
	work->duration_ns++;
	assert_int_equal(makespan_ns(), makespan + 1);
	work->duration_ns = duration_ns;
}

static void assert_slack_of_call(uint32_t index, uint64_t makespan)
{
	struct plan_call *call = &plan->call[index];
	int64_t own_ns = call->own_ns;

	call->own_ns = (int64_t)(call->end_ns - call->start_ns + critical->call_slack_ns[index]);
	assert_int_equal(makespan_ns(), makespan);
	call->own_ns++;
	assert_int_equal(makespan_ns(), makespan + 1);
	call->own_ns = own_ns;
}

static void slack_is_how_much_longer_it_may_take(void **state)
{
	for (seed = 1; seed < 60; seed++) {
		uint64_t program = seed, makespan;

		make_program();
		find();
		/* What takes longer may be in the way of what is not behind it yet. */
		for (uint32_t i = 0; i < plan->work_count; i++)
			plan->work[i].share = 1;
		makespan = makespan_ns();
		for (uint32_t i = 0; i < plan->work_count; i++)
			assert_slack_of_work(i, makespan);
		for (uint32_t i = 0; i < plan->call_count; i++)
			assert_slack_of_call(i, makespan);
		seed = program;
	}
}

static void what_is_on_the_path_has_no_slack(void **state)
{
	for (uint64_t program = 1; program < 200; program++) {
		seed = program;
		make_program();
		find();
		for (size_t i = 0; i < critical->count; i++) {
			const struct critical_piece *piece = &critical->piece[i];

			if (piece->why == CRITICAL_WORK)
				assert_int_equal(critical->work_slack_ns[piece->work], 0);
			else if (piece->why == CRITICAL_CALL)
				assert_int_equal(critical->call_slack_ns[piece->call], 0);
		}
	}
}

/* Of a plan that runs in another way than it was recorded. */
static void a_changed_plan_has_a_path_too(void **state)
{
	for (uint64_t program = 1; program < 200; program++) {
		struct emulate_result result;

		seed = program;
		make_program();
		find();
		for (uint32_t i = 0; i < plan->work_count; i++)
			plan->work[i].duration_ns =
				plan->work[i].duration_ns * (1 + random_below(30)) / 10;
		plan->changed = true;
		assert_int_equal(emulate(plan, &result), 0);
		critical = critical_free(critical);
		times = plan_times_free(times);
		times = result.times;
		assert_int_equal(critical_find(plan, times, &critical), 0);
		assert_no_holes();
	}
}

static void what_goes_in_a_circle_has_no_path(void **state)
{
	add_work(FN_LAUNCH, 1, 1000, 1100, S1, 1500, 1600);
	add_work(FN_LAUNCH, 1, 1200, 1300, S1, 1700, 1800);
	find();
	plan->work[0].before = 1;
	critical = critical_free(critical);
	assert_int_equal(critical_find(plan, times, &critical), -ELOOP);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, forget_all, forget_all)
	const struct CMUnitTest tests[] = {
		STORY(critical_path_of_nothing_is_empty),
		STORY(critical_path_goes_through_host_and_device),
		STORY(critical_path_follows_events),
		STORY(critical_path_leaves_the_device_where_the_host_was_late),
		STORY(critical_path_goes_through_an_engine),
		STORY(slack_is_how_much_longer_it_may_take),
		STORY(what_is_on_the_path_has_no_slack),
		STORY(a_changed_plan_has_a_path_too),
		STORY(what_goes_in_a_circle_has_no_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
