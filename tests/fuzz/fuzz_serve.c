/* fuzz_serve: what a browser asks of `tsctl serve`, by its arguments, and what a daemon, or a
 * recording in its place, answers to that. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/graph/graph.h"
#include "client/link/link.h"
#include "client/replay/whatif.h"
#include "client/serve/addresses.h"
#include "client/serve/flame.h"
#include "client/serve/memory.h"
#include "client/serve/page.h"
#include "client/serve/predict.h"
#include "client/serve/relay.h"
#include "client/serve/timeline.h"
#include "client/serve/waits.h"
#include "client/trace/plan_load.h"
#include "client/trace/show.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/utf8.h"
#include "tests/fuzz/seed.h"

#define ARGUMENTS_MAX 16
#define COLUMNS_MAX   15
#define ROWS_MAX      16

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
	void (*answer)(const struct web_request *request, struct web_answer *answer);
	const char *asked; /* as a seed */
	uint8_t columns;   /* of the rows */
} routes[] = {
	{ relay_query, "apis\nlimit=5\nsort=count\nsince=-5000000000", 4 },
	{ timeline_lanes, "\ncolumns=100\nsince=1\nuntil=1000", 12 },
	{ timeline_extent, "\npid=7", 3 },
	{ flame_graph, "\nof=gpu\npid=7", 4 },
	{ memory_layers, "\nby=process\ncolumns=10", 5 },
	{ addresses_map, "\npid=7\nsince=5", 9 },
	{ waits_arrows,
	  "\nwhat=work\npid=7\nid=1\nat=5\nsince=9223372036854775806"
	  "\nuntil=9223372036854775807",
	  1 },
	{ predict_lanes,
	  "\nstreams=3\ncolumns=10\nsince=9223372036854775806"
	  "\nuntil=9223372036854775807",
	  1 },
	{ relay_clock, "", 1 },
	{ page_file, "main.js", 1 },
};

/* The request, and the daemon. */
static struct {
	char *name, *value;
} argument[ARGUMENTS_MAX];
static size_t arguments;
static struct connection_hello hello = { .version = "1", .boot_id = "boot" };
static const uint8_t *answer_at;
static size_t answer_left;

static void must(bool holds)
{
	if (!holds)
		abort();
}

static const char *look_up(struct MHD_Connection *connection, enum MHD_ValueKind kind,
			   const char *name)
{
	must(kind == MHD_GET_ARGUMENT_KIND);
	for (size_t i = 0; i < arguments; i++)
		if (strcmp(argument[i].name, name) == 0)
			return argument[i].value;
	return NULL;
}

int link_open(const struct options *options, struct link **ret)
{
	*ret = (struct link *)&hello;
	return 0;
}

struct link *link_free(struct link *link)
{
	return NULL;
}

const struct connection_hello *link_hello(const struct link *link)
{
	return &hello;
}

/* What is left of the input. */

static uint8_t next(void)
{
	if (!answer_left)
		return 0;
	answer_left--;
	return *answer_at++;
}

static int64_t next_number(void)
{
	int64_t number = 0;
	uint8_t bytes = next() % 9;

	for (uint8_t i = 0; i < bytes; i++)
		number = (int64_t)((uint64_t)number << 8 | next());
	return number;
}

static char *next_text(void)
{
	size_t size = next() % 32;
	char *text = calloc(1, size + 1);

	must(text);
	for (size_t i = 0; i < size; i++)
		text[i] = (char)next();
	return text;
}

static Tracesmith__V1__Stack *next_stack(void)
{
	Tracesmith__V1__Stack *stack = calloc(1, sizeof(*stack));
	size_t count = next() % 64;

	must(stack);
	tracesmith__v1__stack__init(stack);
	stack->frame = calloc(count + 1, sizeof(*stack->frame));
	must(stack->frame);
	while (stack->n_frame < count)
		stack->frame[stack->n_frame++] = next_text();
	return stack;
}

static Tracesmith__V1__Value *next_value(void)
{
	Tracesmith__V1__Value *value = calloc(1, sizeof(*value));

	must(value);
	tracesmith__v1__value__init(value);
	switch (next() % 6) {
	case 0:
	case 1:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
		value->integer = next_number();
		break;
	case 2:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_REAL;
		value->real = (double)next_number() / (double)next_number(); /* or what is none */
		break;
	case 3:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
		value->text = next_text();
		break;
	case 4:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_STACK;
		value->stack = next_stack();
		break;
	default: /* nothing */
		break;
	}
	return value;
}

static Tracesmith__V1__Row *next_row(size_t columns)
{
	Tracesmith__V1__Row *row = calloc(1, sizeof(*row));

	must(row);
	tracesmith__v1__row__init(row);
	row->value = calloc(columns + 1, sizeof(*row->value));
	must(row->value);
	while (row->n_value < columns)
		row->value[row->n_value++] = next_value();
	return row;
}

static int give_columns(size_t count, link_reply_fn *take, void *data)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;
	Tracesmith__V1__Columns__Column column[COLUMNS_MAX], *list[COLUMNS_MAX];

	for (size_t i = 0; i < count; i++) {
		tracesmith__v1__columns__column__init(&column[i]);
		column[i].name = (char *)"column";
		column[i].type = next() % 11;
		list[i] = &column[i];
	}
	columns.n_column = count;
	columns.column = list;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_COLUMNS;
	reply.columns = &columns;
	return take(data, &reply);
}

