/* tsctl ps: the processes that use CUDA now. */
#include "client/ask.h"
#include "client/command.h"

int cmd_ps(const struct options *options, int count, char **argument)
{
	return ask_query(options, "ps");
}
