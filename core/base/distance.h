/* distance.h: the distance between two names, for "did you mean". */
#ifndef TS_DISTANCE_H
#define TS_DISTANCE_H

#include <stdbool.h>

/* Insertions, deletions and replacements from one to the other, at most 32 (also for names of 32
 * bytes and more). */
unsigned int distance_between(const char *a, const char *b);

/* Close enough to have been meant. */
bool distance_near(const char *typed, const char *name);

#endif
