/* Light sampler: the number of calls to skip is random, around a mean that follows their rate. The
 * mean at most doubles each time, because a burst says little about the rate. */
#include "inject/light_sampler.h"

#define STRIDE_MAX (1u << 24) /* calls */

static uint32_t sampler_random(struct light_sampler *sampler, uint64_t now_ns)
{
	uint32_t random = sampler->random;

	if (!random)
		random = (uint32_t)(now_ns * 0x9e3779b97f4a7c15 >> 32) | 1;
	random ^= random << 13;
	random ^= random >> 17;
	random ^= random << 5;
	sampler->random = random;
	return random;
}

static void sampler_draw(struct light_sampler *sampler, uint64_t sample_ns, uint64_t now_ns)
{
	uint64_t elapsed = now_ns - sampler->last_ns;
	uint64_t mean = (sampler->calls * sample_ns + elapsed) / (elapsed + 1);
	uint32_t most = sampler->stride < STRIDE_MAX / 2 ? 2 * sampler->stride : STRIDE_MAX;

	sampler->stride = mean < most ? (uint32_t)mean : most;
	if (!sampler->stride)
		sampler->stride = 1;
	sampler->left = 1 + sampler_random(sampler, now_ns) % (2 * sampler->stride - 1);
	sampler->calls = 0;
	sampler->last_ns = now_ns;
}

bool light_sampler_takes(struct light_sampler *sampler, uint64_t work, uint64_t sample_ns,
			 uint64_t now_ns)
{
	uint32_t bit = light_sampler_bit(work);
	uint64_t mask = 1ull << bit % 64, *word = &sampler->seen[bit / 64];

	if (sampler->left <= 1) {
		sampler_draw(sampler, sample_ns, now_ns);
		return true;
	}
	if (*word & mask || now_ns - sampler->new_ns < sample_ns)
		return false;
	*word |= mask;
	sampler->new_ns = now_ns;
	return true;
}
