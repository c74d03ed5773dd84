/* walk.h: what the library needs to know the stack of a call by itself.
 *
 * Where every call is to have a stack, the way through the stub costs more than the walk. So the
 * daemon shares what it has learned of the process: the rule for each return address, and the ids
 * of stacks that the kernel's programs have sent. The library walks by these rules, with the same
 * hash, and if it comes to such an id, the call needs nothing else. Anything else, a rule that is
 * missing, a stack that is new, goes through the stub as before: so nothing is ever said of a stack
 * that the kernel has not seen.
 *
 * Only the daemon writes, at any time; a library that has other rules than it comes to an id that
 * is not here.
 */
#ifndef TS_PROTO_WALK_H
#define TS_PROTO_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/python.h"
#include "proto/rule.h"
#include "proto/stack_id.h"

/* Of a return address; 0: free. A rule has bits of its address, as it is written on its own. */
struct ts_walk_rule {
	uint64_t address, rule;
};

/* Sets are lines of the cache. */
#define TS_WALK_RULE_SETS 4096
#define TS_WALK_RULE_WAYS 4
#define TS_WALK_ID_SETS	  2048
#define TS_WALK_ID_WAYS	  8

#define TS_WALK_VERSION	  1u /* of all that is here, the rules and the hash */

struct ts_walk {
	uint64_t seed; /* of the process's ids; 0: it is not known, and no stack can be */
	uint32_t depth, python_depth;
	uint32_t check;	  /* in tests: all go through the stub, which compares */
	uint32_t version; /* TS_WALK_VERSION; a library takes no other */
	/* Written once, its size last, and its module: 0 until then. */
	struct ts_python python;
	uint8_t reserved[4096 - 24 - sizeof(struct ts_python)];
	struct ts_walk_rule rule[TS_WALK_RULE_SETS][TS_WALK_RULE_WAYS];
	uint64_t id[TS_WALK_ID_SETS][TS_WALK_ID_WAYS];
};

_Static_assert(sizeof(struct ts_walk_rule[TS_WALK_RULE_WAYS]) == 64 &&
		       sizeof(uint64_t[TS_WALK_ID_WAYS]) == 64 &&
		       __builtin_offsetof(struct ts_walk, rule) == 4096,
	       "a set is a line");

static inline uint32_t walk_rule_set(uint64_t address)
{
	return (uint32_t)(address ^ address >> 12 ^ address >> 24) & (TS_WALK_RULE_SETS - 1);
}

static inline uint32_t walk_id_set(uint64_t id)
{
	return (uint32_t)(id >> 16) & (TS_WALK_ID_SETS - 1);
}

static inline bool walk_find_rule(const struct ts_walk *walk, uint64_t address, struct rule *ret)
{
	const struct ts_walk_rule *set = walk->rule[walk_rule_set(address)];
	uint64_t packed;

	for (unsigned int i = 0; i < TS_WALK_RULE_WAYS; i++) {
		if (__atomic_load_n(&set[i].address, __ATOMIC_ACQUIRE) != address)
			continue;
		packed = __atomic_load_n(&set[i].rule, __ATOMIC_RELAXED);
		*ret = rule_unpack(packed);
		return rule_check(packed) == (uint16_t)address;
	}
	return false;
}

static inline bool walk_has_id(const struct ts_walk *walk, uint64_t id)
{
	const uint64_t *set = walk->id[walk_id_set(id)];

	for (unsigned int i = 0; i < TS_WALK_ID_WAYS; i++)
		if (__atomic_load_n(&set[i], __ATOMIC_RELAXED) == id)
			return true;
	return false;
}

#endif
