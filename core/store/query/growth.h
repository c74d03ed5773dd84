/* growth.h: a verdict on what a stack allocates, as a sentence. */
#ifndef TS_QUERY_GROWTH_H
#define TS_QUERY_GROWTH_H

#include <sqlite3.h>

/* growth_why(verdict, watched_ns, needs_ns, kept, kept_bytes, usual_ns, grows for ns, quiet for ns,
 * allocations, frees) in SQL. NULL: no verdict. */
void growth_why(sqlite3_context *context, int count, sqlite3_value **value);

#endif
