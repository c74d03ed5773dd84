/* Estimate: for each of its stacks a part keeps what was measured with it, and the total weight of
 * its samples. At the end the weights are turned into shares of what was not sampled. */
#include "core/model/estimate.h"

#include <errno.h>

struct estimate_kind {
	struct estimate_kind *next;
	struct estimate_part *part; /* the newest first */
};

/* As much as `count` things of a sample's kind. */
struct weight {
	double count, ns, bytes;
};

struct estimate_cell {
	struct estimate_cell *next, *next_of_group;
	uint64_t stack;
	struct estimate_sum own;
	struct estimate_sum in_group; /* of these, in the part's last group */
	struct weight weight;	      /* of what its samples stand for */
};

static void sum_add(struct estimate_sum *to, const struct estimate_sum *value)
{
	to->count += value->count;
	to->ns += value->ns;
	to->bytes += value->bytes;
}

static struct estimate_kind *kind_get(struct estimate *estimate, const struct estimate_key *key)
{
	struct map_key place = { key->what, (uint64_t)key->graph << 32 | key->process };
	struct estimate_kind *kind = map_get(&estimate->kind_by_key, place);

	if (kind)
		return kind;
	kind = arena_get(&estimate->arena, sizeof(*kind));
	if (!kind || map_put(&estimate->kind_by_key, place, kind) < 0)
		return NULL;
	*kind = (struct estimate_kind){ .next = estimate->kind };
	estimate->kind = kind;
	return kind;
}

struct estimate_part *estimate_part(struct estimate *estimate, const struct estimate_key *key)
{
	struct estimate_kind *kind = kind_get(estimate, key);
	struct map_key place = { (uintptr_t)kind, (uint64_t)key->thread << 32 | key->stream };
	struct estimate_part *part = kind ? map_get(&estimate->part_by_key, place) : NULL;

	if (part || !kind)
		return part;
	part = arena_get(&estimate->arena, sizeof(*part));
	if (!part || map_put(&estimate->part_by_key, place, part) < 0)
		return NULL;
	*part = (struct estimate_part){ .next = kind->part };
	kind->part = part;
	return part;
}

static struct estimate_cell *cell_get(struct estimate *estimate, struct estimate_part *part,
				      uint64_t stack)
{
	struct map_key place = { (uintptr_t)part, stack };
	struct estimate_cell *cell = map_get(&estimate->cell_by_key, place);

	if (cell)
		return cell;
	cell = arena_get(&estimate->arena, sizeof(*cell));
	if (!cell || map_put(&estimate->cell_by_key, place, cell) < 0)
		return NULL;
	*cell = (struct estimate_cell){ .next = part->cell, .stack = stack };
	part->cell = cell;
	return cell;
}

/* The samples of the group stand for all that waits. */
static void group_stand(struct estimate_part *part)
{
	double count = 0;

	if (part->pending == 0)
		return;
	for (struct estimate_cell *cell = part->group; cell; cell = cell->next_of_group)
		count += (double)cell->in_group.count;
	for (struct estimate_cell *cell = part->group; cell; cell = cell->next_of_group) {
		double times = (double)part->pending / count;

		cell->weight.count += times * (double)cell->in_group.count;
		cell->weight.ns += times * (double)cell->in_group.ns;
		cell->weight.bytes += times * (double)cell->in_group.bytes;
	}
	if (part->group)
		part->pending = 0;
}

static void group_begin(struct estimate_part *part, uint64_t step)
{
	for (struct estimate_cell *cell = part->group; cell; cell = cell->next_of_group)
		cell->in_group = (struct estimate_sum){ 0 };
	part->group = NULL;
	part->group_step = step;
}

static void group_add(struct estimate_part *part, struct estimate_cell *cell,
		      const struct estimate_sum *value)
{
	if (cell->in_group.count == 0) {
		cell->next_of_group = part->group;
		part->group = cell;
	}
	sum_add(&cell->in_group, value);
}

void estimate_add_unstacked(struct estimate_part *part, const struct estimate_sum *value)
{
	sum_add(&part->unstacked, value);
}

int estimate_add(struct estimate *estimate, struct estimate_part *part, uint64_t step,
		 uint64_t stack, const struct estimate_sum *value)
{
	struct estimate_cell *cell;

	if (value->count == 0)
		return 0;
	if (step != part->step) {
		if (part->step == part->group_step)
			group_stand(part);
		part->step = step;
	}
	if (!stack) {
		sum_add(&part->unsampled, value);
		part->pending += value->count;
		return 0;
	}
	cell = cell_get(estimate, part, stack);
	if (!cell)
		return -ENOMEM;
	if (step == 0 || step != part->group_step)
		group_begin(part, step);
	sum_add(&cell->own, value);
	group_add(part, cell, value);
	if (step == 0)
		group_stand(part);
	return 0;
}

/* Weights of things that share what was measured of others. */
static struct weight weight_of(const struct estimate_cell *cell, bool whole)
{
	struct weight weight = cell->weight;

