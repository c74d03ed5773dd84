/* Relay: passes a query on to the daemon, and its rows on to the page. */
#include "client/serve/relay.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "client/base/complain.h"
#include "client/output/json.h"
#include "client/output/table.h"
#include "core/base/array.h"

#define ROWS_BYTES   150000 /* then no row is added: one has at most FRAMES_MAX frames */
#define FRAMES_MAX   48
#define BY_MAX	     6
#define ROWS_DEFAULT 100

/* Fields of a QueryRequest that are plain numbers. */
static const struct {
	const char *name;
	size_t offset;
	bool wide;
	int64_t max;
} fields[] = {
#define FIELD(field, wide, max)                                                                    \
	{                                                                                          \
#field, offsetof(Tracesmith__V1__QueryRequest, field), wide, max                   \
	}
	FIELD(pid, false, INT32_MAX),	    FIELD(stream, false, UINT32_MAX),
	FIELD(by, false, BY_MAX),	    FIELD(limit, true, 1000000),
	FIELD(min_age_ns, true, INT64_MAX), FIELD(step_ns, true, INT64_MAX / 4),
	FIELD(process, false, UINT32_MAX),  FIELD(tid, false, INT32_MAX),
#undef FIELD
};

static int take_numbers(const struct web_request *request, Tracesmith__V1__QueryRequest *query)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		void *field = (char *)query + fields[i].offset;
		int64_t value = 0;
		int r = web_number(request, fields[i].name, &value);

		if (r == 0 && (value < 0 || value > fields[i].max)) {
			complain("'%s' must be from 0 to %" PRId64, fields[i].name, fields[i].max);
			r = -EINVAL;
		}
		if (r < 0)
			return r;
		if (value && fields[i].wide)
			*(uint64_t *)field = (uint64_t)value;
		else if (value)
			*(uint32_t *)field = (uint32_t)value;
	}
	return 0;
}

static int take_arguments(const struct web_request *request, uint64_t now_ns,
			  Tracesmith__V1__QueryRequest *query)
{
	const struct {
		const char *name;
		char **field;
	} texts[] = {
		{ "sort", &query->sort },
		{ "name", &query->match },
		{ "user", &query->user },
	};
	int64_t device = -1;
	int r = take_numbers(request, query);

	if (r == 0)
		r = web_number(request, "device", &device);
	if (r == 0)
		r = web_period(request, now_ns, &query->since_ns, &query->until_ns);
	if (device >= 0 && device <= INT16_MAX) {
		query->device_given_case = TRACESMITH__V1__QUERY_REQUEST__DEVICE_GIVEN_DEVICE;
		query->device = (uint32_t)device;
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (web_argument(request, texts[i].name))
			*texts[i].field = (char *)web_argument(request, texts[i].name);
	return r;
}

struct relay {
	struct table table;
	bool cut;
};

static int put_row(struct relay *relay, Tracesmith__V1__Row *row)
{
	if (relay->cut || ftell(relay->table.out) > ROWS_BYTES) {
		relay->cut = true;
		return 0;
	}
	for (size_t i = 0; i < row->n_value; i++) {
		Tracesmith__V1__Stack *stack = row->value[i]->stack;

		if (row->value[i]->value_case != TRACESMITH__V1__VALUE__VALUE_STACK)
			continue;
		/* They stay in the reply, which frees as many as it has. */
		while (stack->n_frame > FRAMES_MAX)
			free(stack->frame[--stack->n_frame]);
		while (stack->n_detail > FRAMES_MAX)
			tracesmith__v1__frame__free_unpacked(stack->detail[--stack->n_detail],
							     NULL);
	}
	return table_row(&relay->table, row);
}

static int put(void *data, const Tracesmith__V1__Reply *reply)
{
	struct relay *relay = data;
	Tracesmith__V1__Done done;
	int r = 0;

	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		return table_columns(&relay->table, reply->columns);
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = put_row(relay, reply->rows->row[i]);
		return r;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		done = *reply->done;
		done.truncated |= relay->cut;
		return table_end(&relay->table, &done);
	default:
		return -EPROTO;
	}
}

static int converse(const struct web_request *request, struct link *link, FILE *out)
{
	const struct options form = { .given = OPTION(JSON) };
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	struct relay relay = { .cut = false };
	int r;

	query.name = (char *)request->rest;
	query.limit = ROWS_DEFAULT;
	r = take_arguments(request, link_hello(link)->now_ns, &query);
	if (r < 0)
		return r;
	table_init(&relay.table, &form, request->rest, link_hello(link)->wall_offset_ns);
	relay.table.out = out;
	relay.table.notes = NULL;
	r = link_converse(link, &query.base, put, &relay, NULL);
	table_done(&relay.table);
	if (r == -EPROTO)
		complain("tracesmithd is of another version: restart it if it was upgraded");
	return r;
}

static int greet(const struct web_request *request, struct link *link, FILE *out)
{
	const struct connection_hello *hello = link_hello(link);

	fprintf(out, "{\"now_ns\":%" PRIu64 ",\"wall_offset_ns\":%" PRId64 ",\"version\":",
		hello->now_ns, hello->wall_offset_ns);
	json_string(out, hello->version);
	fputs(",\"boot_id\":", out);
	json_string(out, hello->boot_id);
	fputs(",\"file\":", out);
	json_string(out, request->source->options.file ? request->source->options.file : "");
	fputs(",\"other\":", out);
	json_string(out, request->other ? request->other : "");
	fputs("}\n", out);
	return 0;
}

void relay_query(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, converse);
}

void relay_clock(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, greet);
}
