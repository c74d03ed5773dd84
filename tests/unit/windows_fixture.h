/* windows_fixture.h: programs that launch by two functions whose calls are watched in windows, and
 * what the queries estimate of them. */
#ifndef WINDOWS_FIXTURE_H
#define WINDOWS_FIXTURE_H

#include "tests/unit/query_fixture.h"

#define FN_OTHER (FN_LAUNCH + 1)

static inline double uniform(void)
{
	return (rand() + 0.5) / (RAND_MAX + 1.0);
}

/* False: null. */
static inline bool row_number(const char *row, const char *column, double *ret)
{
	char text[32];
	const char *at;

	snprintf(text, sizeof(text), "\"%s\":", column);
	at = strstr(row, text);
	assert_non_null(at);
	if (strncmp(at + strlen(text), "null", 4) == 0)
		return false;
	*ret = strtod(at + strlen(text), NULL);
	return true;
}

static inline double number(const char *row, const char *column)
{
	double value = 0;

	assert_true(row_number(row, column, &value));
	return value;
}

static inline int windows_setup(void **state)
{
	static const struct function functions[] = {
		[FN_LAUNCH] = { .name = "cuLaunchKernel",
				.kind = OP_LAUNCH,
				.effect = EFFECT_SUBMIT,
				.hot = true },
		[FN_OTHER] = { .name = "cuLaunchKernelEx",
			       .kind = OP_LAUNCH,
			       .effect = EFFECT_SUBMIT,
			       .hot = true },
	};
	struct fixture *fixture;

	if (fixture_setup(state) != 0)
		return -1;
	fixture = *state;
	fixture->config.functions = (struct function_table){ functions, ARRAY_SIZE(functions) };
	return fixture_open(fixture) == 0 ? 0 : -1;
}

#endif
