/* Gaps: a few places. */
#include "daemon/gaps.h"

#include <stddef.h>

#include "core/model/loss_row.h"

static bool is_tried_again(const struct gap *before, const struct gap *gap)
{
	return before->pid == gap->pid && before->reason == LOSS_MAPPING &&
	       gap->reason == LOSS_MAPPING;
}

void gaps_keep(struct gaps *gaps, const struct gap *gap)
{
	struct gap *room = NULL;

	for (uint32_t i = 0; i < GAPS_MAX; i++) {
		struct gap *place = &gaps->gap[i];

		if (is_tried_again(place, gap)) {
			if (place->count < UINT8_MAX)
				place->count++;
			place->end_ns = gap->end_ns;
			return;
		}
		if (!room && !place->pid)
			room = place;
	}
	if (!room)
		room = &gaps->gap[gaps->replaced++ % GAPS_MAX];
	*room = *gap;
}
