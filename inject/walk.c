/* Walk: from frame to frame by the rules of their return addresses, all in the thread's own stack.
 */
#include <stddef.h>

#include "inject/walk.h"

#define WORD	 8
#define REGISTER 1 /* no address of a word */
/* Nothing else is mapped that close below the main thread's stack: farther away it is one of the
 * program's own making, which is not looked for. */
#define GROWN_MAX (128ull << 20)

/* A walk over the native frames. */
struct native {
	uint64_t low, top; /* what may be read */
	uint64_t pc, sp, bp;
	uint64_t bp_at;	       /* where bp was read, 0: it does not matter any more where */
	uint64_t id;	       /* the seed to begin with */
	struct walk_path path; /* what it goes by */
};

static inline bool native_read(const struct native *native, uint64_t at, uint64_t *ret)
{
	if (at % WORD || at < native->low || at > native->top - WORD)
		return false;
	*ret = walk_load(at);
	return true;
}

/* As the kernel's programs have it, so that a walk ends where theirs does. False: it runs
 * elsewhere, or nobody can tell. The main thread's descriptor names no block: by that it is known
 * where a fork by hand has left it with its parent's number. */
static bool native_bounds(struct walk_place *place, uint32_t tid, struct native *native)
{
	uint64_t base = walk_thread_pointer(), block, size;

	native->low = native->sp;
	if (tid == place->main_tid) {
		native->top = place->main_top;
		if (native->sp >= place->main_low)
			return native->sp < native->top;
		if (native->top - native->sp < GROWN_MAX)
			__atomic_store_n(&place->grown, 1, __ATOMIC_RELAXED);
		return false;
	}
	if (!place->block)
		return false;
	block = walk_load(base + place->block);
	size = walk_load(base + place->size);
	native->top = base;
	return block && native->sp >= block && native->sp < base && base - block <= size;
}

/* Words that do not fit make it a path that is too long to be kept. */
static inline void native_by_word(struct native *native, uint64_t at)
{
	uint64_t word = (at - native->low) / WORD;
	struct walk_path *path = &native->path;

	if (word > UINT16_MAX)
		path->count = WALK_WORDS;
	if (path->count < WALK_WORDS)
		path->word[path->count++] = (uint16_t)word;
}

/* A frame is found with RBP. Most values of it are none of a frame, and change. */
static inline void native_by_bp(struct native *native)
{
	if (native->bp_at == REGISTER)
		native->path.by_bp = 1;
	else if (native->bp_at)
		native_by_word(native, native->bp_at);
	native->bp_at = 0;
}

static bool native_follow(struct native *native, const struct rule *rule)
{
	bool by_sp = rule->kind == RULE_RSP || rule->kind == RULE_AT_RSP;
	uint64_t bp = native->bp, cfa, at;

	if (!by_sp || rule->rbp_kind == RULE_RBP_AT_RBP)
		native_by_bp(native);
	cfa = at = (by_sp ? native->sp : bp) + (uint64_t)(int64_t)rule->cfa * WORD;
	if (rule->kind >= RULE_AT_RSP) {
		if (!native_read(native, at, &cfa))
			return false;
		native_by_word(native, at);
	}
	if (cfa <= native->sp || !native_read(native, cfa - WORD, &native->pc))
		return false;
	native_by_word(native, cfa - WORD);
	at = (rule->rbp_kind == RULE_RBP_AT_CFA ? cfa : bp) + (uint64_t)(int64_t)rule->rbp * WORD;
	if (rule->rbp_kind == RULE_RBP_LOST) {
		native->bp = native->bp_at = 0;
	} else if (rule->rbp_kind != RULE_RBP_SAME) {
		if (!native_read(native, at, &native->bp))
			return false;
		native->bp_at = at;
	}
	native->sp = cfa;
	return true;
}

static bool native_go(const struct ts_walk *shared, const struct walk_place *place,
		      struct native *native)
{
	uint64_t code = place->code_start, bytes = place->code_end - code;
	uint32_t depth = __atomic_load_n(&shared->depth, __ATOMIC_RELAXED);
	struct rule rule;

	if (depth > TS_STACK_FRAMES_MAX)
		depth = TS_STACK_FRAMES_MAX;
	native->id = stack_hash_frame(native->id, native->pc);
	native_by_word(native, native->sp);
	native->pc = walk_load(native->sp);
	native->sp += WORD;
	for (uint32_t count = 1; count < depth && native->pc; count++) {
		native->id = stack_hash_frame(native->id, native->pc);
		native->path.interpreter |= native->pc - code < bytes;
		/* The kernel's walk wants no rule there, so it may never be learned. What called
		 * it may be an interpreter. */
		if (count + 1 == depth) {
			native->path.interpreter |= place->code_end != 0;
			break;
		}
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

static bool native_walk(struct walker *walker, const struct ts_walk *shared, struct native *native,
			uint32_t tid)
{
	struct walk_paths *paths = walk_paths_take(walker, tid);
	uint64_t sp = native->sp, bp = native->bp;
	uint64_t seed = stack_hash_frame(native->id, walker->taken);
	uint64_t key = walk_path_key(seed, native->pc, (const uint64_t *)sp);
	const struct walk_path *known =
		paths ? walk_path_find(paths, key, sp, native->top, bp) : NULL;
	bool done = known;

	if (known) {
		native->id = known->id;
		native->path.interpreter = known->interpreter;
	} else {
		native->path.count = native->path.by_bp = native->path.interpreter = 0;
		done = native_go(shared, &walker->place, native);
	}
	if (paths && done && !known) {
		native->path.key = key;
		native->path.id = native->id;
		native->path.bp = bp;
		walk_path_keep(paths, &native->path, sp);
	}
	walk_paths_give(paths);
	return done;
}

/* The seed is read once, or a path of one would lead to an id of another. */
static uint64_t walk_stack(struct walker *walker, const struct ts_walk *shared,
			   const struct ts_light_call *call, const uint64_t *saved, uint32_t tid)
{
	struct native native; /* not set to 0: its path is large, and made only if it is needed */

	native.pc = call->entry;
	native.sp = (uint64_t)(saved + call->frame);
	native.bp = saved[TS_LIGHT_RBP];
	native.bp_at = REGISTER;
	native.id = __atomic_load_n(&shared->seed, __ATOMIC_ACQUIRE);
	if (!native.id || !native_bounds(&walker->place, tid, &native) ||
	    !native_walk(walker, shared, &native, tid) ||
	    !walk_python(walker, tid, native.path.interpreter, &native.id))
		return 0;
	return native.id;
}

void walk_call(struct walker *walker, const struct ts_light_call *call, const uint64_t *saved,
	       uint32_t tid, struct walked *ret)
{
	const struct ts_walk *shared = walk_shared(walker);
	struct walk_role *role = &ret->role;
	uint64_t stack = 0;

	ret->found = ret->stack = ret->id = 0;
	ret->is_new = false;
	*role = (struct walk_role){ .role = TS_STUB_UNKNOWN };
	if (!shared)
		return;
	*role = walk_role(walker, tid);
	ret->found = walk_stack(walker, shared, call, saved, tid);
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
