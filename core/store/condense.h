/* condense.h: turns rows of seconds that are no longer recent into rows of minutes, in rollup, work
 * and busy.
 */
#ifndef TS_CONDENSE_H
#define TS_CONDENSE_H

#include <sqlite3.h>
#include <stdint.h>

/* Rows younger than this are kept per second. */
#define CONDENSE_AFTER_S 120
#define CONDENSE_TO_S	 60

struct condense;

int condense_new(sqlite3 *db, int64_t boot, struct condense **ret);
struct condense *condense_free(struct condense *condense);

/* Condenses some seconds in a transaction of its own. 1: there may be more to do, 0: not now. */
int condense_turn(struct condense *condense, uint64_t now_ns);

#endif
