/* Growth: each is in the map by its place, in the list of its process, and in that of all. */
#include "core/leak/growth.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/time.h"

/* In one turn, so that a hundred thousand stacks do not hold anybody up: at eight turns a second,
 * 16,384 are looked at every other second. */
#define LOOKS_OF_TURN 1024
/* A stack is judged again after this fraction of its life, within these bounds. */
#define AGAIN_OF_LIFE  32
#define AGAIN_LEAST_NS NS_PER_S
#define AGAIN_MOST_NS  (60 * NS_PER_S)
/* A few ranges are no iterations, and after a pause of so many there are none any more. */
#define STEPS_LEAST 8
#define STEPS_OVER  64
/* How many of the least recently used are looked at for one that can go. */
#define SPARED_LOOKS 16

static struct map_key growth_key(const struct growing *growing, const struct growth_place *place)
{
	return (struct map_key){
		place->stack_id,
		(uint64_t)growing->process << 32 | (uint64_t)place->fn << 16 |
			(uint64_t)(uint8_t)place->device << 8 | place->kind,
	};
}

void growths_init(struct growths *growths, struct quota *share)
{
	*growths = (struct growths){ .share = share };
	list_init(&growths->all);
}

void growths_release(struct growths *growths)
{
	map_clear(&growths->by_place);
}

void growing_init(struct growing *growing, uint32_t process, uint32_t user)
{
	*growing = (struct growing){ .process = process, .user = user };
	list_init(&growing->growths);
}

static void growth_forget(struct growths *growths, struct growth *growth)
{
	map_remove(&growths->by_place, growth_key(growth->of, &growth->place));
	list_remove(&growth->link);
	list_remove(&growth->in_all);
	quota_give(growths->share, growth->of->user, 1);
	history_clear(&growth->history);
	free(growth);
}

void growths_forget(struct growths *growths, struct growing *growing)
{
	struct growth *growth;

	list_for_each(growth, &growing->growths, link)
		growth_forget(growths, growth);
}

/* Whether there is room for another one now. */
static bool growth_spare(struct growths *growths, struct growing *growing)
{
	unsigned int looks = SPARED_LOOKS;
	struct growth *growth;

	list_for_each(growth, &growing->growths, link) {
		if (!growth->history.live_count) {
			growth_forget(growths, growth);
			return quota_take(growths->share, growing->user, 1);
		}
		if (!--looks)
			break;
	}
	return false;
}

static struct growth *growth_find(const struct growths *growths, const struct growing *growing,
				  const struct growth_place *place)
{
	return map_get(&growths->by_place, growth_key(growing, place));
}

static struct growth *growth_add(struct growths *growths, struct growing *growing,
				 const struct growth_place *place)
{
	struct growth *growth = calloc(1, sizeof(*growth));

	if (!growth)
		return NULL;
	if (map_put(&growths->by_place, growth_key(growing, place), growth) < 0) {
		free(growth);
		return NULL;
	}
	growth->of = growing;
	growth->place = *place;
	list_append(&growing->growths, &growth->link);
	list_prepend(&growths->all, &growth->in_all);
	return growth;
}

/* NULL: there is no room for it. */
static struct growth *growth_get(struct growths *growths, struct growing *growing,
				 const struct growth_place *place)
{
	struct growth *growth = growth_find(growths, growing, place);

	if (growth) {
		list_remove(&growth->link);
		list_append(&growing->growths, &growth->link);
		return growth;
	}
	if (!quota_take(growths->share, growing->user, 1) && !growth_spare(growths, growing))
		return NULL;
	growth = growth_add(growths, growing, place);
	if (!growth)
		quota_give(growths->share, growing->user, 1);
	return growth;
}

void growths_born(struct growths *growths, struct growing *growing,
		  const struct growth_place *place, uint64_t now_ns, uint64_t bytes)
{
	struct growth *growth = growth_get(growths, growing, place);

	/* Without memory for a slot its block proves nothing. */
	if (growth)
		(void)history_allocated(&growth->history, now_ns, bytes, growing->calls);
}

void growths_found(struct growths *growths, struct growing *growing,
		   const struct growth_place *place, uint64_t born_ns, uint64_t bytes)
{
	struct growth *growth = growth_get(growths, growing, place);

	if (growth)
		history_found(&growth->history, born_ns, bytes);
}

