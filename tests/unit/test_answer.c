/* Answer: replies of a client library's answer become rows, whatever comes in whatever order; and
 * messages of the daemon become a table. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/library/answer.h"

/* The reply as it comes over the wire. */
static Tracesmith__V1__Reply *received(const Tracesmith__V1__Reply *reply)
{
	const size_t size = tracesmith__v1__reply__get_packed_size(reply);
	uint8_t *data = malloc(size + 1);
	Tracesmith__V1__Reply *ret;

	tracesmith__v1__reply__pack(reply, data);
	ret = tracesmith__v1__reply__unpack(NULL, size, data);
	free(data);
	assert_non_null(ret);
	return ret;
}

static int take_columns(struct tracesmith_answer *answer, size_t count)
{
	Tracesmith__V1__Columns__Column column = TRACESMITH__V1__COLUMNS__COLUMN__INIT;
	Tracesmith__V1__Columns__Column *all[] = { &column, &column, &column };
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	column.name = "a";
	column.type = TRACESMITH__V1__COLUMNS__TYPE__BYTES;
	columns.column = all;
	columns.n_column = count;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_COLUMNS;
	reply.columns = &columns;
	return answer_take(answer, received(&reply));
}

static int take_row(struct tracesmith_answer *answer, Tracesmith__V1__Value **value, size_t count)
{
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT, *all[] = { &row };
	Tracesmith__V1__Rows rows = TRACESMITH__V1__ROWS__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	row.value = value;
	row.n_value = count;
	rows.row = all;
	rows.n_row = 1;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ROWS;
	reply.rows = &rows;
	return answer_take(answer, received(&reply));
}

static int take_done(struct tracesmith_answer *answer)
{
	Tracesmith__V1__Loss loss = TRACESMITH__V1__LOSS__INIT, *losses[] = { &loss };
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;

	loss.reason = "dropped";
	loss.count = 7;
	loss.said = "not watched";
	done.loss = losses;
	done.n_loss = 1;
	done.note = "why";
	done.truncated = true;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	reply.done = &done;
	return answer_take(answer, received(&reply));
}

static void a_cell_has_its_type(void **state)
{
	_cleanup_(answer_freep) struct tracesmith_answer *answer = answer_new();
	Tracesmith__V1__Value integer = TRACESMITH__V1__VALUE__INIT, none = integer, text = integer;
	Tracesmith__V1__Value *values[] = { &integer, &none, &text };
	struct tracesmith_cell cell;
	enum tracesmith_unit unit;

	integer.value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
	integer.integer = INT64_MIN;
	text.value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
	text.text = "t";
	assert_int_equal(take_columns(answer, 3), 0);
	assert_int_equal(take_row(answer, values, 3), 0);
	assert_int_equal(take_done(answer), 1);
	assert_int_equal(tracesmith_answer_rows(answer), 1);
	assert_int_equal(tracesmith_answer_columns(answer), 3);
	assert_string_equal(tracesmith_answer_column(answer, 2, &unit), "a");
	assert_int_equal(unit, TRACESMITH_UNIT_BYTES);
	assert_null(tracesmith_answer_column(answer, 3, &unit));
	assert_int_equal(tracesmith_answer_cell(answer, 0, 0, &cell), TRACESMITH_INTEGER);
	assert_true(cell.integer == INT64_MIN && cell.real == (double)INT64_MIN);
	assert_int_equal(tracesmith_answer_cell(answer, 0, 2, &cell), TRACESMITH_TEXT);
	assert_string_equal(cell.text, "t");
	assert_int_equal(cell.size, 1);
	assert_int_equal(cell.integer, 0);
	assert_int_equal(tracesmith_answer_cell(answer, 0, 1, &cell), TRACESMITH_NULL);
	assert_int_equal(tracesmith_answer_cell(answer, 1, 0, &cell), TRACESMITH_NULL);
	assert_int_equal(tracesmith_answer_cell(answer, 0, 3, &cell), TRACESMITH_NULL);
	assert_string_equal(tracesmith_answer_loss(answer, 0)->reason, "dropped");
	assert_int_equal(tracesmith_answer_loss(answer, 0)->count, 7);
	assert_string_equal(tracesmith_answer_loss(answer, 0)->said, "not watched");
	assert_null(tracesmith_answer_loss(answer, 1));
	assert_string_equal(tracesmith_answer_note(answer), "why");
	assert_true(tracesmith_answer_truncated(answer));
}

static void nothing_is_no_answer(void **state)
{
	_cleanup_(answer_freep) struct tracesmith_answer *empty = answer_new();
	struct tracesmith_answer *none[] = { NULL, empty };
	struct tracesmith_cell cell;

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(tracesmith_answer_rows(none[i]), 0);
		assert_int_equal(tracesmith_answer_columns(none[i]), 0);
		assert_int_equal(tracesmith_answer_cell(none[i], 0, 0, &cell), TRACESMITH_NULL);
		assert_null(tracesmith_answer_column(none[i], 0, NULL));
		assert_null(tracesmith_answer_loss(none[i], 0));
		assert_string_equal(tracesmith_answer_note(none[i]), "");
	}
}

