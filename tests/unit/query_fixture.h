/* query_fixture.h: a store with rows made by hand, and answers as the JSON that tsctl would write.
 */
#ifndef QUERY_FIXTURE_H
#define QUERY_FIXTURE_H

#include "client/output/table.h"
#include "core/base/array.h"
#include "core/store/query/query.h"
#include "core/store/query/table.h"
#include "tests/unit/store_fixture.h"

#define BOOT "first-boot"
/* Times of the rows are this long before now; the start of a second. */
#define AGO_S 100

enum fn { FN_LAUNCH = 1, FN_ALLOC, FN_FREE, FN_HTOD, FN_SYNC };

static uint32_t fixture_owner; /* who asks, and sees only his own; 0: one who sees all */
static uint32_t fixture_unlooked;
/* The clock of the tests, far enough from the boot for every window. */
static uint64_t fixture_now_ns = 100000 * SECOND_NS + 345678901;

struct answer_text {
	struct table table;
	char *text; /* JSON of the answer, or the message of its error */
	size_t size;
	int replies;
	int cancel_after;		   /* replies, 0: never */
	Tracesmith__V1__Error__Code error; /* UNSPECIFIED: none */
	uint64_t rows, lost_ns;		   /* lost_ns: of its last loss */
	bool truncated, ended;
	bool for_people; /* the table instead of the JSON */
};

static inline int take_reply(void *data, const Tracesmith__V1__Reply *reply)
{
	struct answer_text *answer = data;

	assert_false(answer->ended);
	answer->replies++;
	if (answer->cancel_after && answer->replies > answer->cancel_after)
		return -ECANCELED;
	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		assert_int_equal(table_columns(&answer->table, reply->columns), 0);
		break;
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		for (size_t i = 0; i < reply->rows->n_row; i++)
			assert_int_equal(table_row(&answer->table, reply->rows->row[i]), 0);
		break;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		if (answer->table.column)
			assert_int_equal(table_end(&answer->table, reply->done), 0);
		answer->rows = reply->done->rows;
		for (size_t i = 0; i < reply->done->n_loss; i++)
			answer->lost_ns = reply->done->loss[i]->time_ns;
		answer->truncated = reply->done->truncated;
		answer->ended = true;
		break;
	case TRACESMITH__V1__REPLY__BODY_ERROR:
		fputs(reply->error->message, answer->table.out);
		answer->error = reply->error->code;
		answer->ended = true;
		break;
	default:
		break;
	}
	return 0;
}

static inline bool is_cancelled(void *data)
{
	struct answer_text *answer = data;

	return answer->cancel_after && answer->replies > answer->cancel_after;
}

/* Runs a request to its end. To be freed with answer_text_done. */
static inline void run_request(const struct fixture *fixture, Tracesmith__V1__Request *request,
			       const char *name, struct answer_text *answer)
{
	struct options options = { .given = answer->for_people ? 0 : OPTION(JSON) };
	struct query_job job = {
		.request = request,
		.database = fixture->path,
		.boot_id = BOOT,
		.now_ns = fixture_now_ns,
		.own = fixture_owner,
		.owner = fixture_owner,
		.unlooked = fixture_unlooked,
		.send = take_reply,
		.cancelled = is_cancelled,
		.data = answer,
	};
	FILE *notes = fopen("/dev/null", "w");

	request->id = 1;
	table_init(&answer->table, &options, name, 0);
	answer->table.out = open_memstream(&answer->text, &answer->size);
	answer->table.notes = notes;
	query_run(&job);
	fclose(answer->table.out);
	fclose(notes);
	assert_true(answer->ended || answer->cancel_after);
}

static inline void answer_text_done(struct answer_text *answer)
{
	table_done(&answer->table);
	free(answer->text);
	*answer = (struct answer_text){ 0 };
}

static inline void run_named(const struct fixture *fixture, Tracesmith__V1__QueryRequest *query,
			     struct answer_text *answer)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = query;
	run_request(fixture, &request, query->name, answer);
}

static inline void run_sql_text(const struct fixture *fixture, const char *text, uint64_t limit,
				uint64_t timeout_ns, struct answer_text *answer)
{
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	sql.text = (char *)text;
	sql.limit = limit;
	sql.timeout_ns = timeout_ns;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_SQL;
	request.sql = &sql;
	run_request(fixture, &request, "sql", answer);
}

/* Second in which everything happened. */
static inline uint64_t fixture_second(void)
{
	return fixture_now_ns / SECOND_NS - AGO_S;
}

/* A rollup row of that second. */
static inline void add_rollup(struct store *store, uint32_t process, uint16_t fn, uint8_t kind,
			      uint64_t calls, struct core_rollup rest)
{
	rest.second = rest.second ? rest.second : fixture_second();
	rest.process = process;
	rest.fn = fn;
	rest.kind = kind;
	rest.calls = calls;
	store_add(store, &rest);
}

