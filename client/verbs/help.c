/* tsctl help: lists the verbs, or describes one. */
#include <stdio.h>

#include "client/verbs/command.h"
#include "proto/paths.h"

int cmd_help(const struct options *options, int count, char **argument)
{
	const struct command *command;

	if (count) {
		command = command_find(argument[0]);
		if (!command) {
			complain("Unknown command '%s': see 'tsctl help'", argument[0]);
			return EXIT_USAGE;
		}
		command_usage(command);
		return EXIT_DONE;
	}
	printf("Usage: tsctl [--socket PATH] COMMAND [OPTION...]\n\n");
	for (command = command_table; command->name; command++)
		printf("  %-10s %s\n", command->name, command->summary);
	printf("\n'tsctl COMMAND --help' describes a command. tsctl reaches the daemon at "
	       "--socket, at "
	       "$" TS_ENV_SOCKET ",\nor at " TS_PATH_CONTROL_SOCKET ".\n");
	return EXIT_DONE;
}
