/* debug_file.h: where the debug information of a file is: in itself, or in one of its own. */
#ifndef TS_DEBUG_FILE_H
#define TS_DEBUG_FILE_H

#include <limits.h>
#include <stdint.h>

#define DEBUG_FILE_PATH_MAX (PATH_MAX + 512) /* a directory and a link */

/* The file of its build id, or that of its .gnu_debuglink, in the root directory of the process and
 * then in ours. `path` is the file's, as the process sees it. It has the build id. -ENOENT: none */
int debug_file_open(int fd, uint32_t pid, const char *path, char ret_path[DEBUG_FILE_PATH_MAX]);

/* What dwz moved out of several files with debug information, of which this is one, likewise. */
int debug_file_open_common(int fd, uint32_t pid, const char *path);

#endif
