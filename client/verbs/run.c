/* tsctl run: becomes the program, with an environment that makes the driver load the library.
 * Nothing of tsctl remains: exit status, signals and standard streams are the program's own. */
#include <errno.h>
#include <unistd.h>

#include "client/record/launch.h"
#include "client/verbs/command.h"

int cmd_run(const struct options *options, int count, char **argument)
{
	if (launch_prepare(options, argument[0]) < 0)
		return EXIT_FAILED;
	execvp(argument[0], argument);
	return launch_failed(argument[0], errno);
}
