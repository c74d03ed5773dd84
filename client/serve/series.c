/* Series: numbers are added up by process, and shown by owner less a base: what the owner's
 * processes had counted elsewhere. Whoever moves takes his count out of one base and into the
 * other, so that neither series notices. */
#include "client/serve/series.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/sums.h"

/* More numbers in a round than any daemon has. */
#define CELLS_MAX 1000000

struct owner {
	struct series_process process; /* id 0: the place is free */
	uint64_t ended_ns;	       /* 0: it runs */
	bool told;		       /* of this round */
	bool joins;		       /* it was another's before */
};

/* As struct series_cell, with the id of a process in place of an owner where it says so. */
struct number {
	uint32_t family, owner;
	int32_t device, part;
	uint64_t value;
};

struct series {
	struct owner owner[SERIES_OWNERS + 1];
	struct map index;   /* of owners, by process */
	struct sums counts; /* by process, of this round */
	struct sums gauges; /* by owner, of this round */
	struct sums last;   /* what the owners' processes had in the last round */
	struct sums base;   /* by owner */
	struct sums shown;  /* by owner */
	uint32_t seen;	    /* the last process of the rounds before */
	uint32_t newest;    /* and of this one */
	bool first;
	/* Processes of this round that run and own nothing; no more can get a place. */
	struct series_process waiting[SERIES_OWNERS];
	uint32_t waiting_count;
};

struct series *series_new(void)
{
	struct series *series = calloc(1, sizeof(*series));

	if (!series)
		return NULL;
	series->counts = series->gauges = series->last = series->base = series->shown =
		SUMS_OF(struct number, value);
	series->first = true;
	return series;
}

struct series *series_free(struct series *series)
{
	if (!series)
		return NULL;
	map_clear(&series->index);
	sums_release(&series->counts);
	sums_release(&series->gauges);
	sums_release(&series->last);
	sums_release(&series->base);
	sums_release(&series->shown);
	free(series);
	return NULL;
}

static struct map_key key_of(uint32_t process)
{
	return (struct map_key){ .a = process };
}

static uint32_t owner_of(const struct series *series, uint32_t process)
{
	const struct owner *owner = map_get(&series->index, key_of(process));

	return owner ? (uint32_t)(owner - series->owner) : SERIES_OTHER;
}

/* Adds a number that may be negative, in two's complement. */
static int add_to(struct sums *sums, const struct number *number, uint32_t owner, uint64_t value)
{
	struct number key = *number, *sum;

	key.owner = owner;
	sum = sums_get(sums, &key, CELLS_MAX);
	if (!sum)
		return -ENOMEM;
	sum->value += value;
	return 0;
}

void series_begin(struct series *series)
{
	sums_empty(&series->counts);
	sums_empty(&series->gauges);
	series->waiting_count = 0;
	for (uint32_t i = 1; i <= SERIES_OWNERS; i++)
		series->owner[i].told = false;
}

void series_add_process(struct series *series, const struct series_process *process)
{
	uint32_t number = owner_of(series, process->id);

	if (process->id > series->newest)
		series->newest = process->id;
	if (number != SERIES_OTHER && series->owner[number].process.pid == process->pid) {
		series->owner[number].process = *process;
		series->owner[number].told = true;
	} else if (process->running && series->waiting_count < SERIES_OWNERS) {
		series->waiting[series->waiting_count++] = *process;
	}
}

int series_add(struct series *series, uint32_t process, const struct series_cell *cell, bool gauge)
{
	struct number number = {
		.family = cell->family,
		.device = cell->device < SERIES_REST ? cell->device : SERIES_REST,
		.part = cell->part,
	};

	return add_to(gauge ? &series->gauges : &series->counts, &number, process, cell->value);
}

static int remove_of(struct sums *sums, uint32_t owner)
{
	struct sums rest = SUMS_OF(struct number, value);
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < sums->count; i++) {
		const struct number *number = sums_row(sums, i);

		if (number->owner != owner)
			r = add_to(&rest, number, number->owner, number->value);
	}
	sums_release(sums);
	*sums = rest;
	return r;
}

/* From now on it is other's, but what it has counted so far was shown. */
static int release(struct series *series, uint32_t number)
{
	struct owner *owner = &series->owner[number];
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < series->last.count; i++) {
		const struct number *last = sums_row(&series->last, i);

		if (last->owner == number)
			r = add_to(&series->base, last, SERIES_OTHER, last->value);
	}
	map_remove(&series->index, key_of(owner->process.id));
	*owner = (struct owner){ 0 };
	if (r == 0)
		r = remove_of(&series->last, number);
	return r < 0 ? r : remove_of(&series->base, number);
}

