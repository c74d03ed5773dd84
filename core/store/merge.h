/* merge.h: joins the small chunks that slow streams make.
 */
#ifndef TS_MERGE_H
#define TS_MERGE_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/store/packer.h"

struct merge;

/* Codec and packer are lent, and used in merge_turn only. */
int merge_new(sqlite3 *db, int64_t boot, struct sbt_codec *codec, struct packer *packer,
	      struct merge **ret);
struct merge *merge_free(struct merge *merge);

/* Joins one set of chunks in a transaction of its own; `batch` is the number of the last commit. 1:
 * there may be more to do, 0: not now. */
int merge_turn(struct merge *merge, uint64_t now_ns, int64_t batch);

#endif
