/* tsctl fleet: the data of many hosts, in ClickHouse. */
#include <string.h>

#include "client/fleet/fleet.h"
#include "client/verbs/command.h"

int cmd_fleet(const struct options *options, int count, char **argument)
{
	const char *what = argument[0];
	bool init = strcmp(what, "init") == 0;

	if (strcmp(what, "export") != 0 && options->given & (OPTION(PERFETTO) | OPTION(OUTPUT))) {
		complain("--perfetto and -o are for 'tsctl fleet export'");
		return EXIT_USAGE;
	}
	if (init && count == 1)
		return fleet_init(options);
	if (strcmp(what, "query") == 0 && count == 2)
		return fleet_query(options, argument[1]);
	if (strcmp(what, "sql") == 0 && count == 2)
		return fleet_sql(options, argument[1]);
	if (strcmp(what, "export") == 0 && count == 1)
		return fleet_export(options);
	if (strcmp(what, "window") == 0 && count == 1)
		return fleet_request(options);
	if (strcmp(what, "query") == 0 || strcmp(what, "sql") == 0)
		complain("Missing argument: see 'tsctl fleet --help'");
	else if (init || strcmp(what, "export") == 0 || strcmp(what, "window") == 0)
		complain("Too many arguments: see 'tsctl fleet --help'");
	else
		complain("'%s' is none of init, query, export, window and sql: see 'tsctl fleet "
			 "--help'",
			 what);
	return EXIT_USAGE;
}
