/* sort.h: sorts numbers by their keys. */
#ifndef TS_CORE_PLAN_SORT_H
#define TS_CORE_PLAN_SORT_H

#include <stddef.h>
#include <stdint.h>

struct plan_key {
	uint64_t key;
	uint32_t number;
};

/* Stable. `spare` has room for as many; the result is in one of the two, which is returned. */
struct plan_key *plan_sort(struct plan_key *key, struct plan_key *spare, size_t count);

#endif
