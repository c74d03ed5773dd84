/* maps_proc: reads processes and their executable mappings from /proc. Keeps nothing. */
#include "daemon/maps/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/proc/opener.h"
#include "daemon/proc/procfs.h"

static void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

/* start-end perm offset major:minor inode path */
static bool parse_line(char *line, struct maps_record *ret)
{
	const char *permissions = strchr(line, ' ');
	unsigned int major, minor;
	int path = 0;

	/* Most lines are not executable, so check that first. */
	if (!permissions || strnlen(permissions, 5) < 5 || permissions[3] != 'x')
		return false;
	*ret = (struct maps_record){ .kind = MAPS_RECORD_MMAP };
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &ret->start, &ret->end, &ret->offset, &major, &minor, &ret->inode, &path) < 6)
		return false;
	line[strcspn(line, "\n")] = '\0';
	ret->device = makedev(major, minor);
	ret->path = line + path;
	return path > 0;
}

int maps_proc_read(FILE *file, uint32_t pid,
		   int (*call)(void *data, const struct maps_record *record), void *data)
{
	_cleanup_(freep) char *line = NULL;
	struct maps_record record;
	size_t size = 0;
	int r;

	while (getline(&line, &size, file) > 0) {
		if (!parse_line(line, &record))
			continue;
		record.pid = pid;
		r = call(data, &record);
		if (r != 0)
			return r;
	}
	return ferror(file) ? -EIO : 0;
}

int maps_proc_mappings(uint32_t pid, int (*call)(void *data, const struct maps_record *record),
		       void *data)
{
	_cleanup_(fclosep) FILE *file = NULL;
	int fd = opener_open(OPENER_MAPS, procfs_living_thread(pid));

	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	return maps_proc_read(file, pid, call, data);
}

int maps_proc_processes(void (*call)(void *data, uint32_t pid), void *data)
{
	_cleanup_(closedirp) DIR *dir = opendir("/proc");
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			call(data, (uint32_t)strtoul(entry->d_name, NULL, 10));
	return 0;
}
