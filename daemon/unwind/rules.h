/* rules.h: the rules that the BPF programs walk by, in memory that they read at any time. */
#ifndef TS_UNWIND_RULES_H
#define TS_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/rule.h"

struct rules {
	struct rule_slot *slot; /* RULE_SLOTS, in sets of two */
	uint32_t mask;		/* of the sets that are used */
	uint32_t turn;		/* who goes next from a full set */
	uint64_t filed, replaced;
};

/* Replaces an older rule of its set if need be. */
void rules_put(struct rules *rules, uint64_t key, struct rule rule);
/* On any thread. */
bool rules_get(const struct rules *rules, uint64_t key, struct rule *ret);

#endif
