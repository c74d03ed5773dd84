/* Query: dispatches a request, and answers those for the query table. */
#include "core/store/query/query.h"

#include <errno.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/limits.h"
#include "core/store/condense.h"
#include "core/store/query/answer.h"
#include "core/store/sql.h"

#define T(type) TRACESMITH__V1__COLUMNS__TYPE__##type

static int find(struct answer *answer, const char *name, const struct query **ret)
{
	const char *near;

	*ret = query_find(name);
	if (*ret)
		return 0;
	near = query_near(name);
	if (near)
		return answer_fail(answer, REASON(NO_QUERY_NEAR), name, near, NULL);
	return answer_fail(answer, REASON(NO_QUERY), name, NULL);
}

static int check_options(struct answer *answer, const struct query *query,
			 const Tracesmith__V1__QueryRequest *request)
{
	const struct {
		bool given;
		uint32_t option;
		const char *name;
	} checks[] = {
		{ request->pid, QUERY_PID, "pid" },
		{ answer_given(request->user), QUERY_PID, "user" },
		{ request->since_ns, QUERY_WINDOW, "since" },
		{ request->until_ns, QUERY_WINDOW, "until" },
		{ request->min_age_ns, QUERY_MIN_AGE, "min_age" },
		{ request->stream, QUERY_STREAM, "stream" },
		{ request->device_given_case, QUERY_DEVICE, "device" },
		{ request->by == QUERY_BY_IS_STACK, QUERY_BY_STACK, "by_stack" },
		{ request->by == QUERY_BY_IS_STREAM, QUERY_BY_STREAM, "by_stream" },
		{ request->by >= QUERY_BY_IS_LINE && request->by < QUERY_BY_COUNT, QUERY_BY_PLACE,
		  "by" },
		{ answer_given(request->match), QUERY_NAME, "name" },
		{ request->after_given_case, QUERY_AFTER, "after" },
		{ request->step_ns, QUERY_STEP, "step" },
		{ request->process, QUERY_PROCESS, "process" },
		{ request->tid, QUERY_TID, "tid" },
		{ request->all, QUERY_ALL, "all" },
		{ request->number, QUERY_NUMBER, "number" },
		{ request->boot, QUERY_BOOT, "boot" },
	};
	uint32_t options = query->options | (query->search ? QUERY_NAME : 0);
	char text[QUERY_OPTIONS_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		if (!checks[i].given || (options & checks[i].option))
			continue;
		query_options_text(query, text);
		return answer_fail(answer, REASON(QUERY_OPTION), query->name, checks[i].name, text,
				   NULL);
	}
	if (request->by >= QUERY_BY_COUNT)
		return answer_fail(answer, REASON(QUERY_SPLIT), REMARK_NUMBER(request->by), NULL);
	if (request->since_ns && request->until_ns && request->since_ns > request->until_ns)
		return answer_fail(answer, REASON(BAD_WINDOW), NULL);
	return 0;
}

static void set_window(struct answer *answer, const struct query *query,
		       const Tracesmith__V1__QueryRequest *request)
{
	struct answer_window *window = &answer->window;

	window->pid = request->pid;
	window->user = answer_given(request->user) ? request->user : NULL;
	if (request->until_ns && request->until_ns < answer->now_ns)
		window->until_ns = request->until_ns;
	if (request->since_ns)
		window->since_ns = request->since_ns;
	else if (query->window_ns && query->window_ns < window->until_ns)
		window->since_ns = window->until_ns - query->window_ns;
}

static uint64_t limit_of(const struct query *query, uint64_t wanted)
{
	uint64_t limit = wanted ? wanted : query->limit;

	return limit && limit < LIMIT_QUERY_ROWS ? limit : LIMIT_QUERY_ROWS;
}

/* The first second of the rollups of a window: where they are kept by the minute, that of the
 * minute in which it starts. */
static int64_t first_second(const struct answer *answer)
{
	int64_t second = answer->window.since_ns / NS_PER_S;
	int64_t age = (int64_t)(answer->told_ns / NS_PER_S) - second;
	bool recent = age < CONDENSE_AFTER_S;

	return recent ? second : second - second % CONDENSE_TO_S;
}

static void bind(const struct answer *answer, sqlite3_stmt *stmt,
		 const Tracesmith__V1__QueryRequest *request, uint64_t limit)
{
	const struct answer_window *window = &answer->window;

	answer_bind(stmt, ":boot", true, request->boot ? request->boot : answer->boot);
	answer_bind(stmt, ":now", true, answer->now_ns);
	answer_bind(stmt, ":since", true, window->since_ns);
	answer_bind(stmt, ":until", true, window->until_ns);
	answer_bind(stmt, ":first", true, first_second(answer));
	answer_bind(stmt, ":pid", window->pid, window->pid);
	answer_bind_text(stmt, ":user", window->user);
	answer_bind(stmt, ":stream", request->stream, request->stream);
	answer_bind(stmt, ":device", request->device_given_case, request->device);
	answer_bind(stmt, ":min_age", true,
		    request->min_age_ns ? request->min_age_ns : QUERY_MIN_AGE_NS);
	answer_bind(stmt, ":all", true, request->all || request->min_age_ns != 0);
	answer_bind(stmt, ":by", true, request->by);
	answer_bind(stmt, ":step", true, request->step_ns ? request->step_ns : 1);
	answer_bind(stmt, ":process", request->process, request->process);
	answer_bind(stmt, ":tid", request->tid, request->tid);
	answer_bind(stmt, ":number", request->number, request->number);
	answer_bind(stmt, ":suspended", true, answer->job->suspended_ns);
	answer_bind(stmt, ":after", true, request->after_given_case ? request->after : INT64_MIN);
	answer_bind(stmt, ":owner", answer->job->own, answer->job->owner);
	answer_bind(stmt, ":limit", true, limit + 1); /* to know whether there are more */
}

