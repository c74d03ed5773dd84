/* Outfile: the new file is nameless, under its temporary name, or done. */
#include "client/output/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/output/target.h"

#define MODE 0600 /* command lines, stacks and names of others are in it */

struct outfile {
	int fd;
	int error;
	uint64_t size;
	bool direct; /* nothing to rename */
	bool named;  /* `temporary` exists */
	char *path;  /* of the target, symbolic links resolved */
	char *temporary;
};

int outfile_spare(const char *path, const char *recording)
{
	struct stat from, to;

	if (!path || !recording || stat(recording, &from) < 0 || stat(path, &to) < 0 ||
	    from.st_dev != to.st_dev || from.st_ino != to.st_ino)
		return 0;
	complain("'%s' is the recording itself: give --output another file", path);
	return -EINVAL;
}

static int open_direct(struct outfile *file, int fd)
{
	file->direct = true;
	file->fd = fd;
	return fd < 0 ? -errno : 0;
}

static int open_named(struct outfile *file)
{
	file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
	if (file->fd < 0)
		return -errno;
	file->named = true;
	return 0;
}

/* The directory of a path, with its slash; "." for a plain name. */
static const char *folder_of(const char *path, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return ".";
	snprintf(folder, PATH_MAX, "%.*s", (int)(slash - path + 1), path);
	return folder;
}

static int open_beside(struct outfile *file)
{
	char folder[PATH_MAX];

	if (asprintf(&file->temporary, "%s.%d.part", file->path, getpid()) < 0) {
		file->temporary = NULL;
		return -ENOMEM;
	}
	file->fd = open(folder_of(file->path, folder), O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE);
	if (file->fd >= 0)
		return 0;
	/* Without O_TMPFILE, kernels and file systems fail in various ways. */
	return errno == EACCES || errno == ENOENT || errno == ENOSPC ? -errno : open_named(file);
}

/* Whoever could read the old file, and nobody else, can read the new one. */
static int keep_access(int fd, const struct stat *old)
{
	mode_t mode = old->st_mode & 0777;

	if (fchown(fd, geteuid() ? (uid_t)-1 : old->st_uid, old->st_gid) < 0)
		mode &= 0700;
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

/* `old`: what was found there. It is not asked for again: another user may put a file of his there
 * meanwhile, and the new one would be given to him. */
static int open_path(struct outfile *file, const struct stat *old)
{
	bool exists = old->st_mode;
	int r;

	if (exists && !S_ISREG(old->st_mode))
		return open_direct(file, open(file->path, O_WRONLY | O_CLOEXEC));
	r = open_beside(file);
	return r == 0 && exists ? keep_access(file->fd, old) : r;
}

int outfile_open(const char *path, struct outfile **ret)
{
	_cleanup_(outfile_freep) struct outfile *file = calloc(1, sizeof(*file));
	struct stat old;
	int r;

	if (!file)
		return complain_memory(), -ENOMEM;
	file->fd = -1;
	if (strcmp(path, "-") == 0) {
		r = open_direct(file, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
	} else {
		r = target_find(path, &file->path, &old);
		if (r < 0)
			return r;
		r = open_path(file, &old);
	}
	if (r < 0) {
		complain("Cannot write '%s': %s", path, strerror(-r));
		return r;
	}
	*ret = TAKE(file);
	return 0;
}

struct outfile *outfile_free(struct outfile *file)
{
	if (!file)
		return NULL;
	closep(&file->fd);
	if (file->named)
		unlink(file->temporary);
	free(file->temporary);
	free(file->path);
	free(file);
	return NULL;
}

static int give_name(struct outfile *file)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file->fd);
	unlink(file->temporary);
	if (linkat(AT_FDCWD, link, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	file->named = true;
	return 0;
}

int outfile_commit(struct outfile *file)
{
	int fd, r;

	if (file->error < 0)
		return file->error;
	if (!file->direct && !file->named) {
		r = give_name(file);
		if (r < 0)
			return r;
	}
	/* Some file systems report only now that there is no space. */
	fd = TAKE_FD(file->fd);
	if (close(fd) < 0 && errno != EINTR)
		return -errno;
	if (file->direct)
		return 0;
	if (rename(file->temporary, file->path) < 0)
		return -errno;
	file->named = false;
	return 0;
}

static int write_all(void *data, const void *bytes, size_t size)
{
	struct outfile *file = data;
	ssize_t n;

	for (size_t done = 0; done < size; done += n) {
		n = write(file->fd, (const char *)bytes + done, size - done);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return file->error = -errno;
	}
	file->size += size;
	return 0;
}

struct out_sink outfile_sink(struct outfile *file)
{
	return (struct out_sink){ write_all, file };
}

int outfile_error(const struct outfile *file)
{
	return file->error;
}

uint64_t outfile_size(const struct outfile *file)
{
	return file->size;
}

int outfile_save(const char *path, const void *bytes, size_t size)
{
	_cleanup_(outfile_freep) struct outfile *file = NULL;
	int r = outfile_open(path, &file);

	if (r < 0)
		return r;
	r = write_all(file, bytes, size);
	if (r == 0)
		r = outfile_commit(file);
	if (r < 0)
		complain("Cannot write '%s': %s", path, strerror(-r));
	return r;
}
