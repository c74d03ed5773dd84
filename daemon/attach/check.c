/* attach_check: processes that cannot be attached to, each with a sentence that says what to do.
 * Changes nothing.
 */
#include <elf.h>
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
#include "daemon/library/library.h"
#include "daemon/maps/procfs.h"

#define PROGRAM_HEADERS	 64
#define YAMA_SCOPE	 "/proc/sys/kernel/yama/ptrace_scope"
#define SECCOMP_STRICT	 1
#define INTERPRETER_SIZE 256

static int yama_scope(void)
{
	_cleanup_(closep) int fd = open(YAMA_SCOPE, O_RDONLY | O_CLOEXEC);
	char digit;

	return fd >= 0 && read(fd, &digit, 1) == 1 ? digit - '0' : 0;
}

static int check_denied(pid_t pid, char *why)
{
	if (yama_scope() == 3)
		return attach_why(
			why, -EPERM,
			"Cannot attach to process %d: kernel.yama.ptrace_scope is 3, which forbids "
			"it until the next boot; start the program with 'tsctl run'",
			pid);
	return attach_why(why, -EPERM,
			  "No permission to trace process %d: run tracesmithd with CAP_SYS_PTRACE "
			  "in a user namespace that owns it",
			  pid);
}

static int check_state(const struct attach_request *request, char *why)
{
	struct attach_status status;
	uint64_t ticks;
	pid_t pid = request->pid;

	if (pid <= 0 || attach_status_read(pid, 0, &status) < 0 ||
	    procfs_started_ticks((uint32_t)pid, &ticks) < 0)
		return attach_why(why, -ESRCH, "There is no process %d", pid);
	if (status.tgid != pid)
		return attach_why(why, -ESRCH,
				  "%d is a thread of process %d: give the pid of the process", pid,
				  status.tgid);
	if (request->started_ticks && request->started_ticks != ticks)
		return attach_why(
			why, -ESRCH,
			"Process %d has ended, and its pid now belongs to another process", pid);
	if (status.kernel_thread)
		return attach_why(why, -ENOEXEC, "%d (%s) is a kernel thread", pid, status.comm);
	if (status.state == 'Z' || status.state == 'X')
		return attach_why(why, -ESRCH,
				  "Process %d (%s) has ended and waits for its parent to collect "
				  "its exit status",
				  pid, status.comm);
	if (pid == 1 || pid == getpid())
		return attach_why(why, -EPERM,
				  "Process %d is %s, which tracesmithd never attaches to", pid,
				  pid == 1 ? "the init process" : "tracesmithd itself");
	return 0;
}

static int check_tracer(pid_t pid, char *why)
{
	struct attach_status status, tracer = { 0 };

	if (attach_status_read(pid, 0, &status) < 0)
		return attach_why(why, -ESRCH, "Process %d has ended", pid);
	if (status.tracer) {
		attach_status_read(status.tracer, 0, &tracer);
		return attach_why(why, -EPERM,
				  "Process %d is traced by process %d (%s): end that tracer first",
				  pid, status.tracer, tracer.comm);
	}
	if (status.state == 'T')
		return attach_why(
			why, -EAGAIN,
			"Process %d is stopped: continue it (kill -CONT %d) and try again", pid,
			pid);
	return 0;
}

