/* Why: a sentence may quote what other programs wrote. */
#include "client/ship/why.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"

int why_fail(char why[WHY_BYTES], int error, const char *format, ...)
{
	char text[WHY_BYTES / 3];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	utf8_visible(why, text, strlen(text));
	return error;
}