static int release_ended(struct series *series, uint64_t now_ns)
{
	int r = 0;

	for (uint32_t i = 1; r == 0 && i <= SERIES_OWNERS; i++) {
		struct owner *owner = &series->owner[i];

		if (!owner->process.id)
			continue;
		if (owner->told && owner->process.running)
			owner->ended_ns = 0;
		else if (!owner->ended_ns)
			owner->ended_ns = now_ns;
		if (!owner->told ||
		    (owner->ended_ns && now_ns - owner->ended_ns >= SERIES_ENDED_NS))
			r = release(series, i);
	}
	return r;
}

/* Nobody could tell their series from each other. */
static int release_alike(struct series *series, const struct series_process *process)
{
	int r = 0;

	for (uint32_t i = 1; r == 0 && i <= SERIES_OWNERS; i++)
		if (series->owner[i].process.pid == process->pid)
			r = release(series, i);
	return r;
}

/* A free place, or that of the process that ended first; 0: all run. */
static uint32_t find_place(const struct series *series)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i <= SERIES_OWNERS; i++) {
		const struct owner *owner = &series->owner[i];

		if (!owner->process.id)
			return i;
		if (owner->ended_ns && (!best || owner->ended_ns < series->owner[best].ended_ns))
			best = i;
	}
	return best;
}

static int admit(struct series *series, const struct series_process *process)
{
	int r = release_alike(series, process);
	uint32_t place = find_place(series);

	if (r < 0 || !place)
		return r;
	if (series->owner[place].process.id)
		r = release(series, place);
	if (r < 0)
		return r;
	series->owner[place] = (struct owner){
		.process = *process,
		.told = true,
		.joins = !series->first && process->id <= series->seen,
	};
	return map_put(&series->index, key_of(process->id), &series->owner[place]);
}

/* What is counted of processes that own series: now, and before they did. */
static int note_owned(struct series *series)
{
	int r = 0;

	sums_empty(&series->last);
	for (uint32_t i = 0; r == 0 && i < series->counts.count; i++) {
		const struct number *count = sums_row(&series->counts, i);
		uint32_t owner = owner_of(series, count->owner);

		if (owner == SERIES_OTHER && !series->first)
			continue;
		if (owner != SERIES_OTHER)
			r = add_to(&series->last, count, owner, count->value);
		if (r == 0 && series->owner[owner].joins) {
			r = add_to(&series->base, count, owner, count->value);
			if (r == 0)
				r = add_to(&series->base, count, SERIES_OTHER, -count->value);
		}
		/* What was before us is nobody's. */
		if (r == 0 && owner == SERIES_OTHER)
			r = add_to(&series->base, count, SERIES_OTHER, count->value);
	}
	for (uint32_t i = 1; i <= SERIES_OWNERS; i++)
		series->owner[i].joins = false;
	return r;
}

static int show(struct series *series, const struct sums *sums)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < sums->count; i++) {
		const struct number *number = sums_row(sums, i);

		r = add_to(&series->shown, number, owner_of(series, number->owner), number->value);
	}
	return r;
}

/* A database that was replaced has counted less than was shown: its series start anew. */
static int subtract_base(struct series *series)
{
	for (uint32_t i = 0; i < series->base.count; i++) {
		struct number *base = sums_row(&series->base, i);
		struct number *shown = sums_get(&series->shown, base, CELLS_MAX);

		if (!shown)
			return -ENOMEM;
		if ((int64_t)(shown->value - base->value) < 0)
			base->value = shown->value;
		shown->value -= base->value;
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct series_cell *x = a, *y = b;

	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->part > y->part) - (x->part < y->part);
}

int series_end(struct series *series, uint64_t now_ns)
{
	int r = release_ended(series, now_ns);

	for (uint32_t i = 0; r == 0 && i < series->waiting_count; i++)
		r = admit(series, &series->waiting[i]);
	if (r == 0)
		r = note_owned(series);
	sums_empty(&series->shown);
	r = r < 0 ? r : show(series, &series->counts);
	r = r < 0 ? r : subtract_base(series);
	r = r < 0 ? r : show(series, &series->gauges);
	if (r < 0)
		return r;
	series->seen = series->newest;
	series->first = false;
	/* The keys of the map are of no use any more: they are in another order now. */
	map_empty(&series->shown.index);
	if (series->shown.count)
		qsort(series->shown.row, series->shown.count, sizeof(struct number), compare);
	return 0;
}

const struct series_cell *series_cells(const struct series *series, uint32_t *ret_count)
{
	_Static_assert(sizeof(struct number) == sizeof(struct series_cell), "one is the other");

	*ret_count = series->shown.count;
	return (const struct series_cell *)series->shown.row;
}

const struct series_process *series_owner(const struct series *series, uint32_t owner)
{
	const struct series_process *process = &series->owner[owner].process;

	return owner != SERIES_OTHER && process->id ? process : NULL;
}
