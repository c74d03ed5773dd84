/* split_file.h: lets libdw open what a compiler left in files of their own (-gsplit-dwarf, `.dwo`),
 * in a process that may open nothing: it asks its opener (daemon/proc/opener.h).
 */
#ifndef TS_SPLIT_FILE_H
#define TS_SPLIT_FILE_H

#include <stdint.h>

/* From now on a call of open(2) that a filter answers with SIGSYS (confine_calls_or_trap) opens an
 * absolute path below the root of the process, or else below ours, of an ELF file of up to
 * LIMIT_LINES_FILE bytes. Every other call fails with EPERM. For a process of one thread. */
int split_file_allow(uint32_t pid);

#endif
