/* beside.h: finds a file that was installed with the running program. */
#ifndef TS_BESIDE_H
#define TS_BESIDE_H

/* A path, to be freed: in the program's own directory (a build, a tarball), in lib/tracesmith next
 * to that directory, or in the LIBDIR of the build, whichever exists; the last if none does. NULL:
 * no memory. */
char *beside_find(const char *name);

#endif
