/* Probe calibration: our enter program on one function of one process that is our own child. Its
 * events have a number of their own, no stack, and are counted nowhere. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "daemon/probe/internal.h"
#include "daemon/probe/remover.h"

struct probe_calibration {
	struct removal removal;
	struct probe *probe;
	int link;
};

int probe_calibrate(struct probe *probe, uint32_t pid, struct probe_calibration **ret)
{
	_cleanup_(freep) struct probe_calibration *calibration = calloc(1, sizeof(*calibration));

	if (!calibration)
		return -ENOMEM;
	calibration->probe = probe;
	probe->bss->settings.calibrated = pid;
	calibration->link = broker_calibrate(probe->broker, pid);
	if (calibration->link < 0) {
		probe->bss->settings.calibrated = 0;
		return calibration->link;
	}
	*ret = TAKE(calibration);
	return 0;
}

/* Nobody else maps our program. */
static bool calibration_take_off(struct removal *removal)
{
	struct probe_calibration *calibration =
		list_item(removal, struct probe_calibration, removal);

	closep(&calibration->link);
	free(calibration);
	return true;
}

void probe_calibration_end(struct probe_calibration *calibration, struct remover *remover)
{
	/* Another process may have that pid one day. */
	calibration->probe->bss->settings.calibrated = 0;
	remover_add(remover, &calibration->removal, calibration_take_off);
}
