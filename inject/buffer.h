/* buffer.h: the memory that CUPTI writes its records into. */
#ifndef TS_INJECT_BUFFER_H
#define TS_INJECT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUFFER_CAP_DEFAULT (64u << 20)

/* How many bytes CUPTI may hold, 0: the default; and whether it can be told that there is no
 * buffer. Before the first buffer is taken. */
void buffer_set(uint64_t cap_bytes, bool may_refuse);

/* A buffer full of zeros for CUPTI, from any thread. NULL: none, which is counted. */
uint8_t *buffer_take(size_t *ret_size);
/* Whether CUPTI has this one from us. */
bool buffer_is_ours(const uint8_t *buffer);
/* CUPTI has given it back, with finished records in so many bytes of it. */
void buffer_give(uint8_t *buffer, size_t written);

struct buffer_stats {
	uint32_t out; /* that CUPTI holds */
	uint64_t out_bytes;
	uint64_t bytes;	  /* mapped, in all */
	uint64_t refused; /* times that there was none, ever */
};
void buffer_stats(struct buffer_stats *ret);

/* From our thread, now and then: keeps some ready, gives back to the system what is too much. */
void buffer_tend(void);
/* Unmaps what CUPTI does not hold. What it still holds stays mapped for good. */
void buffer_release(void);

#endif
