/* Stub: the file behind the library's stub. The library's word is checked only as far as it matters
 * to others: the probe will be in that process alone, and on what looks like a stub. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/attach/internal.h"
#include "daemon/light/light.h"
#include "daemon/maps/proc.h"

struct looked_for {
	uint64_t address;
	uint64_t start, end, offset; /* found */
};

static int on_mapping(void *data, const struct maps_record *record)
{
	struct looked_for *looked = data;

	if (!record->inode || looked->address < record->start || looked->address >= record->end)
		return 0;
	looked->start = record->start;
	looked->end = record->end;
	looked->offset = record->offset + (looked->address - record->start);
	return 0;
}

/* The kernel makes no link to a process whose first thread has ended, and does not say so. */
static bool has_first_thread(pid_t pid)
{
	struct attach_status status;

	return attach_status_read(pid, pid, &status) == 0 && status.state != 'Z' &&
	       status.state != 'X';
}

int light_stub_open(const struct light_request *request, int *ret_fd, uint64_t *ret_offset)
{
	static const uint8_t code[] = TS_LIGHT_STUB;
	struct looked_for looked = { .address = request->told.stub };
	_cleanup_(closep) int fd = -1;
	uint8_t found[sizeof(code)];
	char path[96];
	int r;

	if (!has_first_thread(request->pid))
		return -ESRCH;
	r = maps_proc_mappings((uint32_t)request->pid, on_mapping, &looked);
	if (r < 0)
		return r;
	if (!looked.end)
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, request->pid,
		 looked.start, looked.end);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (pread(fd, found, sizeof(found), (off_t)looked.offset) != sizeof(found) ||
	    memcmp(found, code, sizeof(code)) != 0)
		return -EBADMSG;
	*ret_fd = TAKE_FD(fd);
	*ret_offset = looked.offset;
	return 0;
}
