/* writer.h: the one connection that writes, used by the writer's thread alone.
 */
#ifndef TS_WRITER_H
#define TS_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/store/hold.h"
#include "core/store/packer.h"
#include "core/store/queue.h"
#include "core/store/store.h"

struct writer;

int writer_open(const struct store_config *config, struct writer **ret);
struct writer *writer_close(struct writer *writer);

/* Writes a turn in one transaction, all or nothing, and adds to `stats` what is on the disk. If the
 * disk fails, it is held in memory (hold.h), which is no error. */
int writer_write(struct writer *writer, const struct queue_turn *turn, struct packer_stats *stats);
/* The last chance for held data. */
void writer_finish(struct writer *writer, struct packer_stats *stats);
void writer_held(const struct writer *writer, struct hold_stats *ret);

/* Does a bounded piece of pending merging, retention and log work; 1: there is more. */
int writer_upkeep(struct writer *writer, uint64_t now_ns);

int64_t writer_boot(const struct writer *writer); /* row of this boot; never changes */

/* Size of the database with its log. */
uint64_t writer_bytes(struct writer *writer);
/* Whether pages have checksums. */
bool writer_is_summed(const struct writer *writer);

#endif
