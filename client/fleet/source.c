/* Source: the files, as the build put them here. */
#include "client/fleet/source.h"

#include <string.h>

#define FLEET_FILE(name, text) { name, text },

const struct source source_steps[] = {
#include "client/fleet/steps.h"
	{ 0 },
};

const struct source source_queries[] = {
#include "client/fleet/queries.h"
	{ 0 },
};

const char *source_statement(const struct source *source)
{
	const char *text = source->text;

	while (strncmp(text, "--", 2) == 0 && strchr(text, '\n'))
		text = strchr(text, '\n') + 1;
	return text;
}

const char *source_query(const char *name)
{
	for (const struct source *source = source_queries; source->name; source++)
		if (strcmp(source->name, name) == 0)
			return source_statement(source);
	return NULL;
}
