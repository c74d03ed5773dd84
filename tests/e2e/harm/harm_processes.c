/* Harm, processes: fork, vfork, exec, daemons, namespaces, other users, tracers, ends of all kinds.
 */
#include "harm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS	200
#define FORKS	8
#define NOBODY	65534
#define TASKS	64
#define MUCH_AT 4096

extern char **environ;

static int status_of(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void served(int number)
{
	harm_begin();
	harm_work(3);
	exit(number);
}

/* The server itself makes no call; each child does, and ends as programs do. */
static void serve_some(void)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			served(i);
		harm_say("served: %x", status_of(pid));
	}
}

static void fork_server(void)
{
	harm_load();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		serve_some();
		harm_hold(place);
	}
}

static void on_exit_of_child(void)
{
	if (getpid() != harm_page->pid)
		harm_say("atexit in the child");
}

static void fork_some(void)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			exit(3); /* handlers and destructors run, also those of others */
		harm_say("child: %x", status_of(pid));
	}
}

/* A child of a process that uses CUDA, which does not use it itself. */
static void fork_after(void)
{
	harm_page->pid = getpid();
	atexit(on_exit_of_child);
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		fork_some();
		harm_hold(place);
	}
}

static void *spawns(void *data)
{
	char *const arguments[] = { "true", NULL };

	while (!harm_may_leave(HARM_LATE)) {
		pid_t pid;

		if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0 &&
		    status_of(pid))
			harm_say("true failed");
	}
	return data;
}

/* vfork() and exec in one thread, calls in another. */
static void spawner(void)
{
	pthread_t thread;

	harm_begin();
	harm_start(&thread, spawns, NULL);
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	pthread_join(thread, NULL);
	harm_hold(HARM_LAST);
}

/* The same process becomes another program after LATE. */
static void exec_later(void)
{
	harm_begin();
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	harm_arguments[1] = "exec-second";
	execv("/proc/self/exe", harm_arguments);
	harm_say("exec: %s", strerror(errno));
}

static void exec_second(void)
{
	char *none = NULL;
	sigset_t set;

	sigprocmask(SIG_SETMASK, NULL, &set);
	harm_say("blocked after exec: %d", sigismember(&set, SIGUSR1));
	for (int fd = 3; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			harm_say("descriptor %d came through exec", fd);
	(void)none;
	harm_begin();
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

/* The parent ends at once, as that of a daemon. */
static void end_when_it_is_known(void)
{
	while (!harm_page->pid)
		harm_nap(1000);
	_exit(0);
}

static void become_daemon(void)
{
	if (fork())
		end_when_it_is_known();
	setsid();
	if (fork())
		end_when_it_is_known();
	harm_bound();
	if (chdir("/") < 0)
		harm_say("no /");
	harm_page->pid = getpid();
	harm_begin();
	harm_run();
	harm_say("session: %d", getsid(0) != getpid());
}

/* In namespaces of users, processes and mounts; the parent waits. */
static void child_of(int flags, void (*prepare)(void))
{
	pid_t pid;
	int status;

	if (unshare(flags) < 0)
		harm_skip("unshare: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		harm_bound();
		while (!harm_page->pid)
			harm_nap(1000);
		if (prepare)
			prepare();
		harm_begin();
		harm_run();
		exit(harm_page->failures ? 1 : 5);
	}
	harm_page->pid = pid;
	status = status_of(pid);
	harm_say("the child's end: %x", status);
}

static void mount_proc(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		harm_say("no /proc: %s", strerror(errno));
}

static void namespaces(void)
{
	child_of(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS, mount_proc);
}

/* memfd_create() without MFD_NOEXEC_SEAL fails. The sysctl is one of the namespace. */
static void no_exec_files(void)
{
	int fd = open("/proc/sys/vm/memfd_noexec", O_WRONLY | O_CLOEXEC);

	mount_proc();
	if (fd < 0 || write(fd, "2", 1) != 1)
		harm_say("no sysctl");
	close(fd);
	fd = (int)syscall(SYS_memfd_create, "harm", 0);
	harm_say("executable memfd: %s", fd < 0 ? strerror(errno) : "allowed");
}

static void memfd_noexec(void)
{
	if (access("/proc/sys/vm/memfd_noexec", F_OK) < 0)
		harm_skip("no vm.memfd_noexec");
	child_of(CLONE_NEWPID | CLONE_NEWNS, no_exec_files);
}

static void other_user(void)
{
	harm_begin();
	if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		harm_say("setuid: %s", strerror(errno));
	harm_run();
	harm_say("uid %d, dumpable %d", getuid(), prctl(PR_GET_DUMPABLE));
}

static void not_dumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	harm_begin();
	harm_run();
	harm_say("dumpable %d", prctl(PR_GET_DUMPABLE));
}

static void no_new_rights(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	harm_begin();
	harm_run();
}

/* After the start, a root directory without /proc. */
static void changed_root(void)
{
	char folder[] = "/tmp/harm-root-XXXXXX";

	harm_begin();
	if (!mkdtemp(folder) || chdir(folder) < 0 || chroot(".") < 0)
		harm_skip("chroot: %s", strerror(errno));
	harm_run();
	if (chroot("/") == 0)
		(void)!rmdir("/"); /* stays: nothing outside can be named */
}

/* Its parent traces it, as programs do that want no debugger. */
static void guarded(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		harm_bound();
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		harm_page->pid = getpid();
		harm_begin();
		harm_run();
		exit(6);
	}
	for (;;) {
		if (waitpid(pid, &status, __WALL) < 0)
			break;
		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;
		ptrace(PTRACE_CONT, pid, NULL, (void *)(long)WSTOPSIG(status));
	}
	harm_say("the traced child's end: %x", status);
}

