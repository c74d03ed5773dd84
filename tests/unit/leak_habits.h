/* leak_habits.h: what each habit does in a step. */
#ifndef TS_LEAK_HABITS_H
#define TS_LEAK_HABITS_H

#include "leak_program.h"

/* Of `keys`, by how unevenly they are asked for. */
static uint32_t key_of(struct program *p, const struct site *site, uint32_t keys)
{
	double u = unit(p);

	if (site->tail > 1.5)
		return (uint32_t)fmin(pow(keys, u), keys - 1);
	return (uint32_t)(keys * (site->tail > 0.5 ? u * u : u));
}

static void cache_evict(struct program *p, struct site *site)
{
	uint32_t place = (uint32_t)(unit(p) * site->kept_count);
	uint32_t last = site->kept[site->kept_count - 1].key;

	site->slot[site->kept[place].key] = 0;
	if (place != site->kept_count - 1)
		site->slot[last] = place + 1;
	drop(p, site, place);
}

static void step_cache(struct program *p, struct site *site, bool evicts)
{
	uint32_t keys = (uint32_t)fmin(site->count, KEYS_MAX);
	unsigned int n = whole(site, site->rate);

	while (n--) {
		uint32_t key = key_of(p, site, keys);

		p->activity++;
		if (site->slot[key])
			continue;
		if (evicts && site->kept_count >= keys / 2)
			cache_evict(p, site);
		keep(p, site);
		site->kept[site->kept_count - 1].key = key;
		site->slot[key] = site->kept_count;
	}
}

static void step_fills(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	step_cache(p, site, false);
}

static void step_evicts(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	step_cache(p, site, true);
}

static void step_rolls(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	for (unsigned int n = whole(site, site->rate); n--; site->done++)
		if (site->kept_count < (uint32_t)site->count)
			keep(p, site);
		else
			replace(p, site, (uint32_t)(site->done % site->kept_count),
				size_of(p, site));
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
	double stages = site->part > 0 ? floor(site->part) : 3;
	double stage = floor((at_s - site->from_s) / site->life_s);
	double part = fmin((at_s - site->from_s - stage * site->life_s) / site->for_s, 1);

	if (stage >= stages)
		stage = stages - 1, part = 1;
	while ((double)site->done < (stage + part) * site->count / stages) {
		site->done++;
		keep(p, site);
	}
}

/* One block, replaced by one `times` as large after `life_s`, `life_s` twice that if it doubles. */
static void step_replaces(struct program *p, struct site *site, bool doubles)
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

static void step_sawtooth(struct program *p, struct site *site, double at_s)
{
	unsigned int n = whole(site, site->rate);

	(void)at_s;
	if (!site->epoch_ns)
		site->epoch_ns = p->now_ns + (uint64_t)(site->life_s * 1e9);
	if (p->now_ns >= site->epoch_ns) {
		drop_all(p, site);
		for (unsigned int i = 0; site->leaks && i < (unsigned int)site->count; i++)
			leak(p, site);
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

static void step_regrows(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	step_replaces(p, site, false);
}

static void step_doubles(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	step_replaces(p, site, true);
}

static void step_extends(struct program *p, struct site *site, double at_s)
{
	if (at_s - site->from_s < (double)site->done * site->life_s)
		return;
	site->done++;
	keep(p, site);
	if (site->kept_count == 1)
		return;
	replace(p, site, 1, site->kept[0].bytes + (uint32_t)site->bytes);
	drop(p, site, 0);
}

static void step_evaluates(struct program *p, struct site *site, double at_s)
{
	double since_s = fmod(at_s - site->from_s, site->life_s);

	if (since_s > site->for_s)
		drop_all(p, site);
	else
		for (unsigned int n = whole(site, site->rate); n--;)
			keep(p, site);
}

static void step_pools(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	if ((double)site->kept_count < site->count) {
		keep(p, site);
	} else if (unit(p) < site->rate) {
		drop(p, site, (uint32_t)(unit(p) * site->kept_count));
		keep(p, site);
	}
}

static void step_sequences(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	if ((double)site->kept_count < site->count)
		keep(p, site);
	for (uint32_t i = 0; i < site->kept_count; i++)
		replace(p, site, i,
			unit(p) < site->part ? (uint32_t)site->bytes
					     : site->kept[i].bytes + (uint32_t)site->bytes);
}

static void step_pages(struct program *p, struct site *site, double at_s)
{
	uint32_t sequences = (uint32_t)fmin(site->count, KEYS_MAX);

	(void)at_s;
	site->done++;
	for (uint32_t i = 0; i < sequences; i++) {
		if (!site->slot[i])
			site->slot[i] = 2 + (uint32_t)(life_of(p, site) / p->step_s);
		if ((site->done + i) % (uint64_t)fmax(site->rate, 1) == 0)
			lend(p, site, site->slot[i] * p->step_s);
		site->slot[i]--;
	}
}

static void step_keeps_last(struct program *p, struct site *site, double at_s)
{
	uint32_t most = (uint32_t)(site->count * floor(site->part));

	if (at_s - site->from_s < (double)site->epoch_ns * site->life_s)
		return;
	site->epoch_ns++;
	for (uint32_t i = 0; i < (uint32_t)site->count; i++, site->done++)
		if (site->kept_count < most)
			keep(p, site);
		else
			replace(p, site, (uint32_t)(site->done % most), size_of(p, site));
}

static void step_leaks(struct program *p, struct site *site, double at_s)
{
	(void)at_s;
	for (unsigned int n = whole(site, site->rate * (site->tail > 0 ? 2 * unit(p) : 1)); n--;)
		leak(p, site);
}

static void step_bursts(struct program *p, struct site *site, double at_s)
{
	if (at_s - site->from_s < (double)site->done * site->life_s)
		return;
	site->done++;
	for (unsigned int n = whole(site, site->count); n--;)
		leak(p, site);
}

static void step_traffic(struct program *p, struct site *site, double at_s)
{
	double rate = site->count * (1 + p->daily * sin(at_s / 86400 * 2 * M_PI));

	if (site->habit == TRAFFIC && site->for_s > 0)
		rate *= fmin((at_s - site->from_s) / site->for_s, 1);
	for (unsigned int n = whole(site, rate); n--;)
		if (site->habit == DRIPS && at_s >= site->for_s && unit(p) < site->part)
			leak(p, site);
		else
			lend(p, site, life_of(p, site));
}

static void (*const habit_step[HABITS])(struct program *p, struct site *site, double at_s) = {
	[LOADS] = step_loads,	    [TRAFFIC] = step_traffic,	    [FILLS] = step_fills,
	[EVICTS] = step_evicts,	    [ROLLS] = step_rolls,	    [DOUBLES] = step_doubles,
	[SAWTOOTH] = step_sawtooth, [EVALUATES] = step_evaluates,   [REGROWS] = step_regrows,
	[SESSIONS] = step_traffic,  [POOLS] = step_pools,	    [SEQUENCES] = step_sequences,
	[PAGES] = step_pages,	    [KEEPS_LAST] = step_keeps_last, [LEAKS] = step_leaks,
	[DRIPS] = step_traffic,	    [PEAKS] = step_peaks,	    [BURSTS] = step_bursts,
	[EXTENDS] = step_extends,   [STAGES] = step_stages,
};

#endif
