/* Quota: a row for each user who holds anything. The sum of all rows is `used`. */
#include "core/base/quota.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/invariant.h"
#include "core/base/vector.h"

static struct map_key quota_key(uint32_t uid)
{
	return (struct map_key){ uid, 0 };
}

static struct quota_user *quota_find(const struct quota *quota, uint32_t uid)
{
	uintptr_t row;

	if (quota->last < quota->users && quota->user[quota->last].uid == uid)
		return &quota->user[quota->last];
	row = (uintptr_t)map_get(&quota->rows, quota_key(uid));
	return row ? &quota->user[row - 1] : NULL;
}

static int quota_set_row(struct quota *quota, uint32_t row)
{
	return map_put(&quota->rows, quota_key(quota->user[row].uid), (void *)(uintptr_t)(row + 1));
}

static struct quota_user *quota_add(struct quota *quota, uint32_t uid)
{
	if (VECTOR_ROOM(quota->user, quota->room, quota->users + 1ull) < 0)
		return NULL;
	quota->user[quota->users] = (struct quota_user){ .uid = uid };
	if (quota_set_row(quota, quota->users) < 0)
		return NULL;
	return &quota->user[quota->users++];
}

/* The last row takes its place: that key is known, so the map needs no memory. */
static void quota_remove(struct quota *quota, struct quota_user *user)
{
	struct quota_user *last = &quota->user[--quota->users];

	map_remove(&quota->rows, quota_key(user->uid));
	if (user == last)
		return;
	*user = *last;
	quota_set_row(quota, (uint32_t)(user - quota->user));
}

uint64_t quota_held(const struct quota *quota, uint32_t uid)
{
	const struct quota_user *user = quota_find(quota, uid);

	return user ? user->held : 0;
}

/* The most for which, when it is taken, users * held <= free. */
static uint64_t quota_left_of(const struct quota *quota, uint64_t held)
{
	uint64_t users = quota->users + (held == 0);
	uint64_t free_now = quota->used < quota->total ? quota->total - quota->used : 0;

	return held <= free_now / users ? (free_now - held * users) / (users + 1) : 0;
}

uint64_t quota_left(const struct quota *quota, uint32_t uid)
{
	return quota_left_of(quota, quota_held(quota, uid));
}

int quota_charge(struct quota *quota, uint32_t uid, uint64_t amount)
{
	struct quota_user *user = quota_find(quota, uid);

	if (!amount)
		return 0;
	if (!user)
		user = quota_add(quota, uid);
	if (!user)
		return -ENOMEM;
	user->held += amount;
	quota->used += amount;
	quota->last = (uint32_t)(user - quota->user);
	return 0;
}

bool quota_take(struct quota *quota, uint32_t uid, uint64_t amount)
{
	return amount <= quota_left(quota, uid) && quota_charge(quota, uid, amount) == 0;
}

void quota_give(struct quota *quota, uint32_t uid, uint64_t amount)
{
	struct quota_user *user = quota_find(quota, uid);

	if (!amount)
		return;
	assert_invariant(user && user->held >= amount);
	if (!user)
		return;
	amount = amount < user->held ? amount : user->held;
	user->held -= amount;
	quota->used -= amount;
	quota->last = (uint32_t)(user - quota->user);
	if (!user->held)
		quota_remove(quota, user);
}

bool quota_biggest(const struct quota *quota, uint32_t *ret_uid)
{
	const struct quota_user *biggest = NULL;

	for (uint32_t i = 0; i < quota->users; i++)
		if (!biggest || quota->user[i].held > biggest->held)
			biggest = &quota->user[i];
	if (biggest)
		*ret_uid = biggest->uid;
	return biggest;
}

uint32_t quota_payer(const struct quota *quota, uint32_t uid)
{
	uint32_t biggest = uid;

	if (quota_biggest(quota, &biggest) &&
	    quota_held(quota, biggest) < quota_held(quota, uid) + 2)
		return uid;
	return biggest;
}

/* Where there are many users, leaving as much free for each of them would keep most of it from
 * all. */
static bool quota_lend(struct quota *quota, uint32_t uid)
{
	return quota->used < quota->total && quota_held(quota, uid) < quota->lent &&
	       quota_charge(quota, uid, 1) == 0;
}

bool quota_claim(struct quota *quota, uint32_t uid, bool (*give_up)(void *data, uint32_t uid),
		 void *data)
{
	while (!quota_take(quota, uid, 1) && !quota_lend(quota, uid)) {
		uint32_t payer = quota_payer(quota, uid);
		bool given = give_up(data, payer);

		if (!given && payer != uid)
			given = give_up(data, payer = uid);
		if (!given)
			return false;
		if (payer != uid)
			return quota_charge(quota, uid, 1) == 0;
	}
	return true;
}

void quota_release(struct quota *quota)
{
	free(quota->user);
	map_clear(&quota->rows);
	*quota = (struct quota){ .total = quota->total, .lent = quota->lent };
}
