/* leak_program.h: a program that allocates and frees, in virtual time. A program has sites
 * (stacks), each with a habit; what a habit does is known, so the truth about each site is, too.
 * All of it comes from a seed. */
#ifndef TS_LEAK_PROGRAM_H
#define TS_LEAK_PROGRAM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/time.h"
#include "core/leak/verdict.h"

#define SITES_MAX 12
#define KEYS_MAX  4096

enum habit {
	LOADS,	 /* `count` blocks in the first `for_s`, kept */
	TRAFFIC, /* `count` blocks a step, freed after `life_s` (`tail`: how unevenly); with `for_s`
		  * it takes this time until it is that many */
	FILLS,	 /* a cache of `count` keys, `rate` requests a step, nothing is evicted; `tail`:
		  * 1: some are popular, 2: most are rare */
	EVICTS,	 /* the same with room for half of the keys: a random one goes */
	ROLLS,	 /* `count` blocks, `rate` new ones a step; the oldest goes */
	DOUBLES, /* one block that is replaced by one twice as large, up to `count` times */
	SAWTOOTH, /* `rate` blocks a step, all freed at the end of an epoch of `life_s`, but `count`
		   * of them if it leaks */
	EVALUATES, /* every `life_s`, `rate` blocks a step for `for_s`, then all are freed */
	REGROWS,   /* a workspace replaced by a larger one every `life_s`, up to a largest */
	SESSIONS,  /* come by the hour of the day, stay `life_s` */
	POOLS,	   /* `count` blocks, any of them replaced now and then */
	SEQUENCES, /* `count` blocks, each replaced by a larger one in each step, and by a small one
		    * with the chance `part` */
	PAGES,	   /* `count` sequences, each with another block after `rate` steps, until all of
		    * them are freed after some multiple of `life_s` */
	KEEPS_LAST, /* `count` blocks every `life_s`; those of the last `part` times are kept */
	LEAKS,	    /* `rate` blocks a step, forgotten */
	DRIPS,	    /* TRAFFIC, of which a `part` is forgotten, from `for_s` on */
	PEAKS,	    /* many blocks at first, freed after `life_s`; from then on it LEAKS */
	BURSTS,	    /* `count` blocks every `life_s`, forgotten */
	EXTENDS,    /* one block, replaced by a larger one every `life_s`, for ever */
	STAGES,	    /* LOADS in `part` stages, each after `life_s` more */
	HABITS
};

struct block {
	uint64_t born_ns;
	uint32_t bytes;
};

struct site {
	enum habit habit;
	double count, rate, life_s, for_s, part, tail, from_s, bytes;
	bool leaks;
	unsigned int want; /* bits of verdicts that are right in the end; 0: by `leaks` */
	/* as it goes */
	double carry;
	uint64_t done, epoch_ns;
	uint64_t first_leak_ns;
	int verdict;
	uint8_t confidence, told_confidence;
	uint64_t due_ns;
	uint64_t told_ns;    /* first called a leak */
	uint64_t accused_ns; /* not a leak, and called one */
	uint64_t last_accused_ns;
	unsigned int looks, says_leak; /* since it was told */
	struct history history;
	struct block_kept {
		uint64_t born_ns;
		uint32_t bytes;
		uint32_t key;
		bool seen;
	} * kept;
	uint32_t kept_count, kept_room;
	struct block *forgotten, *ghost; /* leaked ones that were seen; freed, unseen */
	uint32_t forgotten_count, forgotten_room, ghost_count, ghost_room;
	uint32_t slot[KEYS_MAX]; /* of a cache: 1 + place in kept; 0: none */
};

struct program {
	const char *family;
	uint64_t seed;
	uint64_t random;
	double step_s, noise, hours;
	unsigned int launches; /* a step */
	struct site *site;
	unsigned int sites;
	double gap_every_s, gap_s;	 /* 0: none */
	double idle_from_s, slower_at_s; /* 0: never */
	double attach_at_s;		 /* what was before is unknown */
	double restart_at_s;		 /* of the daemon; 0: never */
	double daily;			 /* how much the hour of the day matters */
	/* as it goes */
	uint64_t start_ns, now_ns, activity, attached_ns;
	uint64_t gap_since_ns, gap_next_ns;
	struct due *due;
	uint32_t due_count, due_room;
};

/* A free to come. */
struct due {
	uint64_t at_ns, born_ns;
	uint32_t site, bytes;
	bool seen;
};

