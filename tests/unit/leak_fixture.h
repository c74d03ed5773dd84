/* leak_fixture.h: programs that allocate and free, in virtual time. A program has sites (stacks),
 * each with a habit; what a habit does is known, so the truth about each site is, too. All of it
 * comes from a seed. */
#ifndef TS_LEAK_FIXTURE_H
#define TS_LEAK_FIXTURE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/time.h"
#include "core/leak/verdict.h"

#define SITES_MAX 6
#define KEYS_MAX  4096

enum habit {
	LOADS,	  /* `count` blocks in the first `for_s`, kept */
	TRAFFIC,  /* `count` blocks a step, freed after `life_s` (`tail`: how unevenly) */
	FILLS,	  /* a cache of `count` keys, `rate` requests a step, nothing is evicted */
	EVICTS,	  /* the same with room for half of the keys: a random one goes */
	DOUBLES,  /* one block that is replaced by one twice as large, up to `count` times */
	SAWTOOTH, /* `rate` blocks a step, all freed at the end of an epoch of `life_s` */
	REGROWS,  /* a workspace replaced by a larger one every `life_s`, up to a largest */
	SESSIONS, /* come by the hour of the day, stay `life_s` */
	POOLS,	  /* `count` blocks, any of them replaced now and then */
	LEAKS,	  /* `rate` blocks a step, forgotten */
	DRIPS,	  /* TRAFFIC, of which a `part` is forgotten */
	PEAKS,	  /* many blocks at first, freed after `life_s`; from then on it LEAKS */
	STAGES,	  /* LOADS in three stages, each after `life_s` more */
};

