/* tsctl view: shows the operations of a recording, or of the daemon's last seconds, as text. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>

#include "client/base/argument.h"
#include "client/output/pattern.h"
#include "client/verbs/command.h"
#include "client/view/view.h"

#define WIDTH_DEFAULT 80
#define WIDTH_MIN     20
#define WIDTH_MAX     1000

static size_t terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	long width = columns ? strtol(columns, NULL, 10) : 0;

	if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		width = size.ws_col;
	if (width <= 0)
		return WIDTH_DEFAULT;
	return width < WIDTH_MAX ? (size_t)width : WIDTH_MAX;
}

static bool is_utf8(void)
{
	locale_t locale = newlocale(LC_CTYPE_MASK, "", 0);
	bool utf8 = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;

	if (locale)
		freelocale(locale);
	return utf8;
}

static int read_regex(struct view *view, const char *text)
{
	char why[PATTERN_WHY_BYTES];
	int r = pattern_compile(text, 0, &view->name, why);

	if (r < 0)
		complain("Invalid --kernel '%s': %s", text, why);
	view->by_name = r == 0;
	return r;
}

static void view_done(struct view *view)
{
	if (view->by_name)
		regfree(&view->name);
	map_clear(&view->matches);
	trace_done(&view->trace);
}

static int run(struct view *view)
{
	if (view->options->given & OPTION(TREE))
		return view_tree(view);
	if (view->options->given & OPTION(LANES))
		return view_lanes(view);
	return view_list(view);
}

static int check(const struct options *options, size_t width)
{
	const char *sentence = NULL;

	if (options->given & OPTION(TREE) && options->given & OPTION(LANES))
		sentence = "--tree and --lanes exclude each other";
	else if (options->given & OPTION(LANES) && options->given & OPTIONS_TABLE)
		sentence = "--lanes draws on a terminal only: leave out --json";
	else if (options->given & OPTION(LANES) && options->given & OPTION(LIMIT))
		sentence = "--limit does not apply to --lanes: narrow them with --from, --to and "
			   "--stream";
	if (sentence)
		complain("%s", sentence);
	else if (options->given & OPTION(LANES) && width < WIDTH_MIN)
		complain("Lanes need %d columns, and this terminal has %zu: widen it, or leave out "
			 "--lanes",
			 WIDTH_MIN, width);
	else
		return 0;
	return -EINVAL;
}

int cmd_view(const struct options *given, int count, char **argument)
{
	struct options options = *given;
	_cleanup_(view_done) struct view view = {
		.options = &options,
		.out = stdout,
		.width = terminal_width(),
		.color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR"),
		.utf8 = isatty(STDOUT_FILENO) && is_utf8(),
	};
	int r;

	if (check(&options, view.width) < 0 ||
	    (options.kernel && read_regex(&view, options.kernel) < 0) ||
	    argument_file(&options, count, argument) < 0)
		return EXIT_USAGE;
	argument_window(&options);
	if (trace_open(&options, &view.trace) < 0)
		return EXIT_FAILED;
	r = run(&view);
	if (r == -ENOMEM)
		complain_memory();
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
