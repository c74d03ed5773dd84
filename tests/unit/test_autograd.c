/* test_autograd: where thread-local variables are, by the code of functions that return them: as
 * compilers make it, and bytes that are no such code. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/python/autograd.h"

#define AT 0x1000

struct sample {
	const uint8_t *code;
	size_t size;
	struct autograd_code expected;
};
#define CODE(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

/* lea 0x100(%rip),%rdi; call __tls_get_addr: of a variable of the library, and of any. */
#define GET_LOCAL 0x48, 0x8d, 0x3d, 0x00, 0x01, 0, 0, 0xe8, 1, 2, 3, 4
#define GET	  0x66, 0x48, 0x8d, 0x3d, 0x00, 0x01, 0, 0, 0x66, 0x66, 0x48, 0xe8, 1, 2, 3, 4
#define GET_PLT	  0x66, 0x48, 0x8d, 0x3d, 0x00, 0x01, 0, 0, 0x66, 0x48, 0xff, 0x15, 1, 2, 3, 4
#define ENTER	  0x48, 0x83, 0xec, 0x08
#define LEAVE	  0x48, 0x83, 0xc4, 0x08, 0xc3

static const struct sample samples[] = {
	/* at::sequence_number::peek() of PyTorch 1.13: mov (%rax),%rax */
	{ CODE(ENTER, GET, 0x48, 0x8b, 0x00, LEAVE), { .index = AT + 4 + 8 + 0x100 } },
	{ CODE(ENTER, GET_PLT, 0x48, 0x8b, 0x00, LEAVE), { .index = AT + 4 + 8 + 0x100 } },
	{ CODE(ENTER, GET_LOCAL, 0x48, 0x8b, 0x40, 0xf0, LEAVE),
	  { .index = AT + 4 + 7 + 0x100, .more = -16 } },
	/* What its assign_parent() calls: cmpb $0,0x2400(%rax); je; and again; add $0x2408,%rax */
	{ CODE(ENTER, GET_LOCAL, 0x80, 0xb8, 0x00, 0x24, 0, 0, 0, 0x74, 0x17, GET_LOCAL, 0x48, 0x83,
	       0xc4, 0x08, 0x48, 0x05, 0x08, 0x24, 0, 0, 0xc3, 0x48, 0x8d, 0xb0, 0xff, 0, 0, 0),
	  { .index = AT + 4 + 12 + 9 + 7 + 0x100, .more = 0x2408 } },
	/* And how: call *0x200(%rip), after another call. */
	{ CODE(0x55, 0xe8, 1, 2, 3, 4, 0x48, 0x89, 0xc3, 0xff, 0x15, 0x00, 0x02, 0, 0, GET),
	  { .called = AT + 15 + 0x200 } },
	/* Two words, the second first: mov 8(%rax),%rdx; mov (%rax),%rax */
	{ CODE(ENTER, GET_LOCAL, 0x48, 0x8b, 0x50, 0x18, 0x48, 0x8b, 0x40, 0x10, LEAVE),
	  { .index = AT + 4 + 7 + 0x100, .more = 0x10 } },
	/* mov %rax,%rbx (no return); movdqu 0x30(%rax),%xmm0 */
	{ CODE(GET_LOCAL, 0x48, 0x89, 0xc3, 0xf3, 0x0f, 0x6f, 0x40, 0x30, 0x0f, 0x11, 0x03, 0xc3),
	  { .index = AT + 7 + 0x100, .more = 0x30 } },
	/* Its address; what follows is another function. */
	{ CODE(ENTER, GET, LEAVE, 0x48, 0x8b, 0x40, 0x10), { .index = AT + 4 + 8 + 0x100 } },
};

static void variables_are_found_by_code(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *sample = &samples[i];
		struct autograd_code found;

		assert_int_equal(autograd_read_code(sample->code, sample->size, AT, &found), 0);
		assert_int_equal(found.index, sample->expected.index);
		assert_int_equal(found.more, sample->expected.more);
		assert_int_equal(found.called, sample->expected.called);
	}
}

static void other_code_has_none(void **state)
{
	static const uint8_t other[] = { ENTER, 0x8b, 0x05, 1, 2, 3, 4, LEAVE, GET };
	struct autograd_code found;

	assert_int_equal(autograd_read_code(other, sizeof(other), AT, &found), -ENOENT);
	assert_int_equal(autograd_read_code(other, 0, AT, &found), -ENOENT);
}

/* Code that ends anywhere is read no further. */
static void code_may_be_cut(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		for (size_t size = 0; size <= samples[i].size; size++) {
			uint8_t *cut = test_malloc(size + 1);
			struct autograd_code found;

			memcpy(cut + 1, samples[i].code, size);
			autograd_read_code(cut + 1, size, AT, &found);
			test_free(cut);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_found_by_code),
		cmocka_unit_test(other_code_has_none),
		cmocka_unit_test(code_may_be_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
