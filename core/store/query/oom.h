/* oom.h: what would have sufficed, as SQL says it. */
#ifndef TS_QUERY_OOM_H
#define TS_QUERY_OOM_H

#include <sqlite3.h>

/* oom_why(bytes, wanted_bytes, free_bytes or NULL, held_bytes, own_bytes, live_bytes,
 * reserved_bytes, pieces, pieces_bytes, piece_bytes): a sentence (core/leak/shortage.h). */
void oom_why(sqlite3_context *context, int count, sqlite3_value **value);

#endif
