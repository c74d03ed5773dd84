/* Complain: prints every error message, or keeps it for the caller. */
#include "client/base/complain.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/utf8.h"

static const char no_memory[] = "Not enough memory";

static _Thread_local char *into;
static atomic_bool memory_failed;

void complain_into(char text[COMPLAINT_BYTES])
{
	into = text;
}

int complain(const char *format, ...)
{
	_cleanup_(freep) char *text = NULL, *clean = NULL;
	va_list ap;

	/* What follows from that says nothing new. */
	if (!into && complain_is_short())
		return EXIT_FAILED;
	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		clean = malloc(3 * strlen(text) + 1);
	if (clean)
		utf8_visible(clean, text, strlen(text));
	if (!clean)
		return complain_memory();
	if (into)
		snprintf(into, COMPLAINT_BYTES, "%s", clean);
	else
		fprintf(stderr, "tsctl: %s\n", clean);
	return EXIT_FAILED;
}

int complain_memory(void)
{
	if (into)
		snprintf(into, COMPLAINT_BYTES, "%s", no_memory);
	else if (!atomic_exchange(&memory_failed, true))
		fprintf(stderr, "tsctl: %s\n", no_memory);
	return EXIT_FAILED;
}

bool complain_is_short(void)
{
	return atomic_load(&memory_failed);
}
