/* attach_check: processes that cannot be attached to, each with a sentence that says what to do.
 * Changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/attach/internal.h"
#include "daemon/elf/elf.h"
#include "daemon/library/library.h"
#include "daemon/proc/procfs.h"

#define YAMA_SCOPE	 "/proc/sys/kernel/yama/ptrace_scope"
#define SECCOMP_STRICT	 1
#define INTERPRETER_SIZE 256
#define TSAN		 "libtsan.so"

static int yama_scope(void)
{
	_cleanup_(closep) int fd = open(YAMA_SCOPE, O_RDONLY | O_CLOEXEC);
	char digit;

	return fd >= 0 && read(fd, &digit, 1) == 1 ? digit - '0' : 0;
}

static int check_denied(pid_t pid, struct remarks *why)
{
	if (yama_scope() == 3)
		return ATTACH_WHY(why, -EPERM, PTRACE_SCOPE, REMARK_NUMBER(pid));
	return ATTACH_WHY(why, -EPERM, NO_PTRACE, REMARK_NUMBER(pid));
}

static int check_state(const struct attach_request *request, struct remarks *why)
{
	struct attach_status status;
	uint64_t ticks;
	pid_t pid = request->pid;

	if (pid <= 0 || attach_status_read(pid, 0, &status) < 0 ||
	    procfs_started_ticks((uint32_t)pid, &ticks) < 0)
		return ATTACH_WHY(why, -ESRCH, NO_PROCESS, REMARK_NUMBER(pid));
	if (status.tgid != pid)
		return ATTACH_WHY(why, -ESRCH, THREAD_ID, REMARK_NUMBER(pid),
				  REMARK_NUMBER(status.tgid));
	if (request->started_ticks && request->started_ticks != ticks)
		return ATTACH_WHY(why, -ESRCH, PID_REUSED, REMARK_NUMBER(pid));
	if (status.kernel_thread)
		return ATTACH_WHY(why, -ENOEXEC, NEVER_ATTACHED, REMARK_NUMBER(pid),
				  "a kernel thread");
	if (status.state == 'Z' || status.state == 'X')
		return ATTACH_WHY(why, -ESRCH, ZOMBIE, REMARK_NUMBER(pid), status.comm);
	if (pid == 1 || pid == (request->daemon ?: getpid()))
		return ATTACH_WHY(why, -EPERM, NEVER_ATTACHED, REMARK_NUMBER(pid),
				  pid == 1 ? "the init process" : "tracesmithd itself");
	return 0;
}

static int check_tracer(pid_t pid, struct remarks *why)
{
	struct attach_status status, tracer = { 0 };

	if (attach_status_read(pid, 0, &status) < 0)
		return ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(pid));
	if (status.tracer) {
		attach_status_read(status.tracer, 0, &tracer);
		return ATTACH_WHY(why, -EPERM, TRACED, REMARK_NUMBER(pid),
				  REMARK_NUMBER(status.tracer), tracer.comm);
	}
	if (status.state == 'T')
		return ATTACH_WHY(why, -EAGAIN, STOPPED, REMARK_NUMBER(pid));
	return 0;
}

/* Empty if there is none. */
static void check_interpreter(const struct elf *elf, char ret[INTERPRETER_SIZE])
{
	memset(ret, 0, INTERPRETER_SIZE);
	for (unsigned int i = 0; i < elf->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &elf->segment[i];

		if (segment->p_type == PT_INTERP && segment->p_filesz < INTERPRETER_SIZE)
			elf_read(elf, segment->p_offset, ret, segment->p_filesz);
	}
}

static bool check_other_program(const Elf64_Ehdr *header)
{
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64);
}

static int check_program(pid_t pid, struct remarks *why)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	_cleanup_(closep) int fd = -1;
	char path[32], interpreter[INTERPRETER_SIZE];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return check_denied(pid, why);
	if (fd < 0)
		return ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(pid));
	r = elf_open(&elf, fd);
	if (r < 0 && !check_other_program(&elf.header))
		return ATTACH_UNSUPPORTED(why, "The program of process %d is not an ELF file", pid);
	if (check_other_program(&elf.header))
		return ATTACH_UNSUPPORTED(
			why,
			"Process %d runs a program of another architecture%s: only "
			"64-bit x86 programs are supported",
			pid, elf.header.e_ident[EI_CLASS] == ELFCLASS32 ? " (32-bit)" : "");
	check_interpreter(&elf, interpreter);
	if (strstr(interpreter, "ld-musl"))
		return ATTACH_UNSUPPORTED(
			why, "Process %d uses the musl C library, but NVIDIA's CUPTI needs glibc",
			pid);
	if (!interpreter[0])
		return ATTACH_UNSUPPORTED(
			why, "Process %d is statically linked: no library can be loaded into it",
			pid);
	return 0;
}

