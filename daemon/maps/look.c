/* maps_look: opens what a process maps. Runs in a helper, or where nobody minds to wait. */
#include "daemon/maps/look.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/library/library.h"
#include "daemon/maps/proc.h"
#include "daemon/proc/opener.h"
#include "daemon/proc/procfs.h"

#define SENT  64 /* files remembered as sent */
#define ALIGN 8

struct look {
	const struct maps_look *request;
	maps_look_say *say;
	void *data;
	uint32_t mappings, limited, libraries;
	struct maps_identity sent[SENT];
	uint32_t sent_count;
	size_t size;
	int fd[MAPS_LOOK_FILES];
	uint32_t fds;
	_Alignas(ALIGN) char message[MAPS_LOOK_MESSAGE];
};

int maps_looked_put(char *message, size_t *size, size_t max, const struct maps_record *record)
{
	size_t length = strnlen(record->path ?: "", MAPS_LOOK_PATH - 1);
	size_t whole = (sizeof(struct maps_looked) + length + ALIGN) / ALIGN * ALIGN;
	struct maps_looked *looked = (struct maps_looked *)(message + *size);

	if (whole > max - *size)
		return -ENOSPC;
	memset(looked, 0, whole);
	looked->size = (uint32_t)whole;
	looked->pid = record->pid;
	looked->start = record->start;
	looked->end = record->end;
	looked->offset = record->offset;
	looked->device = record->device;
	looked->inode = record->inode;
	looked->fd = -1;
	memcpy(looked->path, record->path ?: "", length);
	*size += whole;
	return 0;
}

struct maps_looked *maps_looked_next(char *message, size_t size, size_t *at)
{
	struct maps_looked *looked;

	if (size - *at < sizeof(*looked))
		return NULL;
	looked = (struct maps_looked *)(message + *at);
	if (looked->size <= sizeof(*looked) || looked->size % ALIGN || looked->size > size - *at ||
	    message[*at + looked->size - 1] != '\0')
		return NULL;
	*at += looked->size;
	return looked;
}

static int path_open_mapped(uint32_t tid, const struct maps_record *record)
{
	const struct opener_request request = {
		.kind = OPENER_MAPPED, .pid = tid, .start = record->start, .end = record->end
	};

	return opener_ask(&request, NULL);
}

static int path_open_in_root(uint32_t pid, const struct maps_record *record)
{
	const struct opener_request request = { .kind = OPENER_PATH,
						.pid = pid,
						.path = record->path };

	return opener_ask(&request, NULL);
}

static bool is_mapped_file(int fd, const struct maps_record *record, struct stat *st)
{
	if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode) || st->st_ino != record->inode)
		return false;
	return st->st_dev == record->device || major(st->st_dev) == 0;
}

