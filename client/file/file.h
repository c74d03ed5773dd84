/* file.h: an .sbt file as a database of which queries can be asked (docs/tables.md).
 *
 * Its rows fill tables like those of the store, its chunks stay where they are and are read when
 * they are asked for. What memory that takes is bounded; a large database lies in a file without a
 * name. Nothing that is in the file is believed. What goes wrong is said on stderr, once.
 */
#ifndef TS_CLIENT_FILE_H
#define TS_CLIENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/cleanup.h"

struct file;
struct sqlite3;

/* What the recording says of itself. */
struct file_facts {
	char boot_id[64];
	uint64_t now_ns;  /* its end: the present, for who asks it */
	uint64_t told_ns; /* when its first sums were told, some by the minute */
	int64_t wall_offset_ns;
};

/* Of a file without its end, what is whole is used, and stderr says so. */
int file_open(const char *path, struct file **ret);
struct file *file_free(struct file *file);

/* -EINVAL: writing `output` would destroy the recording; either may be NULL. */
int file_spare(const char *path, const char *output);

const struct file_facts *file_facts(const struct file *file);
/* A reader (core/store/reader.h). */
struct sqlite3 *file_reader(const struct file *file);
/* Of a file without its end, counts the sums that it lacks from its operations, where a statement
 * asks for them: once, since that may take long. -E2BIG: too many operations overlap. */
int file_count(struct file *file, const char *sql, bool (*cancelled)(void *data), void *data);
/* Makes losses of what statements have found to be damaged, and says where it is. */
int file_note_losses(struct file *file);

CLEANUP_DEFINE(struct file, file_free)

#endif
