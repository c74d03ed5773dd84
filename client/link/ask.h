/* ask.h: a request whose answer is a table on standard output. */
#ifndef TS_CLIENT_ASK_H
#define TS_CLIENT_ASK_H

#include "client/base/options.h"
#include "proto/control.pb-c.h"

struct link;

/* Over this link: 0, or a negative errno that was printed. */
int ask_link(struct link *link, const struct options *options, const ProtobufCMessage *body,
	     const char *query);
/* Returns an exit_status. `query` is the name of the answer. */
int ask(const struct options *options, const ProtobufCMessage *body, const char *query);
/* The same for one of the daemon's queries, with the given options. */
int ask_query(const struct options *options, const char *name);

#endif
