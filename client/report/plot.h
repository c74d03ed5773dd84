/* plot.h: one picture of a process, of all of them or of a recording, as a file. */
#ifndef TS_CLIENT_REPORT_PLOT_H
#define TS_CLIENT_REPORT_PLOT_H

#include "client/base/options.h"

/* `what`: "busy", "memory" or "memory-map"; to options->output. Returns an exit_status. */
int plot_run(const struct options *options, const char *what);

#endif
