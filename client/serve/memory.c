/* Memory: asks for what allocations and frees changed, and for the names of those layers that are
 * shown. */
#include "client/serve/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/serve/held.h"
#include "client/serve/label.h"
#include "core/base/cleanup.h"

#define COLUMNS_DEFAULT 200
#define FRAMES_MAX	16
#define EVENT_SIZE	5

struct memory {
	struct link *link;
	struct held held;
	struct held_picture *picture;
	int64_t pid, columns;
	uint64_t since_ns, until_ns, step_ns;
};

static void memory_done(struct memory *memory)
{
	held_done(&memory->held);
	free(memory->picture);
}

static int read_window(const struct web_request *request, struct memory *memory)
{
	uint64_t now_ns = link_hello(memory->link)->now_ns;
	const char *by = web_argument(request, "by");
	int r;

	memory->columns = COLUMNS_DEFAULT;
	memory->since_ns = 1;
	memory->until_ns = now_ns;
	memory->held.by_process = by && strcmp(by, "process") == 0;
	r = web_period(request, now_ns, &memory->since_ns, &memory->until_ns);
	if (r == 0)
		r = web_number(request, "columns", &memory->columns);
	if (r == 0)
		r = web_number(request, "pid", &memory->pid);
	if (r < 0)
		return r;
	memory->until_ns = memory->until_ns < now_ns ? memory->until_ns : now_ns;
	if (memory->pid >= 0 && memory->pid <= INT32_MAX && memory->columns >= 1 &&
	    memory->columns <= HELD_COLUMNS_MAX && memory->since_ns < memory->until_ns &&
	    (!by || memory->held.by_process || strcmp(by, "path") == 0))
		return 0;
	complain("Memory is shown in 1 to %d columns, by path or process, of a time that ends "
		 "after its start",
		 HELD_COLUMNS_MAX);
	return -EINVAL;
}

static int take_event(void *data, const Tracesmith__V1__Row *row)
{
	struct held_event event;
	int64_t at_ns;

	if (row->n_value != EVENT_SIZE)
		return -EPROTO;
	at_ns = rows_integer(row->value[0]);
	/* In order, of numbers with a sign: a recording may claim any. */
	event.at_ns = at_ns > 0 ? (uint64_t)at_ns : 0;
	event.process = (uint32_t)rows_integer(row->value[1]);
	event.path = rows_integer(row->value[2]);
	event.bytes = rows_integer(row->value[3]);
	event.count = rows_integer(row->value[4]);
	return held_add(data, &event);
}

static int ask(struct memory *memory, const char *name, rows_fn *row, void *data)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)name;
	query.pid = (uint32_t)memory->pid;
	query.since_ns = memory->since_ns;
	query.until_ns = memory->until_ns;
	return rows_ask(memory->link, &query, row, data);
}

static int take_size(void *data, const Tracesmith__V1__Row *row)
{
	int64_t *ret = data;

	*ret = row->n_value ? rows_integer(row->value[0]) : 0;
	return 0;
}

/* Whole steps, of which the last may reach beyond the window. */
static int read_events(struct memory *memory)
{
	uint64_t columns = (uint64_t)memory->columns;
	int64_t size = 0;
	int r = ask(memory, "page-held-size", take_size, &size);

	if (r >= 0)
		r = size > HELD_EVENTS_MAX ? -E2BIG
					   : ask(memory, "page-held", take_event, &memory->held);
	if (r == -E2BIG || r > 0) {
		complain("There are more than %d allocations and frees: choose a process",
			 HELD_EVENTS_MAX);
		return -E2BIG;
	}
	if (r < 0)
		return r;
	memory->step_ns = (memory->until_ns - memory->since_ns + columns - 1) / columns;
	memory->picture = calloc(1, sizeof(*memory->picture));
	if (!memory->picture)
		return -ENOMEM;
	held_draw(&memory->held, memory->since_ns, memory->step_ns, (uint32_t)columns,
		  memory->picture);
	return 0;
}

static bool is_shown(const void *data, uint32_t process)
{
	const struct held_picture *picture = data;
	uint32_t i = 0;

	while (i < picture->layers && picture->layer[i]->process != process)
		i++;
	return i < picture->layers;
}

/* What the loss of an allocation made less than nothing is nothing. */
static void write_values(const struct memory *memory, uint32_t place, FILE *out)
{
	const struct held_picture *picture = memory->picture;
	uint32_t columns = (uint32_t)memory->columns;

	fprintf(out, "\"count\":%" PRId64 ",\"bytes\":[", picture->count[columns - 1][place]);
	for (uint32_t i = 0; i < columns; i++)
		fprintf(out, "%s%" PRId64, i ? "," : "",
			picture->bytes[i][place] > 0 ? picture->bytes[i][place] : 0);
	fputs("]}", out);
}

static int write_layers(const struct memory *memory, FILE *out)
{
	const struct held_picture *picture = memory->picture;
	int r = 0;

	fputs("\"layers\":[", out);
	for (uint32_t i = 0; r >= 0 && i < picture->layers; i++) {
		const struct held_layer *layer = picture->layer[i];

		/* The id is text: a number of JavaScript has no room for it. */
		fprintf(out,
			"%s\n{\"process\":%" PRIu32 ",\"path\":\"%" PRId64 "\",\"most\":%" PRId64
			",",
			i ? "," : "", layer->process, layer->path, layer->most);
		if (layer->path)
			r = label_stack(memory->link, layer->path, FRAMES_MAX, out);
		write_values(memory, i, out);
	}
	fprintf(out, "],\n\"others\":{\"layers\":%" PRIu32 ",", picture->others);
	write_values(memory, HELD_LAYERS_MAX, out);
	return r;
}

static int write_memory(const struct web_request *request, struct link *link, FILE *out)
{
	_cleanup_(memory_done) struct memory memory = { .link = link };
	int r = read_window(request, &memory);

	if (r == 0)
		r = read_events(&memory);
	if (r < 0)
		return r;
	fprintf(out,
		"{\"since\":%" PRIu64 ",\"step_ns\":%" PRIu64 ",\"columns\":%" PRId64
		",\"most\":%" PRId64 ",\"most_ns\":%" PRIu64 ",",
		memory.since_ns, memory.step_ns, memory.columns, memory.picture->most,
		memory.picture->most_ns);
	r = label_processes(link, memory.since_ns, memory.until_ns, is_shown, memory.picture, out);
	if (r >= 0)
		r = write_layers(&memory, out);
	fputs("}\n", out);
	return r < 0 ? r : 0;
}

void memory_layers(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_memory);
}
