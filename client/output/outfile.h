/* outfile.h: a file that appears whole or not at all.
 *
 * What is written has no name until it is complete, or, where the file system cannot do that, a
 * name beside its own; then it replaces what had its name. "-" is standard output; what is no
 * regular file (a pipe, /dev/null) is written to directly.
 */
#ifndef TS_CLIENT_OUTFILE_H
#define TS_CLIENT_OUTFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/output/out.h"

struct outfile;

/* These return a negative errno, and say nothing. */
int outfile_open(const char *path, struct outfile **ret);
int outfile_commit(struct outfile *file);
struct outfile *outfile_free(struct outfile *file); /* what was not committed is gone */

struct out_sink outfile_sink(struct outfile *file);
int outfile_error(const struct outfile *file); /* the first one of writing, or 0 */
uint64_t outfile_size(const struct outfile *file);

CLEANUP_DEFINE(struct outfile, outfile_free)

#endif