int growths_resume(struct growths *growths, struct growing *growing,
		   const struct growth_place *place, const struct history_past *past)
{
	struct growth *growth = growth_get(growths, growing, place);
	int r = growth ? history_resume(&growth->history, past) : -ENOSPC;

	if (r == 0 && past->activity > growing->calls)
		growing->calls = past->activity;
	return r;
}

/* Its history may be younger than the block, if there was no room for one when that was born. */
void growths_gone(struct growths *growths, struct growing *growing,
		  const struct growth_place *place, uint64_t born_ns, uint64_t now_ns,
		  uint64_t bytes)
{
	struct growth *growth = growth_find(growths, growing, place);

	if (growth && growth->history.live_count)
		history_freed(&growth->history, born_ns, now_ns, bytes, growing->calls);
}

/* A verdict that no longer holds is not left to stand. */
static void growth_missed(struct growth *growth, uint64_t since_ns, uint64_t until_ns)
{
	uint64_t sure_ns = growth->history.sure_ns;

	history_missed(&growth->history, since_ns, until_ns, growth->of->calls);
	if (growth->history.sure_ns != sure_ns && growth->told != VERDICT_YOUNG)
		growth->due_ns = 0;
}

void growing_missed(struct growing *growing, uint8_t kind, uint64_t since_ns, uint64_t until_ns)
{
	uint64_t *missed_ns = &growing->missed_ns[kind != GROWTHS_ALL];
	struct growth *growth;

	if (since_ns < *missed_ns)
		since_ns = *missed_ns;
	if (since_ns >= until_ns)
		return;
	*missed_ns = until_ns;
	list_for_each(growth, &growing->growths, link)
		if (kind == GROWTHS_ALL || growth->place.kind == kind)
			growth_missed(growth, since_ns, until_ns);
}

void growing_start_over(struct growing *growing, uint8_t kind)
{
	struct growth *growth;

	list_for_each(growth, &growing->growths, link) {
		if (growth->place.kind != kind)
			continue;
		history_clear(&growth->history);
		growth->due_ns = 0;
	}
}

void growing_step(struct growing *growing, uint64_t now_ns)
{
	if (!growing->steps++)
		growing->step_first_ns = now_ns;
	if (now_ns > growing->step_last_ns)
		growing->step_last_ns = now_ns;
}

double growing_step_ns(const struct growing *growing, uint64_t now_ns)
{
	double ns;

	if (growing->steps < STEPS_LEAST)
		return 0;
	ns = (double)(growing->step_last_ns - growing->step_first_ns) /
	     (double)(growing->steps - 1);
	return now_ns > growing->step_last_ns &&
			       (double)(now_ns - growing->step_last_ns) > STEPS_OVER * ns
		       ? 0
		       : ns;
}

void growths_turn(struct growths *growths)
{
	growths->looks = LOOKS_OF_TURN;
	if (growths->looks > growths->by_place.count)
		growths->looks = (uint32_t)growths->by_place.count;
}

/* What nothing happened to is still told once its verdict is another one. */
static bool growth_is_new(struct growth *growth, const struct verdict *verdict)
{
	const struct history *history = &growth->history;
	bool same = growth->told == verdict->kind && growth->told_frees == history->frees &&
		    growth->told_allocations == history->allocations &&
		    growth->told_since_ns == history->sure_ns;

	growth->told = verdict->kind;
	growth->told_frees = history->frees;
	growth->told_allocations = history->allocations;
	growth->told_since_ns = history->sure_ns;
	return !same;
}

static void growth_put_off(struct growth *growth, uint64_t now_ns)
{
	uint64_t wait_ns = (now_ns - growth->history.first_ns) / AGAIN_OF_LIFE;

	if (wait_ns < AGAIN_LEAST_NS)
		wait_ns = AGAIN_LEAST_NS;
	growth->due_ns = now_ns + (wait_ns < AGAIN_MOST_NS ? wait_ns : AGAIN_MOST_NS);
}

struct growth *growths_next(struct growths *growths, uint64_t now_ns, struct verdict *ret_verdict)
{
	while (growths->looks) {
		struct growth *growth = list_first(&growths->all, struct growth, in_all);

		growths->looks--;
		list_remove(&growth->in_all);
		list_append(&growths->all, &growth->in_all);
		if (now_ns < growth->due_ns)
			continue;
		history_watch(&growth->history, now_ns, growth->of->calls);
		growth_put_off(growth, now_ns);
		*ret_verdict = verdict_of(&growth->history, now_ns, growth->of->calls);
		if (growth_is_new(growth, ret_verdict))
			return growth;
	}
	return NULL;
}
