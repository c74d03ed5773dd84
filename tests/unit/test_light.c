/* Where a jump can be placed in a function, and what runs instead: real prologues, refused ones,
 * and random bytes; then a detour is executed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/light/detour.h"

#define CODE(...)                                                                                  \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

struct sample {
	const char *name;
	uint8_t code[PROLOGUE_MAX];
	struct prologue prologue; /* moved 0: refused */
};

static const struct sample samples[] = {
	{ "push rbp; mov rsp,rbp; push r15; push r14",
	  CODE(0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56),
	  { 1, 5, 1 } },
	{ "push rbp; mov rsp,rbp; push rbx; sub 24,rsp",
	  CODE(0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x18),
	  { 1, 8, 1 } },
	{ "endbr64; push rbp; mov rsp,rbp; push r15",
	  CODE(0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x57),
	  { 5, 5, 1 } },
	{ "push r15; push r14; push r13; push r12",
	  CODE(0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54),
	  { 2, 6, 1 } },
	{ "push rbp; mov rsp,rbp; push r14; add -128,rsp",
	  CODE(0x55, 0x48, 0x89, 0xe5, 0x41, 0x56, 0x48, 0x83, 0xc4, 0x80),
	  { 1, 5, 1 } },
	{ "sub 56,rsp; mov rdi,rbx; mov esi,r12d; push rax",
	  CODE(0x48, 0x83, 0xec, 0x38, 0x48, 0x89, 0xfb, 0x41, 0x89, 0xf4, 0x50),
	  { 4, 6, 7 } },
	{ "push rbx; sub 48,rsp; mov fs:40,rax",
	  CODE(0x53, 0x48, 0x83, 0xec, 0x30, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28),
	  { 1, 13, 1 } },
	{ "nop 5; push rbp; mov rsp,rbp; push rbx",
	  CODE(0x0f, 0x1f, 0x44, 0x00, 0x00, 0x55, 0x48, 0x89, 0xe5, 0x53),
	  { 5, 5, 0 } },
	/* What lies where the code is. */
	{ "push rbp; mov 0(rip),rax", CODE(0x55, 0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x53), { 0 } },
	{ "push rbp; lea 0(rip),rax", CODE(0x55, 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x53), { 0 } },
	{ "push rbp; call", CODE(0x55, 0xe8, 0, 0, 0, 0, 0x53), { 0 } },
	{ "push rbp; test rdi,rdi; je", CODE(0x55, 0x48, 0x85, 0xff, 0x74, 0x10, 0x53), { 0 } },
	{ "jmp *0(rip)", CODE(0xff, 0x25, 0, 0, 0, 0), { 0 } },
	{ "push rbp; ret", CODE(0x55, 0xc3), { 0 } },
	{ "syscall", CODE(0x55, 0x0f, 0x05, 0x53, 0x53, 0x53, 0x53), { 0 } },
	/* What could be the head of a loop. */
	{ "push rbx; mov rdi,rbx; xor eax,eax; mov esi,ecx; inc",
	  CODE(0x53, 0x48, 0x89, 0xfb, 0x31, 0xc0, 0x89, 0xf1, 0xff, 0xc0),
	  { 0 } },
	/* Arguments that are gone, or elsewhere. */
	{ "mov esi,edi; push ...", CODE(0x89, 0xf7, 0x53, 0x55, 0x53, 0x55, 0x53, 0x55), { 0 } },
	{ "and -16,rsp; push ...",
	  CODE(0x48, 0x83, 0xe4, 0xf0, 0x53, 0x55, 0x53, 0x55, 0x53, 0x55),
	  { 0 } },
	{ "mov rax,rsp; push ...",
	  CODE(0x48, 0x89, 0xc4, 0x53, 0x55, 0x53, 0x55, 0x53, 0x55),
	  { 0 } },
};

static void test_prologues(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *sample = &samples[i];
		uint8_t code[PROLOGUE_MAX];
		struct prologue found = { 0 };
		int r;

		memset(code, 0x90, sizeof(code));
		memcpy(code, sample->code, sizeof(code));
		r = prologue_read(code, sizeof(code), &found);
		if (r != (sample->prologue.moved ? 0 : -ENOTSUP) ||
		    (r == 0 && memcmp(&found, &sample->prologue, sizeof(found))))
			fail_msg("%s: %d, %u %u %u", sample->name, r, found.start, found.moved,
				 found.words);
	}
}

static uint64_t below(uint64_t *seed, uint64_t limit)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % limit;
}

