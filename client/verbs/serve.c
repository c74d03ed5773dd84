/* tsctl serve: an HTTP server for what the daemon, or a recording, knows. */
#include "client/serve/serve.h"

#include <stddef.h>

#include "client/base/argument.h"
#include "client/base/complain.h"
#include "client/verbs/command.h"

int cmd_serve(const struct options *given, int count, char **argument)
{
	struct options options = *given;

	return argument_file(&options, count, argument) < 0
		       ? EXIT_USAGE
		       : serve(&options, count > 1 ? argument[1] : NULL);
}
