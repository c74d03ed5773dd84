/* check_show.h: shows the result of a check, as text with both sides next to each other, or as
 * JSON. */
#ifndef TS_CLIENT_REPLAY_CHECK_SHOW_H
#define TS_CLIENT_REPLAY_CHECK_SHOW_H

#include "client/trace/trace.h"
#include "core/replay/check.h"

struct replay_check_shown {
	const struct check *check;
	const struct check_side *side; /* both */
	const struct meta *meta[2];    /* what their ops refer to */
	const char *path[2];
};

void replay_check_text(const struct replay_check_shown *shown);
void replay_check_json(const struct replay_check_shown *shown);

/* check_item.c: one operation or call, and what it waits for, in a line. */
#define REPLAY_CHECK_TEXT 256
void replay_check_item(const struct replay_check_shown *shown, int side,
		       const struct check_lane *lane, uint32_t at, char text[REPLAY_CHECK_TEXT]);
void replay_check_waits(const struct replay_check_shown *shown, int side,
			const struct check_lane *lane, uint32_t at, char text[REPLAY_CHECK_TEXT]);
/* Describes the difference. */
void replay_check_why(const struct replay_check_shown *shown, const struct check_lane *lane,
		      char text[3 * REPLAY_CHECK_TEXT]);
/* The call stack of the op; NULL: none was taken, or no such op exists. */
const struct meta_stack *replay_check_stack(const struct replay_check_shown *shown, int side,
					    const struct check_lane *lane, uint32_t at);

#endif
