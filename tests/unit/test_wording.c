/* Wording: what the daemon remarks, in tsctl's words; and in none of them at the daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/link/wording.h"
#include "core/base/array.h"
#include "core/store/query/remark.h"

/* The reply as it comes over the wire, with the remarks and their text. */
static Tracesmith__V1__Reply *receive(struct remarks *remarks, bool error)
{
	Tracesmith__V1__Error failed = TRACESMITH__V1__ERROR__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT, *ret;
	uint8_t *data;
	size_t size;

	failed.message = done.note = remarks_text(remarks);
	failed.remark = done.remark = remarks->item;
	failed.n_remark = done.n_remark = remarks->count;
	reply.body_case =
		error ? TRACESMITH__V1__REPLY__BODY_ERROR : TRACESMITH__V1__REPLY__BODY_DONE;
	if (error)
		reply.error = &failed;
	else
		reply.done = &done;
	size = tracesmith__v1__reply__get_packed_size(&reply);
	data = malloc(size);
	tracesmith__v1__reply__pack(&reply, data);
	ret = tracesmith__v1__reply__unpack(NULL, size, data);
	assert_non_null(ret);
	free(data);
	remarks_clear(remarks);
	return ret;
}

static void expect(struct remarks *remarks, enum wording_place place, const char *wanted)
{
	Tracesmith__V1__Reply *reply = receive(remarks, true);

	assert_int_equal(wording_apply(reply, place), 0);
	assert_string_equal(reply->error->message, wanted);
	tracesmith__v1__reply__free_unpacked(reply, NULL);
}

static void test_options_are_named_as_tsctl_takes_them(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(QUERY_OPTION), "memory", "min_age", "limit pid by_stack",
		    NULL);
	assert_string_equal(remarks_text(&remarks),
			    "The query 'memory' does not take 'min_age', only: limit pid by_stack");
	expect(&remarks, WORDING_DAEMON,
	       "The query 'memory' takes no --min-age, only --limit --pid --by-stack");
}

static void test_a_recording_is_called_one(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(UNREADABLE), "disk I/O error", NULL);
	expect(&remarks, WORDING_DAEMON, "The database cannot be read: disk I/O error");
	remarks_add(&remarks, REASON(UNREADABLE), NULL);
	expect(&remarks, WORDING_RECORDING, "The recording cannot be read");
	remarks_add(&remarks, REASON(IS_PROBE), "42", NULL);
	expect(&remarks, WORDING_DAEMON,
	       "Process 42 is in the probe tier, which does not see this: "
	       "'tsctl attach 42' moves it to the exact tier");
}

static void test_a_page_names_no_options(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(NONE_IN_WINDOW), NULL);
	expect(&remarks, WORDING_PAGE, "No process used CUDA in the window");
	remarks_add(&remarks, REASON(UNREADABLE), NULL);
	expect(&remarks, WORDING_PAGE + WORDING_RECORDING, "The recording cannot be read");
	remarks_add(&remarks, REASON(IS_PROBE), "42", NULL);
	expect(&remarks, WORDING_PAGE,
	       "Process 42 is in the probe tier, which does not see this: "
	       "'tsctl attach 42' moves it to the exact tier");
}

static void test_a_query_of_another_version_is_no_mistake_of_the_user(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(NO_QUERY), "nosuch", NULL);
	expect(&remarks, WORDING_DAEMON, "Unknown query 'nosuch': 'tsctl query list' lists all");
	remarks_add(&remarks, REASON(NO_QUERY), "trace-names", NULL);
	expect(&remarks, WORDING_DAEMON,
	       "tracesmithd is of another version and lacks the query 'trace-names': restart it if "
	       "it was upgraded, or use a tsctl of its version");
	remarks_add(&remarks, REASON(NO_QUERY_NEAR), "ranges", "range", NULL);
	expect(&remarks, WORDING_DAEMON,
	       "tracesmithd is of another version and lacks the query 'ranges': restart it if it "
	       "was upgraded, or use a tsctl of its version");
}

static void test_several_remarks_are_one_sentence(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(UNKNOWN_PROCESS), "12", NULL);
	remarks_add(&remarks, REASON(HIDDEN), "1 user", NULL);
	expect(&remarks, WORDING_DAEMON,
	       "Process 12 has not used CUDA while tracesmithd was running: 'tsctl ps' lists "
	       "those that do; tracesmithd's settings hide all processes except those of 1 user");
}

