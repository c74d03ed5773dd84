/* Names: three arrays of strings, read once when a connection first needs them. */
#include "core/store/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/sql.h"

#define NUMBERS_MAX 65536

struct names {
	struct list {
		struct name_text *name;
		uint32_t count;
	} list[NAMES_COUNT];
};

CLEANUP_DEFINE(struct names, names_free)

static const char *const texts[NAMES_COUNT] = {
	[NAMES_KIND] = "SELECT id, name FROM kind ORDER BY 1 DESC",
	[NAMES_FUNCTION] = "SELECT id, name FROM function ORDER BY 1 DESC",
	[NAMES_DETAIL] = "SELECT kind << 8 | id, name FROM detail ORDER BY 1 DESC",
};

/* The highest number comes first, so that the first row gives the length of the list. */
static int add_name(struct list *list, int64_t number, const char *text)
{
	struct name_text *name;

	if (number < 0 || number >= NUMBERS_MAX || !text)
		return 0; /* no op has it */
	if (!list->name) {
		list->count = (uint32_t)number + 1;
		list->name = calloc(list->count, sizeof(*list->name));
	}
	name = list->name ? &list->name[number] : NULL;
	if (name && name->text)
		return 0; /* a detail of one kind may look like that of another */
	if (!name || !(name->text = strdup(text)))
		return -ENOMEM;
	name->size = (int)strlen(text);
	return 0;
}

static int load_list(sqlite3 *db, const char *sql, struct list *list)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db, sql, &stmt), code = SQLITE_DONE;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		r = add_name(list, sqlite3_column_int64(stmt, 0),
			     (const char *)sqlite3_column_text(stmt, 1));
	return r == 0 && code != SQLITE_DONE ? sql_error(db) : r;
}

int names_load(sqlite3 *db, struct names **ret)
{
	_cleanup_(names_freep) struct names *names = calloc(1, sizeof(*names));
	int r = names ? 0 : -ENOMEM;

	for (int i = 0; r == 0 && i < NAMES_COUNT; i++)
		r = load_list(db, texts[i], &names->list[i]);
	if (r < 0)
		return r;
	*ret = TAKE(names);
	return 0;
}

struct names *names_free(struct names *names)
{
	for (int i = 0; names && i < NAMES_COUNT; i++) {
		for (uint32_t k = 0; k < names->list[i].count && names->list[i].name; k++)
			free((char *)names->list[i].name[k].text);
		free(names->list[i].name);
	}
	free(names);
	return NULL;
}

const struct name_text *names_get(const struct names *names, enum names_list list, uint32_t number)
{
	const struct list *l = &names->list[list];

	return number < l->count && l->name[number].text ? &l->name[number] : NULL;
}
