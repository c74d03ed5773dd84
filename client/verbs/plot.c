/* tsctl plot: one picture, as SVG or PNG. */
#include "client/report/plot.h"

#include <string.h>

#include "client/base/argument.h"
#include "client/output/outfile.h"
#include "client/verbs/command.h"

int cmd_plot(const struct options *given, int count, char **argument)
{
	struct options options = *given;

	if (argument_file(&options, count - 1, argument + 1) < 0)
		return EXIT_USAGE;
	if (!options.output) {
		complain("Missing output file: give -o FILE.svg or FILE.png, or '-' for standard "
			 "output");
		return EXIT_USAGE;
	}
	if (options.given & OPTION(FOLLOW) && (options.file || strcmp(options.output, "-") == 0)) {
		complain("--follow draws what the daemon sees into a file: it goes neither with a "
			 "recording nor with '-o -'");
		return EXIT_USAGE;
	}
	if (outfile_spare(options.output, options.file) < 0)
		return EXIT_USAGE;
	return plot_run(&options, argument[0]);
}
