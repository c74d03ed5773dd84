/* quota.h: how much of one scarce thing each user holds, and may hold. Pure.
 *
 * Whoever takes something must leave free, for each user who holds any of it (himself included), as
 * much as he then has: a single user gets half of it, the next one a sixth, and nobody can take
 * everything. This is the rule of dbus-broker (src/util/user.c). Users are uids; whose uids are one
 * user's is up to the caller (daemon/proc/owner.h).
 */
#ifndef TS_QUOTA_H
#define TS_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/map.h"

struct quota_user {
	uint32_t uid;
	uint64_t held; /* not 0 */
};

/* Zeroed except `total` and `lent`: nobody holds anything. */
struct quota {
	uint64_t total, used;
	uint64_t lent; /* how many quota_claim() gives each user while any are free */
	struct quota_user *user;
	uint32_t users, room;
	uint32_t last;	 /* the row of the latest call, if there are rows */
	struct map rows; /* number of a row and 1 */
};

/* Takes, or takes nothing: he has his share already, or there is no memory. */
bool quota_take(struct quota *quota, uint32_t uid, uint64_t amount);
/* The same without a limit, for what can be taken away again: the caller makes room where it is
 * more than there is (quota_biggest). -ENOMEM. */
int quota_charge(struct quota *quota, uint32_t uid, uint64_t amount);
/* Gives back what he has taken. */
void quota_give(struct quota *quota, uint32_t uid, uint64_t amount);

uint64_t quota_held(const struct quota *quota, uint32_t uid);
/* How much more he may take now. */
uint64_t quota_left(const struct quota *quota, uint32_t uid);
/* Who makes room for a user who can take no more, as his share is too small for each user to have
 * one: the user who holds most, if that is at least two more; otherwise the user himself. */
uint32_t quota_payer(const struct quota *quota, uint32_t uid);
/* Takes one, for which the payer may have to give one up, or else the user himself: `give_up` has
 * that done with quota_give(), and returns false if he has none that can go. False: there is none.
 */
bool quota_claim(struct quota *quota, uint32_t uid, bool (*give_up)(void *data, uint32_t uid),
		 void *data);
/* Who holds most: false if nobody holds anything. */
bool quota_biggest(const struct quota *quota, uint32_t *ret_uid);
void quota_release(struct quota *quota);

#endif
