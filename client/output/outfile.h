/* outfile.h: a file that appears as a whole or not at all.
 *
 * The data has no name until it is complete or, if the file system cannot do that, a temporary
 * name; then it replaces the target, whose mode it takes; a new one is its user's alone. "-" is
 * standard output; a target that is not a regular file (a pipe, /dev/null) is written directly. */
#ifndef TS_CLIENT_OUTFILE_H
#define TS_CLIENT_OUTFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/output/out.h"

struct outfile;

/* Writing `path` would destroy this recording: -EINVAL, and it is printed. Either may be NULL. */
int outfile_spare(const char *path, const char *recording);

/* A negative errno: it is printed. */
int outfile_open(const char *path, struct outfile **ret);
/* These return a negative errno and print nothing. */
int outfile_commit(struct outfile *file);
struct outfile *outfile_free(struct outfile *file); /* drops what was not committed */

/* All of a file at once. A negative errno: it is printed. */
int outfile_save(const char *path, const void *bytes, size_t size);

struct out_sink outfile_sink(struct outfile *file);
int outfile_error(const struct outfile *file); /* the first write error, or 0 */
uint64_t outfile_size(const struct outfile *file);

CLEANUP_DEFINE(struct outfile, outfile_free)

#endif
