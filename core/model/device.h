/* device.h: how much memory the devices of a process have, as far as its own calls show it. In the
 * exact tier the library knows more of them. Pure.
 */
#ifndef TS_MODEL_DEVICE_H
#define TS_MODEL_DEVICE_H

#include <stdint.h>

#include "core/base/list.h"

struct device_size {
	struct list link;
	int16_t ordinal;
	uint64_t bytes;
};

/* 1: it is new; 0: that of the device is known; -ENOMEM. */
int device_size_add(struct list *sizes, int16_t ordinal, uint64_t bytes);
void device_size_forget_all(struct list *sizes);

#endif
