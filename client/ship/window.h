/* window.h: sends the single operations of the recent past, once, beside the shipper that sends the
 * minutes. Nothing is kept: whoever is interrupted asks again, and the rows replace themselves. */
#ifndef TS_CLIENT_SHIP_WINDOW_H
#define TS_CLIENT_SHIP_WINDOW_H

#include <stdint.h>

#include "client/ship/settings.h"
#include "core/base/time.h"

#define WINDOW_MAX_NS (SETTINGS_WINDOW_MAX_S * (uint64_t)NS_PER_S)

/* It is put together in the folder or, with -1, where temporary files are. What fails is logged,
 * what was sent printed. */
int window_ship(const struct settings *settings, int folder, uint64_t length_ns);

#endif
