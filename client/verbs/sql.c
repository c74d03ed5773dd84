/* tsctl sql: runs one statement, unchanged. */
#include <string.h>

#include "client/link/ask.h"
#include "client/verbs/command.h"

int cmd_sql(const struct options *options, int count, char **argument)
{
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;

	if (!argument[0][strspn(argument[0], " \t\r\n;")]) {
		complain("Missing statement: tsctl sql 'SELECT ...'");
		return EXIT_USAGE;
	}
	sql.text = argument[0];
	sql.limit = options->limit;
	sql.timeout_ns = options->timeout_ns;
	return ask(options, &sql.base, "sql");
}
