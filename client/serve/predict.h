/* predict.h: what the emulator predicts, as lanes for the page. */
#ifndef TS_CLIENT_PREDICT_H
#define TS_CLIENT_PREDICT_H

#include "client/serve/web.h"

/* whatif?since=&until=&pid=&columns=, and the what-ifs of `tsctl replay` by their names. */
void predict_lanes(const struct web_request *request, struct web_answer *answer);

#endif
