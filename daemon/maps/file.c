/* maps_file: the files behind mappings, each once, with a bounded number of them open. Only the
 * table opens or closes a file, and never while anything but a mapping has a reference: the
 * symbolizer reads in a thread of its own.
 */
#include "daemon/maps/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"

/* What identifies a file. On overlayfs the device is 0 and the other fields, which come from the
 * underlying file, decide. */
struct identity {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
};

struct maps_entry {
	struct maps_file file;	  /* first */
	struct maps_files *table; /* NULL: the table is gone */
	struct identity identity;
	uint32_t mappings; /* references held by mappings */
	struct list bucket, open;
};

static struct maps_entry *entry_of(struct maps_file *file)
{
	return (struct maps_entry *)file;
}

static bool entry_is_lent(const struct maps_entry *entry)
{
	return entry->file.references > entry->mappings;
}

struct maps_files *maps_files_new(uint32_t open_max)
{
	struct maps_files *files = calloc(1, sizeof(*files));

	if (!files)
		return NULL;
	list_init(&files->open);
	for (unsigned int i = 0; i < MAPS_FILE_BUCKETS; i++)
		list_init(&files->bucket[i]);
	files->open_max = open_max;
	return files;
}

struct maps_files *maps_files_free(struct maps_files *files)
{
	struct maps_entry *entry;
	unsigned int i;

	if (!files)
		return NULL;
	for (i = 0; i < MAPS_FILE_BUCKETS; i++) {
		list_for_each(entry, &files->bucket[i], bucket)
			entry->table = NULL;
	}
	free(files);
	return NULL;
}

static void identity_of(int fd, const struct stat *st, struct identity *ret)
{
	struct statfs fs;

	/* File systems without a device of their own have major number 0. */
	if (major(st->st_dev) == 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC)
		*ret = (struct identity){ 0, st->st_ino, st->st_size, st->st_mtim };
	else
		*ret = (struct identity){ .device = st->st_dev, .inode = st->st_ino };
}

static bool identity_equals(const struct identity *a, const struct identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->modified.tv_sec == b->modified.tv_sec &&
	       a->modified.tv_nsec == b->modified.tv_nsec;
}

/* O_PATH opens nothing: the file may be a device, or anything else a process could map. */
static int path_open_mapped(const struct maps_record *record)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
		 record->pid, record->start, record->end);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Links in the path are the process's own, so they must not lead out of its root. */
static int path_open_in_root(uint32_t pid, const struct maps_record *record)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	_cleanup_(closep) int root = -1;
	char name[32] = "/";
	int fd;

	if (pid)
		snprintf(name, sizeof(name), "/proc/%" PRIu32 "/root", pid);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, record->path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static bool is_mapped_file(int fd, const struct maps_record *record, struct stat *st)
{
	if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode) || st->st_ino != record->inode)
		return false;
	return st->st_dev == record->device || major(st->st_dev) == 0;
}

static int path_open(const struct maps_record *record, uint32_t ppid, struct stat *st)
{
	const uint32_t roots[] = { record->pid, ppid, 0 };
	size_t i;
	int fd;

	fd = path_open_mapped(record);
	if (is_mapped_file(fd, record, st))
		return fd;
	closep(&fd);
	for (i = 0; i < ARRAY_SIZE(roots); i++) {
		fd = path_open_in_root(roots[i], record);
		if (is_mapped_file(fd, record, st))
			return fd;
		closep(&fd);
	}
	return -ENOENT;
}

int maps_record_open(const struct maps_record *record)
{
	_cleanup_(closep) int fd = -1;
	char path[64];
	struct stat st;
	int r;

	fd = path_open(record, 0, &st);
	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return r < 0 ? -errno : r;
}

static void entry_close(struct maps_entry *entry)
{
	if (entry->file.fd < 0)
		return;
	close(entry->file.fd);
	entry->file.fd = -1;
	if (!entry->table)
		return;
	list_remove(&entry->open);
	entry->table->open_count--;
}

