/* file_serve.h: stands for the daemon where a recording is asked: what is sent to its socket is
 * answered by the daemon's own query engine, on a thread.
 */
#ifndef TS_CLIENT_FILE_SERVE_H
#define TS_CLIENT_FILE_SERVE_H

#include "core/base/cleanup.h"

struct file_server;

/* Opens the file (errors as of file_open) and gives the client's end of the socket. */
int file_serve(const char *path, struct file_server **ret, int *ret_fd);
/* Ends what is under way. */
struct file_server *file_server_free(struct file_server *server);

CLEANUP_DEFINE(struct file_server, file_server_free)

#endif
