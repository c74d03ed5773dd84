/* Name: the id of a text is a hash of it, the same in every process, so that equal names add up. A
 * text is reported when it comes, unless another process of the user reported a copy since this one
 * is recorded: a store may forget names that are older than all recordings, and for each user. */
#include "core/model/name.h"

#include "core/model/model.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(void *) >= sizeof(uint64_t), "a map keeps an id in place of a pointer");

static struct map_key name_key(uint32_t number)
{
	return (struct map_key){ number, 0 };
}

uint64_t name_find(const struct exact *exact, uint32_t number)
{
	return number ? (uintptr_t)map_get(&exact->name_by_id, name_key(number)) : 0;
}

/* 0 means none, and a store has 63 bits. */
static uint64_t name_id(const char *text, size_t length)
{
	uint64_t id = XXH3_64bits(text, length) & INT64_MAX;

	return id ? id : 1;
}

static bool name_has_room(struct core *core, const struct process *process, const struct map *names)
{
	return names->count < core->config.max_names &&
	       quota_take(&core->share[CORE_SHARE_NAMES], process->row.user, 1);
}

int name_take(struct core *core, struct process *process, uint32_t number, const char *text,
	      size_t length)
{
	struct exact *exact = exact_get(core, process);
	uint64_t id = name_id(text, length);
	struct told_name *told = &core->told_name[id % TOLD_NAMES];
	uint32_t user = process->row.user;
	bool room;

	if (!exact)
		return INGEST_LIMIT;
	room = name_find(exact, number) || name_has_room(core, process, &exact->name_by_id);
	if (!room || map_put(&exact->name_by_id, name_key(number), (void *)(uintptr_t)id) < 0) {
		loss_count(core, process, LOSS_LIMIT);
		return INGEST_LIMIT;
	}
	if (told->id == id && told->user == user && exact->row.since_ns &&
	    told->time_ns >= exact->row.since_ns)
		return INGEST_OK;
	*told = (struct told_name){ id, core->now_ns, user };
	core_tell(core, &(struct core_name){ id, text, length, process->row.id });
	return INGEST_OK;
}

/* Of the model's clock, which may stand at 0. */
static bool name_is_fresh(const struct core *core, const void *told)
{
	return told && core->now_ns < (uintptr_t)told - 1 + CORE_NAME_AGAIN_NS;
}

uint64_t name_tell(struct core *core, struct process *process, struct map *told, const char *text,
		   size_t length)
{
	uint64_t id = name_id(text, length);
	struct map_key key = { id, 0 };
	void *then = map_get(told, key);

	if (name_is_fresh(core, then))
		return id;
	if ((!then && !name_has_room(core, process, told)) ||
	    map_put(told, key, (void *)(uintptr_t)(core->now_ns + 1)) < 0) {
		loss_count(core, process, LOSS_LIMIT);
		return 0;
	}
	core_tell(core, &(struct core_name){ id, text, length, process->row.id });
	return id;
}

void name_forget_all(struct core *core, const struct process *process, struct map *told)
{
	quota_give(&core->share[CORE_SHARE_NAMES], process->row.user, told->count);
	map_clear(told);
}

void name_free_all(struct core *core, struct exact *exact)
{
	quota_give(&core->share[CORE_SHARE_NAMES], exact->process->row.user,
		   exact->name_by_id.count);
	map_clear(&exact->name_by_id);
}
