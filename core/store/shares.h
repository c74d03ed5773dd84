/* shares.h: how much of the database the ops of each user take, so that when it is full, the
 * biggest pays first. */
#ifndef TS_SHARES_H
#define TS_SHARES_H

#include <sqlite3.h>
#include <stdint.h>

struct shares;

int shares_new(sqlite3 *db, struct shares **ret);
struct shares *shares_free(struct shares *shares);

/* In a transaction: deletes oldest chunks of the user who has most, at most `chunks`. 1: done; 0:
 * there is only one user, or ops take less than half of `used_bytes`: then all pay alike. */
int shares_delete(struct shares *shares, uint64_t now_ns, int64_t used_bytes, int64_t chunks);

#endif