static uint64_t fixture_next(uint64_t *random)
{
	*random += 0x9e3779b97f4a7c15ull;
	uint64_t z = *random;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static double unit(struct program *p)
{
	return ((double)(fixture_next(&p->random) >> 11) + 0.5) / (double)(1ull << 53);
}

static double between(struct program *p, double low, double high)
{
	return low + unit(p) * (high - low);
}

/* Evenly by orders of magnitude. */
static double scale(struct program *p, double low, double high)
{
	return low * pow(high / low, unit(p));
}

static void due_put(struct program *p, struct due due)
{
	uint32_t i = p->due_count++;

	if (p->due_count > p->due_room) {
		p->due_room = p->due_room ? 2 * p->due_room : 256;
		p->due = realloc(p->due, p->due_room * sizeof(*p->due));
	}
	for (; i && p->due[(i - 1) / 2].at_ns > due.at_ns; i = (i - 1) / 2)
		p->due[i] = p->due[(i - 1) / 2];
	p->due[i] = due;
}

static struct due due_take(struct program *p)
{
	struct due first = p->due[0], last = p->due[--p->due_count];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < p->due_count) {
		if (child + 1 < p->due_count && p->due[child + 1].at_ns < p->due[child].at_ns)
			child++;
		if (p->due[child].at_ns >= last.at_ns)
			break;
		p->due[i] = p->due[child];
		i = child;
	}
	p->due[i] = last;
	return first;
}

static void block_put(struct block **block, uint32_t *count, uint32_t *room, struct block added)
{
	if (*count == *room) {
		*room = *room ? 2 * *room : 64;
		*block = realloc(*block, *room * sizeof(**block));
	}
	(*block)[(*count)++] = added;
}

static bool is_seen(const struct program *p)
{
	return !p->gap_since_ns && p->now_ns >= p->attached_ns;
}

/* What the probes tell the daemon of it. */
static bool born(struct program *p, struct site *site, uint32_t bytes)
{
	if (!is_seen(p))
		return false;
	/* At the address of one whose free was not seen. */
	while (site->ghost_count && fixture_next(&p->random) % 2) {
		struct block ghost = site->ghost[--site->ghost_count];

		history_freed(&site->history, ghost.born_ns, p->now_ns, ghost.bytes, p->activity);
	}
	p->activity++;
	history_allocated(&site->history, p->now_ns, bytes, p->activity);
	return true;
}

static void gone(struct program *p, struct site *site, uint64_t born_ns, uint32_t bytes, bool seen)
{
	if (!seen)
		return;
	if (!is_seen(p)) {
		block_put(&site->ghost, &site->ghost_count, &site->ghost_room,
			  (struct block){ born_ns, bytes });
		return;
	}
	p->activity++;
	history_freed(&site->history, born_ns, p->now_ns, bytes, p->activity);
}

static uint32_t size_of(struct program *p, const struct site *site)
{
	return (uint32_t)(site->bytes * between(p, 0.5, 1.5)) + 1;
}

static void keep(struct program *p, struct site *site)
{
	uint32_t bytes = size_of(p, site);

	if (site->kept_count == site->kept_room) {
		site->kept_room = site->kept_room ? 2 * site->kept_room : 64;
		site->kept = realloc(site->kept, site->kept_room * sizeof(*site->kept));
	}
	site->kept[site->kept_count].born_ns = p->now_ns;
	site->kept[site->kept_count].bytes = bytes;
	site->kept[site->kept_count++].seen = born(p, site, bytes);
}

static void drop(struct program *p, struct site *site, uint32_t place)
{
	gone(p, site, site->kept[place].born_ns, site->kept[place].bytes, site->kept[place].seen);
	site->kept[place] = site->kept[--site->kept_count];
}

static void drop_all(struct program *p, struct site *site)
{
	while (site->kept_count)
		drop(p, site, site->kept_count - 1);
}

/* Another block in its place. */
static void replace(struct program *p, struct site *site, uint32_t place, uint32_t bytes)
{
	struct block_kept *kept = &site->kept[place];

	gone(p, site, kept->born_ns, kept->bytes, kept->seen);
	*kept = (struct block_kept){ p->now_ns, bytes, kept->key, born(p, site, bytes) };
}

static void lend(struct program *p, struct site *site, double life_s)
{
	uint32_t bytes = size_of(p, site);
	bool seen = born(p, site, bytes);

	due_put(p, (struct due){ p->now_ns + (uint64_t)(life_s * 1e9), p->now_ns,
				 (uint32_t)(site - p->site), bytes, seen });
}

static double age_s(const struct program *p)
{
	return (double)(p->now_ns - p->start_ns) / 1e9;
}

/* How many of something that comes at a rate come in this step. */
static unsigned int whole(struct site *site, double rate)
{
	unsigned int n;

	site->carry += rate;
	n = (unsigned int)site->carry;
	site->carry -= n;
	return n;
}

static double life_of(struct program *p, const struct site *site)
{
	double u = unit(p);

	/* 0: even; 1: exponential; 2: with a heavy tail; 3: a `part` lives `rate` times as long */
	if (site->tail > 2.5)
		return site->life_s * (unit(p) < site->part ? site->rate : 0.5 + u);
	if (site->tail < 0.5)
		return site->life_s * (0.5 + u);
	if (site->tail < 1.5)
		return -site->life_s * log(u);
	return fmin(site->life_s / sqrt(sqrt(u * u * u)), 1e6);
}

static void leak(struct program *p, struct site *site)
{
	uint32_t bytes = size_of(p, site);

	if (!born(p, site, bytes))
		return;
	if (!site->first_leak_ns)
		site->first_leak_ns = p->now_ns;
	block_put(&site->forgotten, &site->forgotten_count, &site->forgotten_room,
		  (struct block){ p->now_ns, bytes });
}

#endif
