/* Kernels that stand in for those of a recording: which names they may have, and that their text is
 * what the assembler takes, where there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/reissue/kernel.h"
#include "core/base/array.h"

static void names_are_those_of_ptx(void **state)
{
	char longest[1002];

	assert_true(gpu_kernel_named("_Z4scalePfi"));
	assert_true(gpu_kernel_named("gemm"));
	assert_true(gpu_kernel_named("_1"));
	assert_true(gpu_kernel_named("a$b"));
	assert_false(gpu_kernel_named(""));
	assert_false(gpu_kernel_named("_"));
	assert_false(gpu_kernel_named("1st"));
	assert_false(gpu_kernel_named("void add(float*)"));
	assert_false(gpu_kernel_named("x(){}\n.visible .entry y"));
	assert_false(gpu_kernel_named("na\xc3\xafve"));
	assert_false(gpu_kernel_named(GPU_KERNEL_NAMELESS)); /* a recording of a replay */
	assert_false(gpu_kernel_named("WARP_SZ"));
	assert_false(gpu_kernel_named("%a"));
	assert_false(gpu_kernel_named("$wait"));
	memset(longest, 'a', sizeof(longest));
	longest[1001] = '\0';
	assert_false(gpu_kernel_named(longest));
	longest[1000] = '\0';
	assert_true(gpu_kernel_named(longest));
}

static size_t times(const char *text, const char *part)
{
	size_t count = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
		count++;
	return count;
}

static void each_name_is_an_entry(void **state)
{
	static const char *const names[] = { "gemm", "_Z4scalePfi" };
	char *text = gpu_kernel_text(names, 2);

	assert_non_null(text);
	assert_ptr_equal(strstr(text, "// TraceSmith timed kernels"), text);
	assert_int_equal(times(text, ".visible .entry "), 3);
	assert_int_equal(times(text, ".visible .entry gemm("), 1);
	assert_int_equal(times(text, ".visible .entry _Z4scalePfi("), 1);
	assert_int_equal(times(text, ".visible .entry " GPU_KERNEL_NAMELESS "("), 1);
	free(text);
}

static int assemble(const char *path, const char *architecture)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "PATH=$PATH:/usr/local/cuda/bin ptxas -arch=%s -o /dev/null %s", architecture,
		 path);
	return system(command);
}

/* Also where a kernel is called like something in the text. */
static void the_assembler_takes_it(void **state)
{
	static const char *const names[] = { "_Z4scalePfi", "add",	"wave",
					     "p",	    "duration", "tracesmith_wait" };
	char path[] = "/tmp/tracesmith-kernel-XXXXXX", *text;
	FILE *file;

	if (system("PATH=$PATH:/usr/local/cuda/bin command -v ptxas >/dev/null") != 0)
		skip();
	text = gpu_kernel_text(names, ARRAY_SIZE(names));
	file = fdopen(mkstemp(path), "w");
	assert_non_null(text);
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(assemble(path, "sm_75"), 0);
	assert_int_equal(assemble(path, "sm_90"), 0);
	unlink(path);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_ptx),
		cmocka_unit_test(each_name_is_an_entry),
		cmocka_unit_test(the_assembler_takes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
