/* link.h: what entry.c, link.c and handover.c are to each other. */
#ifndef TS_INJECT_LINK_H
#define TS_INJECT_LINK_H

#include "inject/internal.h"

/* link.c */
/* Waits, at most so long, until the first try to collect has come to something. */
void link_settle(unsigned int ms);
/* From the thread that exits: nobody of ours calls cupti.c after this. */
void link_at_exit(void);
/* In the child of a fork. */
void link_forked(void);

/* handover.c: the ring as those see it who write. */
/* Maps the ring and lets writers at it; takes `wake_fd` over on success, never `ring_fd`. */
int handover_open(int ring_fd, int wake_fd, uint32_t slots);
/* Keeps writers away and gives all back when the last one is out. False: one did not come out in
 * time, and the memory stays. */
bool handover_close(void);
/* Hands over what link_lost() has counted. */
void handover_losses(void);
void handover_forked(void);

/* Moves a descriptor to where the program will not miss it; closes the old one. */
int descriptor_high(int fd);

#endif
