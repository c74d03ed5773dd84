/* Flame: adds up the rows of a query along their stacks. Every node's sum contains those of its
 * children; what is too small for the answer is left out, and still in the sum above it. */
#include "client/serve/flame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/output/json.h"
#include "core/base/array.h"
#include "core/base/map.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"

#define ROWS_MAX    5000
#define FRAMES_MAX  128
#define NODES_MAX   400000
#define NAME_BYTES  120
#define TEXT_MAX    (WEB_BYTES_MAX - 1000)
#define SMALLEST    20000 /* of the whole: narrower than a pixel */
#define BY_STACK    1
#define NAME_UNUSED UINT32_MAX

/* What can be drawn: which column of which query, under which column's name. */
static const struct kind {
	const char *of, *query, *value, *leaf;
	bool windowed, by_stack;
} kinds[] = {
	{ "gpu", "kernels", "total_ns", "name", true, true },
	{ "waits", "syncs", "total_ns", "fn", true, false },
	{ "launches", "launches", "calls", "fn", true, false },
	{ "memory", "memory", "live_bytes", "kind", false, true },
	{ "leaks", "leaks", "bytes", "fn", false, false },
};

struct node {
	uint32_t name, child, next; /* places of nodes; 0: none */
	uint64_t value;
};

struct name {
	char *text;
	uint32_t place; /* in the answer */
};

struct flame {
	struct node *node; /* the first is the root */
	uint32_t nodes, nodes_room;
	struct name *name;
	uint32_t names, names_room;
	struct map named;
	const struct kind *kind;
	size_t value, leaf, pid, comm, stack; /* columns, plus 1 */
	bool cut;
	char *note;
};

static int find_name(struct flame *flame, const char *text, uint32_t *ret)
{
	struct map_key key = map_key_of(text, strlen(text), (uintptr_t)flame);
	uintptr_t at = (uintptr_t)map_get(&flame->named, key);
	size_t size = strnlen(text, NAME_BYTES);
	char *copy;

	if (at) {
		*ret = (uint32_t)(at - 1);
		return 0;
	}
	copy = malloc(3 * size + 1);
	if (!copy || VECTOR_ROOM(flame->name, flame->names_room, flame->names + 1) < 0 ||
	    map_put(&flame->named, key, (void *)(uintptr_t)(flame->names + 1)) < 0) {
		free(copy);
		return -ENOMEM;
	}
	utf8_visible(copy, text, size);
	*ret = flame->names;
	flame->name[flame->names++] = (struct name){ .text = copy };
	return 0;
}

/* Numbers of a recording may be anything. */
static void add_to(struct node *node, uint64_t value)
{
	if (__builtin_add_overflow(node->value, value, &node->value))
		node->value = UINT64_MAX;
}

static int find_child(struct flame *flame, uint32_t parent, const char *text, uint64_t value,
		      uint32_t *ret)
{
	uint32_t name, at;
	int r = find_name(flame, text, &name);

	if (r < 0)
		return r;
	at = flame->node[parent].child;
	while (at && flame->node[at].name != name)
		at = flame->node[at].next;
	if (!at) {
		if (flame->nodes >= NODES_MAX) {
			flame->cut = true;
			return 0;
		}
		if (VECTOR_ROOM(flame->node, flame->nodes_room, flame->nodes + 1) < 0)
			return -ENOMEM;
		at = flame->nodes++;
		flame->node[at] = (struct node){ .name = name, .next = flame->node[parent].child };
		flame->node[parent].child = at;
	}
	add_to(&flame->node[at], value);
	*ret = at;
	return 0;
}

static const Tracesmith__V1__Value *cell(const Tracesmith__V1__Row *row, size_t column)
{
	return column && column <= row->n_value ? row->value[column - 1] : NULL;
}

static const char *cell_text(const Tracesmith__V1__Row *row, size_t column)
{
	const Tracesmith__V1__Value *value = cell(row, column);

	return value && value->value_case == TRACESMITH__V1__VALUE__VALUE_TEXT ? value->text : NULL;
}

static int64_t cell_number(const Tracesmith__V1__Row *row, size_t column)
{
	const Tracesmith__V1__Value *value = cell(row, column);

	return value && value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER ? value->integer
										  : 0;
}

/* The process, its code from the outermost frame on, and what was done there. */
static int add_row(struct flame *flame, const Tracesmith__V1__Row *row)
{
	const Tracesmith__V1__Value *value = cell(row, flame->stack);
	const Tracesmith__V1__Stack *stack =
		value && value->value_case == TRACESMITH__V1__VALUE__VALUE_STACK ? value->stack
										 : NULL;
	const char *comm = cell_text(row, flame->comm), *leaf = cell_text(row, flame->leaf);
	size_t frames = stack && stack->n_frame < FRAMES_MAX ? stack->n_frame
			: stack				     ? FRAMES_MAX
							     : 0;
	int64_t sum = cell_number(row, flame->value);
	char process[96];
	uint32_t at = 0;
	int r;

	if (sum <= 0)
		return 0;
	add_to(&flame->node[0], (uint64_t)sum);
	snprintf(process, sizeof(process), "%" PRId64 " %s", cell_number(row, flame->pid),
		 comm ? comm : "");
	r = find_child(flame, at, process, (uint64_t)sum, &at);
	for (size_t i = frames; r == 0 && i > 0; i--)
		r = find_child(flame, at, stack->frame[i - 1], (uint64_t)sum, &at);
	if (r == 0 && !frames)
		r = find_child(flame, at, "(no stack)", (uint64_t)sum, &at);
	return r < 0 ? r : find_child(flame, at, leaf ? leaf : "?", (uint64_t)sum, &at);
}

