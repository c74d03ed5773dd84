/* Stub: the file behind the library's stub. The library's word is checked only as far as it matters
 * to others: the probe will be in that process alone, and on what looks like a stub. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/light/light.h"
#include "daemon/maps/file.h"
#include "daemon/maps/proc.h"
#include "daemon/proc/procfs.h"

struct looked_for {
	uint64_t address;
	int fd; /* found */
	uint64_t offset;
};

static int on_mapping(void *data, const struct maps_record *record)
{
	struct looked_for *looked = data;

	if (!record->inode || looked->address < record->start || looked->address >= record->end)
		return 0;
	looked->fd = maps_record_open(record);
	looked->offset = record->offset + (looked->address - record->start);
	return 1;
}

int light_stub_open(const struct light_request *request, int *ret_fd, uint64_t *ret_offset)
{
	static const uint8_t code[] = TS_LIGHT_STUB;
	struct looked_for looked = { .address = request->told.stub, .fd = -ENOENT };
	_cleanup_(closep) int fd = -1;
	uint8_t found[sizeof(code)];
	int r;

	if (!procfs_has_first_thread((uint32_t)request->pid))
		return -ESRCH;
	r = maps_proc_mappings((uint32_t)request->pid, on_mapping, &looked);
	if (r < 0)
		return r;
	if (looked.fd < 0)
		return looked.fd;
	fd = looked.fd;
	if (pread(fd, found, sizeof(found), (off_t)looked.offset) != sizeof(found) ||
	    memcmp(found, code, sizeof(code)) != 0)
		return -EBADMSG;
	*ret_fd = TAKE_FD(fd);
	*ret_offset = looked.offset;
	return 0;
}
