/* serve.h: the HTTP server: what it listens to, and who may ask for what. */
#ifndef TS_CLIENT_SERVE_H
#define TS_CLIENT_SERVE_H

#include "client/base/options.h"

/* Until SIGINT or SIGTERM. `other`: a recording to compare options->file with, or NULL. Returns an
 * exit_status. */
int serve(const struct options *options, const char *other);

#endif
