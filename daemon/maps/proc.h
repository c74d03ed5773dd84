/* proc.h: reads processes and their executable mappings from /proc. */
#ifndef TS_MAPS_PROC_H
#define TS_MAPS_PROC_H

#include <stdio.h>

#include "daemon/maps/record.h"

/* Calls `call` for each executable mapping of a process, of kind MMAP, until it returns nonzero,
 * which is returned. -ESRCH, -EACCES: could not be read. */
int maps_proc_mappings(uint32_t pid, int (*call)(void *data, const struct maps_record *record),
		       void *data);
/* The same with the lines of such a file. */
int maps_proc_read(FILE *file, uint32_t pid,
		   int (*call)(void *data, const struct maps_record *record), void *data);
/* Calls for each process. */
int maps_proc_processes(void (*call)(void *data, uint32_t pid), void *data);

#endif