static void test_what_helps_is_an_option_or_a_command(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(SECCOMP), "42", NULL);
	expect(&remarks, WORDING_DAEMON,
	       "Process 42 has a seccomp filter, which may kill it during attaching; the filters "
	       "of Docker and Kubernetes do not: try with --seccomp");
	remarks_add(&remarks, REASON(SECCOMP), "42", "43", "worker", NULL);
	expect(&remarks, WORDING_DAEMON,
	       "Process 42 has a seccomp filter (thread 43, 'worker'), which may kill it during "
	       "attaching; the filters of Docker and Kubernetes do not: try with --seccomp");
	remarks_add(&remarks, REASON(BEING_RECORDED), "42", NULL);
	assert_string_equal(remarks_text(&remarks), "Process 42 is already being recorded");
	expect(&remarks, WORDING_DAEMON,
	       "Process 42 is already being recorded: see 'tsctl ps'; 'tsctl detach 42' stops it");
}

static void test_a_note_is_worded_too(void **state)
{
	struct remarks remarks = { 0 };
	Tracesmith__V1__Reply *reply;

	(void)state;
	remarks_add(&remarks, REASON(ALL_YOUNG), "1 min", "3", "", NULL);
	reply = receive(&remarks, false);
	assert_int_equal(wording_apply(reply, WORDING_DAEMON), 0);
	assert_string_equal(
		reply->done->note,
		"No live allocation is at least 1 min old; younger ones: 3; see --min-age");
	tracesmith__v1__reply__free_unpacked(reply, NULL);
}

/* Of a newer daemon, which says more than this tsctl knows. */
static void test_an_unknown_reason_is_shown_as_it_came(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(NO_QUERY), "x", NULL);
	remarks.item[0]->reason = 9999;
	expect(&remarks, WORDING_DAEMON, "Unknown query 'x'");
	expect(&remarks, WORDING_DAEMON, "");
}

/* Each reason, with too few arguments too: words for tsctl, and neutral ones for the rest. */
static void test_every_reason_has_words(void **state)
{
	const ProtobufCEnumDescriptor *all = &tracesmith__v1__remark__reason__descriptor;

	(void)state;
	for (unsigned int i = 0; i < all->n_values; i++) {
		const int reason = all->values[i].value;
		struct remarks remarks = { 0 };
		Tracesmith__V1__Reply *reply;

		if (!reason)
			continue;
		remarks_add(&remarks, (Tracesmith__V1__Remark__Reason)reason, "argument", NULL);
		assert_string_not_equal(remarks_text(&remarks), "");
		assert_null(strstr(remarks_text(&remarks), "--"));
		assert_null(strstr(remarks_text(&remarks), "tsctl"));
		assert_null(strstr(remarks_text(&remarks), "recording"));
		reply = receive(&remarks, true);
		assert_int_equal(wording_apply(reply, (enum wording_place)(i & 1)), 0);
		assert_string_not_equal(reply->error->message, "");
		tracesmith__v1__reply__free_unpacked(reply, NULL);
	}
}

static void test_arguments_are_made_clean(void **state)
{
	struct remarks remarks = { 0 };

	(void)state;
	remarks_add(&remarks, REASON(NO_QUERY), "\xff{1}", NULL);
	assert_string_equal(remarks.item[0]->argument[0], "\xef\xbf\xbd{1}");
	assert_string_equal(remarks_text(&remarks), "Unknown query '\xef\xbf\xbd{1}'");
	remarks_clear(&remarks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_are_named_as_tsctl_takes_them),
		cmocka_unit_test(test_a_recording_is_called_one),
		cmocka_unit_test(test_a_page_names_no_options),
		cmocka_unit_test(test_a_query_of_another_version_is_no_mistake_of_the_user),
		cmocka_unit_test(test_several_remarks_are_one_sentence),
		cmocka_unit_test(test_what_helps_is_an_option_or_a_command),
		cmocka_unit_test(test_a_note_is_worded_too),
		cmocka_unit_test(test_an_unknown_reason_is_shown_as_it_came),
		cmocka_unit_test(test_every_reason_has_words),
		cmocka_unit_test(test_arguments_are_made_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
