/* Walk, nodes: what a call is to PyTorch's autograd, as bpf/autograd.bpf.h has it: the first launch
 * since a node was made belongs to it, and what is launched while a node runs belongs to that. */
#include <stddef.h>

#include "inject/light.h"
#include "inject/walk.h"

#define WORD	    8
#define NODE_PASSED 8 /* nodes without a launch that are remembered at once, as there */
#define NO_BLOCK    UINT64_MAX
#define NO_NUMBER   UINT64_MAX
#define BEING_PUT   UINT64_MAX
#define NUMBER_BITS 44
#define APART	    10127 /* places: of all of them, by the golden section */

static uint64_t node_key(uint64_t thread, uint64_t number)
{
	return thread << NUMBER_BITS | number;
}

/* Threads that work in step count alike: the places of each start elsewhere. */
static struct walk_node *node_at(struct walker *walker, uint64_t key)
{
	return &walker->node[(key + (key >> NUMBER_BITS) * APART) & (WALK_NODES - 1)];
}

/* Readers of its place meanwhile find another key, or none, and other writers leave it. */
static void node_put(struct walker *walker, uint64_t key, uint64_t stack, uint64_t passed)
{
	struct walk_node *node = node_at(walker, key);

	if (__atomic_exchange_n(&node->key, BEING_PUT, __ATOMIC_SEQ_CST) == BEING_PUT)
		return;
	__atomic_store_n(&node->stack, stack, __ATOMIC_RELAXED);
	__atomic_store_n(&node->passed, passed, __ATOMIC_RELAXED);
	__atomic_store_n(&node->key, key, __ATOMIC_SEQ_CST);
}

static bool node_get(struct walker *walker, uint64_t key, uint64_t *stack, uint64_t *passed)
{
	struct walk_node *node = node_at(walker, key);

	if (__atomic_load_n(&node->key, __ATOMIC_ACQUIRE) != key)
		return false;
	*stack = __atomic_load_n(&node->stack, __ATOMIC_ACQUIRE);
	*passed = __atomic_load_n(&node->passed, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&node->key, __ATOMIC_RELAXED) == key;
}

/* The library's variables of this thread, 0: it has none (glibc: the vector has the number of its
 * blocks before it). */
static uint64_t node_block(uint32_t module)
{
	uint64_t vector = walk_load(walk_thread_pointer() + WORD), block;

	if (module > walk_load(vector - 2 * WORD))
		return 0;
	block = walk_load(vector + 2 * WORD * (uint64_t)module);
	return block == NO_BLOCK ? 0 : block;
}

/* Until a node was found that a thread had made, what is there is not believed to be one. */
static bool node_read(const struct walker *walker, uint64_t at, uint64_t word[TS_AUTOGRAD_WORDS])
{
	if (!__atomic_load_n(&walker->proven, __ATOMIC_RELAXED))
		return light_copy(at, word, TS_AUTOGRAD_WORDS);
	for (int i = 0; i < TS_AUTOGRAD_WORDS; i++)
		word[i] = walk_load(at + (uint64_t)i * WORD);
	return true;
}

static struct walk_role role_backward(struct walker *walker, const struct ts_autograd *at,
				      uint64_t node)
{
	uint64_t word[TS_AUTOGRAD_WORDS], thread, number;
	struct walk_role role = { .role = TS_STUB_NONE };

	if (!node_read(walker, node + at->number, word))
		return role;
	thread = word[TS_AUTOGRAD_THREAD];
	number = word[TS_AUTOGRAD_NUMBER];
	/* Threads that have made nodes are counted from 1. */
	if (!thread || number == NO_NUMBER ||
	    !node_get(walker, node_key(thread, number), &role.word[0], &role.word[1]))
		return role;
	__atomic_store_n(&walker->proven, 1, __ATOMIC_RELAXED);
	role.role = TS_STUB_BACKWARD;
	if (!role.word[0])
		role = (struct walk_role){ TS_STUB_LOOK_BACK, { thread, number } };
	return role;
}

static struct walk_role role_forward(struct walker *walker, const struct ts_autograd *at,
				     uint64_t block, uint32_t tid)
{
	struct walk_thread *own = &walker->thread[tid % WALK_THREADS];
	struct walk_role role = { .role = TS_STUB_NONE };
	uint64_t next = walk_load(block + at->next), before = own->next;
	bool known = own->tid == tid && own->block == block;

	if (known && next == before)
		return role;
	own->tid = tid;
	own->block = block;
	own->next = next;
	if (known && next > before)
		role = (struct walk_role){ TS_STUB_FORWARD,
					   { walk_load(block + at->thread), next, before } };
	if (!role.word[0]) /* it has its number since its first node */
		role.role = TS_STUB_NONE;
	return role;
}

struct walk_role walk_role(struct walker *walker, uint32_t tid)
{
	const struct ts_walk *shared = walk_shared(walker);
	const struct ts_autograd *at = shared ? &shared->python.autograd : NULL;
	uint32_t module = at ? __atomic_load_n(&at->module, __ATOMIC_ACQUIRE) : 0;
	uint64_t block = module ? node_block(module) : 0, node;

	if (!module)
		return (struct walk_role){ .role = TS_STUB_UNKNOWN };
	if (!block)
		return (struct walk_role){ .role = TS_STUB_NONE };
	node = walk_load(block + at->node);
	return node ? role_backward(walker, at, node) : role_forward(walker, at, block, tid);
}

void walk_keep(struct walker *walker, const struct walk_role *role, uint64_t stack)
{
	uint64_t thread = role->word[0], number = role->word[1], before = role->word[2];

	if (role->role != TS_STUB_FORWARD)
		return;
	node_put(walker, node_key(thread, --number), stack, 0);
	for (int i = 0; i < NODE_PASSED && number > before; i++)
		node_put(walker, node_key(thread, --number), stack, 1);
}
