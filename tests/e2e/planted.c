/* Planted: preloaded into the daemon, what somebody would do who has taken it over. On SIGUSR2 it
 * tries one thing after another that only root may do, in the process that gets the signal. It
 * writes a line for each to memory of the file that TS_PLANTED names: that is left to processes
 * that can open nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long load_program(void)
{
	/* r0 = 0; exit */
	const struct bpf_insn code[] = { { .code = 0xb7 }, { .code = 0x95 } };
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_KPROBE,
				.insn_cnt = 2,
				.insns = (unsigned long)code,
				.license = (unsigned long)"GPL" };

	return syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

static long make_map(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};

	return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static long take_program(void)
{
	union bpf_attr attr = { .start_id = 0 };

	return syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attr, sizeof(attr));
}

static long watch_everything(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK };

	return syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static long load_module(void)
{
	return syscall(SYS_init_module, "", 0, "");
}

static long mount_something(void)
{
	return mount("none", "/mnt", "tmpfs", 0, NULL);
}

static long enter_namespace(void)
{
	return unshare(CLONE_NEWNS);
}

static long become_another(void)
{
	return setresuid(65534, 65534, 65534);
}

static long run_program(void)
{
	char *const none[] = { NULL };

	return execve("/bin/true", none, none);
}

static long set_clock(void)
{
	return syscall(SYS_settimeofday, NULL, NULL);
}

static pid_t victim; /* a process of root, TS_VICTIM */

/* These need CAP_SYS_PTRACE. */
static int open_of_victim(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", victim, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static long read_root(void)
{
	return open_of_victim("mem");
}

static long trace_root(void)
{
	return ptrace(PTRACE_SEIZE, victim, NULL, NULL);
}

static long write_root(void)
{
	char byte = 0;
	struct iovec here = { &byte, 1 }, there = { (void *)0x400000, 1 };

	return process_vm_writev(victim, &here, 1, &there, 1, 0);
}

/* Who may not trace it sees nothing there. */
static long map_root(void)
{
	return open_of_victim("maps");
}

static long limit_root(void)
{
	return prlimit(victim, RLIMIT_CORE, &(struct rlimit){ 0, 0 }, NULL);
}

static const struct {
	const char *name;
	long (*act)(void);
} acts[] = {
	{ "load a program", load_program },
	{ "make a map", make_map },
	{ "take a program", take_program },
	{ "watch everything", watch_everything },
	{ "load a module", load_module },
	{ "mount", mount_something },
	{ "enter a namespace", enter_namespace },
	{ "become another user", become_another },
	{ "run a program", run_program },
	{ "set the clock", set_clock },
	{ "read root", read_root },
	{ "trace root", trace_root },
	{ "write root", write_root },
	{ "map root", map_root },
	{ "limit root", limit_root },
};

#define ROOM 4096

static char *said;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	size_t at = strlen(said);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(said + at, ROOM - at, format, arguments);
	va_end(arguments);
}

static void on_signal(int number)
{
	int before = errno;

	memset(said, 0, ROOM);
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		errno = 0;
		say("%s: %s\n", acts[i].name, acts[i].act() < 0 ? strerror(errno) : "done");
	}
	say("end\n");
	errno = before;
}

__attribute__((constructor)) static void plant(void)
{
	const char *path = getenv("TS_PLANTED");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	victim = atoi(getenv("TS_VICTIM") ?: "0");
	if (fd < 0 || ftruncate(fd, ROOM) < 0)
		return;
	said = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (said != MAP_FAILED)
		signal(SIGUSR2, on_signal);
}
