/* python_fixture.h: a Python that parks its threads and says where (python_parked.py), and what it
 * says. */
#ifndef TS_PYTHON_FIXTURE_H
#define TS_PYTHON_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIDS_MAX   64
#define FRAMES_MAX 128

struct truth_thread {
	uint32_t tid;
	size_t count;
	char *frame[FRAMES_MAX]; /* "function|file|line" */
};

struct parked {
	pid_t child, pid; /* what we started; who parks: itself or its child */
	FILE *out;
	struct truth_thread thread[TIDS_MAX];
	size_t count;
	char **line; /* the lines of code and ranges */
	size_t line_count;
};

static inline void parked_take(struct parked *parked, char *line)
{
	struct truth_thread *last = parked->count ? &parked->thread[parked->count - 1] : NULL;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "pid %d", &parked->pid) == 1)
		return;
	if (strncmp(line, "thread ", 7) == 0) {
		assert_true(parked->count < TIDS_MAX);
		parked->thread[parked->count++].tid = (uint32_t)strtoul(line + 7, NULL, 10);
	} else if (strncmp(line, "frame ", 6) == 0) {
		assert_true(last && last->count < FRAMES_MAX);
		last->frame[last->count++] = strdup(line + 6);
	} else {
		parked->line = realloc(parked->line, (parked->line_count + 1) * sizeof(char *));
		parked->line[parked->line_count++] = strdup(line);
	}
}

/* Starts it and waits until it has said everything. False: it ended before, and says why. */
static inline bool parked_start(struct parked *parked, const char *python, const char *how)
{
	char *line = NULL;
	bool whole = false;
	size_t room = 0;
	int fd[2];

	*parked = (struct parked){ 0 };
	assert_int_equal(pipe(fd), 0);
	parked->child = fork();
	if (parked->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fd[1], STDOUT_FILENO);
		close(fd[0]);
		execl(python, python, "-B", PYTHON_PARKED, how, NULL);
		_exit(127);
	}
	close(fd[1]);
	parked->out = fdopen(fd[0], "r");
	while (!whole && getline(&line, &room, parked->out) > 0) {
		whole = strcmp(line, "end\n") == 0;
		if (!whole)
			parked_take(parked, line);
	}
	free(line);
	return whole && parked->pid != 0;
}

static inline void parked_stop(struct parked *parked)
{
	if (parked->pid && parked->pid != parked->child)
		kill(parked->pid, SIGKILL);
	kill(parked->child, SIGKILL);
	waitpid(parked->child, NULL, 0);
	fclose(parked->out);
	for (size_t i = 0; i < parked->count; i++)
		for (size_t k = 0; k < parked->thread[i].count; k++)
			free(parked->thread[i].frame[k]);
	for (size_t i = 0; i < parked->line_count; i++)
		free(parked->line[i]);
	free(parked->line);
}

static inline size_t parked_tids(const struct parked *parked, uint32_t tid[TIDS_MAX])
{
	char path[64];
	struct dirent *entry;
	size_t count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", parked->pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)) && count < TIDS_MAX)
		if (entry->d_name[0] != '.')
			tid[count++] = (uint32_t)strtoul(entry->d_name, NULL, 10);
	closedir(dir);
	return count;
}

/* Debian's own, and what pyenv has. Calls for each that is there and says which are not. */
static inline void each_python(void (*call)(const char *python, const char *version))
{
	static const char *const versions[] = { "3.9", "3.10", "3.11", "3.12", "3.13", "3.14" };
	char pattern[64];
	glob_t found;

	if (access("/usr/bin/python3", X_OK) == 0)
		call("/usr/bin/python3", "/usr/bin/python3");
	else
		print_message("SKIPPED /usr/bin/python3: it is not there\n");
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		snprintf(pattern, sizeof(pattern), "/root/.pyenv/versions/%s.[0-9]*/bin/python%s",
			 versions[i], versions[i]);
		if (glob(pattern, 0, NULL, &found) == 0)
			call(found.gl_pathv[0], versions[i]);
		else
			print_message("SKIPPED Python %s: it is not in /root/.pyenv\n",
				      versions[i]);
		globfree(&found);
	}
}

#endif
