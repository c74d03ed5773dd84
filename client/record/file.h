/* file.h: the .sbt file being recorded. It is written in place, so that it is readable if tsctl or
 * the host stops; the first byte replaces its old contents. "-" is standard output. */
#ifndef TS_CLIENT_RECORD_FILE_H
#define TS_CLIENT_RECORD_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/model/loss_row.h"
#include "core/sbt/file.h"

struct record_file;

/* These return a negative errno and print the error once. */
int record_file_open(const char *path, struct record_file **ret);
int record_file_add(struct record_file *file, enum sbt_block_type type, const void *data,
		    size_t size);
/* A block of the table `recording`: keys with numbers, or with texts. */
struct record_fact {
	const char *key;
	const char *text; /* NULL: use the number */
	int64_t number;
};
int record_file_facts(struct record_file *file, const struct record_fact *fact, size_t count);
/* A loss by the recorder itself, of the reason LOSS_BEHIND or LOSS_LIMIT. */
int record_file_loss(struct record_file *file, int64_t boot, const struct core_loss *loss);
/* Writes index and end; then everything is on disk. */
int record_file_end(struct record_file *file);
/* A file without its end stays truncated; if nothing was written, there is no new file. */
struct record_file *record_file_free(struct record_file *file);

uint64_t record_file_size(const struct record_file *file);
int record_file_error(const struct record_file *file); /* the first write error, or 0 */

CLEANUP_DEFINE(struct record_file, record_file_free)

#endif
