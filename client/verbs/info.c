/* tsctl info: describes a recording and its contents, from the recording itself. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/export/items.h"
#include "client/link/link.h"
#include "client/link/rows.h"
#include "client/verbs/command.h"
#include "core/base/arena.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"

struct info {
	struct arena arena;
	Tracesmith__V1__StatusReply__Item **item;
	size_t count, room;
	int64_t wall_offset_ns;
};

static void info_done(struct info *info)
{
	arena_clear(&info->arena);
	free(info->item);
}

static char *keep_text(struct info *info, const char *text)
{
	char *out = arena_get(&info->arena, 3 * strlen(text) + 1);

	if (out)
		utf8_visible(out, text, strlen(text));
	return out;
}

static Tracesmith__V1__StatusReply__Item *add(struct info *info, const char *section,
					      const char *name, const char *value)
{
	Tracesmith__V1__StatusReply__Item *item;

	if (VECTOR_ROOM(info->item, info->room, info->count + 1) < 0)
		return NULL;
	item = arena_get(&info->arena, sizeof(*item));
	if (!item)
		return NULL;
	tracesmith__v1__status_reply__item__init(item);
	item->section = keep_text(info, section);
	item->name = keep_text(info, name);
	item->value = keep_text(info, value);
	if (!item->section || !item->name || !item->value)
		return NULL;
	info->item[info->count++] = item;
	return item;
}

static const char *format(const struct info *info, const char *unit, int64_t number,
			  char buffer[UNITS_TEXT_SIZE])
{
	if (strcmp(unit, "time") == 0)
		return units_time(buffer, (int64_t)((uint64_t)number + info->wall_offset_ns));
	if (strcmp(unit, "ns") == 0)
		return units_nanoseconds(buffer, number);
	if (strcmp(unit, "bytes") == 0)
		return units_bytes(buffer, number);
	snprintf(buffer, UNITS_TEXT_SIZE, "%" PRId64, number);
	return buffer;
}

/* Section, name, unit, value. */
static int take_row(struct info *info, const Tracesmith__V1__Row *row)
{
	Tracesmith__V1__StatusReply__Item *item;
	const Tracesmith__V1__Value *value;
	char buffer[UNITS_TEXT_SIZE];

	if (row->n_value != 4)
		return -EPROTO;
	for (int i = 0; i < 3; i++)
		if (row->value[i]->value_case != TRACESMITH__V1__VALUE__VALUE_TEXT)
			return -EPROTO;
	value = row->value[3];
	if (value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER) {
		item = add(info, row->value[0]->text, row->value[1]->text,
			   format(info, row->value[2]->text, value->integer, buffer));
		if (!item)
			return -ENOMEM;
		item->is_number = true;
		item->number = value->integer;
	} else if (value->value_case == TRACESMITH__V1__VALUE__VALUE_TEXT) {
		item = add(info, row->value[0]->text, row->value[1]->text, value->text);
		if (!item)
			return -ENOMEM;
		item->warning = strcmp(row->value[2]->text, "warning") == 0;
	}
	return 0;
}

static int take_losses(struct info *info, const Tracesmith__V1__Done *done)
{
	for (size_t i = 0; i < done->n_loss; i++) {
		Tracesmith__V1__StatusReply__Item *item;
		char buffer[UNITS_TEXT_SIZE];

		snprintf(buffer, sizeof(buffer), "%" PRIu64, done->loss[i]->count);
		item = add(info, "loss", done->loss[i]->reason, buffer);
		if (!item)
			return -ENOMEM;
		item->is_number = item->warning = true;
		item->number = (int64_t)done->loss[i]->count;
	}
	return 0;
}

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct info *info = data;
	int r = 0;

	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = take_row(info, reply->rows->row[i]);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE)
		r = take_losses(info, reply->done);
	if (r < 0)
		complain("Cannot interpret the recording: %s", strerror(-r));
	return r;
}

static int no_row(void *data, const Tracesmith__V1__Row *row)
{
	return 0;
}

/* A chunk is checked when it is read: read them all to find the damaged ones. */
static int verify(struct link *link)
{
	return rows_query(link, "chunk-check", 1, no_row, NULL);
}

static int load(struct info *info, struct link *link)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)"info-contents";
	info->wall_offset_ns = link_hello(link)->wall_offset_ns;
	return link_converse(link, &query.base, take, info, NULL);
}

int cmd_info(const struct options *given, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(info_done) struct info info = { 0 };
	Tracesmith__V1__StatusReply items = TRACESMITH__V1__STATUS_REPLY__INIT;
	struct options options = *given;
	int r;

	options.file = argument[0];
	if (link_open(&options, &link) < 0 || verify(link) < 0 || load(&info, link) < 0)
		return EXIT_FAILED;
	items.item = info.item;
	items.n_item = info.count;
	r = items_write(&options, "info", &items);
	return r < 0 ? complain("Cannot write the contents: %s", strerror(-r)) : EXIT_DONE;
}
