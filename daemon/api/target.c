/* Target: the rule of ptrace(2), applied to the asker and not to the daemon, which may trace
 * everything. */
#include "daemon/api/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/store/query/remark.h"
#include "daemon/proc/procfs.h"

/* Real, effective, saved and file system uid. -ESRCH: there is no process, or only its exit
 * code.
 */
static int read_uids(uint32_t pid, uid_t ret[4])
{
	_cleanup_(closep) int fd = -1;
	char path[64], text[4096], *line;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -ESRCH;
	text[n] = '\0';
	/* Its name comes before, and may contain anything but a newline. */
	if (strstr(text, "\nState:\tZ"))
		return -ESRCH;
	line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u %u", &ret[0], &ret[1], &ret[2], &ret[3]) != 4)
		return -ESRCH;
	return 0;
}

/* Files below /proc/PID belong to root if the process is not dumpable: after it ran a set-uid
 * program or one with capabilities, or because it wants no debugger. */
static int is_dumpable(uint32_t pid, uid_t uid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	if (stat(path, &st) < 0)
		return -ESRCH;
	return st.st_uid == uid;
}

static int compare(uint32_t pid, uid_t uid, Tracesmith__V1__Remark__Reason *ret_why)
{
	uid_t has[4];
	int r = read_uids(pid, has);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(has); i++) {
		if (has[i] == uid)
			continue;
		*ret_why = REASON(OTHER_USER);
		return -EACCES;
	}
	r = is_dumpable(pid, uid);
	if (r != 0)
		return r < 0 ? r : 0;
	*ret_why = REASON(PRIVILEGED);
	return -EACCES;
}

int target_check(uint32_t pid, uid_t uid, uint64_t *ret_started_ticks,
		 Tracesmith__V1__Remark__Reason *ret_why)
{
	uint64_t before, after;
	int r = procfs_started_ticks(pid, &before);

	if (r == 0 && uid != 0) {
		r = compare(pid, uid, ret_why);
		/* Another process may have that pid now. */
		if (r == 0)
			r = procfs_started_ticks(pid, &after);
		if (r == 0 && after != before)
			r = -ESRCH;
	}
	if (r < 0 && r != -EACCES) {
		*ret_why = REASON(NO_PROCESS);
		return -ESRCH;
	}
	if (r == 0)
		*ret_started_ticks = before;
	return r;
}
