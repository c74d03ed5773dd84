/* Fill: replaces names, and quotes what is data. */
#include "client/fleet/fill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

static void put_text(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('\'', out);
}

static const struct fill *find(const struct fill *fills, const char *name, size_t length)
{
	for (; fills->name; fills++)
		if (strlen(fills->name) == length && memcmp(fills->name, name, length) == 0)
			return fills;
	return NULL;
}

char *fill_in(const char *statement, const struct fill *fills)
{
	const struct fill *fill;
	char *text = NULL;
	size_t size = 0, length;
	FILE *out = text_open(&text, &size);

	if (!out)
		return NULL;
	for (const char *at = statement; *at; at++) {
		length = *at == ':' ? strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
		fill = length ? find(fills, at + 1, length) : NULL;
		if (!fill) {
			fputc(*at, out);
			continue;
		}
		if (fill->text)
			put_text(out, fill->value);
		else
			fputs(fill->value, out);
		at += length;
	}
	if (text_close(out) == 0)
		return text;
	free(text);
	return NULL;
}
