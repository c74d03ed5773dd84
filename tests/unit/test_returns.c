/* Which functions are probed at their return: what the setting may say, and what is left of the
 * description of a function that is not. And what the trial before comes to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/broker/trial.h"
#include "daemon/library/returns.h"

static struct returns returns;
static char unknown[RETURNS_NAME_SIZE];

static const struct library_function *named(const char *name)
{
	const struct library_row *row;

	for (size_t i = 0; (row = library_get(i)); i++)
		for (size_t k = 0; k < row->count; k++)
			if (strcmp(row->function[k].model.name, name) == 0)
				return &row->function[k];
	fail_msg("no function '%s'", name);
	return NULL;
}

static bool has(const char *name)
{
	return returns_have(&returns, named(name));
}

static int parse(const char *text)
{
	return returns_parse(text, &returns, unknown);
}

static void all_or_none(void **state)
{
	assert_int_equal(parse("yes"), 0);
	assert_int_equal(returns_without(&returns), 0);
	assert_true(has("cuMemAlloc_v2"));
	assert_false(has("cuLaunchKernel")); /* which has none anyway */
	assert_int_equal(parse("no"), 0);
	assert_false(has("cuMemAlloc_v2"));
	assert_false(has("ncclAllReduce"));
	assert_true(returns_without(&returns) > 100);
}

static void some_by_name(void **state)
{
	assert_int_equal(parse("all but cuStreamSynchronize, cu*CtxSynchronize*"), 0);
	assert_false(has("cuStreamSynchronize"));
	assert_false(has("cuCtxSynchronize"));
	assert_false(has("cuCtxSynchronize_v2"));
	assert_true(has("cuEventSynchronize"));
	assert_int_equal(returns_without(&returns), 3);
	/* Of other names of a function, each. */
	assert_int_equal(parse("all but cuStreamSynchronize_ptsz cuStreamDestroy"), 0);
	assert_false(has("cuStreamSynchronize"));
	assert_false(has("cuStreamDestroy_v2"));
}

static void what_is_no_setting_changes_nothing(void **state)
{
	static const char *const texts[] = {
		"", "maybe", "all", "all but", "all but ,", "all butcuInit", "yes but cuInit"
	};
	char name[100];

	assert_int_equal(parse("no"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(parse(texts[i]), -EINVAL);
		assert_string_equal(unknown, "");
	}
	assert_int_equal(parse("all but cuInit cuLaunchKernel"), -EINVAL);
	assert_string_equal(unknown, "cuLaunchKernel");
	snprintf(name, sizeof(name), "all but cuInit%080d", 0);
	assert_int_equal(parse(name), -EINVAL);
	assert_memory_equal(unknown, "cuInit0000", 10);
	assert_false(has("cuInit"));
}

static bool fills(const struct probe_desc *desc, size_t field)
{
	for (uint32_t i = 0; i < desc->slot_count; i++)
		if (desc->slot[i].to == field)
			return true;
	return false;
}

/* A pointer to where the result will be is no address of device memory. */
static void without_it_a_description_has_no_pointers_to_results(void **state)
{
	const struct library_function *pitch = named("cuMemAllocPitch_v2");
	const struct library_row *row;
	struct probe_desc desc;

	parse("yes");
	returns_probe_desc(&returns, pitch, &desc);
	assert_true(desc.flags & PROBE_RETURN);
	assert_int_equal(desc.out_count, 2);
	parse("no");
	returns_probe_desc(&returns, pitch, &desc);
	assert_false(fills(&desc, offsetof(struct ts_api, address)));
	assert_false(fills(&desc, offsetof(struct ts_api, bytes)));
	assert_true(fills(&desc, offsetof(struct ts_api, height)));
	for (size_t i = 0; (row = library_get(i)); i++)
		for (size_t k = 0; k < row->count; k++) {
			returns_probe_desc(&returns, &row->function[k], &desc);
			assert_false(desc.flags & PROBE_RETURN);
			assert_int_equal(desc.out_count, 0);
			assert_int_equal(desc.flags | PROBE_RETURN,
					 row->function[k].flags | PROBE_RETURN);
		}
}

/* What the trial makes of what its child says, which then ends, or (NULL) says nothing. */
static enum trial_result outcome(const char *said, uint8_t *ret_error)
{
	const struct timeval moment = { .tv_usec = 1000 };
	struct trial trial = { .pid = 1 };
	enum trial_result result;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment)), 0);
	trial.socket = pair[0];
	if (said) {
		assert_int_equal(write(pair[1], said, strlen(said)), strlen(said));
		assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
	}
	result = trial_run(&trial, 0, ret_error);
	assert_int_equal(trial.socket, -1);
	close(pair[1]);
	return result;
}

static void the_trial_is_passed_by_who_got_through_both(void **state)
{
	uint8_t error;

	assert_int_equal(outcome("fs", &error), TRIAL_SURVIVED);
	assert_null(trial_text(TRIAL_SURVIVED));
	assert_int_equal(outcome("d", &error), TRIAL_SECCOMP);
	assert_int_equal(error, 0);
	assert_int_equal(outcome("fd", &error), TRIAL_SHADOW_STACK);
	assert_int_equal(error, 0);
}

static void who_says_nothing_has_not_passed_it(void **state)
{
	struct trial trial = { .socket = -EAGAIN };
	uint8_t error;

	assert_int_equal(outcome("", &error), TRIAL_FAILED);
	assert_int_equal(error, ECHILD);
	assert_int_equal(outcome("f", &error), TRIAL_FAILED);
	assert_int_equal(error, ECHILD);
	assert_int_equal(outcome(NULL, &error), TRIAL_FAILED);
	assert_int_equal(error, ETIMEDOUT);
	assert_int_equal(trial_run(&trial, 0, &error), TRIAL_FAILED);
	assert_int_equal(error, EAGAIN);
	assert_non_null(trial_text(TRIAL_FAILED));
}

/* As the kernel refused it, or as the child has ended. */
static void without_a_probe_the_child_says_nothing(void **state)
{
	struct trial trial;
	uint8_t error;

	trial_begin(&trial);
	assert_true(trial.socket >= 0);
	assert_int_equal(trial_run(&trial, 0, &error), TRIAL_FAILED);
	assert_int_equal(error, ECHILD);
	trial_begin(&trial);
	assert_int_equal(trial_run(&trial, -EACCES, &error), TRIAL_FAILED);
	assert_int_equal(error, EACCES);
	assert_true(trial_place() > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_or_none),
		cmocka_unit_test(some_by_name),
		cmocka_unit_test(what_is_no_setting_changes_nothing),
		cmocka_unit_test(without_it_a_description_has_no_pointers_to_results),
		cmocka_unit_test(the_trial_is_passed_by_who_got_through_both),
		cmocka_unit_test(who_says_nothing_has_not_passed_it),
		cmocka_unit_test(without_a_probe_the_child_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
