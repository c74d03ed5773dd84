/* write.h: writes an emulation as a recording. */
#ifndef TS_CLIENT_REPLAY_WRITE_H
#define TS_CLIENT_REPLAY_WRITE_H

#include "client/base/options.h"
#include "client/replay/whatif_options.h"
#include "core/plan/critical.h"

/* From options->file to options->output. Errors are printed. */
int replay_write(const struct options *options, const struct whatif_options *changes,
		 const struct plan *plan, const struct plan_times *times);

#endif
