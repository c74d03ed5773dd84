/* condense.h: makes rows of a minute from those of seconds that are not recent any more, of
 * rollup, work and busy.
 */
#ifndef TS_CONDENSE_H
#define TS_CONDENSE_H

#include <sqlite3.h>
#include <stdint.h>

/* Rows younger than this are kept by the second. */
#define CONDENSE_AFTER_S 120
#define CONDENSE_TO_S	 60

struct condense;

int condense_new(sqlite3 *db, int64_t boot, struct condense **ret);
struct condense *condense_free(struct condense *condense);

/* Condenses some seconds in a transaction of its own. 1: there may be more to do, 0: not now. */
int condense_turn(struct condense *condense, uint64_t now_ns);

#endif
