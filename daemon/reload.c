/* Reload: sends SIGHUP to a daemon. The signal would kill any other process, so the pid is
 * checked.
 */
#include "daemon/reload.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/units.h"

#define DAEMON_NAME "tracesmithd\n"

static bool is_daemon(pid_t pid)
{
	char path[64], name[32] = "";
	FILE *file;
	bool is;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	is = fgets(name, sizeof(name), file) && !strcmp(name, DAEMON_NAME);
	fclose(file);
	return is;
}

int reload_signal(const char *pid)
{
	uint64_t number;

	if (units_parse_count(pid, &number) < 0 || !number || number > INT32_MAX ||
	    !is_daemon((pid_t)number)) {
		log_error("Process '%s' is not a running tracesmithd", pid);
		return -ESRCH;
	}
	if (kill((pid_t)number, SIGHUP) < 0)
		return log_error_errno(-errno, "Cannot signal process %s to reread its settings",
				       pid);
	return 0;
}
