/* Userns: asks the kernel for a process's user namespace, and goes up to the one below ours. No
 * step waits for the process. */
#include "daemon/proc/userns.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"

#define LEVELS 33 /* the kernel's limit */

static bool is_ours(int fd, const struct stat *ours)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == ours->st_ino && st.st_dev == ours->st_dev;
}

static uint32_t namespace_owner(int fd, uint32_t uid)
{
	uid_t owner = 0;

	return ioctl(fd, NS_GET_OWNER_UID, &owner) == 0 && owner ? owner : uid;
}

uint32_t userns_owner(uint32_t pid, uint32_t uid)
{
	_cleanup_(closep) int fd = -1;
	struct stat ours;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || stat("/proc/self/ns/user", &ours) < 0 || is_ours(fd, &ours))
		return uid;
	for (int level = 0; level < LEVELS; level++) {
		int parent = ioctl(fd, NS_GET_PARENT);

		if (parent < 0)
			return uid;
		if (is_ours(parent, &ours)) {
			close(parent);
			return namespace_owner(fd, uid);
		}
		close(fd);
		fd = parent;
	}
	return uid;
}
