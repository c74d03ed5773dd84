/* sums.h: rows that are added up by keys of any size, until all are taken at once. */
#ifndef TS_SUMS_H
#define TS_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/map.h"

/* A row starts with its key, which is compared bytewise: padding in it must be 0. */
struct sums {
	size_t row_bytes, key_bytes;
	char *row;
	size_t room; /* in bytes */
	uint32_t count;
	uint32_t last;	  /* the row of the latest call, if there are rows */
	struct map index; /* number of a row and 1 */
};

/* Empty. */
#define SUMS_OF(type, first_sum)                                                                   \
	((struct sums){ .row_bytes = sizeof(type), .key_bytes = offsetof(type, first_sum) })

/* The row of a key. A new one, all 0 except the key, is made if there are fewer than `max`;
 * otherwise NULL. Valid until the next call. */
void *sums_get(struct sums *sums, const void *key, uint64_t max);
static inline void *sums_row(const struct sums *sums, uint32_t i)
{
	return sums->row + i * sums->row_bytes;
}
void sums_empty(struct sums *sums);
void sums_release(struct sums *sums);

#endif