static inline void add_process(struct store *store, uint32_t id, uint32_t pid, uint64_t exit_ns)
{
	struct core_process process = {
		.id = id,
		.pid = pid,
		.ns_pid = pid + 1,
		.ppid = 1,
		.uid = 1000,
		.exit_code = exit_ns ? 9 : 0,
		.first_ns = fixture_second() * SECOND_NS,
		.exit_ns = exit_ns,
	};

	snprintf(process.comm, sizeof(process.comm), "job%u", id);
	store_add(store, &process);
}

static inline void add_allocation(struct store *store, uint64_t id, uint32_t process,
				  uint64_t bytes, uint64_t stack, uint8_t kind, uint64_t start_ns)
{
	struct core_allocation allocation = {
		.id = id,
		.address = 0x7f0000000000 + id * 4096,
		.bytes = bytes,
		.start_ns = start_ns,
		.end_ns = start_ns + 10,
		.stack_id = stack,
		.process = process,
		.fn = FN_ALLOC,
		.kind = kind,
	};

	store_add(store, &allocation);
}

/* In JSON: a stack of one frame without a line, complete. */
#define STACK_OF(function, module)                                                                 \
	"[\"" function "\"],\"frames\":[{\"kind\":\"native\",\"function\":\"" function             \
	"\",\"module\":\"" module "\",\"file\":null,\"line\":null,\"inlined\":false}]"             \
	",\"stack_end\":\"complete\""

/* From `where` on. */
#define FORWARD	   STACK_OF("forward", "/opt/app")
#define IN_FORWARD "\"forward\",\"stack\":"
#define NOWHERE	   "null,\"stack\":null"

/* A stack with all kinds of frames, and where it is. */
#define WHERE_LEAK "\"where\":\"leak_here (leak.cc:12)\","
#define LEAK_FRAMES                                                                                \
	"\"stack\":[\"leak_here\",\"/opt/a\xef\xbf\xbd+0x31\","                                    \
	"\"train (train.py:31)\",\"0x40\"],\"frames\":["                                           \
	"{\"kind\":\"native\",\"function\":\"leak_here\",\"module\":\"/opt/app\","                 \
	"\"file\":\"/src/app/leak.cc\",\"line\":12,\"inlined\":true},"                             \
	"{\"kind\":\"native\",\"function\":null,\"module\":\"/opt/a\xef\xbf\xbd\","                \
	"\"file\":null,\"line\":null,\"inlined\":false},"                                          \
	"{\"kind\":\"python\",\"function\":\"train\",\"module\":null,"                             \
	"\"file\":\"/home/ann/train.py\",\"line\":31,\"inlined\":false},"                          \
	"{\"kind\":\"native\",\"function\":null,\"module\":null,"                                  \
	"\"file\":null,\"line\":null,\"inlined\":false}],\"stack_end\":\"no-rule\","               \
	"\"stack_linked\":true"

#define QUERY(...)                                                                                 \
	(Tracesmith__V1__QueryRequest)                                                             \
	{                                                                                          \
		PROTOBUF_C_MESSAGE_INIT(&tracesmith__v1__query_request__descriptor), __VA_ARGS__   \
	}

/* Numbers that differ from run to run become X: those that begin with `prefix`. */
static inline void mask(char *text, const char *key)
{
	char *at = text;

	while ((at = strstr(at, key))) {
		at += strlen(key);
		if (*at < '0' || *at > '9')
			continue;
		memmove(at + 1, at + strspn(at, "0123456789"),
			strlen(at + strspn(at, "0123456789")) + 1);
		*at = 'X';
	}
}

/* The line about what is missing: test_query_loss is about it. */
static inline void cut_missing(char *text)
{
	static const char key[] = ",\"missing\":\"";
	char *at = strstr(text, key), *end = at ? strchr(at + strlen(key), '"') : NULL;

	if (end)
		memmove(at, end + 1, strlen(end));
}

static inline void expect(void **state, Tracesmith__V1__QueryRequest query, const char *expected)
{
	struct answer_text answer = { 0 };

	run_named(*state, &query, &answer);
	cut_missing(answer.text);
	mask(answer.text, "oldest_ns\":");
	mask(answer.text, "told_ns\":");
	mask(answer.text, "first_ns\":");
	mask(answer.text, "last_ns\":");
	mask(answer.text, "start_ns\":");
	mask(answer.text, "end_ns\":");
	mask(answer.text, "exit_ns\":");
	assert_string_equal(answer.text, expected);
	answer_text_done(&answer);
}

static inline void refuse(void **state, Tracesmith__V1__QueryRequest query,
			  Tracesmith__V1__Error__Code code, const char *message)
{
	struct answer_text answer = { 0 };

	run_named(*state, &query, &answer);
	assert_int_equal(answer.error, code);
	assert_non_null(strstr(answer.text, message));
	answer_text_done(&answer);
}

#endif
