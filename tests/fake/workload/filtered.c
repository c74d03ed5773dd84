/* Filtered: a thread that launches with a seccomp filter of its own, which kills the process for
 * any system call that a computing thread does not need. The rest of the process has none.
 *   filtered           the thread has it from its start
 *   filtered --late    it installs it at the first newline
 * Says "ready" when it launches, with --late also "filtered"; ends at a newline. */
#include "workload.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAUSE_NS 1000000

#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                         \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static CUcontext context;
static CUfunction kernel;
static CUstream stream;
static atomic_bool wanted, filtered, stopped;
static uint64_t launches, calls = 1;

/* Memory of the C library, a pause, signals as it blocks them, the end. No clock: the vDSO's needs
 * no system call. */
static void filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_write),
		ALLOW(SYS_futex),
		ALLOW(SYS_gettid), /* CUPTI asks for it */
		ALLOW(SYS_rt_sigprocmask),
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_clock_nanosleep),
		ALLOW(SYS_restart_syscall),
		ALLOW(SYS_mmap),
		ALLOW(SYS_munmap),
		ALLOW(SYS_mprotect),
		ALLOW(SYS_madvise),
		ALLOW(SYS_brk),
		ALLOW(SYS_exit),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = { ARRAY_SIZE(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(77);
	filtered = true;
}

/* Arguments also where only the kernel knows that they are there. */
static void *work(void *data)
{
	CUlaunchConfig *config = calloc(1, sizeof(*config));

	if (!config)
		abort();
	config->gridDimX = config->gridDimY = config->gridDimZ = 1;
	config->blockDimX = 32;
	config->blockDimY = config->blockDimZ = 1;
	config->hStream = stream;
	TRY(cuCtxSetCurrent, (context));
	while (!atomic_load(&stopped)) {
		if (atomic_load(&wanted) && !atomic_load(&filtered))
			filter();
		for (uint64_t i = 0; i < calls; i++, launches++) {
			TRY(cuLaunchKernel, (kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
			TRY(cuLaunchKernelEx, (config, kernel, NULL, NULL));
		}
		workload_sleep_until(workload_now() + PAUSE_NS);
	}
	free(config);
	return NULL;
}

int main(int argc, char **argv)
{
	static const char image[] = IMAGE_HEAD IMAGE_KERNEL("tick_ns1");
	bool late = false;
	const struct option_row options[] = {
		{ "late", "install the filter at the first newline", OPTION_FLAG, &late },
		{ "calls", "launches of each kind at a time (1)", OPTION_NUMBER, &calls },
	};
	CUmodule module;
	pthread_t thread;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuCtxCreate_v2, (&context, 0, 0));
	TRY(cuModuleLoadData, (&module, image));
	TRY(cuModuleGetFunction, (&kernel, module, "tick_ns1"));
	TRY(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
	/* What the driver starts for a first launch is there before any filter. */
	TRY(cuLaunchKernel, (kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	TRY(cuStreamSynchronize, (stream));
	wanted = !late;
	if (pthread_create(&thread, NULL, work, NULL))
		return 1;
	for (int turn = 0; turn < 1 + late; turn++) {
		while (atomic_load(&wanted) && !atomic_load(&filtered))
			workload_sleep_until(workload_now() + PAUSE_NS);
		workload_say("{\"pid\":%d,\"%s\":1}\n", (int)getpid(), turn ? "filtered" : "ready");
		workload_hold(-1);
		wanted = true;
	}
	stopped = true;
	pthread_join(thread, NULL);
	tally_print();
	workload_say("{\"pid\":%d,\"launches\":%lu}\n", (int)getpid(), (unsigned long)launches);
	return 0;
}
