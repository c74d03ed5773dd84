/* Replay name: names are few and changes are many, so each name is escaped and matched only
 * once. */
#include "client/replay/name.h"

#include <stdio.h>
#include <string.h>

#include "client/output/json.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

static int name_write(const struct replay_names *names, struct replay_name *name, const char *text)
{
	size_t size = strlen(text);
	FILE *out;

	name->wanted = !names->wanted || regexec(names->wanted, text, 0, NULL, 0) == 0;
	if (!names->json) {
		name->text = malloc(3 * size + 1);
		if (!name->text)
			return -1;
		name->size = (uint32_t)utf8_visible(name->text, text, size);
		return 0;
	}
	out = text_open(&name->text, &size);
	if (!out)
		return -1;
	json_string(out, text);
	if (text_close(out) < 0)
		return -1;
	name->size = (uint32_t)size;
	return 0;
}

static const struct replay_name *name_get(const struct replay_names *names,
					  struct replay_name *name, const char *text)
{
	if (!name->text && name_write(names, name, text) < 0)
		return NULL;
	return name;
}

static bool names_grow(struct replay_names *names, uint32_t number)
{
	uint32_t room = names->meta->text_count + 1;
	struct replay_name *more;

	if (number < names->room)
		return true;
	more = reallocarray(names->text, room, sizeof(*more));
	if (!more)
		return false;
	memset(more + names->room, 0, (room - names->room) * sizeof(*more));
	names->text = more;
	names->room = room;
	return number < room;
}

const struct replay_name *replay_name_of(struct replay_names *names, const struct replay_op *op)
{
	const char *copy = replay_copy_name(op);
	const struct meta_text *text = NULL;

	if (copy)
		return name_get(names, &names->copy[op->detail <= COPY_KIND_MAX ? op->detail : 0],
				copy);
	if (op->name)
		text = meta_name(names->meta, op->name);
	if (!text)
		text = meta_function(names->meta, op->fn);
	if (!text)
		return name_get(names, &names->none, "");
	if (!names_grow(names, text->number))
		return NULL;
	return name_get(names, &names->text[text->number], text->text);
}

void replay_names_clear(struct replay_names *names)
{
	free(names->none.text);
	for (size_t i = 0; i <= COPY_KIND_MAX; i++)
		free(names->copy[i].text);
	for (uint32_t i = 0; i < names->room; i++)
		free(names->text[i].text);
	free(names->text);
	*names = (struct replay_names){ 0 };
}
