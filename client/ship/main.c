/* tracesmith-ship: sends what tracesmithd knows of this host to the ClickHouse of a fleet. This
 * file only parses its options. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/ship/ship.h"
#include "client/ship/status.h"
#include "client/ship/window.h"
#include "core/base/log.h"
#include "core/base/units.h"

#define STATE_PATH "/var/lib/tracesmith-ship"

enum { EXIT_USAGE = 2, EXIT_SETTINGS = 78 /* EX_CONFIG: systemd does not restart it */ };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' }, { "state-dir", required_argument, NULL, 'd' },
	{ "status", required_argument, NULL, 'S' }, { "socket", required_argument, NULL, 's' },
	{ "once", no_argument, NULL, 'o' },	    { "window", required_argument, NULL, 'w' },
	{ "check", no_argument, NULL, 'C' },	    { "print-config", no_argument, NULL, 'P' },
	{ "verbose", no_argument, NULL, 'v' },	    { "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },	    { NULL, 0, NULL, 0 },
};

static const char help[] =
	"Usage: tracesmith-ship [OPTION]…\n"
	"Send what tracesmithd knows of this host to the ClickHouse of a fleet.\n"
	"\n"
	"  -c, --config FILE    read settings from FILE (" SETTINGS_PATH ")\n"
	"  -d, --state-dir DIR  keep there what was sent (" STATE_PATH ")\n"
	"      --status FILE    say there how it goes (" STATUS_PATH ")\n"
	"  -s, --socket PATH    the daemon's control socket, overriding the settings\n"
	"      --once           send all that there is now, and exit\n"
	"      --window TIME    send the single operations of the last TIME (30s, 5m), and exit\n"
	"      --check          check settings, daemon and server, and exit\n"
	"      --print-config   print all settings with their defaults and exit\n"
	"  -v, --verbose        log everything\n"
	"      --version        print the version and exit\n"
	"  -h, --help           print this help and exit\n";

struct arguments {
	const char *config, *state, *status, *socket;
	uint64_t window_ns; /* 0: none */
	bool once, check, print, verbose, version, help;
};

static int parse_window(const char *text, uint64_t *ret_ns)
{
	if (units_parse_duration(text, ret_ns) == 0 && *ret_ns > 0 && *ret_ns <= WINDOW_MAX_NS)
		return 0;
	fprintf(stderr,
		"tracesmith-ship: --window needs a duration of at most 10m, such as 30s (got "
		"'%s')\n",
		text);
	return -EINVAL;
}

static int arguments_parse(int argc, char **argv, struct arguments *ret)
{
	int option;

	while ((option = getopt_long(argc, argv, "c:d:s:vh", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			ret->config = optarg;
			break;
		case 'd':
			ret->state = optarg;
			break;
		case 'S':
			ret->status = optarg;
			break;
		case 's':
			ret->socket = optarg;
			break;
		case 'o':
			ret->once = true;
			break;
		case 'w':
			if (parse_window(optarg, &ret->window_ns) < 0)
				return -1;
			break;
		case 'C':
			ret->check = true;
			break;
		case 'P':
			ret->print = true;
			break;
		case 'v':
			ret->verbose = true;
			break;
		case 'V':
			ret->version = true;
			break;
		case 'h':
			ret->help = true;
			break;
		default:
			return -1;
		}
	}
	if (optind == argc)
		return 0;
	fprintf(stderr, "tracesmith-ship: unexpected argument '%s'; see tracesmith-ship --help\n",
		argv[optind]);
	return -1;
}

static int run(const struct arguments *arguments, struct settings *settings)
{
	_cleanup_(ship_freep) struct ship *ship = NULL;
	int r;

	if (arguments->window_ns)
		return window_ship(settings, -1, arguments->window_ns) < 0 ? EXIT_FAILURE
									   : EXIT_SUCCESS;
	r = ship_new(settings, arguments->state, arguments->status, &ship);
	if (r == 0 && arguments->check) {
		r = ship_check(ship);
		if (r == 0)
			printf("Settings, daemon and server are fine.\n");
	} else if (r == 0) {
		r = ship_run(ship, arguments->once);
	}
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int start(const struct arguments *arguments)
{
	char why[WHY_BYTES] = "";
	struct settings settings;
	/* A window is sent for somebody who waits for it, in place of tsctl. */
	int status = arguments->window_ns ? EXIT_FAILURE : EXIT_SETTINGS;

	log_set_level(arguments->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
	if (settings_read(arguments->config, arguments->socket, &settings, why) < 0)
		log_error("%s", why);
	else
		status = run(arguments, &settings);
	settings_done(&settings);
	return status;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .config = SETTINGS_PATH,
				       .state = STATE_PATH,
				       .status = STATUS_PATH };

	if (arguments_parse(argc, argv, &arguments) < 0)
		return EXIT_USAGE;
	if (arguments.help)
		fputs(help, stdout);
	else if (arguments.version)
		printf("tracesmith-ship %s\n", TS_VERSION);
	else if (arguments.print)
		settings_print(stdout);
	else
		return start(&arguments);
	return EXIT_SUCCESS;
}
