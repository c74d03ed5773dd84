/* test_known: what the daemon shares with a library of the stacks of its process, and what it
 * believes of them. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/exact/known.h"
#include "daemon/limits.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SEED	0x5eed5eed5eed
#define ADDRESS 0x7f1234567abc

static const struct rule plain = { .kind = RULE_RSP, .cfa = 3 };
static const struct rule linked = { RULE_RBP, RULE_RBP_AT_CFA, -2, 2 };

static struct known *known;
static const struct ts_walk *walk; /* as the library has it */

static int setup(void **state)
{
	void *at;

	assert_int_equal(known_new(true, &known), 0);
	at = mmap(NULL, sizeof(*walk), PROT_READ, MAP_SHARED, known_fd(known), 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	walk = at;
	return 0;
}

static int teardown(void **state)
{
	munmap((void *)walk, sizeof(*walk));
	known = known_free(known);
	return 0;
}

/* An address of the same set, another one for each number. */
static uint64_t address_of_set(uint32_t set, unsigned int number)
{
	uint64_t address = ADDRESS;

	for (unsigned int found = 0;; address++)
		if (walk_rule_set(address) == set && found++ == number)
			return address;
}

static uint64_t id_of_set(uint32_t set, unsigned int number)
{
	return (uint64_t)(number + 1) << 40 | (uint64_t)set << 16 | 7;
}

static void every_field_of_a_rule_is_kept(void **state)
{
	static const struct rule rules[] = {
		{ RULE_KINDS - 1, RULE_RBP_LOST, INT16_MAX, RULE_CFA_MAX },
		{ RULE_RSP, RULE_RBP_AT_RBP, INT16_MIN, -RULE_CFA_MAX - 1 },
		{ RULE_AT_RBP, RULE_RBP_AT_CFA, -1, -1 },
		{ RULE_END, RULE_RBP_SAME, 0, 0 },
	};
	static const uint16_t checks[] = { 0, 1, 0x8000, UINT16_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		for (size_t k = 0; k < ARRAY_SIZE(checks); k++) {
			uint64_t packed = rule_pack(rules[i], checks[k]);
			struct rule rule = rule_unpack(packed);

			assert_memory_equal(&rule, &rules[i], sizeof(rule));
			assert_int_equal(rule_check(packed), checks[k]);
		}
}

static void rule_is_found_by_its_address(void **state)
{
	struct rule rule;

	known_add_rule(known, ADDRESS, linked);
	assert_true(walk_find_rule(walk, ADDRESS, &rule));
	assert_memory_equal(&rule, &linked, sizeof(rule));
	assert_false(walk_find_rule(walk, ADDRESS + 1, &rule));
	known_add_rule(known, ADDRESS + 1, plain);
	assert_true(walk_find_rule(walk, ADDRESS + 1, &rule));
	assert_memory_equal(&rule, &plain, sizeof(rule));
}

/* Written by halves, it would be the rule of another address. */
static void rule_with_the_bits_of_another_address_is_none(void **state)
{
	static struct ts_walk copy;
	struct rule rule;

	known_add_rule(known, ADDRESS, plain);
	copy = *walk;
	assert_true(walk_find_rule(&copy, ADDRESS, &rule));
	for (int i = 0; i < TS_WALK_RULE_WAYS; i++)
		copy.rule[walk_rule_set(ADDRESS)][i].rule =
			rule_pack(plain, (uint16_t)(ADDRESS + 1));
	assert_false(walk_find_rule(&copy, ADDRESS, &rule));
}

static void rules_that_no_library_goes_by_are_not_shared(void **state)
{
	struct rule rule;

	for (uint8_t kind = 0; kind < RULE_KINDS; kind++) {
		bool goes = kind == RULE_RSP || kind == RULE_RBP || kind == RULE_AT_RSP ||
			    kind == RULE_AT_RBP || kind == RULE_END;

		known_add_rule(known, ADDRESS + kind, (struct rule){ .kind = kind });
		assert_int_equal(walk_find_rule(walk, ADDRESS + kind, &rule), goes);
	}
	known_add_rule(known, 0, plain); /* a free place has this address */
	for (int i = 0; i < TS_WALK_RULE_WAYS; i++)
		assert_int_equal(walk->rule[walk_rule_set(0)][i].rule, 0);
}

static void full_set_of_rules_takes_the_newest(void **state)
{
	unsigned int left = 0;
	struct rule rule;

	for (unsigned int i = 0; i < 3 * TS_WALK_RULE_WAYS; i++) {
		uint64_t address = address_of_set(77, i);

		known_add_rule(known, address, plain);
		assert_true(walk_find_rule(walk, address, &rule));
	}
	for (unsigned int i = 0; i < 3 * TS_WALK_RULE_WAYS; i++)
		left += walk_find_rule(walk, address_of_set(77, i), &rule);
	assert_int_equal(left, TS_WALK_RULE_WAYS);
}

static void full_set_of_ids_takes_the_newest_and_the_daemon_forgets_none(void **state)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < 3 * TS_WALK_ID_WAYS; i++) {
		known_add_id(known, id_of_set(5, i));
		assert_true(walk_has_id(walk, id_of_set(5, i)));
	}
	for (unsigned int i = 0; i < 3 * TS_WALK_ID_WAYS; i++) {
		left += walk_has_id(walk, id_of_set(5, i));
		assert_true(known_has(known, id_of_set(5, i), 0));
	}
	assert_int_equal(left, TS_WALK_ID_WAYS);
}

