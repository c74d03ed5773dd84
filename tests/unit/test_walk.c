/* test_walk: the library's walk over native frames: where each kind of rule leads, where it ends,
 * and that nothing is read but the thread's own stack above its frame. */
#include "walk_fixture.h"

#include <sched.h>

#define ONE   0x500010
#define TWO   0x600020
#define THREE 0x700030
#define FOUR  0x800040
#define RSP   16 /* word of the stack where the return address is */

static int setup(void **state)
{
	walk_setup(state);
	stand_on_stack();
	return 0;
}

/* The first of the return addresses leads to the second one, by the rule that is looked at; the
 * second one's rule is by RBP, so what is behind it tells what RBP was. */
struct step {
	uint8_t kind, rbp_kind;
	uint64_t last;
};

static const struct step steps[] = {
	{ RULE_RSP, RULE_RBP_SAME, THREE },	{ RULE_RSP, RULE_RBP_AT_CFA, FOUR },
	{ RULE_RSP, RULE_RBP_AT_RBP, FOUR },	{ RULE_RSP, RULE_RBP_LOST, 0 },
	{ RULE_RBP, RULE_RBP_SAME, THREE },	{ RULE_RBP, RULE_RBP_AT_CFA, FOUR },
	{ RULE_RBP, RULE_RBP_AT_RBP, FOUR },	{ RULE_RBP, RULE_RBP_LOST, 0 },
	{ RULE_AT_RSP, RULE_RBP_SAME, THREE },	{ RULE_AT_RSP, RULE_RBP_AT_CFA, FOUR },
	{ RULE_AT_RSP, RULE_RBP_AT_RBP, FOUR }, { RULE_AT_RSP, RULE_RBP_LOST, 0 },
	{ RULE_AT_RBP, RULE_RBP_SAME, THREE },	{ RULE_AT_RBP, RULE_RBP_AT_CFA, FOUR },
	{ RULE_AT_RBP, RULE_RBP_AT_RBP, FOUR }, { RULE_AT_RBP, RULE_RBP_LOST, 0 },
};

#define BP    (RSP + 30)
#define CFA   (RSP + 20)
#define OTHER (RSP + 50) /* RBP of the second frame, if it is not the same */

static struct rule rule_of(const struct step *step)
{
	/* RSP is behind the return address when a rule is looked at. */
	static const int32_t cfa[RULE_KINDS] = {
		[RULE_RSP] = CFA - (RSP + 1),
		[RULE_RBP] = CFA - BP,
		[RULE_AT_RSP] = 4,
		[RULE_AT_RBP] = -3,
	};
	struct rule rule = { step->kind, step->rbp_kind, 0, cfa[step->kind] };

	if (step->rbp_kind == RULE_RBP_AT_CFA)
		rule.rbp = -7;
	if (step->rbp_kind == RULE_RBP_AT_RBP)
		rule.rbp = 5;
	return rule;
}

static void each_kind_of_rule_leads_to_the_caller(void **state)
{
	stack[RSP] = ONE;
	stack[RSP + 5] = at_word(CFA); /* AT_RSP */
	stack[BP - 3] = at_word(CFA);  /* AT_RBP */
	stack[CFA - 1] = TWO;
	stack[CFA - 7] = at_word(OTHER);
	stack[BP + 5] = at_word(OTHER);
	stack[BP + 2] = THREE;
	stack[OTHER + 2] = FOUR;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		uint64_t last = steps[i].last, found;

		forget();
		learn(ONE, rule_of(&steps[i]));
		learn(TWO, (struct rule){ RULE_RBP, RULE_RBP_SAME, 0, 3 });
		learn(THREE, ends);
		learn(FOUR, ends);
		found = walk_from(&stack[RSP], at_word(BP));
		if (found != (last ? ID(ENTRY, ONE, TWO, last) : 0))
			fail_msg("kind %u, RBP %u", steps[i].kind, steps[i].rbp_kind);
	}
}

static void lost_rbp_harms_nobody_who_needs_none(void **state)
{
	stack[RSP] = ONE;
	stack[RSP + 2] = TWO;
	stack[RSP + 5] = THREE;
	learn(ONE, (struct rule){ RULE_RSP, RULE_RBP_LOST, 0, 2 });
	learn(TWO, (struct rule){ RULE_RSP, RULE_RBP_AT_CFA, -2, 3 });
	learn(THREE, ends);
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY, ONE, TWO, THREE));
}

