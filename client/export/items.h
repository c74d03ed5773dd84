/* items.h: facts by section, for a person a list, for programs a table of section, name, value,
 * number and warning.
 */
#ifndef TS_CLIENT_ITEMS_H
#define TS_CLIENT_ITEMS_H

#include "client/base/options.h"
#include "proto/control.pb-c.h"

/* On standard output, in the form that the options ask for; `query` is the name of the answer.
 * -EPROTO: it makes no sense. */
int items_write(const struct options *options, const char *query,
		const Tracesmith__V1__StatusReply *items);

#endif
