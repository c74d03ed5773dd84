/* tsctl report: what a process or a recording did, in one file for a ticket or a mail. */
#include "client/report/report.h"

#include <string.h>

#include "client/base/argument.h"
#include "client/output/outfile.h"
#include "client/verbs/command.h"

static bool is_number(const char *text)
{
	return text[strspn(text, "0123456789")] == '\0';
}

int cmd_report(const struct options *given, int count, char **argument)
{
	struct options options = *given;
	uint32_t pid;

	if (count > 0 && is_number(argument[0])) {
		if (options.given & OPTION(PID)) {
			complain("Give one process, as an argument or with --pid");
			return EXIT_USAGE;
		}
		if (argument_pid(argument[0], &pid) < 0)
			return EXIT_USAGE;
		options.pid = pid;
		options.given |= OPTION(PID);
	} else if (argument_file(&options, count, argument) < 0) {
		return EXIT_USAGE;
	}
	if (!options.output) {
		complain("Missing output file: give -o report.html, or '-' for standard output");
		return EXIT_USAGE;
	}
	if (outfile_spare(options.output, options.file) < 0)
		return EXIT_USAGE;
	return report_run(&options, options.given & OPTION(MARKDOWN));
}
