/* tsctl ps: lists the processes that use CUDA now. */
#include "client/link/ask.h"
#include "client/verbs/command.h"

int cmd_ps(const struct options *options, int count, char **argument)
{
	return ask_query(options, "ps");
}