static void return_address_of_zero_is_the_end(void **state)
{
	stack[RSP] = ONE;
	stack[RSP + 1] = TWO;
	stack[RSP + 2] = 0;
	learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	learn(TWO, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY, ONE, TWO));
}

static void without_a_rule_or_a_seed_nothing_is_known(void **state)
{
	stack[RSP] = ONE;
	stack[RSP + 1] = TWO;
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	learn(TWO, ends);
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY, ONE, TWO));
	known_forget(known, 1);
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	stack[RSP] = THREE;
	learn(THREE, ends);
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	known_set_seed(known, seed + 1);
	assert_int_equal(walk_from(&stack[RSP], 0),
			 stack_id_of(seed + 1, (uint64_t[]){ ENTRY, THREE }, 2, TS_END_COMPLETE));
}

/* It is the same for all walks of a session. */
static void depth_is(uint32_t depth)
{
	forget();
	known_set_depth(known, depth, PYTHON_DEPTH, false);
	learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	learn(TWO, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
}

/* As the kernel's walk, which wants no rule for the last frame and so never learns it. */
static void depth_ends_a_walk_and_needs_no_rule_there(void **state)
{
	stack[RSP] = ONE;
	stack[RSP + 1] = TWO;
	stack[RSP + 2] = THREE;
	depth_is(5);
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	depth_is(4);
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY, ONE, TWO, THREE));
	depth_is(3);
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY, ONE, TWO));
	depth_is(2);
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY, ONE));
	depth_is(1);
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY));
}

static void no_depth_is_more_than_the_kernel_sends(void **state)
{
	uint64_t frames[2 * TS_STACK_FRAMES_MAX] = { ENTRY };

	for (size_t i = 1; i < ARRAY_SIZE(frames); i++)
		stack[RSP + i - 1] = frames[i] = ONE;
	learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	known_set_depth(known, UINT32_MAX, PYTHON_DEPTH, false);
	assert_int_equal(walk_from(&stack[RSP], 0),
			 stack_id_of(seed, frames, ARRAY_SIZE(frames), TS_END_DEPTH));
}

/* The rule of the call's return address, and RBP. The stack is full of words that would lead on,
 * and has a frame that would be reached by what lies outside. */
struct bad {
	const char *name;
	struct rule rule;
	int64_t bp; /* in words from the stack's lowest, and bytes */
	int64_t bytes;
};

#define TOP ((int64_t)WORDS)

static const struct bad bad[] = {
	{ "CFA at RSP", { RULE_RSP, 0, 0, 0 }, 0, 0 },
	{ "CFA below RSP", { RULE_RSP, 0, 0, -4 }, 0, 0 },
	{ "CFA above the top", { RULE_RSP, 0, 0, WORDS - RSP }, 0, 0 },
	{ "CFA far above", { RULE_RSP, 0, 0, RULE_CFA_MAX }, 0, 0 },
	{ "CFA far below", { RULE_RSP, 0, 0, -RULE_CFA_MAX - 1 }, 0, 0 },
	{ "RBP below RSP", { RULE_RBP, 0, 0, 2 }, RSP - 4, 0 },
	{ "RBP below the stack", { RULE_RBP, 0, 0, 2 }, -4, 0 },
	{ "RBP at the top", { RULE_RBP, 0, 0, 2 }, TOP, 0 },
	{ "RBP near the top", { RULE_RBP, 0, 0, 2 }, TOP - 1, 0 },
	{ "RBP unaligned", { RULE_RBP, 0, 0, 2 }, RSP + 8, 4 },
	{ "RBP at the end of memory", { RULE_RBP, 0, 0, 2 }, INT64_MAX / 8, 0 },
	{ "word below RSP", { RULE_AT_RSP, 0, 0, -2 }, 0, 0 },
	{ "word below the stack", { RULE_AT_RSP, 0, 0, -RSP - 2 }, 0, 0 },
	{ "word at the top", { RULE_AT_RSP, 0, 0, WORDS - RSP - 1 }, 0, 0 },
	{ "word of RBP at the top", { RULE_AT_RBP, 0, 0, 0 }, TOP, 0 },
	{ "word of RBP below the stack", { RULE_AT_RBP, 0, 0, 0 }, -1, 0 },
	{ "word of RBP unaligned", { RULE_AT_RBP, 0, 0, 0 }, RSP + 8, 1 },
	{ "saved RBP at the top", { RULE_RSP, RULE_RBP_AT_CFA, 0, WORDS - RSP - 1 }, 0, 0 },
	{ "saved RBP below RSP", { RULE_RSP, RULE_RBP_AT_CFA, -5, 2 }, 0, 0 },
	{ "saved RBP below the stack", { RULE_RSP, RULE_RBP_AT_CFA, -RSP - 9, 2 }, 0, 0 },
	{ "saved RBP far above", { RULE_RSP, RULE_RBP_AT_CFA, INT16_MAX, 2 }, 0, 0 },
	{ "saved RBP at RBP at the top", { RULE_RSP, RULE_RBP_AT_RBP, 0, 2 }, TOP, 0 },
	{ "saved RBP at RBP below", { RULE_RSP, RULE_RBP_AT_RBP, 0, 2 }, -3, 0 },
	{ "saved RBP at RBP unaligned", { RULE_RSP, RULE_RBP_AT_RBP, 0, 2 }, RSP + 8, 7 },
};