static int give_row(size_t columns, link_reply_fn *take, void *data)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Rows rows = TRACESMITH__V1__ROWS__INIT;
	Tracesmith__V1__Row *row = next_row(columns);
	int r;

	rows.n_row = 1;
	rows.row = &row;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ROWS;
	reply.rows = &rows;
	r = take(data, &reply);
	tracesmith__v1__row__free_unpacked(row, NULL);
	return r;
}

int link_converse(struct link *link, const ProtobufCMessage *body, link_reply_fn *take, void *data,
		  Tracesmith__V1__Reply **ret_end)
{
	Tracesmith__V1__Reply end = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	size_t columns = next() % (COLUMNS_MAX + 1), rows = next() % ROWS_MAX;
	int r;

	must(protobuf_c_message_check(body));
	r = give_columns(columns, take, data);
	for (size_t i = 0; r == 0 && i < rows; i++)
		r = give_row(columns, take, data);
	done.truncated = next() % 2;
	end.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	end.done = &done;
	return r < 0 ? r : take(data, &end);
}

/* What takes plans is fuzzed elsewhere. */

int plan_load_on(struct link *link, const struct options *options, struct trace *ret_trace,
		 struct plan **ret)
{
	return -ENOENT;
}

void trace_done(struct trace *trace)
{
}

int replay_predict(const struct options *options, replay_predicted_fn *call, void *data)
{
	return -ENOENT;
}

const struct meta_text *show_work_name(const struct meta *meta, const struct op *op)
{
	abort();
}

int graph_edges(struct graph *graph, graph_edge_fn *take)
{
	abort();
}

const char *graph_call_name(const struct graph *graph, uint32_t call)
{
	abort();
}

const char *graph_work_name(const struct graph *graph, uint32_t work)
{
	abort();
}

/* JSON, as far as its brackets and texts go; what is between them is made of these characters. */
static void check_json(const char *text, size_t size)
{
	bool quoted = false;
	int depth = 0;

	must(utf8_valid(text, size));
	for (size_t i = 0; i < size; i++) {
		if (quoted) {
			must((unsigned char)text[i] >= ' ');
			if (text[i] == '\\')
				i++;
			else
				quoted = text[i] != '"';
		} else if (text[i] == '"') {
			quoted = true;
		} else if (strchr("[{", text[i])) {
			depth++;
		} else if (strchr("]}", text[i])) {
			must(depth-- > 0);
		} else {
			must(strchr(",:+-.eE0123456789truefalsn \n", text[i]));
		}
	}
	must(depth == 0 && !quoted);
}

static void ask(size_t route, char *text)
{
	const struct http http = { .MHD_lookup_connection_value = look_up };
	struct source source;
	const struct options options = { .given = 0 };
	struct web_request request = { .http = &http, .source = &source };
	struct web_answer answer;
	char *line;

	request.rest = strsep(&text, "\n");
	while ((line = strsep(&text, "\n")) && arguments < ARGUMENTS_MAX) {
		argument[arguments].name = strsep(&line, "=");
		argument[arguments].value = line; /* or none: "?name" */
		arguments++;
	}
	source_init(&source, &options);
	routes[route].answer(&request, &answer);
	must(answer.status == MHD_HTTP_OK || (answer.status >= 400 && answer.status < 600));
	if (strcmp(answer.type, WEB_JSON) == 0 && answer.text)
		check_json(answer.text, answer.size);
	free(answer.text);
	source_done(&source);
}

static void put_seed(const char *directory, unsigned int i)
{
	char seed[1024] = { 0 };
	size_t size = strlen(routes[i].asked), at = 17 + size + 1;

	snprintf(seed + 16, sizeof(seed) - 16, "%s", routes[i].asked);
	seed[7] = 10; /* seconds or so */
	at--;
	for (int answer = 0; answer < 4; answer++) {
		seed[at++] = (char)routes[i].columns;
		seed[at++] = 2;
		at += (size_t)(routes[i].columns + 2 * 3 * routes[i].columns);
	}
	write_seed(directory, i, (uint8_t)i, seed, at);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");

	for (unsigned int i = 0; directory && i < ARRAY_SIZE(routes); i++)
		put_seed(directory, i);
	return 0;
}

/* The route, both clocks of the daemon, the request, a NUL, and the answers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t head = 1 + sizeof(hello.now_ns) + sizeof(hello.wall_offset_ns);
	_cleanup_(freep) char *text = NULL;

	if (size < head)
		return 0;
	memcpy(&hello.now_ns, data + 1, sizeof(hello.now_ns));
	memcpy(&hello.wall_offset_ns, data + 1 + sizeof(hello.now_ns),
	       sizeof(hello.wall_offset_ns));
	text = strndup((const char *)data + head, size - head);
	must(text);
	answer_at = data + head + strlen(text);
	answer_left = size - head - strlen(text);
	(void)next(); /* the NUL */
	arguments = 0;
	ask(data[0] % ARRAY_SIZE(routes), text);
	return 0;
}
