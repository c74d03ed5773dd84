/* leak_fixture.h: a program's life in virtual time: what the daemon sees of it, and how often it
 * judges. */
#ifndef TS_LEAK_FIXTURE_H
#define TS_LEAK_FIXTURE_H

#include "leak_habits.h"

/* What the daemon says of it now. */
static void judge_site(const struct program *p, struct site *site)
{
	struct verdict verdict = verdict_of(&site->history, p->now_ns, p->activity);

	site->verdict = verdict.kind;
	site->confidence = verdict.confidence;
	site->looks += !!site->told_ns;
	site->says_leak += site->told_ns && verdict.kind == VERDICT_LEAK;
	if (verdict.kind != VERDICT_LEAK)
		return;
	if (!site->told_confidence)
		site->told_confidence = verdict.confidence;
	if (!site->leaks) {
		site->accused_ns = site->accused_ns ? site->accused_ns : p->now_ns;
		site->last_accused_ns = p->now_ns;
	} else if (!site->told_ns && site->first_leak_ns) {
		site->told_ns = p->now_ns;
	}
}

/* When it judges again: as in growth.c. */
static void judge(struct program *p, bool all)
{
	for (unsigned int i = 0; i < p->sites; i++) {
		struct site *site = &p->site[i];
		uint64_t first_ns = site->history.first_ns;

		if (!first_ns || (!all && p->now_ns < site->due_ns))
			continue;
		judge_site(p, site);
		site->due_ns = p->now_ns +
			       (uint64_t)fmin(fmax((double)(p->now_ns - first_ns) / 32, 1e9), 60e9);
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
		.last_activity = history->last_activity,
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
	for (uint32_t i = 0; i < site->ghost_count; i++)
		history_found(history, site->ghost[i].born_ns, site->ghost[i].bytes);
	if (history->live_count != count || history->live_bytes != bytes)
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

static void program_run(struct program *p)
{
	uint64_t end_ns;

	p->start_ns = p->now_ns = 1000 * NS_PER_S + fixture_next(&p->random) % NS_PER_S;
	p->attached_ns = p->start_ns + (uint64_t)(p->attach_at_s * 1e9);
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
				if (p->site[i].habit == LOADS || at_s >= p->site[i].from_s)
					habit_step[p->site[i].habit](p, &p->site[i], at_s);
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
		restart(p);
		judge(p, false);
	}
	judge(p, true);
}

static void program_free(struct program *p)
{
	for (unsigned int i = 0; i < p->sites; i++) {
		history_clear(&p->site[i].history);
		free(p->site[i].kept);
		free(p->site[i].forgotten);
		free(p->site[i].ghost);
	}
	free(p->site);
	free(p->due);
}

#endif
