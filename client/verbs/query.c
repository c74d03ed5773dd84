/* tsctl query: runs one of the daemon's queries, or lists them. */
#include <string.h>

#include "client/link/ask.h"
#include "client/verbs/command.h"

int cmd_query(const struct options *options, int count, char **argument)
{
	Tracesmith__V1__ListRequest list = TRACESMITH__V1__LIST_REQUEST__INIT;

	if (strcmp(argument[0], "list") != 0)
		return ask_query(options, argument[0]);
	return ask(options, &list.base, "list");
}
