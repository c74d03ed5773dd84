/* sums.h: rows that add up under keys of any size, until all are taken at once. */
#ifndef TS_SUMS_H
#define TS_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* A row begins with its key, whose bytes are compared: padding in it must be 0. */
struct sums {
	size_t row_bytes, key_bytes;
	char *row;
	uint32_t *next; /* of each row, in its bucket: 1 + index, 0 ends it */
	uint32_t count, room;
	uint32_t *bucket; /* 1 + index of its first row, 0: none */
	uint32_t bucket_mask;
};

#define SUMS_OF(type, first_sum)                                                                   \
	((struct sums){ .row_bytes = sizeof(type), .key_bytes = offsetof(type, first_sum) })

/* Sets row_bytes and key_bytes before; `rows` is how many are expected at most. -ENOMEM */
int sums_init(struct sums *sums, uint64_t rows);
/* The row of a key, made all 0 but for the key if there are fewer than `max`; else NULL. Valid
 * until the next call. */
void *sums_get(struct sums *sums, const void *key, uint64_t max);
static inline void *sums_row(const struct sums *sums, uint32_t i)
{
	return sums->row + i * sums->row_bytes;
}
void sums_empty(struct sums *sums);
void sums_release(struct sums *sums);

#endif
