/* meanwhile.h: on which devices something may have run that touches memory unseen, and when. Pure.
 *
 * Time is divided into as many pieces as there is room for, whatever happened in them, and a piece
 * is taken whole: so what is said of a time errs on the side of "something ran".
 */
#ifndef TS_WASTE_MEANWHILE_H
#define TS_WASTE_MEANWHILE_H

#include <stdint.h>

#include "core/base/cleanup.h"

/* How sure it is that nothing touched memory of a device. In the order of doubt. */
#define CERTAINTIES(X)                                                                             \
	X(1, POSSIBLE, "possible")                                                                 \
	X(2, LIKELY, "likely")                                                                     \
	X(3, CERTAIN, "certain")

enum certainty {
#define X(number, identifier, name) CERTAINTY_##identifier = number,
	CERTAINTIES(X)
#undef X
		CERTAINTY_MAX = CERTAINTY_CERTAIN,
};

struct meanwhile;

int meanwhile_new(uint64_t since_ns, uint64_t until_ns, struct meanwhile **ret);
struct meanwhile *meanwhile_free(struct meanwhile *meanwhile);
CLEANUP_DEFINE(struct meanwhile, meanwhile_free)

/* Something ran on a device, or may have run on any: DEVICE_UNKNOWN. -ENOMEM: no memory. */
int meanwhile_ran(struct meanwhile *meanwhile, int16_t device, uint64_t start_ns, uint64_t end_ns);
/* From the first question on, nothing is added. */
enum certainty meanwhile_nothing(struct meanwhile *meanwhile, int16_t device, uint64_t since_ns,
				 uint64_t until_ns);

#endif
