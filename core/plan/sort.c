/* Plan sort: by digits, the lowest first, as many as the keys have; keys are times since the start
 * of a plan, so there are few. Sorted input is left alone. */
#include "core/plan/sort.h"

#include <stdbool.h>
#include <string.h>

#define DIGIT_BITS 11
#define DIGITS	   (1u << DIGIT_BITS)

static bool sort_is_done(const struct plan_key *key, size_t count, uint64_t *ret_all)
{
	bool sorted = true;

	*ret_all = count ? key[0].key : 0;
	for (size_t i = 1; i < count; i++) {
		*ret_all |= key[i].key;
		sorted &= key[i - 1].key <= key[i].key;
	}
	return sorted;
}

static void sort_digit(const struct plan_key *from, struct plan_key *to, size_t count,
		       unsigned int shift)
{
	size_t place[DIGITS] = { 0 }, sum = 0;

	for (size_t i = 0; i < count; i++)
		place[from[i].key >> shift & (DIGITS - 1)]++;
	for (size_t i = 0; i < DIGITS; i++) {
		size_t here = place[i];

		place[i] = sum;
		sum += here;
	}
	for (size_t i = 0; i < count; i++)
		to[place[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

struct plan_key *plan_sort(struct plan_key *key, struct plan_key *spare, size_t count)
{
	uint64_t all;

	if (sort_is_done(key, count, &all))
		return key;
	for (unsigned int shift = 0; shift < 64 && all >> shift; shift += DIGIT_BITS) {
		struct plan_key *from = key;

		sort_digit(from, spare, count, shift);
		key = spare;
		spare = from;
	}
	return key;
}
