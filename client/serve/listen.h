/* listen.h: where the server listens. */
#ifndef TS_CLIENT_LISTEN_H
#define TS_CLIENT_LISTEN_H

#include <stdbool.h>

#define LISTEN_DEFAULT	  "127.0.0.1:9640"
#define LISTEN_NAME_BYTES 128

struct listening {
	int fd;
	bool local;		      /* nobody on another host can connect */
	char name[LISTEN_NAME_BYTES]; /* ADDRESS:PORT as in a URL */
};

/* ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT or PORT; port 0 is any that is free. Complains. */
int listen_open(const char *text, struct listening *ret);
/* The name of a Host header is one under which only this host is known: no site on the net, whose
 * name its owner may point to us, has it. */
bool listen_is_local_name(const char *host);

#endif
