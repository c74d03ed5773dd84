/* Status: the lines that the daemon's parts add to a status reply.
 * Every item and its strings belong to the builder. */
#include "daemon/api/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/vector.h"

static void item_free(Tracesmith__V1__StatusReply__Item *item)
{
	if (!item)
		return;
	free(item->section);
	free(item->name);
	free(item->value);
	free(item);
}
CLEANUP_DEFINE(Tracesmith__V1__StatusReply__Item, item_free)

void status_done(struct status_builder *builder)
{
	for (size_t i = 0; i < builder->count; i++)
		item_free(builder->item[i]);
	free(builder->item);
	*builder = (struct status_builder){ 0 };
}

__attribute__((format(printf, 5, 0))) static Tracesmith__V1__StatusReply__Item *add(
	struct status_builder *builder, const char *section, const char *name, bool warning,
	const char *format, va_list ap)
{
	_cleanup_(item_freep) Tracesmith__V1__StatusReply__Item *item = malloc(sizeof(*item));

	if (!item)
		goto fail;
	tracesmith__v1__status_reply__item__init(item);
	item->section = strdup(section);
	item->name = strdup(name);
	if (vasprintf(&item->value, format, ap) < 0)
		item->value = NULL;
	item->warning = warning;
	if (!item->section || !item->name || !item->value ||
	    VECTOR_ROOM(builder->item, builder->room, builder->count + 1) < 0)
		goto fail;
	builder->item[builder->count++] = item;
	return TAKE(item);
fail:
	builder->failed = true;
	return NULL;
}

void status_text(struct status_builder *builder, const char *section, const char *name,
		 bool warning, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add(builder, section, name, warning, format, ap);
	va_end(ap);
}

void status_number(struct status_builder *builder, const char *section, const char *name,
		   bool warning, int64_t number, const char *format, ...)
{
	Tracesmith__V1__StatusReply__Item *item;
	va_list ap;

	va_start(ap, format);
	item = add(builder, section, name, warning, format, ap);
	va_end(ap);
	if (!item)
		return;
	item->number = number;
	item->is_number = true;
}

bool status_names_all(const struct status_builder *builder)
{
	return !builder->own;
}

bool status_names_user(const struct status_builder *builder, uint32_t user)
{
	return !builder->own || builder->user == user;
}
