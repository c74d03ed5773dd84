/* Shares of users, with simulated ones: some take whatever they get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/quota.h"

#define TOTAL 1024u

/* One by one, as long as he gets any. */
static uint64_t take_all(struct quota *quota, uint32_t uid)
{
	uint64_t taken = 0;

	while (quota_take(quota, uid, 1))
		taken++;
	return taken;
}

static void a_single_user_gets_half(void **state)
{
	struct quota quota = { .total = TOTAL };

	assert_int_equal(quota_left(&quota, 1000), TOTAL / 2);
	assert_false(quota_take(&quota, 1000, TOTAL / 2 + 1));
	assert_int_equal(quota_held(&quota, 1000), 0);
	assert_true(quota_take(&quota, 1000, TOTAL / 2));
	assert_int_equal(quota_left(&quota, 1000), 0);
	assert_false(quota_take(&quota, 1000, 1));
	quota_release(&quota);
}

/* However many greedy users came before: the n-th gets a part of TOTAL / (n * (n + 1)). */
static void greedy_users_leave_room_for_the_next(void **state)
{
	struct quota quota = { .total = TOTAL };

	for (uint32_t user = 1; user <= 20; user++) {
		uint64_t taken = take_all(&quota, user), due = TOTAL / (user * (user + 1));

		assert_in_range(taken, due ? due : 1, due + 2);
	}
	assert_true(quota.used < TOTAL);
	quota_release(&quota);
}

/* It makes no difference in which steps they take, or whether they take turns. */
static void greedy_users_who_take_turns_leave_room_too(void **state)
{
	struct quota quota = { .total = TOTAL };
	bool any = true;

	while (any) {
		any = false;
		for (uint32_t user = 1; user <= 4; user++)
			any |= quota_take(&quota, user, 7);
	}
	for (uint32_t user = 1; user <= 4; user++)
		assert_in_range(quota_held(&quota, user), TOTAL / 8 - 7, TOTAL / 8 + 58);
	assert_true(quota_left(&quota, 5) >= TOTAL / 40);
	quota_release(&quota);
}

static void what_is_given_back_can_be_taken_by_others(void **state)
{
	struct quota quota = { .total = TOTAL };
	uint32_t biggest;

	take_all(&quota, 1);
	take_all(&quota, 2);
	assert_true(quota_biggest(&quota, &biggest));
	assert_int_equal(biggest, 1);
	quota_give(&quota, 1, quota_held(&quota, 1));
	assert_int_equal(quota_held(&quota, 1), 0);
	assert_true(quota_biggest(&quota, &biggest));
	assert_int_equal(biggest, 2);
	assert_in_range(take_all(&quota, 2), 1, TOTAL / 2);
	assert_int_equal(quota_held(&quota, 2), TOTAL / 2);
	quota_give(&quota, 2, quota_held(&quota, 2));
	assert_int_equal(quota.used, 0);
	assert_false(quota_biggest(&quota, &biggest));
	quota_release(&quota);
}

static void whoever_has_most_makes_room(void **state)
{
	struct quota quota = { .total = TOTAL };
	uint32_t user = 1;

	assert_int_equal(quota_payer(&quota, 7), 7);
	while (quota_left(&quota, user))
		take_all(&quota, user++);
	assert_int_equal(quota_payer(&quota, user), 1);
	assert_int_equal(quota_payer(&quota, 1), 1);
	/* One who has as much, or but one less, would only swap with him. */
	assert_int_equal(quota_charge(&quota, 2, TOTAL / 2 - quota_held(&quota, 2) - 1), 0);
	assert_int_equal(quota_payer(&quota, 2), 2);
	quota_give(&quota, 2, 1);
	assert_int_equal(quota_payer(&quota, 2), 1);
	quota_release(&quota);
}

static bool keep(void *data, uint32_t user)
{
	return false;
}