static void rule_that_leads_out_of_the_stack_is_not_followed(void **state)
{
	for (size_t i = 0; i < WORDS; i++)
		stack[i] = i % 2 ? at_word(RSP + 40) : TWO;
	stack[RSP] = ONE;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		forget();
		learn(TWO, ends);
		learn(at_word(RSP + 40), ends);
		learn(ONE, bad[i].rule);
		if (walk_from(&stack[RSP],
			      at_word(0) + (uint64_t)bad[i].bp * 8 + (uint64_t)bad[i].bytes))
			fail_msg("%s", bad[i].name);
	}
}

/* Each caller is above the frame that it has called, or the walk would go in a circle. */
static void caller_is_never_below(void **state)
{
	static const struct rule back[] = {
		{ RULE_RBP, RULE_RBP_SAME, 0, 0 },
		{ RULE_RBP, RULE_RBP_SAME, 0, -1 },
		{ RULE_RBP, RULE_RBP_LOST, 0, -1 }, /* not a short one */
		{ RULE_AT_RBP, RULE_RBP_SAME, 0, 0 },
	};

	stack[RSP] = ONE;
	stack[RSP + 3] = ONE;
	stack[RSP + 4] = TWO;
	stack[RSP + 5] = at_word(RSP + 5);
	for (size_t i = 0; i < ARRAY_SIZE(back); i++) {
		forget();
		learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = 4 });
		learn(TWO, back[i]);
		assert_int_equal(walk_from(&stack[RSP], at_word(RSP + 5)), 0);
	}
}

/* The last word of the stack is one of it. */
static void cfa_may_be_the_top(void **state)
{
	stack[RSP] = ONE;
	stack[WORDS - 1] = TWO;
	learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = WORDS - RSP - 1 });
	learn(TWO, ends);
	assert_int_equal(walk_from(&stack[RSP], 0), ID(ENTRY, ONE, TWO));
	forget();
	learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = WORDS - RSP - 1 });
	learn(TWO, (struct rule){ .kind = RULE_RSP, .cfa = 1 });
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
}

/* Any rule, with any RBP, among words that point to where nobody may read: it touches none of
 * these. RSP is at the stack's lowest word, so that all below is forbidden too. */
static void whatever_the_rules_nothing_outside_is_touched(void **state)
{
	static const int32_t cfas[] = {
		-RULE_CFA_MAX - 1, -513,      -2,    -1,	0,	     1, 2,
		WORDS - 2,	   WORDS - 1, WORDS, WORDS + 1, RULE_CFA_MAX
	};
	static const int16_t rbps[] = { INT16_MIN, -2, -1, 0, 1, WORDS - 1, WORDS, INT16_MAX };
	const uint64_t low = at_word(0), top = at_word(WORDS);
	const uint64_t points[] = { 0,	     8,	      low - 16, low - 8,	low - 4,
				    low,     low + 4, low + 16, top - 16,	top - 8,
				    top - 4, top,     top + 8,	UINT64_MAX - 7, 1ull << 63 };
	const struct ts_light_call call = { .entry = ENTRY, .frame = 0 };
	struct walked walked;
	unsigned int count = 0;

	for (size_t p = 0; p < ARRAY_SIZE(points); p++) {
		for (size_t i = 0; i < WORDS; i++)
			stack[i] = points[p];
		stack[0] = low - 8; /* the return address, and RBP too */
		for (uint8_t kind = RULE_RSP; kind <= RULE_AT_RBP; kind++)
			for (uint8_t rbp = 0; rbp <= RULE_RBP_LOST; rbp++)
				for (size_t c = 0; c < ARRAY_SIZE(cfas); c++)
					for (size_t r = 0; r < ARRAY_SIZE(rbps); r++) {
						const struct rule rule = { kind, rbp, rbps[r],
									   cfas[c] };

						forget();
						learn(low - 8, rule);
						if (points[p])
							learn(points[p], rule);
						walk_call(&walker, &call, stack, thread_id(),
							  &walked);
						count++;
					}
	}
	assert_int_equal(count, ARRAY_SIZE(points) * 4 * 4 * ARRAY_SIZE(cfas) * ARRAY_SIZE(rbps));
}

