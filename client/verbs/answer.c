/* tsctl answer: stands in for the daemon on standard input, for a program that reads a recording.
 */
#include <errno.h>
#include <unistd.h>

#include "client/file/serve.h"
#include "client/verbs/command.h"

int cmd_answer(const struct options *options, int count, char **argument)
{
	int r = file_serve_socket(argument[0], STDIN_FILENO);

	if (r == -ENOTSOCK) {
		complain("Standard input is not a connected socket: see 'tsctl answer --help'");
		return EXIT_USAGE;
	}
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
