/* debug_file.h: where the debug information of a file is: in itself, or in one of its own. */
#ifndef TS_DEBUG_FILE_H
#define TS_DEBUG_FILE_H

#include <stdint.h>

/* The file of its build id, or that of its .gnu_debuglink, in the root directory of the process and
 * then in ours. `path` is the file's, as the process sees it. It has the build id. -ENOENT: none */
int debug_file_open(int fd, uint32_t pid, const char *path);

#endif
