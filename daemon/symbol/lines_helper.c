/* Lines_helper: it opens what it needs, then gives up its rights, and looks into the files last.
 * The process ends with the task, so nothing of it is tidied up. */
#include "daemon/symbol/lines_helper.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/elf.h"
#include "daemon/helper/confine.h"
#include "daemon/helper/helper.h"
#include "daemon/limits.h"
#include "daemon/symbol/debug_file.h"
#include "daemon/symbol/dwarf.h"
#include "daemon/symbol/split_file.h"

CLEANUP_DEFINE(struct dwarf, dwarf_free)

/* What libdw and libc need for a computation over files that are open, and for the answers. */
static const uint16_t calls[] = {
	SYS_read,  SYS_pread64,	     SYS_fstat,	     SYS_newfstatat, SYS_lseek,	      SYS_fcntl,
	SYS_close, SYS_mmap,	     SYS_munmap,     SYS_mremap,     SYS_mprotect,    SYS_madvise,
	SYS_brk,   SYS_futex,	     SYS_getpid,     SYS_sendmsg,    SYS_recvmsg,     SYS_getrandom,
	SYS_exit,  SYS_rt_sigreturn, SYS_exit_group, SYS_readlink,   SYS_sched_yield,
};

static int confine(uint32_t pid)
{
	const struct confine_bounds bounds = {
		.memory_bytes = LIMIT_LINES_MEMORY + 2 * LIMIT_LINES_FILE,
		.data_bytes = LIMIT_LINES_MEMORY,
		.cpu_s = LIMIT_LINES_MS / 1000,
		.files = 16,
	};
	int r = confine_rights();

	if (r == 0)
		r = confine_resources(&bounds);
	if (r == 0)
		r = split_file_allow(pid);
	return r < 0 ? r : confine_calls_or_trap(calls, ARRAY_SIZE(calls));
}

/* Nothing is said where it is too much. */
static int say_places(int socket, uint32_t index, const struct dwarf_place *place, uint32_t count)
{
	static struct lines_answer answer;
	size_t used = 0;

	answer.index = index;
	answer.count = count;
	for (uint32_t i = 0; i < count && used < sizeof(answer.text); i++)
		used += (size_t)snprintf(answer.text + used, sizeof(answer.text) - used,
					 "%" PRIu32 "%c%s%c%s%c", place[i].line, 0,
					 place[i].function, 0, place[i].file, 0);
	if (used >= sizeof(answer.text))
		return 0;
	return helper_say(socket, &answer, offsetof(struct lines_answer, text) + used, NULL, 0);
}

/* -1: there is none. */
struct files {
	int own, debug;
	int own_common, debug_common; /* with what dwz moved out of either */
};

/* The debug information of the file itself comes first. */
static int open_any(const struct files *files, struct dwarf **ret)
{
	int r = dwarf_open(files->own, files->own_common, ret);

	return r < 0 && files->debug >= 0 ? dwarf_open(files->debug, files->debug_common, ret) : r;
}

static int look(int socket, const struct files *files, const struct lines_order *order)
{
	static struct dwarf_place place[DWARF_DEPTH_MAX];
	_cleanup_(dwarf_freep) struct dwarf *dwarf = NULL;
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	int r = elf_open(&elf, files->own);

	if (r == 0)
		r = open_any(files, &dwarf);
	for (uint32_t i = 0; r == 0 && i < order->count; i++) {
		uint64_t address;
		uint32_t count = elf_address(&elf, order->offset[i], &address) < 0
					 ? 0
					 : dwarf_find(dwarf, address, place);

		if (count)
			r = say_places(socket, i, place, count);
	}
	return r;
}

static bool is_small(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= LIMIT_LINES_FILE;
}

static int open_common(int fd, const struct lines_order *order, const char *path)
{
	int common = debug_file_open_common(fd, order->pid, path);

	return common >= 0 && is_small(common) ? common : -1;
}

int lines_look(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	static struct lines_order order;
	struct files files = { .debug_common = -1 };
	char debug_path[DEBUG_FILE_PATH_MAX];
	int r;

	if (size != sizeof(order) || fds != 1)
		return -EBADMSG;
	memcpy(&order, request, sizeof(order));
	order.path[LINES_PATH_MAX - 1] = '\0';
	if (order.count > LINES_OFFSETS_MAX)
		return -EBADMSG;
	files.own = fd[0];
	if (!is_small(files.own))
		return -EFBIG;
	files.debug = debug_file_open(files.own, order.pid, order.path, debug_path);
	if (files.debug >= 0 && !is_small(files.debug))
		return -EFBIG;
	files.own_common = open_common(files.own, &order, order.path);
	if (files.debug >= 0)
		files.debug_common = open_common(files.debug, &order, debug_path);
	r = confine(order.pid);
	return r < 0 ? r : look(socket, &files, &order);
}