static int tasks_of(pid_t pid, pid_t tid[TASKS])
{
	char path[64];
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	for (pid_t each = pid; each < pid + 4096 && count < TASKS; each++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, each);
		if (access(path, F_OK) == 0)
			tid[count++] = each;
	}
	return count;
}

/* The order of calls of a checkpoint: seize and stop every thread, read what is mapped and the
 * memory, let all go. */
static int checkpoint(pid_t pid)
{
	pid_t tid[TASKS];
	int count = tasks_of(pid, tid), stopped = 0, status;
	char path[64], line[512], bytes[MUCH_AT];
	unsigned long start, end, got = 0;
	FILE *maps;

	for (int i = 0; i < count; i++)
		if (ptrace(PTRACE_SEIZE, tid[i], NULL, NULL) == 0 &&
		    ptrace(PTRACE_INTERRUPT, tid[i], NULL, NULL) == 0 &&
		    waitpid(tid[i], &status, __WALL) == tid[i])
			stopped++;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx r", &start, &end) == 2) {
			struct iovec to = { bytes, sizeof(bytes) },
				     from = { (void *)start, sizeof(bytes) };

			got += process_vm_readv(pid, &to, 1, &from, 1, 0) > 0;
		}
	if (maps)
		fclose(maps);
	for (int i = 0; i < count; i++)
		ptrace(PTRACE_DETACH, tid[i], NULL, NULL);
	return stopped == count && got > 10 ? 0 : 1;
}

static void checkpointed_by_child(void)
{
	pid_t own = getpid(), pid = fork();

	if (pid == 0)
		_exit(checkpoint(own));
	harm_say("checkpoint: %x", status_of(pid));
}

static void checkpointed(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_work(ROUNDS);
		harm_hold(place); /* a process has one tracer at a time: ours has gone */
		checkpointed_by_child();
	}
}

/* By a signal at MIDDLE; a child continues it. Who attaches meets a stopped process. */
static void stopped(void)
{
	pid_t own = getpid(), pid;

	harm_begin();
	harm_work(ROUNDS);
	pid = fork();
	if (pid == 0) {
		while (!harm_may_leave(HARM_MIDDLE))
			harm_nap(1000);
		kill(own, SIGCONT);
		_exit(0);
	}
	harm_page->at = HARM_MIDDLE; /* the stop below takes a moment, which does not matter */
	raise(SIGSTOP);
	harm_hold(HARM_MIDDLE);
	harm_say("continued by a child: %x", status_of(pid));
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

static uint64_t late_memory;

static void calls_at_exit(void)
{
	if (getpid() != harm_page->pid)
		return;
	harm_work(3);
	harm_say("free at exit: %d", cuda.cuMemFree_v2(late_memory));
}

__attribute__((destructor)) static void calls_in_destructor(void)
{
	if (late_memory && getpid() == harm_page->pid)
		harm_say("synchronize in a destructor: %d", cuda.cuCtxSynchronize());
}

static void at_exit(void)
{
	harm_page->pid = getpid();
	atexit(calls_at_exit); /* before whatever others register */
	harm_begin();
	harm_say("alloc: %d", cuda.cuMemAlloc_v2(&late_memory, 4096));
	harm_run();
	exit(4);
}

static void quick_end(void)
{
	harm_begin();
	harm_run();
	_exit(9);
}

static void aborts(void)
{
	harm_begin();
	harm_run();
	abort();
}

static void *exits(void *data)
{
	harm_hold(HARM_LAST);
	exit(8);
	return data;
}

/* exit() on a second thread, while the first is in calls. */
static void exit_elsewhere(void)
{
	pthread_t thread;

	harm_begin();
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	harm_start(&thread, exits, NULL);
	for (;;)
		cuda.cuEventQuery(NULL); /* fails, and is harmless while the process ends */
}

const struct harm_case harm_processes[] = {
	{ "fork-server", fork_server },
	{ "fork-after", fork_after },
	{ "spawner", spawner },
	{ "exec-later", exec_later },
	{ "exec-second", exec_second },
	{ "daemon", become_daemon },
	{ "namespaces", namespaces },
	{ "memfd-noexec", memfd_noexec },
	{ "other-user", other_user },
	{ "not-dumpable", not_dumpable },
	{ "no-new-rights", no_new_rights },
	{ "changed-root", changed_root },
	{ "guarded", guarded },
	{ "checkpointed", checkpointed },
	{ "stopped", stopped },
	{ "at-exit", at_exit },
	{ "quick-end", quick_end },
	{ "aborts", aborts },
	{ "exit-elsewhere", exit_elsewhere },
	{ NULL, NULL },
};
