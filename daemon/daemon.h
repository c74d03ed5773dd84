/* daemon.h: the daemon as a whole. */
#ifndef TS_DAEMON_H
#define TS_DAEMON_H

#include <stdbool.h>

#include "daemon/config.h"

struct daemon;

/* Builds and starts every part; failures are logged. `config_path` is read again on SIGHUP. Takes
 * over `config`. */
int daemon_new(struct config *config, const char *config_path, struct daemon **ret);
/* Runs until SIGTERM or SIGINT; 0, or a negative errno. */
int daemon_run(struct daemon *daemon);
/* False: a thread is stuck, in the kernel or in a name service, and everything is stored. Then end
 * with _exit(): exit() would wait for it. */
bool daemon_free(struct daemon *daemon);

#endif
