/* file.h: an .sbt file as a database for queries (docs/tables.md).
 *
 * Its rows fill tables like those of the store; its chunks stay in the file and are read on demand.
 * Memory is bounded; a large database is kept in a file without a name. Nothing in the file is
 * trusted. Remarks go to the caller, each once (remark.h). */
#ifndef TS_FILE_H
#define TS_FILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/store/file/facts.h"
#include "core/store/file/remark.h"

struct file;

struct file_config {
	uint32_t plan_ops;	/* maximum of a critical path (reader.h) */
	file_remark_fn *remark; /* called from the functions below, as long as the file is open */
	void *data;
};

/* An error was remarked. If a file lacks its end, the complete part is used. */
int file_open(const char *path, const struct file_config *config, struct file **ret);
struct file *file_free(struct file *file);

const struct file_facts *file_facts(const struct file *file);
/* A reader (core/store/reader.h). */
sqlite3 *file_reader(const struct file *file);
/* If a file lacks its end, counts its missing sums from its operations when a statement needs them:
 * once, since that may take long. -E2BIG: too many operations overlap. */
int file_count(struct file *file, const char *sql, bool (*cancelled)(void *data), void *data);
/* Gives back memory that is of use only to the next statement, which reads from the database's file
 * instead. */
void file_rest(struct file *file);
/* Turns damage that statements have found into losses, and remarks where it is. */
int file_note_losses(struct file *file);

CLEANUP_DEFINE(struct file, file_free)

#endif
