/* target.h: the file that a given path means for writing. */
#ifndef TS_CLIENT_TARGET_H
#define TS_CLIENT_TARGET_H

/* The path with a symbolic link at its end resolved; it need not exist. -EPERM: in a directory that
 * everybody may write to, something of another user's stands there, which may lead us to write over
 * a file of our own or to hand him what we write. Other errors are those of lstat(). Prints why. */
int target_find(const char *path, char **ret);

#endif