struct site {
	enum habit habit;
	double count, rate, life_s, for_s, part, tail, from_s, bytes;
	bool leaks;
	/* as it goes */
	double carry;
	uint64_t done, epoch_ns;
	uint64_t first_leak_ns;
	int verdict;
	uint64_t told_ns;    /* first called a leak */
	uint64_t accused_ns; /* not a leak, and called one */
	struct history history;
	struct {
		uint64_t born_ns;
		uint32_t bytes;
		bool seen;
	} * kept;
	uint32_t kept_count, kept_room;
	struct block {
		uint64_t born_ns;
		uint32_t bytes;
	} * forgotten; /* that were seen */
	uint32_t forgotten_count, forgotten_room;
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
	double restart_at_s;		 /* of the daemon; 0: never */
	double daily;			 /* how much the hour of the day matters */
	/* as it goes */
	uint64_t start_ns, now_ns, activity;
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

static bool is_seen(const struct program *p)
{
	return !p->gap_since_ns;
}

/* What the probes tell the daemon of it. */
static bool born(struct program *p, struct site *site, uint32_t bytes)
{
	if (!is_seen(p))
		return false;
	p->activity++;
	history_allocated(&site->history, p->now_ns, bytes, p->activity);
	return true;
}

static void gone(struct program *p, struct site *site, uint64_t born_ns, uint32_t bytes, bool seen)
{
	if (!is_seen(p) || !seen)
		return;
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

	/* 0: even; 1: exponential; 2: with a heavy tail */
	if (site->tail < 0.5)
		return site->life_s * (0.5 + u);
	if (site->tail < 1.5)
		return -site->life_s * log(u);
	return fmin(site->life_s / sqrt(sqrt(u * u * u)), 1e6);
}

static void leak(struct program *p, struct site *site)
{
	uint32_t bytes = size_of(p, site);

	if (!site->first_leak_ns)
		site->first_leak_ns = p->now_ns;
	if (!born(p, site, bytes))
		return;
	if (site->forgotten_count == site->forgotten_room) {
		site->forgotten_room = site->forgotten_room ? 2 * site->forgotten_room : 64;
		site->forgotten =
			realloc(site->forgotten, site->forgotten_room * sizeof(*site->forgotten));
	}
	site->forgotten[site->forgotten_count++] = (struct block){ p->now_ns, bytes };
}

static void step_cache(struct program *p, struct site *site, bool evicts)
{
	uint32_t keys = (uint32_t)fmin(site->count, KEYS_MAX);
	unsigned int n = whole(site, site->rate);

	while (n--) {
		double u = unit(p);
		uint32_t key = (uint32_t)(keys * (site->tail > 0 ? u * u : u));

		p->activity++;
		if (site->slot[key])
			continue;
		if (evicts && site->kept_count >= keys / 2) {
			uint32_t victim, place = (uint32_t)(unit(p) * site->kept_count);

			for (victim = 0; victim < keys; victim++)
				if (site->slot[victim] == place + 1)
					break;
			site->slot[victim] = 0;
			for (uint32_t i = 0; i < keys; i++)
				if (site->slot[i] == site->kept_count)
					site->slot[i] = place + 1;
			drop(p, site, place);
		}
		keep(p, site);
		site->slot[key] = site->kept_count;
	}
}

static void step_loads(struct program *p, struct site *site, double at_s)
{
	double part = fmin(fmax(at_s - site->from_s, 0) / fmax(site->for_s, 1e-6), 1);

	while ((double)site->done < part * site->count) {
		site->done++;
		keep(p, site);
	}
}

static void step_stages(struct program *p, struct site *site, double at_s)
{
	double stage = floor(at_s / site->life_s);
	double part = fmin((at_s - stage * site->life_s) / site->for_s, 1);

	if (stage >= 3)
		stage = 2, part = 1;
	while ((double)site->done < (stage + part) * site->count / 3) {
		site->done++;
		keep(p, site);
	}
}

/* One block, replaced by one `times` as large after `life_s`, `life_s` twice that if it doubles. */
static void step_regrows(struct program *p, struct site *site, bool doubles)
{
	if (site->epoch_ns && p->now_ns < site->epoch_ns)
		return;
	if (site->done < (uint64_t)site->count) {
		site->done++;
		keep(p, site);
		if (site->kept_count > 1) {
			site->bytes *= doubles ? 2 : 1.2;
			drop(p, site, 0);
		}
	}
	site->epoch_ns = p->now_ns + (uint64_t)(site->life_s * 1e9 *
						(doubles ? pow(2, (double)site->done) : 1));
}

static void step_sawtooth(struct program *p, struct site *site)
{
	unsigned int n = whole(site, site->rate);

	if (!site->epoch_ns)
		site->epoch_ns = p->now_ns + (uint64_t)(site->life_s * 1e9);
	if (p->now_ns >= site->epoch_ns) {
		while (site->kept_count)
			drop(p, site, site->kept_count - 1);
		site->epoch_ns =
			p->now_ns +
			(uint64_t)(site->life_s * between(p, 1 - site->part, 1 + site->part) * 1e9);
	}
	while (n--)
		keep(p, site);
}

static void step_peaks(struct program *p, struct site *site, double at_s)
{
	if (at_s < site->life_s) {
		for (unsigned int n = whole(site, site->count); n--;)
			if (site->tail > 0)
				keep(p, site);
			else
				lend(p, site, site->life_s * unit(p));
		return;
	}
	for (unsigned int n = whole(site, site->rate); n--;)
		leak(p, site);
}

static void step_site(struct program *p, struct site *site, double at_s)
{
	double day = 1 + p->daily * sin(at_s / 86400 * 2 * M_PI);

	if (site->habit != LOADS && at_s < site->from_s)
		return;
	switch (site->habit) {
	case LOADS:
		step_loads(p, site, at_s);
		break;
	case STAGES:
		step_stages(p, site, at_s);
		break;
	case FILLS:
	case EVICTS:
		step_cache(p, site, site->habit == EVICTS);
		break;
	case DOUBLES:
	case REGROWS:
		step_regrows(p, site, site->habit == DOUBLES);
		break;
	case SAWTOOTH:
		step_sawtooth(p, site);
		break;
	case POOLS:
		if ((double)site->kept_count < site->count)
			keep(p, site);
		else if (unit(p) < site->rate) {
			drop(p, site, (uint32_t)(unit(p) * site->kept_count));
			keep(p, site);
		}
		break;
	case PEAKS:
		step_peaks(p, site, at_s);
		break;
	case LEAKS:
		for (unsigned int n = whole(site, site->rate * (site->tail > 0 ? 2 * unit(p) : 1));
		     n--;)
			leak(p, site);
		break;
	case TRAFFIC:
	case SESSIONS:
	case DRIPS:
		for (unsigned int n = whole(site, site->count * day); n--;)
			if (site->habit == DRIPS && unit(p) < site->part)
				leak(p, site);
			else
				lend(p, site, life_of(p, site));
		break;
	}
}

static void judge(struct program *p)
{
	for (unsigned int i = 0; i < p->sites; i++) {
		struct site *site = &p->site[i];
		struct verdict verdict;

		if (!site->history.first_ns)
			continue;
		verdict = verdict_of(&site->history, p->now_ns, p->activity);
		site->verdict = verdict.kind;
		if (verdict.kind != VERDICT_LEAK)
			continue;
		if (site->leaks && !site->told_ns)
			site->told_ns = p->now_ns;
		if (!site->leaks && !site->accused_ns)
			site->accused_ns = p->now_ns;
	}
}

static void see(struct program *p)
{
	if (p->gap_every_s <= 0)
		return;
	if (!p->gap_next_ns)
		p->gap_next_ns = p->now_ns + (uint64_t)(p->gap_every_s * 1e9);
	if (p->gap_since_ns && p->now_ns >= p->gap_since_ns + (uint64_t)(p->gap_s * 1e9)) {
		for (unsigned int i = 0; i < p->sites; i++)
			history_missed(&p->site[i].history, p->gap_since_ns, p->now_ns,
				       p->activity);
		p->gap_since_ns = 0;
		p->gap_next_ns = p->now_ns + (uint64_t)(p->gap_every_s * 1e9);
	} else if (!p->gap_since_ns && p->now_ns >= p->gap_next_ns) {
		p->gap_since_ns = p->now_ns;
	}
}

/* What lives is found again, and what the last daemon said of it is read. */
static void restart_site(struct program *p, struct site *site)
{
	struct history *history = &site->history;
	char ages[HISTORY_AGES + 1];
	const struct history_past past = {
		.since_ns = history->sure_ns,
		.told_ns = p->now_ns,
		.last_ns = history->last_ns,
		.birth_ns = history->last_birth_ns,
		.allocations = history->allocations,
		.frees = history->frees,
		.peak_bytes = history->peak_bytes,
		.activity = p->activity,
		.ages = ages,
	};
	uint64_t count = history->live_count, bytes = history->live_bytes;

	if (!history->first_ns)
		return;
	history_ages(history, ages);
	history_clear(history);
	if (history_resume(history, &past) < 0)
		abort();
	for (uint32_t i = 0; i < site->kept_count; i++)
		if (site->kept[i].seen)
			history_found(history, site->kept[i].born_ns, site->kept[i].bytes);
	for (uint32_t i = 0; i < p->due_count; i++)
		if (p->due[i].seen && &p->site[p->due[i].site] == site)
			history_found(history, p->due[i].born_ns, p->due[i].bytes);
	for (uint32_t i = 0; i < site->forgotten_count; i++)
		history_found(history, site->forgotten[i].born_ns, site->forgotten[i].bytes);
	/* What was freed in a gap is live for the daemon. */
	if (p->gap_every_s <= 0 && (history->live_count != count || history->live_bytes != bytes))
		abort();
	history_missed(history, p->now_ns, p->now_ns + NS_PER_S / 10, p->activity);
}

static void restart(struct program *p)
{
	if (p->restart_at_s <= 0 || age_s(p) < p->restart_at_s)
		return;
	p->restart_at_s = 0;
	for (unsigned int i = 0; i < p->sites; i++)
		restart_site(p, &p->site[i]);
}

/* Judged every second at first, then every hundredth of its life. */
static void program_run(struct program *p)
{
	uint64_t next_ns = 0, end_ns;

	p->start_ns = p->now_ns = 1000 * NS_PER_S + fixture_next(&p->random) % NS_PER_S;
	end_ns = p->start_ns + (uint64_t)(p->hours * 3600e9);
	while (p->now_ns < end_ns) {
		double at_s = age_s(p), step_s = p->step_s * between(p, 1 - p->noise, 1 + p->noise);
		bool idle = p->idle_from_s > 0 && at_s >= p->idle_from_s;
		uint64_t step_end_ns;

		if (p->slower_at_s > 0 && at_s > p->slower_at_s)
			step_s *= 3;
		see(p);
		if (!idle) {
			p->activity += is_seen(p)
					       ? (unsigned int)(p->launches *
								(1 + p->daily * sin(at_s / 86400 *
										    2 * M_PI)))
					       : 0;
			for (unsigned int i = 0; i < p->sites; i++)
				step_site(p, &p->site[i], at_s);
		} else {
			step_s = 1;
		}
		step_end_ns = p->now_ns + (uint64_t)(step_s * 1e9);
		while (p->due_count && p->due[0].at_ns <= step_end_ns) {
			struct due due = due_take(p);

			p->now_ns = due.at_ns > p->now_ns ? due.at_ns : p->now_ns;
			gone(p, &p->site[due.site], due.born_ns, due.bytes, due.seen);
		}
		p->now_ns = step_end_ns;
		if (p->now_ns < next_ns)
			continue;
		restart(p);
		judge(p);
		next_ns = p->now_ns + (uint64_t)fmax(1e9, age_s(p) * 1e7);
	}
	judge(p);
}

static void program_free(struct program *p)
{
	for (unsigned int i = 0; i < p->sites; i++) {
		history_clear(&p->site[i].history);
		free(p->site[i].kept);
		free(p->site[i].forgotten);
	}
	free(p->site);
	free(p->due);
}

#endif