static void replies_that_do_not_fit_are_refused(void **state)
{
	Tracesmith__V1__Value value = TRACESMITH__V1__VALUE__INIT, *values[] = { &value, &value };
	_cleanup_(answer_freep) struct tracesmith_answer *answer = answer_new();
	_cleanup_(answer_freep) struct tracesmith_answer *other = answer_new();
	Tracesmith__V1__Reply nothing = TRACESMITH__V1__REPLY__INIT;

	assert_int_equal(take_row(answer, values, 1), -EPROTO); /* before its columns */
	assert_int_equal(take_columns(other, 2), 0);
	assert_int_equal(take_row(other, values, 2), 0);
	assert_int_equal(take_row(other, values, 1), -EPROTO);
	assert_int_equal(take_row(other, values, 0), -EPROTO);
	assert_int_equal(take_columns(other, 2), -EPROTO);
	assert_int_equal(answer_take(other, received(&nothing)), -EPROTO);
	assert_int_equal(tracesmith_answer_rows(other), 1);
	assert_int_equal(take_done(other), 1);
	assert_int_equal(take_done(other), -EPROTO);
}

static void an_answer_without_end_is_given_up(void **state)
{
	_cleanup_(answer_freep) struct tracesmith_answer *answer = answer_new();
	Tracesmith__V1__Value value = TRACESMITH__V1__VALUE__INIT, *values[] = { &value };
	const size_t size = ANSWER_BYTES_MAX / 4;
	_cleanup_(freep) char *text = malloc(size + 1);

	memset(text, 'x', size);
	text[size] = '\0';
	value.value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
	value.text = text;
	assert_int_equal(take_columns(answer, 1), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(take_row(answer, values, 1), 0);
	assert_int_equal(take_row(answer, values, 1), -E2BIG);
}

static const struct tracesmith_cell *cell_of(const struct tracesmith_answer *answer,
					     const char *column)
{
	static struct tracesmith_cell cell;

	for (size_t i = 0; i < tracesmith_answer_columns(answer); i++)
		if (strcmp(tracesmith_answer_column(answer, i, NULL), column) == 0) {
			tracesmith_answer_cell(answer, 0, i, &cell);
			return &cell;
		}
	fail_msg("there is no column %s", column);
	return NULL;
}

static void messages_are_rows_and_their_fields_columns(void **state)
{
	Tracesmith__V1__LiveReply__Process process = TRACESMITH__V1__LIVE_REPLY__PROCESS__INIT;
	Tracesmith__V1__LiveReply__Calls calls = TRACESMITH__V1__LIVE_REPLY__CALLS__INIT;
	const ProtobufCMessage *message[] = { &process.base };
	_cleanup_(answer_freep) struct tracesmith_answer *answer = NULL;
	const uint32_t number = 9;
	const struct answer_key key = { "key", &number };

	process.comm = "train";
	process.priced = true;
	process.cost_ppm = -5;
	process.budget_ppm = UINT32_MAX;
	process.live_bytes = 1ull << 40;
	process.calls = &calls;
	calls.launches = 3;
	assert_int_equal(answer_of_messages(process.base.descriptor, message, 1, &key, &answer), 0);
	assert_int_equal(tracesmith_answer_rows(answer), 1);
	assert_string_equal(tracesmith_answer_column(answer, 0, NULL), "key");
	assert_int_equal(cell_of(answer, "key")->integer, 9);
	assert_string_equal(cell_of(answer, "comm")->text, "train");
	assert_int_equal(cell_of(answer, "priced")->integer, 1);
	assert_int_equal(cell_of(answer, "cost_ppm")->integer, -5);
	assert_true(cell_of(answer, "budget_ppm")->integer == UINT32_MAX);
	assert_true(cell_of(answer, "live_bytes")->integer == 1ll << 40);
	assert_int_equal(cell_of(answer, "calls.launches")->integer, 3);
	process.comm = "changed"; /* the answer has its own */
	process.calls = NULL;
	assert_string_equal(cell_of(answer, "comm")->text, "train");
	tracesmith_answer_free(TAKE(answer));
	assert_int_equal(answer_of_messages(process.base.descriptor, message, 1, NULL, &answer), 0);
	assert_int_equal(cell_of(answer, "calls.launches")->type, TRACESMITH_NULL);
	tracesmith_answer_free(TAKE(answer));
	assert_int_equal(answer_of_messages(process.base.descriptor, message, 0, NULL, &answer), 0);
	assert_int_equal(tracesmith_answer_rows(answer), 0);
}

static void texts_of_a_list_are_one(void **state)
{
	Tracesmith__V1__DetachReply detach = TRACESMITH__V1__DETACH_REPLY__INIT;
	const ProtobufCMessage *message[] = { &detach.base };
	_cleanup_(answer_freep) struct tracesmith_answer *answer = NULL;
	char *notes[] = { "one", "two" };

	detach.note = notes;
	detach.n_note = 2;
	assert_int_equal(answer_of_messages(detach.base.descriptor, message, 1, NULL, &answer), 0);
	assert_string_equal(cell_of(answer, "note")->text, "one; two");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cell_has_its_type),
		cmocka_unit_test(nothing_is_no_answer),
		cmocka_unit_test(replies_that_do_not_fit_are_refused),
		cmocka_unit_test(an_answer_without_end_is_given_up),
		cmocka_unit_test(messages_are_rows_and_their_fields_columns),
		cmocka_unit_test(texts_of_a_list_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