static int check_mappings(pid_t pid, struct remarks *why)
{
	struct attach_maps maps;
	bool cuda = false, tsan = false;
	int r = attach_maps_read(pid, &maps);

	if (r == -EACCES || r == -EPERM)
		return check_denied(pid, why);
	if (r < 0)
		return ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(pid));
	for (size_t i = 0; i < maps.count; i++) {
		const char *name = attach_map_name(&maps.map[i]);

		cuda |= library_of(name) == &library_cuda;
		tsan |= !strncmp(name, TSAN, strlen(TSAN));
	}
	attach_maps_free(&maps);
	if (!cuda)
		return ATTACH_WHY(why, -ENODEV, NO_CUDA, REMARK_NUMBER(pid));
	if (tsan)
		return ATTACH_UNSUPPORTED(
			why,
			"Process %d is built with ThreadSanitizer, whose runtime does not bear a "
			"borrowed thread: it can only be recorded from its start",
			pid);
	return 0;
}

/* Each thread has its own filter, and what ours do counts for all: a filter may end the process.
 * *ret: one that has a filter, the main thread if it does; 0: none. */
static int find_filter(pid_t pid, struct attach_status *ret_status, pid_t *ret)
{
	_cleanup_(freep) pid_t *tid = NULL;
	struct attach_status status;
	size_t count = 0;

	*ret = 0;
	if (attach_threads_read(pid, &tid, &count) < 0)
		return -ESRCH;
	for (size_t i = 0; i < count; i++) {
		bool strict;

		if (attach_status_read(pid, tid[i], &status) < 0 || !status.seccomp)
			continue; /* no filter, or the thread has ended */
		strict = status.seccomp == SECCOMP_STRICT;
		if (!strict && *ret && tid[i] != pid)
			continue;
		*ret = tid[i];
		*ret_status = status;
		if (strict)
			break;
	}
	return 0;
}

static int check_seccomp(const struct attach_request *request, struct remarks *why)
{
	struct attach_status status;
	pid_t pid = request->pid, tid;

	if (find_filter(pid, &status, &tid) < 0)
		return ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(pid));
	if (!tid)
		return 0;
	if (status.seccomp == SECCOMP_STRICT)
		return ATTACH_UNSUPPORTED(
			why,
			"Thread %d ('%s') of process %d is in strict seccomp mode: the system "
			"calls of attaching would kill it",
			tid, status.comm, pid);
	if (request->seccomp)
		return 0;
	if (tid == pid)
		return ATTACH_WHY(why, -ENOEXEC, SECCOMP, REMARK_NUMBER(pid));
	return ATTACH_WHY(why, -ENOEXEC, SECCOMP, REMARK_NUMBER(pid), REMARK_NUMBER(tid),
			  status.comm);
}

/* The loader in the process opens the library by a name in /proc. */
static int check_root(pid_t pid, struct remarks *why)
{
	struct statfs fs;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/root/proc", pid);
	if (statfs(path, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return ATTACH_UNSUPPORTED(
			why, "Process %d has no /proc in its root directory: mount one there", pid);
	return 0;
}

static int check_memory(pid_t pid, struct remarks *why)
{
	_cleanup_(closep) int fd = -1;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return check_denied(pid, why);
	return fd < 0 ? ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(pid)) : 0;
}

/* An ending process loses its memory first, and then looks like all kinds of things. */
bool attach_ended(pid_t pid)
{
	struct attach_status status;
	struct attach_maps maps;
	bool empty;

	if (attach_status_read(pid, 0, &status) < 0 || strchr("ZX", status.state))
		return true;
	if (status.kernel_thread || attach_maps_read(pid, &maps) < 0)
		return false;
	empty = maps.count == 0;
	attach_maps_free(&maps);
	return empty;
}

int attach_check_owner(pid_t pid, uid_t uid, struct remarks *why)
{
	struct attach_status status;
	struct stat st;
	char path[32];
	int r = attach_status_read(pid, 0, &status);

	if (r < 0)
		return ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(pid));
	for (size_t i = 0; i < ARRAY_SIZE(status.uid); i++)
		if (status.uid[i] != uid)
			r = -EPERM;
	/* It belongs to root if the process's user may not trace it. */
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	if (stat(path, &st) < 0 || st.st_uid != uid)
		r = -EPERM;
	return r == 0 ? 0 : ATTACH_WHY(why, r, PRIVILEGES_CHANGED, REMARK_NUMBER(pid));
}

int attach_check(const struct attach_request *request, struct remarks *why)
{
	static int (*const checks[])(pid_t pid, struct remarks * why) = {
		check_tracer, check_program, check_mappings, check_root, check_memory,
	};
	int r = check_state(request, why);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(checks); i++)
		r = checks[i](request->pid, why);
	if (r == 0)
		r = check_seccomp(request, why);
	if (r < 0 && r != -ESRCH && attach_ended(request->pid))
		return ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(request->pid));
	return r;
}
