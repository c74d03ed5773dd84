/* Live: what streams do, counted once, however it becomes known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/live/live.h"

#define PROCESS 3

typedef Tracesmith__V1__LiveReply__Stream Stream;

static struct live *watch(void)
{
	const struct core_process process = { .id = PROCESS, .pid = 42, .ppid = 41 };
	struct live *live = live_new();

	assert_non_null(live);
	live_start(live, 100 * NS_PER_S);
	live_row(live, CORE_ROW_PROCESS, &process);
	return live;
}

static void lasts(struct live *live, uint32_t stream, uint8_t state, uint64_t since_ns,
		  uint64_t until_ns)
{
	const struct core_doing doing = {
		.process = PROCESS,
		.stream = stream,
		.state = state,
		.exact = true,
		.since_ns = since_ns,
		.until_ns = until_ns,
	};

	live_stream(live, &doing);
}

static void was(struct live *live, uint32_t stream, uint8_t state, uint64_t since_ns,
		uint64_t until_ns)
{
	const struct op op = {
		.kind = OP_STATE,
		.process = PROCESS,
		.stream = stream,
		.detail = state,
		.flags = OP_EXACT,
		.start_ns = since_ns,
		.end_ns = until_ns,
	};

	live_op(live, &op);
}

/* What is said of the process, valid until the next. */
static const Tracesmith__V1__LiveReply__Process *take(struct live *live, uint64_t now_s)
{
	struct live_message message;

	assert_int_equal(live_take(live, now_s * NS_PER_S, &message), 0);
	assert_int_equal(message.whole->n_process, 1);
	assert_int_equal(message.whole->process[0]->ppid, 41);
	return message.whole->process[0];
}

/* It is told again and again, from its start, and by each process; once it is over, too. */
static void what_was_not_watched_is_told_as_it_lasts(void **unused)
{
	struct core_loss gap = { .start_ns = 99 * NS_PER_S,
				 .end_ns = 100 * NS_PER_S + NS_PER_S / 2,
				 .process = PROCESS,
				 .reason = LOSS_GAP,
				 .count = 1 };
	struct live *live = watch();
	struct live_message message;

	live_row(live, CORE_ROW_LOSS, &gap);
	gap.process++;
	live_row(live, CORE_ROW_LOSS, &gap);
	assert_int_equal(live_take(live, 101 * NS_PER_S, &message), 0);
	assert_true(message.whole->process[0]->unwatched);
	assert_int_equal(message.whole->n_loss, 1);
	assert_string_equal(message.whole->loss[0]->reason, "gap");
	assert_int_equal(message.whole->loss[0]->count, 2);
	assert_int_equal(message.whole->loss[0]->time_ns, NS_PER_S / 2);
	gap.count = 0;
	gap.end_ns = 102 * NS_PER_S;
	live_row(live, CORE_ROW_LOSS, &gap);
	assert_int_equal(live_take(live, 102 * NS_PER_S, &message), 0);
	assert_int_equal(message.changed->n_loss, 1);
	assert_int_equal(message.changed->loss[0]->count, 0);
	assert_int_equal(message.changed->loss[0]->time_ns, 3 * NS_PER_S / 2);
	assert_string_equal(message.changed->loss[0]->said,
			    "not watched for 1.50 s (probes were not attached yet)");
	assert_int_equal(live_take(live, 103 * NS_PER_S, &message), 0);
	assert_false(message.whole->process[0]->unwatched);
	assert_int_equal(message.whole->n_loss, 0);
	live_free(live);
}

static void what_lasts_is_counted_once(void **unused)
{
	const Tracesmith__V1__LiveReply__Process *said;
	struct live *live = watch();

	/* It is known late, and lasts. */
	lasts(live, 7, OP_STATE_RUNNING, 900, 1000);
	said = take(live, 101);
	assert_int_equal(said->n_stream, 1);
	assert_int_equal(said->stream[0]->id, 7);
	assert_int_equal(said->stream[0]->running_ns, 100);
	assert_false(said->stream[0]->bounds);
	/* Nothing more became known. */
	lasts(live, 7, OP_STATE_RUNNING, 900, 1000);
	assert_int_equal(take(live, 102)->n_stream, 0);
	/* It ended: the model reports all of it. */
	was(live, 7, OP_STATE_RUNNING, 900, 1100);
	was(live, 7, OP_STATE_PENDING, 1100, 1150);
	was(live, 7, OP_STATE_IDLE, 1150, 9000);
	lasts(live, 7, OP_STATE_WAITING, 9000, 9001);
	said = take(live, 103);
	assert_int_equal(said->n_stream, 1);
	assert_int_equal(said->stream[0]->running_ns, 100);
	assert_int_equal(said->stream[0]->pending_ns, 50);
	assert_int_equal(said->stream[0]->waiting_ns, 1);
	take(live, 104);
	take(live, 105);
	was(live, 7, OP_STATE_RUNNING, 9001, 9003); /* it was forgotten meanwhile */
	assert_int_equal(take(live, 106)->stream[0]->running_ns, 2);
	live_free(live);
}

static void those_that_did_most_are_said(void **unused)
{
	const Tracesmith__V1__LiveReply__Process *said;
	struct live *live = watch();
	const struct core_process gone = { .id = PROCESS, .pid = 42, .exit_ns = 1 };

	for (uint32_t i = 1; i <= 3 * LIMIT_LIVE_STREAMS; i++)
		was(live, i, OP_STATE_RUNNING, 10, 10 + i * 7 % 50);
	said = take(live, 101);
	assert_int_equal(said->n_stream, LIMIT_LIVE_STREAMS);
	assert_int_equal(said->streams_left_out, 2 * LIMIT_LIVE_STREAMS);
	assert_int_equal(said->stream[0]->running_ns, 49);
	for (size_t i = 1; i < said->n_stream; i++)
		assert_true(said->stream[i]->running_ns <= said->stream[i - 1]->running_ns);
	was(live, 5, OP_STATE_RUNNING, 100, 200);
	live_row(live, CORE_ROW_PROCESS, &gone);
	was(live, 5, OP_STATE_RUNNING, 200, 300);
	live_free(live);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_not_watched_is_told_as_it_lasts),
		cmocka_unit_test(what_lasts_is_counted_once),
		cmocka_unit_test(those_that_did_most_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
