/* chunk_data.h: the bytes of a chunk, for statements that read chunks.
 *
 * A chunk that is damaged, in its bytes or on its way from the disk, is NULL instead of an error of
 * the statement, and its ops are counted by `damaged_ops()`, once for a connection.
 */
#ifndef TS_CHUNK_DATA_H
#define TS_CHUNK_DATA_H

#include <sqlite3.h>

/* The function in a statement; its id is a column or parameter. */
#define CHUNK_DATA(id) "chunk_data('', " id ")"

/* Also for a recording, whose own chunks are NULL where they are damaged, and told by it. */
int chunk_data_register(sqlite3 *db);

#endif
