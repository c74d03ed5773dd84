/* Tsv: ClickHouse's format TabSeparatedWithNamesAndTypes. */
#include "client/fleet/tsv.h"

#include <errno.h>
#include <string.h>

/* What stands behind a backslash for what; anything else is itself. */
static char unescaped(char c)
{
	static const char letters[] = "btnfr0", meant[] = "\b\t\n\f\r ";
	const char *found = c ? strchr(letters, c) : NULL;

	return found ? meant[found - letters] : c;
}

/* In place; NULL for \N. */
static char *unescape(char *text)
{
	char *to = text;

	if (strcmp(text, "\\N") == 0)
		return NULL;
	for (const char *from = text; *from; from++) {
		if (*from == '\\' && from[1])
			*to++ = unescaped(*++from);
		else
			*to++ = *from;
	}
	*to = '\0';
	return text;
}

/* Takes a line apart: its number of columns, or -EPROTO. */
static int take_line(struct tsv *tsv, char **ret)
{
	char *end = strchr(tsv->at, '\n'), *text = tsv->at;
	size_t count = 0;

	if (!end)
		return -EPROTO;
	*end = '\0';
	tsv->at = end + 1;
	while (text) {
		if (count == TSV_COLUMNS_MAX)
			return -EPROTO;
		ret[count++] = strsep(&text, "\t");
	}
	for (size_t i = 0; i < count; i++)
		ret[i] = unescape(ret[i]);
	return (int)count;
}

int tsv_open(struct tsv *tsv, char *text)
{
	int names, types;

	*tsv = (struct tsv){ .at = text };
	if (!text)
		return -EPROTO;
	names = take_line(tsv, tsv->name);
	types = names < 0 ? names : take_line(tsv, tsv->type);
	if (types < 0 || names != types)
		return -EPROTO;
	tsv->columns = (size_t)names;
	return 0;
}

int tsv_next(struct tsv *tsv)
{
	int count;

	if (!*tsv->at)
		return 0;
	count = take_line(tsv, tsv->cell);
	return count < 0 || (size_t)count != tsv->columns ? -EPROTO : 1;
}
