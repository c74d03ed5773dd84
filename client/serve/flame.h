/* flame.h: sums by code path, for a flame graph on the page. */
#ifndef TS_CLIENT_FLAME_H
#define TS_CLIENT_FLAME_H

#include "client/serve/web.h"

/* /flame?of=[&since=&until=&pid=]: a tree of frames, the outermost first, in the order of a walk:
 * depth, place of the name in `names`, and sum of each. */
void flame_graph(const struct web_request *request, struct web_answer *answer);

#endif