/* Each word that it went by, as each kind of rule does, and RBP, if a frame was found with it. */
static void walk_that_was_done_before_is_told_by_its_words(void **state)
{
	static const size_t words[] = { RSP, RSP + 2, RSP + 4, RSP + 10, RSP + 12, RSP + 21 };
	uint64_t id;

	learn(ONE, (struct rule){ .kind = RULE_RSP, .cfa = 4 });
	learn(TWO, (struct rule){ .kind = RULE_RSP, .cfa = 6 });
	learn(THREE, (struct rule){ RULE_AT_RSP, RULE_RBP_SAME, 0, 1 });
	learn(FOUR, ends);
	stack[RSP] = ONE;
	stack[RSP + 4] = TWO;
	stack[RSP + 10] = THREE;
	stack[RSP + 12] = at_word(RSP + 22);
	stack[RSP + 21] = FOUR;
	id = ID(ENTRY, ONE, TWO, THREE, FOUR);
	for (int again = 0; again < 3; again++)
		assert_int_equal(walk_from(&stack[RSP], (uint64_t)again), id);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		uint64_t word = stack[words[i]];

		stack[words[i]] = 5;
		/* Nothing is there but what somebody has left. */
		assert_int_equal(walk_from(&stack[RSP], 0), words[i] == RSP + 2 ? id : 0);
		stack[words[i]] = word;
		assert_int_equal(walk_from(&stack[RSP], 0), id);
	}
	walker.place.main_top = at_word(RSP + 21);
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	walker.place.main_top = at_word(RSP + 22);
	assert_int_equal(walk_from(&stack[RSP], 0), id);
	forget();
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
}

static void walk_by_rbp_is_not_that_by_another_one(void **state)
{
	stack[RSP] = ONE;
	stack[RSP + 3] = at_word(RSP + 12); /* saved RBP, that a frame is found with */
	stack[RSP + 4] = TWO;
	stack[RSP + 13] = THREE;
	stack[RSP + 19] = FOUR;
	learn(ONE, (struct rule){ RULE_RBP, RULE_RBP_AT_RBP, 0, 2 });
	learn(TWO, (struct rule){ RULE_RBP, RULE_RBP_LOST, 0, 2 });
	learn(THREE, ends);
	learn(FOUR, ends);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(walk_from(&stack[RSP], at_word(RSP + 3)),
				 ID(ENTRY, ONE, TWO, THREE));
		assert_int_equal(walk_from(&stack[RSP], at_word(RSP + 18)), ID(ENTRY, ONE, FOUR));
		stack[RSP + 3] = at_word(RSP + 18);
		assert_int_equal(walk_from(&stack[RSP], at_word(RSP + 3)),
				 ID(ENTRY, ONE, TWO, FOUR));
		stack[RSP + 3] = at_word(RSP + 12);
	}
}

static void stack_pointer_elsewhere_is_not_followed(void **state)
{
	stack[RSP] = ONE;
	learn(ONE, ends);
	assert_int_not_equal(walk_from(&stack[RSP], 0), 0);
	walker.place.main_top = at_word(RSP);
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	walker.place.main_top = at_word(RSP + 1);
	assert_int_not_equal(walk_from(&stack[RSP], 0), 0);
	walker.place.main_low = at_word(RSP + 1);
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	assert_int_equal(walker.place.grown, 1);
	/* Where it ends was not found out. */
	walker.place.main_low = walker.place.main_top = 0;
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
	walker.place.main_tid = 0;
	assert_int_equal(walk_from(&stack[RSP], 0), 0);
}

