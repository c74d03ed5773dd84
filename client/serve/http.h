/* http.h: libmicrohttpd, loaded when it is needed: it brings a library for TLS with it, which all
 * other commands would load for nothing. */
#ifndef TS_CLIENT_HTTP_H
#define TS_CLIENT_HTTP_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <microhttpd.h>

#define HTTP_FUNCTIONS(X)                                                                          \
	X(MHD_start_daemon)                                                                        \
	X(MHD_stop_daemon)                                                                         \
	X(MHD_get_connection_info)                                                                 \
	X(MHD_lookup_connection_value)                                                             \
	X(MHD_create_response_from_buffer)                                                         \
	X(MHD_add_response_header)                                                                 \
	X(MHD_queue_response)                                                                      \
	X(MHD_destroy_response)

struct http {
#define X(name) __typeof__(name) *name;
	HTTP_FUNCTIONS(X)
#undef X
};

/* NULL: the library is not there, which is complained of. */
const struct http *http_load(void);

#endif
