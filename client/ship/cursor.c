/* Cursor: one word and its values in a line. */
#include "client/ship/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"

#define NAME  "cursor"
#define BYTES 8192

/* clang-format off */
#define NUMBERS(X)                                                                                 \
	X(minute) X(known) X(told_ns) X(summed) X(jobs) X(minutes) X(rows) X(bytes) X(lost_s)      \
	X(sent_time) X(request)
/* clang-format on */

void cursor_enter(struct cursor *cursor, const char boot_id[CURSOR_BOOT_BYTES],
		  int64_t wall_offset_ns, uint64_t minute)
{
	if (strcmp(cursor->boot_id, boot_id) != 0) {
		memcpy(cursor->boot_id, boot_id, sizeof(cursor->boot_id));
		cursor->known = cursor->told_ns = cursor->summed = 0;
		memset(cursor->sum, 0, sizeof(cursor->sum));
	}
	cursor->wall_offset_ns = wall_offset_ns;
	cursor->minute = minute;
}

static int take_line(struct cursor *cursor, const char *line)
{
	struct cursor_sum sum = { 0 };
	char key[32], value[64];

	if (sscanf(line, "sum %" SCNu64 " %" SCNu64, &sum.minute, &sum.sum) == 2) {
		*cursor_sum(cursor, sum.minute) = sum;
		return 0;
	}
	if (sscanf(line, "wall_offset_ns %" SCNd64, &cursor->wall_offset_ns) == 1)
		return 0;
	if (sscanf(line, "%31s %63s", key, value) != 2)
		return -EBADMSG;
	if (strcmp(key, "boot") == 0) {
		if (strlen(value) >= sizeof(cursor->boot_id))
			return -EBADMSG;
		memcpy(cursor->boot_id, value, strlen(value) + 1);
		return 0;
	}
#define X(field)                                                                                   \
	if (strcmp(key, #field) == 0)                                                              \
		return sscanf(value, "%" SCNu64, &cursor->field) == 1 ? 0 : -EBADMSG;
	NUMBERS(X)
#undef X
	return 0; /* of a later version */
}

int cursor_read(int folder, struct cursor *ret)
{
	_cleanup_(closep) int fd = openat(folder, NAME, O_RDONLY | O_CLOEXEC);
	struct cursor cursor = { 0 };
	char text[BYTES], *rest = text, *line;
	ssize_t size;
	int r = 0;

	if (fd < 0 && errno == ENOENT) {
		*ret = cursor;
		return 0;
	}
	size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (size < 0)
		return -errno;
	text[size] = '\0';
	while (r == 0 && (line = strsep(&rest, "\n")))
		if (*line)
			r = take_line(&cursor, line);
	if (r < 0 || !*cursor.boot_id || cursor.minute % 60)
		return -EBADMSG;
	*ret = cursor;
	return 0;
}

int cursor_replace(int folder, int fd, const char *from, const char *to)
{
	if (fsync(fd) < 0 || renameat(folder, from, folder, to) < 0)
		return -errno;
	return fsync(folder) < 0 ? -errno : 0;
}

int cursor_write(int folder, const struct cursor *cursor)
{
	_cleanup_(closep) int fd =
		openat(folder, NAME ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char text[BYTES];
	int size = snprintf(text, sizeof(text), "boot %s\nwall_offset_ns %" PRId64 "\n",
			    cursor->boot_id, cursor->wall_offset_ns);

#define X(field)                                                                                   \
	size += snprintf(text + size, sizeof(text) - size, #field " %" PRIu64 "\n", cursor->field);
	NUMBERS(X)
#undef X
	for (size_t i = 0; i < CURSOR_SUMS; i++)
		if (cursor->sum[i].sum)
			size += snprintf(text + size, sizeof(text) - size,
					 "sum %" PRIu64 " %" PRIu64 "\n", cursor->sum[i].minute,
					 cursor->sum[i].sum);
	if (fd < 0)
		return -errno;
	errno = ENOSPC; /* if only a part is written */
	if (write(fd, text, size) != size)
		return -errno;
	return cursor_replace(folder, fd, NAME ".new", NAME);
}
