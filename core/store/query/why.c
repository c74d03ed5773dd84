/* Why: the reason why an answer has no rows. A query states what it is about and what it needs
 * (table.h); the first of the causes below that holds becomes the remark. */
#include "core/store/query/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/units.h"
#include "core/model/loss_row.h"
#include "core/store/query/phrase.h"
#include "core/store/sql.h"
#include "proto/event.h"

/* clang-format off */
#define IN_TIME(begin, end) begin " <= :until AND coalesce(" end ", :until) >= :since"
#define FACTS_SQL \
	"WITH s AS (" \
		"SELECT p.*, " STARTED " AS started, " RUNNING " AS runs," \
		" " IN_TIME("p.first_ns", "nullif(p.exit_ns, 0)") " AS lived, c.state, c.records," \
		" " IN_TIME("c.since_ns", "c.until_ns") " AS exact" \
		" FROM process p LEFT JOIN collect c ON c.process = p.id" \
		" WHERE p.boot = :boot AND " ASKED \
	") SELECT coalesce(max(lived), 0), coalesce(max(runs), 0)," \
	" coalesce(max(lived AND exact), 0)," \
	" coalesce(max(lived AND exact AND records & :records), 0)," \
	" coalesce(max(exact AND state = :paused), 0)," \
	" coalesce(max(state IS NOT NULL), 0)," \
	" coalesce(min(first_ns), 0)," \
	" (SELECT count(*) FROM allocation WHERE process IN (SELECT id FROM s WHERE runs)" \
	" AND kind IN (SELECT id FROM memory_kind WHERE counts)" \
	" AND (:device IS NULL OR device = :device))," \
	" EXISTS (SELECT 1 FROM growth WHERE process IN (SELECT id FROM s WHERE runs))," \
	" EXISTS (SELECT 1 FROM loss WHERE process IN (SELECT id FROM s)" \
	" AND " IN_TIME("start_ns", "end_ns") " AND :unseen >> reason & 1)," \
	" EXISTS (SELECT 1 FROM s JOIN loss l ON l.process = s.id" \
	" OR l.process = 0 AND l.end_ns >= started" \
	" AND (runs OR l.start_ns <= exit_ns)" \
	" WHERE l.boot = :boot AND " IN_TIME("l.start_ns", "l.end_ns") \
	" AND :unwatched >> l.reason & 1)" \
	" FROM s"
/* clang-format on */

struct why {
	struct answer *answer;
	const struct query *query;
	const Tracesmith__V1__QueryRequest *request;
	char pid[REMARK_NUMBER_SIZE]; /* "" for all */
	bool one;
	int64_t lived, runs;		 /* some process did, in the window; does, now */
	int64_t exact, recorded, paused; /* in the window */
	int64_t ever_exact;
	int64_t first_ns, live;
	int64_t judged;	   /* what becomes of memory is known */
	int64_t unwatched; /* some of the window was not watched */
	int64_t unseen;	   /* some calls lack their return, which would show it */
};

/* Losses without which there might be rows. */
static int64_t unseen_reasons(uint32_t about)
{
	int64_t reasons = 0;

	if (about & (ABOUT_MEMORY | ABOUT_COLLECTIVES | ABOUT_RESULTS))
		reasons |= INT64_C(1) << LOSS_NO_EFFECT;
	if (about & ABOUT_RESULTS)
		reasons |= INT64_C(1) << LOSS_NO_RETURN;
	return reasons;
}