static void only_what_the_daemon_confirmed_is_a_stack(void **state)
{
	struct walked walked;

	stack[RSP] = ONE;
	learn(ONE, ends);
	walked = walk_of(thread_id(), &stack[RSP], 0);
	assert_int_equal(walked.found, ID(ENTRY, ONE));
	assert_int_equal(walked.stack, 0);
	assert_int_equal(walked.id, 0);
	known_add_id(known, walked.found);
	walked = walk_of(thread_id(), &stack[RSP], 0);
	assert_int_equal(walked.found, ID(ENTRY, ONE));
	assert_int_equal(walked.stack, walked.found);
	assert_int_equal(walked.id, walked.found);
	assert_false(walked.is_new);
	assert_int_equal(walked.role.role, TS_STUB_UNKNOWN);
	known_set_depth(known, DEPTH, PYTHON_DEPTH, true);
	walked = walk_of(thread_id(), &stack[RSP], 0);
	assert_int_equal(walked.found, ID(ENTRY, ONE));
	assert_int_equal(walked.id, 0);
}

#define TURNS 4000

/* Of a thread that walks all the time. */
static struct {
	bool stop;
	uint32_t turn; /* all that was known before it is forgotten */
	uint64_t found, wrong;
} seen;

/* The frames are THREE or FOUR, by turns. */
static uint64_t id_in(uint32_t turn)
{
	const uint64_t frames[] = { ENTRY, ONE, turn % 2 ? FOUR : THREE };

	return stack_id_of(seed + turn, frames, ARRAY_SIZE(frames), TS_END_COMPLETE);
}

static void *walk_on(void *data)
{
	const uint32_t tid = thread_id();

	walker.place.main_tid = tid;
	while (!__atomic_load_n(&seen.stop, __ATOMIC_RELAXED)) {
		uint32_t turn = __atomic_load_n(&seen.turn, __ATOMIC_SEQ_CST);
		uint64_t id = walk_of(tid, &stack[RSP], 0).id;
		bool same = __atomic_load_n(&seen.turn, __ATOMIC_SEQ_CST) == turn;

		if (id && same && id != id_in(turn))
			seen.wrong++;
		__atomic_fetch_add(&seen.found, id != 0, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void change_rules(uint32_t turn)
{
	const struct rule rule = { .kind = RULE_RSP, .cfa = turn % 2 ? 2 : 1 };

	known_forget(known, turn);
	__atomic_store_n(&seen.turn, turn, __ATOMIC_SEQ_CST);
	learn(ONE, rule);
	learn(turn % 2 ? FOUR : THREE, ends);
	known_set_seed(known, seed + turn);
	known_add_id(known, id_in(turn));
}

static void rules_may_change_in_the_middle_of_a_walk(void **state)
{
	uint64_t before;
	pthread_t thread;

	memset(&seen, 0, sizeof(seen));
	stack[RSP] = ONE;
	stack[RSP + 1] = THREE;
	stack[RSP + 2] = FOUR;
	assert_int_equal(pthread_create(&thread, NULL, walk_on, NULL), 0);
	for (uint32_t turn = 1; turn <= TURNS; turn++) {
		change_rules(turn);
		/* Now and then it may come to the end of a walk. */
		before = __atomic_load_n(&seen.found, __ATOMIC_RELAXED);
		while (turn % 100 == 0 && __atomic_load_n(&seen.found, __ATOMIC_RELAXED) == before)
			sched_yield();
	}
	__atomic_store_n(&seen.stop, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(seen.wrong, 0);
}

int main(void)
{
#define OWN(function) cmocka_unit_test_setup_teardown(function, setup, walk_teardown)
	const struct CMUnitTest tests[] = {
		OWN(each_kind_of_rule_leads_to_the_caller),
		OWN(lost_rbp_harms_nobody_who_needs_none),
		OWN(return_address_of_zero_is_the_end),
		OWN(without_a_rule_or_a_seed_nothing_is_known),
		OWN(depth_ends_a_walk_and_needs_no_rule_there),
		OWN(no_depth_is_more_than_the_kernel_sends),
		OWN(rule_that_leads_out_of_the_stack_is_not_followed),
		OWN(caller_is_never_below),
		OWN(cfa_may_be_the_top),
		OWN(whatever_the_rules_nothing_outside_is_touched),
		OWN(walk_that_was_done_before_is_told_by_its_words),
		OWN(walk_by_rbp_is_not_that_by_another_one),
		OWN(stack_pointer_elsewhere_is_not_followed),
		OWN(only_what_the_daemon_confirmed_is_a_stack),
		OWN(rules_may_change_in_the_middle_of_a_walk),
	};
#undef OWN

	return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
