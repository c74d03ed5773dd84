/* lines.h: the source lines of frames that have their names. Nobody waits for lines: a stack is
 * stored with those that are known, and once more if others were found. Belongs to the loop.
 */
#ifndef TS_LINES_H
#define TS_LINES_H

#include <stdint.h>

#include "daemon/helper/helper.h"
#include "daemon/symbol/symbol.h"

struct lines;

/* `done` gets a job in which another line was found; the job and its places are lent. The helpers
 * do it as tasks of this kind, which runs lines_look(). */
int lines_new(struct helpers *helpers, uint32_t kind,
	      void (*done)(void *data, const struct symbol_job *job), void *data,
	      struct lines **ret);
/* Forgets what waits. */
struct lines *lines_free(struct lines *lines);
/* Sets the places that are known, until the next call of lines_add(); false: not of all frames. */
bool lines_fill(struct lines *lines, struct symbol_job *job);
/* Takes the job over. -EBUSY: too many are waiting, -ENOMEM; it is freed. */
int lines_add(struct lines *lines, struct symbol_job *job);
/* Looks again at the files whose look-ups did not end, when it is time. Now and then. */
void lines_tick(struct lines *lines, uint64_t now_ns);
/* How many jobs found no place to wait in. */
uint64_t lines_dropped(const struct lines *lines);
/* Some job is not done yet, and waits for no better time. */
bool lines_busy(const struct lines *lines);

#endif
