/* op_table.h: the virtual table `op`, all chunks as rows.
 */
#ifndef TS_OP_TABLE_H
#define TS_OP_TABLE_H

#include <sqlite3.h>

int op_table_register(sqlite3 *db);

#endif
