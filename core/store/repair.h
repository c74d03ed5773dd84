/* repair.h: what a database whose pages are damaged has anew before it is used. A page that is lost
 * can be passed by (page_sum.h), but not the first one of a table or an index, where everything in
 * it starts.
 */
#ifndef TS_REPAIR_H
#define TS_REPAIR_H

#include <sqlite3.h>
#include <stdint.h>

/* Makes tables and indexes anew whose first page is damaged: an index from its table, a table
 * without rows. The room of what they had in the file is lost with it. Adds to *pages how many
 * these are. -EBADMSG: nothing is of use without one of them. */
int repair_first_pages(sqlite3 *db, uint64_t *pages);

#endif
