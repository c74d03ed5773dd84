/* Known: only written in what is shared, and never read there. */
#include "daemon/exact/known.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/map.h"
#include "core/base/memfd.h"
#include "daemon/limits.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* More mappings may change before their calls are read, as many as there are in a loader's steps.
 */
#define EPOCHS 64

struct known {
	struct ts_walk *walk; /* NULL: nothing is shared */
	int fd;
	uint32_t epoch;		   /* from 1: how often all has been forgotten */
	uint32_t turn;		   /* who goes next from a full set */
	uint64_t ended_ns[EPOCHS]; /* until when the ids of the last epochs are good */
	struct map ids;		   /* and their epochs */
};

/* Where the kernel lets nobody map it for writing from then on: since 5.1. Before that, a process
 * that writes there harms itself. */
static int known_share(struct known *known)
{
	const int seals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	_cleanup_(closep) int fd = memfd_make("tracesmith-walk", sizeof(struct ts_walk));
	void *at;

	if (fd < 0)
		return fd;
	/* All of it: a process that is out of memory must not be asked for a page of ours. */
	at = mmap(NULL, sizeof(struct ts_walk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		  fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	known->walk = at;
	known->walk->version = TS_WALK_VERSION;
	if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) < 0 &&
	    fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	known->fd = TAKE_FD(fd);
	return 0;
}

struct known *known_free(struct known *known)
{
	if (!known)
		return NULL;
	if (known->walk)
		munmap(known->walk, sizeof(struct ts_walk));
	closep(&known->fd);
	map_clear(&known->ids);
	free(known);
	return NULL;
}

int known_new(bool shares, struct known **ret)
{
	struct known *known = calloc(1, sizeof(*known));
	int r = 0;

	if (!known)
		return -ENOMEM;
	known->fd = -1;
	known->epoch = 1;
	if (shares)
		r = known_share(known);
	if (r < 0) {
		known_free(known);
		return r;
	}
	*ret = known;
	return 0;
}

int known_fd(const struct known *known)
{
	return known ? known->fd : -1;
}

void known_set_depth(struct known *known, uint32_t depth, uint32_t python_depth, bool check)
{
	if (!known || !known->walk)
		return;
	__atomic_store_n(&known->walk->depth, depth, __ATOMIC_RELAXED);
	__atomic_store_n(&known->walk->python_depth, python_depth, __ATOMIC_RELAXED);
	__atomic_store_n(&known->walk->check, check, __ATOMIC_RELAXED);
}

static void known_empty(struct ts_walk *walk)
{
	uint64_t *word = (uint64_t *)walk->rule;
	size_t words = (sizeof(walk->rule) + sizeof(walk->id)) / sizeof(*word);

	__atomic_store_n(&walk->seed, 0, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < words; i++)
		if (word[i])
			__atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
}

void known_forget(struct known *known, uint64_t time_ns)
{
	if (!known)
		return;
	if (known->ids.count >= LIMIT_KNOWN_STACKS)
		map_empty(&known->ids);
	known->ended_ns[known->epoch++ % EPOCHS] = time_ns;
	if (known->walk)
		known_empty(known->walk);
}

void known_set_seed(struct known *known, uint64_t seed)
{
	if (known && known->walk)
		__atomic_store_n(&known->walk->seed, seed, __ATOMIC_RELEASE);
}

/* The library goes by few kinds; a stack with others takes the way through the stub. */
static bool rule_is_followed(struct rule rule)
{
	return rule.kind == RULE_RSP || rule.kind == RULE_RBP || rule.kind == RULE_AT_RSP ||
	       rule.kind == RULE_AT_RBP || rule.kind == RULE_END;
}

static struct ts_walk_rule *rule_slot(struct known *known, uint64_t address)
{
	struct ts_walk_rule *set = known->walk->rule[walk_rule_set(address)];

	for (unsigned int i = 0; i < TS_WALK_RULE_WAYS; i++)
		if (set[i].address == address)
			return &set[i];
	for (unsigned int i = 0; i < TS_WALK_RULE_WAYS; i++)
		if (!set[i].address)
			return &set[i];
	return &set[known->turn++ % TS_WALK_RULE_WAYS];
}

void known_add_rule(struct known *known, uint64_t address, struct rule rule)
{
	uint64_t packed = rule_pack(rule, (uint16_t)address);
	struct ts_walk_rule *slot;

	if (!known || !known->walk || !address || !rule_is_followed(rule))
		return;
	slot = rule_slot(known, address);
	if (slot->address == address && slot->rule == packed)
		return;
	__atomic_store_n(&slot->address, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->rule, packed, __ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->address, address, __ATOMIC_SEQ_CST);
}

static struct map_key key_of(uint64_t id)
{
	return (struct map_key){ id, 0 };
}

static void known_share_id(struct known *known, uint64_t id)
{
	uint64_t *set = known->walk->id[walk_id_set(id)], *slot;

	if (walk_has_id(known->walk, id))
		return;
	slot = &set[known->turn++ % TS_WALK_ID_WAYS];
	for (unsigned int i = 0; i < TS_WALK_ID_WAYS; i++)
		if (!set[i])
			slot = &set[i];
	__atomic_store_n(slot, id, __ATOMIC_RELEASE);
}

bool known_add_id(struct known *known, uint64_t id)
{
	if (!known || !id)
		return true;
	if (known->ids.count >= LIMIT_KNOWN_STACKS)
		return false;
	/* Values are never NULL. */
	if (map_put(&known->ids, key_of(id), (void *)(uintptr_t)known->epoch) == 0 && known->walk)
		known_share_id(known, id);
	return true;
}

static bool known_is_current(const struct known *known, uint64_t id)
{
	return (uintptr_t)map_get(&known->ids, key_of(id)) == known->epoch;
}

void known_see_id(struct known *known, uint64_t id)
{
	if (known && known->walk && known_is_current(known, id))
		known_share_id(known, id);
}

bool known_has(const struct known *known, uint64_t id, uint64_t time_ns)
{
	uint32_t epoch = known ? (uint32_t)(uintptr_t)map_get(&known->ids, key_of(id)) : 0, ago;

	if (!epoch)
		return false;
	ago = known->epoch - epoch;
	return !ago || (ago <= EPOCHS && time_ns < known->ended_ns[epoch % EPOCHS]);
}

bool known_is_void(const struct known *known, uint64_t time_ns)
{
	return known && time_ns < known->ended_ns[(known->epoch - 1) % EPOCHS];
}

void known_end_autograd(struct known *known)
{
	if (known && known->walk)
		__atomic_store_n(&known->walk->python.autograd.module, 0, __ATOMIC_RELEASE);
}

void known_add_python(struct known *known, const struct ts_python *python, bool frames)
{
	struct ts_python *to = known && known->walk ? &known->walk->python : NULL;
	struct ts_autograd *autograd = to ? &to->autograd : NULL;

	if (autograd && !autograd->module && python->autograd.module) {
		autograd->next = python->autograd.next;
		autograd->node = python->autograd.node;
		autograd->thread = python->autograd.thread;
		autograd->number = python->autograd.number;
		__atomic_store_n(&autograd->module, python->autograd.module, __ATOMIC_RELEASE);
	}
	if (!to || !frames || to->size)
		return;
	to->state = python->state;
	to->frame = python->frame;
	to->indirect = python->indirect;
	to->check = python->check;
	to->code = python->code;
	to->previous = python->previous;
	to->position = python->position;
	to->mark = python->mark;
	to->mark_shift = python->mark_shift;
	to->marks = python->marks;
	to->index = python->index;
	to->tags = python->tags;
	__atomic_store_n(&to->size, python->size, __ATOMIC_RELEASE);
}
