/* Split_file: the path comes from the traced program's file, so it may be any. Whether what is
 * there belongs to the program is libdw's to say: it compares their ids. */
#include "daemon/symbol/split_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/limits.h"
#include "daemon/proc/opener.h"

static uint32_t process;
static volatile sig_atomic_t asking;

static int open_below(uint32_t root, const char *path)
{
	const struct opener_request by_path = { .kind = OPENER_PATH, .pid = root, .path = path };
	struct opener_request whole = { .kind = OPENER_FILE };
	_cleanup_(closep) int found = opener_ask(&by_path, NULL), fd = -1;
	struct stat st;

	whole.file = found;
	if (found >= 0)
		fd = opener_ask(&whole, NULL);
	return fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= LIMIT_LINES_FILE ? TAKE_FD(fd)
										: -ENOENT;
}

static int open_split(const char *path)
{
	const uint32_t roots[] = { process, 0 };
	int fd = -ENOENT;

	for (size_t i = 0; path[0] == '/' && fd < 0 && i < ARRAY_SIZE(roots); i++)
		fd = open_below(roots[i], path);
	return fd;
}

/* Without an opener it would be this process that opens, and end here again. */
static void on_refused(int number, siginfo_t *info, void *context)
{
	greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
	int error = errno;

	if (info->si_syscall == SYS_openat && !asking) {
		asking = 1;
		reg[REG_RAX] = open_split((const char *)reg[REG_RSI]);
		asking = 0;
	} else {
		reg[REG_RAX] = -EPERM;
	}
	errno = error;
}

int split_file_allow(uint32_t pid)
{
	const struct sigaction action = { .sa_sigaction = on_refused,
					  .sa_flags = SA_SIGINFO | SA_NODEFER };

	process = pid;
	return sigaction(SIGSYS, &action, NULL) < 0 ? -errno : 0;
}
