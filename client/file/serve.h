/* serve.h: stands in for the daemon when a recording is queried: the daemon's own query engine
 * answers the requests on its socket, on a thread. */
#ifndef TS_CLIENT_FILE_SERVE_H
#define TS_CLIENT_FILE_SERVE_H

#include "client/link/link.h"

extern const struct link_files file_serve;

/* Answers the client at the other end of a connected socket until it has closed it. -ENOTSOCK, or
 * the error that was printed. */
int file_serve_socket(const char *path, int fd);

#endif
