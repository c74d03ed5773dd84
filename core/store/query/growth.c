/* Growth: the numbers of a recording may be anything, so none is trusted to make sense. */
#include "core/store/query/growth.h"

#include "core/base/units.h"
#include "core/leak/verdict.h"

enum growth_argument {
	WHY_VERDICT,
	WHY_WATCHED,
	WHY_NEEDS,
	WHY_KEPT,
	WHY_KEPT_BYTES,
	WHY_USUAL,
	WHY_GROWS,
	WHY_QUIET,
	WHY_ALLOCATIONS,
	WHY_FREES,
	WHY_ARGUMENTS,
};

struct growth_facts {
	int64_t number[WHY_ARGUMENTS];
	char watched[UNITS_TEXT_SIZE], needs[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE];
	char usual[UNITS_TEXT_SIZE], grows[UNITS_TEXT_SIZE], quiet[UNITS_TEXT_SIZE];
};

static char *leaks(const struct growth_facts *facts)
{
	const long long kept = facts->number[WHY_KEPT];

	if (facts->number[WHY_USUAL])
		return sqlite3_mprintf("%lld blocks (%s) of the last %s outlived the %s "
				       "after which others are freed, and more keep coming",
				       kept, facts->bytes, facts->grows, facts->usual);
	return sqlite3_mprintf("%lld blocks (%s) of the last %s: hardly any was freed, "
			       "and more keep coming at the same rate",
			       kept, facts->bytes, facts->grows);
}

static char *grows(const struct growth_facts *facts)
{
	if (facts->number[WHY_KEPT])
		return sqlite3_mprintf("%lld blocks (%s) of the last %s are kept: too few, "
				       "too uneven or slowing down, so it may end",
				       (long long)facts->number[WHY_KEPT], facts->bytes,
				       facts->grows);
	return sqlite3_mprintf("what is live at least has risen in each quarter of %s",
			       facts->watched);
}

static char *rests(const struct growth_facts *facts)
{
	switch (facts->number[WHY_VERDICT]) {
	case VERDICT_CACHE:
		if (facts->number[WHY_FREES])
			return sqlite3_mprintf("full: what it holds does not grow, %lld of %lld "
					       "blocks were freed",
					       (long long)facts->number[WHY_FREES],
					       (long long)facts->number[WHY_ALLOCATIONS]);
		return sqlite3_mprintf("grew for a time, and nothing was added for %s",
				       facts->quiet);
	case VERDICT_HELD:
		return sqlite3_mprintf("allocated %s ago, and kept", facts->quiet);
	default:
		return sqlite3_mprintf("%lld of %lld blocks were freed",
				       (long long)facts->number[WHY_FREES],
				       (long long)facts->number[WHY_ALLOCATIONS]);
	}
}

static char *sentence(const struct growth_facts *facts)
{
	switch (facts->number[WHY_VERDICT]) {
	case VERDICT_LEAK:
		return leaks(facts);
	case VERDICT_GROWING:
		return grows(facts);
	case VERDICT_YOUNG:
		if (facts->number[WHY_NEEDS] > 0)
			return sqlite3_mprintf("watched for %s, needs %s more", facts->watched,
					       facts->needs);
		return sqlite3_mprintf("watched for %s, judged within a minute", facts->watched);
	default:
		return rests(facts);
	}
}

void growth_why(sqlite3_context *context, int count, sqlite3_value **value)
{
	struct growth_facts facts;
	char *text;

	if (count != WHY_ARGUMENTS || sqlite3_value_type(value[WHY_VERDICT]) == SQLITE_NULL)
		return;
	for (int i = 0; i < WHY_ARGUMENTS; i++)
		facts.number[i] = sqlite3_value_int64(value[i]);
	units_nanoseconds(facts.watched, facts.number[WHY_WATCHED]);
	units_nanoseconds(facts.needs, facts.number[WHY_NEEDS]);
	units_bytes(facts.bytes, facts.number[WHY_KEPT_BYTES]);
	units_nanoseconds(facts.usual, facts.number[WHY_USUAL]);
	units_nanoseconds(facts.grows, facts.number[WHY_GROWS]);
	units_nanoseconds(facts.quiet, facts.number[WHY_QUIET]);
	text = sentence(&facts);
	if (text)
		sqlite3_result_text(context, text, -1, sqlite3_free);
	else
		sqlite3_result_error_nomem(context);
}
