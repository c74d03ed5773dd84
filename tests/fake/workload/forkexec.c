/* Forkexec: a family of processes, each with its own known number of calls.
 * The parent forks children before it uses CUDA itself; each child is its own user of CUDA.
 * Then it uses CUDA, and starts `short` by fork and exec. A last child is forked after that and
 * finds CUDA lost. Every process prints its counts with its pid. */
#include "handful.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCHES_PARENT 7
#define LAUNCHES_CHILD	100 /* and one more for each later child */
#define LAUNCHES_EXEC	"31"

static void wait_for(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "forkexec: child %d failed\n", (int)pid);
		exit(2);
	}
}

static pid_t fork_worker(uint64_t launches)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	workload_say("{\"pid\":%d,\"role\":\"child\"}\n", (int)getpid());
	handful(launches, NULL);
	tally_print();
	_exit(0);
}

static pid_t fork_exec_short(void)
{
	char self[PATH_MAX], path[PATH_MAX + 8];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	pid_t pid;

	if (n < 0)
		exit(2);
	self[n] = '\0';
	snprintf(path, sizeof(path), "%s/short", dirname(self));
	pid = fork();
	if (pid != 0)
		return pid;
	workload_say("{\"pid\":%d,\"role\":\"exec\"}\n", (int)getpid());
	execl(path, "short", "--launches", LAUNCHES_EXEC, (char *)NULL);
	_exit(127);
}

/* cuInit in a child of a process that has used CUDA fails, and so does everything else. */
static pid_t fork_orphan(void)
{
	pid_t pid = fork();
	CUcontext context;

	if (pid != 0)
		return pid;
	tally_reset();
	workload_say("{\"pid\":%d,\"role\":\"orphan\"}\n", (int)getpid());
	if (T(cuInit, (0)) == CUDA_SUCCESS || T(cuCtxCreate_v2, (&context, 0, 0)) == CUDA_SUCCESS)
		_exit(2);
	tally_print();
	_exit(0);
}

int main(int argc, char **argv)
{
	uint64_t children = 3;
	bool hold = false;
	const struct option_row options[] = {
		{ "children", "children that use CUDA (3)", OPTION_NUMBER, &children },
		{ "hold", "wait for a newline before the end", OPTION_FLAG, &hold },
	};
	pid_t *pids;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	pids = calloc(children ? children : 1, sizeof(*pids));
	if (!pids)
		abort();
	for (uint64_t i = 0; i < children; i++)
		pids[i] = fork_worker(LAUNCHES_CHILD + i);
	for (uint64_t i = 0; i < children; i++)
		wait_for(pids[i]);
	workload_say("{\"pid\":%d,\"role\":\"parent\"}\n", (int)getpid());
	handful(LAUNCHES_PARENT, NULL);
	wait_for(fork_exec_short());
	wait_for(fork_orphan());
	tally_print();
	if (hold)
		workload_hold(-1);
	free(pids);
	return 0;
}
