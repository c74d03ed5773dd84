/* link.h: how entry.c, link.c and handover.c work together. */
#ifndef TS_INJECT_LINK_H
#define TS_INJECT_LINK_H

#include "inject/internal.h"

/* link.c */
/* From the exiting thread: none of our threads calls cupti.c after this. */
void link_at_exit(void);
/* In the child of a fork. */
void link_forked(void);

/* handover.c: the ring from the writers' side. */
/* Maps the ring and admits writers; takes over `wake_fd` on success, never `ring_fd`. */
int handover_open(int ring_fd, int wake_fd, uint32_t slots);
/* Shuts writers out and frees everything when the last one has left. False: one did not leave in
 * time, and the memory stays. */
bool handover_close(void);
/* Hands over what link_lost() has counted. */
void handover_losses(void);
void handover_forked(void);

#endif
