/* moment.h: one operation of the timeline. */
#ifndef TS_CLIENT_MOMENT_H
#define TS_CLIENT_MOMENT_H

#include "client/serve/web.h"

/* /op?what=&process=&id=&at=&within=: the operation of a lane at a moment, or the nearest one at
 * most `within` from it, with its stack. */
void moment_op(const struct web_request *request, struct web_answer *answer);

#endif
