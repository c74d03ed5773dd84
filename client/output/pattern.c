/* Pattern: looks at an expression before the C library does. What is wrong with its syntax is left
 * to the library, which says it better. */
#include "client/output/pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan {
	const char *at;
	bool refers; /* back to what was found */
	/* Of each group that is open: what it has so far. The last of these is repeated next. */
	uint64_t places[PATTERN_BYTES_MAX + 1];
	uint64_t last;
	size_t depth;
};

/* Not so much that the next product overflows. */
static uint64_t bounded(uint64_t places)
{
	return places < UINT32_MAX ? places : UINT32_MAX;
}

static void add(struct scan *scan, uint64_t places)
{
	scan->last = bounded(places);
	scan->places[scan->depth] = bounded(scan->places[scan->depth] + scan->last);
}

static void repeat(struct scan *scan, uint64_t times)
{
	scan->places[scan->depth] -= scan->last;
	add(scan, scan->last * bounded(times ? times : 1));
}

/* Behind the '[': a ']' at its begin, and those of [:alpha:], [.x.] and [=x=], do not end it. */
static void skip_set(struct scan *scan)
{
	const char *at = scan->at + (*scan->at == '^');

	at += *at == ']';
	while (*at && *at != ']') {
		char of = at[0] == '[' && at[1] && strchr(":.=", at[1]) ? at[1] : '\0';
		const char end[] = { of, ']', '\0' };
		const char *behind = of ? strstr(at + 2, end) : NULL;

		at = behind ? behind + 2 : at + 1;
	}
	scan->at = at + (*at == ']');
}

/* Behind the '{': "3}", "3,}", ",3}" or "1,3}"; what is none of these repeats nothing. */
static void read_interval(struct scan *scan)
{
	const char *at = scan->at;
	char *end;
	uint64_t least = 0, most;

	if (*at >= '0' && *at <= '9') {
		least = strtoull(at, &end, 10);
		at = end;
	}
	most = least;
	if (*at == ',') {
		at++;
		most = bounded(least) + 1; /* the others are one that comes again */
		if (*at >= '0' && *at <= '9') {
			most = strtoull(at, &end, 10);
			at = end;
		}
	}
	if (*at != '}' || at == scan->at) {
		add(scan, 1);
		return;
	}
	scan->at = at + 1;
	repeat(scan, most > least ? most : least);
}

static void close_group(struct scan *scan)
{
	uint64_t places = scan->places[scan->depth];

	if (scan->depth == 0) {
		add(scan, 1);
		return;
	}
	scan->depth--;
	add(scan, places);
}

static void scan_one(struct scan *scan, char c)
{
	switch (c) {
	case '\\':
		scan->refers |= *scan->at >= '1' && *scan->at <= '9';
		scan->at += *scan->at != '\0';
		add(scan, 1);
		break;
	case '[':
		skip_set(scan);
		add(scan, 1);
		break;
	case '(':
		scan->places[++scan->depth] = 1;
		scan->last = 0;
		break;
	case ')':
		close_group(scan);
		break;
	case '{':
		read_interval(scan);
		break;
	case '+':
		repeat(scan, 2); /* it is once, and then any number of times */
		break;
	case '*':
	case '?':
		break;
	default:
		add(scan, 1);
	}
}

static const char *refuse(const char *text)
{
	struct scan scan = { .at = text };
	char c;

	if (strlen(text) > PATTERN_BYTES_MAX)
		return "it is longer than 256 bytes";
	while ((c = *scan.at)) {
		scan.at++;
		scan_one(&scan, c);
	}
	while (scan.depth > 0)
		close_group(&scan);
	if (scan.refers)
		return "it refers back (\\1), which may take forever";
	if (scan.places[0] > PATTERN_PLACES_MAX)
		return "with all repetitions written out it is longer than 1000 characters";
	return NULL;
}

int pattern_compile(const char *text, int flags, regex_t *ret, char why[PATTERN_WHY_BYTES])
{
	const char *refused = refuse(text);
	int code;

	if (refused) {
		snprintf(why, PATTERN_WHY_BYTES, "%s", refused);
		return -EINVAL;
	}
	code = regcomp(ret, text, REG_EXTENDED | REG_NOSUB | flags);
	if (code == 0)
		return 0;
	regerror(code, ret, why, PATTERN_WHY_BYTES);
	return -EINVAL;
}
