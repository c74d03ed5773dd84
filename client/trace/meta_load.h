/* meta_load.h: asks the daemon for the metadata of a trace. */
#ifndef TS_CLIENT_EXPORT_LOAD_H
#define TS_CLIENT_EXPORT_LOAD_H

#include "client/link/link.h"
#include "client/trace/meta.h"

/* Of the process `pid`, or of all if it is 0, with the losses between both times. Errors are
 * printed. */
int meta_load(struct link *link, uint32_t pid, uint64_t since_ns, uint64_t until_ns,
	      struct meta **ret);

/* Adds what is live now, or at the end of the recording, and what allocators say of themselves. */
int meta_load_held(struct link *link, uint32_t pid, struct meta *meta);

#endif
