/* light_sampler.h: which hot calls of a thread get a stack: a sample in which every call is equally
 * likely, and the first ones of each kernel and function. As bpf/stack.bpf.h chooses among those
 * that it sees, and for its reasons. Takes no lock: threads that share a sampler share its samples.
 */
#ifndef TS_INJECT_LIGHT_SAMPLER_H
#define TS_INJECT_LIGHT_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#define LIGHT_SEEN_WORDS 64
#define LIGHT_STALE	 4 /* after this many times the mean, calls have become rare */

/* All 0 at first. */
struct light_sampler {
	uint64_t last_ns; /* the last sample */
	uint64_t new_ns;  /* the last one because its work was new */
	uint32_t calls;	  /* since the last sample */
	uint32_t left;	  /* calls to skip until the next */
	uint32_t stride;  /* their mean */
	uint32_t random;
	uint64_t seen[LIGHT_SEEN_WORDS]; /* one bit per kernel, graph or function */
};

/* Where the bit of some work is. */
static inline uint32_t light_sampler_bit(uint64_t work)
{
	return (work * 0x9e3779b97f4a7c15) >> 32 & (LIGHT_SEEN_WORDS * 64 - 1);
}

/* Each call first: true means no stack, without a look at the clock. */
static inline bool light_sampler_skips(struct light_sampler *sampler, uint64_t work)
{
	uint32_t bit = light_sampler_bit(work);

	sampler->calls++;
	if (sampler->left <= 1)
		return false;
	sampler->left--;
	return sampler->seen[bit / 64] >> bit % 64 & 1;
}

/* The others, with the mean time between two samples. */
bool light_sampler_takes(struct light_sampler *sampler, uint64_t work, uint64_t sample_ns,
			 uint64_t now_ns);

/* After a call without a stack: where calls have become rare, the next sample comes sooner. */
static inline void light_sampler_passed(struct light_sampler *sampler, uint64_t sample_ns,
					uint64_t now_ns)
{
	if (sampler->left > 1 && now_ns - sampler->last_ns > LIGHT_STALE * sample_ns)
		sampler->left /= 2;
}

#endif
