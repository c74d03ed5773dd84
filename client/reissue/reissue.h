/* reissue.h: tsctl replay --on-gpu: issues the commands of a recording again, on a GPU. */
#ifndef TS_CLIENT_REPLAY_GPU_H
#define TS_CLIENT_REPLAY_GPU_H

#include "client/base/options.h"

/* Reissues options->file or the daemon's data. With options->output, the reissue is recorded and
 * compared with the original. Returns an exit status. */
int replay_on_gpu(const struct options *options);

#endif
