/* tsctl: the client of tracesmithd. A verb's row in command_table says what it takes and does. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/options.h"
#include "client/file/serve.h"
#include "client/verbs/command.h"
#include "core/base/distance.h"
#include "proto/paths.h"

static const struct command *find(const char *name)
{
	const struct command *command = command_find(name);

	if (command)
		return command;
	for (command = command_table; command->name; command++)
		if (distance_near(name, command->name))
			break;
	if (command->name)
		complain("Unknown command '%s': did you mean '%s'?", name, command->name);
	else
		complain("Unknown command '%s': see 'tsctl help'", name);
	return NULL;
}

static int run(const struct command *command, struct options *options, int argc, char **argv)
{
	int first = options_parse(options, command->options | OPTIONS_COMMON, command->name,
				  command->arguments_max == ARGUMENTS_FOREIGN, argc, argv);

	if (first < 0)
		return EXIT_USAGE;
	if (options->given & OPTION(HELP)) {
		command_usage(command);
		return EXIT_DONE;
	}
	if (argc - first < command->arguments_min || argc - first > command->arguments_max) {
		complain("%s: see 'tsctl %s --help'",
			 argc - first < command->arguments_min ? "Missing argument"
							       : "Too many arguments",
			 command->name);
		return EXIT_USAGE;
	}
	return command->run(options, argc - first, argv + first);
}

int main(int argc, char **argv)
{
	struct options options = { .socket = getenv(TS_ENV_SOCKET), .files = &file_serve };
	const struct command *command;
	int first, status;

	setlocale(LC_TIME, "");
	if (!options.socket || !*options.socket)
		options.socket = TS_PATH_CONTROL_SOCKET;
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		argv[1] = "version";
	first = options_parse(&options, OPTIONS_COMMON, NULL, false, argc, argv);
	if (first < 0)
		return EXIT_USAGE;
	if (options.given & OPTION(HELP))
		return cmd_help(&options, 0, NULL);
	if (first == argc) {
		complain("Missing command: see 'tsctl help'");
		return EXIT_USAGE;
	}
	command = find(argv[first]);
	if (!command)
		return EXIT_USAGE;
	if (command->arguments_max != ARGUMENTS_FOREIGN)
		signal(SIGPIPE, SIG_DFL); /* our reader has had enough: end quietly */
	status = run(command, &options, argc - first, argv + first);
	if (fflush(stdout) != 0 || ferror(stdout))
		return complain("Cannot write the output: %s", strerror(errno));
	return complain_is_short() ? EXIT_FAILED : status;
}
