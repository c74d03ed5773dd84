/* held.h: whether probes can be put on a file, or taken off, without harm.
 *
 * For that the kernel takes the memory lock of each process that maps the file, one after another,
 * and lets no process of the host fork until it has got them all. A process can keep its lock for
 * as long as it likes, or as a file system lets it wait. So nobody starts while one does. One that
 * takes the lock in the very moment can still hold up all others.
 */
#ifndef TS_HELD_H
#define TS_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/cleanup.h"

struct broker;
struct held;
struct held_file;

/* NULL: this kernel does not tell, and nobody is found to keep his lock. */
struct held *held_new(struct broker *broker);
struct held *held_free(struct held *held);

/* Duplicates `fd`. -errno. */
int held_file_new(struct held *held, int fd, struct held_file **ret);
struct held_file *held_file_ref(struct held_file *file);
/* NULL. On any thread, the last one also when `held` is freed. */
struct held_file *held_file_unref(struct held_file *file);
CLEANUP_DEFINE(struct held_file, held_file_unref)

/* Looks for some 0.1 s if somebody has his lock, or else for some 0.1 ms: not for the loop. */
bool held_file_is(struct held_file *file);
/* Who that was the last time; 0: not known. */
uint32_t held_file_pid(const struct held_file *file);

/* The kernel starts to put probes on it, or to take them off, and is done with that. On any thread.
 */
void held_file_begin(struct held_file *file);
void held_file_end(struct held_file *file);
/* Since then it has done so without being done with any; 0: it does not. */
uint64_t held_file_since_ns(const struct held_file *file);

#endif
