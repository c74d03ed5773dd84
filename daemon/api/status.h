/* status.h: the lines of a status reply, collected. */
#ifndef TS_API_STATUS_H
#define TS_API_STATUS_H

#include <stddef.h>

#include "daemon/api/api.h"
#include "proto/control.pb-c.h"

struct status_builder {
	Tracesmith__V1__StatusReply__Item **item;
	size_t count, room;
	uint32_t user; /* whom it is for */
	bool own;      /* who is told nothing of the processes of others */
	bool failed;   /* no memory: the reply would be wrong */
};

void status_done(struct status_builder *builder);

#endif
