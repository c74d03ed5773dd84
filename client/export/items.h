/* items.h: facts by section: a list for people, for programs a table of section, name, value,
 * number and warning. */
#ifndef TS_CLIENT_ITEMS_H
#define TS_CLIENT_ITEMS_H

#include "client/base/options.h"
#include "proto/control.pb-c.h"

/* Prints to standard output, in the form of the options; `query` is the name of the answer.
 * -EPROTO: invalid items. */
int items_write(const struct options *options, const char *query,
		const Tracesmith__V1__StatusReply *items);

#endif
