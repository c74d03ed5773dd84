/* Opener_act: what an opener does. What it is asked for says nothing in its own words but a path,
 * which leads nowhere but to a program or a library. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/library/library.h"
#include "daemon/proc/opener.h"
#include "daemon/proc/userns.h"

#define PATH_SIZE 96
#define LINES_MAX 65536 /* as many mappings as a process may have */

/* Files of /proc/PID. */
static const struct {
	const char *name;
	int flags;
} files[OPENER_KINDS] = {
	[OPENER_MAPS] = { "maps", O_RDONLY },	   [OPENER_PROGRAM] = { "exe", O_PATH },
	[OPENER_MEMORY] = { "mem", O_RDONLY },	   [OPENER_STAT] = { "stat", O_RDONLY },
	[OPENER_CALL] = { "syscall", O_RDONLY },   [OPENER_WAITS] = { "wchan", O_RDONLY },
	[OPENER_THREADS] = { "ns/pid", O_RDONLY }, [OPENER_VARIABLES] = { "environ", O_RDONLY },
};

static int open_of(uint32_t pid, const char *name, int flags)
{
	char path[PATH_SIZE];
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/%s", pid, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool is_regular(int fd, struct stat *st)
{
	return fstat(fd, st) == 0 && S_ISREG(st->st_mode);
}

/* A file that is a program or a library by its first bytes, for reading: nothing else has symbols,
 * and a password is in none of them. */
static int read_program(int path_fd, bool trusted)
{
	_cleanup_(closep) int fd = -1;
	char path[PATH_SIZE], magic[SELFMAG];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (!trusted && (pread(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
			 memcmp(magic, ELFMAG, SELFMAG) != 0))
		return -EACCES;
	return TAKE_FD(fd);
}

/* To look at a file is to be able to read it, if only its folders keep others from it. FUSE is left
 * out, which may not even say what it is: to read from it could take for ever, and who may is the
 * kernel's to check. */
static int check_looked_at(int path_fd, bool trusted)
{
	_cleanup_(closep) int fd = -1;
	struct statfs fs;
	struct stat st;

	if (!is_regular(path_fd, &st))
		return -EACCES;
	if (trusted || fstatfs(path_fd, &fs) < 0 || fs.f_type == FUSE_SUPER_MAGIC)
		return 0;
	fd = read_program(path_fd, trusted);
	return fd < 0 ? fd : 0;
}

/* O_PATH opens nothing: the file may be a device, or anything else a process could map. */
static int open_mapped(const struct opener_request *request, bool trusted)
{
	_cleanup_(closep) int fd = -1;
	char name[PATH_SIZE / 2];
	int r;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, request->start,
		 request->end);
	fd = open_of(request->pid, name, O_PATH);
	if (fd < 0)
		return fd;
	r = check_looked_at(fd, trusted);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Links in the path are the process's own, so they must not lead out of its root. */
static int open_path(const struct opener_request *request, bool trusted)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				      .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	_cleanup_(closep) int root = -1, fd = -1;
	int r;

	root = request->pid ? open_of(request->pid, "root", O_PATH | O_DIRECTORY)
			    : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return request->pid ? root : -errno;
	fd = (int)syscall(SYS_openat2, root, request->path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	r = check_looked_at(fd, trusted);
	return r < 0 ? r : TAKE_FD(fd);
}

static int open_file(const struct opener_request *request, bool trusted)
{
	struct stat st;

	return is_regular(request->file, &st) ? read_program(request->file, trusted) : -EACCES;
}

/* Of root, or of somebody whose secrets his own programs may not read: an agent with keys, a
 * program that was started with privileges. */
static bool is_guarded(uint32_t pid)
{
	_cleanup_(closep) int fd = open_of(pid, "status", O_RDONLY);
	char path[PATH_SIZE], text[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *line;
	unsigned int uid[4];
	struct stat st;

	if (n < 0)
		return true;
	text[n] = '\0';
	line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]) != 4 ||
	    !uid[0] || !uid[1] || !uid[2] || !uid[3])
		return true;
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/environ", pid);
	return stat(path, &st) < 0 || st.st_uid != uid[0];
}

static bool is_ours_to_read(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return library_of(path) || strncmp(name, "python", strlen("python")) == 0 ||
	       strncmp(name, "libpython", strlen("libpython")) == 0;
}

/* A process can have such a name among its mappings only if it has mapped it. */
static bool uses_gpu_or_python(uint32_t pid)
{
	_cleanup_(freep) char *line = NULL;
	int fd = open_of(pid, "maps", O_RDONLY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	bool found = false;
	size_t size = 0;

	if (!file) {
		closep(&fd);
		return false;
	}
	for (int i = 0; !found && i < LINES_MAX && getline(&line, &size, file) > 0; i++) {
		char *path = strchr(line, '/');

		if (!path)
			continue;
		path[strcspn(path, "\n")] = '\0';
		found = is_ours_to_read(path);
	}
	fclose(file);
	return found;
}

static int open_memory(const struct opener_request *request, bool trusted)
{
	if (!trusted && is_guarded(request->pid) && !uses_gpu_or_python(request->pid))
		return -EACCES;
	return open_of(request->pid, files[OPENER_MEMORY].name, files[OPENER_MEMORY].flags);
}

int opener_act(const struct opener_request *request, bool trusted, uint32_t *ret_number)
{
	if (request->kind >= OPENER_KINDS)
		return -EINVAL;
	switch (request->kind) {
	case OPENER_MAPPED:
		return open_mapped(request, trusted);
	case OPENER_PATH:
		return open_path(request, trusted);
	case OPENER_FILE:
		return open_file(request, trusted);
	case OPENER_MEMORY:
		return open_memory(request, trusted);
	case OPENER_OWNER:
		*ret_number = userns_owner(request->pid, (uint32_t)request->start);
		return 0;
	default:
		return open_of(request->pid, files[request->kind].name, files[request->kind].flags);
	}
}
