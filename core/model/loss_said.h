/* loss_said.h: what was not watched, in the words of a user: the one place that words it for
 * answers, `top`, the page and reports. */
#ifndef TS_CORE_LOSS_SAID_H
#define TS_CORE_LOSS_SAID_H

#include <stdint.h>

#include "core/model/loss_row.h"

struct loss_time {
	enum loss_reason reason;
	uint64_t time_ns; /* in which not all was watched */
	/* Of LOSS_WINDOWS and LOSS_EXACT_WINDOWS: of the time that was asked for, how much was
	 * watched. all_ns 0: it is not known. */
	uint64_t seen_ns, all_ns;
};

/* 0: this version does not know it. */
enum loss_reason loss_reason_of(const char *name);
const char *loss_name(enum loss_reason reason);
/* What it counts. */
const char *loss_noun(enum loss_reason reason);

/* "not watched for 3.20 s (probes were not attached yet)", to be freed; NULL: not a PERIOD.
 * -ENOMEM. */
int loss_said(const struct loss_time *time, char **ret);

#endif