static bool give_up(void *data, uint32_t user)
{
	struct quota *quota = data;
	bool has = quota_held(quota, user);

	quota_give(quota, user, has);
	return has;
}

/* While many others keep one each, one who comes gets a few; when all is taken, it goes round. */
static void many_users_have_a_few_each(void **state)
{
	struct quota quota = { .total = TOTAL, .lent = 4 };
	const uint32_t users = TOTAL * 2 / 5;

	for (uint32_t user = 1; user <= users; user++)
		assert_true(quota_claim(&quota, user, keep, &quota));
	assert_false(quota_take(&quota, 1, 1));
	for (uint32_t i = 0; i < quota.lent; i++)
		assert_true(quota_claim(&quota, 0, keep, &quota));
	assert_false(quota_claim(&quota, 0, keep, &quota));
	for (uint32_t user = 1; quota.used < TOTAL; user = user % users + 1)
		assert_true(quota_claim(&quota, user, keep, &quota));
	assert_false(quota_claim(&quota, TOTAL, keep, &quota));
	assert_true(quota_claim(&quota, TOTAL, give_up, &quota));
	assert_int_equal(quota.used, TOTAL);
	quota_release(&quota);
}

/* Otherwise only shares count. */
static void none_are_lent_unless_it_says_so(void **state)
{
	struct quota quota = { .total = 4 };

	assert_true(quota_claim(&quota, 1, keep, &quota));
	assert_true(quota_claim(&quota, 1, keep, &quota));
	assert_false(quota_claim(&quota, 1, keep, &quota));
	quota_release(&quota);
}

static void what_can_be_taken_away_has_no_limit(void **state)
{
	struct quota quota = { .total = TOTAL };

	assert_int_equal(quota_charge(&quota, 1, 2 * TOTAL), 0);
	assert_int_equal(quota.used, 2 * TOTAL);
	assert_int_equal(quota_left(&quota, 1), 0);
	assert_int_equal(quota_left(&quota, 2), 0);
	quota_give(&quota, 1, 2 * TOTAL);
	assert_int_equal(quota_left(&quota, 2), TOTAL / 2);
	quota_release(&quota);
}

/* Against sums kept by hand, over a long time. */
static void sums_stay_right(void **state)
{
	enum { USERS = 300, STEPS = 200000 };
	static uint64_t held[USERS];
	struct quota quota = { .total = 100 * TOTAL };
	uint64_t random = 1, used = 0;

	for (int i = 0; i < STEPS; i++) {
		uint32_t user;
		uint64_t amount;

		random = random * 6364136223846793005 + 1442695040888963407;
		user = (uint32_t)(random >> 33) % USERS;
		amount = random >> 50 & 255;
		if (random >> 60 & 1 && held[user]) {
			amount = held[user] < amount ? held[user] : amount;
			quota_give(&quota, user, amount);
			held[user] -= amount;
			used -= amount;
		} else if (quota_take(&quota, user, amount)) {
			held[user] += amount;
			used += amount;
		}
		assert_int_equal(quota.used, used);
		assert_int_equal(quota_held(&quota, user), held[user]);
	}
	for (uint32_t user = 0; user < USERS; user++)
		quota_give(&quota, user, held[user]);
	assert_int_equal(quota.used, 0);
	assert_int_equal(quota.users, 0);
	quota_release(&quota);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_single_user_gets_half),
		cmocka_unit_test(greedy_users_leave_room_for_the_next),
		cmocka_unit_test(greedy_users_who_take_turns_leave_room_too),
		cmocka_unit_test(what_is_given_back_can_be_taken_by_others),
		cmocka_unit_test(whoever_has_most_makes_room),
		cmocka_unit_test(many_users_have_a_few_each),
		cmocka_unit_test(none_are_lent_unless_it_says_so),
		cmocka_unit_test(what_can_be_taken_away_has_no_limit),
		cmocka_unit_test(sums_stay_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
