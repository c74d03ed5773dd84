/* Planted: preloaded into the daemon, what somebody would do who has taken it over. On SIGUSR2 it
 * tries one thing after another that only root may do, in the process that gets the signal, and
 * writes a line for each to the file that TS_PLANTED names. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
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

/* These need CAP_SYS_PTRACE. */
static long read_init(void)
{
	return open("/proc/1/mem", O_RDONLY | O_CLOEXEC);
}

static long trace_init(void)
{
	return ptrace(PTRACE_SEIZE, 1, NULL, NULL);
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
	{ "read init", read_init },
	{ "trace init", trace_init },
};

static void on_signal(int number)
{
	FILE *out = fopen(getenv("TS_PLANTED"), "we");
	int before = errno;

	for (size_t i = 0; out && i < sizeof(acts) / sizeof(acts[0]); i++) {
		errno = 0;
		fprintf(out, "%s: %s\n", acts[i].name,
			acts[i].act() < 0 ? strerror(errno) : "done");
		fflush(out);
	}
	if (out) {
		fprintf(out, "end\n");
		fclose(out);
	}
	errno = before;
}

__attribute__((constructor)) static void plant(void)
{
	if (getenv("TS_PLANTED"))
		signal(SIGUSR2, on_signal);
}
