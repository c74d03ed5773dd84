/* names.h: the names of numbers that ops carry, as in the database. */
#ifndef TS_NAMES_H
#define TS_NAMES_H

#include <sqlite3.h>
#include <stdint.h>

struct names;

enum names_list { NAMES_KIND, NAMES_FUNCTION, NAMES_DETAIL, NAMES_COUNT };

struct name_text {
	const char *text;
	int size;
};

int names_load(sqlite3 *db, struct names **ret);
struct names *names_free(struct names *names);

/* NULL: the number has no name. */
const struct name_text *names_get(const struct names *names, enum names_list list, uint32_t number);

/* The number of a detail, which means something else in each kind. */
static inline uint32_t names_detail(uint8_t kind, uint8_t detail)
{
	return (uint32_t)kind << 8 | detail;
}

#endif