/* *ret: the interpreter, empty if there is none. */
static int check_read_program(int fd, Elf64_Ehdr *ret_header, char ret[INTERPRETER_SIZE])
{
	Elf64_Phdr segment;

	if (pread(fd, ret_header, sizeof(*ret_header), 0) < (ssize_t)sizeof(Elf32_Ehdr) ||
	    memcmp(ret_header->e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	ret[0] = '\0';
	for (int i = 0; i < ret_header->e_phnum && i < PROGRAM_HEADERS; i++) {
		off_t at = (off_t)(ret_header->e_phoff + i * sizeof(segment));
		ssize_t n;

		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			return -ENOEXEC;
		if (segment.p_type != PT_INTERP)
			continue;
		n = pread(fd, ret, INTERPRETER_SIZE - 1, (off_t)segment.p_offset);
		ret[n > 0 ? n : 0] = '\0';
	}
	return 0;
}

static int check_program(pid_t pid, char *why)
{
	_cleanup_(closep) int fd = -1;
	char path[32], interpreter[INTERPRETER_SIZE];
	Elf64_Ehdr header;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return check_denied(pid, why);
	if (fd < 0)
		return attach_why(why, -ESRCH, "Process %d has ended", pid);
	memset(&header, 0, sizeof(header));
	if (check_read_program(fd, &header, interpreter) < 0)
		return attach_why(why, -ENOEXEC, "The program of process %d is not an ELF file",
				  pid);
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
		return attach_why(why, -ENOEXEC,
				  "Process %d runs a program of another architecture%s: only "
				  "64-bit x86 programs are supported",
				  pid, header.e_ident[EI_CLASS] == ELFCLASS32 ? " (32-bit)" : "");
	if (strstr(interpreter, "ld-musl"))
		return attach_why(
			why, -ENOEXEC,
			"Process %d uses the musl C library, but NVIDIA's CUPTI needs glibc", pid);
	if (!interpreter[0])
		return attach_why(
			why, -ENOEXEC,
			"Process %d is statically linked: no library can be loaded into it", pid);
	return 0;
}

static int check_mappings(pid_t pid, char *why)
{
	struct attach_maps maps;
	bool cuda = false;
	int r = attach_maps_read(pid, &maps);

	if (r == -EACCES || r == -EPERM)
		return check_denied(pid, why);
	if (r < 0)
		return attach_why(why, -ESRCH, "Process %d has ended", pid);
	for (size_t i = 0; i < maps.count; i++)
		cuda |= library_of(attach_map_name(&maps.map[i])) == &library_cuda;
	attach_maps_free(&maps);
	if (!cuda)
		return attach_why(why, -ENODEV,
				  "Process %d does not use CUDA (libcuda.so is not mapped): try "
				  "again when it does, or wait for it with --wait",
				  pid);
	return 0;
}

static int check_seccomp(const struct attach_request *request, char *why)
{
	struct attach_status status;

	if (attach_status_read(request->pid, 0, &status) < 0)
		return attach_why(why, -ESRCH, "Process %d has ended", request->pid);
	if (status.seccomp == SECCOMP_STRICT)
		return attach_why(why, -ENOEXEC,
				  "Process %d is in strict seccomp mode: the system calls of "
				  "attaching would kill it",
				  request->pid);
	if (status.seccomp && !request->seccomp)
		return attach_why(
			why, -ENOEXEC,
			"Process %d has a seccomp filter, which may kill it during attaching; the "
			"filters of Docker and Kubernetes do not: try with --seccomp",
			request->pid);
	return 0;
}

/* The loader in the process opens the library by a name in /proc. */
static int check_root(pid_t pid, char *why)
{
	struct statfs fs;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/root/proc", pid);
	if (statfs(path, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return attach_why(why, -ENOEXEC,
				  "Process %d has no /proc in its root directory: mount one there",
				  pid);
	return 0;
}

static int check_memory(pid_t pid, char *why)
{
	_cleanup_(closep) int fd = -1;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return check_denied(pid, why);
	return fd < 0 ? attach_why(why, -ESRCH, "Process %d has ended", pid) : 0;
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

int attach_check_owner(pid_t pid, uid_t uid, char *why)
{
	struct attach_status status;
	struct stat st;
	char path[32];
	int r = attach_status_read(pid, 0, &status);

	if (r < 0)
		return attach_why(why, -ESRCH, "Process %d has ended", pid);
	for (size_t i = 0; i < ARRAY_SIZE(status.uid); i++)
		if (status.uid[i] != uid)
			r = -EPERM;
	/* It belongs to root if the process's user may not trace it. */
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	if (stat(path, &st) < 0 || st.st_uid != uid)
		r = -EPERM;
	return r == 0 ? 0
		      : attach_why(why, r,
				   "Process %d has changed its privileges: run tsctl as root", pid);
}

int attach_check(const struct attach_request *request, char *why)
{
	static int (*const checks[])(pid_t pid, char *why) = {
		check_tracer, check_program, check_mappings, check_root, check_memory,
	};
	int r = check_state(request, why);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(checks); i++)
		r = checks[i](request->pid, why);
	if (r == 0)
		r = check_seccomp(request, why);
	if (r < 0 && r != -ESRCH && attach_ended(request->pid))
		return attach_why(why, -ESRCH, "Process %d has ended", request->pid);
	return r;
}