/* Neither reads nor promises more than there is. */
static void test_any_bytes(void **state)
{
	uint64_t seed = 88172645463325252u;

	for (int i = 0; i < 2000000; i++) {
		size_t size = below(&seed, PROLOGUE_MAX + 1);
		uint8_t *code = malloc(size ? size : 1);
		struct prologue found;

		assert_non_null(code);
		for (size_t k = 0; k < size; k++)
			code[k] = below(&seed, 2) ? (uint8_t)below(&seed, 256)
						  : samples[below(&seed, 8)].code[k];
		if (prologue_read(code, size, &found) == 0) {
			assert_in_range(found.start, 1, 13);
			assert_in_range(found.moved, PROLOGUE_JUMP, PROLOGUE_MAX);
			assert_true((size_t)found.start + found.moved <= size);
		}
		free(code);
	}
}

static void test_jumps(void **state)
{
	uint8_t code[PROLOGUE_JUMP];

	assert_int_equal(detour_jump(0x7f0000001000, 0x7f0000000000, code), 0);
	assert_int_equal(detour_target(0x7f0000001000, code), 0x7f0000000000);
	assert_int_equal(detour_jump(0x7f0000001000, 0x7f0080001000, code), 0);
	assert_int_equal(detour_jump(0x7f0000001000, 0x7f0080002000, code), -ERANGE);
	assert_int_equal(detour_jump(0x7f0080002000, 0x7f0000001000, code), -ERANGE);
	assert_int_equal(detour_target(0x1000, (uint8_t[5]){ 0x55 }), 0);
}

static const struct ts_light_call *called;
static uint64_t seen[16];
static int calls;

/* Changes all that a function may change. */
static void hook(const struct ts_light_call *call, const uint64_t *saved)
{
	uint64_t words[16];

	memcpy(words, saved, sizeof(words));
	memcpy(seen, words, sizeof(seen));
	called = call;
	calls++;
	__asm__ volatile("xor %%eax,%%eax; mov $1,%%ecx; mov $2,%%edx; mov $3,%%esi; mov $4,%%edi;"
			 "mov $5,%%r8d; mov $6,%%r9d; mov $7,%%r10d; mov $8,%%r11d"
			 :
			 :
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

/* push %rbp; mov %rsp,%rbp; push %rbx; nop 4 (moved: 8 bytes); then the sum of the seven arguments:
 * lea (%rdi,%rsi),%rax; add %rdx,%rax; add %rcx,%rax; add %r8,%rax; add %r9,%rax;
 * add 16(%rbp),%rax; pop %rbx; pop %rbp; ret */
static const uint8_t function[] = {
	0x55, 0x48, 0x89, 0xe5, 0x53, 0x0f, 0x1f, 0x40, 0x00, 0x48, 0x8d,
	0x04, 0x37, 0x48, 0x01, 0xd0, 0x48, 0x01, 0xc8, 0x4c, 0x01, 0xc0,
	0x4c, 0x01, 0xc8, 0x48, 0x03, 0x45, 0x10, 0x5b, 0x5d, 0xc3,
};
static const struct prologue shape = { .start = 1, .moved = 8, .words = 1 };

static void test_a_detour(void **state)
{
	uint8_t *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t (*run)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
	uint64_t address = (uint64_t)memory;
	void (*to)(const struct ts_light_call *, const uint64_t *) = hook;
	struct detour detour = {
		.jump = address + 1,
		.code = address + 4096,
		.call = address + 2048,
		.hook = address + 1024,
	};

	assert_true(memory != MAP_FAILED);
	memcpy(memory, function, sizeof(function));
	memcpy(memory + 1024, &to, sizeof(to));
	memcpy(&run, &memory, sizeof(run));
	assert_int_equal(run(1, 2, 3, 4, 5, 6, 7), 28);
	assert_int_equal(detour_write(&detour, &shape, function + 1, memory + 4096), 0);
	assert_memory_equal(memory + 4096 + detour_moved(), function + 1, shape.moved);
	assert_int_equal(detour_jump(detour.jump, detour.code, memory + detour.jump - address), 0);
	assert_int_equal(run(1, 2, 3, 4, 5, 6, 7), 28);
	assert_int_equal(calls, 1);
	assert_ptr_equal(called, memory + 2048);
	assert_int_equal(seen[TS_LIGHT_RDI], 1);
	assert_int_equal(seen[TS_LIGHT_RSI], 2);
	assert_int_equal(seen[TS_LIGHT_RDX], 3);
	assert_int_equal(seen[TS_LIGHT_RCX], 4);
	assert_int_equal(seen[TS_LIGHT_R8], 5);
	assert_int_equal(seen[TS_LIGHT_R9], 6);
	assert_int_equal(seen[TS_LIGHT_RBP], (uint64_t)__builtin_frame_address(0));
	/* The return address, and above it what did not fit into registers. */
	assert_int_equal(seen[TS_LIGHT_SAVED + shape.words + 1], 7);
	munmap(memory, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prologues),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_jumps),
		cmocka_unit_test(test_a_detour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
