/* tsctl serve: an HTTP server for what the daemon knows. */
#include "client/serve/serve.h"

#include "client/verbs/command.h"

int cmd_serve(const struct options *options, int count, char **argument)
{
	return serve(options);
}
