/* Why: what is to be said of an answer without rows. A query says what it is about and what it
 * needs (table.h); here the first of the causes that holds becomes the sentence. */
#include "core/store/query/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/units.h"
#include "core/store/query/phrase.h"
#include "core/store/sql.h"
#include "proto/event.h"

/* clang-format off */
#define IN_TIME(begin, end) begin " <= :until AND coalesce(" end ", :until) >= :since"
#define FACTS_SQL \
	"WITH s AS (" \
		"SELECT p.*, " RUNNING " AS runs, " IN_TIME("p.first_ns", "nullif(p.exit_ns, 0)") \
		" AS lived, c.state, c.records," \
		" " IN_TIME("c.since_ns", "c.until_ns") " AS exact" \
		" FROM process p LEFT JOIN collect c ON c.process = p.id" \
		" WHERE p.boot = :boot AND " OF_PID \
	") SELECT coalesce(max(lived), 0), coalesce(max(runs), 0)," \
	" coalesce(max(lived AND exact), 0)," \
	" coalesce(max(lived AND exact AND records & :records), 0)," \
	" coalesce(max(exact AND state = :paused), 0)," \
	" coalesce(max(state IS NOT NULL), 0)," \
	" coalesce(min(first_ns), 0)," \
	" (SELECT count(*) FROM allocation WHERE process IN (SELECT id FROM s WHERE runs)" \
	" AND kind IN (SELECT id FROM memory_kind WHERE counts)" \
	" AND (:device IS NULL OR device = :device))" \
	" FROM s"
/* clang-format on */

struct why {
	struct answer *answer;
	const struct query *query;
	const Tracesmith__V1__QueryRequest *request;
	char who[32]; /* " process 42", or "" for all */
	bool one, file;
	int64_t lived, runs;		 /* some process did, in the window; does, now */
	int64_t exact, recorded, paused; /* in the window */
	int64_t ever_exact;
	int64_t first_ns, live;
};

static int look(struct why *why)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	const struct answer_window *window = &why->answer->window;
	int64_t *const fact[] = { &why->lived,	&why->runs,	  &why->exact,	  &why->recorded,
				  &why->paused, &why->ever_exact, &why->first_ns, &why->live };
	int r = answer_prepare(why->answer, FACTS_SQL, &stmt);

	if (r < 0)
		return r;
	answer_bind(stmt, ":boot", true, why->answer->boot);
	answer_bind(stmt, ":since", true, window->since_ns);
	answer_bind(stmt, ":until", true, window->until_ns);
	answer_bind(stmt, ":pid", window->pid, window->pid);
	answer_bind(stmt, ":records", true, why->query->records);
	answer_bind(stmt, ":paused", true, TS_COLLECT_PAUSED);
	answer_bind(stmt, ":device", why->request->device_given_case, why->request->device);
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return answer_fail_sqlite(why->answer);
	for (size_t i = 0; i < ARRAY_SIZE(fact); i++)
		*fact[i] = sqlite3_column_int64(stmt, (int)i);
	return 0;
}

#define SAY(why, ...) snprintf((why)->answer->note, sizeof((why)->answer->note), __VA_ARGS__)

static bool say_none(const struct why *why)
{
	if (why->first_ns)
		return false;
	SAY(why, "No process has used CUDA%s",
	    why->file ? " in this recording" : " while tracesmithd was looking");
	return true;
}

static bool say_ended(const struct why *why)
{
	if (!(why->query->flags & QUERY_IS_RUNNING) || why->runs)
		return false;
	if (why->one)
		SAY(why, "Process %" PRIu32 " has ended, and this is about processes that run",
		    why->request->pid);
	else
		SAY(why, "No process uses CUDA now: 'tsctl query processes' shows those that did");
	return true;
}

static bool say_other_time(const struct why *why)
{
	if (why->lived || !(why->query->options & QUERY_WINDOW))
		return false;
	if (!why->one)
		SAY(why, "No process used CUDA in the window: see --since");
	else if ((uint64_t)why->first_ns > why->answer->window.until_ns)
		SAY(why, "Process %" PRIu32 " was first seen after the window: see --until",
		    why->request->pid);
	else
		SAY(why, "Process %" PRIu32 " ended before the window: see --since",
		    why->request->pid);
	return true;
}

static bool say_exact_at_another_time(const struct why *why)
{
	if (!why->query->records || why->exact || !why->ever_exact ||
	    !(why->query->options & QUERY_WINDOW))
		return false;
	if (why->one)
		SAY(why,
		    "Process %" PRIu32 " was in the probe tier in the window: see --since and "
		    "--until",
		    why->request->pid);
	else
		SAY(why, "No process was in the exact tier in the window: see --since and --until");
	return true;
}

