/* place.h: where stacks are in the user's own code, for SQL.
 *
 * stack_where(stack) is the innermost frame that is the user's: what remains without the driver,
 * the CUDA libraries, PyTorch, Python itself and the C library. stack_key(stack, by) is what rows
 * are grouped by (enum query_by): the stack itself, or a text; stack_where(key, by) is that text,
 * or as above.
 */
#ifndef TS_QUERY_PLACE_H
#define TS_QUERY_PLACE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/model/frame.h"

struct place;

/* Registers both functions, which must not be called after it is freed. */
int place_new(sqlite3 *db, struct place **ret);
struct place *place_free(struct place *place);

/* Whether a frame is the user's or may be: what lies further out than the outermost such frame is
 * the start of a program, an interpreter or a thread. */
int place_is_users(struct place *place, const struct frame *frame, bool *ret);

#endif
