/* Launch: finds the library and the daemon's socket, and names them in the environment. */
#include "client/record/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/library/connection.h"
#include "core/base/beside.h"
#include "core/base/cleanup.h"
#include "proto/event.h"
#include "proto/paths.h"

#define ENV_CUDA "CUDA_INJECTION64_PATH" /* read by cuInit */
#define ENV_NVTX "NVTX_INJECTION64_PATH" /* read by the first NVTX call */

static int find_library(char ret[PATH_MAX])
{
	_cleanup_(freep) char *path = beside_find(TS_INJECT_LIBRARY);

	if (!path)
		return complain_memory();
	if (access(path, R_OK) < 0 || !realpath(path, ret))
		return complain("Cannot find " TS_INJECT_LIBRARY
				" beside tsctl or at '%s': install all of tracesmith",
				path);
	return 0;
}

/* Beside the control socket, as an absolute path, since the program may change its directory. */
static int find_socket(const struct options *options, char ret[PATH_MAX])
{
	const char *given = getenv(TS_ENV_INJECT_SOCKET);
	char directory[PATH_MAX], absolute[PATH_MAX];
	char *slash;

	if (given && *given)
		return snprintf(ret, PATH_MAX, "%s", given) < PATH_MAX ? 0 : -ENAMETOOLONG;
	if (snprintf(directory, PATH_MAX, "%s", options->socket) >= PATH_MAX)
		return -ENAMETOOLONG;
	slash = strrchr(directory, '/');
	if (slash)
		slash[1] = '\0';
	else
		strcpy(directory, ".");
	/* It may not exist yet. */
	if (!realpath(directory, absolute))
		strcpy(absolute, directory);
	slash = absolute + strlen(absolute);
	while (slash > absolute && slash[-1] == '/')
		*--slash = '\0';
	return snprintf(ret, PATH_MAX, "%s/" TS_INJECT_SOCKET_NAME, absolute) < PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

static void warn_of_silence(const char *path, const char *program)
{
	_cleanup_(closep) int r = connection_dial(path, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	if (r == -ENOENT || r == -ECONNREFUSED)
		complain("No daemon listens on %s: %s runs, and is recorded as soon as one does "
			 "('systemctl start tracesmithd')",
			 path, program);
	else if (r < 0 && r != -EAGAIN)
		complain("Cannot connect to %s (%s): %s runs without being recorded", path,
			 strerror(-r), program);
}

/* Sets a variable that can name only one library. */
static int claim(const char *variable, const char *library)
{
	const char *other = getenv(variable);

	if (other && *other && strcmp(other, library) != 0)
		return -EBUSY;
	return setenv(variable, library, 1) < 0 ? -errno : 0;
}

static int set_number(const char *variable, uint32_t number)
{
	char text[16];

	if (number == 0)
		return unsetenv(variable) < 0 ? -errno : 0;
	snprintf(text, sizeof(text), "%u", number);
	return setenv(variable, text, 1) < 0 ? -errno : 0;
}

/* Where the library says what the user is to know, as long as the program has it there. */
static int set_stderr(void)
{
	struct stat file;
	char name[48];

	if (fstat(STDERR_FILENO, &file) < 0)
		return unsetenv(TS_ENV_STDERR);
	snprintf(name, sizeof(name), TS_FILE_NAME, (uintmax_t)file.st_dev, (uintmax_t)file.st_ino);
	return setenv(TS_ENV_STDERR, name, 1);
}

static int set_environment(const struct options *options, const char *library, const char *socket)
{
	uint32_t records = options->records ? options->records : TS_RECORDS_DEFAULT;
	bool light = options->given & OPTION(LIGHT);
	int r = claim(ENV_CUDA, library);

	if (r == -EBUSY) {
		complain(ENV_CUDA " already names another profiler's library, '%s': unset it first",
			 getenv(ENV_CUDA));
		return r;
	}
	if (r == 0 && !light && (records & TS_RECORD_RANGES))
		r = claim(ENV_NVTX, library);
	if (r == -EBUSY) {
		complain(ENV_NVTX " is already set to '%s': NVTX ranges are not recorded",
			 getenv(ENV_NVTX));
		r = 0;
	}
	if (r < 0 || setenv(TS_ENV_INJECT_SOCKET, socket, 1) < 0 ||
	    set_number(TS_ENV_RECORDS, options->records) < 0 ||
	    set_number(TS_ENV_STACKS, options->stacks) < 0 ||
	    set_number(TS_ENV_BUDGET, options->budget_ppm) < 0 ||
	    set_number(TS_ENV_LIGHT, light) < 0 || set_stderr() < 0) {
		complain_memory();
		return -ENOMEM;
	}
	return 0;
}

int launch_prepare(const struct options *options, const char *program)
{
	char library[PATH_MAX], socket[PATH_MAX];

	if (find_library(library) != 0)
		return -ENOENT;
	if (find_socket(options, socket) < 0) {
		complain("The path of the daemon's socket is too long");
		return -ENAMETOOLONG;
	}
	if (set_environment(options, library, socket) < 0)
		return -EINVAL;
	warn_of_silence(socket, program);
	return 0;
}

int launch_failed(const char *program, int error)
{
	complain("Cannot run '%s': %s", program, strerror(error));
	return error == ENOENT ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN;
}
