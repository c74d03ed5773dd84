/* beside.h: finds a file that was installed with the program that runs. */
#ifndef TS_BESIDE_H
#define TS_BESIDE_H

/* A path, to be freed: in the program's own directory (a build, a tarball), in lib/tracesmith
 * beside that directory, or where LIBDIR was when this was built, whichever exists; the last where
 * none does. NULL: no memory. */
char *beside_find(const char *name);

#endif
