/* Program: one fork, and lists of children in /proc. */
#include "client/record/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/record/launch.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/vector.h"

#define KIN_MAX	    65536
#define EXIT_SIGNAL 128 /* as in the shells: plus the signal */

static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
static volatile pid_t receiver;

/* The terminal sends its signals to the program as well. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	if (receiver > 0 && info->si_code != SI_KERNEL)
		kill(receiver, number);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
		sigaction(passed_on[i], &action, NULL);
}

static bool add_kin(struct record_program *program, uint32_t pid)
{
	for (size_t i = 0; i < program->kin_count; i++)
		if (program->kin[i].pid == pid)
			return false;
	if (program->kin_count == KIN_MAX)
		return false;
	if (VECTOR_ROOM(program->kin, program->kin_room, program->kin_count + 1) < 0) {
		complain_memory();
		return false;
	}
	program->kin[program->kin_count++] = (struct record_kin){ .pid = pid };
	return true;
}

/* Writes errno to the pipe if the program cannot be executed. */
static void execute(char **argument, int report)
{
	int error;

	execvp(argument[0], argument);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(EXIT_FAILED);
	_exit(EXIT_CANNOT_RUN);
}

int record_program_start(struct record_program *program, char **argument)
{
	_cleanup_(closep) int report = -1;
	int ends[2], error;

	*program = (struct record_program){ .name = argument[0] };
	if (pipe2(ends, O_CLOEXEC) < 0)
		return complain("Cannot start '%s': %s", argument[0], strerror(errno));
	report = ends[0];
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(NULL);
	program->pid = fork();
	if (program->pid == 0)
		execute(argument, ends[1]);
	close(ends[1]);
	if (program->pid < 0)
		return complain("Cannot start '%s': %s", argument[0], strerror(errno));
	receiver = program->pid;
	catch_signals();
	add_kin(program, (uint32_t)getpid());
	add_kin(program, (uint32_t)program->pid);
	if (read(report, &error, sizeof(error)) != sizeof(error))
		return 0;
	waitpid(program->pid, NULL, 0);
	receiver = 0;
	return launch_failed(argument[0], error);
}

static void reap(struct record_program *program)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != program->pid)
			continue;
		receiver = 0;
		program->ended = true;
		program->status = status;
	}
}

static void take_children(struct record_program *program, uint32_t pid, const char *thread)
{
	char path[64];
	uint32_t child;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%.20s/children", pid, thread);
	file = fopen(path, "re");
	if (!file && errno == ENOMEM)
		complain_memory();
	while (file && fscanf(file, "%" SCNu32, &child) == 1)
		add_kin(program, child);
	if (file)
		fclose(file);
}

static void look_at(struct record_program *program, size_t i)
{
	uint32_t pid = program->kin[i].pid;
	struct dirent *entry;
	char path[64];
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task", pid);
	threads = opendir(path);
	if (!threads && errno == ENOMEM)
		complain_memory();
	program->kin[i].ended = !threads && errno == ENOENT;
	while (threads && (entry = readdir(threads)))
		if (*entry->d_name != '.')
			take_children(program, pid, entry->d_name);
	if (threads)
		closedir(threads);
}

void record_program_look(struct record_program *program)
{
	/* New ones are appended, and examined in turn. */
	for (size_t i = 0; i < program->kin_count; i++)
		if (!program->kin[i].ended)
			look_at(program, i);
	reap(program);
}

bool record_program_owns(struct record_program *program, uint32_t pid, uint32_t ppid)
{
	for (size_t i = 0; i < program->kin_count; i++) {
		if (program->kin[i].pid == pid)
			return pid != (uint32_t)getpid();
		if (program->kin[i].pid != ppid)
			continue;
		add_kin(program, pid);
		return true;
	}
	return false;
}

int record_program_exit_status(const struct record_program *program)
{
	return WIFSIGNALED(program->status) ? EXIT_SIGNAL + WTERMSIG(program->status)
					    : WEXITSTATUS(program->status);
}

void record_program_done(struct record_program *program)
{
	free(program->kin);
	*program = (struct record_program){ 0 };
}
