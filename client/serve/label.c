/* Label: asks for what is shown, and no more. */
#include "client/serve/label.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/link/rows.h"
#include "client/output/json.h"
#include "core/base/utf8.h"

#define FRAME_BYTES 160
#define ELLIPSIS    "\xe2\x80\xa6"

struct listing {
	FILE *out;
	label_wanted *wanted;
	const void *data;
	size_t frames_max;
	bool any;
};

static int list_process(void *data, const Tracesmith__V1__Row *row)
{
	struct listing *listing = data;

	if (row->n_value != 3)
		return -EPROTO;
	if (!listing->wanted(listing->data, (uint32_t)rows_integer(row->value[0])))
		return 0;
	fprintf(listing->out, "%s\"%" PRId64 "\":[%" PRId64 ",", listing->any ? "," : "",
		rows_integer(row->value[0]), rows_integer(row->value[1]));
	json_string(listing->out, rows_text(row->value[2]) ? rows_text(row->value[2]) : "");
	fputc(']', listing->out);
	listing->any = true;
	return 0;
}

int label_processes(struct link *link, uint64_t since_ns, uint64_t until_ns, label_wanted *wanted,
		    const void *data, FILE *out)
{
	struct listing listing = { .out = out, .wanted = wanted, .data = data };
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	int r;

	query.name = (char *)"page-processes";
	query.since_ns = since_ns;
	query.until_ns = until_ns;
	fputs("\"processes\":{", out);
	r = rows_ask(link, &query, list_process, &listing);
	fputs("},", out);
	return r;
}

/* Cut between characters: names of C++ may have thousands. */
static void write_frame(FILE *out, const char *frame)
{
	char text[3 * FRAME_BYTES + sizeof(ELLIPSIS)];
	size_t size = strnlen(frame, FRAME_BYTES + 1), length;
	bool cut = size > FRAME_BYTES;

	if (cut)
		size = FRAME_BYTES;
	while (cut && size > 0 && ((unsigned char)frame[size] & 0xc0) == 0x80)
		size--;
	length = utf8_visible(text, frame, size);
	if (cut)
		memcpy(text + length, ELLIPSIS, sizeof(ELLIPSIS));
	json_string(out, text);
}

static int list_stack(void *data, const Tracesmith__V1__Row *row)
{
	const struct listing *listing = data;
	const Tracesmith__V1__Stack *stack;

	if (row->n_value != 2)
		return -EPROTO;
	stack = row->value[1]->value_case == TRACESMITH__V1__VALUE__VALUE_STACK
			? row->value[1]->stack
			: NULL;
	fputs("\"where\":", listing->out);
	write_frame(listing->out, rows_text(row->value[0]) ? rows_text(row->value[0]) : "");
	fputs(",\"stack\":[", listing->out);
	for (size_t i = 0; stack && i < stack->n_frame && i < listing->frames_max; i++) {
		if (i)
			fputc(',', listing->out);
		write_frame(listing->out, stack->frame[i]);
	}
	fputs("],", listing->out);
	return 0;
}

int label_stack(struct link *link, int64_t stack, size_t frames_max, FILE *out)
{
	struct listing listing = { .out = out, .frames_max = frames_max };
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)"page-stack";
	query.limit = 1;
	query.after_given_case = TRACESMITH__V1__QUERY_REQUEST__AFTER_GIVEN_AFTER;
	query.after = stack;
	return rows_ask(link, &query, list_stack, &listing);
}
