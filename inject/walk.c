/* Walk: from frame to frame by the rules of their return addresses, all in the thread's own stack.
 */
#include "inject/walk.h"

#define WORD 8

/* A walk over the native frames. */
struct native {
	uint64_t low, top; /* what may be read */
	uint64_t pc, sp, bp;
	uint64_t id;
	bool interpreter; /* it went through its code */
};

static inline bool native_read(const struct native *native, uint64_t at, uint64_t *ret)
{
	if (at % WORD || at < native->low || at > native->top - WORD)
		return false;
	*ret = walk_load(at);
	return true;
}

/* As the kernel's programs have it, so that a walk ends where theirs does. False: it runs
 * elsewhere, or nobody can tell. */
static bool native_bounds(struct walk_place *place, uint32_t tid, struct native *native)
{
	uint64_t base = walk_thread_pointer(), block, size;

	native->low = native->sp;
	if (tid == place->main_tid) {
		native->top = place->main_top;
		if (native->sp >= place->main_low)
			return native->sp < native->top;
		__atomic_store_n(&place->grown, 1, __ATOMIC_RELAXED);
		return false;
	}
	if (!place->block)
		return false;
	block = walk_load(base + place->block);
	size = walk_load(base + place->size);
	native->top = base;
	return native->sp >= block && native->sp < base && base - block <= size;
}

static bool native_follow(struct native *native, const struct rule *rule)
{
	bool by_sp = rule->kind == RULE_RSP || rule->kind == RULE_AT_RSP;
	uint64_t bp = native->bp, cfa = by_sp ? native->sp : bp, at;

	cfa += (uint64_t)(int64_t)rule->cfa * WORD;
	if (rule->kind >= RULE_AT_RSP && !native_read(native, cfa, &cfa))
		return false;
	if (cfa <= native->sp || !native_read(native, cfa - WORD, &native->pc))
		return false;
	at = rule->rbp_kind == RULE_RBP_AT_CFA ? cfa : bp;
	at += (uint64_t)(int64_t)rule->rbp * WORD;
	if (rule->rbp_kind == RULE_RBP_LOST)
		native->bp = 0;
	else if (rule->rbp_kind != RULE_RBP_SAME && !native_read(native, at, &native->bp))
		return false;
	native->sp = cfa;
	return true;
}

static bool native_walk(const struct ts_walk *shared, const struct walk_place *place,
			struct native *native)
{
	uint32_t depth = shared->depth;
	struct rule rule;

	native->id = stack_hash_frame(shared->seed, native->pc);
	if (!native_read(native, native->sp, &native->pc))
		return false;
	native->sp += WORD;
	for (uint32_t count = 1; count < TS_STACK_FRAMES_MAX && count < depth && native->pc;
	     count++) {
		native->id = stack_hash_frame(native->id, native->pc);
		native->interpreter |=
			native->pc - place->code_start < place->code_end - place->code_start;
		if (!walk_find_rule(shared, native->pc, &rule))
			return false;
		if (rule.kind == RULE_END)
			break;
		if (!native_follow(native, &rule))
			return false;
	}
	native->id = stack_hash_end(native->id, TS_END_COMPLETE);
	return true;
}

static uint64_t walk_stack(struct walker *walker, const struct ts_light_call *call,
			   const uint64_t *saved, uint32_t tid)
{
	struct native native = {
		.pc = call->entry,
		.sp = (uint64_t)(saved + call->frame),
		.bp = saved[TS_LIGHT_RBP],
	};

	if (!native_bounds(&walker->place, tid, &native) ||
	    !native_walk(walker->shared, &walker->place, &native) ||
	    !walk_python(walker, tid, native.interpreter, &native.id))
		return 0;
	return native.id;
}

void walk_call(struct walker *walker, const struct ts_light_call *call, const uint64_t *saved,
	       uint32_t tid, struct walked *ret)
{
	const struct ts_walk *shared = walker->shared;
	struct walk_role *role = &ret->role;
	uint64_t stack = 0;

	ret->found = ret->stack = ret->id = 0;
	ret->is_new = false;
	*role = walk_role(walker, tid);
	if (__atomic_load_n(&shared->seed, __ATOMIC_ACQUIRE))
		ret->found = walk_stack(walker, call, saved, tid);
	if (ret->found && !shared->check && walk_has_id(shared, ret->found))
		stack = ret->found;
	walk_keep(walker, role, stack);
	if (role->role == TS_STUB_BACKWARD) {
		ret->id = stack_id_backward(stack, role->word[0], role->word[1]);
		ret->is_new = !stack || !walk_has_id(shared, ret->id);
		/* It has been forgotten since. */
		if (ret->is_new && !walk_has_id(shared, role->word[0]))
			role->role = TS_STUB_NONE;
	}
	ret->stack = stack;
	if (role->role != TS_STUB_BACKWARD) {
		ret->id = stack;
		ret->is_new = false;
	}
	/* What the kernel's programs have of the forward pass, only they can join. */
	if (!stack || role->role == TS_STUB_LOOK_BACK)
		ret->id = 0;
}