/* Its file must name as many columns as its statement has. */
static int send_columns(struct answer *answer, const struct query *query, sqlite3_stmt *stmt)
{
	int count = 0;

	while (query->column[count].name)
		count++;
	if (count != sqlite3_column_count(stmt))
		return -EINVAL;
	return answer_columns(answer, query->column, (size_t)count);
}

int run_query(struct answer *answer, const Tracesmith__V1__QueryRequest *request)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	const struct query *query;
	uint64_t limit = 0;
	bool truncated = false;
	int r = find(answer, request->name, &query);

	if (r == 0)
		r = check_options(answer, query, request);
	if (r == 0)
		r = answer_check_pid(answer, request->pid);
	if (r == 0)
		r = answer_check_user(answer, request->user);
	if (r == 0) {
		limit = limit_of(query, request->limit);
		r = choose_prepare(answer, query, request, limit, &stmt);
	}
	if (r < 0)
		return r;
	answer->too_slow =
		query->options & QUERY_WINDOW ? REASON(TOO_SLOW_WINDOW) : REASON(TOO_SLOW_PID);
	answer->about = query->about;
	if (request->by && request->by != QUERY_BY_IS_STREAM)
		answer->about |=
			query->about & ABOUT_MEMORY ? ABOUT_STACKS : ABOUT_STACKS | ABOUT_SAMPLES;
	answer->window.running = query->flags & QUERY_IS_RUNNING;
	set_window(answer, query, request);
	bind(answer, stmt, request, limit);
	r = send_columns(answer, query, stmt);
	if (r == 0)
		r = answer_rows(answer, stmt, sqlite3_step(stmt), query->column, limit, &truncated);
	if (r == 0 && !answer->rows && query->nothing)
		r = answer_explain(answer, query, request);
	if (r == 0 && ((!answer->rows && query->nothing) || query->about & ABOUT_PROCESSES))
		r = answer_remark_hidden(answer);
	return r < 0 ? r : answer_done(answer, truncated);
}

static int run_list(struct answer *answer)
{
	static const struct query_column columns[] = {
		{ "name", T(TEXT), true },
		{ "text", T(TEXT), true },
		{ "options", T(TEXT), true },
	};
	char options[QUERY_OPTIONS_TEXT_MAX];
	const struct query *query;
	int r = answer_columns(answer, columns, 3);

	for (size_t i = 0; r == 0 && (query = query_at(i)); i++) {
		query_options_text(query, options);
		r = answer_texts(answer, (const char *const[]){ query->name, query->text, options },
				 3);
	}
	return r < 0 ? r : answer_done_whole(answer);
}

static int dispatch(struct answer *answer, const Tracesmith__V1__Request *request)
{
	switch (request->body_case) {
	case TRACESMITH__V1__REQUEST__BODY_QUERY:
		return run_query(answer, request->query);
	case TRACESMITH__V1__REQUEST__BODY_SQL:
		return run_sql(answer, request->sql);
	case TRACESMITH__V1__REQUEST__BODY_EXPORT:
		return run_export(answer, request->export);
	case TRACESMITH__V1__REQUEST__BODY_RECORD:
		return run_record(answer, request->record);
	case TRACESMITH__V1__REQUEST__BODY_REPLAY:
		return run_replay(answer, request->replay);
	case TRACESMITH__V1__REQUEST__BODY_LIST:
		return run_list(answer);
	default:
		return -EOPNOTSUPP;
	}
}

bool query_is_quick(const Tracesmith__V1__Request *request)
{
	const Tracesmith__V1__QueryRequest *asked = request->query;
	const struct query *query;

	if (request->body_case == TRACESMITH__V1__REQUEST__BODY_LIST)
		return true;
	if (request->body_case != TRACESMITH__V1__REQUEST__BODY_QUERY)
		return false;
	query = query_find(asked->name);
	return !query || ((query->flags & QUERY_IS_QUICK) && !asked->since_ns && !asked->until_ns);
}

bool query_is_prompt(const Tracesmith__V1__Request *request)
{
	const struct query *query = NULL;

	if (request->body_case == TRACESMITH__V1__REQUEST__BODY_QUERY)
		query = query_find(request->query->name);
	return query_is_quick(request) && !(query && query->flags & QUERY_IS_INTERNAL);
}

static int remark_older(struct answer *answer)
{
	uint64_t older_ns = answer->job->older_ns;

	if (!older_ns)
		return 0;
	return remarks_add(&answer->remarks, REASON(OLDER),
			   REMARK_NUMBER((older_ns + NS_PER_S - 1) / NS_PER_S), NULL);
}

void query_run(const struct query_job *job)
{
	struct answer answer;
	int r = answer_open(&answer, job);

	if (r == 0)
		do {
			r = remark_older(&answer);
			if (r == 0)
				r = dispatch(&answer, job->request);
		} while (r < 0 && answer_again(&answer, r));
	if (r == -ENOMEM)
		answer_fail_memory(&answer);
	else if (r < 0 && r != -ECANCELED)
		answer_fail(&answer, REASON(UNREADABLE), NULL);
	answer_close(&answer);
}