static bool files_make_room(struct maps_files *files)
{
	struct maps_entry *entry;

	if (files->open_count < files->open_max)
		return true;
	list_for_each(entry, &files->open, open)
		if (!entry->file.library && !entry_is_lent(entry)) {
			entry_close(entry);
			return true;
		}
	return false;
}

static void entry_open(struct maps_files *files, struct maps_entry *entry, int path_fd)
{
	char path[64];

	if (!files_make_room(files)) {
		files->limited++;
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	entry->file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (entry->file.fd < 0)
		return;
	list_append(&files->open, &entry->open);
	files->open_count++;
}

static struct maps_entry *files_find(struct maps_files *files, const struct identity *identity)
{
	struct maps_entry *entry;

	list_for_each(entry, &files->bucket[identity->inode % MAPS_FILE_BUCKETS], bucket)
		if (identity_equals(&entry->identity, identity))
			return entry;
	return NULL;
}

static int files_add(struct maps_files *files, const struct identity *identity,
		     const struct stat *st, const char *path, struct maps_entry **ret)
{
	static const char deleted[] = " (deleted)";
	size_t length = strlen(path), tail = sizeof(deleted) - 1;
	_cleanup_(freep) struct maps_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	if (st->st_nlink == 0 && length > tail && strcmp(path + length - tail, deleted) == 0)
		length -= tail;
	entry->file = (struct maps_file){
		.device = st->st_dev,
		.inode = st->st_ino,
		.fd = -1,
		.path = strndup(path, length),
	};
	if (!entry->file.path)
		return -ENOMEM;
	entry->table = files;
	entry->identity = *identity;
	list_prepend(&files->bucket[identity->inode % MAPS_FILE_BUCKETS], &entry->bucket);
	*ret = TAKE(entry);
	return 0;
}

int maps_files_open(struct maps_files *files, const struct maps_record *record, uint32_t ppid,
		    struct maps_file **ret)
{
	_cleanup_(closep) int fd = -1;
	struct maps_entry *entry;
	struct identity identity;
	struct stat st;
	int r;

	fd = path_open(record, ppid, &st);
	if (fd < 0)
		return fd;
	identity_of(fd, &st, &identity);
	entry = files_find(files, &identity);
	if (!entry) {
		r = files_add(files, &identity, &st, record->path, &entry);
		if (r < 0)
			return r;
	}
	if (entry->file.fd < 0 && !entry_is_lent(entry))
		entry_open(files, entry, fd);
	*ret = maps_files_share(&entry->file);
	return 0;
}

struct maps_file *maps_files_share(struct maps_file *file)
{
	entry_of(file)->mappings++;
	return maps_file_ref(file);
}

struct maps_file *maps_files_put(struct maps_file *file)
{
	if (file)
		entry_of(file)->mappings--;
	return maps_file_unref(file);
}

void maps_files_use(struct maps_files *files, struct maps_file *file,
		    const struct maps_record *record)
{
	struct maps_entry *entry = entry_of(file);
	_cleanup_(closep) int fd = -1;
	struct stat st;

	if (file->fd >= 0) {
		list_remove(&entry->open);
		list_append(&files->open, &entry->open);
		return;
	}
	if (entry_is_lent(entry))
		return;
	fd = path_open(record, 0, &st);
	if (fd >= 0 && st.st_dev == file->device)
		entry_open(files, entry, fd);
}

struct maps_file *maps_file_ref(struct maps_file *file)
{
	if (file)
		file->references++;
	return file;
}

struct maps_file *maps_file_unref(struct maps_file *file)
{
	struct maps_entry *entry = entry_of(file);

	if (!file || --file->references > 0)
		return NULL;
	entry_close(entry);
	if (entry->table)
		list_remove(&entry->bucket);
	free(file->path);
	free(entry);
	return NULL;
}
