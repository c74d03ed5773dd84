/* store_private.h: for the store's own files. */
#ifndef TS_STORE_PRIVATE_H
#define TS_STORE_PRIVATE_H

#include "core/store/store.h"

const char *store_path(const struct store *store);
int64_t store_boot(const struct store *store); /* row of this boot */

#endif
