/* target.h: the file that a given path means for writing. */
#ifndef TS_CLIENT_TARGET_H
#define TS_CLIENT_TARGET_H

#include <sys/stat.h>

/* The path with a symbolic link at its end resolved, and what is there: its mode is 0 if nothing
 * is. -EPERM: in a directory that everybody may write to, it belongs to another user, who could
 * make us overwrite a file of our own or could read what we write. Other errors are those of
 * lstat(). Prints why. */
int target_find(const char *path, char **ret, struct stat *ret_there);

#endif