static int look(struct why *why)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	const struct answer_window *window = &why->answer->window;
	int64_t *const fact[] = { &why->lived,	&why->runs,	  &why->exact,	  &why->recorded,
				  &why->paused, &why->ever_exact, &why->first_ns, &why->live,
				  &why->judged, &why->unseen,	  &why->unwatched };
	int r = answer_prepare(why->answer, FACTS_SQL, &stmt);

	if (r < 0)
		return r;
	answer_bind(stmt, ":boot", true, why->answer->boot);
	answer_bind(stmt, ":since", true, window->since_ns);
	answer_bind(stmt, ":until", true, window->until_ns);
	answer_bind(stmt, ":pid", window->pid, window->pid);
	answer_bind_text(stmt, ":user", window->user);
	answer_bind(stmt, ":records", true, why->query->records);
	answer_bind(stmt, ":paused", true, TS_COLLECT_PAUSED);
	answer_bind(stmt, ":unseen", true, unseen_reasons(why->query->about));
	answer_bind(stmt, ":unwatched", true, answer_hiding(why->query->about));
	answer_bind(stmt, ":suspended", true, why->answer->job->suspended_ns);
	answer_bind(stmt, ":device", why->request->device_given_case, why->request->device);
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return answer_fail_sqlite(why->answer);
	for (size_t i = 0; i < ARRAY_SIZE(fact); i++)
		*fact[i] = sqlite3_column_int64(stmt, (int)i);
	return 0;
}