static void id_that_is_there_takes_no_other_place(void **state)
{
	for (unsigned int i = 0; i < TS_WALK_ID_WAYS; i++)
		for (int again = 0; again < 3; again++)
			known_add_id(known, id_of_set(9, i));
	for (unsigned int i = 0; i < TS_WALK_ID_WAYS; i++)
		assert_true(walk_has_id(walk, id_of_set(9, i)));
}

static void no_stack_is_not_an_id(void **state)
{
	known_add_id(known, 0);
	assert_false(known_has(known, 0, 0));
}

/* Until the new seed is known, no walk comes to anything. */
static void what_was_forgotten_is_not_shared(void **state)
{
	struct rule rule;

	assert_int_equal(walk->seed, 0);
	known_set_seed(known, SEED);
	assert_int_equal(walk->seed, SEED);
	known_add_rule(known, ADDRESS, plain);
	known_add_id(known, id_of_set(1, 0));
	known_forget(known, 100);
	assert_int_equal(walk->seed, 0);
	assert_false(walk_find_rule(walk, ADDRESS, &rule));
	assert_false(walk_has_id(walk, id_of_set(1, 0)));
	known_add_rule(known, ADDRESS, linked);
	assert_int_equal(walk->seed, 0);
	assert_true(walk_find_rule(walk, ADDRESS, &rule));
	assert_memory_equal(&rule, &linked, sizeof(rule));
	known_set_seed(known, SEED + 1);
	assert_int_equal(walk->seed, SEED + 1);
}

static void stacks_of_an_epoch_are_good_until_it_ends(void **state)
{
	uint64_t early = id_of_set(1, 0), late = id_of_set(1, 1);

	known_add_id(known, early);
	assert_true(known_has(known, early, 1000));
	known_forget(known, 100);
	known_add_id(known, late);
	assert_true(known_has(known, early, 99));
	assert_false(known_has(known, early, 100));
	assert_true(known_has(known, late, 99));
	assert_true(known_has(known, late, 1000));
	known_add_id(known, early); /* the kernel has sent it again */
	assert_true(known_has(known, early, 1000));
	assert_false(known_has(known, id_of_set(1, 2), 99));
}

static void more_stacks_than_the_limit_begin_anew(void **state)
{
	for (uint64_t id = 1; id <= LIMIT_KNOWN_STACKS; id++)
		assert_true(known_add_id(known, id << 16));
	assert_true(known_has(known, 1ull << 16, 0));
	assert_false(known_add_id(known, 3));
	assert_false(known_has(known, 3, 0));
	known_forget(known, 100);
	assert_true(known_add_id(known, 3));
	assert_true(known_has(known, 3, 0));
	assert_true(walk_has_id(walk, 3));
	for (uint64_t id = 1; id <= LIMIT_KNOWN_STACKS; id++) {
		assert_false(known_has(known, id << 16, 0));
		assert_false(walk_has_id(walk, id << 16));
	}
}

static void depths_are_shared(void **state)
{
	known_set_depth(known, 127, 64, true);
	assert_int_equal(walk->depth, 127);
	assert_int_equal(walk->python_depth, 64);
	assert_int_equal(walk->check, 1);
	known_set_depth(known, 5, 0, false);
	assert_int_equal(walk->depth, 5);
	assert_int_equal(walk->python_depth, 0);
	assert_int_equal(walk->check, 0);
}

static void python_is_shared_once_its_frames_were_walked(void **state)
{
	struct ts_python python = {
		.state = 0x310,
		.frame = 56,
		.indirect = TS_PYTHON_DIRECT,
		.check = 24,
		.size = 9,
		.code = 1,
		.previous = 2,
		.position = 3,
		.mark = 4,
		.mark_shift = 16,
		.marks = TS_PYTHON_SHIMS,
		.index = 1,
		.tags = 3,
		.autograd = { 7, 8, 16, 24, 40 },
	};
	struct ts_python first = python;

	known_add_python(known, &python, false);
	assert_int_equal(walk->python.size, 0);
	assert_int_equal(walk->python.autograd.module, 7);
	known_add_python(known, &python, true);
	assert_memory_equal(&walk->python, &first, sizeof(first));
	/* Whoever is about to use it would have some of this and some of that. */
	python.size = 10;
	python.state = 0;
	python.autograd.module = 9;
	python.autograd.next = 0;
	known_add_python(known, &python, true);
	assert_memory_equal(&walk->python, &first, sizeof(first));
	known_forget(known, 100);
	assert_memory_equal(&walk->python, &first, sizeof(first));
}

