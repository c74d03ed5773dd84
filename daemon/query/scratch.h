/* scratch.h: where SQLite puts what does not fit into memory while it sorts or groups. All
 * temporary files of the process are parts of one nameless file, so one bound holds for all of them
 * together, and nothing is left behind however the process ends.
 */
#ifndef TS_SCRATCH_H
#define TS_SCRATCH_H

#include <stdint.h>

/* Opens the file in a directory and makes it SQLite's place for temporary files, for as long as
 * the process runs. SQLITE_FULL where all of them would be more than `bytes`, or where the file
 * itself finds no room. */
int scratch_open(const char *directory, uint64_t bytes);

#endif
