/* What-if options: what they mean, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "client/replay/whatif_options.h"
#include "core/base/array.h"

static struct whatif_options changes;

static int parse_scale(const char *text)
{
	struct options options = { .given = OPTION(SCALE), .scale = { { text }, 1 } };

	return whatif_options_parse(&options, &changes);
}

static int parse_graph(const char *text)
{
	struct options options = { .given = OPTION(GRAPH), .graph = text };

	return whatif_options_parse(&options, &changes);
}

static void scale_says_what_and_by_how_much(void **state)
{
	assert_int_equal(parse_scale("kernel=at::native::.*:0.5"), 0);
	assert_int_equal(changes.count, 1);
	assert_int_equal(changes.change[0].what, WHAT_KERNEL);
	assert_true(changes.change[0].factor == 0.5);
	assert_non_null(changes.change[0].name);
	assert_int_equal(regexec(changes.change[0].name, "void at::native::add", 0, NULL, 0), 0);
	assert_int_equal(regexec(changes.change[0].name, "gemm", 0, NULL, 0), REG_NOMATCH);
	assert_string_equal(changes.change[0].text, "--scale kernel=at::native::.*:0.5");
	whatif_options_done(&changes);
	assert_int_equal(parse_scale("copy=htod:2x"), 0);
	assert_int_equal(regexec(changes.change[0].name, "memcpy HtoD", 0, NULL, 0), 0);
	whatif_options_done(&changes);
	assert_int_equal(parse_scale("host:3"), 0);
	assert_int_equal(changes.change[0].what, WHAT_HOST);
	assert_null(changes.change[0].name);
	whatif_options_done(&changes);
}

static void scale_refuses_what_makes_no_sense(void **state)
{
	static const char *const bad[] = {
		"kernel",	"kernel:",    "kernel:0",     "kernel:-1",
		"kernel:nan",	":2",	      "wheel:2",      "kernels:2",
		"kernel=(:0.5", "kernel=[:1", "host=x:2",     "set=x:2",
		"kern:2",	"=:2",	      "kernel=a:1e9", ""
	};
	char large[2000];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(parse_scale(bad[i]), -EINVAL);
		whatif_options_done(&changes);
	}
	memset(large, 'x', sizeof(large));
	memcpy(large, "kernel=", 7);
	strcpy(large + sizeof(large) - 3, ":2");
	assert_int_equal(parse_scale(large), -EINVAL);
	whatif_options_done(&changes);
}

static void graph_may_have_a_window(void **state)
{
	static const char *const bad[] = { "1s", "2s..1s", "1s..1s", "x..y", "1s...2s", "-1s..2s" };

	assert_int_equal(parse_graph(NULL), 0);
	assert_int_equal(changes.change[0].from_ns, 0);
	assert_true(changes.change[0].to_ns == UINT64_MAX);
	assert_int_equal(parse_graph("1.5s..2s"), 0);
	assert_int_equal(changes.change[0].from_ns, 1500000000);
	assert_int_equal(changes.change[0].to_ns, 2000000000);
	assert_int_equal(parse_graph("..10ms"), 0);
	assert_int_equal(changes.change[0].to_ns, 10000000);
	assert_int_equal(parse_graph("1s.."), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_graph(bad[i]), -EINVAL);
}

static void all_are_made_in_one_order(void **state)
{
	static const enum option_number order[] = {
		OPTION_NUMBER_DROP,	      OPTION_NUMBER_SCALE,   OPTION_NUMBER_COPY_BANDWIDTH,
		OPTION_NUMBER_LAUNCH_LATENCY, OPTION_NUMBER_NO_SYNC, OPTION_NUMBER_GRAPH,
		OPTION_NUMBER_STREAMS,	      OPTION_NUMBER_DEVICES,
	};
	struct options options = { .given = OPTIONS_WHATIF,
				   .scale = { { "kernel:2" }, 1 },
				   .drop = { { "set" }, 1 },
				   .copy_bandwidth = 2,
				   .launch_latency_ns = 1000,
				   .streams = 4,
				   .devices = 2 };

	assert_int_equal(whatif_options_parse(&options, &changes), 0);
	assert_int_equal(changes.count, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(changes.change[i].option, order[i]);
	assert_string_equal(changes.change[2].text, "--copy-bandwidth 2x");
	assert_string_equal(changes.change[6].text, "--streams 4");
	options.streams = 100000;
	assert_int_equal(whatif_options_parse(&options, &changes), -EINVAL);
	options.drop.text[0] = "host";
	assert_int_equal(whatif_options_parse(&options, &changes), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scale_says_what_and_by_how_much),
		cmocka_unit_test(scale_refuses_what_makes_no_sense),
		cmocka_unit_test(graph_may_have_a_window),
		cmocka_unit_test(all_are_made_in_one_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
