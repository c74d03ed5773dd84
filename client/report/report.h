/* report.h: a report on a process, on all of them or on a recording, in one file. */
#ifndef TS_CLIENT_REPORT_REPORT_H
#define TS_CLIENT_REPORT_REPORT_H

#include <stdbool.h>

#include "client/base/options.h"

/* To options->output. Returns an exit_status. */
int report_run(const struct options *options, bool markdown);

#endif