static void autograd_may_be_found_later(void **state)
{
	struct ts_python python = { .size = 9 };

	known_add_python(known, &python, true);
	assert_int_equal(walk->python.autograd.module, 0);
	python.autograd = (struct ts_autograd){ 7, 8, 16, 24, 40 };
	known_add_python(known, &python, true);
	assert_memory_equal(&walk->python.autograd, &python.autograd, sizeof(python.autograd));
}

static bool kernel_can_seal(void)
{
	int fd = memfd_create("seal", MFD_CLOEXEC | MFD_ALLOW_SEALING), r;

	assert_true(fd >= 0);
	r = fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	close(fd);
	return r == 0; /* since 5.1 */
}

/* The process has the descriptor, and may open it anew by its own /proc. */
static void only_the_daemon_writes(void **state)
{
	char path[64];
	int fd = known_fd(known), own;
	struct stat status;

	if (!kernel_can_seal())
		skip();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDWR | O_CLOEXEC);
	assert_true(own >= 0);
	for (int i = 0; i < 2; i++) {
		int to = i ? own : fd;

		assert_ptr_equal(
			mmap(NULL, sizeof(*walk), PROT_READ | PROT_WRITE, MAP_SHARED, to, 0),
			MAP_FAILED);
		assert_int_equal(pwrite(to, "x", 1, 0), -1);
		assert_int_equal(ftruncate(to, 0), -1);
		assert_int_equal(ftruncate(to, 2 * sizeof(*walk)), -1);
		assert_int_equal(fcntl(to, F_ADD_SEALS, F_SEAL_WRITE), -1);
	}
	assert_int_equal(mprotect((void *)walk, sizeof(*walk), PROT_READ | PROT_WRITE), -1);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_size, sizeof(*walk));
	close(own);
	/* What was mapped before that still can be. */
	known_add_id(known, id_of_set(1, 0));
	assert_true(walk_has_id(walk, id_of_set(1, 0)));
}

static void none_is_shared_where_rules_are_unknown(void **state)
{
	struct known *own;

	assert_int_equal(known_new(false, &own), 0);
	assert_int_equal(known_fd(own), -1);
	known_set_depth(own, 1, 1, false);
	known_set_seed(own, SEED);
	known_add_rule(own, ADDRESS, plain);
	known_add_python(own, &(struct ts_python){ .size = 9 }, true);
	known_add_id(own, 5);
	assert_true(known_has(own, 5, 1000));
	known_forget(own, 100);
	assert_false(known_has(own, 5, 1000));
	assert_null(known_free(own));
}

static void nothing_is_known_of_who_never_asked(void **state)
{
	known_set_depth(NULL, 1, 1, false);
	known_forget(NULL, 1);
	known_set_seed(NULL, SEED);
	known_add_rule(NULL, ADDRESS, plain);
	known_add_python(NULL, &(struct ts_python){ .size = 9 }, true);
	known_add_id(NULL, 5);
	assert_false(known_has(NULL, 5, 0));
	assert_int_equal(known_fd(NULL), -1);
	assert_null(known_free(NULL));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_of_a_rule_is_kept),
		TEST(rule_is_found_by_its_address),
		TEST(rule_with_the_bits_of_another_address_is_none),
		TEST(rules_that_no_library_goes_by_are_not_shared),
		TEST(full_set_of_rules_takes_the_newest),
		TEST(full_set_of_ids_takes_the_newest_and_the_daemon_forgets_none),
		TEST(id_that_is_there_takes_no_other_place),
		TEST(no_stack_is_not_an_id),
		TEST(what_was_forgotten_is_not_shared),
		TEST(stacks_of_an_epoch_are_good_until_it_ends),
		TEST(more_stacks_than_the_limit_begin_anew),
		TEST(depths_are_shared),
		TEST(python_is_shared_once_its_frames_were_walked),
		TEST(autograd_may_be_found_later),
		TEST(only_the_daemon_writes),
		cmocka_unit_test(none_is_shared_where_rules_are_unknown),
		cmocka_unit_test(nothing_is_known_of_who_never_asked),
	};
#undef TEST

	return cmocka_run_group_tests_name("known", tests, NULL, NULL);
}
