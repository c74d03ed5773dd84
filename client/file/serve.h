/* serve.h: stands for the daemon where a recording is asked: what is sent to its socket is
 * answered by the daemon's own query engine, on a thread.
 */
#ifndef TS_CLIENT_FILE_SERVE_H
#define TS_CLIENT_FILE_SERVE_H

#include "client/link/link.h"

extern const struct link_files file_serve;

#endif
