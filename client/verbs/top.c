/* tsctl top: what devices and processes do, each second. */
#include "client/top/top.h"

#include "client/verbs/command.h"

int cmd_top(const struct options *options, int count, char **argument)
{
	if (options->given & (OPTION(ONCE) | OPTION(JSON)))
		return top_once(options);
	return top_screen(options);
}