static int path_open(const struct maps_record *record, uint32_t ppid, struct stat *st)
{
	const uint32_t roots[] = { procfs_living_thread(record->pid), ppid, 0 };
	size_t i;
	int fd;

	fd = path_open_mapped(roots[0], record);
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

static int path_read(int path_fd)
{
	const struct opener_request request = { .kind = OPENER_FILE, .file = path_fd };

	return opener_ask(&request, NULL);
}

int maps_record_open(const struct maps_record *record)
{
	_cleanup_(closep) int fd = -1;
	struct stat st;

	fd = path_open(record, 0, &st);
	return fd < 0 ? fd : path_read(fd);
}

/* Major and minor number, type and options of a file system, as a line of mountinfo has them. */
static bool mount_is_trusted(const char *line, dev_t device)
{
	unsigned int at_major, at_minor;
	const char *type = strstr(line, " - ");

	if (sscanf(line, "%*d %*d %u:%u", &at_major, &at_minor) != 2 || !type ||
	    makedev(at_major, at_minor) != device)
		return false;
	type += strlen(" - ");
	return strncmp(type, "virtiofs ", strlen("virtiofs ")) == 0 || strstr(type, ",user_id=0,");
}

bool maps_file_answers(int fd, const struct stat *st)
{
	_cleanup_(freep) char *line = NULL;
	struct statfs fs;
	bool trusted = false;
	size_t room = 0;
	FILE *mounts;

	if (major(st->st_dev) != 0)
		return true;
	if (fstatfs(fd, &fs) < 0)
		return false;
	if (fs.f_type != FUSE_SUPER_MAGIC)
		return true;
	mounts = fopen("/proc/self/mountinfo", "re");
	if (!mounts)
		return false;
	while (!trusted && getline(&line, &room, mounts) > 0)
		trusted = mount_is_trusted(line, st->st_dev);
	fclose(mounts);
	return trusted;
}

static void identity_of(int fd, const struct stat *st, struct maps_identity *ret)
{
	struct statfs fs;

	/* File systems without a device of their own have major number 0. */
	if (major(st->st_dev) == 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC)
		*ret = (struct maps_identity){ 0, st->st_ino, st->st_size, st->st_mtim.tv_sec,
					       st->st_mtim.tv_nsec };
	else
		*ret = (struct maps_identity){ .device = st->st_dev, .inode = st->st_ino };
}

static int look_flush(struct look *look)
{
	int r = look->size ? look->say(look->data, look->message, look->size, look->fd, look->fds)
			   : 0;

	while (look->fds)
		close(look->fd[--look->fds]);
	look->size = 0;
	return r;
}

/* Of few files only, because more are rarely mapped twice: then the asker closes the second one. */
static bool look_has_sent(struct look *look, const struct maps_identity *identity)
{
	for (uint32_t i = 0; i < look->sent_count; i++)
		if (memcmp(&look->sent[i], identity, sizeof(*identity)) == 0)
			return true;
	if (look->sent_count < SENT)
		look->sent[look->sent_count++] = *identity;
	return false;
}

static int look_add(struct look *look, const struct maps_record *record)
{
	_cleanup_(closep) int fd = -1;
	struct maps_looked *looked;
	struct stat st = { 0 };
	size_t at = look->size;
	int r;

	if (maps_looked_put(look->message, &look->size, sizeof(look->message), record) < 0 ||
	    look->fds == MAPS_LOOK_FILES) {
		look->size = at;
		r = look_flush(look);
		if (r < 0)
			return r;
		at = 0;
		if (maps_looked_put(look->message, &look->size, sizeof(look->message), record) < 0)
			return 0;
	}
	looked = (struct maps_looked *)(look->message + at);
	looked->limited = look->limited;
	look->limited = 0;
	fd = record->inode ? path_open(record, look->request->ppid, &st) : -1;
	if (fd < 0)
		return 0;
	looked->file = true;
	looked->deleted = st.st_nlink == 0;
	looked->device = st.st_dev;
	looked->inode = st.st_ino;
	identity_of(fd, &st, &looked->identity);
	if (look_has_sent(look, &looked->identity))
		return 0;
	looked->silent = !maps_file_answers(fd, &st);
	if (looked->silent)
		return 0;
	look->fd[look->fds] = path_read(fd);
	if (look->fd[look->fds] >= 0)
		looked->fd = (int32_t)look->fds++;
	return 0;
}

static int on_mapping(void *data, const struct maps_record *record)
{
	struct look *look = data;
	bool library = record->inode && library_matches(record->path, look->request->patterns);

	look->libraries += library;
	if (look->request->kind == MAPS_LOOK_SEARCH)
		return library;
	if (look->mappings++ >= look->request->max && !library) {
		look->limited++;
		return 0;
	}
	return look_add(look, record);
}

static int look_records(struct look *look, char *records, size_t size)
{
	struct maps_looked *looked;
	size_t at = 0;
	int r = 0;

	while (r >= 0 && (looked = maps_looked_next(records, size, &at))) {
		const struct maps_record record = {
			.pid = looked->pid,
			.start = looked->start,
			.end = looked->end,
			.offset = looked->offset,
			.device = looked->device,
			.inode = looked->inode,
			.path = looked->path,
		};

		r = look_add(look, &record);
	}
	return r;
}

int maps_look(const void *request, size_t size, maps_look_say *say, void *data)
{
	const struct maps_look *head = request;
	_cleanup_(freep) struct look *look = calloc(1, sizeof(*look));
	int r = 0, gone = 0;

	if (!look)
		return -ENOMEM;
	if (size < sizeof(*head) || !memchr(head->patterns, '\0', sizeof(head->patterns)))
		return -EBADMSG;
	look->request = head;
	look->say = say;
	look->data = data;
	if (head->pid)
		gone = maps_proc_mappings(head->pid, on_mapping, look);
	if (gone >= 0 || gone == -ESRCH)
		r = look_records(look, (char *)request + sizeof(*head), size - sizeof(*head));
	if (r >= 0)
		r = look_flush(look);
	if (r < 0 || gone < 0)
		return r < 0 ? r : gone;
	return look->libraries > 0;
}
