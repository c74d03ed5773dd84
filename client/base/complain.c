/* Complain: prints every error message, or keeps it for the caller. */
#include "client/base/complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/utf8.h"

static _Thread_local char *into;

void complain_into(char text[COMPLAINT_BYTES])
{
	into = text;
}

int complain(const char *format, ...)
{
	_cleanup_(freep) char *text = NULL, *clean = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		clean = malloc(3 * strlen(text) + 1);
	if (clean)
		utf8_visible(clean, text, strlen(text));
	if (into)
		snprintf(into, COMPLAINT_BYTES, "%s", clean ? clean : "Not enough memory");
	else
		fprintf(stderr, "tsctl: %s\n", clean ? clean : "Not enough memory");
	return EXIT_FAILED;
}
