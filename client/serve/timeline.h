/* timeline.h: what devices, streams and threads did in a window, as a picture's columns. */
#ifndef TS_CLIENT_TIMELINE_H
#define TS_CLIENT_TIMELINE_H

#include "client/serve/web.h"

/* /timeline?since=&until=&columns=[&pid=]: lanes of spans. */
void timeline_lanes(const struct web_request *request, struct web_answer *answer);
/* /extent[?pid=]: from when to when there are operations. */
void timeline_extent(const struct web_request *request, struct web_answer *answer);

#endif