/* 1, or no memory. */
#define SAY(why, reason, ...)                                                                      \
	(remarks_add(&(why)->answer->remarks, REASON(reason), ##__VA_ARGS__, NULL) ?: 1)

static int say_unmatched(const struct why *why)
{
	return why->answer->passed_over
		       ? SAY(why, NO_MATCH, REMARK_NUMBER(why->answer->passed_over))
		       : 0;
}

static int say_none(const struct why *why)
{
	return why->first_ns ? 0 : SAY(why, NONE_SEEN);
}

static int say_ended(const struct why *why)
{
	if (!(why->query->flags & QUERY_IS_RUNNING) || why->runs)
		return 0;
	return why->one ? SAY(why, ENDED, why->pid) : SAY(why, NONE_RUNS);
}

static int say_other_time(const struct why *why)
{
	if (why->lived || !(why->query->options & QUERY_WINDOW))
		return 0;
	if (!why->one)
		return SAY(why, NONE_IN_WINDOW);
	if ((uint64_t)why->first_ns > why->answer->window.until_ns)
		return SAY(why, AFTER_WINDOW, why->pid);
	return SAY(why, BEFORE_WINDOW, why->pid);
}

static int say_exact_at_another_time(const struct why *why)
{
	if (!why->query->records || why->exact || !why->ever_exact ||
	    !(why->query->options & QUERY_WINDOW))
		return 0;
	return SAY(why, PROBE_IN_WINDOW, why->pid);
}

static int say_probe_tier(const struct why *why)
{
	if (!why->query->records || why->exact)
		return 0;
	if (!why->one)
		return SAY(why, NONE_EXACT);
	return why->runs ? SAY(why, IS_PROBE, why->pid) : SAY(why, WAS_PROBE, why->pid);
}

static int say_paused(const struct why *why)
{
	if (!why->query->records || !why->paused || !why->one)
		return 0;
	return SAY(why, OTHER_PROFILER, why->pid);
}

static int say_not_recorded(const struct why *why)
{
	char names[96] = "";
	size_t size = 0;

	if (!why->query->records || why->recorded)
		return 0;
#define X(bit, name, text)                                                                         \
	if (why->query->records & TS_RECORD_##name)                                                \
		size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s",               \
					 size ? ", " : "", text);
	TS_RECORDS(X)
#undef X
	return SAY(why, NOT_RECORDED, names, why->pid);
}

/* "1 h" if there is no more to say. */
static const char *brief(char text[UNITS_TEXT_SIZE], uint64_t ns)
{
	char *point = strchr(units_nanoseconds(text, (int64_t)ns), '.');
	char *unit = strchr(text, ' ');

	if (point && unit && strspn(point + 1, "0") == (size_t)(unit - point) - 1)
		memmove(point, unit, strlen(unit) + 1);
	return text;
}

static int say_young(const struct why *why)
{
	const uint64_t ns = why->request->min_age_ns ? why->request->min_age_ns : QUERY_MIN_AGE_NS;
	char age[UNITS_TEXT_SIZE];

	if (!(why->query->options & QUERY_MIN_AGE) || !why->live)
		return 0;
	if (!why->request->min_age_ns && !why->request->all && why->judged)
		return SAY(why, NONE_GROWS, REMARK_NUMBER(why->live), why->pid);
	return SAY(why, ALL_YOUNG, brief(age, ns), REMARK_NUMBER(why->live), why->pid);
}

static int say_unseen(const struct why *why)
{
	return why->unseen ? SAY(why, RETURNS_UNSEEN, why->pid) : 0;
}

static int say_unwatched(const struct why *why)
{
	return why->unwatched ? SAY(why, NOT_WATCHED, why->pid) : 0;
}

/* There was nothing of the requested kind. */
static int say_nothing(const struct why *why)
{
	const struct answer_window *window = &why->answer->window;
	const Tracesmith__V1__QueryRequest *request = why->request;
	/* Peaks, and with them freed memory, are unknown by stack. */
	const bool live = request->by == QUERY_BY_IS_STACK && why->query->about & ABOUT_MEMORY;
	const char *what = live ? "No memory is live" : why->query->nothing;
	const char *device = request->device_given_case ? REMARK_NUMBER(request->device) : "";
	const char *stream = request->stream ? REMARK_NUMBER(request->stream) : "";
	char last[UNITS_TEXT_SIZE] = "";

	if (request->until_ns)
		return SAY(why, NOTHING_IN_WINDOW, what, why->pid, device, stream);
	if (window->since_ns > 1 && why->query->options & QUERY_WINDOW)
		brief(last, window->until_ns - window->since_ns);
	return SAY(why, NOTHING, what, why->pid, device, stream, last);
}

int answer_explain(struct answer *answer, const struct query *query,
		   const Tracesmith__V1__QueryRequest *request)
{
	static int (*const causes[])(const struct why *) = {
		say_unmatched,
		say_none,
		say_ended,
		say_other_time,
		say_exact_at_another_time,
		say_probe_tier,
		say_paused,
		say_not_recorded,
		say_young,
		say_unseen,
		say_unwatched,
		say_nothing,
	};
	struct why why = {
		.answer = answer,
		.query = query,
		.request = request,
		.one = request->pid,
	};
	int r = look(&why);

	if (why.one)
		remark_number(why.pid, request->pid);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(causes); i++)
		r = causes[i](&why);
	return r < 0 ? r : answer_remark_unseen(answer);
}

static bool was_set_aside(const struct answer *answer)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t found = 0;

	if (sql_prepare(answer->db,
			"SELECT EXISTS (SELECT 1 FROM loss WHERE boot = ? AND reason = ?)",
			&stmt) < 0)
		return false;
	sql_bind(stmt, answer->boot, LOSS_SET_ASIDE);
	return sql_integer(stmt, &found) == 0 && found;
}

int answer_remark_unseen(struct answer *answer)
{
	const uint32_t unlooked = answer->job->unlooked;
	int r = 0;

	if (unlooked)
		r = remarks_add(&answer->remarks, REASON(STILL_LOOKING), REMARK_NUMBER(unlooked),
				NULL);
	if (r == 0 && was_set_aside(answer))
		r = remarks_add(&answer->remarks, REASON(SET_ASIDE), NULL);
	return r;
}

/* No answer has what the daemon does not trace. */
int answer_remark_hidden(struct answer *answer)
{
	if (answer->job->own) {
		int r = remarks_add(&answer->remarks, REASON(OWN_ONLY), NULL);

		if (r < 0)
			return r;
	}
	if (!answer->job->watched || answer->window.pid)
		return 0;
	return remarks_add(&answer->remarks, REASON(HIDDEN), answer->job->watched, NULL);
}
