/* fill.h: puts values in the places of a statement: ":name" in it becomes the value of that name.
 */
#ifndef TS_CLIENT_FLEET_FILL_H
#define TS_CLIENT_FLEET_FILL_H

#include <stdbool.h>

struct fill {
	const char *name;
	const char *value;
	bool text; /* becomes a string of SQL; else it is SQL as it stands */
};

/* `fills` ends with a row without a name. To be freed; NULL: no memory. */
char *fill_in(const char *statement, const struct fill *fills);

#endif