static void find_columns(struct flame *flame, const Tracesmith__V1__Columns *columns)
{
	const struct {
		const char *name;
		size_t *place;
	} wanted[] = {
		{ flame->kind->value, &flame->value },
		{ flame->kind->leaf, &flame->leaf },
		{ "pid", &flame->pid },
		{ "comm", &flame->comm },
		{ "stack", &flame->stack },
	};

	for (size_t i = 0; i < columns->n_column; i++)
		for (size_t k = 0; k < ARRAY_SIZE(wanted); k++)
			if (strcmp(columns->column[i]->name, wanted[k].name) == 0)
				*wanted[k].place = i + 1;
}

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct flame *flame = data;
	int r = 0;

	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_COLUMNS)
		find_columns(flame, reply->columns);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = add_row(flame, reply->rows->row[i]);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE) {
		flame->cut |= reply->done->truncated;
		flame->note = strdup(reply->done->note ? reply->done->note : "");
		r = flame->note ? 0 : -ENOMEM;
	}
	return r;
}

struct walk {
	FILE *out;
	uint64_t least;
	uint32_t names; /* so far */
	bool any;
};

/* As deep as stacks are. */
static void write_node(struct flame *flame, struct walk *walk, uint32_t at, uint32_t depth)
{
	struct node *node = &flame->node[at];
	struct name *name = &flame->name[node->name];

	if (node->value < walk->least)
		return;
	if (name->place == NAME_UNUSED)
		name->place = walk->names++;
	fprintf(walk->out, "%s%" PRIu32 ",%" PRIu32 ",%" PRIu64, walk->any ? "," : "", depth,
		name->place, node->value);
	walk->any = true;
	for (uint32_t child = node->child; child; child = flame->node[child].next)
		write_node(flame, walk, child, depth + 1);
}

static int write_names(const struct flame *flame, struct walk *walk)
{
	_cleanup_(freep) const char **text = calloc(walk->names + 1, sizeof(*text));

	if (!text)
		return -ENOMEM;
	for (uint32_t i = 0; i < flame->names; i++)
		if (flame->name[i].place != NAME_UNUSED)
			text[flame->name[i].place] = flame->name[i].text;
	for (uint32_t i = 0; i < walk->names; i++) {
		if (i)
			fputc(',', walk->out);
		json_string(walk->out, text[i]);
	}
	return 0;
}

/* With what is at least so large. */
static int render(struct flame *flame, uint64_t least, char **ret, size_t *ret_size)
{
	struct walk walk = { .out = text_open(ret, ret_size), .least = least };
	int r;

	if (!walk.out)
		return -ENOMEM;
	for (uint32_t i = 0; i < flame->names; i++)
		flame->name[i].place = NAME_UNUSED;
	fprintf(walk.out,
		"{\"of\":\"%s\",\"total\":%" PRIu64 ",\"least\":%" PRIu64 ",\"cut\":%s,\"note\":",
		flame->kind->of, flame->node[0].value, least, flame->cut ? "true" : "false");
	json_string(walk.out, flame->note ? flame->note : "");
	fputs(",\"nodes\":[", walk.out);
	for (uint32_t child = flame->node[0].child; child; child = flame->node[child].next)
		write_node(flame, &walk, child, 0);
	fputs("],\"names\":[", walk.out);
	r = write_names(flame, &walk);
	fputs("]}\n", walk.out);
	return text_close(walk.out) < 0 ? -ENOMEM : r;
}

static int write_tree(struct flame *flame, FILE *out)
{
	uint64_t least = 1 + flame->node[0].value / SMALLEST;
	int r;

	do {
		_cleanup_(freep) char *text = NULL;
		size_t size = 0;

		r = render(flame, least, &text, &size);
		if (r == 0 && size <= TEXT_MAX) {
			fwrite(text, 1, size, out);
			return 0;
		}
		least *= 2;
	} while (r == 0 && least && least <= flame->node[0].value);
	if (r < 0)
		return r;
	complain("The answer is too long: ask for less of it");
	return -E2BIG;
}

static void flame_done(struct flame *flame)
{
	for (uint32_t i = 0; i < flame->names; i++)
		free(flame->name[i].text);
	free(flame->name);
	free(flame->node);
	free(flame->note);
	map_clear(&flame->named);
}

static int read_query(const struct web_request *request, struct link *link, struct flame *flame)
{
	uint64_t now_ns = link_hello(link)->now_ns;
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	int64_t pid = 0;
	int r = web_number(request, "pid", &pid);

	if (r == 0 && flame->kind->windowed)
		r = web_period(request, now_ns, &query.since_ns, &query.until_ns);
	if (r < 0)
		return r;
	query.name = (char *)flame->kind->query;
	query.pid = pid > 0 && pid <= INT32_MAX ? (uint32_t)pid : 0;
	query.limit = ROWS_MAX;
	query.by = flame->kind->by_stack ? BY_STACK : 0;
	return link_converse(link, &query.base, take, flame, NULL);
}

static int write_flame(const struct web_request *request, struct link *link, FILE *out)
{
	const char *of = web_argument(request, "of");
	struct flame flame = { .nodes = 1,
			       .nodes_room = 1,
			       .node = calloc(1, sizeof(*flame.node)) };
	int r = flame.node ? 0 : -ENOMEM;

	for (size_t i = 0; of && i < ARRAY_SIZE(kinds); i++)
		if (strcmp(of, kinds[i].of) == 0)
			flame.kind = &kinds[i];
	if (r == 0 && !flame.kind) {
		complain("'of' must be gpu, waits, launches, memory or leaks");
		r = -EINVAL;
	}
	if (r == 0)
		r = read_query(request, link, &flame);
	if (r == 0)
		r = write_tree(&flame, out);
	flame_done(&flame);
	return r;
}

void flame_graph(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_flame);
}
