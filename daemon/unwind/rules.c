/* rules: a reader takes the key, then the rule, and compares bits of the key that are in the rule;
 * so a slot that changes has no key meanwhile, and its rule is written at once. */
#include "daemon/unwind/rules.h"

#include <stddef.h>

static struct rule_slot *slot_of(const struct rules *rules, uint64_t key)
{
	struct rule_slot *set = &rules->slot[rule_set(key) & rules->mask];

	for (unsigned int i = 0; i < 2; i++)
		if (set[i].key == key)
			return &set[i];
	return NULL;
}

static struct rule_slot *slot_for(struct rules *rules, uint64_t key)
{
	struct rule_slot *slot = slot_of(rules, key), *set;

	if (slot)
		return slot;
	set = &rules->slot[rule_set(key) & rules->mask];
	for (unsigned int i = 0; i < 2; i++)
		if (!set[i].key)
			return &set[i];
	rules->replaced++;
	return &set[rules->turn++ & 1];
}

void rules_put(struct rules *rules, uint64_t key, struct rule rule)
{
	struct rule_slot *slot = slot_for(rules, key);
	uint64_t packed = rule_pack(rule, (uint16_t)(key >> 48));

	/* Whoever looks for it while it has no key misses it. */
	if (slot->key == key && slot->rule == packed)
		return;
	__atomic_store_n(&slot->key, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->rule, packed, __ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->key, key, __ATOMIC_SEQ_CST);
	rules->filed++;
}

bool rules_get(const struct rules *rules, uint64_t key, struct rule *ret)
{
	return rule_find(rules->slot, rules->mask, key, ret);
}
