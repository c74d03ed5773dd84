/* store_private.h: what the store's own files see of it. */
#ifndef TS_STORE_PRIVATE_H
#define TS_STORE_PRIVATE_H

#include "core/store/store.h"

const char *store_path(const struct store *store);
int64_t store_boot(const struct store *store); /* row of this boot */

#endif
