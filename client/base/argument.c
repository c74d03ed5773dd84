/* Argument: the arguments that verbs share: a process, a recording, a window of time. */
#include "client/base/argument.h"

#include <errno.h>
#include <limits.h>

#include "client/base/complain.h"
#include "core/base/time.h"
#include "core/base/units.h"

#define WINDOW_NS (10 * NS_PER_S) /* without --since, see argument_window */

int argument_pid(const char *text, uint32_t *ret)
{
	uint64_t pid;

	if (units_parse_count(text, &pid) < 0 || pid == 0 || pid > INT_MAX) {
		complain("'%s' is not a process ID: see 'tsctl ps'", text);
		return -EINVAL;
	}
	*ret = (uint32_t)pid;
	return 0;
}

int argument_file(struct options *options, int count, char **argument)
{
	if (count == 0)
		return 0;
	if (options->file) {
		complain("Give one recording, not both '%s' and '%s'", argument[0], options->file);
		return -EINVAL;
	}
	options->file = argument[0];
	return 0;
}

bool argument_window(struct options *options)
{
	if (options->file || options->given & OPTION(SINCE))
		return false;
	options->since = (struct moment){ .ago = true };
	if (options->given & OPTION(UNTIL))
		options->since = options->until;
	if (!options->since.ago)
		options->since.ns -= WINDOW_NS;
	else if (options->since.ns < INT64_MAX - WINDOW_NS)
		options->since.ns += WINDOW_NS;
	options->given |= OPTION(SINCE);
	return true;
}
