/* reissue.h: tsctl replay --on-gpu: issues the commands of a recording again, on a GPU. */
#ifndef TS_CLIENT_REPLAY_GPU_H
#define TS_CLIENT_REPLAY_GPU_H

#include "client/base/options.h"

/* Of options->file, or of what the daemon has. With options->output the replay is recorded, and
 * compared with what it replays. Returns an exit status. */
int replay_on_gpu(const struct options *options);

#endif
