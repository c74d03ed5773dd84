/* Target: what fs.protected_symlinks is for open(), where a file is replaced by rename(). */
#include "client/output/target.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "core/base/cleanup.h"

#define LINKS_MAX 40 /* as the kernel follows */

/* The length of the directory's part, with its slash. */
static int folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash - path + 1) : 0;
}

static bool is_planted(const char *path, const struct stat *there)
{
	char folder[PATH_MAX];
	struct stat around;

	snprintf(folder, sizeof(folder), "%.*s.", folder_length(path), path);
	if (stat(folder, &around) < 0 || !(around.st_mode & S_ISVTX) || !(around.st_mode & S_IWOTH))
		return false;
	return there->st_uid != geteuid() && there->st_uid != around.st_uid;
}

/* Replaces the path of a link by where it leads. 0: that is not a path, as with those of /proc that
 * stand for an open pipe. */
static int follow(char **path)
{
	char to[PATH_MAX], *next;
	ssize_t length = readlink(*path, to, sizeof(to) - 1);
	struct stat end;

	if (length < 0)
		return -errno;
	to[length] = '\0';
	if (asprintf(&next, "%.*s%s", to[0] == '/' ? 0 : folder_length(*path), *path, to) < 0)
		return -ENOMEM;
	if (access(*path, F_OK) == 0 && lstat(next, &end) < 0) {
		free(next);
		return 0;
	}
	free(*path);
	*path = next;
	return 1;
}

static int find(char **path, struct stat *there)
{
	int r = 1;

	for (int i = 0; i < LINKS_MAX && r > 0; i++) {
		if (lstat(*path, there) < 0) {
			*there = (struct stat){ 0 };
			return errno == ENOENT ? 0 : -errno;
		}
		if (is_planted(*path, there))
			return -EPERM;
		if (!S_ISLNK(there->st_mode))
			return 0;
		r = follow(path);
	}
	if (r == 0 && stat(*path, there) < 0)
		return -errno;
	return r > 0 ? -ELOOP : r;
}

int target_find(const char *path, char **ret, struct stat *ret_there)
{
	_cleanup_(freep) char *found = strdup(path);
	struct stat there;
	int r = found ? find(&found, &there) : -ENOMEM;

	if (r == -EPERM) {
		complain("'%s' belongs to another user, in a directory that everybody may write "
			 "to: give another path",
			 found);
		return r;
	}
	if (r < 0) {
		complain("Cannot write '%s': %s", path, strerror(-r));
		return r;
	}
	*ret = TAKE(found);
	*ret_there = there;
	return 0;
}
