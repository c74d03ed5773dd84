/* tsctl version: prints our version, and the daemon's if it answers. */
#include <stdio.h>
#include <unistd.h>

#include "client/link/link.h"
#include "client/verbs/command.h"

int cmd_version(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;

	printf("tsctl %s\n", TS_VERSION);
	fflush(stdout);
	if (link_open(options, &link) < 0)
		return EXIT_FAILED;
	printf("tracesmithd %s\n", link_hello(link)->version);
	return EXIT_DONE;
}
