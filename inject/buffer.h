/* buffer.h: the memory that CUPTI writes its records into. */
#ifndef TS_INJECT_BUFFER_H
#define TS_INJECT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUFFER_CAP_DEFAULT (64u << 20)

/* How many bytes CUPTI may hold, 0: the default; and whether it accepts that there is no buffer.
 * Call before the first buffer is taken. */
void buffer_set(uint64_t cap_bytes, bool may_refuse);

/* A buffer full of zeros for CUPTI, from any thread. NULL: none, which is counted. */
uint8_t *buffer_take(size_t *ret_size);
/* Whether CUPTI got this one from us. */
bool buffer_is_ours(const uint8_t *buffer);
/* CUPTI returned it, with this many bytes of finished records. */
void buffer_give(uint8_t *buffer, size_t written);

struct buffer_stats {
	uint32_t out; /* held by CUPTI */
	uint64_t out_bytes;
	uint64_t bytes;	  /* mapped in total */
	uint64_t refused; /* requests ever refused */
};
void buffer_stats(struct buffer_stats *ret);

/* From our thread, occasionally: keeps some ready and unmaps the surplus. */
void buffer_tend(void);
/* Unmaps what CUPTI does not hold. What it still holds stays mapped for good. */
void buffer_release(void);

#endif
