/* file.h: an .sbt file as a database for queries (docs/tables.md).
 *
 * Its rows fill tables like those of the store; its chunks stay in the file and are read on demand.
 * Memory is bounded; a large database is kept in a file without a name. Nothing in the file is
 * trusted. Errors are printed once. */
#ifndef TS_CLIENT_FILE_H
#define TS_CLIENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/cleanup.h"

struct file;
struct sqlite3;

/* The recording's own description. */
struct file_facts {
	char boot_id[64];
	uint64_t now_ns;  /* its end, which queries see as the present */
	uint64_t told_ns; /* when its first sums were reported, some by the minute */
	int64_t wall_offset_ns;
};

/* If a file lacks its end, the complete part is used, and a message says so. */
int file_open(const char *path, struct file **ret);
struct file *file_free(struct file *file);

/* -EINVAL: writing `output` would destroy the recording. Either may be NULL. */
int file_spare(const char *path, const char *output);

const struct file_facts *file_facts(const struct file *file);
/* A reader (core/store/reader.h). */
struct sqlite3 *file_reader(const struct file *file);
/* If a file lacks its end, counts its missing sums from its operations when a statement needs them:
 * once, since that may take long. -E2BIG: too many operations overlap. */
int file_count(struct file *file, const char *sql, bool (*cancelled)(void *data), void *data);
/* Turns damage that statements have found into losses, and prints where it is. */
int file_note_losses(struct file *file);

CLEANUP_DEFINE(struct file, file_free)

#endif
