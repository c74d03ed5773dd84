/* tracesmithd: traces every CUDA process on this host. This file only parses its options. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/api/refuse.h"
#include "daemon/daemon.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "proto/paths.h"

enum { EXIT_USAGE = 2, EXIT_SETTINGS = 78 /* EX_CONFIG: systemd does not restart it */ };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' }, { "check-config", no_argument, NULL, 'C' },
	{ "print-config", no_argument, NULL, 'P' }, { "reload", required_argument, NULL, 'R' },
	{ "socket", required_argument, NULL, 's' }, { "state-dir", required_argument, NULL, 'd' },
	{ "verbose", no_argument, NULL, 'v' },	    { "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },	    { NULL, 0, NULL, 0 },
};

static const char help[] =
	"Usage: tracesmithd [OPTION]…\n"
	"Trace every CUDA process on this host without changing it.\n"
	"\n"
	"  -c, --config FILE    read settings from FILE (" TS_PATH_SETTINGS ")\n"
	"      --check-config   check the settings and exit\n"
	"      --reload PID     check the settings; if they are valid, make that daemon\n"
	"                       reread them, and exit\n"
	"      --print-config   print all settings with their defaults and exit\n"
	"  -s, --socket PATH    control socket, overriding the settings; the inject socket\n"
	"                       is then in the same directory\n"
	"  -d, --state-dir DIR  database directory, overriding the settings\n"
	"  -v, --verbose        log everything\n"
	"      --version        print the version and exit\n"
	"  -h, --help           print this help and exit\n"
	"\n"
	"Example: run a second daemon, with a directory of its own:\n"
	"  tracesmithd --socket /tmp/ts/control.sock --state-dir /tmp/ts\n";

struct arguments {
	const char *config, *reload, *socket, *state_dir;
	bool check, print, verbose, version, help;
};

static int arguments_parse(int argc, char **argv, struct arguments *ret)
{
	int option;

	while ((option = getopt_long(argc, argv, "c:s:d:vh", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			ret->config = optarg;
			break;
		case 's':
			ret->socket = optarg;
			break;
		case 'd':
			ret->state_dir = optarg;
			break;
		case 'C':
			ret->check = true;
			break;
		case 'R':
			ret->reload = optarg;
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
			return -EINVAL;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "tracesmithd: unexpected argument '%s'; see tracesmithd --help\n",
			argv[optind]);
		return -EINVAL;
	}
	return 0;
}

/* A daemon with a control socket of its own has its inject socket in the same directory. */
static int config_put_inject_socket(struct config *config)
{
	const char *slash = strrchr(config->control_socket, '/');
	int length = slash ? (int)(slash + 1 - config->control_socket) : 0;
	char *path;

	if (asprintf(&path, "%.*s%s", length, config->control_socket, TS_INJECT_SOCKET_NAME) < 0)
		return -ENOMEM;
	free(config->inject_socket);
	config->inject_socket = path;
	return 0;
}

static int config_apply(struct config *config, const struct arguments *arguments)
{
	char **places[] = { &config->control_socket, &config->state_dir };
	const char *values[] = { arguments->socket, arguments->state_dir };

	for (size_t i = 0; i < 2; i++) {
		if (!values[i])
			continue;
		free(*places[i]);
		*places[i] = strdup(values[i]);
		if (!*places[i])
			return -ENOMEM;
	}
	if (arguments->socket && config_put_inject_socket(config) < 0)
		return -ENOMEM;
	log_set_level(arguments->verbose ? LOG_LEVEL_DEBUG : (enum log_level)config->log_level);
	return 0;
}

/* Answers clients waiting on systemd's sockets; a library reconnects on its own. */
static void refuse(const char *sentence)
{
	refuse_waiting(notify_listen_fd("control"), sentence);
	refuse_waiting(notify_listen_fd("inject"), NULL);
}

/* Reads and checks the settings, including those for the probes. */
static int settings_read(const struct arguments *arguments, const char *path, struct config **ret)
{
	struct probe_config probe;
	struct config *config;

	if (config_new(&config) < 0)
		return EXIT_FAILURE;
	if (config_read(config, path, !arguments->config) < 0 || config_probe(config, &probe) < 0) {
		config_free(config);
		return EXIT_SETTINGS;
	}
	if (config_apply(config, arguments) < 0) {
		config_free(config);
		return EXIT_FAILURE;
	}
	*ret = config;
	return EXIT_SUCCESS;
}

static int run(const struct arguments *arguments)
{
	const char *path = arguments->config ? arguments->config : TS_PATH_SETTINGS;
	struct config *config;
	struct daemon *daemon;
	int status = settings_read(arguments, path, &config);

	if (status == EXIT_SETTINGS)
		refuse("The daemon cannot start: its settings are invalid. Run 'tracesmithd "
		       "--check-config', fix what it reports, and try again");
	if (status != EXIT_SUCCESS)
		return status;
	if (arguments->check || arguments->reload) {
		config_free(config);
		if (arguments->reload)
			return reload_signal(arguments->reload) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
		printf("The settings are valid.\n");
		return EXIT_SUCCESS;
	}
	if (daemon_new(config, path, &daemon) < 0) {
		refuse("The daemon cannot start: 'journalctl -u tracesmithd' says why");
		return EXIT_FAILURE;
	}
	status = daemon_run(daemon) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	if (!daemon_free(daemon))
		_exit(status);
	return status;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };

	if (arguments_parse(argc, argv, &arguments) < 0)
		return EXIT_USAGE;
	if (arguments.help)
		fputs(help, stdout);
	else if (arguments.version)
		printf("tracesmithd %s\n", TS_VERSION);
	else if (arguments.print)
		config_print(stdout);
	else
		return run(&arguments);
	return EXIT_SUCCESS;
}
