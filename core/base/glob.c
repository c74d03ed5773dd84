/* Glob: on a mismatch only the last '*' is tried again, one character further: whatever an earlier
 * one could stand for, the last can make up for. */
#include "core/base/glob.h"

#include <stddef.h>
#include <string.h>

/* Moves past a character of UTF-8. */
static const char *next(const char *at)
{
	for (at++; (*at & 0xc0) == 0x80; at++)
		;
	return at;
}

/* The part of a pattern up to `end`, as if it had a '*' at either side. */
static bool find(const char *part, const char *end, const char *text)
{
	const char *star = part, *retry = text;

	while (part < end) {
		if (*part == '*') {
			star = ++part;
			retry = text;
		} else if (*text && (*part == '?' || *part == *text)) {
			text = *part++ == '?' ? next(text) : text + 1;
		} else if (*retry) {
			part = star;
			text = ++retry;
		} else {
			return false;
		}
	}
	return true;
}

bool glob_find(const char *pattern, const char *text)
{
	const char *end;

	for (;; pattern = end + 1) {
		end = strchrnul(pattern, '|');
		if (find(pattern, end, text))
			return true;
		if (!*end)
			return false;
	}
}