	if (whole) {
		weight.count += (double)cell->own.count;
		weight.ns += (double)cell->own.ns;
		weight.bytes += (double)cell->own.bytes;
	}
	return weight;
}

static void weigh_part(const struct estimate_part *part, bool whole, struct weight *to)
{
	for (const struct estimate_cell *cell = part->cell; cell; cell = cell->next) {
		struct weight weight = weight_of(cell, whole);

		to->count += weight.count;
		to->ns += weight.ns;
		to->bytes += weight.bytes;
	}
}

/* Goes around the cells that share `what`. The sum of all roundings is exact in the end. */
struct share {
	struct estimate_sum what, given;
	struct weight all, upto;
	bool whole; /* a cell also weighs what was measured with it */
};

static uint64_t share_one(uint64_t what, uint64_t *given, double upto, double all)
{
	double part = upto >= all ? (double)what : (double)what * (upto / all);
	uint64_t now = upto >= all ? what : (uint64_t)(part + 0.5), value;

	if (now > what)
		now = what;
	value = now > *given ? now - *given : 0;
	*given += value;
	return value;
}

/* If samples measured nothing, they are counted. */
static struct estimate_sum share_next(struct share *share, const struct estimate_cell *cell)
{
	struct weight weight = weight_of(cell, share->whole), *upto = &share->upto;
	const struct weight *all = &share->all;
	struct estimate_sum sum;

	upto->count += weight.count;
	upto->ns += all->ns > 0 ? weight.ns : 0;
	upto->bytes += all->bytes > 0 ? weight.bytes : 0;
	sum.count = share_one(share->what.count, &share->given.count, upto->count, all->count);
	sum.ns = share_one(share->what.ns, &share->given.ns, all->ns > 0 ? upto->ns : upto->count,
			   all->ns > 0 ? all->ns : all->count);
	sum.bytes = share_one(share->what.bytes, &share->given.bytes,
			      all->bytes > 0 ? upto->bytes : upto->count,
			      all->bytes > 0 ? all->bytes : all->count);
	return sum;
}

static int tell(const struct estimate_part *part, uint64_t stack, const struct estimate_sum *sum,
		uint64_t scaled, estimate_fn *call, void *data)
{
	struct estimate_result result = {
		.owner = part->owner,
		.stack = stack,
		.sum = *sum,
		.sampled = stack ? sum->count - scaled : 0,
		.scaled = scaled,
	};

	return sum->count + sum->ns + sum->bytes == 0 ? 0 : call(data, &result);
}

/* Using its own samples. */
static int end_sampled(const struct estimate_part *part, estimate_fn *call, void *data)
{
	struct share share = { .what = part->unsampled };
	int r = 0;

	weigh_part(part, false, &share.all);
	for (const struct estimate_cell *cell = part->cell; cell && r == 0; cell = cell->next) {
		struct estimate_sum sum = share_next(&share, cell);
		uint64_t scaled = sum.count;

		sum_add(&sum, &cell->own);
		r = tell(part, cell->stack, &sum, scaled, call, data);
	}
	return r;
}

/* Using those of other parts. */
static int end_unsampled(const struct estimate_kind *kind, const struct estimate_part *part,
			 estimate_fn *call, void *data)
{
	struct share share = { .what = part->unsampled, .whole = true };
	int r = 0;

	for (const struct estimate_part *other = kind->part; other; other = other->next)
		weigh_part(other, true, &share.all);
	for (const struct estimate_part *other = kind->part; other; other = other->next) {
		for (const struct estimate_cell *cell = other->cell; cell && r == 0;
		     cell = cell->next) {
			struct estimate_sum sum = share_next(&share, cell);

			r = tell(part, cell->stack, &sum, sum.count, call, data);
		}
	}
	return r;
}

static int end_part(const struct estimate_kind *kind, const struct estimate_part *part,
		    bool sampled, estimate_fn *call, void *data)
{
	int r = tell(part, 0, &part->unstacked, 0, call, data);

	if (r == 0 && part->cell)
		return end_sampled(part, call, data);
	if (r == 0 && sampled)
		return end_unsampled(kind, part, call, data);
	return r == 0 ? tell(part, 0, &part->unsampled, 0, call, data) : r;
}

int estimate_end(struct estimate *estimate, estimate_fn *call, void *data)
{
	int r = 0;

	for (struct estimate_kind *kind = estimate->kind; kind && r == 0; kind = kind->next) {
		bool sampled = false;

		for (struct estimate_part *part = kind->part; part; part = part->next) {
			group_stand(part);
			sampled |= part->cell != NULL;
		}
		for (struct estimate_part *part = kind->part; part && r == 0; part = part->next)
			r = end_part(kind, part, sampled, call, data);
	}
	return r;
}

void estimate_clear(struct estimate *estimate)
{
	map_clear(&estimate->kind_by_key);
	map_clear(&estimate->part_by_key);
	map_clear(&estimate->cell_by_key);
	arena_clear(&estimate->arena);
	*estimate = (struct estimate){ 0 };
}
