/* Descriptor: each that is kept is known by its file. Of an eventfd only the kind is known. */
#include "inject/descriptor.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST 512
#define MOST  8

static struct {
	int fd; /* 0: free */
	dev_t device;
	ino_t inode;
} kept[MOST];

static void note(int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return;
	for (size_t i = 0; i < MOST; i++) {
		int is = __atomic_load_n(&kept[i].fd, __ATOMIC_ACQUIRE);

		if (is && is != fd)
			continue;
		kept[i].device = status.st_dev;
		kept[i].inode = status.st_ino;
		__atomic_store_n(&kept[i].fd, fd, __ATOMIC_RELEASE);
		return;
	}
}

int descriptor_keep(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);

	if (high >= 0)
		close(fd);
	note(high < 0 ? fd : high);
	return high < 0 ? fd : high;
}

bool descriptor_is_ours(int fd)
{
	struct stat status;

	for (size_t i = 0; i < MOST; i++)
		if (__atomic_load_n(&kept[i].fd, __ATOMIC_ACQUIRE) == fd)
			return fstat(fd, &status) == 0 && status.st_dev == kept[i].device &&
			       status.st_ino == kept[i].inode;
	return false;
}

void descriptor_close(int fd)
{
	if (descriptor_is_ours(fd))
		close(fd);
	for (size_t i = 0; i < MOST; i++)
		if (kept[i].fd == fd)
			__atomic_store_n(&kept[i].fd, 0, __ATOMIC_RELEASE);
}