static bool say_probe_tier(const struct why *why)
{
	if (!why->query->records || why->exact)
		return false;
	if (!why->one)
		SAY(why, "No process was in the exact tier, which this needs: see 'tsctl run' and "
			 "'tsctl attach'");
	else if (why->file || !why->runs)
		SAY(why,
		    "Process %" PRIu32 " was in the probe tier, which knows nothing of this: "
		    "start it with 'tsctl run'",
		    why->request->pid);
	else
		SAY(why,
		    "Process %" PRIu32 " is in the probe tier, which knows nothing of this: "
		    "'tsctl attach %" PRIu32 "' takes it into the exact tier",
		    why->request->pid, why->request->pid);
	return true;
}

static bool say_paused(const struct why *why)
{
	if (!why->query->records || !why->paused || !why->one)
		return false;
	SAY(why,
	    "Another profiler has CUPTI in process %" PRIu32 ": it is not collected from "
	    "until that is done",
	    why->request->pid);
	return true;
}

static bool say_not_recorded(const struct why *why)
{
	char names[96] = "";
	size_t size = 0;

	if (!why->query->records || why->recorded)
		return false;
#define X(bit, name, text)                                                                         \
	if (why->query->records & TS_RECORD_##name)                                                \
		size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s",               \
					 size ? ", " : "", text);
	TS_RECORDS(X)
#undef X
	SAY(why, "Nothing of %s is recorded%s%s: see --records and --budget", names,
	    why->one ? " of" : "", why->who);
	return true;
}

/* "1 h" where there is no more to say than that. */
static const char *brief(char text[UNITS_TEXT_SIZE], uint64_t ns)
{
	char *point = strchr(units_nanoseconds(text, (int64_t)ns), '.');
	char *unit = strchr(text, ' ');

	if (point && unit && strspn(point + 1, "0") == (size_t)(unit - point) - 1)
		memmove(point, unit, strlen(unit) + 1);
	return text;
}

static bool say_young(const struct why *why)
{
	const uint64_t ns = why->request->min_age_ns ? why->request->min_age_ns : QUERY_MIN_AGE_NS;
	char age[UNITS_TEXT_SIZE];

	if (!(why->query->options & QUERY_MIN_AGE) || !why->live)
		return false;
	SAY(why, "No live allocation%s%s is as old as %s; %" PRId64 " %s younger: see --min-age",
	    why->one ? " of" : "", why->who, brief(age, ns), why->live,
	    why->live == 1 ? "is" : "are");
	return true;
}

/* Of what was asked for there was nothing. */
static bool say_nothing(const struct why *why)
{
	const struct answer_window *window = &why->answer->window;
	const Tracesmith__V1__QueryRequest *request = why->request;
	/* Peaks, and with them what is freed, are not known by stack. */
	const bool live = request->by == QUERY_BY_IS_STACK && why->query->about & ABOUT_MEMORY;
	char device[32] = "", stream[32] = "", when[UNITS_TEXT_SIZE + 32] = "";
	char last[UNITS_TEXT_SIZE];

	if (request->device_given_case)
		snprintf(device, sizeof(device), " on device %" PRIu32, request->device);
	if (request->stream)
		snprintf(stream, sizeof(stream), " on stream %" PRIu32, request->stream);
	if (request->until_ns)
		snprintf(when, sizeof(when), " in the window");
	else if (window->since_ns > 1 && why->query->options & QUERY_WINDOW)
		snprintf(when, sizeof(when), " in the last %s",
			 brief(last, window->until_ns - window->since_ns));
	SAY(why, "%s%s%s%s%s%s", live ? "No memory is live" : why->query->nothing,
	    why->one ? " in" : "", why->who, device, stream, when);
	return true;
}

int answer_say_why(struct answer *answer, const struct query *query,
		   const Tracesmith__V1__QueryRequest *request)
{
	static bool (*const causes[])(const struct why *) = {
		say_none,	say_ended,  say_other_time,   say_exact_at_another_time,
		say_probe_tier, say_paused, say_not_recorded, say_young,
		say_nothing,
	};
	struct why why = {
		.answer = answer,
		.query = query,
		.request = request,
		.one = request->pid,
		.file = answer->job->reader,
	};
	int r = look(&why);

	if (why.one)
		snprintf(why.who, sizeof(why.who), " process %" PRIu32, request->pid);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(causes); i++)
		if (causes[i](&why))
			break;
	return r;
}

/* What the daemon does not watch, no answer can have. */
void answer_say_hidden(struct answer *answer)
{
	size_t used = strlen(answer->note);

	if (answer->job->watched && !answer->window.pid)
		snprintf(answer->note + used, sizeof(answer->note) - used,
			 "%stracesmithd's settings hide all processes but those of %s",
			 used ? "; " : "", answer->job->watched);
}
