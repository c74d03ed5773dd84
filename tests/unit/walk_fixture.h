/* walk_fixture.h: what a daemon shares with the library, and a stack of the test's making that lies
 * between pages that nobody may touch. */
#ifndef TS_WALK_FIXTURE_H
#define TS_WALK_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/exact/known.h"
#include "inject/light.h"

#define ENTRY	     0x401000 /* of the function that is called */
#define PAGE	     4096
#define STACK_PAGES  4
#define WORDS	     (STACK_PAGES * PAGE / sizeof(uint64_t))
#define DEPTH	     TS_STACK_FRAMES_MAX
#define PYTHON_DEPTH 64

static const struct rule ends = { .kind = RULE_END };
static const struct ts_light_call light_call = { .entry = ENTRY, .frame = TS_LIGHT_SAVED };

static uint64_t seed = 0x5eed5eed5eed5eed; /* of ids, another one whenever they are void */
static struct known *known;
static struct walker walker;
static uint8_t *pages;	/* one that nobody may touch, the stack, and another one */
static uint64_t *stack; /* its lowest word */

static inline uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static inline int walk_setup(void **state)
{
	void *at;

	memset(&walker, 0, sizeof(walker));
	assert_int_equal(known_new(true, &known), 0);
	known_set_depth(known, DEPTH, PYTHON_DEPTH, false);
	known_set_seed(known, ++seed);
	at = mmap(NULL, sizeof(struct ts_walk), PROT_READ, MAP_SHARED, known_fd(known), 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	walker.shared = at;
	pages = mmap(NULL, (STACK_PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + PAGE, STACK_PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
	stack = (uint64_t *)(pages + PAGE);
	light_hook_prepare();
	return 0;
}

static inline int walk_teardown(void **state)
{
	munmap((void *)walker.shared, sizeof(struct ts_walk));
	munmap(pages, (STACK_PAGES + 2) * PAGE);
	known = known_free(known);
	return 0;
}

/* The stack that was made is that of this thread, which the walk takes for the main thread. */
static inline void stand_on_stack(void)
{
	walker.place.main_tid = thread_id();
	walker.place.main_low = (uint64_t)stack;
	walker.place.main_top = (uint64_t)(stack + WORDS);
}

static inline void learn(uint64_t address, struct rule rule)
{
	known_add_rule(known, address, rule);
}

/* An address has one rule, until all are void. */
static inline void forget(void)
{
	known_forget(known, 1);
	known_set_seed(known, ++seed);
}

static inline struct walked walk_of(uint32_t tid, uint64_t *sp, uint64_t bp)
{
	uint64_t *saved = sp - TS_LIGHT_SAVED;
	struct walked walked;

	memset(saved, 0, TS_LIGHT_SAVED * sizeof(*saved));
	saved[TS_LIGHT_RBP] = bp;
	walk_call(&walker, &light_call, saved, tid, &walked);
	return walked;
}

/* What it comes to from there. */
static inline uint64_t walk_from(uint64_t *sp, uint64_t bp)
{
	return walk_of(thread_id(), sp, bp).found;
}

static inline uint64_t at_word(size_t n)
{
	return (uint64_t)(stack + n);
}

#define ID(...)                                                                                    \
	stack_id_of(seed, (const uint64_t[]){ __VA_ARGS__ },                                       \
		    ARRAY_SIZE(((const uint64_t[]){ __VA_ARGS__ })), TS_END_COMPLETE)

#define TEST(function) cmocka_unit_test_setup_teardown(function, walk_setup, walk_teardown)

#endif
